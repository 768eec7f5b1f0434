"""A search's ledger becomes a pack: ratios, failures too, and nothing that is private."""

import getpass
import json
import math
import platform
from pathlib import Path

import pytest
from judged_ledger import Recipe, Search
from search_world import PATCHES, World, contract, gpus, machine
from typer.testing import CliRunner

from infrarsi.bank.folders import read_bank
from infrarsi.bank.packs import pack_text, read_pack, write_pack
from infrarsi.cli import app
from infrarsi.errors import BankError, UsageError
from infrarsi.records.experience import Experience
from infrarsi.stages.bank import exported, forgotten, joined, shown
from infrarsi.stages.experience.described import hardware_of
from infrarsi.stages.experience.learn import lessons_of, pack_of
from infrarsi.stages.experience.recall import Banks, banks_of, experience_used, recall, remember
from infrarsi.stages.history import History
from infrarsi.store.ledger import open_ledger

SKIP = Recipe(skip_layer=True)


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    search = Search(tmp_path_factory.mktemp("learnt") / "training").measure()
    search.screen("fast")
    search.screen("skip", recipe=SKIP)
    search.promote("fast")
    return search


@pytest.fixture(scope="module")
def world():
    world = World(contract(max_trials=14))
    world.run()
    return world


def pack_from(search, **options):
    workspace = search.read()
    return pack_of(workspace, History.of(workspace.ledger.events), **options)


def by_words(lessons):
    return {", ".join(a.in_words() for a in e.atoms): e for e in lessons if not e.beside}


def infrarsi(*arguments):
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_a_promoted_search_tells_what_was_confirmed_and_what_was_refused(search):
    lessons = by_words(pack_from(search).lessons)
    fast, skip = lessons["+fast"], lessons["+skip"]
    assert fast.outcome == "confirmed"
    assert fast.log_time.mean == pytest.approx(math.log(0.08 / 0.1), abs=0.03)
    assert fast.log_memory is not None
    assert len(fast.evidence) > 4
    assert skip.outcome == "refused"
    assert "numerics: loss" in skip.why
    assert skip.log_time is None
    assert skip.atoms[0].proposer == "language"


def test_a_pack_describes_training_and_machine_in_figures(search):
    pack = pack_from(search)
    assert pack.context.num_parameters is None or pack.context.num_parameters > 0
    assert pack.context.num_tensors > 0
    assert pack.context.matmul == ("float32",)
    assert pack.hardware.device == "cpu"
    assert (pack.hardware.python, pack.hardware.torch) == ("3.11", "2.13")
    assert pack.hardware.memory_bytes == 1 << 30


def test_of_a_known_accelerator_the_data_sheet_is_added():
    world_contract = contract()
    memory = world_contract.task.memory.model_copy(update={"unit": "cuda_allocated"})
    task = world_contract.task.model_copy(update={"memory": memory})
    world_contract = world_contract.model_copy(update={"task": task})
    history = World(contract()).history
    found = hardware_of(world_contract, machine(accelerators=gpus(8)), history.baseline)
    assert (found.device, found.name, found.num) == ("cuda", "H100", 8)
    assert found.bandwidth_bytes_s == 3.35e12
    assert found.peak_flops["bfloat16"] == 989e12


def test_out_of_memory_refusals_and_parts_are_lessons_too(world):
    lessons = lessons_of(world.contract, world.history)
    outcomes = {lesson.outcome for lesson in lessons}
    assert {"accepted", "refused", "oom"} <= outcomes
    for lesson in lessons:
        assert lesson.true_id() == lesson.id
        if lesson.outcome == "oom":
            assert lesson.log_memory_above == pytest.approx(math.log(1e9 / 6e8), abs=1e-3)
            assert lesson.log_time is None
    parts = [lesson for lesson in lessons if lesson.beside]
    assert parts
    gains = {lesson.atoms[0].in_words(): lesson.log_time.mean for lesson in parts}
    assert gains["+fused"] == pytest.approx(-0.15, abs=0.01)


