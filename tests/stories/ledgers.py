"""Ledgers as they would be had something been otherwise when the reference was measured."""

from infrarsi.store.ledger import open_ledger, read_ledger


def rewrite_baseline(user, change):
    """Write a user's ledger anew, with what `change` makes of the body of each baseline."""
    folder = user.root / ".infrarsi"
    events = read_ledger(folder).events
    (folder / "ledger.jsonl").unlink()
    with open_ledger(folder, command="test") as ledger:
        for event in events:
            body = dict(event.body)
            ledger.append(event.kind, change(body) if event.kind == "baseline" else body)
