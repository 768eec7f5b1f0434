"""gate: refuse a promotion whose evidence does not hold, by the base's contract and signers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from infrarsi.errors import (
    ContractError,
    InconclusiveError,
    InfraRSIError,
    RejectedError,
    SpaceError,
    UsageError,
)
from infrarsi.execute.repository import find_repository
from infrarsi.records.gate import GateCheck, GateReport
from infrarsi.records.plan import Contract
from infrarsi.records.statement import FOLDER, STATEMENT
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.stages.gating.bundle import read_bundle
from infrarsi.stages.gating.evidence import (
    check_baseline,
    check_launches,
    check_schedule,
    check_statement,
    check_verdict,
)
from infrarsi.stages.gating.opened import Change, Opened, laid_open, read_change
from infrarsi.stages.gating.rerun import prepare_revert, rerun_change, rerun_standing
from infrarsi.stages.gating.signatures import Signatures
from infrarsi.stages.gating.trees import (
    check_base,
    check_changes,
    check_patch,
    check_ran,
    check_standing,
)
from infrarsi.store.contract import CONTRACT_FILE, parse_contract

Question = tuple[str, Callable[[Opened], str]]
_OF_EVIDENCE: tuple[Question, ...] = (
    ("statement", check_statement),
    ("launches", check_launches),
    ("tree", check_ran),
    ("schedule", check_schedule),
    ("baseline", check_baseline),
    ("verdict", check_verdict),
)
_OF_CHANGE: tuple[Question, ...] = (("base", check_base), ("changes", check_changes))
_OF_STANDING: tuple[Question, ...] = (("standing", check_standing),)
_BROKEN = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError,
    RecursionError,
)  # fmt: skip
"""What a stranger's content can end in where it does not say what a bundle must."""
_PROMOTE = "promote again with `infrarsi apply`"


