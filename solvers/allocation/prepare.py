"""Compile what "milp" needs, once, on an instance too small to take time of its own."""

from __future__ import annotations

import math

import numpy as np

from keyshift.models import Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.generate import synthetic_workload
from keyshift.solvers.allocation.counts import CountBound
from keyshift.solvers.allocation.instance import Instance
from keyshift.solvers.allocation.milp import solve_milp
from keyshift.solvers.allocation.planning import Planner
from keyshift.solvers.allocation.price_tree import price_bound
from keyshift.solvers.allocation.search import Search


def compile_kernels() -> None:
    """Run every phase once: counting, planning, realising, annealing, pricing, and the whole method for a moment."""
    problem = KeyGroupAllocation(synthetic_workload(4, 100, varies=0.6), max_migrations=6)
    instance = Instance(problem)
    counts = CountBound(instance)
    counts.bound()
    planner = Planner(instance, counts, seed=0)
    target = 0.5 * instance.distance(instance.home)
    pairs = planner.pairs(target, np.random.default_rng(0))
    if pairs is not None:
        planner.realise(pairs, target, 10, 1)
    price_bound(problem, budget=Budget())
    search = Search(instance, seed=0)
    search.begin(instance.home, 0)
    search.run(10, 1.0, 0.1, math.inf)
    solve_milp(problem, budget=Budget(0.1))
