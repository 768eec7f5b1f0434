"""Every specimen of tests/corpus before the judge: `make bench-judge`. Goes on where it was.

``python tests/benches/judge.py [--workload NAME] [--only NAME] [--honest-launches N] [--minutes M]``

Each example is copied into a repository of its own under ``.demo/judge/``, locked and measured once;
`SECOND` are other contracts of the same examples, with nothing else changed. Only named are they run.
Then every specimen is launched and judged by the stage that a search performs its trials with, and
what came of it is a line of ``.demo/judge/results.jsonl``. A launch that only the machine disturbed is
repeated once, as a search does. What is refused before it starts is launched in a second copy whose
contract lets patches edit anything, to see how fast it would have looked. ``--rejudge`` judges the
stored launches again by today's rules. Writes docs/verification.md. Not collected by pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # so that a busy neighbour costs little
sys.path[:0] = [str(ROOT / "tests" / "corpus"), str(Path(__file__).parent)]

from specimen import Specimen, read_corpus  # noqa: E402
from verification import LOOKS_FASTER, Row, write_report  # noqa: E402

from infrarsi.judge.findings import HICCUPS  # noqa: E402
from infrarsi.records.base import canonical_json  # noqa: E402
from infrarsi.records.candidate import Candidate  # noqa: E402
from infrarsi.records.trial import Outcome, Trial  # noqa: E402
from infrarsi.records.verdict import Ruling, Verdict  # noqa: E402
from infrarsi.stages.apply import confirm  # noqa: E402
from infrarsi.stages.doctor import diagnose  # noqa: E402
from infrarsi.stages.history import History  # noqa: E402
from infrarsi.stages.init import Draft, lock_task  # noqa: E402
from infrarsi.stages.judging import measured_update_s, screen  # noqa: E402
from infrarsi.stages.launching.trial import Request, perform_trial  # noqa: E402
from infrarsi.stages.run import perform  # noqa: E402
from infrarsi.stages.searching.steps import Judge, Launch  # noqa: E402
from infrarsi.stages.workspace import Workspace, open_workspace, read_workspace  # noqa: E402
from infrarsi.store.contract import CONTRACT_FILE, write_contract  # noqa: E402

PLACE = ROOT / ".demo" / "judge"
RESULTS = PLACE / "results.jsonl"
REPORT = ROOT / "docs" / "verification.md"
BETWEEN = 8
"""Launches of other specimens between two of the reference, which speeds are compared with."""


@dataclass(frozen=True)
class Session:
    """How an example is locked, and what its log says of its own speed."""

    example: str

    command: str
    memory_bytes: int
    before: tuple[str, ...] = ()
    claim: str = ""
    """A pattern for a line of the log: the update's number, and tokens a second or seconds."""
    claims_seconds: bool = False


SESSIONS = {
    "tiny_gpt": Session(
        "tiny_gpt",
        "python train.py --n-layer 4 --block-size 256", 3_000_000_000, before=("python data.py",),
        claim=r"^step +(\d+) .* ([\d,.a-z-]+) tokens/s",
    ),
    "tiny_moe": Session(
        "tiny_moe",
        "python train.py --config config/base.yaml", 3_000_000_000, before=("python data.py",),
        claim=r"^ *(\d+) \| loss .* \| ([\d.]+) s$", claims_seconds=True,
    ),
    "ddp_gpt": Session(
        "ddp_gpt",
        "torchrun --standalone --nproc_per_node=2 train.py", 3_000_000_000, before=("python prepare.py",),
        claim=r"^step +(\d+) \| .* \| ([\d,]+) bytes/s",
    ),
    "hf_trainer": Session(
        "hf_trainer",
        "python train.py --output_dir out --max_steps 500 --per_device_train_batch_size 2"
        " --gradient_accumulation_steps 2 --gradient_checkpointing True --optim adamw_torch"
        " --learning_rate 2e-3 --lr_scheduler_type cosine --warmup_steps 20 --weight_decay 0.1"
        " --logging_steps 1 --save_strategy no --report_to none",
        6_000_000_000,
    ),
    "tiny_gpt-second": Session(
        "tiny_gpt",
        "python train.py --n-layer 3 --block-size 192 --n-embd 96 --batch-size 2 --grad-accum 2 --seed 7"
        " --lr 3e-4",
        4_000_000_000, before=("python data.py",), claim=r"^step +(\d+) .* ([\d,.a-z-]+) tokens/s",
    ),
}  # fmt: skip
SECOND = ("tiny_gpt-second",)
WARMUP, MEASURED, BLOCKS = 3, 8, 4


