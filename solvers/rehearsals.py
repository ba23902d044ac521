"""Rehearsals: a method runs on problems too small to take time, so that what it compiles is ready when time counts.

Each imports only its own formulation, so that rehearsing one loads no other.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models import Answer, Budget, Problem
from keyshift.models.workload import Workload
from keyshift.solvers.threads import none_abandoned

if TYPE_CHECKING:
    from keyshift.models.allocation import KeyGroupAllocation
    from keyshift.models.splitting import KeySplitting

Method = Callable[..., Answer]
SECONDS = 2.0
"""A rehearsal that takes longer has reached every kernel."""


def rehearse(method: Method, problems: Iterable[Problem], **options: object) -> None:
    """Run a method on some problems and check its answers, which may call for kernels of the problem's own."""
    for problem in problems:
        with none_abandoned():
            answer = method(problem, budget=Budget(SECONDS), **options)
        if answer.assignment is not None:
            (answer.problem or problem).check(answer.assignment)


# Allocation -------------------------------------------------------------------------------------------------------


def allocation(method: Method) -> None:
    """Every phase of "milp" once: counting, planning, annealing, exchanging, pricing, subsets; and the method for a moment."""
    from keyshift.solvers.allocation.arrays import Instance
    from keyshift.solvers.allocation.counting import CountBound, CountPlanner
    from keyshift.solvers.allocation.exchanges import Exchanges
    from keyshift.solvers.allocation.pricing.tree import price_bound
    from keyshift.solvers.allocation.search import Search
    from keyshift.solvers.allocation.subsets import SubsetProgram

    problem = _balanced()
    instance = Instance(problem)
    counts = CountBound(instance)
    counts.bound()
    CountPlanner(instance, counts, seed=0).pairs(0.1, np.random.default_rng(0))
    CountBound(Instance(_balanced(max_migrations=None))).bound()
    few = _balanced(nodes=3, key_groups=12, max_migrations=3)
    price_bound(few, budget=Budget())
    SubsetProgram(Instance(few)).within(-0.1, 0.1, math.inf, Budget())
    search = Search(instance, seed=0)
    search.begin(instance.current, 0)
    search.run(10, 1.0, 0.1, math.inf)
    Exchanges(instance, 0, instance.current).exchange(np.arange(3))
    method(problem, budget=Budget(0.1))


def allocation_bound(method: Method) -> None:
    """A bound by itself, with as many moves as are counted exactly, and with any number."""
    rehearse(method, [_balanced(), _balanced(max_migrations=None)])


def _balanced(nodes: int = 4, key_groups: int = 100, max_migrations: int | None = 6) -> KeyGroupAllocation:
    from keyshift.models.allocation import KeyGroupAllocation

    load, current = np.random.default_rng(0).uniform(0.7, 1.3, key_groups), np.arange(key_groups) % nodes
    return KeyGroupAllocation(
        Workload(load=load, state=100 * load, current=current, nodes=nodes), max_migrations=max_migrations
    )


# Collocation ----------------------------------------------------------------------------------------------------


def collocation(method: Method) -> None:
    """A few key groups that talk to each other, at no cost and at some."""
    from keyshift.models.collocation import CollocatedAllocation

    rng = np.random.default_rng(0)
    traffic = np.where(rng.random((12, 12)) < 0.4, rng.integers(0, 9, (12, 12)), 0)
    current = np.arange(12) % 3
    w = Workload(load=rng.integers(5, 20, 12), state=np.ones(12), current=current, nodes=3, traffic=traffic)
    given: tuple[dict[str, Any], ...] = ({"max_migrations": 6}, {"max_migrations": 6, "serialisation": 0.01}, {})
    rehearse(method, [CollocatedAllocation(w, max_load_distance=40.0, **one) for one in given])
    windows = w.replace(load=np.outer([1.0, 1.2], w.last_load), traffic=np.stack([traffic, 2 * traffic]))
    rehearse(method, [CollocatedAllocation(windows, max_load_distance=45.0, windows=2)])


def collocation_balanced(method: Method) -> None:
    """The same for what leaves the balance to the allocation program: small instances do not reach its kernels."""
    from keyshift.solvers.allocation.portfolio import solve_milp

    allocation(solve_milp)
    collocation(method)


# Load balancing and movement --------------------------------------------------------------------------------------


