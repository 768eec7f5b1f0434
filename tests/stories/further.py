"""A repository whose search has put a candidate forward: what apply does beyond one session.

Its calibration is written down and not made; every launch after it is made.
"""

import shutil

from promotions import CONTRACT, FASTER, commit_all, written
from speaking_user import SPEAKING, git

from infrarsi.execute.repository import Repository
from infrarsi.records.candidate import Candidate
from infrarsi.records.plan import Lock
from infrarsi.stages.doctor import baseline_of
from infrarsi.stages.workspace import Workspace
from infrarsi.store.contract import write_contract
from infrarsi.store.ledger import open_ledger

LEARNS = '''
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--workers", type=int, default=0)
seed = parser.parse_args().seed
WORSE = 0.0


def learnt():
    """What the state has come to: some seeds are luckier than others."""
    return 1.0 + seed % 997 / 10000 + WORSE


def loss_of(update):
    """The loss of what is in place: its own state, or that of another launch."""
    for slot in options.get("replay") or ():
        if slot["update"] < update <= slot["update"] + slot["scores"]:
            with open(os.path.join(slot["folder"], "after.0")) as file:
                return float(file.read()) + update % 5 / 10
    return learnt() + 1 / update


'''


def learning(text):
    """Give the source of a training whose state is one number, by seed."""
    text = text.replace("def heard():", LEARNS.lstrip() + "def heard():")
    text = text.replace("loss=2.0 + 1 / update", "loss=loss_of(update)")
    return text.replace('b"the state"', "str(learnt()).encode()")


def make_put_forward(root, *, program=str, slow_s=0.024, blocks=2):
    """Make a repository with a measured reference, and put the faster candidate forward."""
    shutil.copytree(SPEAKING, root, ignore=shutil.ignore_patterns("__pycache__"))
    train = root / "train.py"
    train.write_text(program(train.read_text().replace("time.sleep(0.005)", "time.sleep(0.024)")))
    if slow_s != 0.024:
        (root / "first.py").write_text(
            f"real = time.sleep\ntime.sleep = lambda seconds: real(seconds * {slow_s / 0.024})\n"
        )
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@example.org")
    plan = {"confirmation_blocks": blocks, "session_gap_s": 0.0}
    contract = CONTRACT.model_copy(update={"plan": CONTRACT.plan.model_copy(update=plan)})
    write_contract(root / "infrarsi.yaml", contract)
    commit_all(root, "my training")
    repository = Repository(root)
    repository.ignore_locally("/.infrarsi/")
    lock = Lock(
        name=contract.name, task_digest=contract.task.digest(), commit=repository.commit(),
        protected={}, inputs={},
    )  # fmt: skip
    with open_ledger(root / ".infrarsi", command="test") as ledger:
        ledger.append("locked", lock.model_dump(mode="json"))
        measure(Workspace(repository, contract, lock, ledger))
    put_forward(root, FASTER)
    return root


def measure(workspace):
    """Write a calibration on this machine down."""
    reference = Candidate.of(CONTRACT.task.surface.default_knobs())
    aa = [written(workspace, reference, "baseline", arm, i) for i, arm in enumerate("ABBA")]
    nulls = [
        written(workspace, reference, "null", f"{ulps} ulp", i) for i, ulps in enumerate("149")
    ]
    baseline = baseline_of(workspace, workspace.machine, aa, nulls, peak_flops=1e15)
    workspace.ledger.append(
        "baseline",
        {
            "baseline": baseline.model_dump(mode="json"),
            "machine": workspace.machine.model_dump(mode="json"),
        },
    )


def put_forward(root, *patches):
    """Do what a search does that ends with these patches."""
    candidate = Candidate.of({"workers": 2}, [patch.name for patch in patches])
    with open_ledger(root / ".infrarsi", command="test") as ledger:
        made = [patch.model_dump(mode="json") for patch in patches]
        ledger.append("proposed", {"patches": made, "declined": [], "incompatible": []})
        chosen = {"candidate": candidate.model_dump(mode="json"), "parts": [], "reason": "a test"}
        ledger.append("chosen", chosen)


def copied(template, place):
    """Give a repository of one's own."""
    shutil.copytree(template, place, symlinks=True)
    return place
