"""Instances of replicas of hot key groups."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.ReplicatedAllocation.name


def random_problem(rng: np.random.Generator, p: int, n: int) -> ks.ReplicatedAllocation:
    """One random instance: ties, zeros, a hot key group, draining nodes, limits that hurt."""
    p = min(p, 4)  # each may be on any set of nodes
    load = (rng.integers(0, 5, p).astype(float), rng.random(p), rng.zipf(1.5, p).clip(1, 50).astype(float))[
        rng.integers(3)
    ]
    draining = rng.random(n) < 0.2
    draining[rng.integers(n)] = False
    speeds = n if rng.random() < 0.7 else rng.choice([1.0, 2.0, 3.0], n)
    w = ks.Workload(
        load=load, state=rng.integers(0, 4, p), current=rng.integers(0, n, p), nodes=speeds, draining=draining
    )
    return ks.ReplicatedAllocation(
        w,
        copies=p + int(rng.integers(0, 4)),
        at_most=None if rng.random() < 0.5 else int(rng.integers(1, p + 1)),
        max_migrations=None if rng.random() < 0.5 else int(rng.integers(0, p + 2)),
    )


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""

    def make(load, current, nodes, copies, draining=None, state=None, **options):
        w = ks.Workload(
            load=load,
            state=np.ones(len(load)) if state is None else state,
            current=current,
            nodes=nodes,
            draining=draining,
        )
        return ks.ReplicatedAllocation(w, copies, **options)

    return {
        "ties": make([2, 2, 2, 2], [0, 0, 1, 1], 2, 6, at_most=3),
        "zeros": make([0, 0, 0], [0, 1, 1], 2, 5),
        "one node": make([3, 1, 2], [0, 0, 0], 1, 5),
        "one key group": make([5], [1], 3, 3),
        "draining all but one": make([4, 2, 1], [0, 1, 2], 3, 5, draining=[True, False, True]),
        "one hot key group": make([90, 1, 1, 1], [0, 1, 2, 0], 3, 6, at_most=2),
        "few migrations": make([9, 1, 1, 1], [0, 0, 0, 0], 3, 7, max_migrations=2),
        "billionths": make([3e-9, 1e-9, 2e-9], [0, 0, 1], 2, 4, state=[1e-9, 2e-9, 1e-9]),
        "trillions": make([3e12, 1e12, 2e12], [0, 0, 1], 2, 4, state=[1e12, 2e12, 1e12]),
        "mixed scales": make([1e-9, 3e12, 2.0, 1e12], [0, 0, 0, 0], [1.0, 1e-3, 1e3], 6, state=[1e12, 1e-9, 1, 1]),
    }
