"""Global switches that change how numbers are computed, and facts about the process."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading

import torch

_MOST_CALLS = 16
_SETTERS = (
    "_set_float32_matmul_precision", "_set_fp32_precision_setter", "_set_cublas_allow_tf32",
    "_set_cudnn_allow_tf32", "_set_cublas_allow_fp16_reduced_precision_reduction",
    "_set_cublas_allow_bf16_reduced_precision_reduction", "_set_cublas_allow_fp16_accumulation",
    "_set_mkldnn_deterministic",
)  # fmt: skip


class Switches:
    """Remembers precision switches and autocast even where they were turned back again."""

    def __init__(self):
        self.calls = []
        self.autocast = set()
        self.scaler = False

    def watch(self):
        """Listen to torch's own setters, and to autocast being entered."""
        for name in _SETTERS:
            setter = getattr(torch._C, name, None)
            if setter is not None:
                setattr(torch._C, name, self._heard(name, setter))
        autocast = torch.amp.autocast_mode.autocast
        enter, switches = autocast.__enter__, self

        def __enter__(self):  # noqa: N807
            if getattr(self, "_enabled", False):
                switches.autocast.add(_fast_type(self))
            return enter(self)

        __enter__._torchdynamo_inline = enter
        autocast.__enter__ = __enter__

    def _heard(self, name, setter):
        def heard(*args):
            said = "%s(%s)" % (name.lstrip("_"), ", ".join(str(each) for each in args))
            if said not in self.calls and len(self.calls) < _MOST_CALLS:
                self.calls.append(said)
            return setter(*args)

        heard.__name__ = name
        heard._torchdynamo_inline = setter
        return heard

    def read(self):
        """Give every switch as it stands, by name."""
        flags = {
            "autocast": bool(self.autocast),
            "autocast_dtypes": ",".join(sorted(self.autocast)) or None,
            "grad_scaler": self.scaler,
            "precision_calls": "; ".join(self.calls) or None,
        }
        for name, reader in _READERS.items():
            try:
                value = reader()
                flags[name] = value if isinstance(value, (bool, int, str)) else str(value)
            except Exception:
                flags[name] = None
        return flags


def _fast_type(context):
    return str(getattr(context, "fast_dtype", "unknown")).rsplit(".", 1)[-1]


def _tf32_matmul():
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        return matmul.fp32_precision == "tf32"
    return matmul.allow_tf32


def _tf32_cudnn():
    convolution = getattr(torch.backends.cudnn, "conv", None)
    if convolution is not None and hasattr(convolution, "fp32_precision"):
        return convolution.fp32_precision == "tf32"
    return torch.backends.cudnn.allow_tf32


def _generator():
    state = torch.get_rng_state()
    return hashlib.sha256(bytes(state.tolist())).hexdigest()[:16]


_READERS = {
    "float32_matmul_precision": torch.get_float32_matmul_precision,
    "tf32_matmul": _tf32_matmul,
    "tf32_cudnn": _tf32_cudnn,
    "mkldnn_matmul_precision": lambda: torch.backends.mkldnn.matmul.fp32_precision,
    "fp16_reduced_accumulation": lambda: (
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
    ),
    "bf16_reduced_accumulation": lambda: (
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    ),
    "fp16_accumulation": lambda: torch.backends.cuda.matmul.allow_fp16_accumulation,
    "default_dtype": lambda: str(torch.get_default_dtype()).rsplit(".", 1)[-1],
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
    "flush_denormal": lambda: bool(torch.tensor([1e-39]).mul_(1.0).item() == 0.0),
    "initial_seed": lambda: str(torch.initial_seed()),
    "generator": _generator,
}


def autocast_now(tensors):
    """Give the dtypes of the autocast contexts active on these tensors' devices, a set."""
    active = set()
    for kind in {each.device.type for each in tensors}:
        try:
            if torch.is_autocast_enabled(kind):
                active.add(str(torch.get_autocast_dtype(kind)).rsplit(".", 1)[-1])
        except Exception:  # torch before 2.4 cannot be asked so; entering was heard anyway
            pass
    return active


def count_threads():
    """Give the number of live threads of this process."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def count_children():
    """Give the number of live child processes, or ``None`` where the kernel does not say."""
    try:
        total = 0
        for task in os.listdir("/proc/self/task"):
            with open("/proc/self/task/%s/children" % task) as listed:
                total += len(listed.read().split())
        return total
    except OSError:
        return None


def read_memory():
    """Give the allocator's figures in bytes, summed over this process's accelerators."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    sums = {"allocated": 0, "max_allocated": 0, "reserved": 0, "max_reserved": 0}
    for device in range(torch.cuda.device_count()):
        sums["allocated"] += torch.cuda.memory_allocated(device)
        sums["max_allocated"] += torch.cuda.max_memory_allocated(device)
        sums["reserved"] += torch.cuda.memory_reserved(device)
        sums["max_reserved"] += torch.cuda.max_memory_reserved(device)
    return sums


_PACKAGES = re.compile(r".*/(?:site|dist)-packages/([^/]+)")


def loaded_modules():
    """Give what modules the program brought along, and from where.

    Returns
    -------
    dict
        ``files``: of modules that come from neither the interpreter nor its packages; ``own``:
        the names of the top-level modules among them; ``packages``: the entries of the
        interpreter's package folders that modules were loaded from.
    """
    import site

    inside = [
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        os.path.dirname(os.path.dirname(__file__)),
    ]
    try:
        inside += [*site.getsitepackages(), site.getusersitepackages()]
    except Exception:
        pass
    roots = tuple(os.path.join(os.path.realpath(each), "") for each in inside if each)
    plain = tuple(os.path.join(os.path.abspath(each), "") for each in inside if each)
    files, own, packages = set(), set(), set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        full = file if file.startswith(plain) else os.path.abspath(file)
        if full.startswith(plain) or os.path.realpath(full).startswith(roots):
            found = _PACKAGES.match(full)
            if found is not None:
                packages.add(found.group(1).split(".")[0])
        elif os.path.exists(full):
            files.add(full)
            # Compilers put what they generate below their own names: only a top level stands in.
            if "." not in name:
                own.add(name)
    return {
        "files": sorted(files),
        "own": sorted(own - {"__main__", "__mp_main__"}),
        "packages": sorted(packages),
    }
