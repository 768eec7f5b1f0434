"""The way in: wait until the program imports torch, then place the hooks."""

from __future__ import annotations

import json
import sys

from . import SCHEMA


class Config:
    """What the parent asked for, read from one JSON object.

    Parameters
    ----------
    text : str
        ``{"schema": 1, "channel": path, "marks": [int], "sketch_seed": int,
        "sketch_elements": int, "perturb": {"ulps": float, "seed": int, "stir": bool} | null,
        "moved": [tree, checkout] | null, "replay": [slot] | null, "control": str | null}``.

    Raises
    ------
    ValueError
        The text is no JSON object of this schema.
    """

    def __init__(self, text):
        said = json.loads(text)
        if not isinstance(said, dict) or said.get("schema") != SCHEMA:
            raise ValueError("not a witness configuration of schema %d" % SCHEMA)
        self.channel = str(said["channel"])
        self.marks = sorted({int(mark) for mark in said.get("marks", [])})
        self.sketch_seed = int(said.get("sketch_seed", 0))
        self.sketch_elements = max(1, int(said.get("sketch_elements", 64)))
        self.moved = tuple(map(str, said.get("moved") or ()))
        self.replay = list(said.get("replay") or ())
        perturb = said.get("perturb") or None
        self.ulps = float(perturb["ulps"]) if perturb else 0.0
        self.perturb_seed = int(perturb["seed"]) if perturb else 0
        self.stir = bool(perturb and perturb.get("stir"))
        self.control = said.get("control") or None


class _TorchWatcher:
    """A finder that never finds: it wraps torch's loader once, and then leaves."""

    def __init__(self, config):
        self.config = config
        self.looking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.looking:
            return None
        self.looking = True
        try:
            spec = self._first_spec(name, path, target)
            if spec is not None and hasattr(spec.loader, "exec_module"):
                self._wrap(spec.loader)
            return spec
        except Exception:
            return None
        finally:
            self.looking = False

    def _first_spec(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _wrap(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            # Removing the wrap first leaves `torch.__spec__.loader` as it would have been.
            try:
                del loader.exec_module
            except AttributeError:
                pass
            execute(module)
            try:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                place_hooks(self.config)
            except Exception:
                pass

        loader.exec_module = exec_module


def wait_for_torch(text):
    """Arrange for the hooks to be placed when the program imports torch.

    Parameters
    ----------
    text : str
        The configuration, as in ``INFRARSI_WITNESS``.
    """
    config = Config(text)
    if len(config.moved) == 2:
        from . import moved

        moved.point_at(*config.moved)
    if "torch" in sys.modules:
        place_hooks(config)
    else:
        sys.meta_path.insert(0, _TorchWatcher(config))


def place_hooks(config):
    """Place every hook; torch is imported, and nothing of the program has run on it yet."""
    from . import placing

    placing.place(config)
