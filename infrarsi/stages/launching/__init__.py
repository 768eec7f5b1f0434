"""One launch, from a candidate to evidence in the ledger."""
