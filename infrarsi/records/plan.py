"""The Plan: how much to spend and how to search. It may change between invocations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infrarsi.records.base import Record, Scalar
from infrarsi.records.task import Task


class Budget(Record):
    """What a search may spend."""

    max_trials: int = Field(default=40, ge=1)
    """Candidates that are screened, repeats of a disturbed launch included. Launches that take
    the winner apart, and the last screening of what is left of it, are not among them."""
    max_wall_s: float = Field(default=3600.0, gt=0)
    """Seconds of `infrarsi run` by the clock: launches, judging and choosing; pauses between
    commands do not count."""
    max_usd: float | None = Field(default=None, gt=0)
    """US dollars of `infrarsi run`: the machine and the language models. ``None``: no limit."""
    trial_deadline_s: float = Field(default=300.0, gt=0)
    """A launch that has not reached its stop by then is hung, and is killed."""

    def allows_more_than(self, other: Budget) -> bool:
        """Tell whether any of the limits is larger than another budget's."""
        dollars = self.max_usd if self.max_usd is not None else float("inf")
        others = other.max_usd if other.max_usd is not None else float("inf")
        return (
            self.max_trials > other.max_trials
            or self.max_wall_s > other.max_wall_s
            or dollars > others
        )


class Prices(Record):
    """What an hour of the machine costs in US dollars. ``None``: not known."""

    usd_per_gpu_hour: float | None = Field(default=None, ge=0)
    """Of one accelerator; charged for every one that the training interpreter sees."""
    usd_per_machine_hour: float | None = Field(default=None, ge=0)
    """Of the whole machine: charged where it has no accelerator, or where theirs has no price."""

    def usd_per_s(self, num_accelerators: int) -> float | None:
        """Give the price of a second of a machine with so many accelerators."""
        if num_accelerators and self.usd_per_gpu_hour is not None:
            return num_accelerators * self.usd_per_gpu_hour / 3600
        if self.usd_per_machine_hour is not None:
            return self.usd_per_machine_hour / 3600
        return None


class Language(Record):
    """The language model that is asked for ideas, and on what terms.

    Keys never stand here: they are read from ``OPENAI_API_KEY`` and ``ANTHROPIC_API_KEY``.
    """

    provider: Literal["openai", "anthropic"] = "openai"
    """``openai`` for every server that speaks its API: vLLM, Ollama, llama.cpp."""
    model: str | None = None
    base_url: str | None = None
    """Address of the server. ``None``: the provider's own."""
    allow_upload: bool = False
    """Whether source may leave this machine. A server on loopback needs no such consent."""
    max_calls: int = Field(default=4, ge=1)
    """Replies in one search; calls that fail are not among them."""
    timeout_s: float = Field(default=180.0, gt=0)
    """The longest that one call may take, retries and pauses included."""
    max_prompt_chars: int = Field(default=120_000, ge=4_000)
    """Files that do not fit are left out of the prompt, the least relevant first."""
    max_output_tokens: int = Field(default=12_000, ge=256)
    """Asked of ``anthropic``, whose API wants to be told."""
    usd_per_million_input_tokens: float | None = Field(default=None, ge=0)
    """``None``: the price is not known, and so the dollars of a call are not."""
    usd_per_million_output_tokens: float | None = Field(default=None, ge=0)


class Gate(Record):
    """What `infrarsi gate` asks of a promotion. It counts as it stands on the base branch."""

    signers: str = ".infrarsi-allowed-signers"
    """Path of the file that says who may sign, in the format of git's allowed signers."""
    review: bool = False
    """Whether a second allowed signer must have signed too."""
    unsigned: Literal["rerun", "refuse"] = "rerun"
    """Whether a promotion without a signature may pass by being confirmed again."""
    aside: tuple[str, ...] = ()
    """Globs of files that take no part in the training (documents, workflows): the base may
    have changed them since the reference was measured."""


class Plan(Record):
    """The free half of a contract."""

    budget: Budget = Budget()
    prices: Prices = Prices()
    proposers: tuple[Literal["patchbook", "language", "sweep"], ...] = ("patchbook", "sweep")
    language: Language = Language()
    strategy: Literal["infrarsi", "random", "hillclimb", "configonly", "bestofk", "tpe", "gp"] = (
        "infrarsi"
    )
    seed: int = 0
    starts: int = Field(default=3, ge=1)
    """Starting configurations explored before the search narrows."""
    confirmation_blocks: int = Field(default=6, ge=2)
    """Randomised ABBA or BAAB blocks of the final confirmation, fixed in advance."""
    confirmation_sessions: int = Field(default=1, ge=1, le=20)
    """Sessions of the final confirmation, each of so many blocks. More than one: the speedup must
    recur, on another day by the usual gap."""
    session_gap_s: float = Field(default=8 * 3600.0, ge=0)
    """The least time from the end of one session to the beginning of the next."""
    horizon_seeds: int = Field(default=5, ge=3, le=200)
    """Seeds of each arm that `apply --horizon` trains."""
    ablation_rounds: int = Field(default=3, ge=2)
    """Interleaved rounds in which the winner meets itself with each part taken out."""
    context: dict[str, Scalar] = {}
    """What is known of model and cluster, for the formulas of time and memory: ``params_b``,
    ``n_layers``, ``hidden``, ``seq_len``, ``gpu``, ``num_gpus``, ``gpus_per_node``, ..."""
    derived: dict[str, str] = {}
    """Quantities of the formulas that follow from knobs and context: ``dp: num_gpus / tp``."""
    gate: Gate = Gate()


class Contract(Record):
    """The whole of ``infrarsi.yaml``."""

    schema_version: Literal[1] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    task: Task
    plan: Plan = Plan()


class Lock(Record):
    """What the lock fixed: the first event of the ledger."""

    name: str
    task_digest: str
    commit: str
    """The git commit that every trial starts from, 40 hexadecimal digits."""
    protected: dict[str, str]
    """SHA-256 of every protected tracked file as it stood in the working tree, by path."""
    inputs: dict[str, str]
    """SHA-256 of every locked input, by path."""
    dirty: tuple[str, ...] = ()
    """Tracked files that differed from the commit when the lock was made."""
