"""Replaying single updates: this program starts one from a state that another launch kept.

The reference's own code runs here. Before an update that is to be replayed, its parameters,
buffers, optimizer state and generators are set to what was kept; after it, where it has come to is
compared with where the other launch came to. Then that launch's result is put in place for some
batches more, whose losses the program says as it says all others.
"""

from __future__ import annotations

import os

import torch

from .channel import finite
from .shelf import Shelf
from .sketch import local
from .state import device_of, set_generator, state_of

_STEP = 1 << 20
_LISTED = 3
_SINGLE = torch.finfo(torch.float32).eps


class Slot:
    """One update to replay, as the configuration says it.

    ``{"update": int, "folder": path, "ulps": float, "seed": int, "scores": int,
    "mapping": {name: [names of the reference's]}}``
    """

    def __init__(self, said):
        self.update = int(said["update"])
        self.folder = str(said["folder"])
        self.ulps = float(said.get("ulps") or 0.0)
        self.seed = int(said.get("seed") or 0)
        self.scores = int(said.get("scores") or 0)
        self.mapping = {str(k): [str(each) for each in v]
                        for k, v in (said.get("mapping") or {}).items()}  # fmt: skip


class Replayer:
    """Replays the updates that the configuration asks for.

    Parameters
    ----------
    recorder : Recorder
    slots : list of dict
        As :class:`Slot` takes them.
    """

    def __init__(self, recorder, slots):
        self.recorder = recorder
        self.slots = {slot.update: slot for slot in map(Slot, slots)}
        self.replay = None

    def begins(self, update):
        """Set, compare or score, before the first training forward of an update."""
        if self.replay is not None:
            self._go_on(self.replay, update)
        slot = self.slots.get(update)
        if slot is not None:
            self.replay = _Replay(slot, self.recorder)
            self.replay.attempt(self.replay.start)

    def _go_on(self, replay, update):
        if update == replay.slot.update + 1:
            replay.attempt(replay.compare)
            if replay.why is None and replay.slot.scores:
                replay.attempt(replay.score)
            replay.say()
        elif update <= replay.slot.update + replay.slot.scores and replay.why is None:
            replay.attempt(replay.score)
        else:
            replay.close()
            self.replay = None


class _Replay:
    """One update on its way."""

    def __init__(self, slot, recorder):
        self.slot = slot
        self.recorder = recorder
        self.state = state_of(recorder)
        self.before = self.after = None
        self.why = None
        self.left = list(self.state.left)
        self.tensors = []
        self.places = {}
        self.num_scores = 0

    def attempt(self, action):
        """Do what can fail; the first failure is kept as the reason."""
        if self.why is not None:
            return
        try:
            with torch.no_grad():
                action()
        except Exception as error:
            self.why = str(error) if isinstance(error, _UnfitError) else "%s: %s" % (
                type(error).__name__, str(error)[:300])  # fmt: skip

    def start(self):
        """Put the state before the update in place."""
        rank = self.recorder.channel.rank
        paths = [os.path.join(self.slot.folder, "%s.%d" % (name, rank))
                 for name in ("before", "after")]  # fmt: skip
        self.before, self.after = Shelf(paths[0]), Shelf(paths[1])
        for shelf in (self.before, self.after):
            self.places = place_parameters(self.state.params, shelf, self.slot.mapping)
        for number, (name, param) in enumerate(self.state.params.items()):
            local(param).copy_(self._begun(number, name).reshape(local(param).shape))
        self._put_buffers(self.before)
        self._put_moments()
        self._put_generators(self.before)
        self.recorder.closing.resample()

    def _begun(self, number, name):
        """Give a parameter as the update starts from it, nudged where this is a null."""
        tensor = self.before.read(*self.places[name])
        if not self.slot.ulps or not tensor.is_floating_point() or not tensor.numel():
            return tensor
        generator = torch.Generator()
        generator.manual_seed(self.slot.seed * 1_000_003 + number)
        wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        chance = torch.rand(tensor.shape, generator=generator, dtype=wide)
        ulp = torch.finfo(tensor.dtype).eps
        # One unit of a half-precision number is as much as honest rounding ever moves it.
        ulps = self.slot.ulps if ulp <= _SINGLE else min(self.slot.ulps, 1.0)
        factor = chance.mul_(2).sub_(1).mul_(ulps * ulp).add_(1)
        return factor.mul_(tensor).to(tensor.dtype)

    def _put_buffers(self, shelf):
        for name, buffer in self.state.buffers.items():
            key, ours = ("buffer", name), local(buffer)
            if key not in shelf or shelf.shape(key) != tuple(ours.shape):
                continue
            kept = shelf.read(key).to(ours.dtype)
            if not torch.equal(kept, ours.to("cpu")):
                ours.copy_(kept)

    def _put_moments(self):
        """Put back what the optimizers keep; what the other launch keeps otherwise stays ours."""
        missing = {}
        for (name, key), tensor in self.state.moments.items():
            (_, source), rows = self.places[name]
            entry = ("moment", source, key)
            fits = entry in self.before and _fits(self.before.shape(entry), tensor, rows)
            if fits:
                local(tensor).copy_(self.before.read(entry, rows).reshape(local(tensor).shape))
            else:
                missing[key] = missing.get(key, 0) + 1
        self.left += ["%s of %d parameters" % each for each in sorted(missing.items())]
        if not self.state.moments and not self.recorder.closing.optimizers:
            self.left.append("all that an update is made of besides the gradient: no torch "
                             "optimizer steps")  # fmt: skip

    def _put_generators(self, shelf):
        device = device_of(self.state)
        for (kind,) in shelf.names("generator"):
            set_generator(kind, shelf.read(("generator", kind)), device)

    def compare(self):
        """Compare where the reference's code came to with where the other launch did."""
        for number, (name, param) in enumerate(self.state.params.items()):
            place = self.places[name]
            before, after = (each.read(*place).reshape(-1) for each in (self.before, self.after))
            now = local(param).to("cpu").reshape(-1)
            started = self._begun(number, name).reshape(-1)
            sums = _squares(before, after, started, now)
            self.tensors.append([name, *(finite(each**0.5) for each in sums)])

    def score(self):
        """Put the other launch's result in place, for the batch that comes now."""
        for name, param in self.state.params.items():
            tensor = self.after.read(*self.places[name])
            local(param).copy_(tensor.reshape(local(param).shape))
        self._put_buffers(self.after)
        if not self.num_scores:
            self._put_generators(self.after)
        self.num_scores += 1
        self.recorder.closing.resample()

    def say(self):
        """Tell what came of it."""
        self.recorder.channel.send(
            "replayed", update=self.slot.update, why=self.why, left=self.left[:16],
            tensors=[] if self.why else self.tensors,
        )  # fmt: skip

    def close(self):
        """Close the files."""
        for shelf in (self.before, self.after):
            if shelf is not None:
                shelf.close()


