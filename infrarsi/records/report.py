"""The Report: every number that ``report.html``, ``report.md`` and ``report.json`` show."""

from __future__ import annotations

from typing import Literal

from infrarsi.records.base import Record, Scalar
from infrarsi.records.effect import KnobEffect
from infrarsi.records.estimate import Estimate
from infrarsi.records.experience import Source
from infrarsi.records.forecast import Forecast
from infrarsi.records.verdict import Finding, Ruling


class TrialRow(Record):
    """One trial of the search, as the report lists it."""

    index: int
    """Order in the search, counting from 1."""
    trial_id: str
    candidate: str
    """Short id of the candidate."""
    change: str
    """What differs from the reference, in words: ``+sdpa, recompute=False``."""
    reason: str
    """Why the search tried it."""
    outcome: str
    verdict: Ruling | None = None
    why: str = ""
    """For a failure or a refusal: the reason in one sentence."""
    update_s: float | None = None
    screening_speedup: float | None = None
    """Reference over candidate, of one launch: ranks, never decides."""
    peak_bytes: int | None = None
    predicted_update_s: Estimate | None = None
    predicted_peak_bytes: Estimate | None = None
    p_fits: float | None = None
    wall_s: float
    dollars: float | None = None


class Trials(Record):
    """The search in counts."""

    outcomes: dict[str, int]
    """Trials by outcome: ok, oom, crashed, hung, ..."""
    verdicts: dict[str, int]
    """Screening verdicts by ruling: pass, fail, inconclusive."""
    failed_share: float
    """Share of search trials that ended neither ok nor stopped early."""
    rows: tuple[TrialRow, ...]


class Part(Record):
    """What one part of the winner adds, measured by taking it out."""

    name: str
    """``+sdpa`` or ``recompute=False``."""
    kind: Literal["knob", "patch"]
    gain: Estimate | None
    """Time without the part over time with it; 1 adds nothing. ``None``: not measurable."""
    kept: bool
    note: str = ""
    """For instance: ``without it the launch runs out of memory``."""


class Winner(Record):
    """The candidate put forward."""

    candidate: str
    knobs: dict[str, Scalar]
    """Only the knobs that differ from the reference."""
    patches: tuple[str, ...]
    summaries: dict[str, str] = {}
    """What each patch does, by name."""
    parts: tuple[Part, ...] = ()


class PairRow(Record):
    """One block of the confirmation."""

    block: int
    order: str
    """``ABBA`` or ``BAAB``; A is the reference."""
    reference_s: tuple[float, ...]
    """Steady seconds an update of each reference launch in the block."""
    winner_s: tuple[float, ...]
    ratio: float
    """exp of the mean log reference minus the mean log winner."""


class SessionRow(Record):
    """One session of a confirmation that was held in several."""

    session: int
    began_at: str
    """Start of its first launch, as the ledger has it."""
    ended_at: str
    num_blocks: int
    speedup: Estimate | None
    """Its own, over its blocks, at the level of the whole."""


class PhaseTime(Record):
    """Seconds of one phase in an update, before and after."""

    phase: str
    reference_s: float
    winner_s: float | None = None


class Confirmed(Record):
    """The back-to-back confirmation against the original reference."""

    ruling: Ruling
    speedup: Estimate | None
    threshold: float
    """The lower bound had to exceed this: 1 + max(least effect, |A/A bias|)."""
    alpha: float
    """Error rate spent on this confirmation, of the contract's .05."""
    blocks: tuple[PairRow, ...]
    sessions: tuple[SessionRow, ...] = ()
    """Where the speedup had to recur: each session by itself. Their spread is in the interval."""
    findings: tuple[Finding, ...]
    reference_update_s: Estimate | None = None
    winner_update_s: Estimate | None = None
    reference_cold_start_s: float | None = None
    winner_cold_start_s: float | None = None
    """With a warm compile cache, as every later launch has."""
    winner_first_cold_start_s: float | None = None
    """With an empty compile cache, as the first launch has."""
    verdict_digest: str
    branch: str | None = None


class IdeaRow(Record):
    """One idea of a proposer: what it promised, and what became of it."""

    name: str
    """``+sdpa`` for a patch; ``recompute=False`` for a setting."""
    proposer: str
    kind: Literal["patch", "setting"]
    summary: str = ""
    fate: Literal["declined", "untried", "tried", "accepted", "kept"]
    """``declined``: it could not be tried; ``tried``: never accepted; ``kept``: in the winner."""
    predicted: float | None = None
    """Update time with it over without it, on its proposer's word."""
    measured: float | None = None
    """The same, by ablation, or by the launch that tried it alone."""
    because: str = ""
    """Why it was declined, or not accepted."""


