"""Memory: the ledger, the artifacts, the contract and its lock."""
