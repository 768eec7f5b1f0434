"""A launch of several ranks ends when all have, and one rank's end is everybody's."""

import subprocess
import sys

import pytest

from infrarsi.execute.ending import Ending, explain
from infrarsi.execute.sandbox import Tier
from infrarsi.records.evidence import read_evidence
from infrarsi.records.trial import Outcome

TWO = """
def ranks(work):
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            channel = connect()
            say(channel, kind="hello", rank=rank, world_size=2)
            work(rank, channel)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
def train(rank, channel, first, last, pause):
    for k in range(first, last + 1):
        time.sleep(pause)
        say(channel, kind="update", update=k, rank=rank)
        say(channel, kind="values", update=k, rank=rank, loss=1.0, forwards=1)
"""


def alive(words):
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return any(words in line for line in listed.stdout.splitlines() if "ps -eo" not in line)


def test_the_slowest_rank_must_reach_the_stop_too(run_program):
    done = run_program(
        TWO + "ranks(lambda r, c: train(r, c, 1, 1000, 0.03 if r == 0 else 0.045))\n"
    )
    assert done.outcome is Outcome.OK
    ranks = read_evidence(done.events.splitlines()).ranks
    assert len(ranks[1]) >= 5
    assert len(ranks[0]) >= len(ranks[1])


def test_a_rank_that_stays_behind_does_not_hold_the_launch_for_ever(run_program):
    work = "lambda r, c: train(r, c, 1, 1000 if r == 0 else 2, 0.01)"
    done = run_program(TWO + f"ranks({work})\n", deadline_s=60)
    assert done.outcome is Outcome.OK
    evidence = read_evidence(done.events.splitlines())
    assert len(evidence.ranks[1]) == 2
    assert len(evidence.ranks[0]) >= 15


def test_a_rank_that_never_speaks_is_missed(run_program):
    source = (
        "channel = connect()\nsay(channel, kind='hello', world_size=2)\n"
        "updates(channel, 1, 1000, pause=0.01)\n"
    )
    done = run_program(source, deadline_s=60)
    assert done.outcome is Outcome.OK
    assert read_evidence(done.events.splitlines()).missing_ranks == (1,)


def test_an_exception_of_one_rank_ends_a_launch_that_then_hangs(run_program):
    work = (
        "def work(rank, channel):\n"
        "    train(rank, channel, 1, 3, 0.01)\n"
        "    if rank == 1:\n"
        "        say(channel, kind='fault', rank=1, type='ValueError', message='bad batch',\n"
        "            phase='forward', memory='no')\n"
        "    time.sleep(600)\n"
    )
    done = run_program(TWO + work + "ranks(work)\n", deadline_s=300, fault_grace_s=1.0)
    assert done.outcome is Outcome.CRASHED
    assert "rank 1: ValueError: bad batch" in done.reason
    assert done.wall_s < 60
    assert not alive(run_program.program)


def test_a_helpers_exception_does_not_end_the_training(run_program):
    source = (
        "channel = connect()\nsay(channel, kind='hello', world_size=1)\n"
        "say(channel, kind='fault', pid=1, type='OSError', message='no such tool', phase='start')\n"
        "updates(channel, 1, 1000, pause=0.1)\n"
    )
    assert run_program(source, fault_grace_s=0.2).outcome is Outcome.OK


def test_a_rank_that_hangs_after_an_error_is_ended_at_the_deadline_with_its_words(run_program):
    work = (
        "def work(rank, channel):\n"
        "    train(rank, channel, 1, 3, 0.01)\n"
        "    if rank == 1:\n"
        "        print('[rank1]: ValueError: bad batch, and nobody left to tell', flush=True)\n"
        "    time.sleep(600)\n"
    )
    done = run_program(TWO + work + "ranks(work)\n", deadline_s=2.0)
    assert done.outcome is Outcome.HUNG
    assert "last update seen was 3" in done.reason
    assert "rank 1: ValueError: bad batch" in done.reason
    assert not alive(run_program.program)


def test_the_cause_is_told_and_not_its_echo(run_program):
    work = (
        "def work(rank, channel):\n"
        "    train(rank, channel, 1, 2, 0.01)\n"
        "    if rank == 0:\n"
        "        say(channel, kind='fault', rank=0, type='RuntimeError', phase='between',\n"
        "            message='Connection closed by peer [127.0.0.1]:4242', memory='no')\n"
        "    else:\n"
        "        time.sleep(0.3)\n"
        "        say(channel, kind='fault', rank=1, type='MemoryError', message='', phase='forward',\n"
        "            memory='yes')\n"
        "    os._exit(1)\n"
    )
    done = run_program(TWO + work + "ranks(work)\nraise SystemExit(1)\n")
    assert done.outcome is Outcome.OOM
    assert "rank 1: MemoryError" in done.reason
    fault = read_evidence(done.events.splitlines()).fault
    assert (fault.rank, fault.type) == (1, "MemoryError")


