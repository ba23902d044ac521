"""Traffic that costs by level: each level alone is collocation on blocks of nodes, and the levels' bounds add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import IntArray, Workload
from keyshift.solvers.checked import better_of, is_met
from keyshift.solvers.collocation.local_search import Annealing
from keyshift.solvers.collocation.statement import run_highs, second_opinion, solve_cpsat

Method = Callable[..., Answer]
SEARCHING, EXACT, BOUNDING = 0.2, 0.4, 0.5
"""Shares of the time left for the first search, for each solver, and for the levels alone."""
STEPS, SMALL, LARGE = 1_500_000, 3_000, 100_000
"""Steps of a search; up to so many (pair, level, node) combinations CP-SAT is asked first, and HiGHS at last."""


def alone(problem: CollocatedAllocation) -> Iterator[tuple[float, CollocatedAllocation, IntArray]]:
    r"""For each level of (17) its step, a relaxation that minimises the traffic between its blocks, and each node's block.

    Blocks stand for nodes: key groups that change blocks migrate, and the rows (8) and (9) of a block's nodes, added up, are
    those of one node of their capacity. So where no node drains the limits stay, else none on loads does. Rules and resources
    are left out. Of windows the mean traffic counts, which is no more than the worst or the mean of the worst share.
    """
    w = problem.workload
    one: dict[str, Any] = {"costs": None, "priorities": (), "over": "mean", "level": 0.9}
    coarse: dict[str, Any] = {"rules": (), "resource_capacity": None}
    if not w.kept.all():
        coarse["max_load_distance"] = None
    for step, block in zip(problem.levels.step.tolist(), problem.levels.block, strict=True):
        first, number = np.unique(block, return_inverse=True)
        if first.size == w.nodes:
            yield step, replace(problem, **one), number
            continue
        blocks = Workload(
            load=w.load, state=w.state, current=number[w.current], nodes=np.bincount(number, w.capacity),
            draining=np.bincount(number, w.kept) == 0, traffic=list(w.window_traffic),
        )  # fmt: skip
        yield step, replace(problem, workload=blocks, **one, **coarse), number


def by_level(bound: Method) -> Method:
    """A method that bounds remote traffic; where this costs by level, the sum of its bounds on the levels alone."""

    @wraps(bound)
    def summed(problem: CollocatedAllocation, *, budget: Budget, **options: Any) -> Answer:
        if problem.costs is None:
            return bound(problem, budget=budget, **options)
        levels, total, start = list(alone(problem)), 0.0, options.pop("start", None)
        for at, (step, part, number) in enumerate(levels):
            if start is not None:
                options["start"] = number[start]
            found = bound(part, budget=budget.part(1 / (len(levels) - at)), **options)
            if found.termination == "infeasible":
                return found
            total += step * (found.bound or 0.0)
        return Answer(start, max(0.0, total - 1e-12 * problem.scale), budget.why if budget.expired else "completed")

    return summed


def solve_by_level(problem: CollocatedAllocation, solve: Method, budget: Budget, **asked: Any) -> Answer:
    """Local search, CP-SAT on what is small, the levels alone for their bounds, HiGHS, and the search again.

    Parameters
    ----------
    problem : CollocatedAllocation
        With `costs`.
    solve : callable
        Solves a level alone.
    budget : Budget
    **asked
        The options of `solve`, with `seed` and `start`.
    """
    w, exactly = problem.workload, {"seed": asked["seed"], "threads": asked["threads"]}
    search, size = Annealing(problem, asked["start"], asked["seed"]), w.nodes * len(problem.links)
    steps = min(STEPS, 1_000 * w.key_groups * w.nodes) if asked["search_steps"] is None else asked["search_steps"]
    search.go_on(budget.part(SEARCHING), steps, stop=True)
    answer = Answer(search.best, 0.0, "gap")

    def better(other: Answer) -> Answer:
        best = better_of(problem, Answer(other.assignment), answer.assignment).assignment
        made = Answer(best, max(answer.bound or 0.0, other.bound or 0.0), other.termination, other.message)
        if best is not None and is_met(problem, made):
            made.bound, made.termination = min(made.bound or 0.0, problem.objective(best)), "optimal"
        return made

    def is_open() -> bool:
        return answer.termination not in ("optimal", "infeasible") and not budget.expired

    finish = asked["finish"]
    if finish and size <= SMALL:
        answer = better(solve_cpsat(problem, budget=budget.part(EXACT), start=search.best, **exactly))
    if is_open():
        answer = better(by_level(solve)(problem, budget=budget.part(BOUNDING), **{**asked, "start": answer.assignment}))
    if finish and size <= LARGE and is_open():
        rest = run_highs(problem, budget.part(EXACT), start=answer.assignment, **exactly)
        answer = better(second_opinion(problem, budget, said=rest, **exactly))
    while finish and is_open() and not search.over and np.isfinite(budget.remaining):
        if answer.assignment is not None:
            search.offer(answer.assignment, budget)
        search.go_on(budget, STEPS, again=True)
        answer = better(Answer(search.best))
    if answer.termination not in ("optimal", "infeasible"):
        answer.termination = budget.why if budget.expired else "gap"
    return answer
