"""Puts the hooks where they belong, once, right after torch was imported."""

from __future__ import annotations

import functools
import os
import sys
import types

import torch
from infrarsi_traceable import nothing
from torch.optim import optimizer as torch_optimizers

from . import compiled
from .channel import Channel
from .gate import Gate
from .recorder import Recorder

_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "_clip_grads_with_norm_")


def place(config):
    """Place every hook and hand them one recorder.

    Parameters
    ----------
    config : Config
    """
    recorder = Recorder(config, Channel(config.channel))
    gate = Gate(recorder)
    recorder.gate = gate
    recorder.faults.watch()
    recorder.switches.watch()
    compiled.place(gate, recorder)
    _place_backward(gate, recorder)
    _place_steps(recorder)
    _place_clips(recorder)
    _place_scaler(recorder)
    _keep_from_dynamo()
    gate.open()
    os.register_at_fork(after_in_child=lambda: (recorder.reset(), gate.reset()))


def _instead_of(original, wrapper):
    """Finish a wrapper: dynamo, where it traces the call, goes on to trace the original."""
    functools.update_wrapper(wrapper, original)
    wrapper._torchdynamo_inline = original
    return wrapper


def _place_backward(gate, recorder):
    original = torch.autograd.backward

    def backward(tensors, grad_tensors=None, *args, **kwargs):
        if recorder.in_backward:
            recorder.backward_nested(tensors)
            return original(tensors, grad_tensors, *args, **kwargs)
        gate.enter()
        try:
            recorder.backward_begins(tensors, grad_tensors)
            try:
                return original(tensors, grad_tensors, *args, **kwargs)
            except BaseException as error:
                recorder.failed("backward", error)
                raise
            finally:
                recorder.backward_ends()
        finally:
            gate.leave()

    torch.autograd.backward = _instead_of(original, backward)
    by_hand = torch.autograd.grad

    def grad(outputs, inputs, *args, **kwargs):
        create = kwargs.get("create_graph", args[2] if len(args) > 2 else False)
        if recorder.in_backward or create or not recorder.trains(inputs):
            return by_hand(outputs, inputs, *args, **kwargs)
        gate.enter()
        try:
            recorder.backward_begins(outputs, kwargs.get("grad_outputs", args[0] if args else None))
            try:
                return by_hand(outputs, inputs, *args, **kwargs)
            finally:
                recorder.backward_ends()
        finally:
            gate.leave()

    torch.autograd.grad = _instead_of(by_hand, grad)


def _place_steps(recorder):
    def begins(optimizer, args, kwargs):
        recorder.step_begins(optimizer, args, kwargs)

    def ends(optimizer, args, kwargs):
        recorder.step_ends(optimizer)

    # A compiled step would trace the hooks, and add graphs: dynamo traces nothing instead.
    # Steps inside compiled code are met by the compiled callable's own wrapper.
    begins._torchdynamo_inline = nothing
    ends._torchdynamo_inline = nothing
    torch_optimizers.register_optimizer_step_pre_hook(begins)
    torch_optimizers.register_optimizer_step_post_hook(ends)


def _place_clips(recorder):
    clipping = sys.modules.get("torch.nn.utils.clip_grad")
    for name in _CLIPS:
        original = getattr(clipping, name, None)
        if original is None:
            continue
        wrapped = _clip(original, name, recorder)
        for place in (clipping, torch.nn.utils):
            for each, value in list(vars(place).items()):
                if value is original:
                    setattr(place, each, wrapped)


def _clip(original, name, recorder):
    def clip(parameters, *args, **kwargs):
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters)
        order = kwargs.get("norm_type", args[1] if len(args) > 1 else 2.0)
        # Torch's own total, where it is the norm that we want, saves a pass over the gradients.
        told = name == "clip_grad_norm_" and order == 2 and recorder.trusts(parameters)
        if not told:
            recorder.clip_begins(parameters)
            return original(parameters, *args, **kwargs)
        recorder.clipping = True
        try:
            norm = original(parameters, *args, **kwargs)
        finally:
            recorder.clipping = False
        recorder.clip_told(parameters, norm)
        return norm

    return _instead_of(original, clip)


def _place_scaler(recorder):
    amp = sys.modules.get("torch.amp.grad_scaler") or sys.modules.get("torch.cuda.amp.grad_scaler")
    kind = getattr(amp, "GradScaler", None)
    if kind is None:
        return
    original_scale, original_step = kind.scale, kind.step

    def scale(self, outputs):
        scaled = original_scale(self, outputs)
        recorder.scaled(self, outputs, scaled)
        return scaled

    def step(self, optimizer, *args, **kwargs):
        before = recorder.steps_seen
        result = original_step(self, optimizer, *args, **kwargs)
        recorder.scaler_stepped(self, stepped=recorder.steps_seen != before)
        return result

    kind.scale = _instead_of(original_scale, scale)
    kind.step = _instead_of(original_step, step)


def _keep_from_dynamo():
    """Tell dynamo not to compile any frame of ours where it meets one after a graph break."""
    try:
        from torch._C._dynamo.eval_frame import skip_code
    except ImportError:
        return
    package = __name__.rsplit(".", 1)[0]
    seen = set()
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(package + "."):
            for value in list(vars(module).values()):
                _skip(value, module, skip_code, seen)


def _skip(value, module, skip_code, seen):
    value = getattr(value, "__func__", value)
    if isinstance(value, type) and value.__module__ == module.__name__:
        for each in vars(value).values():
            _skip(each, module, skip_code, seen)
    elif isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
        _skip_nested(value.__code__, skip_code, seen)


def _skip_nested(code, skip_code, seen):
    if code in seen:
        return
    seen.add(code)
    skip_code(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _skip_nested(constant, skip_code, seen)
