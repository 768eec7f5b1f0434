"""Exceptions that end the program, and whether they are about memory."""

from __future__ import annotations

import re
import sys

from .facts import rank

_SURE = re.compile(
    r"out of memory|can't allocate memory|DefaultCPUAllocator: not enough memory|std::bad_alloc|"
    r"cannot allocate memory|failed to allocate|unable to allocate|memory allocation failed|"
    r"cudaErrorMemoryAllocation|hipErrorOutOfMemory|OUT_OF_MEMORY|OutOfMemory",
    re.IGNORECASE,
)
_UNSURE = re.compile(
    r"CUBLAS_STATUS_(ALLOC_FAILED|NOT_INITIALIZED|INTERNAL_ERROR)|CUDNN_STATUS_(ALLOC_FAILED|"
    r"INTERNAL_ERROR|NOT_INITIALIZED)|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED|"
    r"CUFFT_ALLOC_FAILED|ncclSystemError|ncclUnhandledCudaError|NCCL error|unhandled cuda error|"
    r"unable to find an engine|No space left on device|shared memory|bus error|"
    r"DataLoader worker .* killed|cudaErrorLaunchOutOfResources|ENOMEM",
    re.IGNORECASE,
)
_SURE_TYPES = {"OutOfMemoryError", "MemoryError", "AcceleratorOutOfMemoryError"}
_LAUNCHERS = {
    "ChildFailedError", "ProcessRaisedException", "ProcessExitedException",
    "CalledProcessError", "SignalException",
}  # fmt: skip
_LONGEST = 4000


def is_about_memory(error):
    """Classify an exception as ``yes``, ``no`` or ``ambiguous``: an out-of-memory or not.

    The causes are read too. It judges by type and by words, so a library that hides an
    allocation failure behind words of its own reads ``no``.
    """
    verdict, seen = "no", set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        names = {each.__name__ for each in type(error).__mro__}
        text = str(error)
        if names & _SURE_TYPES or _SURE.search(text):
            # A host's or a library's handle says "out of memory" when it is none at times.
            return "ambiguous" if _UNSURE.search(text) and not names & _SURE_TYPES else "yes"
        if _UNSURE.search(text):
            verdict = "ambiguous"
        error = error.__cause__ or error.__context__
    return verdict


class Faults:
    """Reports the exception that ends the program, then lets it end as it would have.

    Parameters
    ----------
    channel : Channel
    phase : callable
        Gives the phase that the program is in.
    """

    def __init__(self, channel, phase):
        self.channel = channel
        self.phase = phase
        self.sent = False
        self.passing = None

    def watch(self):
        """Put ourselves before whatever handles uncaught exceptions now."""
        before = sys.excepthook
        if getattr(before, "_infrarsi_witness", False):
            return

        def excepthook(type, value, traceback):
            try:
                if not (type.__name__ in _LAUNCHERS and not self.channel.spoke):
                    self.report(value, self._phase_of(value))
            except Exception:
                pass
            before(type, value, traceback)

        excepthook._infrarsi_witness = True
        sys.excepthook = excepthook

    def passed(self, phase, error):
        """Remember an exception that left a phase; the program may still catch it."""
        if self.passing is None or self.passing[2] != id(error):
            self.passing = (phase, _said(error, phase), id(error))

    def recovered(self):
        """Forget it: training went on."""
        self.passing = None

    def report(self, error, phase):
        """Send the fault, once."""
        if not self.sent:
            self._send(_said(error, phase))

    def report_passing(self):
        """At exit: a rank that swallowed its exception still died of it."""
        if self.passing is not None and not self.sent:
            self._send(self.passing[1])

    def _send(self, said):
        self.sent = True
        self.channel.rank = rank()
        self.channel.send("fault", **said)

    def _phase_of(self, error):
        if self.passing is not None and self.passing[2] == id(error):
            return self.passing[0]
        return self.phase()


def _said(error, phase):
    return {"type": type(error).__name__, "message": str(error)[:_LONGEST], "phase": phase,
            "memory": is_about_memory(error)}  # fmt: skip
