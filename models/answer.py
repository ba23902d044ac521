"""A method's budget, the tuning parameters in force, and its answer."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import numpy as np
from annotated_types import MinLen

from keyshift.models.base.compiling import COMPILING
from keyshift.models.base.guards import NonNegative, Whole, annotations_of, check_value
from keyshift.models.errors import InputError

if TYPE_CHECKING:
    from keyshift.models.problem import Problem
    from keyshift.models.stages import StageBound


_LOG = logging.getLogger("keyshift")
Termination = Literal["optimal", "gap", "time_limit", "infeasible", "completed", "interrupted"]


@dataclass
class Answer:
    """The result of a method, before its assignment has passed `check` and its objective has been computed.

    Attributes
    ----------
    assignment : ndarray or None
        The best assignment found, None when there is none.
    bound : float or None
        A proven lower bound on the objective of every feasible assignment; None when nothing is proven.
    termination : str
        Why the method stopped.
    message : str
        A message for the reader: which limits conflict, which restriction was not met.
    details : dict
        Figures about the run itself (iterations, nodes searched), by name.
    problem : Problem or None
        The problem answered, for a method that by its nature ignores a rule of the one it was given (a baseline such
        as shuffle grouping). Its assignment is checked against this one, which may only lack rules; it has no bound.
    start : ndarray or None
        A checked assignment that the method began from, which is used if the method's own does not pass `check`.
    stages : tuple of StageBound
        What is proven of each stage, where the problem has priorities; the first one's bound is `bound`.
    """

    assignment: np.ndarray | None
    bound: float | None = None
    termination: Termination = "completed"
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    problem: Problem | None = None
    start: np.ndarray | None = None
    stages: tuple[StageBound, ...] = ()


@dataclass
class Progress:
    """The state of a running method, as given to `watch`.

    Attributes
    ----------
    objective, bound : float or None
        The best objective and the best bound so far, in the problem's unit.
    note : str
        What the method is doing.
    """

    objective: float | None = None
    bound: float | None = None
    note: str = ""


GAP = 1e-4
"""The share of a problem's scale that may lie between objective and bound where a run ends, unless the caller says otherwise."""
TIME_LIMIT, COMPARED = 60.0, 10.0
"""Seconds that `solve` and its like take at most, and each method that is compared, unless the caller says otherwise."""
PATIENCE = 2.0
"""Seconds before which no run ends by its gap: what is proven in so little time is proven."""


LOOK, STEP = 2e-4, 1e-7
"""Units of effort, each about a second of one core, that a look at the budget counts, and a step that a search takes."""


class LimitReached(Exception):  # noqa: N818 - no error: a limit is not a failure
    """Raised by `Budget.tick` to leave a loop that writes a model down."""


