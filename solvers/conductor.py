"""The conductor: a search, bounds and solvers take turns around one incumbent until bound and objective meet.

An exact method is a list of components. Each is an iterator that does a little work at each turn, and tells the incumbent what it
has found and proven. Next is always the one that has done least work for its share (stride scheduling, [Waldspurger1995]).
Work is counted and not timed (`Budget.work`), so that turns, and with them the answer and the time of a proof, depend neither
on the limit nor on the machine: a limit ends them, and nothing else. A solver that cannot go on where it stopped begins again
with twice the work, which costs at most twice what the last run does [Luby1993].
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import kept

SHORTEST = 0.05
"""The least work that a turn counts for: who waits for the others does not wait for ever."""
A_GAIN, OF_A_GAIN = 0.1, 0.25
"""Of a turn in which the bound closes the first share of the gap only the second share of its work counts: what helps goes on."""


@dataclass
class Incumbent:
    """The best assignment and the best bound so far.

    Parameters
    ----------
    problem : Problem
    budget : Budget
    enough : float, default 0
        An objective at which there is nothing left to do.
    second : callable, optional
        What is less in the better one of two assignments with the same objective.
    next_value : callable, optional
        The least value that an objective can have and that is no less than a bound.
    """

    problem: Any
    budget: Budget
    enough: float = 0.0
    second: Callable[[IntArray], float] = lambda assignment: 0.0
    next_value: Callable[[float], float] = lambda bound: bound
    best: IntArray | None = None
    objective: float = math.inf
    tie: float = math.inf
    bound: float = 0.0
    infeasible: str = ""
    """Why there is no assignment, once that is proven."""
    message: str = ""
    """What the reader is told of the run."""
    vouched: bool = False
    """Whether a solver ended by proof, within its tolerances."""
    all_wait: bool = False
    """Whether components only wait for each other: each that waits for work of another goes on now."""
    cut_short: bool = False
    """Whether the budget ended the components: its clock may stand a little earlier once imports have been taken off it."""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def slack(self) -> float:
        """How far above the bound an objective is optimal: half of what `Problem.tolerance_of` grants."""
        return 0.5 * self.problem.tolerance_of(self.objective)

    @property
    def proven(self) -> bool:
        """Whether objective and bound have met."""
        return self.best is not None and self.objective - self.bound <= self.slack

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to do."""
        return self.proven or self.vouched or bool(self.infeasible) or self.objective <= self.enough

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do, or no time."""
        return self.settled or self.budget.expired

    def add_solution(self, assignment: IntArray | None, note: str = "", but: Collection[str] | None = None) -> bool:
        """Keep an assignment if it passes the check and is better; `but` is for `kept`."""
        if assignment is None or (value := self.problem.objective(assignment)) > self.objective:
            return False
        rank = (value, self.second(assignment))
        if rank >= (self.objective, self.tie) or not kept(self.problem, assignment, but):
            return False
        self.best = np.asarray(assignment).copy()
        self.objective, self.tie = rank
        self.budget.report(objective=self.objective, note=note)
        return True

    def raise_bound(self, bound: float, note: str) -> None:
        """Keep a bound if it is higher; where few values can occur, the next one bounds as well."""
        bound = self.next_value(bound)
        if bound > self.bound:
            self.bound = bound
            self.budget.report(bound=bound, note=note)

    def take(self, answer: Answer, note: str) -> None:
        """Keep what a solver says of the statement, less a verdict that the best answer disproves or turns into a proof."""
        self.details |= answer.details
        if answer.termination == "infeasible" and self.best is None:
            self.infeasible = answer.message
        elif answer.termination == "infeasible":  # what is left after cuts is refused: nothing is better than the best
            self.raise_bound(self.objective, note)
        else:
            self.add_solution(answer.assignment, note)
            if answer.bound is not None:
                self.raise_bound(answer.bound, note)

    def answer(self) -> Answer:
        """The best assignment and bound, and why the run ended."""
        if self.infeasible and self.best is None:
            return Answer(None, termination="infeasible", message=self.infeasible, details=self.details)
        over = self.cut_short or self.budget.expired
        ended = self.budget.ended("time_limit" if self.cut_short else "completed") if over else "completed"
        termination = "optimal" if self.proven or self.vouched else ended
        return Answer(self.best, min(self.bound, self.objective), termination, self.message, self.details)


class Component(NamedTuple):
    """A search, a bound or a solver of a method.

    Attributes
    ----------
    name : str
    turns : iterator
        Does a little work at each step.
    share : float
        What it gets, in the proportion of these numbers.
    after : float
        Work that the others have each done for their share before it begins.
    """

    name: str
    turns: Iterator[None]
    share: float = 1.0
    after: float = 0.0


def conduct(found: Incumbent, components: Sequence[Component]) -> None:
    """Let components take turns until all is proven, they have all ended, or the budget has; of equals the first begins."""
    found.budget.report(bound=found.bound)
    waiting = [(component.after, place, component) for place, component in enumerate(components)]
    heapq.heapify(waiting)
    idle = set[int]()
    while waiting and not found.done:
        if len(idle) == len(waiting):
            if found.all_wait:
                return
            found.all_wait, idle = True, set()
        spent, place, component = heapq.heappop(waiting)
        begun, gap, bound = found.budget.work, found.objective - found.bound, found.bound
        for _ in component.turns:
            work = found.budget.work - begun
            idle = {*idle, place} if work == 0 else set()
            found.all_wait = found.all_wait and work == 0
            cost = max(SHORTEST, work) * (OF_A_GAIN if found.bound - bound >= A_GAIN * gap > 0 else 1.0)
            heapq.heappush(waiting, (spent + cost / component.share, place, component))
            break
        else:  # it has ended, with what it last found
            idle = set()
    found.cut_short = bool(waiting) and not found.settled


def solver_turns(found: Incumbent, ask: Callable[[Budget], Answer], note: str, first: float) -> Iterator[None]:
    """The turns of a solver that cannot go on where it stopped, the first for so much work, each next one for twice as much."""
    while True:
        turn = found.budget.turn(first)
        answer = ask(turn)
        found.take(answer, note)
        if not turn.expired:
            found.vouched |= answer.termination == "optimal"
            return
        first *= 2
        yield