class _UnfitError(Exception):
    """The two launches' parameters do not correspond."""


def place_parameters(params, shelf, mapping):
    """Find, for each parameter of this program, where the other launch kept it.

    Parameters
    ----------
    params : dict of str to torch.Tensor
    shelf : Shelf
    mapping : dict of str to list of str
        Parameters that the other launch has under a name of its own, and this program's that each
        holds, one after the other along its first dimension.

    Returns
    -------
    dict of str to (tuple, tuple or None)
        By name: the entry, and the rows of it.
    """
    fused = {ours: theirs for theirs, held in mapping.items() for ours in held}
    there = {name for (name,) in shelf.names("parameter")}
    missing = [each for each in params if fused.get(each, each) not in there]
    extra = sorted(there - {fused.get(each, each) for each in params})
    if missing or extra:
        words = [_some("without ", missing), _some("with ", extra)]
        raise _UnfitError("its parameters have other names than the reference's: %s"
                          % "; ".join(each for each in words if each))  # fmt: skip
    places, ends = {}, {}
    for name in params if not fused else _in_order(params, mapping):
        entry = ("parameter", fused.get(name, name))
        ours, theirs = tuple(local(params[name]).shape), shelf.shape(entry)
        rows = None
        if name in fused and len(mapping[fused[name]]) > 1:
            start = ends.get(entry, 0)
            rows = (start, start + (ours[0] if ours else 0))
            ends[entry] = rows[1]
            theirs = (rows[1] - rows[0], *theirs[1:]) if rows[1] <= theirs[0] else theirs
        if ours != theirs:
            raise _UnfitError("its %s has the shape %s, the reference's %s has %s"
                         % (entry[1], list(theirs), name, list(ours)))  # fmt: skip
        places[name] = (entry, rows)
    return places


def _in_order(params, mapping):
    """Give the names of fused parameters in the order in which they are held, then the others."""
    held = [name for each in mapping.values() for name in each if name in params]
    return [*held, *(name for name in params if name not in set(held))]


def _fits(shape, tensor, rows):
    ours = tuple(local(tensor).shape)
    if rows is None:
        return shape == ours
    return len(shape) == len(ours) and rows[1] <= shape[0] and shape[1:] == ours[1:] and (
        rows[1] - rows[0] == ours[0])  # fmt: skip


def _some(words, names):
    if not names:
        return ""
    more = " and %d more" % (len(names) - _LISTED) if len(names) > _LISTED else ""
    return words + ", ".join(names[:_LISTED]) + more


def _squares(before, after, started, now):
    """Give sums of squares: how far apart, how far each moved, and the size at the start."""
    apart = said = moved = size = 0.0
    for at in range(0, before.numel(), _STEP):
        a, b, c, d = (each[at : at + _STEP].double() for each in (before, after, started, now))
        theirs, ours = b - a, d - c
        apart += (theirs - ours).square_().sum().item()
        said += theirs.square_().sum().item()
        moved += ours.square_().sum().item()
        size += a.square_().sum().item()
    return apart, moved, said, size