class Budget:
    """How long a method may run: until a time limit, until its gap is small enough, or until it is interrupted.

    A method asks `expired` in its loops and returns its best answer when it is true; a limit is not a failure. The gap
    is computed from the figures that it gives to `report`, which are those of the problem it was given.
    The clock stands still while kernels are compiled or loaded.

    With `effort` it counts work instead of seconds, so that a run is the same on any machine: every check of the budget
    counts, every step that a search reports (`spend`), and the work that solvers report.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now; None is no limit.
    watch : callable, optional
        Called with a `Progress` whenever a method reports.
    gap : float, default 0.0
        How far the objective may lie above the bound when the run ends, as a share of `scale`; 0 asks for a proof. It
        counts after `PATIENCE` seconds only.
    scale : float, default 1.0
        The problem's.
    effort : float, optional
        Units of work; replaces `time_limit`.
    settings : iterable of Settings, optional
        Tuning parameters that stand for the defaults of their classes; methods ask for theirs by `tuned`.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        watch: Callable[[Progress], None] | None = None,
        gap: float = 0.0,
        scale: float = 1.0,
        effort: float | None = None,
        settings: Iterable[Settings] = (),
    ) -> None:
        self.settings = tuned_by(settings)
        self._began = time.monotonic() - COMPILING.seconds
        self.counts_work, self._spent = effort is not None, 0.0
        most = time_limit if effort is None else effort
        self.time_limit = math.inf if most is None else float(most)
        self.gap, self.scale, self.enough = gap, scale, -math.inf
        self.interrupted = False
        self.progress = Progress()
        self._watch = watch

    def tuned(self, kind: type[Tuned]) -> Tuned:
        """The tuning parameters of a class: the caller's, or the defaults."""
        return self.settings.get(kind) or _usual(kind)  # type: ignore[return-value, arg-type]

    @property
    def seconds(self) -> float:
        """Seconds since the start without those for compiling, also if work is counted."""
        return time.monotonic() - COMPILING.seconds - self._began

    @property
    def elapsed(self) -> float:
        """The part of the limit that is used: `seconds`, or the effort spent."""
        return self._spent if self.counts_work else self.seconds

    def spend(self, steps: float) -> None:
        """Count work: steps of a search, each some ten operations."""
        self._spent += STEP * steps

    @property
    def remaining(self) -> float:
        """Seconds or effort left, never negative; infinite without a limit, 0 if the gap is closed. This check counts as work."""
        self._spent += LOOK
        return 0.0 if self.interrupted or self.closed else max(0.0, self.time_limit - self.elapsed)

    @property
    def clock(self) -> float:
        """Seconds left for code with its own clock; infinite if work is counted."""
        return math.inf if self.counts_work else self.remaining

    @property
    def late(self) -> bool:
        """Whether a thread that waits for a run should end it; not counted as work, since its times are random."""
        return self.interrupted or (not self.counts_work and self.expired)

    @property
    def expired(self) -> bool:
        """Whether a method should stop now."""
        return self.remaining <= 0.0

    @property
    def closed(self) -> bool:
        """Whether objective and bound, as reported, are as close as the caller asked for."""
        now = self.progress
        if now.objective is not None and now.objective <= self.enough:
            return True
        if self.gap <= 0.0 or now.objective is None or now.bound is None:
            return False
        return now.objective - now.bound <= self.gap * self.scale and self.elapsed >= PATIENCE

    @property
    def why(self) -> Termination:
        """The termination to report for a method that stops before its end, as far as the budget is the reason.

        "completed" if neither a limit nor an interruption stopped it.
        """
        return self.ended("completed")

    def ended(self, otherwise: Termination) -> Termination:
        """The termination of a run that a solver's own clock may have ended slightly before this one."""
        if self.interrupted:
            return "interrupted"
        if self.time_limit - self.elapsed <= 0.01 + 0.01 * min(self.time_limit, 100.0):
            return "time_limit"
        return "gap" if self.closed else otherwise

    def tick(self) -> None:
        """Check, within a long loop such as one that builds a model, whether to continue.

        Raises
        ------
        LimitReached
            If the budget has `expired`; the caller of the loop then returns what it has.
        """
        if self.expired:
            raise LimitReached

    def interrupt(self) -> None:
        """Ask the running method to stop (Ctrl-C does)."""
        self.interrupted = True

    def anew(self, most: float) -> Budget:
        """A separate budget of so many seconds, or units of effort if this one counts effort."""
        made = Budget(effort=most) if self.counts_work else Budget(most)
        made.settings = self.settings
        return made

    def part(self, share: float, most: float = math.inf, scale: float | None = None, silent: bool = False) -> Budget:
        """A budget of a share of the time left, `most` seconds at most, which an interruption of this one also ends.

        With a `scale` it is another problem's, with figures and a gap of its own; 0 asks for a proof. A `silent` one tells the
        watcher nothing. Each has an `enough` of its own, an objective that ends it.
        """
        return _Part(self, share, most, scale, None if silent else self._watch)

    @property
    def work(self) -> float:
        """The work done so far, in units of effort, whether the limit counts it or not: the same on any machine."""
        return self._spent

    def turn(self, work: float) -> Budget:
        """A budget that ends with this one or after so much work: its length depends neither on the limit nor on the machine."""
        return _Turn(self, work)

    def report(self, objective: float | None = None, bound: float | None = None, note: str = "") -> None:
        """Tell the watcher how far the method has come; figures that are not given stay as they were."""
        now = self.progress
        before = now.objective, now.bound
        now.objective = now.objective if objective is None else objective
        now.bound = now.bound if bound is None else bound
        now.note = note or now.note
        if before != (now.objective, now.bound):
            told = ", ".join(f"{v:.6g}" if v is not None else "none" for v in (now.objective, now.bound))
            by = f" ({note})" if note else ""
            _LOG.debug("objective and bound %s%s", told, by, stacklevel=2)  # the record names who found it
        if self._watch is not None:
            self._watch(now)


