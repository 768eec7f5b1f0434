"""Made-up packs: none of these ratios was measured."""

from infrarsi.records.candidate import Effect
from infrarsi.records.experience import Atom, Hardware, Lesson, Pack, TrainingContext, ordered

DIGESTS = [f"{number:016x}" for number in range(20)]
SDPA = Atom(patch="sdpa")
RECOMPUTE = Atom(knob="recompute", before=True, after=False)


def lesson(*atoms, outcome="accepted", time=-0.2, sd=0.02, memory=None, evidence=(0,), **said):
    return Lesson.of(
        atoms=tuple(atoms) or (SDPA,), outcome=outcome,
        log_time=None if time is None else Effect(mean=time, sd=sd), log_memory=memory,
        evidence=tuple(DIGESTS[number] for number in evidence), **said,
    )  # fmt: skip


def context(**changed):
    said = {
        "kind": "steady_update_s, process_data", "num_parameters": 3_000_000, "num_tensors": 50,
        "width": 256, "longest": 4096, "tokens_per_update": 512, "matmul": ("float32",),
        "memory_share": 0.7,
    }  # fmt: skip
    return TrainingContext.model_validate({**said, **changed})


def hardware(**changed):
    said = {
        "device": "cpu", "name": "a processor", "num": 2, "memory_bytes": 850_000_000,
        "peak_flops": {"float32": 5e10}, "python": "3.11", "torch": "2.13",
    }  # fmt: skip
    return Hardware.model_validate({**said, **changed})


def pack(*lessons, id="0123456789ab", label="tiny", machine=None, training=None):
    return Pack(
        id=id, label=label, context=training or context(), hardware=machine or hardware(),
        lessons=ordered(lessons),
    )  # fmt: skip
