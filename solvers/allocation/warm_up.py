"""Compile what the methods of key-group allocation need, on an instance too small to take time of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.families.allocation import synthetic_workload
from keyshift.solvers.allocation.annealing.search import Search
from keyshift.solvers.allocation.annealing.trios import Trios
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting.bound import CountBound
from keyshift.solvers.allocation.counting.planner import CountPlanner
from keyshift.solvers.allocation.pricing.tree import price_bound


def compile_kernels(method: Callable[..., Answer]) -> None:
    """Run every phase of "milp" once: counting, planning, realising, annealing, pricing; and the method for a moment."""
    problem = _small()
    instance = Instance(problem)
    counts = CountBound(instance)
    counts.bound()
    CountBound(Instance(_small(max_migrations=None))).bound()
    planner = CountPlanner(instance, counts, seed=0)
    target = 0.5 * instance.distance(instance.current)
    pairs = planner.pairs(target, np.random.default_rng(0))
    if pairs is not None:
        planner.realise(pairs, target, 10, 1)
    price_bound(_small(nodes=3, key_groups=12, max_migrations=3), budget=Budget())
    two = replace(problem, scenarios=np.tile(problem.workload.last_load, (2, 1)))
    for some in (instance, Instance(two)):
        search = Search(some, seed=0)
        search.begin(some.current, 0)
        search.run(10, 1.0, 0.1, math.inf)
    Trios(instance, 0, instance.current).exchange(np.arange(3))
    method(problem, budget=Budget(0.1))


def _small(nodes: int = 4, key_groups: int = 100, max_migrations: int | None = 6) -> KeyGroupAllocation:
    """With as many moves as are counted exactly, or with more."""
    return KeyGroupAllocation(synthetic_workload(nodes, key_groups, varies=0.6), max_migrations=max_migrations)