def mclb(method: Method, key_groups: int = 14, limits: tuple[float | None, ...] = (None, 4.0), **options: Any) -> None:
    """With and without a limit on the state moved, over two windows and over one."""
    from keyshift.models.mclb import MCLB

    for windows in (3, 1):
        load, current = np.random.default_rng(0).random((windows, key_groups)), np.arange(key_groups) % 3
        w = Workload(load=load, state=np.ones(key_groups), current=current, nodes=3)
        rehearse(method, [MCLB(w, max_state_moved=limit) for limit in limits], **options)


def mclb_search(method: Method) -> None:
    """The same for the search, which sweeps where there are too many key groups to anneal."""
    from keyshift.solvers.tuning import MCLBSettings

    mclb(method)
    mclb(method, MCLBSettings.annealed + 1, (None,), effort=0.1)


def movement(method: Method) -> None:
    """The search for little movement, which every exact method may go on with."""
    from keyshift.models.movement.problem import MovementWithinLimits
    from keyshift.solvers.movement.statement import local_search

    w = Workload(load=np.arange(1.0, 9.0), state=np.ones(8), current=np.zeros(8, dtype=np.int64), nodes=2)
    rehearse(local_search, [MovementWithinLimits(w, lower=0.0, upper=20.0, nodes_after=2)])


# Routing ----------------------------------------------------------------------------------------------------------


def routing(method: Method) -> None:
    """Many keys are off their hash destination, some have to move, and the table is short."""
    from keyshift.models.routing import MixedRouting

    rng = np.random.default_rng(0)
    home = rng.integers(0, 3, 60)
    current = np.where(rng.random(60) < 0.7, home, rng.integers(0, 3, 60))
    w = Workload(load=rng.random(60) ** 4, state=rng.random(60), current=current, home=home, nodes=3)
    few = Workload(
        load=[[5, 4, 3, 2, 1], [1, 2, 3, 4, 5]],
        state=np.arange(1.0, 6.0),
        current=[0, 0, 1, 1, 1],
        home=[0, 0, 1, 1, 0],
        nodes=2,
    )
    problems = [MixedRouting(w, theta_max=0.1, max_table_size=25, sides=sides) for sides in ("upper", "both")]
    problems.append(MixedRouting(few, theta_max=0.25, windows=2))
    rehearse(method, problems)
    if "compact" in inspect.signature(method).parameters:
        rehearse(method, problems, compact=8)


# Splitting --------------------------------------------------------------------------------------------------------


def splitting(method: Method) -> None:
    """Every kind of stream."""
    from keyshift.models.splitting import KeySplitting

    rehearse(method, _streams(KeySplitting))


def placement(method: Method) -> None:
    """Every kind of stream, its keys kept whole."""
    from keyshift.models.splitting import KeyPlacement

    rehearse(method, _streams(KeyPlacement))


def _streams(kind: type[KeySplitting]) -> Iterator[KeySplitting]:
    """Weights, speeds, keys without candidates and more than one source have kernels of their own; so have many keys."""
    stream = np.array([5, 1, 5, 2, 3, 5, 4, 1, 6, 5, 2, 7])
    weights = np.linspace(0.5, 2.0, stream.size)
    kinds: list[dict[str, Any]] = [
        {},
        {"choices": 1},
        {"choices": None},
        {"sources": 2, "feed": "key", "aggregation_period": 4},
    ]
    unequal: list[dict[str, Any]] = [{}, {"weights": weights}, {"workers": [1.0, 2.0, 1.0]}]
    unequal += [{"weights": weights, "workers": [1.0, 2.0, 1.0]}]
    for options in kinds:
        for more in unequal:
            yield kind(stream, **{"workers": 3, **options, **more})
    yield kind(np.arange(1500), workers=3)


# Intervals --------------------------------------------------------------------------------------------------------


def migration(method: Method) -> None:
    """From two nodes to three."""
    from keyshift.models.intervals import IntervalMigration

    rehearse(method, [IntervalMigration(_tasks(), 3, 0.5)])


def sequence(method: Method) -> None:
    """From two nodes to three and back."""
    from keyshift.models.intervals import MigrationSequence

    rehearse(method, [MigrationSequence(_tasks(), [3, 2], 0.5)])


def policy(method: Method) -> None:
    """Between two nodes and three."""
    from keyshift.models.intervals import MigrationPolicy

    chances = {2: {2: 0.5, 3: 0.5}, 3: {2: 0.5, 3: 0.5}}
    rehearse(method, [MigrationPolicy(_tasks(), chances, 0.5, 0.5)])


def _tasks() -> Workload:
    return Workload(load=[3, 1, 2, 2, 1, 3], state=[1, 2, 1, 3, 1, 1], current=[0, 0, 0, 1, 1, 1], nodes=2)
