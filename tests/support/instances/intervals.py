"""Instances of interval migration, in one step."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.IntervalMigration.name


def random_workload(rng: np.random.Generator, m: int, n: int, draining: float = 0.2) -> ks.Workload:
    """Unit, whole, sparse or real loads; states alike, of their own, or zero; empty and draining nodes."""
    load = (np.ones(m), rng.integers(0, 6, m), rng.choice([0, 3], m), rng.random(m) ** 4)[rng.integers(4)]
    state = (load, rng.integers(0, 5, m), np.zeros(m), rng.random(m), rng.choice([0, 0, 9], m))[rng.integers(5)]
    drained = rng.random(n) < (draining if rng.random() < 0.5 else 0.0)
    drained[rng.integers(n)] = False
    current = rng.permutation(n)[np.sort(rng.integers(0, n, m))]
    return ks.Workload(load=load, state=state, current=current, nodes=n, draining=drained)


def random_problem(rng: np.random.Generator, m: int, n: int) -> ks.IntervalMigration:
    tau = str(rng.choice(["0", "0.1", "0.2", "0.4", "1", "1.2"]))
    return ks.IntervalMigration(random_workload(rng, m, n), int(rng.integers(1, n + 3)), tau)


def workloads() -> dict[str, tuple[ks.Workload, int, object]]:
    """Workload, a node count to go to, and tau, by label."""

    def make(load, current, nodes, state=None, draining=None):
        return ks.Workload(
            load=load, state=load if state is None else state, current=current, nodes=nodes, draining=draining
        )

    rng = np.random.default_rng(11)
    return {
        "ties": (make([2] * 8, [0, 0, 0, 0, 0, 1, 1, 1], 2), 3, 0.5),
        "zeros": (make([0] * 5, [0, 0, 1, 1, 1], 2), 3, 0),
        "one node": (make([3, 1, 2], [0, 0, 0], 1), 1, 0),
        "one key group": (make([5], [1], 3), 2, 1),
        "draining all but one": (make([4, 2, 1, 3], [2, 0, 0, 1], 3, draining=[True, False, True]), 2, 0.2),
        "empty nodes": (make([1, 2, 3, 1, 2, 3], [4, 4, 4, 1, 1, 1], 5), 3, 0.3),
        "tight": (make([0.1] * 6, [0, 0, 0, 0, 1, 1], 2), 3, 0.05),
        "infeasible": (make([9, 1, 1], [0, 0, 1], 2), 2, 0.1),
        "billionths": (
            make([3e-9, 1e-9, 2e-9, 2e-9, 1e-9], [0, 0, 0, 1, 1], 2, state=[1e-9, 2e-9, 1e-9, 3e-9, 1e-9]),
            3,
            0.5,
        ),
        "bytes": (make([0.4, 0.5, 0.5, 0.7, 0.1], [2, 2, 2, 2, 1], 3, state=[3e9, 3e9, 8e9, 7e9, 3e9]), 1, 0.5),
        "trillions": (
            make([3e12, 1e12, 2e12, 2e12, 1e12], [0, 0, 0, 1, 1], 2, state=[1e12, 2e12, 1e12, 3e12, 7e11]),
            3,
            0.5,
        ),
        "mixed scales": (
            make([1, 2, 1, 2, 1, 2], [0, 0, 0, 0, 1, 1], 2, state=[1e12, 5.0, 3e-9, 1e-9, 2e-9, 7e9]),
            2,
            0.2,
        ),
        "twelve": (make(rng.integers(1, 30, 12), np.repeat([0, 1, 2], 4), 3, state=rng.integers(0, 9, 12)), 4, 0.3),
    }


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""
    return {label: ks.IntervalMigration(w, n, tau) for label, (w, n, tau) in workloads().items()}
