"""The witness: it rides inside the training process and says what it saw.

``inside/`` is the only part that a training interpreter ever imports: put :data:`ENTRY` on
the child's ``PYTHONPATH`` and say where the channel is in ``INFRARSI_WITNESS``. The events
are documented in ``docs/witness-events.md``.
"""

from __future__ import annotations

from pathlib import Path

ENTRY: Path = Path(__file__).resolve().parent / "inside"
"""The folder to put first on the child's ``PYTHONPATH``."""

SCHEMA: int = 1
"""The version of the event schema, and of the configuration."""

VARIABLE: str = "INFRARSI_WITNESS"
"""The environment variable that holds the configuration as JSON; without it nothing happens."""

__all__ = ["ENTRY", "SCHEMA", "VARIABLE"]