class Silent:
    """Nobody watches."""

    def say(self, text: str) -> None:
        """Hear nothing."""

    def begin(self, step: object, history: History) -> None:
        """See nothing."""

    def end(self, step: object, history: History) -> None:
        """See nothing."""


def main() -> None:
    """Launch what is wanted and was not launched yet, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=SESSIONS, action="append")
    parser.add_argument("--only", action="append", default=[], help="a specimen's name")
    parser.add_argument("--honest-launches", type=int, default=4, help="of each honest specimen")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no launch after these")
    parser.add_argument("--rejudge", action="store_true")
    parser.add_argument("--confirm", action="store_true", help="what a screening let pass")
    args = parser.parse_args()
    until = time.monotonic() + 60 * args.minutes
    corpus = [each for each in read_corpus() if not args.only or each.name in args.only]
    PLACE.mkdir(parents=True, exist_ok=True)
    for workload in args.workload or [each for each in SESSIONS if each not in SECOND]:
        example = SESSIONS[workload].example
        mine = [each for each in corpus if each.example == example and not each.unmeasured]
        if args.rejudge:
            rejudge(workload)
        elif mine and time.monotonic() < until:
            with Bench(workload).opened(mine) as bench:
                if args.confirm:
                    bench.confirm(mine, until=until)
                else:
                    bench.run(mine, honest_launches=args.honest_launches, until=until)
    write_report(REPORT, read_corpus(), rows(), about=SESSIONS, second=SECOND)


def rows() -> list[Row]:
    """Read what was recorded, the latest judgement of each launch."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    found = {}
    for line in lines:
        row = Row(**json.loads(line))
        found[row.workload, row.trial] = row
    return list(found.values())


def record(row: Row) -> None:
    """Add a line to the results."""
    with RESULTS.open("a") as file:
        file.write(json.dumps(row.__dict__) + "\n")


