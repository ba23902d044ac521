"""remedies: which limit to relax, and by how much, for an answer, or a good one; repair: where limits are broken already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from keyshift.catalogue import find_method
from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.base.figures import enough, figure, float_above, percent
from keyshift.models.base.guards import real, whole
from keyshift.models.problem import Limit, Number
from keyshift.models.rules.ruled import BROKEN, Ruled
from keyshift.models.workload import IntArray
from keyshift.solving import interruptible, solve

COUNTED = ("nodes", "nodes_after", "workers")
"""Limits whose values are tried one after the other: more of them need not help."""


@dataclass(frozen=True, eq=False)
class Remedy:
    """A limit to change: by how much, if all other limits stay as they are.

    Attributes
    ----------
    limit : str
        The problem's parameter, ``"resource_capacity.<name>"`` (a factor on every node's capacity), ``"nodes"``; of a rule,
        ``"at_most of Count(at_most=3)"``, or the rule, where `drops`.
    now : float
        Its value.
    value : float or None
        The limit's value after the smallest change found that is enough; None if none was found.
    bound : float or None
        The limit's value after the largest change that is proven not to be enough; None if nothing is proven.
    proven : bool
        Whether it is proven that no smaller change is enough or, without a value, that no change is.
    solution : Solution or None
        An answer at `value`.
    drops : bool
        Whether the remedy drops a whole rule; `value` is then 0.
    down : bool
        Whether the limit loosens as its value falls.
    beside : str
        What has to be given beside the value, such as ``"nodes_after = 2"``; "" if nothing.
    """

    limit: str
    now: float
    value: float | None
    bound: float | None
    proven: bool
    solution: Solution | None = None
    drops: bool = False
    down: bool = False
    beside: str = ""

    def __str__(self) -> str:
        if self.drops:
            still = "still no answer" if self.proven else "undecided"
            return f"without {self.limit}: " + (still if self.value is None else "there is an answer")
        what = f"{self.limit} (now {figure(self.now)}{self.beside and f', with {self.beside}'})"
        if self.value is None:
            if self.proven:
                return f"{what}: no value of this limit alone is enough"
            if self.limit in COUNTED and self.bound is not None:
                return f"{what}: no number up to {figure(self.bound)} is enough"
            return f"{what}: undecided" + ("" if self.bound is None else f", {self.too_little} is not enough")
        if not self.proven:
            return f"{what}: {self.enough} is enough" + ("" if self.bound is None else f", {self.too_little} is not")
        if Fraction(self.enough) == Fraction(repr(self.value)):
            return f"{what}: {self.enough} is enough, and no smaller change is"
        return f"{what}: {self.enough} is enough, and nothing {'above' if self.down else 'below'} {self.too_little} is"

    @property
    def enough(self) -> str:
        """`value` as it may be typed in: rounded to the side on which it suffices."""
        return "-" if self.value is None else enough(self.value, "down" if self.down else "up")

    @property
    def too_little(self) -> str:
        """`bound`, or the least value where that is proven, rounded to the side on which it does not suffice."""
        known = self.value if self.bound is None else self.bound
        return "-" if known is None else enough(known, "up" if self.down else "down")

    def as_record(self) -> dict[str, Any]:
        """The remedy as plain values for JSON."""
        names = ("limit", "now", "value", "bound", "proven", "drops", "beside")
        objective = None if self.solution is None else self.solution.objective
        return {**{name: getattr(self, name) for name in names}, "objective": objective, "sentence": str(self)}


def remedies(
    problem: Problem,
    target: float | None = None,
    *,
    method: str | None = None,
    time_limit: float | None = 60.0,
    seed: int = 0,
) -> list[Remedy]:
    """Find, for each limit of a problem, the smallest change that makes the problem feasible if the other limits stay.

    Parameters
    ----------
    problem : Problem
    target : float, optional
        An objective that is good enough. None: any feasible answer is.
    method : str, optional
        How to answer; None takes the best exact method.
    time_limit : float or None, default 60.0
        Seconds, shared by all limits; None: no limit. When they are over, the changes found so far are returned, not proven.
    seed : int, default 0

    Returns
    -------
    list of Remedy
        One for each limit that is set, each number of a rule, each rule as a whole, and one for the number of nodes; empty when
        no limit has to be relaxed.

    Notes
    -----
    The value of a limit is bisected, with a proof or an answer at every step. After an answer, the search continues
    from the value that this answer needs, so that the smallest value of a real-valued limit is found exactly; an
    attempt with a value smaller by a millionth then proves it.

    There is no gap to choose: all that counts is on which side of `target` the optimum lies, and where the gap of `solve` ends
    an attempt before that is known, it goes on to the proof.
    """
    wanted = np.inf if target is None else real("target", target, least=-np.inf, optional=False)
    seconds = real("time_limit", time_limit)
    search = RemedySearch(wanted, method, whole("seed", seed, optional=False))
    _ = find_method(problem, method).function  # imported before the clock starts
    budget = Budget(seconds)
    limits = problem.limits
    found = []
    with interruptible(budget.interrupt):
        verdict = search.attempt(problem, budget.part(0.3))[0] if limits else "yes"
        if verdict == "yes":
            return []
        for position, limit in enumerate(limits):
            part = budget.part(1.0 / (len(limits) - position))
            remedy = search.least(problem, limit, part, verdict == "no")
            found.append(replace(remedy, drops=limit.drops, down=limit.down, beside=limit.beside))
    return found


@dataclass(frozen=True)
class RemedySearch:
    """Answers, good enough or not, at other values of a limit."""

    target: float
    method: str | None
    seed: int

    def attempt(self, problem: Problem, budget: Budget) -> tuple[str, Solution | None]:
        """Whether a problem has a good enough answer: yes, with it; no, proven; or unknown."""
        if problem.conflicts():
            return "no", None
        if budget.why == "interrupted":
            return "unknown", None
        solution = self._answer(problem, budget)
        if solution.termination == "gap" and self.target < np.inf and self._open(problem, solution):
            solution = self._answer(problem, budget, gap=0.0, start=solution)
        if solution.status == "infeasible":
            return "no", None
        if solution.objective is not None and solution.objective <= self.target + problem.tolerance:
            return "yes", solution
        if solution.bound is not None and solution.bound > self.target + problem.tolerance:
            return "no", None
        return "unknown", None

    def _answer(self, problem: Problem, budget: Budget, **more: Any) -> Solution:
        return solve(problem, self.method, time_limit=seconds_of(budget), seed=self.seed, **more)

    def _open(self, problem: Problem, solution: Solution) -> bool:
        """Whether the target lies between an answer and its bound."""
        if solution.objective is None or solution.bound is None:
            return False
        return solution.bound <= self.target + problem.tolerance < solution.objective

    def least(self, problem: Problem, limit: Limit, budget: Budget, refuted: bool) -> Remedy:
        """The least value of one limit; `refuted` says that the present one is proven not to do."""
        if limit.arithmetic is not None and np.isinf(self.target):
            value = float_above(limit.arithmetic())
            verdict, solution = self.attempt(limit.at(value), budget)
            return Remedy(limit.name, float(limit.value), value, None, verdict != "no", solution)
        return self.bisect(limit, budget, refuted) if limit.ordered else self._count_up(limit, budget)

    def bisect(self, limit: Limit, budget: Budget, refuted: bool) -> Remedy:
        """The least value of a limit that only admits more as it loosens."""
        sign = -1 if limit.down else 1
        tight: Number = sign * limit.value
        known = refuted
        verdict, best = "unknown", None
        if limit.ends is not None:
            verdict, best = self.attempt(limit.at(limit.ends), budget.part(0.5))
        if verdict != "yes" or best is None:
            return Remedy(limit.name, float(limit.value), None, None, verdict == "no")
        loose: Number = sign * self._needs(limit, best, limit.ends)
        for attempt in range(60):
            # A smallest value counts as exact if one that is smaller by a millionth is proven to be too small.
            fine = 1 if limit.whole else 1e-6 * max(abs(float(loose)), abs(float(tight)), 1e-12)
            proven = known and loose - tight <= fine * (1 + 1e-6)
            if proven or (loose <= tight and not known):  # the limit itself can be kept
                break
            middle = _between(tight, loose, fine, limit.whole, attempt)
            verdict, solution = self.attempt(limit.at(sign * middle), budget.part(0.5))
            if verdict == "yes" and solution is not None:
                best, loose = solution, min(middle, sign * self._needs(limit, solution, sign * middle))
            elif verdict == "no":
                tight, known = middle, True
            else:
                break
        bound = float(sign * tight) if known else None
        return Remedy(limit.name, float(limit.value), float(sign * loose), bound, proven, best)

    def _needs(self, limit: Limit, solution: Solution, otherwise: Number | None) -> Number:
        assert otherwise is not None
        if limit.needed is None or solution.assignment is None:
            return otherwise
        needed = limit.needed(solution.assignment)
        # The check allows for rounding, so a value slightly below the one asked for may pass, too.
        value = max(needed, otherwise) if limit.down else min(needed, otherwise)
        # How much it allows may grow with the limit itself: what passed at a looser value need not pass at this one.
        return value if limit.at(value).check(solution.assignment).feasible else otherwise

    def _count_up(self, limit: Limit, budget: Budget) -> Remedy:
        """Fewest nodes: one after the other, since with more of them the mean, and so other limits, move."""
        now, proven, most = int(limit.value), True, int(limit.value) + 20
        for number in range(now + 1, most + 1):
            try:
                verdict, solution = self.attempt(limit.at(number), budget.part(0.5))
            except InputError:
                break
            if verdict == "yes":
                return Remedy(limit.name, now, number, number - 1 if proven else None, proven, solution)
            proven = proven and verdict == "no"
            if budget.expired:
                return Remedy(limit.name, now, None, number if proven else None, False)
        return Remedy(limit.name, now, None, most if proven else None, False)


def _between(tight: Number, loose: Number, fine: Number, only_whole: bool, attempt: int) -> Number:
    """The next value to try: halfway, and for real limits every other time a hair below what is known to do."""
    if only_whole:
        return int((tight + loose) // 2) if loose - tight > 1 else int(tight)
    if isinstance(tight, Fraction) or isinstance(loose, Fraction):
        tight, loose = Fraction(tight), Fraction(loose)
    if attempt % 2 == 0 or loose - tight <= 2 * fine:
        return max(tight, loose - type(loose)(fine))
    return (tight + loose) / 2


def seconds_of(budget: Budget, least: float = 0.5) -> float | None:
    """What a budget leaves, or so few seconds after its end; None without a limit."""
    return None if np.isinf(budget.remaining) else max(budget.remaining, least)


# repair: what the current nodes break already is repaired as far as it can be, and nothing made worse ------------------


@dataclass(frozen=True, eq=False)
class Excess:
    """By how much the current nodes exceed the limits of a problem.

    Attributes
    ----------
    problem : Problem
    parts : dict of str to tuple
        Of each single limit that they break, and of the capacities of all nodes for each resource: the value, what an
        assignment needs, and what the current nodes need.
    """

    problem: Any
    parts: dict[str, tuple[Any, Callable[[IntArray], Any], Any]]

    @classmethod
    def of(cls, problem: Any) -> Excess:
        """Measure the current nodes."""
        w, parts = problem.workload, dict[str, Any]()
        for limit in problem.limits:
            if limit.name in problem.repairable and limit.needed is not None:
                now = float(limit.needed(w.current))
                if now > float(limit.value) * (1 + 1e-9):
                    parts[limit.name] = limit.value, limit.needed, now
        for name, room in (getattr(problem, "resource_capacity", None) or {}).items():
            held = partial(np.bincount, weights={**w.resources, "load": w.last_load}[name], minlength=w.nodes)
            parts[f"resource_capacity.{name}"] = room, held, held(w.current)
        return cls(problem, parts)

    def at(self, share: Any) -> Problem:
        """The problem that still allows this share of every excess, and no more than now of anything."""
        changes: dict[str, Any] = {}
        for name, (limit, _, now) in self.parts.items():
            allowed = limit + float(share) * np.maximum(now - limit, 0.0)
            parameter, _, resource = name.partition(".")
            if resource:
                changes.setdefault(parameter, {})[resource] = allowed
            else:
                changes[name] = int(np.floor(allowed + 1e-9)) if isinstance(limit, int) else float(allowed)
        return self.problem.repaired(**changes)

    def elastic(self) -> Excess:
        """The same of the problem whose broken rules give way; of this one where none is broken."""
        problem = self.problem
        if not isinstance(problem, Ruled) or not problem.broken_rules(problem.scope.workload.current):
            return self
        first = [BROKEN, *(name for name in problem.stages if name != BROKEN)]  # type: ignore[attr-defined]  # Prioritised
        return replace(self, problem=replace(problem, priorities=first))  # type: ignore[type-var]

    def needed(self, assignment: IntArray) -> float:
        """The share of the excess that an assignment keeps, at its worst limit or node."""
        worst = 0.0
        for limit, needs, now in self.parts.values():
            least, today, after = np.atleast_1d(limit), np.atleast_1d(now), np.atleast_1d(needs(assignment))
            over = today > least * (1 + 1e-9)
            worst = max(worst, float(((after - least)[over] / (today - least)[over]).max(initial=0.0)))
        return worst


def repair(problem: Problem, method: str | None = None, *, time_limit: float | None = 60.0, seed: int = 0) -> Solution:
    """Answer a problem whose limits are already broken: repair them first, then minimise the objective, and make nothing worse.

    No limit is exceeded by more than it is now, and no node ends up with more of a resource than the larger of its
    capacity and what it holds now. Within that, the largest remaining share of the excess is made as small as the
    migration limits allow; then rules that are broken now are repaired as far as these limits allow, and none is broken
    more; then the problem's own objective is minimised. If the problem has a feasible answer, that answer is returned.

    Parameters
    ----------
    problem : Problem
        One with `repairable` limits: key-group allocation, collocated allocation, mixed routing. Of another with rules, an answer
        that keeps all of them, if there is one.
    method : str, optional
    time_limit : float or None, default 60.0
        Seconds; None: no limit.
    seed : int, default 0

    Returns
    -------
    Solution
        Its `problem` has the limits as far as they could be met; ``details["excess_left"]`` is the share left,
        ``details["excess_left_proven"]`` whether no answer leaves less. If rules stay broken, its first priority,
        "broken_rules", says by how much.

    Raises
    ------
    InputError
        For any other problem.
    """
    if not problem.repairable and not getattr(problem, "rules", ()):
        raise InputError(f"{problem.name} cannot be repaired: its limits do not depend on where key groups run")
    budget = Budget(real("time_limit", time_limit))
    with interruptible(budget.interrupt):
        return _repaired(problem, method, budget, whole("seed", seed, optional=False))


def _repaired(problem: Problem, method: str | None, budget: Budget, seed: int) -> Solution:
    """The answer that leaves the least share of every excess."""
    excess, search = Excess.of(problem), RemedySearch(np.inf, method, seed)
    verdict, solution = search.attempt(problem, budget.part(0.5))
    if verdict == "yes" and solution is not None:
        return replace(solution, details={**solution.details, "excess_left": 0.0, "excess_left_proven": True})
    if not problem.repairable:
        answer = solve(problem, method, time_limit=seconds_of(budget, 0.0), seed=seed)
        said = f"{problem.name} keeps all rules or has no answer; key-group allocation can keep as many of them as possible"
        return replace(answer, message="; ".join(filter(None, (answer.message, said))))
    soft = excess.elastic()
    pose = excess.at if soft is excess else lambda s: soft.at(s).plain()  # type: ignore[attr-defined]  # Prioritised
    share = Limit("excess", 0.0, pose, excess.needed, 1.0)
    remedy = search.bisect(share, budget.part(0.7), verdict == "no" and soft is excess)
    if remedy.value is None or remedy.solution is None:
        return solve(soft.at(1.0), method, time_limit=seconds_of(budget, 0.0), seed=seed)
    least = remedy.value * (1 + 1e-9) if remedy.value > 0 else 0.0
    posed = soft.at(least)
    start = remedy.solution.assignment if posed.check(remedy.solution.assignment).feasible else None
    answer = solve(posed, method, time_limit=seconds_of(budget, 0.0), seed=seed, start=start)
    proven = remedy.proven or remedy.value <= 0
    said = f"repaired as far as possible: {percent(remedy.value)} of the worst excess is left"
    said = said + ", and nothing leaves less" * proven if remedy.value > 0 else ""
    details = {**answer.details, "excess_left": remedy.value, "excess_left_proven": proven}
    return replace(answer, message="; ".join(filter(None, (answer.message, said))), details=details)
