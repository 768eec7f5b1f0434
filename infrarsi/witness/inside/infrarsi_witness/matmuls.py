"""Dtypes of matmuls, without adding a node to anyone's graph.

Two ways of looking. At every mark, a walk over the autograd graph from the loss: each matmul's
backward node knows the dtype of what its forward gave. And once, at the first mark after the
start (still in the warm-up), a closer look at one micro-batch: a dispatch mode where nothing
is compiled, else the CPU profiler, which sees the matmuls that compiled code calls.
"""

from __future__ import annotations

import re
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .census import dtype_name

_NODE = re.compile(
    r"^(Addmm|Mm|Bmm|Baddbmm|Addbmm|Addmv|Mv|Dot|Linear|MkldnnLinear|Matmul|Einsum|"
    r"(Mkldnn|Cudnn|Slow)?Convolution|ScaledMm|ScaledGroupedMm|GroupedMm|_?\w*Attention)\w*Backward\d*$"
)
# Leaves only: `aten::linear` and `aten::matmul` are asked before autocast has cast.
_OPERATION = re.compile(
    r"^((aten::(_?add(mm|bmm|mv)|mm|mv|bmm|baddbmm|_scaled_mm\w*|_int_mm|_grouped_mm|"
    r"_scaled_grouped_mm|_addmm_activation|convolution|convolution_backward|mkldnn_linear|"
    r"_scaled_dot_product_\w*attention\w*|_flash_attention\w*|_efficient_attention\w*)(_out|_)?)"
    r"|((mkldnn|mkl|quantized|onednn|torchao|fbgemm)::\w*(linear|mm)\w*))(\.\w+)?$"
)
_LARGEST_WALK = 200_000
_SCALAR_TYPES = {
    "float": "float32", "double": "float64", "Half": "float16", "BFloat16": "bfloat16",
    "signed char": "int8", "unsigned char": "uint8", "int": "int32", "long int": "int64",
    "long": "int64",
}  # fmt: skip


class Walk:
    """What a walk over the graph found: calls by dtype, and nodes it could not see into."""

    def __init__(self):
        self.calls = {}
        self.compiled = 0
        self.opaque = set()


def walk_graph(roots):
    """Count matmul nodes by the dtype that their forward gave.

    Saved tensors are never touched: unpacking one recomputes under activation checkpointing.

    Parameters
    ----------
    roots : iterable of torch.Tensor

    Returns
    -------
    Walk
    """
    walk, seen = Walk(), set()
    stack = [root.grad_fn for root in roots if root.grad_fn is not None]
    while stack and len(seen) < _LARGEST_WALK:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        _look_at(node, walk)
        stack.extend(each for each, _ in node.next_functions if each is not None)
    return walk


def _look_at(node, walk):
    name = type(node).__name__
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        if name.startswith("Compiled"):
            walk.compiled += 1
        else:
            walk.opaque.add(name)
    if _NODE.match(name):
        for given in getattr(node, "_input_metadata", None) or ():
            if given.dtype.is_floating_point:
                count_call(walk.calls, {dtype_name(given.dtype)})
                break


def count_call(calls, names):
    """Count one matmul under each dtype of its operands."""
    for name in names:
        calls[name] = calls.get(name, 0) + 1


class _Listener(TorchDispatchMode):
    """Sees every operator below autograd, custom functions and backward included."""

    supports_higher_order_operators = True

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        try:
            name = func.name() if callable(getattr(func, "name", None)) else str(func)
            if _OPERATION.match(name):
                matrices = [each for each in args if isinstance(each, torch.Tensor)]
                count_call(self.calls, {dtype_name(x.dtype) for x in matrices if x.dim() > 1})
        except Exception:
            pass
        return func(*args, **(kwargs or {}))


class CloserLook:
    """Listens to every matmul between :meth:`start` and :meth:`stop`, in two sittings.

    Parameters
    ----------
    compiled : bool
        Whether anything was compiled: then no dispatch mode may be active (it would change
        what the compiler captures), and the profiler listens.
    """

    def __init__(self, *, compiled):
        self.calls = {}
        self.compiled = compiled
        self.listener = None

    def start(self):
        """Begin to listen; a profiler of the program's own is never disturbed."""
        if not self.compiled:
            self.listener = _Listener(self.calls)
            self.listener.__enter__()
        elif not torch._C._autograd._profiler_enabled():
            config, activities = _profile()
            torch._C._autograd._prepare_profiler(config, activities)
            torch._C._autograd._enable_profiler(config, activities)
            self.listener = "profiler"

    def stop(self):
        """Stop listening and count what was heard."""
        listener, self.listener = self.listener, None
        if listener is None:
            return
        if listener != "profiler":
            listener.__exit__(None, None, None)
            return
        for event in torch._C._autograd._disable_profiler().events():
            if _OPERATION.match(event.name()):
                types = {each.rsplit("::", 1)[-1] for each in event.dtypes()}
                types -= {"Scalar", "ScalarList", "", "bool"}
                count_call(self.calls, {_SCALAR_TYPES.get(each, each.lower()) for each in types})


def _profile():
    from torch._C._profiler import ProfilerActivity, ProfilerState, _ExperimentalConfig
    from torch.autograd import ProfilerConfig

    config = ProfilerConfig(
        ProfilerState.KINETO, True, False, False, False, False, _ExperimentalConfig()
    )
    return config, {ProfilerActivity.CPU}


def anything_compiled():
    """Tell whether dynamo has compiled a frame in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters["frames"].get("total"))