def gate(
    start: Path,
    *,
    base: str = "HEAD",
    head: str = "HEAD",
    rerun: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> GateReport:
    """Judge the promotion that a change brings, or the one that stands where nothing changes.

    Nothing of the head is run, unless ``rerun`` asks to confirm it again on this machine.

    Parameters
    ----------
    start
        The repository, or a folder in it. Its working tree is not read.
    base, head
        What the change goes into, and the change.
    rerun
        Confirm again here. An unsigned promotion passes only so.
    tell
        Told in words what is being done.

    Raises
    ------
    UsageError, ContractError
        A name is no commit here, or the base has no contract that can be read.
    """
    change = read_change(find_repository(start), base, head)
    report = GateReport(kind="none", base=change.base, head=change.head, ruling=Ruling.PASS)
    stands = change.is_nothing and STATEMENT in change.at_head
    if not stands and not change.touches_a_bundle:
        return report
    if not any(path.startswith(f"{FOLDER}/") for path in change.at_head):
        return report.model_copy(update={"kind": "withdrawn"})
    contract = contract_at_base(change)
    report = report.model_copy(update={"kind": "standing" if stands else "promotion"})
    with ExitStack() as stack:
        return _Gate(change, contract, report, stack, tell, rerun=rerun).judge()


def contract_at_base(change: Change) -> Contract:
    """Read the contract as it stands at the base.

    Raises
    ------
    ContractError
        There is none, or it cannot be read.
    """
    content = change.at_base_content(CONTRACT_FILE)
    if content is None:
        raise ContractError(
            f"the base {change.base[:12]} has no {CONTRACT_FILE}",
            hint=f"commit {CONTRACT_FILE} to the base branch first: the gate takes none from "
            "the change",
        )
    return parse_contract(content, name=f"{CONTRACT_FILE} at {change.base[:12]}")


class _Gate:
    """One change before the gate: its questions, and the answers so far."""

    def __init__(
        self,
        change: Change,
        contract: Contract,
        report: GateReport,
        stack: ExitStack,
        tell: Callable[[str], None],
        *,
        rerun: bool,
    ) -> None:
        self.change = change
        self.contract = contract
        self.report = report
        self.stack = stack
        self.tell = tell
        self.rerun = rerun
        self.checks: list[GateCheck] = []

    def judge(self) -> GateReport:
        """Put all questions that can be put, and confirm again where that is asked for."""
        stands = self.report.kind == "standing"
        opened = self._open()
        if opened is None:
            return self._joined()
        if not stands:
            signatures = Signatures.at(self.change, self.contract, opened.bundle)
            self._ask("signature", partial(signatures.check_signature, rerun=self.rerun))
            self._ask("review", signatures.check_review)
        for name, question in (*(_OF_STANDING if stands else _OF_CHANGE), *_OF_EVIDENCE):
            self._ask(name, partial(question, opened))
        judged = self.checks[-1].ruling is Ruling.PASS
        subject = opened.bundle.predicate.verdict.subject
        speedup = opened.judged[0].speedup if judged else None
        self.report = self.report.model_copy(update={"subject": subject, "speedup": speedup})
        if self.rerun:
            self._rerun(opened)
        return self._joined()

    def _open(self) -> Opened | None:
        """Lay the bundle open; ``None`` where that cannot be done, which is said."""
        found: list[Opened] = []

        def check_bundle() -> str:
            bundle = read_bundle(self.change.repository, self.change.at_head)
            self._refuse_other_contract(bundle.predicate.contract)
            found.append(self.stack.enter_context(laid_open(self.change, self.contract, bundle)))
            return "the statement is about the base's contract, and its evidence can be read"

        self._ask("bundle", check_bundle)
        if found:
            self._ask("patch", lambda: check_patch(found[0]))
        return found[0] if found and self.checks[-1].ruling is Ruling.PASS else None

    def _refuse_other_contract(self, said: str) -> None:
        due = self.contract.task.digest()
        if said == due:
            return
        words = f"it was measured under the task {said[:12]}, and the base's contract is {due[:12]}"
        if self.report.kind == "standing":
            raise InconclusiveError(words, hint="search and promote again under the new contract")
        raise RejectedError(
            words, hint="bring the change of the contract to the base first, then promote under it"
        )

    def _rerun(self, opened: Opened) -> None:
        """Confirm again, where nothing else speaks against it, or where it stands already."""
        stands = self.report.kind == "standing"
        if not stands and self._joined().ruling is not Ruling.PASS:
            return
        try:
            if not stands:
                self._take_rerun(rerun_change(opened, tell=self.tell))
                return
            verdict, commit = rerun_standing(opened, tell=self.tell)
        except InconclusiveError as error:
            self.checks.append(
                GateCheck(
                    check="rerun", ruling=Ruling.INCONCLUSIVE, reason=str(error), hint=error.hint
                )
            )
            return
        self._take_rerun(verdict)
        if verdict.ruling is Ruling.FAIL:
            branch = prepare_revert(opened, commit)
            self.report = self.report.model_copy(update={"revert_branch": branch})

    def _take_rerun(self, verdict: Verdict) -> None:
        self.report = self.report.model_copy(update={"rerun": verdict})
        reasons = "; ".join(each.reason for each in verdict.reasons)
        found = verdict.speedup
        words = f"{found.point:.2f}x, interval [{found.low:.3f}, {found.high:.3f}]" if found else ""
        said = reasons or f"confirmed again on this machine: {words}"
        hint = " ".join(dict.fromkeys(each.hint for each in verdict.reasons if each.hint))
        self.checks.append(GateCheck(check="rerun", ruling=verdict.ruling, reason=said, hint=hint))

    def _ask(self, check: str, question: Callable[[], str]) -> None:
        self.checks.append(_answer(check, question))

    def _joined(self) -> GateReport:
        rulings = {each.ruling for each in self.checks}
        worst = next(each for each in _WORST_FIRST if each in rulings)
        return self.report.model_copy(update={"checks": tuple(self.checks), "ruling": worst})


_WORST_FIRST = (Ruling.FAIL, Ruling.INCONCLUSIVE, Ruling.PASS)


def _answer(check: str, question: Callable[[], str]) -> GateCheck:
    """Put one question; a refusal is its answer, a lack of this machine is not."""
    try:
        return GateCheck(check=check, ruling=Ruling.PASS, reason=question())
    except (UsageError, SpaceError):
        raise
    except InconclusiveError as error:
        ruling, reason, hint = Ruling.INCONCLUSIVE, str(error), error.hint
    except InfraRSIError as error:
        ruling, reason, hint = Ruling.FAIL, str(error), error.hint
    except _BROKEN as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        ruling, hint = Ruling.FAIL, _PROMOTE
        reason = f"the bundle does not say what one must: {first}"
    return GateCheck(check=check, ruling=ruling, reason=reason, hint=hint)


def raise_for(report: GateReport) -> None:
    """Raise what a report comes to, where it is no pass.

    Raises
    ------
    RejectedError, InconclusiveError
        With the first of its reasons.
    """
    if report.ruling is Ruling.PASS:
        return
    first = report.refusals[0]
    more = f" (and {len(report.refusals) - 1} more)" if len(report.refusals) > 1 else ""
    kind = RejectedError if report.ruling is Ruling.FAIL else InconclusiveError
    raise kind(f"{first.check}: {first.reason}{more}", hint=first.hint or _PROMOTE)
