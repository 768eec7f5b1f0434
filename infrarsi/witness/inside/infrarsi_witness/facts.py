"""Who is speaking: rank, versions, devices; and how a child process leaves."""

from __future__ import annotations

import os
import sys
import weakref

import torch


def rank():
    """Give this process's rank: the process group's, else the launcher's, else 0."""
    distributed = getattr(torch, "distributed", None)
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank()
        return int(os.environ.get("RANK", "0"))
    except (ValueError, RuntimeError):
        return 0


def _world_size():
    distributed = getattr(torch, "distributed", None)
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_world_size()
        return int(os.environ.get("WORLD_SIZE", "1"))
    except (ValueError, RuntimeError):
        return 1


def read_facts():
    """Give what hello says."""
    cuda = torch.cuda.is_available()
    return {
        "python": sys.version.split()[0], "python_executable": sys.executable,
        "torch": str(torch.__version__), "argv": list(sys.argv), "cwd": os.getcwd(),
        "world_size": _world_size(), "num_threads": torch.get_num_threads(),
        "cuda": torch.version.cuda if cuda else None,
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        if cuda else [],
    }  # fmt: skip


def finish_with_a_child(recorder):
    """Have a multiprocessing child finish: it leaves without atexit, but runs finalizers."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing import util

        held = weakref.ref(recorder)
        util.Finalize(None, lambda: held() and held().ends(), exitpriority=100)
