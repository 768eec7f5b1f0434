"""The example trains as its README says, and the handmade fast version is the same training."""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tiny_gpt"
REFERENCE = EXAMPLE / "train.py"
FAST = ROOT / "tests" / "handmade" / "tiny_gpt_fast.py"
TINY = (
    "--n-layer=2",
    "--n-embd=32",
    "--n-head=2",
    "--block-size=32",
    "--steps=30",
    "--log-every=1",
)


@pytest.fixture(scope="module")
def data():
    """The example's data.py, loaded by path under a name that no other test uses."""
    spec = importlib.util.spec_from_file_location("tiny_gpt_data", EXAMPLE / "data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data_dir(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with contextlib.redirect_stdout(io.StringIO()):
        data.prepare(folder, vocab_size=512, max_bytes=300_000)
    return folder


@pytest.fixture(scope="module")
def losses(data_dir):
    """A function from a script and its flags to the loss of every update."""

    @cache
    def launch(script, *flags):
        done = subprocess.run(
            [sys.executable, str(script), "--data-dir", str(data_dir), *TINY, *flags],
            capture_output=True,
            text=True,
            check=False,
            cwd=data_dir,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        return [float(x) for x in re.findall(r"^step .* loss ([\d.]+)", done.stdout, re.MULTILINE)]

    return launch


def updates(data, data_dir, num_updates=3, **grouping):
    batches = data.Batches(data_dir / "train.bin", block_size=32, seed=7, **grouping)
    return [
        torch.cat([torch.cat(pair, 1) for pair in batches.next_update()])
        for _ in range(num_updates)
    ]


def test_the_corpus_is_the_same_each_time_it_is_prepared(data, data_dir, tmp_path):
    with contextlib.redirect_stdout(io.StringIO()):
        data.prepare(tmp_path, vocab_size=512, max_bytes=300_000)
    for name in ("train.bin", "val.bin", "vocab.json"):
        assert (tmp_path / name).read_bytes() == (data_dir / name).read_bytes()


def test_the_tokenizer_gives_back_what_it_was_given(data, data_dir):
    tokenizer = data.Tokenizer.load(data_dir / "vocab.json")
    text = "def naïve(x):\n    return x_1 ** 2  # \u2603\n".encode()
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.vocab_size == 512
    assert max(ids) < tokenizer.vocab_size
    assert len(ids) < len(text)


def test_targets_are_the_inputs_one_token_later(data, data_dir):
    batches = data.Batches(data_dir / "train.bin", 32, batch_size=4, grad_accum=1, seed=7)
    ((x, y),) = batches.next_update()
    assert x.shape == y.shape == (4, 32)
    assert torch.equal(x[:, 1:], y[:, :-1])


@pytest.mark.parametrize(("batch_size", "grad_accum"), [(1, 4), (2, 2)])
def test_regrouping_gives_each_update_the_same_sequences(data, data_dir, batch_size, grad_accum):
    whole = updates(data, data_dir, batch_size=4, grad_accum=1)
    split = updates(data, data_dir, batch_size=batch_size, grad_accum=grad_accum)
    assert all(torch.equal(a, b) for a, b in zip(whole, split, strict=True))
    assert not torch.equal(whole[0], whole[1])


def test_batches_do_not_depend_on_the_global_generator(data, data_dir):
    torch.manual_seed(1)
    first = updates(data, data_dir, batch_size=4, grad_accum=1)
    torch.manual_seed(2)
    second = updates(data, data_dir, batch_size=4, grad_accum=1)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.training
def test_training_lowers_the_loss_and_takes_the_steps_it_was_told(losses):
    reference = losses(REFERENCE, "--batch-size", "4")
    assert len(reference) == 30
    assert reference[-1] < reference[0] - 0.5


@pytest.mark.training
@pytest.mark.parametrize(
    "flags",
    [
        ("--batch-size", "4", "--no-recompute"),
        ("--batch-size", "4", "--recompute-layers", "1"),
        ("--batch-size", "1", "--grad-accum", "4"),
    ],
)
def test_recomputing_and_regrouping_leave_the_losses_alone(losses, flags):
    assert losses(REFERENCE, *flags) == pytest.approx(
        losses(REFERENCE, "--batch-size", "4"), abs=1e-5, rel=0
    )


@pytest.mark.training
@pytest.mark.parametrize("grouping", [("4", "1"), ("2", "2")])
def test_the_fast_version_is_the_same_training(losses, grouping):
    flags = ("--batch-size", grouping[0], "--grad-accum", grouping[1])
    fast = losses(FAST, *flags)
    assert fast == pytest.approx(losses(REFERENCE, "--batch-size", "4"), abs=1e-5, rel=0)


@pytest.mark.training
def test_another_seed_is_another_training(losses):
    flags = ("--batch-size", "4")
    assert losses(REFERENCE, *flags) != losses(REFERENCE, *flags, "--seed", "1")


@pytest.mark.training
def test_a_fresh_checkout_prepares_its_own_data_evaluates_and_saves(tmp_path):
    small = ("--steps=2", "--n-layer=1", "--n-embd=32", "--n-head=2", "--block-size=16")
    rest = ("--eval-every=2", "--dtype=bfloat16", "--dropout=0.1", f"--out-dir={tmp_path / 'out'}")
    done = subprocess.run(
        [sys.executable, str(REFERENCE), f"--data-dir={tmp_path / 'data'}", *small, *rest],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "vocabulary 4096" in done.stdout
    assert re.search(r"validation loss \d+\.\d+", done.stdout)
    saved = torch.load(tmp_path / "out" / "checkpoint.pt", weights_only=True)
    assert saved["steps"] == 2
    assert saved["model"]["tok_emb.weight"].shape == (4096, 32)