@dataclass
class Bench:
    """One example under a contract."""

    workload: str

    @contextmanager
    def opened(self, specimens: list[Specimen]) -> Iterator[Bench]:
        """Lock and measure the example where that was not done, and introduce the specimens."""
        place = prepare(self.workload, PLACE / self.workload)
        with open_workspace(place, command="bench") as workspace:
            diagnose(workspace, tell=say)
            self.workspace = workspace
            self.history = History.of(workspace.ledger.events)
            self.history.fold(workspace.begin("run"))
            patches = {**self.history.patches, **{s.name: s.patch for s in specimens if s.patch}}
            if patches != self.history.patches:
                self.history.fold(workspace.ledger.append("proposed", {
                    "patches": [each.model_dump(mode="json") for each in patches.values()],
                    "declined": [], "incompatible": [],
                }))  # fmt: skip
            yield self

    def run(self, specimens: list[Specimen], *, honest_launches: int, until: float) -> None:
        """Launch false ones once, then honest ones in turns, the reference now and then."""
        for number, specimen in enumerate(wanted(specimens, honest_launches, self.workload)):
            if time.monotonic() > until:
                return
            if number % BETWEEN == 0:
                self.launch(self.reference_specimen())
            for _ in range(specimen.launches):
                self.launch(specimen)

    def confirm(self, specimens: list[Specimen], *, until: float) -> None:
        """Put false specimens that a screening let pass through a confirmation, as `apply` does."""
        latest = {row.specimen: row for row in rows() if row.workload == self.workload}
        for specimen in specimens:
            row = latest.get(specimen.name)
            current = row is not None and row.digest == digest_of(specimen)
            if specimen.honest or row is None or not current or not row.accepted:
                continue
            if row.stage == "confirm" or row.looks <= LOOKS_FASTER or time.monotonic() > until:
                continue
            candidate = self.request_of(specimen, self.workspace).candidate
            verdict = confirm(self.workspace, candidate, tell=say)
            self.history = History.of(self.workspace.ledger.events)
            said = judged(verdict, self.history.trials[row.trial])
            record(Row(**{**row.__dict__, **said, "trial": verdict.trials[0], "stage": "confirm"}))
            say(f"{specimen.name}: confirmation {verdict.ruling.value}: {rows()[-1].first}")

    def reference_specimen(self) -> Specimen:
        """Give the specimen that changes nothing."""
        return next(
            each
            for each in read_corpus()
            if each.example == SESSIONS[self.workload].example
            and each.honest
            and not each.edits
            and not each.knobs
        )

    def launch(self, specimen: Specimen) -> None:
        """Launch and judge once, and again where only the machine disturbed it."""
        trial, verdict = self.screened(specimen)
        repeats = 0
        if verdict is not None and disturbed(verdict):
            repeats = 1
            trial, verdict = self.screened(specimen)
        row = self.row_of(specimen, trial, verdict, repeats=repeats)
        record(row)
        say(f"{specimen.name}: {row.outcome}, {row.ruling}, {row.speedup or 0:.2f}x  {row.first}")

    def screened(self, specimen: Specimen) -> tuple[Trial, Verdict | None]:
        """Do what `run` does with one candidate."""
        request = self.request_of(specimen, self.workspace)
        perform(self.workspace, self.history, Launch(request), Silent())
        trial = self.history.trials_for("screen")[-1]
        perform(self.workspace, self.history, Judge(trial), Silent())
        return trial, self.history.screenings[-1].verdict

    def request_of(self, specimen: Specimen, workspace: Workspace) -> Request:
        """Give the trial of a specimen."""
        defaults = workspace.contract.task.surface.default_knobs()
        unknown = set(specimen.knobs) - set(defaults)
        if unknown:
            raise SystemExit(f"{specimen.name}: the contract has no knob {unknown.pop()}")
        names = [specimen.name] if specimen.patch else []
        number = len(self.history.trials_for("screen"))
        return Request(
            Candidate.of({**defaults, **specimen.knobs}, names), "screen", replicate=number,
            remarks={"reason": specimen.name},
        )  # fmt: skip

    def row_of(
        self, specimen: Specimen, trial: Trial, verdict: Verdict | None, *, repeats: int
    ) -> Row:
        """Put down how one launch ended, how fast it looked, and what the judge said."""
        update_s, reference_s = measured_update_s(self.workspace, trial), self.reference_s()
        if trial.outcome is Outcome.REFUSED:
            update_s = self.unjudged_update_s(specimen)
        return Row(
            specimen=specimen.name, workload=self.workload, digest=digest_of(specimen),
            trial=trial.trial_id, outcome=trial.outcome.value, reason=trial.reason,
            update_s=update_s, reference_s=reference_s, claimed=self.claimed(trial),
            repeats=repeats, wall_s=trial.wall_s, sandbox=trial.sandbox, **judged(verdict, trial),
        )  # fmt: skip

    def reference_s(self) -> float:
        """Give the reference's seconds an update, by its last three launches."""
        assert self.history.baseline is not None, "it was diagnosed"
        plain = Candidate.of(self.workspace.contract.task.surface.default_knobs())
        times = [each.update_s for each in self.history.screenings
                 if each.trial.candidate == plain and each.update_s]  # fmt: skip
        return median(times[-3:]) if times else self.history.baseline.update_s.point

    def claimed(self, trial: Trial) -> float | None:
        """Give the speedup that the program's own log claims, at the same update."""
        session, plain = SESSIONS[self.workload], self.reference_trial()
        mine, theirs = (claims_in(self.workspace, each, session.claim) for each in (trial, plain))
        shared = sorted(set(mine) & set(theirs) - {0})
        if not shared or not theirs[shared[-1]] or not mine[shared[-1]]:
            return None
        ratio = mine[shared[-1]] / theirs[shared[-1]]
        return 1 / ratio if session.claims_seconds else ratio

    def reference_trial(self) -> Trial:
        """Give the last launch of the reference."""
        plain = Candidate.of(self.workspace.contract.task.surface.default_knobs())
        done = [*self.history.trials_for("baseline"), *self.history.trials_for("screen")]
        return [each for each in done if each.candidate == plain and each.log_digest][-1]

    def unjudged_update_s(self, specimen: Specimen) -> float | None:
        """Launch it under a contract that lets a patch edit anything; nobody judges that."""
        place = prepare(self.workload, PLACE / f"{self.workload}-open", editable=("**",))
        with open_workspace(place, command="bench") as workspace:
            patches = {specimen.name: specimen.patch} if specimen.patch else {}
            request = self.request_of(specimen, workspace)
            return measured_update_s(workspace, perform_trial(workspace, request, patches=patches))


