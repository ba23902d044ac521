"""HiGHS and CP-SAT on some (record, node) pairs of mixed routing, all other records decided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.compiling import off_clock
from keyshift.models.routing.choices import Choices
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import within

TIGHT = {"mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9}
"""The check allows 1e-9 of the mean load: HiGHS's usual 1e-6 would let through what it refuses."""
NO_ASSIGNMENT = "no assignment meets all limits"


@dataclass(frozen=True)
class Effort:
    """How far a solver goes.

    Attributes
    ----------
    seed, threads : int
    nodes, gap : int or None, float
        With `nodes`, until so many nodes of the tree or this relative gap; else to the end.
    most : float
        States above this, what a known assignment moves, count as little more.
    """

    seed: int
    threads: int
    nodes: int | None = None
    gap: float = 0.0
    most: float = math.inf


def by_highs(choices: Choices, budget: Budget, known: IntArray | None, effort: Effort) -> Answer:
    """HiGHS on these choices, from a known assignment."""
    with off_clock():
        from keyshift.models.routing.pyomo_model import RoutingPyomo
        from keyshift.solvers import highs

    if choices.record.size == 0:
        return _nothing_open(choices)
    statement = within(budget, lambda: RoutingPyomo(choices, choices.state_unit, effort.most))
    if statement is None:
        return Answer(known, None, budget.why)
    limits = TIGHT if effort.nodes is None else {**TIGHT, "mip_max_nodes": effort.nodes, "mip_rel_gap": effort.gap}
    settings: dict[str, Any] = {"seed": effort.seed, "threads": effort.threads, "options": limits}
    return highs.solve(statement, budget, known, bound=statement.bound, infeasible=NO_ASSIGNMENT, **settings)


def by_cpsat(choices: Choices, budget: Budget, known: IntArray | None, effort: Effort) -> Answer:
    """As `by_highs`, with CP-SAT on integer loads and states; ten conflicts count as a node."""
    with off_clock():
        from keyshift.models.routing.cpsat_model import RoutingCpSat
        from keyshift.solvers import cpsat

    if choices.record.size == 0:
        return _nothing_open(choices)
    statement = within(budget, lambda: RoutingCpSat(choices, effort.most))
    if statement is None:
        return Answer(known, None, budget.why)
    settings: dict[str, Any] = {"seed": effort.seed, "threads": effort.threads}
    if effort.nodes is not None:
        settings |= {"max_number_of_conflicts": 10 * effort.nodes, "relative_gap_limit": effort.gap}
    return cpsat.solve(statement, budget, known, bound=statement.bound, infeasible=NO_ASSIGNMENT, **settings)


def _nothing_open(choices: Choices) -> Answer:
    """Every record is decided: there is one assignment to look at."""
    only = choices.assignment(np.zeros(0, dtype=np.int64))
    if choices.problem.violations(only):
        return Answer(None, termination="infeasible")
    return Answer(only, choices.problem.objective(only), "optimal")
