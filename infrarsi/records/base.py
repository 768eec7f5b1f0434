"""What every record shares: frozen, strict, and identified by its stored bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Self, TypeAlias

from pydantic import BaseModel, ConfigDict

Scalar: TypeAlias = bool | int | float | str | None
"""A value that a knob can take: what YAML and JSON both can say."""


class Record(BaseModel):
    """A frozen value that refuses unknown fields and non-finite numbers."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    def to_bytes(self) -> bytes:
        """Give the canonical JSON of this record: the bytes that are stored and hashed."""
        return canonical_json(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """Read a record back from its stored bytes."""
        return cls.model_validate_json(stored)

    def digest(self) -> str:
        """Give the SHA-256 of the stored bytes, in hexadecimal."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def short_id(self) -> str:
        """Give the first 12 hexadecimal digits of the digest: the name shown to people."""
        return self.digest()[:12]


def canonical_json(value: object) -> bytes:
    """Give the one JSON encoding of a value that hashes are taken over."""
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()
