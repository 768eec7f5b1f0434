"""States in files: every kind of tensor comes back, nothing is run, and parameters find their place."""

import json

import pytest

torch = pytest.importorskip("torch")

from infrarsi_witness.replaying import place_parameters  # noqa: E402
from infrarsi_witness.shelf import Shelf, size_of, write  # noqa: E402
from infrarsi_witness.state import State, plain_name  # noqa: E402

TENSORS = {
    ("parameter", "w"): torch.arange(12.0).reshape(4, 3),
    ("parameter", "half"): torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
    ("buffer", "mask"): torch.tensor([True, False]),
    ("moment", "w", "step"): torch.tensor(7),
    ("moment", "w", "turned"): torch.arange(6.0).reshape(2, 3).t(),
    ("buffer", "nothing"): torch.empty(0, 3),
}  # fmt: skip


@pytest.fixture
def shelf(tmp_path):
    write(str(tmp_path / "file"), TENSORS)
    shelf = Shelf(str(tmp_path / "file"))
    yield shelf
    shelf.close()


def test_tensors_come_back_as_they_were(shelf):
    for name, tensor in TENSORS.items():
        again = shelf.read(name)
        assert again.dtype is tensor.dtype
        assert again.shape == tensor.shape
        assert torch.equal(again, tensor)
    assert shelf.names("parameter") == [("w",), ("half",)]
    assert ("parameter", "other") not in shelf


def test_rows_are_read_alone(shelf):
    assert torch.equal(shelf.read(("parameter", "w"), (1, 3)), TENSORS["parameter", "w"][1:3])


def test_the_size_is_known_before_anything_is_written():
    assert size_of(TENSORS.values()) == 12 * 4 + 6 * 2 + 2 + 8 + 6 * 4


@pytest.mark.parametrize(
    "changed",
    [{"at": -1}, {"at": 10**9}, {"shape": [10**6]}, {"shape": [-1]}, {"dtype": "load"}],
)
def test_a_header_that_lies_is_refused(tmp_path, changed):
    entry = {"name": ["parameter", "w"], "dtype": "float32", "shape": [2], "at": 0, **changed}
    (tmp_path / "file").write_bytes(json.dumps([entry]).encode() + b"\n" + bytes(8))
    with pytest.raises(ValueError, match="w"):
        Shelf(str(tmp_path / "file"))


def test_a_pickle_is_no_state(tmp_path):
    torch.save({"w": torch.zeros(2)}, tmp_path / "file")
    with pytest.raises(ValueError):  # noqa: PT011  # what json says of it
        Shelf(str(tmp_path / "file"))


@pytest.mark.parametrize(
    ("full", "plain"),
    [
        ("module.blocks.0.weight", "blocks.0.weight"),
        ("_orig_mod.module.head.weight", "head.weight"),
        ("blocks.1._checkpoint_wrapped_module.up.bias", "blocks.1.up.bias"),
        ("module", "module"),
    ],
)
def test_a_name_does_not_depend_on_how_the_model_is_wrapped(full, plain):
    assert plain_name(full) == plain


def test_tied_parameters_have_one_name_and_frozen_ones_none():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[1].bias.requires_grad_(False)
    assert list(State([model], []).params) == ["0.weight", "0.bias"]


def test_moments_are_named_and_counters_are_not():
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    state = State([model], [optimizer])
    keys = {("weight", "exp_avg"), ("weight", "exp_avg_sq"), ("bias", "exp_avg"),
            ("bias", "exp_avg_sq")}  # fmt: skip
    assert set(state.moments) == keys
    assert state.left == []


def test_state_beside_the_parameters_is_told():
    class Flat(torch.optim.SGD):
        def __init__(self, params):
            super().__init__(params, lr=0.1)
            self.flat = [torch.zeros(5)]

    model = torch.nn.Linear(3, 1)
    assert State([model], [Flat(model.parameters())]).left == ["flat.0 of the optimizer"]


def test_a_parameter_that_no_module_holds_is_named_by_its_optimizer():
    master = torch.nn.Parameter(torch.zeros(4))
    state = State([torch.nn.Linear(3, 1)], [torch.optim.SGD([master], lr=0.1)])
    assert "optimizer 0, group 0, parameter 0" in state.params


@pytest.fixture
def stored(tmp_path):
    """A function from named parameters to their shelf."""
    shelves = []

    def put(**tensors):
        write(str(tmp_path / "file"), {("parameter", k): each for k, each in tensors.items()})
        shelves.append(Shelf(str(tmp_path / "file")))
        return shelves[-1]

    yield put
    for shelf in shelves:
        shelf.close()


def test_fused_parameters_are_found_by_their_rows(stored):
    q, k, v = (torch.full((size, 3), float(size)) for size in (2, 1, 3))
    shelf = stored(qkv=torch.cat([q, k, v]), top=torch.ones(2))
    ours = {"v": v, "head": torch.zeros(2), "q": q, "k": k}
    places = place_parameters(ours, shelf, {"qkv": ["q", "k", "v"], "top": ["head"]})
    for name in "qkv":
        assert torch.equal(shelf.read(*places[name]), ours[name])
    assert torch.equal(shelf.read(*places["head"]), torch.ones(2))


@pytest.mark.parametrize(
    ("tensors", "mapping", "words"),
    [
        ({"a": torch.ones(2)}, {}, "without b"),
        ({"a": torch.ones(2), "b": torch.ones(2), "c": torch.ones(2)}, {}, "with c"),
        ({"a": torch.ones(2), "b": torch.ones(3)}, {}, "shape"),
        ({"ab": torch.ones(3)}, {"ab": ["a", "b"]}, "shape"),
    ],
)
def test_parameters_that_do_not_correspond_are_named(stored, tensors, mapping, words):
    ours = {"a": torch.zeros(2), "b": torch.zeros(2)}
    with pytest.raises(Exception, match=words):
        place_parameters(ours, stored(**tensors), mapping)
