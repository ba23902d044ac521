"""Instances of least movement within load limits."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.MovementWithinLimits.name


def random_problem(rng: np.random.Generator, p: int, n: int) -> ks.MovementWithinLimits:
    """One random instance: ties, zeros, decimals, wide and narrow limits, nodes to add or to drop."""
    m = int(rng.integers(1, 3))
    load = (rng.integers(0, 5, (m, p)).astype(float), rng.random((m, p)), rng.choice([0.0, 3.0], (m, p)))[
        rng.integers(3)
    ]
    draining = rng.random(n) < 0.2
    draining[rng.integers(n)] = False
    w = ks.Workload(load=load, state=rng.integers(0, 4, p), current=rng.integers(0, n, p), nodes=n, draining=draining)
    after = int(rng.integers(1, n + 2))
    mean = float(w.last_load.sum()) / after
    width = float(rng.choice([0.1, 0.5, 1.0])) * mean + float(rng.choice([0.0, 0.5 * float(w.last_load.max())])) + 0.1
    return ks.MovementWithinLimits(
        w,
        lower=max(0.0, mean - width),
        upper=mean + width,
        nodes_after=after if rng.random() < 0.7 and after <= n else 0,
        windows=str(rng.choice(["last", "all"])),
    )


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""

    def make(load, current, nodes, lower, upper, state=None, draining=None, **options):
        state = np.ones(len(load)) if state is None else state
        w = ks.Workload(load=load, state=state, current=current, nodes=nodes, draining=draining)
        return ks.MovementWithinLimits(w, lower, upper, **options)

    return {
        "ties": make([2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 1, 2], 3, 3, 5),
        "zeros": make([0, 0, 0, 0], [0, 0, 1, 1], 2, 0, 1, state=np.zeros(4), nodes_after=2),
        "one node": make([3, 1, 2], [0, 0, 0], 1, 5, 7),
        "one key group": make([5], [1], 3, 4, 6),
        "draining all but one": make([4, 2, 1, 3], [0, 1, 2, 2], 3, 9, 11, draining=[True, False, True]),
        "nodes added": make([4, 3, 3, 2, 2, 2], [0, 0, 0, 1, 1, 1], 2, 3, 5),
        "nodes removed": make([1, 1, 2, 2, 1, 3], [0, 0, 1, 1, 2, 3], 4, 4, 6),
        "billionths": make(
            [3e-9, 1e-9, 2e-9, 2e-9, 1e-9], [0, 0, 0, 1, 1], 2, 3.5e-9, 5.5e-9, state=[1e-9, 2e-9, 1e-9, 3e-9, 1e-9]
        ),
        "trillions": make(
            [3e12, 1e12, 2e12, 2e12, 1e12], [0, 0, 0, 1, 1], 2, 3.5e12, 5.5e12, state=[1e12, 2e12, 1e12, 3e12, 7e11]
        ),
        "mixed scales": make(
            [1e-9, 3e12, 2.0, 2e-9, 1e12],
            [0, 0, 0, 0, 0],
            2,
            1e-9,
            3e12,
            state=[1e12, 3e-9, 5.0, 1e-9, 2e-9],
            nodes_after=2,
        ),
        "infeasible": make([5, 5, 5], [0, 1, 1], 2, 7, 8, nodes_after=2),
    }
