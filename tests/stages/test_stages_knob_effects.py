"""What a search saw of its knobs is told by status and report, from the evidence that was kept."""

import json

from search_world import World, contract

from infrarsi.execute.repository import Repository
from infrarsi.records.candidate import Candidate
from infrarsi.records.plan import Lock
from infrarsi.stages.history import History
from infrarsi.stages.report import build_report
from infrarsi.stages.reporting.knob_effects import ignored_knobs, in_words
from infrarsi.stages.status import read_status, status_in_words
from infrarsi.stages.workspace import Workspace
from infrarsi.store.ledger import open_ledger


def evidence(update_s, loss):
    """The stamped events of a launch, as the channel keeps them."""
    lines = []
    for number in range(1, 34):
        stamp = int(1e9 * (2 + update_s * number))
        for event in (
            {"kind": "update", "update": number},
            {"kind": "values", "update": number, "loss": loss / number, "forwards": 2,
             "sequences": 8, "tokens": 64},
        ):  # fmt: skip
            lines.append(json.dumps({"t_ns": stamp, "event": {"rank": 0, **event}}))
    return "\n".join(lines).encode()


def searched(tmp_path, ledger, turns):
    """A workspace whose search turned these knobs, each launch with its time and loss."""
    world = World(contract())
    defaults = world.contract.task.surface.default_knobs()
    names = {}
    for turned, _, _ in turns:
        trial = world.launch(Candidate.of({**defaults, **turned}), "screen")
        names[trial] = turned
        world.append("screened", {"trial_id": trial, "verdict": None, "update_s": 0.1})
    seen = {tuple(turned.items()): (update_s, loss) for turned, update_s, loss in turns}
    lock = Lock(name="world", task_digest="0" * 64, commit="0" * 40, protected={}, inputs={})
    workspace = Workspace(Repository(tmp_path), world.contract, lock, ledger)
    for event in world.events:
        body = event.body
        if event.kind == "trial_ended":
            key = tuple(names.get(body["trial_id"], {}).items())
            kept = workspace.artifacts.put(evidence(*seen.get(key, (0.1, 4.0))))
            body = {**body, "evidence_digest": kept}
        ledger.append(event.kind, body)
    return workspace


def test_status_and_report_tell_a_knob_that_did_nothing_and_no_other(tmp_path):
    folder = tmp_path / ".infrarsi"
    folder.mkdir()
    with open_ledger(folder, command="run") as ledger:
        workspace = searched(
            tmp_path, ledger, [({"log_every": 50}, 0.1001, 4.0), ({"recompute": False}, 0.07, 4.0)]
        )
        history = History.of(workspace.ledger.events)
        (told,) = ignored_knobs(workspace, history)
        assert (told.knob, told.values, told.default) == ("log_every", (50,), 10)
        assert told.reached_by == "--log-every"
        words = in_words(told)
        assert words.startswith("no visible effect: log_every=50 against 10: the same forwards")
        assert "0.1001 s an update against 0.1 s" in words
        assert words in status_in_words(read_status(workspace))
        assert build_report(workspace, history).silent_knobs == (told,)


def test_a_loss_that_differs_in_one_bit_is_an_effect(tmp_path):
    folder = tmp_path / ".infrarsi"
    folder.mkdir()
    with open_ledger(folder, command="run") as ledger:
        workspace = searched(tmp_path, ledger, [({"log_every": 50}, 0.1, 4.0000001)])
        assert ignored_knobs(workspace, History.of(workspace.ledger.events)) == ()


def test_evidence_that_is_gone_says_nothing(tmp_path):
    folder = tmp_path / ".infrarsi"
    folder.mkdir()
    with open_ledger(folder, command="run") as ledger:
        workspace = searched(tmp_path, ledger, [({"log_every": 50}, 0.1, 4.0)])
        for place in (folder / "artifacts").rglob("*.gz"):
            place.unlink()
        assert ignored_knobs(workspace, History.of(workspace.ledger.events)) == ()