def test_memory_is_the_largest_ranks_and_so_is_its_cap(run_program):
    work = (
        "def work(rank, channel):\n"
        "    held = bytearray(200_000_000 if rank else 150_000_000)\n"
        "    train(rank, channel, 1, 50, 0.02)\n"
    )
    done = run_program(TWO + work + "ranks(work)\n", cap_bytes=330_000_000)
    assert done.outcome is Outcome.OK
    assert 200_000_000 < done.peak_data_bytes < 330_000_000


TORCHRUN = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/training/train.py", line 9, in <module>
[rank1]:     main()
[rank1]: KeyError: 'lr'
[rank0]: Traceback (most recent call last):
[rank0]:   File "/srv/training/train.py", line 12, in main
[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1
E1130 02:50:00.123 99 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1)
Traceback (most recent call last):
  File "/env/bin/torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_02:50:00
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 99)
  error_file: <N/A>
  traceback : {text}
============================================================
"""


def test_a_launchers_frame_gives_way_to_the_ranks_own_words():
    log = TORCHRUN.format(code=1, text="To enable traceback see: https://pytorch.org").encode()
    outcome, reason = explain(Ending(exit_code=1, log=log, last_update=0))
    assert outcome is Outcome.CRASHED
    assert "KeyError: 'lr'" in reason
    echo = "rank 0: RuntimeError: Connection closed by peer"
    _, reason = explain(Ending(exit_code=1, log=log, last_update=0, fault_text=echo))
    assert "KeyError: 'lr'" in reason


def test_a_rank_that_was_killed_is_perhaps_out_of_memory():
    log = TORCHRUN.replace("[rank1]: KeyError: 'lr'\n", "").format(
        code=-9, text="Signal 9 (SIGKILL) received by PID 99"
    )
    log = "\n".join(line for line in log.splitlines() if not line.startswith("[rank1]"))
    echo = "rank 0: RuntimeError: Connection closed by peer"
    outcome, reason = explain(
        Ending(exit_code=1, log=log.encode(), last_update=3, fault_text=echo, fault_memory="no")
    )
    assert outcome is Outcome.AMBIGUOUS_MEMORY
    assert "rank 1 was killed by signal 9" in reason


@pytest.mark.parametrize("variable", ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"])
def test_a_contained_launch_talks_over_loopback_under_its_own_name(
    run_program, tier, monkeypatch, variable
):
    monkeypatch.setenv(variable, "eth7")
    source = (
        "import socket as s\n"
        f"print(s.gethostbyname(s.gethostname()), os.environ['{variable}'])\n"
        "with s.create_server(('127.0.0.1', 29500)) as server:\n"
        "    s.create_connection((s.gethostname(), 29500), timeout=5).close()\n"
        "    print('met')\n"
        "raise SystemExit(3)\n"
    )
    if tier is Tier.PROCESS_GROUP:
        done = run_program(f"print(os.environ['{variable}'])\nraise SystemExit(3)\n")
        assert "eth7" in done.log.decode()
        return
    done = run_program(source)
    assert done.log.decode().split()[1:] == ["lo", "met"], done.log.decode()
    assert done.log.decode().startswith("127.")


@pytest.mark.training
def test_ranks_under_torchrun_find_each_other_and_the_dead_one_is_named(run_program):
    pytest.importorskip("torch")
    program = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(3) * dist.get_rank()\n"
        "dist.all_reduce(x)\n"
        "assert x.tolist() == [1.0] * 3\n"
        "if dist.get_rank() == 1: raise ValueError('rank one gives up')\n"
        "dist.barrier()\n"
    )
    (run_program.tree / "ranks.py").write_text(program)
    argv = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "ranks.py")
    done = run_program("", argv=argv, deadline_s=120, env={"OMP_NUM_THREADS": "1"})
    assert done.outcome is Outcome.CRASHED
    assert "ValueError: rank one gives up" in done.reason
    assert done.wall_s < 90
    assert not alive(str(run_program.tree / "ranks.py"))
