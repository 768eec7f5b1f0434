"""Where candidate patches come from. Codemods build on `source`, `flow` and `repository`."""