class _Part(Budget):
    """A share of another budget: interrupted with it, reporting through it, on its clock."""

    def __init__(
        self, whole: Budget, share: float, most: float, scale: float | None, watch: Callable[[Progress], None] | None
    ) -> None:
        self._whole = whole
        self._since = whole.elapsed
        limit = min(whole.remaining * share, most)
        super().__init__(None if math.isinf(limit) else limit, watch, 0.0 if scale == 0 else whole.gap, scale or 1.0)
        self.counts_work, self._same, self.settings = whole.counts_work, scale is None, whole.settings
        if self._same:
            self.progress = whole.progress

    @property
    def seconds(self) -> float:
        return self._whole.seconds - (0.0 if self.counts_work else self._since)

    @property
    def elapsed(self) -> float:
        return self._whole.elapsed - self._since

    @property
    def work(self) -> float:
        return self._whole.work

    def spend(self, steps: float) -> None:
        self._whole.spend(steps)

    @property
    def remaining(self) -> float:
        return 0.0 if self._whole.interrupted else min(super().remaining, self._whole.remaining)

    @property
    def late(self) -> bool:
        return self._whole.interrupted or super().late

    @property
    def closed(self) -> bool:
        return self._whole.closed if self._same else super().closed

    def ended(self, otherwise: Termination) -> Termination:
        return "gap" if self.closed and not self.interrupted else self._whole.ended(otherwise)


class _Turn(_Part):
    """A part of another budget that counts work, even where that one counts seconds."""

    def __init__(self, whole: Budget, work: float) -> None:
        super().__init__(whole, 1.0, math.inf, None, whole._watch)
        self.counts_work, self.time_limit, self._since = True, work, whole.work

    @property
    def elapsed(self) -> float:
        return self.work - self._since

    @property
    def remaining(self) -> float:
        left, own = self._whole.remaining, max(0.0, self.time_limit - self.elapsed)
        if isinstance(self._whole, _Part) and self._whole.counts_work:
            return min(own, left)  # others wait for what is left of a part
        return own if left > 0.0 else 0.0

    @property
    def clock(self) -> float:
        return self._whole.clock

    @property
    def late(self) -> bool:
        return self._whole.late


# Tuning parameters: the defaults of each search and bound, or what solve was handed in their stead --------------------


class Settings:
    """Tuning parameters of one search or bound, documented in its dataclass; change them by ``solve(..., settings=[...])``."""


Tuned = TypeVar("Tuned", bound=Settings)


def tuned_by(settings: Iterable[Settings]) -> dict[type, Settings]:
    """Settings by their classes; `InputError` for values that no search can use."""
    if not isinstance(settings, Iterable):
        raise InputError(f"settings = {settings!r} must be a list of settings")
    return {type(one): _checked(one) for one in settings}


@cache
def _usual(kind: type[Settings]) -> Settings:
    """The defaults of a class, which a file may have changed."""
    return _checked(kind())


def _checked(settings: Settings, of: str = "settings") -> Settings:
    if not isinstance(settings, Settings):
        raise InputError(f"{of} holds {settings!r}, which is no class of settings: see the page *Settings*")
    cls, found = type(settings), {}
    for name, annotation in annotations_of(cls).items():
        value, at = getattr(settings, name), f"{cls.__name__}.{name}"
        nested = isinstance(annotation, type) and issubclass(annotation, Settings)
        found[name] = _checked(value, at) if nested else check_value(_ranged(annotation), at, value)
    return replace(settings, **found)  # type: ignore[type-var]  # each is a dataclass


def _ranged(annotation: Any) -> Any:
    """A setting's annotation: numbers that say no range cannot be negative, and a tuple of any length holds something."""
    if get_origin(annotation) is not tuple:
        return {int: Whole, float: NonNegative}.get(annotation, annotation)
    return Annotated[GenericAlias(tuple, tuple(map(_ranged, get_args(annotation)))), MinLen(1)]


# How far below a solver's word a bound has to lie to be safe: one number for each solver that works in floats ----------

HIGHS_ERROR = 2e-7
"""HiGHS proves its bounds within tolerances of its units, near 1 in rows (`solvers.safe_bounds.in_units`): rows and integrality
within 1e-8, reduced costs within 1e-7. This share of the objective's size - of its largest coefficient, or of the bound
itself (`solvers.highs`) - is taken off, and once more of a load where a statement's rows are coarser than its objective."""
SCIP_SMALL = 1e-8
"""SCIP takes coefficients below some 1e-9 for nothing here and not there, and then proves what is wrong: a program for it has
none up to this (tests/solvers/test_mclb.py)."""
SCIP_ERROR = 4e-7
"""SCIP keeps rows within 1e-9 here, and bounds sums of squares within tolerances of its own: this share of a statement's
scale is taken off."""