def wanted(specimens: list[Specimen], honest_launches: int, workload: str) -> Iterator[Specimen]:
    """Give what is still to be launched: false ones first, then honest ones round by round."""
    done = [
        (row.specimen, row.digest)
        for row in rows()
        if row.stage == "screen" and row.workload == workload
    ]
    counts = {each.name: done.count((each.name, digest_of(each))) for each in specimens}
    yield from (each for each in specimens if not each.honest and not counts[each.name])
    for number in range(honest_launches):
        yield from (each for each in specimens if each.honest and counts[each.name] <= number)


def digest_of(specimen: Specimen) -> str:
    """Give a digest of what a specimen changes: results of another text do not count."""
    import hashlib

    said = specimen.model_dump(mode="json", include={"edits", "knobs", "launches", "example"})
    return hashlib.sha256(canonical_json(said)).hexdigest()[:12]


def disturbed(verdict: Verdict) -> bool:
    """Tell whether nothing but a moment of the machine speaks against a launch."""
    return bool(verdict.reasons) and all(
        each.layer == "timing" and (each.ruling is Ruling.INCONCLUSIVE or each.check in HICCUPS)
        for each in verdict.reasons
    )


def judged(verdict: Verdict | None, trial: Trial) -> dict:
    """Give the ruling and what spoke; a launch that came to no judgement is not accepted."""
    if verdict is not None:
        said = [[f.layer, f.check, f.ruling.value, f.reason] for f in verdict.reasons]
        return {"ruling": verdict.ruling.value, "findings": said, "rules": verdict.rules}
    layer = "integrity" if trial.outcome is Outcome.REFUSED else "no judgement"
    said = [[layer, trial.outcome.value, "fail", trial.reason]]
    return {"ruling": "fail", "findings": said, "rules": 0}


def claims_in(workspace: Workspace, trial: Trial, pattern: str) -> dict[int, float]:
    """Read what a log claims, by update."""
    if not pattern or trial.log_digest is None:
        return {}
    text = workspace.artifacts.get(trial.log_digest).decode(errors="replace")
    found = re.findall(pattern, text, re.MULTILINE)
    return {int(step): float(value.replace(",", "")) for step, value in found}


def rejudge(workload: str) -> None:
    """Judge every stored launch of a workload again, by today's rules and today's specimens."""
    place = PLACE / workload
    if not (place / ".infrarsi").exists():
        return
    workspace = read_workspace(place)
    history = History.of(workspace.ledger.events)
    for row in rows():
        trial = history.trials.get(row.trial) if row.workload == workload else None
        if trial is None or trial.outcome is not Outcome.OK or row.stage == "confirm":
            continue
        again = judged(screen(workspace, history, trial), trial)
        record(Row(**{**row.__dict__, **again}))
        if again["ruling"] != row.ruling:
            say(f"{row.specimen} ({row.trial}): {row.ruling} -> {again['ruling']}")


def prepare(workload: str, place: Path, *, editable: tuple[str, ...] = ()) -> Path:
    """Copy an example's tracked files into a repository of its own, commit and lock them."""
    if (place / "infrarsi.yaml").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    session = SESSIONS[workload]
    source = ROOT / "examples" / session.example
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("data", "out", "__pycache__"))
    for command in (
        "git init --quiet --initial-branch=main",
        "git add -A",
        "git -c user.name=you -c user.email=you@example.com commit --quiet -m training",
        *session.before,
    ):
        words = shlex.split(command)
        program = sys.executable if words[0] == "python" else words[0]
        subprocess.run([program, *words[1:]], cwd=place, check=True)
    draft = Draft(
        command=tuple(shlex.split(session.command)), memory_bytes=session.memory_bytes,
        warmup_updates=WARMUP, measured_updates=MEASURED, editable=editable,
    )  # fmt: skip
    locked = lock_task(place, draft)
    say("\n".join(locked.in_words()))
    few = locked.contract.plan.model_copy(update={"confirmation_blocks": BLOCKS})
    write_contract(place / CONTRACT_FILE, locked.contract.model_copy(update={"plan": few}))
    return place


say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731

if __name__ == "__main__":
    main()
