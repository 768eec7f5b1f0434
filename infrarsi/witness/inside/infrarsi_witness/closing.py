"""Where an update ends, and what is said then."""

from __future__ import annotations

import time
from collections import deque

from .gathering import Gathering
from .keeping import Keeper
from .late import LateValues
from .marks import Marks, wait_for
from .replaying import Replayer
from .sketch import Sampler, distance

_MEMORY = 4
"""Updates over which the set of optimizers that take turns is learnt."""


class Closing:
    """Closes updates: at the end of the last optimizer's step, where that can be known.

    Which optimizers step in one update is learnt from the updates before; in the first one,
    an optimizer that holds every parameter with a gradient is taken to be the only one.
    Where it cannot be known, the update ends when one of them steps again or the next
    training forward begins, and its stamp is later by the loading of a batch.

    Parameters
    ----------
    recorder : Recorder
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.marks = Marks(recorder.config, recorder.channel, recorder.note)
        self.late = LateValues(recorder.channel)
        slots = recorder.config.replay
        self.aside = Replayer(recorder, slots) if slots else Keeper(recorder)
        self.timed = max(recorder.config.marks, default=0)
        self.begun = 0
        self.done = 0
        self.turns = deque(maxlen=_MEMORY)
        self.last = {}
        self.optimizers = {}
        self.sampler = None
        self.sample = self.versions = None

    def resample(self):
        """Choose the sampled elements anew: parameters came under training."""
        recorder = self.recorder
        self.sampler = Sampler(recorder.trained.params, recorder.config.sketch_seed,
                               recorder.config.sketch_elements)  # fmt: skip
        self.sample = self.sampler.take()
        self.versions = self._versions()

    def starts_over(self, optimizer):
        """Tell whether a step begins another update though no forward came between."""
        return id(optimizer) in self.recorder.now.stepped

    def stepped(self, optimizer):
        """Take note of a step that has returned; close the update where it was the last."""
        now = self.recorder.now
        self.optimizers[id(optimizer)] = optimizer
        nothing_since = not now.backwards and not now.stepped
        if nothing_since and self.last and id(optimizer) not in self.last:
            self.last[id(optimizer)] = True  # it belongs to the update just closed
            return
        now.stepped[id(optimizer)] = optimizer
        if self._complete(now.stepped):
            self.close()

    def _complete(self, stepped):
        if not self.turns:
            return self.recorder.trained.covered_by(stepped.values())
        expected = set().union(*self.turns)
        return expected <= set(stepped)

    def before_forward(self):
        """End an update that is still open: a training forward begins."""
        if self.recorder.now.stepped and not self.recorder.steps:
            self.close()
        else:
            self.infer()
        if self.marks.pending is not None:
            self.marks.say(self.optimizers.values(), self.recorder.switches.read())
        self.late.release()
        if self.begun <= self.done and self.done >= self.timed:
            self.begun = self.done + 1
            self.aside.begins(self.begun)

    def infer(self):
        """Without any torch optimizer, an update shows in the parameters alone."""
        recorder = self.recorder
        if self.optimizers or recorder.steps or not recorder.now.backwards or not self.sampler:
            return
        if recorder.in_backward:
            return
        if self.moved():
            recorder.note("no torch optimizer stepped: updates are inferred from the parameters")
            recorder.now.measure(recorder.trained.params)
            self.close()

    def moved(self):
        """Tell whether a sampled element differs from the last sample (this waits for it)."""
        new = self.sampler.take()
        return any(not before.equal(after) for before, after in zip(self.sample, new))

    def touched(self):
        """Tell, without waiting for a device, whether parameters were written to."""
        versions = self._versions()
        return versions is None or versions != self.versions

    def _versions(self):
        try:
            return sum(param._version for param in self.recorder.trained.params)
        except RuntimeError:  # inference tensors do not count
            return None

    def close(self):
        """End the update: stamp it first, then say its values, then look at its mark."""
        recorder = self.recorder
        now, recorder.now = recorder.now, Gathering()
        self.done += 1
        if self.turns or len(now.stepped) > 0:
            self.turns.append(frozenset(now.stepped))
        self.last = dict.fromkeys(now.stepped, True)
        marked = self.marks.wants(self.done)
        if marked:
            wait_for(self._device())
        recorder.channel.send("update", update=self.done)
        sample = self.sampler.take() if self.sampler is not None else None
        change = distance(sample, self.sample) if sample is not None else None
        self.sample = sample
        self.versions = self._versions() if recorder.compiled else None
        self._say(now, change)
        if marked:
            self.mark(self.done)

    def mark(self, update):
        """Take a mark; it is said when the next training forward begins, or at the end."""
        if self.marks.pending is not None:
            self.marks.say(self.optimizers.values(), self.recorder.switches.read())
        self.marks.take(update, self.sampler, self.sample)

    def finish(self):
        """Close what is open, and say what waits: the program ends."""
        if self.recorder.now.stepped:
            self.close()
        else:
            self.infer()
        if self.begun == self.done and self.done > self.timed:  # the last one was begun in time
            self.aside.begins(self.done + 1)
        self.late.release(everything=True)
        if self.marks.pending is not None:
            self.marks.say(self.optimizers.values(), self.recorder.switches.read())

    def _say(self, now, change):
        elapsed = time.perf_counter() - now.began
        phase_s = {name: round(spent, 7) for name, spent in now.phase_s.items()}
        phase_s["other"] = round(max(0.0, elapsed - sum(now.phase_s.values())), 7)
        event = {"update": self.done, "forwards": now.forwards, "phase_s": phase_s}
        if now.sharded:
            event["sharded"] = True
        if now.skipped:
            event["skipped"] = now.skipped
        floats = {"loss": None if now.loss_unknown else now.loss,
                  "grad_norm": now.grad_norm(), "update_norm": change}  # fmt: skip
        self.late.offer(event, floats, now.batch_totals())

    def _device(self):
        params = self.recorder.trained.params
        return params[0].device if params else None
