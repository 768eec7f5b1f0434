"""Telling an out-of-memory from other failures, by what the program left in its log."""

from __future__ import annotations

import re
from typing import Literal

_SURE = re.compile(
    r"can't allocate memory|CUDA out of memory|OutOfMemoryError|HIP out of memory|"
    r"DefaultCPUAllocator: not enough memory|^MemoryError|XLA.*RESOURCE_EXHAUSTED|"
    r"torch\.OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|"
    r"std::bad_alloc|Unable to allocate [\d.]+ [KMGT]i?B",
    re.MULTILINE,
)
_PERHAPS = re.compile(
    r"Cannot allocate memory|CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_INTERNAL_ERROR|"
    r"NCCL.*(unhandled cuda error|Cuda failure.*out of memory|system error)|"
    r"Thread creation failed|can't start new thread|failed to map segment|"
    r"Resource temporarily unavailable|oom[-_ ]kill",
    re.IGNORECASE,
)


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
