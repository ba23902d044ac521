"""repair: an answer for a problem whose limits are already broken - mend as much as can be, make nothing worse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keyshift.models import Budget, InputError, Problem, Solution
from keyshift.models.figures import percent
from keyshift.models.guards import real, whole
from keyshift.models.problem import Limit
from keyshift.models.rules.ruled import BROKEN, Ruled
from keyshift.models.workload import FloatArray, IntArray
from keyshift.plans.remedying import RemedySearch
from keyshift.solving import interruptible, solve


@dataclass(frozen=True, eq=False)
class Excess:
    """By how much the current nodes exceed the limits of a problem.

    Attributes
    ----------
    problem : Problem
    limits : dict of str to tuple of float
        Limit and what the current nodes need, for each single limit that they break.
    rooms : dict of str to tuple of ndarray
        Capacity and use of every node, for each resource.
    """

    problem: Any
    limits: dict[str, tuple[float, float]]
    rooms: dict[str, tuple[FloatArray, FloatArray]]

    @classmethod
    def of(cls, problem: Any) -> Excess:
        """Measure the current nodes."""
        w = problem.workload
        broken = {}
        for limit in problem.limits:
            if limit.name in problem.repairable and limit.needed is not None:
                needed = float(limit.needed(w.current))
                if needed > float(limit.value) * (1 + 1e-9):
                    broken[limit.name] = (limit.value, needed)
        rooms = {}
        for name, room in (getattr(problem, "resource_capacity", None) or {}).items():
            use = {**w.resources, "load": w.last_load}[name]
            rooms[name] = (np.asarray(room), np.bincount(w.current, weights=use, minlength=w.nodes))
        return cls(problem, broken, rooms)

    def at(self, share: Any) -> Problem:
        """The problem that still allows this share of every excess, and no more than now of anything."""
        s = float(share)
        changes: dict[str, Any] = {}
        for name, (limit, now) in self.limits.items():
            allowed = limit + s * (now - limit)
            changes[name] = int(np.floor(allowed + 1e-9)) if isinstance(limit, int) else allowed
        if self.rooms:
            changes["resource_capacity"] = {
                name: room + s * np.maximum(used - room, 0.0) for name, (room, used) in self.rooms.items()
            }
        made: Problem = self.problem.mended(**changes)
        return made

    def yielding(self) -> Excess:
        """The same of the problem whose broken rules give way; of this one where none is broken."""
        problem = self.problem
        if not isinstance(problem, Ruled) or not problem.broken_rules(problem.scope.workload.current):
            return self
        first = [BROKEN, *(name for name in problem.stages if name != BROKEN)]  # type: ignore[attr-defined]  # Prioritised
        return replace(self, problem=replace(problem, priorities=first))  # type: ignore[type-var]

    def needed(self, assignment: IntArray) -> float:
        """The share of the excess that an assignment keeps, at its worst limit or node."""
        w, worst = self.problem.workload, 0.0
        needs = {limit.name: limit.needed for limit in self.problem.limits}
        for name, (limit, now) in self.limits.items():
            needed = needs[name]
            assert needed is not None
            worst = max(worst, (float(needed(assignment)) - limit) / (now - limit))
        for name, (room, used) in self.rooms.items():
            use = {**w.resources, "load": w.last_load}[name]
            after = np.bincount(assignment, weights=use, minlength=w.nodes)
            over = used > room * (1 + 1e-9)
            worst = max(worst, float(((after - room)[over] / (used - room)[over]).max(initial=0.0)))
        return max(0.0, worst)


def repair(problem: Problem, method: str | None = None, *, time_limit: float | None = 60.0, seed: int = 0) -> Solution:
    """Answer a problem whose limits are already broken: first repair, then minimise the objective, and make nothing worse.

    No limit is exceeded by more than it is now, and no node ends up with more of a resource than the larger of its
    capacity and what it holds now. Within that, the worst remaining share of the excess is made as small as the
    migration limits allow; then rules that are broken now are mended as far as these allow, and none is broken more; and then
    the problem's own objective is minimised. If the problem has a feasible answer, that answer is returned.

    Parameters
    ----------
    problem : Problem
        One with `repairable` limits: key-group allocation, collocated allocation, mixed routing.
    method : str, optional
    time_limit : float, optional
        Seconds.
    seed : int, default 0

    Returns
    -------
    Solution
        Its `problem` has the limits as far as they could be met; ``details["excess_left"]`` is the share left,
        ``details["excess_left_proven"]`` whether no answer leaves less. Where rules are left broken, its first priority says by
        how much, "broken_rules".

    Raises
    ------
    InputError
        For any other problem.
    """
    if not problem.repairable:
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
    soft = excess.yielding()
    pose = excess.at if soft is excess else lambda s: soft.at(s).plain()  # type: ignore[attr-defined]  # Prioritised
    share = Limit("excess", 0.0, pose, excess.needed, 1.0)
    remedy = search.bisect(share, budget.part(0.7), verdict == "no" and soft is excess)
    if remedy.value is None or remedy.solution is None:
        return solve(soft.at(1.0), method, time_limit=_left(budget), seed=seed)
    least = remedy.value * (1 + 1e-9) if remedy.value > 0 else 0.0
    posed = soft.at(least)
    start = remedy.solution.assignment if posed.check(remedy.solution.assignment).feasible else None
    answer = solve(posed, method, time_limit=_left(budget), seed=seed, start=start)
    said = (
        f"repaired as far as possible: {percent(remedy.value)} of the worst excess is left"
        f"{', and nothing leaves less' if remedy.proven else ''}"
    )
    said = said if remedy.value > 0 else ""
    details = {**answer.details, "excess_left": remedy.value, "excess_left_proven": remedy.proven}
    return replace(answer, message="; ".join(filter(None, (answer.message, said))), details=details)


def _left(budget: Budget) -> float | None:
    return None if np.isinf(budget.remaining) else budget.remaining
