"""What is said at a mark: the sketch at once, the census when the next forward begins."""

from __future__ import annotations

import torch

from . import flags as switches
from .census import count_gradients, count_parameters, count_state
from .matmuls import CloserLook, walk_graph
from .sketch import Sampler


class Marks:
    """Takes the marks that the parent asked for.

    Parameters
    ----------
    config : Config
    channel : Channel
    note : callable
        Says once what could not be seen.
    """

    def __init__(self, config, channel, note):
        self.config = config
        self.channel = channel
        self.note = note
        self.numbers = frozenset(config.marks)
        self.last = max(config.marks, default=None)
        self.closer = min((each for each in config.marks if each > 0), default=None)
        self.look = None
        self.pending = None
        self.gradients = {}
        self.counted = set()
        self.calls = {}
        self.walked = None
        self.files_said = False

    def wants(self, update):
        """Tell whether a mark stands after this update."""
        return update in self.numbers

    def begin_look(self, update, *, compiled):
        """Before a forward or a backward of the update: listen closely, where it is due."""
        if update != self.closer or (self.look is not None and self.look.calls is None):
            return
        if self.look is None:
            self.look = CloserLook(compiled=compiled)
        self.look.start()

    def end_look(self, *, finished):
        """After it; ``finished`` closes the look for good (one micro-batch is enough)."""
        if self.look is None or self.look.calls is None:
            return
        self.look.stop()
        if finished:
            if self.look.compiled and not self.look.calls:
                self.note("the matmuls of compiled code could not be seen")
            self.calls, self.look.calls = self.look.calls, None

    def walk(self, update, roots):
        """Look at the autograd graph of the mark's first backward."""
        if self.walked == update:
            return
        self.walked = update
        walk = walk_graph(roots)
        for name, calls in walk.calls.items():
            self.calls[name] = max(calls, self.calls.get(name, 0))
        if walk.compiled and not self.calls:
            self.note("update %d: only compiled nodes in the graph, no matmul to be seen" % update)
        if walk.opaque:
            self.note("custom autograd functions, seen into at mark %s only: %s"
                      % (self.closer, ", ".join(sorted(walk.opaque)[:8])))  # fmt: skip

    def walk_nested(self, roots):
        """Look at a graph that a reentrant checkpoint rebuilt during backward."""
        for name, calls in walk_graph(roots).calls.items():
            self.calls[name] = self.calls.get(name, 0) + calls

    def count_gradients(self, params):
        """Count gradient dtypes just before the step of a mark's update."""
        new = [each for each in params if id(each) not in self.counted]
        self.counted.update(map(id, new))
        for name, count in count_gradients(new).items():
            self.gradients[name] = self.gradients.get(name, 0) + count

    def take(self, update, sampler, sample):
        """Keep the sketch of a mark; the rest is said at the next forward."""
        if sampler is None:
            sampler, sample = Sampler([], 0, 1), []
        self.pending = {"update": update, "sketch": sampler.encode(sample),
                        "counts": list(sampler.counts), "shapes": sampler.shapes,
                        "census": {"parameters": count_parameters(sampler.params),
                                   "gradients": self.gradients, "matmul": self.calls}}  # fmt: skip
        self.gradients, self.calls, self.counted = {}, {}, set()

    def say(self, optimizers, facts=None):
        """Send the mark that is waiting, if any, with the optimizers' state as it is now."""
        mark, self.pending = self.pending, None
        if mark is None:
            return
        mark["census"]["optimizer_state"] = count_state(list(optimizers))
        self.channel.send(
            "mark", **mark, flags=facts or {}, memory=switches.read_memory(),
            num_threads=switches.count_threads(), num_children=switches.count_children(),
        )  # fmt: skip
        if mark["update"] == self.last:
            self.say_files()

    def say_files(self):
        """Send the files of modules that the program brought along, once."""
        if not self.files_said:
            self.files_said = True
            self.channel.send("modules", **switches.loaded_modules())


def wait_for(device):
    """Wait until the device has done its work; a CPU has."""
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
