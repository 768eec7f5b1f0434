"""What the data sheets of accelerators say, for comparing machines; dense rates, no sparsity.

Sources: NVIDIA's data sheets of V100, T4, A10, A100, L4, L40S, H100, H200 and B200, and the
architecture papers of GeForce RTX 3090 and 4090. ``interconnect`` is NVLink's total of both ways.
"""

from __future__ import annotations

import re

from infrarsi.records.base import Record

_TERA, _GIGA = 1e12, 1e9


class DataSheet(Record):
    """Figures of one accelerator."""

    bandwidth_bytes_s: float
    bfloat16: float | None = None
    """FLOP/s of dense matrix products."""
    float16: float | None = None
    float32: float
    interconnect_bytes_s: float | None = None


def _sheet(
    bandwidth_gb: float, half_tf: float, single_tf: float, *, link_gb: float | None = None,
    has_bfloat16: bool = True,
) -> DataSheet:  # fmt: skip
    return DataSheet(
        bandwidth_bytes_s=bandwidth_gb * _GIGA,
        bfloat16=half_tf * _TERA if has_bfloat16 else None,
        float16=half_tf * _TERA,
        float32=single_tf * _TERA,
        interconnect_bytes_s=link_gb * _GIGA if link_gb else None,
    )


_SHEETS = (
    (r"\bB200\b", _sheet(8000, 2250, 80, link_gb=1800)),
    (r"\bH200\b", _sheet(4800, 989, 67, link_gb=900)),
    (r"\bH100\b.*PCIe", _sheet(2000, 756, 51)),
    (r"\bH100\b.*NVL", _sheet(3900, 835, 60, link_gb=600)),
    (r"\bH100\b", _sheet(3350, 989, 67, link_gb=900)),
    (r"\bA100\b.*80GB", _sheet(2039, 312, 19.5, link_gb=600)),
    (r"\bA100\b", _sheet(1555, 312, 19.5, link_gb=600)),
    (r"\bL40S\b", _sheet(864, 362, 91.6)),
    (r"\bL4\b", _sheet(300, 121, 30.3)),
    (r"\bA10G?\b", _sheet(600, 125, 31.2)),
    (r"\bV100\b", _sheet(900, 125, 15.7, link_gb=300, has_bfloat16=False)),
    (r"\bT4\b", _sheet(320, 65, 8.1, has_bfloat16=False)),
    (r"\bRTX 4090\b", _sheet(1008, 165, 82.6)),
    (r"\bRTX 3090\b", _sheet(936, 71, 35.6, link_gb=113)),
)


def data_sheet(name: str) -> DataSheet | None:
    """Give what is published of an accelerator, by the name that torch has for it."""
    return next((sheet for pattern, sheet in _SHEETS if re.search(pattern, name)), None)
