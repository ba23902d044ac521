"""Baselines for ALBIC: balancers that ignore collocation, applied to the collocated problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyshift.heuristics.allocation import flux as flux_module
from keyshift.heuristics.collocation.allocation_program import allocate
from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.base.guards import Whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import IntArray

PRIME = 2**31 - 1
"""The prime modulus of the 2-universal hash of `two_choices`."""


def balancing_problem(problem: CollocatedAllocation) -> KeyGroupAllocation:
    """The same limits and today's measured loads, ignoring traffic."""
    return replace(problem.allocation, workload=problem.load_model.measured(problem.workload))


def flux(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0, rounds: Whole | None = None) -> Answer:
    """Flux on the measured loads (`keyshift.heuristics.allocation.flux`): another objective, so no guarantee.

    Parameters
    ----------
    rounds : int, optional
        At most this many rounds.
    """
    return flux_module.flux(balancing_problem(problem.averaged()), budget=budget, seed=seed, rounds=rounds)


def allocation_milp(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0, plan_rounds: Whole = 15) -> Answer:
    """The allocation program of [Madsen2016], section 4.3.1, on the measured loads: another objective, so no guarantee.

    Parameters
    ----------
    plan_rounds : int, default 15
        As for ALBIC.
    """
    posed = balancing_problem(problem.averaged())
    plan = allocate(posed, budget, seed, plan_rounds, 1e-3 * posed.scale)
    return Answer(plan, termination=budget.why if budget.expired else "completed")


def potc(problem: CollocatedAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The power of two choices, once: key groups in order, each to the less loaded of its two hashed nodes.

    The scheme of Nasir et al. splits every key over its two nodes; an assignment cannot, so this is its static form. It
    knows no migration limit. O(p).

    Notes
    -----
    Source: [Nasir2015], as in [Madsen2016], section 2.2. Departure: a draining node is no choice.
    """
    problem = problem.averaged()
    w = problem.workload
    load = problem.load_model.measured(w).last_load
    kept = np.flatnonzero(w.kept)
    first, second = two_choices(w.key_groups, kept.size, seed)
    full = np.zeros(kept.size)
    capacity = w.capacity[kept]
    plan = np.empty(w.key_groups, dtype=np.int64)
    for k in range(w.key_groups):
        a, b = first[k], second[k]
        i = int(a if full[a] / capacity[a] <= full[b] / capacity[b] else b)
        full[i] += load[k]
        plan[k] = kept[i]
    return Answer(plan, termination=budget.why if budget.expired else "completed")


def two_choices(key_groups: int, nodes: int, seed: int) -> tuple[IntArray, IntArray]:
    """Two nodes for every key group, different where there are two, by 2-universal hashing."""
    rng = np.random.default_rng(seed)
    (a, c), (b, d) = rng.integers(1, PRIME, 2), rng.integers(0, PRIME, 2)
    numbers = np.arange(1, key_groups + 1)
    first = (a * numbers + b) % PRIME % nodes
    second = (c * numbers + d) % PRIME % max(nodes - 1, 1)
    return first, np.where(second >= first, second + 1, second) if nodes > 1 else first
