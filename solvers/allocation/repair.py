"""What the smallest change is that makes an infeasible allocation feasible."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from keyshift.models import Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.cpsat_model import AllocationCpSat
from keyshift.models.integers import scaled
from keyshift.solvers import cpsat

STRETCH = 10**6
"""Capacities are stretched in steps of one part in so many."""


@dataclass(frozen=True)
class Repair:
    """One limit, raised just enough to make the instance feasible with all others as they are.

    Attributes
    ----------
    limit : str
        "max_migrations", "max_migration_cost", or the name of a resource.
    value : float or None
        The least value that will do: of the limit, or the factor on every node's capacity; None when none will.
    proven : bool
        Whether nothing smaller will do; False when the time ran out.
    """

    limit: str
    value: float | None
    proven: bool

    def __str__(self) -> str:
        if self.value is None:
            return f"no value of {self.limit} alone makes it feasible" if self.proven else f"{self.limit}: not decided"
        shown = f"{self.value:g}" if self.limit.startswith("max_") else f"{self.value:g} times the capacity"
        return f"{self.limit} = {shown} would make it feasible"


def repairs(problem: KeyGroupAllocation, budget: Budget | None = None, seed: int = 0) -> list[Repair]:
    """For each limit of an infeasible instance: the smallest value that makes it feasible, the others kept.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget, optional
        Shared by all limits.
    seed : int, default 0

    Returns
    -------
    list of Repair
        In the order migrations, cost, resources; only limits that the problem has.
    """
    budget = budget or Budget()
    found = []
    if problem.max_migrations is not None:
        statement = AllocationCpSat(replace(problem, max_migrations=None))
        leaves = [statement.leaves(k) for k in range(problem.workload.key_groups)]
        found.append(_least("max_migrations", statement, sum(leaves), Fraction(1), budget, seed))
    if problem.max_migration_cost is not None:
        statement = AllocationCpSat(replace(problem, max_migration_cost=None))
        cost = scaled(problem.migration_cost)
        paid = sum(int(c) * statement.leaves(k) for k, c in enumerate(cost.values))
        found.append(_least("max_migration_cost", statement, paid, cost.scale, budget, seed))
    return found + [_stretched(problem, name, budget, seed) for name in problem.resource_capacity or {}]


def _least(limit: str, statement: AllocationCpSat, amount: object, unit: Fraction, budget: Budget, seed: int) -> Repair:
    """Minimise an amount over a statement's feasible assignments."""
    statement.model.minimize(amount)
    outcome = cpsat.minimise(statement.model, budget, seed=seed)
    if not outcome.found:
        return Repair(limit, None, outcome.termination == "infeasible")
    value = float(Fraction(round(outcome.solver.objective_value)) / unit)
    return Repair(limit, value, outcome.termination == "optimal")


def _stretched(problem: KeyGroupAllocation, name: str, budget: Budget, seed: int) -> Repair:
    """The least common factor on one resource's capacities."""
    others = {other: limit for other, limit in (problem.resource_capacity or {}).items() if other != name}
    statement = AllocationCpSat(replace(problem, resource_capacity=others))
    use, limits = scaled(problem.usage(name), bits=30), np.asarray((problem.resource_capacity or {})[name])
    total = float(problem.usage(name).sum())
    positive = limits[limits > 0]
    most = math.ceil(STRETCH * max(1.0, total / float(positive.min()) if positive.size else 1.0)) + 1
    factor = statement.model.new_int_var(STRETCH, most, "factor")
    for i, limit in enumerate(limits):
        load = sum(int(r) * statement.x[k, i] for k, r in enumerate(use.values) if r > 0 and (k, i) in statement.x)
        statement.model.add(STRETCH * load <= math.floor(Fraction(float(limit)) * use.scale) * factor)
    return _least(name, statement, factor, Fraction(STRETCH), budget, seed)
