"""What machine this is, and what its arithmetic peak is, as the training interpreter sees it."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from infrarsi.errors import ReferenceFailedError
from infrarsi.execute.interpreter import ask
from infrarsi.execute.sandbox import Tier
from infrarsi.records.machine import Accelerator, Machine

_ASK = """
said = {"python": platform.python_version(), "torch": None, "cuda": None, "gpus": []}
try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
else:
    said["torch"], said["cuda"] = torch.__version__, torch.version.cuda
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        gpu = torch.cuda.get_device_properties(index)
        said["gpus"].append([gpu.name, gpu.total_memory, "%d.%d" % (gpu.major, gpu.minor)])
answer(said)
"""

_PEAK = """
import time, torch
device = "cuda" if torch.cuda.is_available() else "cpu"
n = 8192 if device == "cuda" else 1536
a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
def once():
    start = time.perf_counter()
    a @ b
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start
for _ in range(3):
    once()
answer({"flops": 2 * n**3 / min(once() for _ in range(12))})
"""


def fingerprint(python: str, tier: Tier) -> Machine:
    """Describe the machine, asking the training interpreter for its own versions.

    Raises
    ------
    ReferenceFailedError
        The interpreter does not start, or its torch is missing or does not import.
    """
    said = ask(Path(python), _ASK)
    if said["torch"] is None:
        raise ReferenceFailedError(
            f"the training interpreter {python} has no torch",
            hint="name the interpreter that trains in the contract (`task.python`), "
            "or install torch in it",
        )
    gpus = tuple(
        Accelerator(name=name, memory_bytes=memory, capability=capability)
        for name, memory, capability in said["gpus"]
    )
    return Machine(
        cpu=_cpu_name(), num_cpus=len(os.sched_getaffinity(0)), memory_bytes=total_memory(),
        kernel=platform.release(), python=said["python"], torch=said["torch"], cuda=said["cuda"],
        driver=_driver() if gpus else None, accelerators=gpus, sandbox=tier.value,
    )  # fmt: skip


def measure_peak_flops(python: str) -> float:
    """Measure float32 matmul throughput in the training interpreter, in FLOP/s.

    The best of twelve square products after three to warm up; with accelerators, on the first.
    """
    return float(ask(Path(python), _PEAK)["flops"])


def total_memory() -> int:
    """Give the machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found.group(1).strip() if found else platform.machine()


def _driver() -> str | None:
    version = Path("/sys/module/nvidia/version")
    return version.read_text().strip() if version.exists() else None
