"""What data sheets say of accelerators: the constants of the formulas.

Sources: NVIDIA's data sheets of V100, T4, A10, A30, A40, A100, L4, L40S, H100, H200, B200, RTX
A6000 and GeForce RTX 3090 and 4090; AMD's of MI250X and MI300X. Matrix peak is dense bfloat16
(float16 on V100 and T4), without sparsity. Links are counted one way: NVLink's published figure
is for both. The network of a node is that of the vendor's own systems (DGX: one adapter a GPU;
100 Gbit/s with V100, 200 with A100, 400 with H100 and later), else 100 Gbit/s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_GB = 1e9


@dataclass(frozen=True)
class Hardware:
    """One accelerator and what it is connected by; all figures are peaks.

    Attributes
    ----------
    flops
        Matrix operations a second.
    memory_bw, link_bw, network_bw
        Bytes a second: of its memory, to another GPU of the node, and to another node.
    """

    flops: float
    memory_bw: float
    link_bw: float
    network_bw: float


def _hardware(teraflops: float, memory: float, link: float, network: float) -> Hardware:
    return Hardware(teraflops * 1e12, memory * _GB, link * _GB, network * _GB)


_SHEETS = {
    "H100PCIE": _hardware(756, 2000, 64, 50),
    "H100NVL": _hardware(835, 3900, 300, 50),
    "H100": _hardware(989, 3350, 450, 50),
    "H800": _hardware(989, 3350, 200, 50),
    "H20": _hardware(148, 4000, 450, 50),
    "H200": _hardware(989, 4800, 450, 50),
    "GH200": _hardware(989, 4000, 450, 50),
    "B200": _hardware(2250, 8000, 900, 50),
    "GB200": _hardware(2500, 8000, 900, 50),
    "B100": _hardware(1750, 8000, 900, 50),
    "A10040": _hardware(312, 1555, 300, 25),
    "A100PCIE": _hardware(312, 1935, 32, 25),
    "A100": _hardware(312, 2039, 300, 25),
    "A800": _hardware(312, 2039, 200, 25),
    "A30": _hardware(165, 933, 32, 12.5),
    "A40": _hardware(150, 696, 32, 12.5),
    "A10G": _hardware(70, 600, 32, 12.5),
    "A10": _hardware(125, 600, 32, 12.5),
    "A6000": _hardware(155, 768, 32, 12.5),
    "L40S": _hardware(362, 864, 32, 12.5),
    "L40": _hardware(181, 864, 32, 12.5),
    "L4": _hardware(121, 300, 32, 12.5),
    "V100": _hardware(125, 900, 150, 12.5),
    "T4": _hardware(65, 320, 16, 12.5),
    "RTX4090": _hardware(165, 1008, 32, 12.5),
    "RTX3090": _hardware(71, 936, 32, 12.5),
    "MI300X": _hardware(1307, 5300, 448, 50),
    "MI250": _hardware(383, 3277, 100, 25),
}
"""By name in capitals, letters and digits alone."""

_UNKNOWN = _SHEETS["A100"]
"""For a name that is not listed: searches compare configurations on one device, and its ratios of
arithmetic, memory and links are typical."""


def hardware_of(name: str) -> Hardware:
    """Give the figures of an accelerator by its name, as tools print it."""
    capitals = name.upper()
    small_a100 = re.search(r"A100.*(?<![A-Z0-9])40 ?GI?B", capitals)
    plain = re.sub(r"(?<![A-Z0-9])\d+ ?GI?B", "", capitals)
    plain = re.sub(r"[^A-Z0-9]", "", plain)
    plain = re.sub(r"SXM\d?|NVIDIA|AMD|TESLA|INSTINCT|GEFORCE", "", plain)
    if small_a100:
        return _SHEETS["A10040"]
    found = [key for key in _SHEETS if key in plain]
    return _SHEETS[max(found, key=len)] if found else _UNKNOWN
