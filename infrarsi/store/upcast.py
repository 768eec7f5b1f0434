"""Old events in the words of today: a ledger is never rewritten, only read anew.

Each step takes the events of one schema version to the next, so that what a reader meets is
always of the present version. The chain of digests is checked over the stored bytes, before.

To change what an event says: raise ``records.event.SCHEMA_VERSION``, and add the step from the
version before. A new field with a default, or a new kind of event, needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from infrarsi.errors import LedgerError
from infrarsi.records.event import SCHEMA_VERSION

_Stored: TypeAlias = dict[str, Any]


def _from_1(event: _Stored) -> _Stored:
    """Say of a repair what was cut off and where it is kept: version 1 kept nothing."""
    if event["kind"] != "repaired":
        return event
    body = dict(event["body"])
    return {**event, "body": {"cut_bytes": body.pop("torn_bytes"), "kept_as": None, **body}}


STEPS: Mapping[int, Callable[[_Stored], _Stored]] = {1: _from_1}
"""The step from each version to the next."""


def upcast(stored: Mapping[str, Any]) -> _Stored:
    """Give an event of any known version as one of the present version.

    Raises
    ------
    LedgerError
        It was written by a newer InfraRSI.
    """
    event = dict(stored)
    version = event.get("schema_version", 1)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise LedgerError(
            f"the ledger was written by a newer InfraRSI (schema {version}; this one reads up to "
            f"{SCHEMA_VERSION})",
            hint="upgrade InfraRSI (`pip install --upgrade`), then repeat the command",
        )
    for step in range(version, SCHEMA_VERSION):
        event = STEPS[step](event)
    return {**event, "schema_version": SCHEMA_VERSION}
