"""The witness on transformers' Trainer and accelerate: what it sees is what the Trainer logged."""

import json
import sys
from pathlib import Path

import pytest

from infrarsi.records.evidence import read_evidence

pytest.importorskip("transformers")
pytestmark = pytest.mark.training

PROGRAM = Path(__file__).parent / "programs" / "trainer.py"


def grouped(micro, accumulated, **others):
    return {
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": accumulated,
        **others,
    }


VARIANTS = {
    "whole": grouped(8, 1),
    "halves": grouped(4, 2),
    "ragged": grouped(8, 1, ragged=True),
    "ragged quarters": grouped(2, 4, ragged=True),
    "recomputed": grouped(4, 2, gradient_checkpointing=True),
    "reentrant": grouped(
        4, 2, gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": True}
    ),
    "fused": grouped(4, 2, optim="adamw_torch_fused", attention="sdpa"),
    "other": grouped(8, 1, data_seed=9),
}


@pytest.fixture(scope="module")
def seen(launch):
    """Evidence and the Trainer's own log, by variant."""
    done = launch([sys.executable, str(PROGRAM), json.dumps(VARIANTS)])
    assert done.code == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith('{"name"'):
            said = json.loads(line)
            events = [each for each in done.events if each["pid"] == said["pid"]]
            stamped = (json.dumps({"t_ns": i, "event": each}) for i, each in enumerate(events))
            found[said["name"]] = (read_evidence(stamped), said["logged"])
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_every_update_has_the_loss_and_the_norm_that_the_trainer_logged(seen, name):
    evidence, logged = seen[name]
    # What reentrant recomputation hides at other marks is said, and nothing else.
    assert all("CheckpointFunction" in note for note in evidence.notes)
    assert [each.update for each in evidence.updates] == [1, 2, 3]
    for update, row in zip(evidence.updates, logged, strict=True):
        assert update.forwards == VARIANTS[name]["gradient_accumulation_steps"]
        assert update.loss == pytest.approx(float(row["loss"]), abs=1e-4)
        assert update.grad_norm == pytest.approx(float(row["grad_norm"]), rel=1e-5)
        assert update.update_norm > 0


@pytest.mark.parametrize(
    ("name", "as_in"),
    [
        ("halves", "whole"), ("ragged quarters", "ragged"), ("recomputed", "whole"),
        ("reentrant", "whole"), ("fused", "whole"),
    ],
)  # fmt: skip
def test_the_same_training_has_the_same_batches_and_values(seen, name, as_in):
    one, other = seen[name][0].updates, seen[as_in][0].updates
    for left, right in zip(one, other, strict=True):
        assert left.batch == right.batch
        assert (left.sequences, left.tokens) == (right.sequences, right.tokens)
        assert left.target_tokens == right.target_tokens
        assert left.loss == pytest.approx(right.loss, rel=1e-5)
        assert left.grad_norm == pytest.approx(right.grad_norm, rel=1e-4)
        assert left.update_norm == pytest.approx(right.update_norm, rel=1e-3)


def test_padding_and_ignored_labels_are_not_counted(seen):
    for update in seen["ragged"][0].updates:
        assert update.sequences == 8
        assert update.tokens == update.target_tokens < 8 * 12


def test_other_data_has_another_digest(seen):
    pairs = zip(seen["other"][0].updates, seen["whole"][0].updates, strict=True)
    assert all(one.batch != other.batch for one, other in pairs)
