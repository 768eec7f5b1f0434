"""The data-parallel example trains as its README says, alone and on two ranks."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp_gpt"
TINY = ("--depth=2", "--dim=32", "--heads=2", "--context=32", "--log-every=1", "--warmup=5")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")


def python(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False,
        cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses_in(text):
    return [float(each) for each in re.findall(r"^step .*\| loss ([\d.]+)", text, re.MULTILINE)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    said = python(EXAMPLE / "prepare.py", "--corpus", folder, "--max-bytes", "400000", cwd=folder)
    assert said.startswith("380,000 bytes to train on")
    return folder


@pytest.fixture(scope="module")
def train(corpus):
    """A function from launcher and flags to what rank 0 said."""

    @cache
    def launch(launcher, *flags):
        command = (*launcher, EXAMPLE / "train.py", "--corpus", corpus, *TINY, *flags)
        return python(*command, cwd=corpus)

    return launch


def test_the_corpus_is_python_source_and_the_same_each_time(corpus, tmp_path):
    python(EXAMPLE / "prepare.py", "--corpus", tmp_path, "--max-bytes", "400000", cwd=tmp_path)
    for name in ("train.bin", "valid.bin"):
        assert (tmp_path / name).read_bytes() == (corpus / name).read_bytes()
    text = np.fromfile(corpus / "train.bin", dtype=np.uint8).tobytes()
    assert b"def __init__(self" in text


@pytest.mark.training
def test_two_ranks_lower_the_loss_and_train_the_same_twice(train, corpus):
    flags = ("--steps=30", "--batch-size=4")
    said = train(TORCHRUN, *flags)
    losses = losses_in(said)
    assert "2 ranks" in said
    assert len(losses) == 30
    assert losses[-1] < losses[0] - 0.3
    again = python(*TORCHRUN, EXAMPLE / "train.py", "--corpus", corpus, *TINY, *flags, cwd=corpus)
    assert losses_in(again) == losses


@pytest.mark.training
def test_two_ranks_train_what_one_does_on_the_whole_batch(train):
    two = losses_in(train(TORCHRUN, "--steps=30", "--batch-size=4"))
    one = losses_in(train((), "--steps=30", "--batch-size=8"))
    assert two == pytest.approx(one, abs=2e-4, rel=0)


@pytest.mark.training
def test_accumulating_trains_the_same(train, tmp_path):
    whole = losses_in(train((), "--steps=30", "--batch-size=8"))
    save = tmp_path / "made" / "model.pt"
    flags = ("--batch-size=2", "--grad-accum=4", "--eval-every=30", f"--save={save}")
    said = train((), "--steps=30", *flags)
    assert losses_in(said) == pytest.approx(whole, abs=2e-4, rel=0)
    assert re.search(r"validation loss \d+\.\d+", said)
    saved = torch.load(save, weights_only=False)
    assert saved["args"]["steps"] == 30
    assert saved["model"]["tokens.weight"].shape == (256, 32)