class Credit(Record):
    """What one proposer brought."""

    proposer: str
    proposed: int | None
    """Ideas put forward, declined ones too. ``None``: the sweep counts none."""
    declined: int = 0
    tried: int
    accepted: int
    """Ideas that stood in at least one candidate that the judge let pass."""
    parts: tuple[str, ...] = ()
    """What of the winner comes from it."""
    num_scored: int = 0
    """Predictions that were measured, alone or by ablation."""
    rank_correlation: float | None = None
    """Spearman's, of predicted and measured time ratios."""
    mean_log_error: float | None = None
    """Mean of ``|log(predicted / measured)|``."""
    note: str = ""


class LanguageCall(Record):
    """One call of a language model."""

    index: int
    provider: str
    model: str
    host: str
    mending: bool = False
    outcome: str
    note: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    wall_s: float
    num_ideas: int = 0
    """Patches and settings that could be tried."""
    num_declined: int = 0
    redactions: int = 0
    """Secrets that were taken out of the prompt."""
    prompt_digest: str | None = None
    reply_digest: str | None = None
    """SHA-256 of the raw reply in the artifact store."""


class ExperienceUsed(Record):
    """What of other searches' experience this one used, and how much it weighed."""

    sources: tuple[Source, ...]
    """The packs that were recalled, the nearest first."""
    num_beliefs: int
    """Patches and settings that they said something of."""
    first_in_time: float | None = None
    """Its weight in what was predicted of time, at the first pick that it had a part in."""
    last_in_time: float | None = None
    first_in_memory: float | None = None
    last_in_memory: float | None = None
    num_guided: int = 0
    """Trials that it had a part in choosing."""
    note: str = ""
    """Why nothing was recalled."""


class Cost(Record):
    """What all this cost, failed attempts included."""

    wall_s: float
    """Seconds that our commands were at work: launches, and what lies between them."""
    overhead_s: float | None = None
    """Seconds of these outside of launches: worktrees, judging, choosing, waiting for models."""
    cpu_s: float
    gpu_s: float
    by_purpose_s: dict[str, float]
    """Wall seconds of launches by purpose: baseline, null, control, screen, ablation, confirm,
    replay."""
    calibration_share: float | None = None
    """Calibration's share of a search of 30 trials as long as the reference's launch."""
    failed_wall_s: float
    dollars: float | None = None
    """The machine for ``wall_s``, and the language models. ``None``: the machine has no price."""
    dollars_note: str = ""
    """What is missing in it, and what to set."""
    llm_dollars: float | None = None
    """Of these, the language models. ``None``: not all known, or none was asked."""
    llm_tokens: int = 0
    expected: Forecast | None = None
    """What was expected before the search began, or went on under its last budget."""
    search_wall_s: float | None = None
    """Seconds that ``infrarsi run`` was at work, to hold against what was expected."""
    search_dollars: float | None = None
    """Of the machine in that time."""
    confirm_wall_s: float | None = None
    """Seconds that the last ``infrarsi apply`` was at work."""
    break_even_updates: int | None = None
    """Updates of the winner after which the wall time saved has paid for the search."""
    break_even_note: str = ""


class Report(Record):
    """All of a search that a reader needs, and nothing that was not measured."""

    schema_version: Literal[1] = 1
    contract: str
    task_digest: str
    commit: str
    generated_at: str
    """UTC, ISO 8601."""
    command: tuple[str, ...]
    machine: dict[str, str]
    sandbox: str
    """Containment tier of the trials, with what it does not stop."""
    window: str
    """Which updates were timed, in words."""
    reference_update_s: Estimate | None = None
    reference_peak_bytes: int | None = None
    capacity_bytes: int
    memory_unit: str
    mfu: float | None = None
    winner_mfu: float | None = None
    noise_sd: float | None = None
    least_detectable: float | None = None
    bands: dict[str, str] = {}
    """The allowed deviation of each metric, and its source, in words."""
    checks: str = ""
    """Which falsifications the checks saw on this workload, and what chance draws, in words."""
    phases: tuple[PhaseTime, ...] = ()
    trials: Trials
    winner: Winner | None = None
    ideas: tuple[IdeaRow, ...] = ()
    """Every idea of every proposer."""
    credits: tuple[Credit, ...] = ()
    """What each proposer brought."""
    language_calls: tuple[LanguageCall, ...] = ()
    experience: ExperienceUsed | None = None
    """``None``: no bank was asked, or none knew anything of this search."""
    confirmed: Confirmed | None = None
    silent_knobs: tuple[KnobEffect, ...] = ()
    """Knobs that had no visible effect wherever they were turned."""
    cost: Cost
    quality: str
    """How far quality was tested, and what was not."""
    limits: tuple[str, ...] = ()
    """What a reader must not conclude."""
    history_digest: str
    """Hash of the ledger's last event that this report rests on."""
