"""The mixture of experts trains as its README says."""

from __future__ import annotations

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

from infrarsi.edits import combine
from infrarsi.propose.patchbook import default_book, propose_patches
from infrarsi.records.task import Numerics

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tiny_moe"
SMALL = (
    "model.dim=32", "model.n_layers=2", "model.n_heads=2", "model.n_experts=4",
    "model.expert_hidden=32", "data.seq_len=32", "train.steps=25", "train.log_every=1",
    "train.lr=0.003", "train.warmup_steps=5",
)  # fmt: skip


def _module(name: str, path: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data():
    return _module("tiny_moe_data", "data.py")


@pytest.fixture(scope="module")
def settings():
    return _module("tiny_moe_settings", "config/settings.py")


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("corpus")
    with contextlib.redirect_stdout(io.StringIO()):
        data.prepare(place, max_bytes=200_000)
    return place


@pytest.fixture(scope="module")
def launch(folder):
    """A function from overrides to what the training prints."""

    @cache
    def run(*overrides: str, place: Path = EXAMPLE) -> str:
        done = subprocess.run(
            [sys.executable, str(place / "train.py"), "--config",
             str(place / "config" / "base.yaml"), f"data.dir={folder}", *SMALL, *overrides],
            capture_output=True, text=True, check=False, timeout=200,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _losses(printed: str) -> list[float]:
    return [float(each) for each in re.findall(r"\| loss ([\d.]+)", printed)]


def test_the_corpus_is_the_same_each_time_it_is_written(data, folder, tmp_path):
    with contextlib.redirect_stdout(io.StringIO()):
        data.prepare(tmp_path, max_bytes=200_000)
    for name in ("train.bin", "val.bin"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_regrouping_an_update_leaves_its_sequences_alone(data, folder):
    found = []
    for size, count in ((4, 1), (2, 2)):
        corpus = data.Corpus(folder / "train.bin", seq_len=16, seed=3)
        pairs = list(corpus.micro_batches(size, count))
        assert all(torch.equal(x[:, 1:], y[:, :-1]) for x, y in pairs)
        found.append(torch.cat([x for x, _ in pairs]))
    assert torch.equal(*found)


def test_overrides_win_over_the_file_and_misspelt_ones_are_refused(settings):
    base = EXAMPLE / "config" / "base.yaml"
    plain = settings.load_settings(base)
    changed = settings.load_settings(base, ["model.top_k=1", "train.lr=0.5"])
    assert (changed.model.top_k, changed.train.lr) == (1, 0.5)
    assert plain == settings.Settings()  # the file says what the defaults are
    for wrong in ("model.topk=1", "modle.top_k=1", "top_k=1", "model.top_k"):
        with pytest.raises(SystemExit):
            settings.load_settings(base, [wrong])


@pytest.mark.training
def test_training_lowers_the_loss_and_repeats_itself_exactly(launch):
    first = _losses(launch())
    assert len(first) == 25
    assert first[-1] < first[0] - 1.5
    assert _losses(launch("train.warmup_steps=5")) == first


@pytest.mark.training
def test_one_expert_a_token_and_bfloat16_train_evaluate_and_save(launch, tmp_path):
    place = tmp_path / "last.pt"
    printed = launch(
        "model.top_k=1", "train.dtype=bfloat16", "train.steps=3", "train.eval_every=3",
        f"train.checkpoint={place}",
    )  # fmt: skip
    assert re.search(r"held out \d+\.\d+", printed)
    saved = torch.load(place, weights_only=True)
    assert saved["settings"]["model"]["top_k"] == 1
    assert "blocks.1.moe.experts.3.w2.weight" in saved["model"]


@pytest.mark.training
@pytest.mark.parametrize(
    "names",
    [
        {"batched_experts", "cached_mask", "cached_rotary", "fused_optimizer"},
        {"stacked_experts", "sdpa", "cached_rotary", "fewer_syncs"},
    ],
)
def test_recipes_find_their_targets_in_it_and_train_the_same(launch, folder, tmp_path, names):
    files = {
        path.relative_to(EXAMPLE).as_posix(): path.read_bytes() for path in EXAMPLE.rglob("*.py")
    }
    found = propose_patches(files, numerics=Numerics(), book=default_book(), entry="train.py")
    wanted = [patch for patch in found.patches if patch.name in names]
    assert {patch.name for patch in wanted} == names
    changed = {**files, **combine(files, wanted)}
    changed["config/base.yaml"] = (EXAMPLE / "config" / "base.yaml").read_bytes()
    for path, content in changed.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    assert _losses(launch("train.steps=12", place=tmp_path)) == pytest.approx(
        _losses(launch("train.steps=12")), abs=1e-4, rel=0
    )