def test_no_absolute_time_stands_in_a_lesson(world):
    slow = World(world.contract)
    slow.launch_s = lambda: 500.0
    slow.run()
    first = {e.subject for e in lessons_of(world.contract, world.history)}
    text = json.dumps([e.model_dump(mode="json") for e in lessons_of(slow.contract, slow.history)])
    assert first
    assert "500" not in text


def test_nothing_private_stands_in_a_pack(search):
    text = pack_text(pack_from(search))
    for private in (str(search.root), str(Path.cwd()), platform.node(), f"/{getpass.getuser()}"):
        assert private not in text
    for word in text.split():
        assert "/" not in word or word.startswith("#")


def test_a_knob_whose_value_is_a_path_is_left_out():
    world = World(contract(max_trials=6))
    knob = world.contract.task.surface.knobs[1]
    moved = knob.model_copy(update={"values": ("/home/a/x", "/home/a/y"), "default": "/home/a/x"})
    surface = world.contract.task.surface.model_copy(
        update={"knobs": (world.contract.task.surface.knobs[0], moved)}
    )
    task = world.contract.task.model_copy(update={"surface": surface})
    world = World(world.contract.model_copy(update={"task": task}))
    world.run()
    lessons = lessons_of(world.contract, world.history)
    assert lessons
    assert "/home" not in json.dumps([each.model_dump(mode="json") for each in lessons])


def test_the_same_search_writes_the_same_pack_twice(search, tmp_path):
    first, again = (remember(search.read(), Banks(tmp_path), tell=str) for _ in range(2))
    assert first == again
    assert len(list(tmp_path.iterdir())) == 1
    name = read_pack(first).id
    renamed = write_pack(tmp_path / "x", pack_from(search, label="renamed"))
    assert joined([renamed], tmp_path)[0][1].id == name
    assert len(read_bank(tmp_path).packs) == 1


def test_a_bank_that_cannot_be_written_fails_no_command(search, tmp_path):
    (tmp_path / "file").write_text("")
    said = []
    place = remember(search.read(), Banks(tmp_path / "file"), tell=said.append)
    assert place.parent == search.state / "bank"
    assert said[0].startswith("note: nothing can be written to the bank")
    place.unlink()
    assert remember(search.read(), Banks(None), tell=said.append) is None


def told_of(search, banks, said):
    """Recall as `run` does, in a copy of the ledger's place."""
    with open_ledger(search.state, command="test") as ledger:
        workspace = search.read()
        workspace.ledger = ledger
        history = History.of(ledger.events)
        recall(workspace, history, banks, tell=said.append)
        return history


def test_experience_is_recalled_once_and_stands_in_the_ledger(tmp_path):
    search = Search(tmp_path / "training").measure()
    search.screen("fast")
    own = write_pack(tmp_path / "bank", pack_from(search))
    said = []
    history = told_of(search, Banks(tmp_path / "bank"), said)
    assert history.here.experience is None, "a search learns nothing from itself"
    other = read_pack(own).model_copy(update={"id": "f" * 12, "label": "other"})
    write_pack(tmp_path / "bank", other)
    history = told_of(search, Banks(tmp_path / "bank"), said)
    assert history.here.experience is None, "one that goes on makes the choices that it would have"
    history = told_of(search, Banks(tmp_path / "bank", is_named=True), said)
    experience = history.here.experience
    assert [each.label for each in experience.sources] == ["other"]
    assert experience.sources[0].distance == 0
    assert [each.patch for each in experience.beliefs] == ["fast"]
    assert "experience: 1 pack, the nearest other at distance 0.00" in said[-1]
    count = len(history.events)
    told_of(search, Banks(tmp_path / "elsewhere"), said)
    assert len(search.read().ledger.events) == count, "what was recalled stays"
    history = told_of(search, banks_of(None, off=True), said)
    assert history.here.experience == Experience(note="switched off")
    assert experience_used(history).num_beliefs == 0
    assert "switched off" in said[-1]


