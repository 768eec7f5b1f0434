"""The example trains as its README says: with the loss falling, and each time the same."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytestmark = pytest.mark.training

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hf_trainer"
FLAGS = (
    "--max_steps=12", "--per_device_train_batch_size=2", "--gradient_accumulation_steps=2",
    "--gradient_checkpointing", "True", "--optim=adamw_torch", "--learning_rate=5e-3",
    "--logging_steps=1", "--save_strategy=no", "--report_to=none", "--block_size=64",
    "--max_bytes=200000",
)  # fmt: skip


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """A function from more flags to the loss of every update."""
    folder = tmp_path_factory.mktemp("hf_trainer")
    shape = json.loads((EXAMPLE / "qwen3-tiny.json").read_text())
    small = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
    (folder / "smaller.json").write_text(json.dumps(shape | small))

    @cache
    def launch(*flags):
        done = subprocess.run(
            [sys.executable, str(EXAMPLE / "train.py"), "--config_name=smaller.json",
             "--output_dir=out", *FLAGS, *flags],
            capture_output=True, text=True, check=False, cwd=folder, timeout=200,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        rows = [ast.literal_eval(x) for x in done.stdout.splitlines() if x.startswith("{'loss'")]
        return [float(row["loss"]) for row in rows]

    return launch


def test_the_loss_falls_over_the_steps_that_were_asked_for(losses):
    seen = losses()
    assert len(seen) == 12
    assert seen[-1] < seen[0] - 0.5


def test_the_same_command_is_the_same_training(losses):
    assert losses("--seed=42") == losses()


def test_faster_settings_are_the_same_training(losses):
    faster = losses(
        "--attn_implementation=sdpa", "--gradient_checkpointing=False",
        "--optim=adamw_torch_fused", "--per_device_train_batch_size=4",
        "--gradient_accumulation_steps=1",
    )  # fmt: skip
    assert faster == pytest.approx(losses(), abs=2e-3)
