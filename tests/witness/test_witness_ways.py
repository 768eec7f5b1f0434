"""Ways in and out: workers, forks, launchers, crashes, and another sitecustomize."""

import json
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

pytestmark = pytest.mark.training


def odd(launch, *arguments):
    return launch.program("odd.py", *arguments)


def fresh_odd(launch, *arguments):
    return launch([sys.executable, str(PROGRAMS / "odd.py"), *arguments])


def test_a_crash_shows_its_own_traceback_and_code(launch):
    without = launch.fresh_loop({"crash": "memory"}, witness=False)
    with_it = launch.fresh_loop({"crash": "memory"})
    assert with_it.code == without.code == 1
    assert with_it.stderr == without.stderr
    fault = with_it.evidence.fault
    assert (fault.type, fault.memory, fault.phase) == ("RuntimeError", "yes", "between")
    assert with_it.evidence.ended_ns is None
    assert with_it.kinds("bye") == []


def test_a_crash_in_the_forward_knows_its_phase(launch):
    fault = launch.loop({"crash": "forward"}).evidence.fault
    assert (fault.type, fault.memory, fault.phase) == ("IndexError", "no", "forward")


def test_a_crash_before_training_is_told(launch):
    done = launch([sys.executable, "-c", "import torch; raise ValueError('no data')"])
    fault = done.evidence.fault
    assert (fault.type, fault.phase) == ("ValueError", "start")
    assert done.evidence.hello is None


def test_an_exit_without_goodbye_loses_no_update(launch):
    done = launch.loop({"crash": "exit"})
    assert done.code == 3
    assert len(done.evidence.updates) == 4
    assert done.evidence.updates[3].loss is not None
    assert done.evidence.ended_ns is None


def test_a_rank_that_swallows_its_exception_is_told(launch):
    done = odd(launch, "swallowed")
    assert done.code == 1
    assert done.evidence.fault.phase == "forward"


def test_a_launcher_is_quiet(launch):
    done = fresh_odd(launch, "launcher")
    assert done.code == 1
    assert done.events == []


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_loader_workers_are_quiet(launch, context):
    done = fresh_odd(launch, "workers", context)
    assert done.code == 0, done.stderr
    assert len({each["pid"] for each in done.events}) == 1
    assert len(done.evidence.updates) == 4
    assert done.evidence.malformed == 0


def test_a_fork_leaves_the_parents_channel_alone(launch):
    done = odd(launch, "forked")
    assert done.code == 0
    assert len(done.evidence.updates) == 3
    assert len({each["pid"] for each in done.events}) == 1
    assert len(done.kinds("bye")) == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_that_trains_speaks_for_itself(launch, method):
    done = fresh_odd(launch, "children", method)
    assert done.code == 0, done.stderr
    assert len(done.evidence.updates) == 2
    assert len(done.kinds("bye")) == 1
    assert done.evidence.updates[1].loss is not None


def test_two_ranks_under_torchrun(launch):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
               str(PROGRAMS / "odd.py"), "distributed"]  # fmt: skip
    done = launch(command)
    assert done.code == 0, done.stderr
    ranks = done.evidence.ranks
    assert {rank: len(rows) for rank, rows in ranks.items()} == {0: 3, 1: 3}
    assert done.evidence.hello["world_size"] == 2
    for one, two in zip(ranks[0], ranks[1], strict=True):
        assert one.batch != two.batch
        assert one.grad_norm == two.grad_norm
        assert one.update_norm == two.update_norm
    assert {each["rank"] for each in done.kinds("bye")} == {0, 1}


def test_loose_pieces_are_one_model(launch):
    seen = odd(launch, "pieces").evidence
    assert [(each.forwards, each.tokens, each.target_tokens) for each in seen.updates] == [
        (1, 12, 10)
    ] * 3
    assert seen.mark_at(0).shapes == ((40, 16), (40, 16), (40,))


def test_closures_are_seen(launch):
    seen = odd(launch, "closure").evidence
    assert len(seen.updates) == 3
    assert all(each.forwards == 1 and each.grad_norm > 0 for each in seen.updates)


def test_stepping_twice_makes_an_update_that_was_fed_nothing(launch):
    seen = odd(launch, "again").evidence
    assert [each.forwards for each in seen.updates] == [1, 0, 1, 0]
    assert seen.updates[1].batch is None


def test_steps_inside_backward_make_one_update(launch):
    seen = odd(launch, "in_backward").evidence
    assert len(seen.updates) == 3
    assert all(each.forwards == 1 and each.update_norm > 0 for each in seen.updates)


def test_a_skipped_step_is_no_update(launch):
    done = odd(launch, "overflow")
    seen = done.evidence
    assert len(seen.updates) == 2
    assert done.kinds("values")[0]["skipped"] == 1
    assert any("skipped" in note for note in seen.notes)
    assert all(each.forwards == 1 for each in seen.updates)


def test_a_sitecustomize_further_on_still_runs(launch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.further = __name__\n")
    code = "import sys, sitecustomize; sys.stdout.write(further + ' ' + sitecustomize.__file__)"
    for witness in (True, False):
        done = launch([sys.executable, "-c", code], witness=witness, path=[tmp_path])
        assert done.stdout == f"sitecustomize {tmp_path / 'sitecustomize.py'}"


def test_a_broken_configuration_harms_nobody(launch, monkeypatch):
    code = "import os, sys, torch; sys.stdout.write('fine')"
    done = launch([sys.executable, "-c", code], marks="nonsense")
    assert (done.code, done.stdout, done.stderr) == (0, "fine", "")


def test_a_parent_that_is_gone_harms_nobody(launch):
    plain = launch.loop(witness=False)
    done = launch.fresh_loop(channel="/nonexistent/nobody.sock")
    assert (done.code, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)


def test_every_line_is_strict_json_of_this_schema(launch):
    for done in (launch.loop(), odd(launch, "overflow")):
        for each in done.events:
            assert {"v", "kind", "rank", "pid"} <= set(each)
            json.dumps(each, allow_nan=False)
