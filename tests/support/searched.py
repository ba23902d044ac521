"""Tiny instances that go through the searches themselves, in strict mode, and what brute force says of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import keyshift as ks
from keyshift.models import Answer, Budget
from keyshift.solvers import checked
from keyshift.solvers.allocation.portfolio import Portfolio
from keyshift.solvers.allocation.pricing.tree import price_bound
from keyshift.solvers.collocation.portfolio import solve_milp as collocation
from keyshift.solvers.mclb.local_search import local_search as placement
from keyshift.solvers.routing.statement import solve_milp as routing
from keyshift.solvers.tuning import AllocationSettings


class Tiny(NamedTuple):
    """An instance, and the searches that are to find its optimum or a bound."""

    problem: ks.Problem
    allowed: np.ndarray | None
    """Pairs of key group and node that the move space leaves open, where it is narrower than the problem."""
    searches: dict[str, Callable[[], Answer]]


def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every broken promise raise."""
    monkeypatch.setattr(checked, "STRICT", True)


def workload(rng: np.random.Generator, windows: int = 1, **more: Any) -> ks.Workload:
    """Up to six key groups on two or three nodes, small whole numbers."""
    p, n = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    drains = np.arange(n) == (rng.integers(n) if rng.random() < 0.3 else -1)
    return ks.Workload(
        load=rng.integers(0, 9, (windows, p)).astype(float), state=rng.integers(0, 6, p).astype(float),
        current=rng.integers(0, n, p), draining=drains, resources={"memory": rng.integers(1, 5, p).astype(float)},
        nodes=n if rng.random() < 0.7 or "equal" in more else rng.choice([1.0, 2.0, 4.0], n),
        **{name: value(p, n) for name, value in more.items() if name != "equal"},
    )  # fmt: skip


def limits(rng: np.random.Generator, w: ks.Workload) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if rng.random() < 0.6:
        made["max_migrations"] = int(rng.integers(1, w.key_groups + 1))
    if rng.random() < 0.4:
        made["max_migration_cost"] = float(rng.integers(1, 12))
    if rng.random() < 0.3:
        made["into_draining"] = True
    if rng.random() < 0.4:
        used = np.bincount(rng.integers(0, w.nodes, w.key_groups), w.resources["memory"], w.nodes)
        made["resource_capacity"] = {"memory": np.maximum(used, rng.integers(0, 7, w.nodes))}
    return made


def allocation(rng: np.random.Generator) -> Tiny:
    """Key-group allocation; in every second instance some nodes are closed to some key groups."""
    several = rng.random() < 0.25
    w = workload(rng, windows=2 if several else 1)
    rule = str(rng.choice(["max", "mean", "cvar"]))
    made = limits(rng, w) | ({"windows": 2, "over": rule, "level": 0.4} if several else {})
    problem, allowed = ks.KeyGroupAllocation(w, **made), None
    if rng.random() < 0.5:
        space = problem.space
        for _ in range(2):
            some = np.flatnonzero(rng.random(w.key_groups) < 0.4)
            space = space.closed(some) if rng.random() < 0.5 else space.closed(some, rng.integers(0, w.nodes, 1))
        vars(problem)["space"], allowed = space, space.allowed  # what a rule of the problem's own would do
    settings, seed = AllocationSettings(small=0, steps=4_000), int(rng.integers(1000))
    searches = {
        "milp": lambda: Portfolio(problem, Budget(), seed=seed, settings=settings, rounds=30 if several else 14).run()
    }
    if not (several and allowed is not None):
        searches["prices"] = lambda: price_bound(problem, budget=Budget())
    return Tiny(problem, allowed, searches)


def collocated(rng: np.random.Generator) -> Tiny:
    w = workload(rng, traffic=lambda p, n: np.triu(rng.integers(0, 5, (p, p)), 1))
    made = limits(rng, w) | {"max_load_distance": float(rng.choice([30.0, 70.0, 150.0]))}
    problem, seed = ks.CollocatedAllocation(w, **made), int(rng.integers(1000))
    short = partial(collocation, problem, seed=seed, search_steps=40_000, bound_steps=40, finish=False)
    return Tiny(problem, None, {"milp": lambda: short(budget=Budget())})


def mclb(rng: np.random.Generator) -> Tiny:
    w = workload(rng, windows=int(rng.integers(1, 4)), equal=True)
    most = float(rng.integers(0, 15)) if rng.random() < 0.7 else None
    problem, seed = ks.MCLB(w, max_state_moved=most), int(rng.integers(1000))
    return Tiny(problem, None, {"local-search": lambda: placement(problem, budget=Budget(), seed=seed)})


def mixed(rng: np.random.Generator) -> Tiny:
    w = workload(rng, home=lambda p, n: rng.integers(0, n, p))
    made: dict[str, Any] = {"theta_max": float(rng.choice([0.1, 0.3, 0.6, 1.0]))}
    if rng.random() < 0.6:
        made["max_table_size"] = int(rng.integers(0, w.key_groups + 1))
    problem, seed = ks.MixedRouting(w, **made), int(rng.integers(1000))
    return Tiny(problem, None, {
        "milp": lambda: routing(problem, budget=Budget(), seed=seed),
        "closed": lambda: routing(problem, budget=Budget(), seed=seed, largest=0),
    })  # fmt: skip


KINDS: dict[str, Callable[[np.random.Generator], Tiny]] = {
    "allocation": allocation, "collocation": collocated, "mclb": mclb, "routing": mixed,
}  # fmt: skip
HEURISTIC = ("closed", "prices")
"""Searches that need not end at an optimum."""


def wrong(kind: str, seed: int) -> list[str]:
    """What the searches get wrong about one instance; broken promises raise."""
    tiny = KINDS[kind](np.random.default_rng([len(kind), seed]))
    problem, w = tiny.problem, tiny.problem.workload
    nodes = range(w.nodes)
    options = [nodes] * w.key_groups if tiny.allowed is None else [np.flatnonzero(row) for row in tiny.allowed]
    forbidden = bool(problem.conflicts())  # then nobody searches
    feasible = [a for a in map(np.array, itertools.product(*options)) if not problem.violations(a)]
    values = [problem.objective(a) for a in feasible]
    found = [f"{kind} {seed}: {problem.conflicts()}, but {feasible[0]} is feasible"] if forbidden and values else []
    for name, search in () if forbidden else tiny.searches.items():
        answer = search()
        value = None if answer.assignment is None else problem.objective(answer.assignment)
        if not values:
            found += [f"{kind} {seed} {name}: {value}, nothing is feasible"] if value is not None else []
            continue
        least = min(values)
        slack = problem.tolerance_of(least)
        if answer.termination == "infeasible":
            found.append(f"{kind} {seed} {name}: infeasible, the optimum is {least}")
        elif (value is None or value > least + slack) and name not in HEURISTIC:
            found.append(f"{kind} {seed} {name}: {value}, the optimum is {least}")
        elif value is not None and not any((answer.assignment == a).all() for a in feasible):
            found.append(f"{kind} {seed} {name}: {answer.assignment} is not feasible")
        if answer.bound is not None and answer.bound > least + slack:
            found.append(f"{kind} {seed} {name}: bound {answer.bound}, the optimum is {least}")
    return found
