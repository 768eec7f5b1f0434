"""The version of the rules, and what each version brought.

Raise it, with a line, whenever a stored trial might be judged otherwise: that is what
``infrarsi recheck`` groups its findings by. Other words for the same ruling are no new version.
A change that was made without one shows there as a verdict that differs under one version.
"""

from __future__ import annotations

from collections.abc import Mapping

CHANGES: Mapping[int, str] = {
    1: "the first rules",
    2: "the slope over hidden stops is taken from the end of the first update, not from the launch",
    3: "inconclusive: code that acts after the last update seen, marks without a matmul in the "
    "graph, a start that could hold the work of all updates seen; refused: ways to the witness",
    4: "a confirmation replays single updates of the winner through the reference's own code",
    5: "inconclusive: a change of what varies with the number of the update, as a learning rate",
    6: "refused: installed packages that change, and imports of what was not installed so when the "
    "reference was measured; inconclusive: what another draw of random numbers explains",
    7: "refused: what hides behind another name, in the rest of its file too; code that a launch "
    "writes and loads; modules in place of the interpreter's; inconclusive: a start that could "
    "hold what the updates seem to save",
}
"""By version, what it brought; the newest last."""

RULES = max(CHANGES)
"""The version of today's rules."""