def test_a_broken_pack_is_told_and_passed_over_unless_the_bank_was_named(tmp_path):
    search = Search(tmp_path / "training").measure()
    (tmp_path / "broken.yaml").write_text("a: [")
    said = []
    assert told_of(search, Banks(tmp_path), said).here.experience is None
    assert "broken.yaml is not valid YAML" in said[0]
    with pytest.raises(BankError, match=r"broken\.yaml is not valid YAML"):
        told_of(search, Banks(tmp_path, is_named=True), said)
    with pytest.raises(UsageError, match="contradict each other"):
        banks_of(tmp_path, off=True)


def test_a_search_with_experience_goes_by_it_and_says_so():
    beliefs = [
        {"patch": "sdpa", "log_time": {"mean": -0.3, "sd": 0.05},
         "log_memory": {"mean": -0.3, "sd": 0.1}},
        {"patch": "fused", "log_time": {"mean": -0.15, "sd": 0.05}},
        {"patch": "cast", "log_time": {"mean": -0.5, "sd": 0.05}, "refused": 0.6},
        {"knob": "recompute", "value": False, "log_time": {"mean": -0.25, "sd": 0.05}},
    ]  # fmt: skip
    world = World(contract(max_trials=4), patches=PATCHES)
    world.begin()
    world.append("recalled", {"sources": [], "beliefs": beliefs, "note": ""})
    world.run()
    first = world.history.screenings[0]
    assert {"sdpa", "fused"} <= set(first.trial.candidate.patches)
    assert "experience weighs 0.70 in time" in first.reason
    assert first.prediction.experience_in_time == pytest.approx(0.7)
    used = experience_used(world.history)
    assert used.num_guided >= 2
    assert used.first_in_time == pytest.approx(0.7)
    assert used.num_beliefs == 4


def test_the_commands_take_a_pack_from_a_search_into_a_bank_and_out_again(search, tmp_path):
    bank, shared = tmp_path / "bank", tmp_path / "shared"
    printed = infrarsi("bank", "export", "-C", search.root, "--label", "mine")
    assert "label: mine" in printed
    infrarsi("bank", "export", "-C", search.root, "-o", shared)
    assert "no pack" in infrarsi("bank", "list", "--bank", bank)
    infrarsi("bank", "import", shared, "--bank", bank)
    rows = json.loads(infrarsi("bank", "list", "--bank", bank, "--json"))
    assert rows[0]["outcomes"] == {"confirmed": 1, "refused": 1}
    name = rows[0]["id"]
    said = infrarsi("bank", "show", name[:6], "--bank", bank)
    assert "+fast: confirmed, time x0.8" in said
    assert "+skip: refused (" in said
    assert "no pack says anything" in infrarsi("bank", "recall", "-C", search.root, "--bank", bank)
    assert name in infrarsi("bank", "forget", "world", "--bank", bank)
    assert list(bank.iterdir()) == []


def test_packs_are_found_by_id_label_or_file_and_joined_whole_or_not_at_all(search, tmp_path):
    place = write_pack(tmp_path / "a", pack_from(search))
    other = read_pack(place).model_copy(update={"id": "e" * 12})
    write_pack(tmp_path / "b", other)
    assert len(joined([tmp_path / "a", tmp_path / "b"], tmp_path / "both")) == 2
    assert shown(tmp_path / "both", str(place)).pack == read_pack(place)
    assert shown(tmp_path / "both", "eeee").pack == other
    for name, wrong in (("world", "2 packs are called"), ("nothing", "no pack is called")):
        with pytest.raises(UsageError, match=wrong):
            forgotten(tmp_path / "both", [name])
    (tmp_path / "b" / "broken.yaml").write_text("a: [")
    with pytest.raises(BankError, match="not valid YAML"):
        joined([tmp_path / "a", tmp_path / "b"], tmp_path / "new")
    assert not (tmp_path / "new").exists()
    for absent in (tmp_path / "absent", tmp_path):
        with pytest.raises(UsageError):
            joined([absent], tmp_path / "new")


def test_a_search_that_has_taught_nothing_is_not_exported(tmp_path):
    with pytest.raises(UsageError, match="taught nothing yet"):
        exported(Search(tmp_path / "training").measure().read())
