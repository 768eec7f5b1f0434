"""The digest of what a forward was fed, without any child process."""

from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from infrarsi_witness.batches import Digester  # noqa: E402
from infrarsi_witness.inputs import find_inputs, parameter_names  # noqa: E402

MASK = (1 << 64) - 1


def make_rows(rows=8, length=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 1000, (rows, length), generator=generator)


def digest(calls):
    digester, total = Digester(), 0
    for args, kwargs in calls:
        total += int(digester.read(args, kwargs, []).joint)
    return total & MASK


def split(ids, targets, size):
    return [((a, b), {}) for a, b in zip(ids.split(size), targets.split(size), strict=True)]


@pytest.mark.parametrize("size", [4, 2, 1])
def test_the_digest_stays_when_a_batch_is_regrouped(size):
    ids, targets = make_rows(), make_rows(seed=1)
    assert digest(split(ids, targets, size)) == digest(split(ids, targets, 8))


def test_the_digest_stays_when_rows_change_places():
    ids, targets = make_rows(), make_rows(seed=1)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3))
    assert digest(split(ids[order], targets[order], 4)) == digest(split(ids, targets, 4))


@pytest.mark.parametrize("what", ["token", "target", "order", "swap", "repeat", "short"])
def test_the_digest_moves_when_the_data_do(what):
    ids, targets = make_rows(), make_rows(seed=1)
    before = digest(split(ids, targets, 8))
    match what:
        case "token":
            ids[3, 5] += 1
        case "target":
            targets[3, 5] += 1
        case "order":
            ids[2] = ids[2].flip(0)
        case "swap":
            targets = targets.roll(1, 0)
        case "repeat":
            ids[1], targets[1] = ids[0], targets[0]
        case "short":
            ids, targets = ids[:, :-1], targets[:, :-1]
    assert digest(split(ids, targets, 8)) != before


def test_rows_that_cancel_in_pairs_still_show():
    # A plain sum or xor of rows would be blind to a repeated pair.
    ids = make_rows(2)
    twice = torch.cat([ids[:1], ids[:1]])
    assert digest([((ids,), {})]) != digest([((twice,), {})])
    assert digest([((twice,), {})]) != 0


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("width", [16, 20, 33])
def test_padding_does_not_matter_under_a_mask(side, width):
    ids, targets = make_rows(4, 16), make_rows(4, 16, seed=1)
    plain = digest([((), {"input_ids": ids, "labels": targets,
                          "attention_mask": torch.ones_like(ids)})])  # fmt: skip
    pad = width - 16
    place = (pad, 0) if side == "left" else (0, pad)
    padded = {
        "input_ids": torch.nn.functional.pad(ids, place, value=7),
        "labels": torch.nn.functional.pad(targets, place, value=-100),
        "attention_mask": torch.nn.functional.pad(torch.ones_like(ids), place),
    }
    assert digest([((), padded)]) == plain
    assert digest([((ids, targets), {})]) == plain


def test_the_mask_is_applied_to_the_counts():
    ids, targets = make_rows(2, 8), make_rows(2, 8, seed=1)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    targets[0, :3] = -100
    fed = Digester().read((), {"input_ids": ids, "labels": targets, "attention_mask": mask}, [])
    assert (int(fed.tokens), int(fed.targets), int(fed.sequences)) == (13, 10, 2)


def test_a_masked_target_shows():
    ids, targets = make_rows(2, 8), make_rows(2, 8, seed=1)
    fewer = targets.clone()
    fewer[0, :3] = -100
    assert digest([((ids, targets), {})]) != digest([((ids, fewer), {})])


def test_packed_rows_are_split_where_positions_begin_again():
    first, second, third = make_rows(1, 5), make_rows(1, 7, seed=1), make_rows(1, 4, seed=2)
    position = [torch.arange(n)[None] for n in (5, 7, 4)]

    def packed(ids, positions):
        return ((), {"input_ids": torch.cat(ids, 1), "position_ids": torch.cat(positions, 1)})

    together = digest([packed([first, second, third], position)])
    apart = digest([packed([third, first], [position[2], position[0]]),
                    packed([second], [position[1]])])  # fmt: skip
    assert together == apart
    assert together == digest([((first,), {}), ((second,), {}), ((third,), {})])
    fed = Digester().read(*packed([first, second, third], position), [])
    assert int(fed.sequences) == 3


def test_positions_said_once_for_all_rows_change_nothing():
    ids = make_rows(4, 16)
    positions = torch.arange(16)[None]
    said = [((), {"input_ids": ids, "position_ids": positions})]
    assert digest(said) == digest([((ids,), {})])


def test_dtype_and_layout_do_not_matter():
    ids = make_rows(4, 16)
    assert digest([((ids.int(),), {})]) == digest([((ids,), {})])
    assert digest([((ids.t().contiguous().t(),), {})]) == digest([((ids,), {})])


@dataclass
class Batch:
    input_ids: object
    labels: object


def test_inputs_are_found_in_dicts_and_dataclasses():
    ids, targets = make_rows(), make_rows(seed=1)
    plain = digest([((ids, targets), {})])
    assert digest([(({"input_ids": ids, "labels": targets},), {})]) == plain
    assert digest([((Batch(ids, targets),), {})]) == plain
    assert digest([(([ids, targets],), {})]) == plain
    assert digest([((), {"labels": targets, "input_ids": ids})]) == plain


def test_a_call_that_continues_another_is_no_batch():
    x = torch.randn(2, 3, requires_grad=True)
    assert Digester().read((x,), {}, []) is None
    fed = Digester().read((x, torch.tensor([1, -100])), {}, [])
    assert fed.ids is None
    assert int(fed.targets) == 1


def test_inputs_of_unknown_roles_are_named():
    ids = make_rows(2, 8)
    found = find_inputs((), {"input_ids": ids, "token_type_ids": ids, "cache_position": ids[0]}, [])
    assert found.ignored == ["token_type_ids", "cache_position"]


def test_names_come_from_the_forward():
    class Model(torch.nn.Module):
        def forward(self, idx, attention_mask, *rest, targets=None):
            return idx

    names = parameter_names(Model().forward)
    assert names == ["idx", "attention_mask"]
    ids = make_rows(2, 8)
    assert find_inputs((ids, torch.ones_like(ids)), {}, names).targets == []


def test_one_label_a_row_is_part_of_the_row():
    ids, labels = make_rows(4, 16), torch.tensor([0, 1, 1, 0])
    one = digest([((), {"input_ids": ids, "labels": labels})])
    other = digest([((), {"input_ids": ids, "labels": labels.flip(0).roll(1)})])
    assert one != other


def test_no_two_of_many_digests_collide():
    seen = {digest([((make_rows(2, 4, seed=seed),), {})]) for seed in range(500)}
    assert len(seen) == 500
