"""What a method is given besides its problem (a budget), and what it hands back (an answer)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from keyshift.models.compiling import COMPILING

if TYPE_CHECKING:
    from keyshift.models.priorities import StageBound
    from keyshift.models.problem import Problem

Termination = Literal["optimal", "gap", "time_limit", "infeasible", "completed", "interrupted"]


@dataclass
class Answer:
    """What a method hands back. Its assignment has yet to pass `check`; its objective is computed anew.

    Attributes
    ----------
    assignment : ndarray or None
        The best assignment found, None when there is none.
    bound : float or None
        A proven lower bound on the objective of every feasible assignment; None when nothing is proven.
    termination : str
        Why the method stopped.
    message : str
        What the reader should know: which limit conflicts with which, which restriction was not met.
    details : dict
        Figures about the run itself (iterations, nodes searched), by name.
    problem : Problem or None
        The problem answered, for a method that by its nature ignores a rule of the one it was given (a baseline such
        as shuffle grouping). Its assignment is checked against this one, which may only lack rules; it has no bound.
    start : ndarray or None
        A checked assignment that the method began from: it stands where the method's own does not pass `check`.
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
    """The state of a running method, for whoever watches it.

    Attributes
    ----------
    objective, bound : float or None
        The best value so far, and what is proven so far, in the problem's unit.
    note : str
        What the method is doing.
    """

    objective: float | None = None
    bound: float | None = None
    note: str = ""


class LimitReached(Exception):  # noqa: N818 - no error: a limit is not a failure
    """Raised by `Budget.tick` to leave a loop that writes a model down."""


class Budget:
    """How long a method may run: until a time limit, or until somebody interrupts it.

    A method asks `expired` in its loops and then returns the best answer it has; a limit is not a failure.
    The clock stands still while kernels are compiled or loaded.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now; None is no limit.
    watch : callable, optional
        Called with a `Progress` whenever a method reports.
    """

    def __init__(self, time_limit: float | None = None, watch: Callable[[Progress], None] | None = None) -> None:
        self._began = time.monotonic() - COMPILING.seconds
        self.time_limit = math.inf if time_limit is None else float(time_limit)
        self.interrupted = False
        self.progress = Progress()
        self._watch = watch

    @property
    def elapsed(self) -> float:
        """Seconds since the start, less what compiling took."""
        return time.monotonic() - COMPILING.seconds - self._began

    @property
    def remaining(self) -> float:
        """Seconds left, never negative; infinite without a limit."""
        return 0.0 if self.interrupted else max(0.0, self.time_limit - self.elapsed)

    @property
    def expired(self) -> bool:
        """Whether a method should stop now."""
        return self.remaining <= 0.0

    @property
    def why(self) -> Termination:
        """The termination to report for a method that stops before its end: what the budget has to do with it.

        "completed" where neither a limit nor an interruption stopped it: the method ended by itself.
        """
        return self.ended("completed")

    def ended(self, otherwise: Termination) -> Termination:
        """Why a run ended that may have ended by itself: a solver's own clock may be a hair ahead of this one."""
        if self.interrupted:
            return "interrupted"
        return "time_limit" if self.remaining <= 0.01 + 0.01 * min(self.time_limit, 100.0) else otherwise

    def tick(self) -> None:
        """Ask from within a long loop - one that writes a model down, say - whether to go on.

        Raises
        ------
        LimitReached
            If the budget has `expired`; whoever began the loop answers with what there is.
        """
        if self.expired:
            raise LimitReached

    def interrupt(self) -> None:
        """Ask the running method to stop (Ctrl-C does)."""
        self.interrupted = True

    def part(self, share: float, most: float = math.inf) -> Budget:
        """A budget of a share of the time left, `most` seconds at most, which an interruption of this one also ends."""
        return _Part(self, share, most)

    def report(self, objective: float | None = None, bound: float | None = None, note: str = "") -> None:
        """Tell the watcher how far the method has come; figures that are not given stay as they were."""
        now = self.progress
        now.objective = now.objective if objective is None else objective
        now.bound = now.bound if bound is None else bound
        now.note = note or now.note
        if self._watch is not None:
            self._watch(now)


class _Part(Budget):
    """A share of another budget: interrupted with it, reporting through it."""

    def __init__(self, whole: Budget, share: float, most: float) -> None:
        self._whole = whole
        limit = min(whole.remaining * share, most)
        super().__init__(None if math.isinf(limit) else limit, whole._watch)
        self.progress = whole.progress

    @property
    def remaining(self) -> float:
        return 0.0 if self._whole.interrupted else min(super().remaining, self._whole.remaining)

    def ended(self, otherwise: Termination) -> Termination:
        return self._whole.ended(otherwise)
