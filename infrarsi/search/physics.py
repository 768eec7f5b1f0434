"""The formulas of step time and peak memory, placed on a lattice."""

from __future__ import annotations

from infrarsi.records.beliefs import Beliefs
from infrarsi.records.candidate import Effect
from infrarsi.search import footprint, step_time
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Floats, Ints
from infrarsi.search.quantities import Configurations

PER_TOKEN = "token/GPU"
"""The unit of tables of throughput: seconds of one GPU for one token."""
SOME_WORK = "work"
"""The unit of other tables of throughput: in proportion to tokens, by an unknown factor."""


class TimeFormula:
    """Log step time of points, by coefficients with priors.

    Attributes
    ----------
    mean, sd
        Prior of each coefficient's logarithm.
    names
        Of the coefficients.
    """

    names = step_time.NAMES

    def __init__(self, configurations: Configurations, beliefs: Beliefs, *, unit: str) -> None:
        self._configurations = configurations
        self._per_token = unit in {PER_TOKEN, SOME_WORK}
        self.mean, self.sd = step_time.prior_of(beliefs.time, unit_is_known=unit == PER_TOKEN)

    def at(self, points: Ints, theta: Floats) -> tuple[Floats, Floats]:
        """Give log seconds and slopes, shapes ``(m,)`` and ``(m, num coefficients)``."""
        quantities = self._configurations.of(points)
        terms = step_time.step_time(
            quantities, self._configurations.hardware, per_token=self._per_token
        )
        return terms.log_time(theta)


class MemoryFormula:
    """Log peak bytes of points, by coefficients with priors; as for time."""

    names = footprint.NAMES

    def __init__(self, configurations: Configurations, beliefs: Beliefs) -> None:
        self._configurations = configurations
        self.mean, self.sd = footprint.prior_of(beliefs.memory)

    def at(self, points: Ints, theta: Floats) -> tuple[Floats, Floats]:
        """Give log bytes and slopes, shapes ``(m,)`` and ``(m, num coefficients)``."""
        return footprint.footprint(self._configurations.of(points)).log_bytes(theta)


def formulas_of(
    lattice: Lattice, beliefs: Beliefs
) -> tuple[TimeFormula, MemoryFormula | None] | tuple[None, None]:
    """Give both formulas, or neither where the space's context does not give the model's shape.

    A formula of memory says nothing of what fits where nobody knows how much there is.
    """
    if not lattice.space.context:
        return None, None
    configurations = Configurations(lattice)
    if not configurations.is_complete:
        return None, None
    unit = lattice.space.unit
    time = TimeFormula(configurations, beliefs, unit=unit)
    if not lattice.space.knows_capacity:
        return time, None
    return time, MemoryFormula(configurations, beliefs)


def default_beliefs() -> Beliefs:
    """Give what is believed of every coefficient before any trial."""
    time = step_time.prior_of({}, unit_is_known=True)
    memory = footprint.prior_of({})
    return Beliefs(time=_named(step_time.NAMES, *time), memory=_named(footprint.NAMES, *memory))


def _named(names: tuple[str, ...], means: Floats, sds: Floats) -> dict[str, Effect]:
    return {
        name: Effect(mean=float(mean), sd=float(sd))
        for name, mean, sd in zip(names, means, sds, strict=True)
    }
