"""Sampled elements of parameters: so many numbers that they are kept as bytes, not as objects."""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TypeAlias, overload

from pydantic import ConfigDict, PlainSerializer, PlainValidator, TypeAdapter


class Samples(Sequence[tuple[float, ...]]):
    """Sampled elements, one tuple for each parameter in order; all of them finite."""

    __slots__ = ("counts", "flat")

    def __init__(self, flat: array[float], counts: tuple[int, ...]) -> None:
        if sum(counts) != len(flat) or min(counts, default=0) < 0:
            raise ValueError(f"{len(flat)} elements do not match their counts")
        self.flat = flat
        self.counts = counts

    @classmethod
    def of(cls, parts: Any) -> Samples:
        """Take the elements of each parameter in turn.

        Raises
        ------
        ValueError
            They are no finite numbers.
        """
        if isinstance(parts, Samples):
            return parts
        try:
            each = [tuple(part) for part in parts]
            flat = array("d", (value for part in each for value in part))
        except TypeError as error:
            raise ValueError(f"samples must be numbers: {error}") from error
        if not all(map(math.isfinite, flat)):
            raise ValueError("samples must be finite")
        return cls(flat, tuple(map(len, each)))

    @classmethod
    def from_float32(cls, packed: bytes, counts: Iterable[int]) -> Samples:
        """Read little-endian float32; what is not finite reads 0.

        Raises
        ------
        ValueError
            The bytes do not match the counts.
        """
        import numpy as np

        values = np.frombuffer(packed, dtype="<f4")
        finite = np.isfinite(values)
        if not finite.all():
            values = np.where(finite, values, np.float32(0))
        return cls(array("f", values.astype("=f4").tobytes()), tuple(counts))

    @classmethod
    def from_base64(cls, text: str, counts: Iterable[int]) -> Samples:
        """Read little-endian float32 in base64.

        Raises
        ------
        ValueError
            It is no base64, or does not match the counts.
        """
        return cls.from_float32(_decoded(text), counts)

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[tuple[float, ...]]:
        start = 0
        for count in self.counts:
            yield tuple(self.flat[start : start + count])
            start += count

    @overload
    def __getitem__(self, place: int) -> tuple[float, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[tuple[float, ...], ...]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Samples):
            return self.counts == other.counts and self.flat == other.flat
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


_BASE64: TypeAdapter[bytes] = TypeAdapter(bytes, config=ConfigDict(val_json_bytes="base64"))


def _decoded(text: str) -> bytes:
    """Decode base64: by pydantic in a fifth of the library's time, where it is as it should be."""
    try:
        return _BASE64.validate_json(f'"{text}"')
    except ValueError:
        return base64.b64decode(text)


def _as_lists(samples: Iterable[Iterable[float]]) -> list[list[float]]:
    return [list(part) for part in samples]


Sampled: TypeAlias = Annotated[
    Samples,
    PlainValidator(Samples.of),
    PlainSerializer(_as_lists, return_type=list[list[float]]),
]
"""A field that holds samples, and is written as lists of numbers."""
