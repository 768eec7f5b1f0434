"""Telling an out-of-memory from other failures, by what the program left in its log."""

from __future__ import annotations

import re
from typing import Literal

_SURE = re.compile(
    r"can't allocate memory|CUDA out of memory|CUDA error: out of memory|OutOfMemoryError|"
    r"HIP out of memory|HIP error: out of memory|cudaErrorMemoryAllocation|"
    r"DefaultCPUAllocator: not enough memory|^MemoryError|XLA.*RESOURCE_EXHAUSTED|"
    r"std::bad_alloc|Unable to allocate [\d.]+ [KMGT]i?B",
    re.MULTILINE,
)
_PERHAPS = re.compile(
    r"Cannot allocate memory|"
    r"CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR)|"
    r"CUFFT_ALLOC_FAILED|cudaErrorLaunchOutOfResources|"
    r"NCCL.*(?:unhandled cuda error|out of memory|system error)|nccl(?:UnhandledCuda|System)Error|"
    r"Thread creation failed|can't start new thread|failed to map segment|"
    r"Resource temporarily unavailable|oom[-_ ]kill|"
    r"DataLoader worker .* killed by signal|insufficient shared memory|"
    r"No space left on device.*(?:/dev/shm|torch_\d+_\d+|shared memory)|"
    r"(?:/dev/shm|torch_\d+_\d+|shared memory).*No space left on device",
    re.IGNORECASE,
)
"""Libraries hide a failed allocation behind these, and say them of other troubles too."""


def memory_failure(log: str, *, exit_code: int | None) -> Literal["yes", "no", "ambiguous"]:
    """Tell whether a failed launch ran out of memory.

    Parameters
    ----------
    log
        The end of the program's output.
    exit_code
        Its exit code; a negative one is a signal, 137 a SIGKILL that a shell reports.
    """
    if _SURE.search(log):
        return "yes"
    if _PERHAPS.search(log) or exit_code in {-9, 137}:
        return "ambiguous"
    return "no"
