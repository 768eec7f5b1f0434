"""Nothing of ours may harm the program, nor be compiled with it."""

from __future__ import annotations

import functools

import torch

try:
    from torch._C._dynamo.eval_frame import set_eval_frame as _set_eval_frame
except ImportError:

    def _set_eval_frame(callback):
        return callback


def quiet(method):
    """Guard a method: a defect of ours is said once as a note, and never raised."""

    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        if self.off:
            return None
        callback = _set_eval_frame(None)  # after a graph break, dynamo watches every frame
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.note("the witness failed in %s: %s: %s"
                      % (method.__name__, type(error).__name__, str(error)[:300]))  # fmt: skip
            return None
        finally:
            _set_eval_frame(callback)

    return guarded


def capturing():
    """Tell whether a CUDA graph is being captured: nothing may be queued or read then."""
    return (torch.cuda.is_available() and torch.cuda.is_initialized()
            and torch.cuda.is_current_stream_capturing())  # fmt: skip
