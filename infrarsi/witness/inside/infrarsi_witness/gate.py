"""One global hook that is there only while nothing is running: it meets the outermost call.

A hook that stayed would be seen by the compiler and add graphs. So this one takes itself away
as it fires, and comes back when the call that it met has ended.
"""

from __future__ import annotations

import sys

from torch.nn.modules import module as torch_modules

_KEY = -0x1F7A
"""Torch numbers its hooks upward from 0."""


class Gate:
    """Meets every outermost module call, and stands aside for everything within.

    Parameters
    ----------
    recorder : Recorder
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.depth = 0

    def open(self):
        """Wait for the next outermost call."""
        torch_modules._global_forward_pre_hooks[_KEY] = self._met

    def enter(self):
        """Something outermost begins."""
        self.depth += 1
        torch_modules._global_forward_pre_hooks.pop(_KEY, None)

    def leave(self):
        """Note that it has ended."""
        self.depth = max(0, self.depth - 1)
        if self.depth == 0:
            self.open()

    def reset(self):
        """Begin anew, in a forked child."""
        self.depth = 0
        self.open()

    def _met(self, module, args):
        if self.depth:
            return
        self.enter()
        try:
            visit = self.recorder.forward_begins(module)
            gate, recorder = self, self.recorder

            def ended(module, args, kwargs, output):
                handle.remove()
                failed = sys.exc_info()[1] if output is None else None
                if failed is not None:
                    recorder.failed("forward", failed)
                else:
                    recorder.forward_ends(visit, args, kwargs, output)
                gate.leave()

            # On the module itself: torch looks for it only after its pre-hooks have run, and
            # no compiled block inside ever guards on the outer module's hooks.
            handle = module.register_forward_hook(ended, with_kwargs=True, always_call=True)
        except Exception:
            self.leave()
