"""Specimens for the judge: changes of an example that only look faster, and honest ones."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field

from infrarsi.records.base import Record, Scalar
from infrarsi.records.candidate import Edit, Patch
from infrarsi.records.verdict import Layer

CORPUS = Path(__file__).parent
KINDS = frozenset(
    [f"T{i}" for i in range(1, 16)] + [f"W{i}" for i in range(1, 15)]
    + [f"N{i}" for i in range(1, 11)] + [f"I{i}" for i in range(1, 14)] + ["S1", "S2", "H"]
)  # fmt: skip
"""Codes of the kinds of false speedups (timing, workload, numerics, integrity, source); H: honest."""


class Specimen(Record):
    """One change of one example."""

    name: str
    kind: str
    example: Literal["tiny_gpt", "tiny_moe", "hf_trainer", "ddp_gpt"]
    does: str
    """What it does, in a line."""
    layers: tuple[Layer, ...] = ()
    """The layers of which one at least should speak; none for an honest one."""
    edits: tuple[Edit, ...] = ()
    knobs: dict[str, Scalar] = {}
    """Settings that differ from the reference's: the honest part that some false ones ride on."""
    launches: int = Field(default=1, ge=1)
    """The launch that is judged: what is left behind by earlier ones may be what it lives on."""
    unmeasured: str = ""
    """Why it cannot be shown on a CPU, where it cannot."""

    @property
    def honest(self) -> bool:
        """Whether it should be accepted."""
        return self.kind == "H"

    @property
    def patch(self) -> Patch | None:
        """The change of source, as a proposer would hand it in."""
        if not self.edits:
            return None
        return Patch(name=self.name, proposer="corpus", edits=self.edits, summary=self.does)


def read_corpus() -> tuple[Specimen, ...]:
    """Read all specimens, false ones first, by name."""
    found = []
    for folder in ("false", "honest"):
        for place in sorted((CORPUS / folder).glob("*.yaml")):
            found.append(Specimen.model_validate(yaml.safe_load(place.read_text())))
            if found[-1].name != place.stem or found[-1].honest != (folder == "honest"):
                raise ValueError(f"{place} holds {found[-1].name}, {found[-1].kind}")
    return tuple(found)
