"""HiGHS and CP-SAT on some (record, node) pairs of mixed routing, all other records decided."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.routing.choices import Choices
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import within

TIGHT = {"mip_feasibility_tolerance": 1e-9, "primal_feasibility_tolerance": 1e-9}
"""The check allows 1e-9 of the mean load: HiGHS's usual 1e-6 would let through what it refuses."""
NO_ASSIGNMENT = "no assignment meets all limits"


def by_highs(
    choices: Choices,
    budget: Budget,
    known: IntArray | None,
    *,
    seed: int,
    threads: int,
    nodes: int | None = None,
    gap: float = 0.0,
    most: float = math.inf,
) -> Answer:
    """HiGHS on these choices, from a known assignment; with `nodes`, until so many nodes or a relative gap.

    States above `most`, what a known assignment moves, count as little more.
    """
    from keyshift.models.routing.pyomo_model import RoutingPyomo
    from keyshift.solvers import highs

    if choices.record.size == 0:
        return _nothing_open(choices)
    statement = within(budget, lambda: RoutingPyomo(choices, choices.state_unit, most))
    if statement is None:
        return Answer(known, None, budget.why)
    limits = TIGHT if nodes is None else {**TIGHT, "mip_max_nodes": nodes, "mip_rel_gap": gap}
    settings: dict[str, Any] = {"seed": seed, "threads": threads, "options": limits}
    return highs.solve(statement, budget, known, bound=statement.bound, infeasible=NO_ASSIGNMENT, **settings)


def by_cpsat(
    choices: Choices,
    budget: Budget,
    known: IntArray | None,
    *,
    seed: int,
    threads: int,
    nodes: int | None = None,
    gap: float = 0.0,
    most: float = math.inf,
) -> Answer:
    """As `by_highs`, with CP-SAT on integer loads and states; ten conflicts count as a node."""
    from keyshift.models.routing.cpsat_model import RoutingCpSat
    from keyshift.solvers import cpsat

    if choices.record.size == 0:
        return _nothing_open(choices)
    statement = within(budget, lambda: RoutingCpSat(choices, most))
    if statement is None:
        return Answer(known, None, budget.why)
    settings: dict[str, Any] = {"seed": seed, "threads": threads}
    if nodes is not None:
        settings |= {"max_number_of_conflicts": 10 * nodes, "relative_gap_limit": gap}
    return cpsat.solve(statement, budget, known, bound=statement.bound, infeasible=NO_ASSIGNMENT, **settings)


def _nothing_open(choices: Choices) -> Answer:
    """Every record is decided: there is one assignment to look at."""
    only = choices.assignment(np.zeros(0, dtype=np.int64))
    if choices.problem.violations(only):
        return Answer(None, termination="infeasible")
    return Answer(only, choices.problem.objective(only), "optimal")
