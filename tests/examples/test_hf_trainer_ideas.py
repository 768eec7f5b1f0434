"""What is drafted and proposed for the example, without a line of it being edited."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from infrarsi.execute.repository import find_repository
from infrarsi.propose.patchbook import default_book, propose_patches
from infrarsi.records.task import Numerics, Surface
from infrarsi.stages.drafting.settings import draft_settings, read_program

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hf_trainer"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    place = tmp_path_factory.mktemp("hf trainer")
    for path in EXAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, place)
    for command in (
        "git init --quiet",
        "git add -A",
        "git -c user.name=you -c user.email=you@example.com commit --quiet -m training",
    ):
        subprocess.run(shlex.split(command), cwd=place, check=True)
    return find_repository(place)


@pytest.fixture(scope="module")
def command():
    """The command of the example's README."""
    text = (EXAMPLE / "README.md").read_text().replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.strip().startswith("python train.py -"))
    return shlex.split(line)


def test_the_trainers_flags_become_knobs(repository, command):
    program = read_program(repository, repository.commit(), command, folder=".", script="train.py")
    knobs, constraints = draft_settings(
        program, command, folder=".", device="cpu", torch="2.13.0", environ={}
    )
    Surface(editable=(), knobs=knobs, constraints=constraints)
    values = {knob.name: (knob.default, knob.values) for knob in knobs}
    assert values["gradient_checkpointing"] == (True, (False, True))
    assert values["optim"] == ("adamw_torch", ("adamw_torch", "adamw_torch_fused"))
    assert values["per_device_train_batch_size"] == (2, (1, 2, 4))
    assert constraints == ("per_device_train_batch_size * gradient_accumulation_steps == 4",)
    assert not {"block_size", "max_bytes", "learning_rate"} & set(values)


def test_of_the_patchbook_only_the_attention_applies_and_the_rest_say_why(repository):
    files = {path.name: path.read_bytes() for path in EXAMPLE.glob("*.py")}
    found = propose_patches(
        {"train.py": files["train.py"]}, numerics=Numerics(), book=default_book(),
        readonly={"dataset.py": files["dataset.py"]}, entry="train.py",
    )  # fmt: skip
    assert [patch.name for patch in found.patches] == ["hf_attention"]
    (edit,) = found.patches[0].edits
    assert edit.search.replace("eager", "sdpa", 1) == edit.replace
    reasons = {each.recipe: each.because for each in found.declined}
    assert "Trainer runs the loop" in reasons["compile_model"]
    assert all(reasons.values())
