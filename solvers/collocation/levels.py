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
from keyshift.solvers.collocation.local_search import search_turns
from keyshift.solvers.collocation.statement import run_highs, second_opinion, solve_cpsat
from keyshift.solvers.conductor import Component, Incumbent, solver_turns

Method = Callable[..., Answer]
FIRST, STEPS, SMALL, LARGE = 0.1, 1_500_000, 3_000, 100_000
"""Effort of the first turn of a solver; steps of a search; up to so many (pair, level, node) combinations CP-SAT begins at once,
and HiGHS begins at all."""


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


def level_components(found: Incumbent, solve: Method, **asked: Any) -> list[Component]:
    """Local search, CP-SAT on what is small, the levels alone for their bounds, and HiGHS on the whole statement.

    Parameters
    ----------
    found : Incumbent
        Of a problem with `costs`.
    solve : callable
        Solves a level alone.
    **asked
        The options of `solve`, with `seed`.
    """
    problem, w = found.problem, found.problem.workload
    exactly, size = {"seed": asked["seed"], "threads": asked["threads"]}, w.nodes * len(problem.links)
    steps = min(STEPS, 1_000 * w.key_groups * w.nodes) if asked["search_steps"] is None else asked["search_steps"]

    def by_cpsat(turn: Budget) -> Answer:
        return solve_cpsat(problem, budget=turn, start=found.best, **exactly)

    def alone_turn(turn: Budget) -> Answer:
        return by_level(solve)(problem, budget=turn, **{**asked, "start": found.best})

    def by_highs(turn: Budget) -> Answer:
        return second_opinion(problem, turn, said=run_highs(problem, turn, start=found.best, **exactly), **exactly)

    made = [Component("search", search_turns(found, asked["seed"], steps, asked["finish"], False), 2.0)]
    made.append(Component("levels alone", solver_turns(found, alone_turn, "levels alone", 5 * FIRST), 1.0, 0.02))
    if asked["finish"]:
        made.append(
            Component("CP-SAT", solver_turns(found, by_cpsat, "CP-SAT", FIRST), 1.0, 0.02 if size <= SMALL else 2.0)
        )
        if size <= LARGE:
            made.append(
                Component("HiGHS", solver_turns(found, by_highs, "HiGHS", FIRST), 1.0, 0.1 if size <= SMALL else 1.0)
            )
    return made
