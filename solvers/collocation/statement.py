"""Collocated allocation by the declarative models: HiGHS on the Pyomo statement, CP-SAT on its own, the LP bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Threads
from keyshift.models.base.lazily import lazily
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray, FloatArray
from keyshift.solvers.checked import answered, confirmed

with lazily():
    from keyshift.models.collocation.cpsat_model import CollocationCpSat
    from keyshift.models.collocation.pyomo_model import CollocationPyomo

TOLERANCES = {"mip_feasibility_tolerance": 1e-6, "primal_feasibility_tolerance": 1e-7}
"""HiGHS's own tolerances; the check refuses whatever they let through."""
NO_ASSIGNMENT = "no assignment meets the load distance within the other limits"


def solve_cpsat(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The linearised model in whole numbers by CP-SAT, from a warm start.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    """
    asked: dict[str, Any] = {"seed": seed, "threads": threads, "infeasible": NO_ASSIGNMENT}
    return answered(problem, "cpsat", CollocationCpSat, budget=budget, start=start, **asked)


def run_highs(
    problem: CollocatedAllocation,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: int = 1,
    open_to: BoolArray | None = None,
    explicit: BoolArray | None = None,
    beyond: FloatArray | None = None,
) -> Answer:
    """HiGHS on the Pyomo statement, whole or with some key groups held to some nodes and some pairs bounded only."""
    if start is not None and open_to is not None and not open_to[np.arange(start.size), start].all():
        start = None  # what is left open no longer holds the start
    return answered(
        problem, "highs", CollocationPyomo, open_to, explicit, beyond, budget=budget, start=start, seed=seed, threads=threads,
        report=budget.report, options=TOLERANCES, infeasible=NO_ASSIGNMENT,
    )  # fmt: skip


def solve_plain_milp(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The whole linearised model by HiGHS, from a warm start, with nothing of our own besides: the textbook's way.

    Parameters
    ----------
    threads : int, default 1
        More than one may return another optimum from run to run.
    """
    return second_opinion(problem, budget, seed, threads, run_highs(problem, budget, seed, start, threads))


def second_opinion(problem: CollocatedAllocation, budget: Budget, seed: int, threads: Threads, said: Answer) -> Answer:
    """A second opinion in whole numbers, where HiGHS's tolerances make its word doubtful."""
    return confirmed(problem, said, solve_cpsat, budget=budget, seed=seed, threads=threads)


def lp_bound(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation's value, made safe: a bound, no assignment."""
    with off_clock():
        from keyshift.solvers.highs import relaxed

    return relaxed(problem, CollocationPyomo, solve_cpsat, budget=budget, seed=seed, options=TOLERANCES)
