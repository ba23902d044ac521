"""Instances of key-group allocation."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.KeyGroupAllocation.name


def random_problem(rng: np.random.Generator, p: int, n: int) -> ks.KeyGroupAllocation:
    """One random instance with every option on or off: ties, zeros, odd capacities, draining nodes, tight limits."""
    load = (
        rng.integers(0, 5, p).astype(float),
        rng.random(p),
        rng.random(p) * 1e6,
        rng.choice([0.0, 3.0], p),
    )[rng.integers(4)]
    draining = rng.random(n) < 0.3
    draining[rng.integers(n)] = False
    w = ks.Workload(
        load=load,
        state=rng.integers(0, 4, p),
        current=rng.integers(0, n, p),
        nodes=rng.choice([1.0, 2.0, 1.1, 0.7], n) if rng.random() < 0.3 else n,
        draining=draining,
        resources={"memory": rng.integers(0, 4, p)},
    )
    return ks.KeyGroupAllocation(
        w,
        max_migrations=rng.choice([None, 0, 1, 2, 3]),
        max_migration_cost=rng.choice([None, None, 0, 3.5]),
        alpha=float(rng.choice([1.0, 0.5])),
        mean=str(rng.choice(["exact", "ceiling"])),
        into_draining=bool(rng.random() < 0.3),
        distance_floor=bool(rng.random() < 0.2),
        resource_capacity={"memory": int(rng.integers(2, 9))} if rng.random() < 0.4 else None,
    )


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""

    def make(load, current, nodes, **options):
        draining = options.pop("draining", None)
        state = options.pop("state", np.ones(len(current)))
        return ks.KeyGroupAllocation(
            ks.Workload(load=load, state=state, current=current, nodes=nodes, draining=draining), **options
        )

    rng = np.random.default_rng(7)
    return {
        "ties": make([2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 1, 2], 3, max_migrations=2),
        "zeros": make([0, 0, 0, 0], [0, 0, 1, 1], 2, state=np.zeros(4)),
        "one node": make([3, 1, 2], [0, 0, 0], 1),
        "one key group": make([5], [1], 3, max_migrations=1),
        "draining all but one": make([4, 2, 1, 3], [0, 1, 2, 2], 3, draining=[True, False, True]),
        "nothing may move": make([5, 4, 1], [0, 0, 1], 2, max_migrations=0),
        "unequal nodes": make([5, 4, 3, 2, 1, 1], [0, 0, 0, 1, 1, 1], [1.0, 3.0], max_migrations=3),
        "infeasible": make([5, 4, 3], [0, 1, 1], 2, resource_capacity={"load": 5}),
        "billionths": make([3e-9, 1e-9, 2e-9, 2e-9, 1e-9], [0, 0, 0, 1, 1], 2, state=[1e-9, 2e-9, 1e-9, 3e-9, 1e-9],
                           max_migration_cost=3e-9),
        "trillions": make([3e12, 1e12, 2e12, 2e12, 1e12], [0, 0, 0, 1, 1], 2, state=[1e12, 2e12, 1e12, 3e12, 7e11],
                          max_migration_cost=3e12),
        "mixed scales": make([1e-9, 3e12, 2.0, 2e-9, 1e12], [0, 0, 0, 1, 1], 2, state=[1e12, 3e-9, 5.0, 1e-9, 2e-9],
                             max_migration_cost=4e-9),
        "nodes a million apart": make([3, 1, 2, 2, 1], [0, 0, 0, 1, 1], [1e-3, 1e3]),
        "four windows": make([[5, 4, 1, 1, 2], [1, 1, 4, 5, 2], [3, 3, 0, 0, 3], [2, 2, 2, 2, 2]], [0, 0, 0, 1, 1], 2,
                             state=np.ones(5), windows=4, over="mean", max_migrations=2),
        "scenarios, the worst": make([1, 1, 1, 1], [0, 0, 1, 1], 3, draining=[False, False, True],
                                     scenarios=[[4, 1, 1, 0], [0, 1, 1, 4]], max_migrations=2),
        "scenarios, the tail": make([1, 1, 1, 1], [0, 0, 1, 1], [1.0, 2.0], over="cvar", level=0.6, probabilities=[0.2, 0.5, 0.3],
                                    scenarios=[[4, 1, 1, 0], [0, 1, 1, 4], [2, 0, 2, 0]]),
        "windows of billionths and trillions": make([[3e-9, 1e-9, 2e-9, 2e-9], [1e12, 2e12, 3e12, 1e12]], [0, 0, 0, 1], 2,
                                                    state=np.ones(4), windows=2, over="mean"),
        "windows of billionths": make([[3e-9, 1e-9, 2e-9, 2e-9], [1e-9, 2e-9, 0, 1e-9]], [0, 0, 0, 1], 2, state=np.ones(4),
                                      windows=2, max_migrations=1),
        "fourteen": make(rng.integers(1, 30, 14), rng.integers(0, 4, 14), 4, max_migrations=6),
    }  # fmt: skip
