"""The contract is read strictly, and its lock names what changed."""

import pytest

from infrarsi.errors import ContractError
from infrarsi.records.plan import Contract, Lock
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task
from infrarsi.store.contract import check_lock, hash_files, read_contract, write_contract


def contract():
    knob = Knob(name="recompute", reach=Flag(flag="--recompute", style="negatable"),
                values=(False, True), default=True, raises_memory="down")  # fmt: skip
    surface = Surface(editable=("model.py",), knobs=(knob,))
    task = Task(
        command=("python", "train.py"), surface=surface, memory=Memory(capacity_bytes=10**9)
    )
    return Contract(name="tiny", task=task)


def test_a_contract_comes_back_as_it_was_written(tmp_path):
    write_contract(tmp_path / "infrarsi.yaml", contract())
    assert read_contract(tmp_path / "infrarsi.yaml") == contract()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: [", "not valid YAML"),
        ("name: x", "task: Field required"),
        ("nam: x", "name: Field required"),
    ],
)
def test_a_bad_contract_is_refused_in_words(tmp_path, text, said):
    (tmp_path / "infrarsi.yaml").write_text(text)
    with pytest.raises(ContractError, match=said):
        read_contract(tmp_path / "infrarsi.yaml")


def test_an_unknown_field_is_refused_with_its_place(tmp_path):
    write_contract(tmp_path / "infrarsi.yaml", contract())
    text = (tmp_path / "infrarsi.yaml").read_text().replace("max_trials", "max_trails")
    (tmp_path / "infrarsi.yaml").write_text(text)
    with pytest.raises(ContractError, match=r"plan\.budget\.max_trails"):
        read_contract(tmp_path / "infrarsi.yaml")


def locked(root):
    return Lock(
        name="tiny", task_digest=contract().task.digest(), commit="0" * 40,
        protected=hash_files(root, ["data.py", "sub"]), inputs=hash_files(root, ["prepared"]),
    )  # fmt: skip


@pytest.fixture
def root(tmp_path):
    (tmp_path / "data.py").write_text("x = 1\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("a")
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "train.bin").write_bytes(b"\0" * 100)
    return tmp_path


def test_an_unchanged_tree_holds_its_lock(root):
    check_lock(root, contract(), locked(root))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("data.py", "the protected file data.py was changed"),
        ("sub/a.txt", "the protected file sub was changed"),
        ("prepared/train.bin", "the input prepared was changed"),
    ],
)
def test_a_changed_file_is_named(root, path, said):
    lock = locked(root)
    (root / path).write_bytes(b"other")
    with pytest.raises(ContractError, match=said):
        check_lock(root, contract(), lock)


def test_a_missing_file_and_a_link_in_its_place_are_named(root):
    lock = locked(root)
    (root / "data.py").rename(root / "elsewhere.py")
    with pytest.raises(ContractError, match=r"data\.py is missing"):
        check_lock(root, contract(), lock)
    (root / "data.py").symlink_to("elsewhere.py")
    with pytest.raises(ContractError, match=r"data\.py was changed"):
        check_lock(root, contract(), lock)


def test_a_changed_task_is_refused_and_a_changed_plan_is_not(root):
    lock, present = locked(root), contract()
    plan = present.plan.model_copy(update={"seed": 7})
    check_lock(root, present.model_copy(update={"plan": plan}), lock)
    task = present.task.model_copy(update={"command": ("python", "train.py", "--steps", "5")})
    with pytest.raises(ContractError, match=r"the task .* was changed"):
        check_lock(root, present.model_copy(update={"task": task}), lock)
