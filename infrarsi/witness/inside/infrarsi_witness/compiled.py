"""Compiled callables: met from outside, so that the compiler never sees the witness."""

from __future__ import annotations

import functools
import sys
import types

import torch

from .inputs import parameter_names


def place(gate, recorder):
    """Wrap ``torch.compile``; that covers ``Module.compile``, which calls it.

    Parameters
    ----------
    gate : Gate
    recorder : Recorder
    """
    original = torch.compile
    patched = set()

    @functools.wraps(original)
    def compile(model=None, *args, **kwargs):
        result = original(model, *args, **kwargs)
        try:
            _stay_out(patched)
            _hook_steps_again()
            recorder.compiled = recorder.compiled or model is not None
            if model is None or result is model:
                return result
            if isinstance(result, torch.nn.Module):
                _meet_modules(type(result), patched, gate, recorder)
                return result
            if isinstance(result, types.FunctionType):
                return _meet(result, model, gate, recorder)
        except Exception:
            pass
        return result

    compile._torchdynamo_inline = original
    torch.compile = compile


def _stay_out(done):
    """Tell dynamo, once it is loaded, to let every frame of ours run as it is."""
    for name in ("torch._dynamo.trace_rules", "torch._dynamo.skipfiles"):  # the latter until 2.2
        add = getattr(sys.modules.get(name), "add", None)
        if add is not None and "rules" not in done:
            done.add("rules")
            add(__name__.rsplit(".", 1)[0])


def _hook_steps_again():
    """Give torch's optimizers their hooks back: dynamo of 2.2 takes them off the classes."""
    hooked_step = getattr(torch.optim.Optimizer, "profile_hook_step", None)
    if hooked_step is None:
        return
    for kind in list(vars(torch.optim).values()):
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
            continue
        step = vars(kind).get("step")
        if not getattr(step, "hooked", False):  # torch hooks it when the first one is made
            continue
        again = hooked_step(step)
        while step is not None and getattr(step, "__code__", None) is not again.__code__:
            step = getattr(step, "__wrapped__", None)
        if step is None:  # nothing around the step itself calls the hooks
            again._torchdynamo_inline = again.__wrapped__
            kind.step = again


def _meet_modules(kind, patched, gate, recorder):
    """Patch the class of compiled modules, which are no `torch.nn.Module` of the user's."""
    if kind in patched or kind is torch.nn.Module or "OptimizedModule" not in kind.__name__:
        return
    patched.add(kind)
    original = kind.__call__

    @functools.wraps(original)
    def __call__(self, *args, **kwargs):  # noqa: N807
        if gate.depth:
            return original(self, *args, **kwargs)
        call = functools.partial(original, self)
        return _watched(call, args, kwargs, _Owners(self), gate=gate, recorder=recorder)

    kind.__call__ = __call__


def _meet(result, model, gate, recorder):
    owners = _Owners(model)

    @functools.wraps(result)
    def compiled(*args, **kwargs):
        if gate.depth:
            return result(*args, **kwargs)
        return _watched(result, args, kwargs, owners, gate=gate, recorder=recorder)

    if hasattr(result, "_torchdynamo_wrapper_id"):
        # Says to dynamo that this is the wrapper itself, not somebody's copy of it.
        compiled._torchdynamo_wrapper_id = id(compiled)
    return compiled


def _watched(call, args, kwargs, owners, *, gate, recorder):
    gate.enter()
    try:
        visit = recorder.call_begins(args, kwargs, owners)
        try:
            output = call(*args, **kwargs)
        except BaseException as error:
            recorder.failed("forward", error)
            raise
        recorder.call_ends(visit, output)
        return output
    finally:
        gate.leave()


class _Owners:
    """The modules that a compiled callable trains, looked up when it is called.

    Parameters
    ----------
    model : torch.nn.Module or callable
        What was compiled: a module, a module's method, or a function, whose modules are those
        in its closure and among the globals that it names.
    """

    def __init__(self, model):
        bound = getattr(model, "__self__", None)
        self.module = next(
            (each for each in (model, bound) if isinstance(each, torch.nn.Module)), None
        )
        self.function = model
        self.names = parameter_names(model) if self.module is None else None

    def modules(self, args, kwargs):
        """Give the modules, each once, those among the arguments included."""
        if self.module is not None:
            return [self.module]
        held = [*args, *kwargs.values(), *_named_by(self.function)]
        held += [getattr(each, "__self__", None) for each in held]
        found = {id(each): each for each in held if isinstance(each, torch.nn.Module)}
        return list(found.values())

    def optimizers(self, args, kwargs):
        """Give the optimizers that the callable may step: none for a module."""
        if self.module is not None:
            return []
        held = [*args, *kwargs.values(), *_named_by(self.function)]
        held += [getattr(each, "__self__", None) for each in held]
        return list({id(each): each for each in held
                     if isinstance(each, torch.optim.Optimizer)}.values())  # fmt: skip


def _named_by(function):
    """Give what a function reaches by name: closure, globals, and its object's attributes."""
    bound = getattr(function, "__self__", None)
    function = getattr(function, "__func__", function)
    held = [bound] if bound is not None else []
    if hasattr(bound, "__dict__"):
        held += vars(bound).values()
    if not isinstance(function, types.FunctionType):
        return held
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    names = function.__code__.co_names
    return held + [function.__globals__[name] for name in names if name in function.__globals__]
