"""Instances of minimum-cost load balancing."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.MCLB.name


def random_problem(rng: np.random.Generator, p: int, n: int, m: int | None = None) -> ks.MCLB:
    """One random instance: ties, zero rows and columns, decimals, large numbers, free or priced state, budgets."""
    m = int(rng.integers(1, 5)) if m is None else m
    load = (
        rng.integers(0, 5, (m, p)).astype(float),
        rng.random((m, p)),
        np.round(rng.random((m, p)) * 1e6, 1),
        rng.choice([0.0, 3.0], (m, p)),
    )[rng.integers(4)]
    if rng.random() < 0.2:
        load[rng.integers(m)] = 0.0
    draining = rng.random(n) < 0.25
    draining[rng.integers(n)] = False
    state = rng.integers(0, 4, p).astype(float)
    w = ks.Workload(load=load, state=state, current=rng.integers(0, n, p), nodes=n, draining=draining)
    forced = float(state[draining[w.current]].sum())
    limit = (None, 0.0, forced, forced + 2.0, 0.5 * float(state.sum()), 1e9)[rng.integers(6)]
    return ks.MCLB(w, max_state_moved=limit)


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""

    def make(load, current, nodes, **options):
        draining = options.pop("draining", None)
        state = options.pop("state", np.ones(np.shape(load)[-1]))
        return ks.MCLB(ks.Workload(load=load, state=state, current=current, nodes=nodes, draining=draining), **options)

    rng = np.random.default_rng(11)
    return {
        "ties": make([[2, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 1]], [0, 0, 0, 0, 1, 2], 3, max_state_moved=2),
        "zeros": make([[0, 0, 0, 0]], [0, 0, 1, 1], 2, state=np.zeros(4)),
        "one node": make([[3, 1, 2], [1, 1, 1]], [0, 0, 0], 1),
        "one key group": make([[5], [2]], [1], 3, max_state_moved=1),
        "draining all but one": make([[4, 2, 1, 3]], [0, 1, 2, 2], 3, draining=[True, False, True]),
        "nothing may move": make([[5, 4, 1]], [0, 0, 1], 2, max_state_moved=0),
        "infeasible": make([[5, 4, 3]], [0, 1, 1], 2, max_state_moved=1, draining=[False, True]),
        "opposite series": make([[3, 0, 3, 0, 1], [0, 3, 0, 3, 1]], [0, 1, 0, 1, 0], 2),
        "decimals and an empty window": make(
            np.vstack([rng.random((2, 7)), np.zeros(7)]), rng.integers(0, 3, 7), 3, max_state_moved=3
        ),
        "billionths": make(
            [[3e-9, 1e-9, 2e-9, 2e-9, 1e-9]],
            [0, 0, 0, 1, 1],
            2,
            state=[1e-9, 2e-9, 1e-9, 3e-9, 1e-9],
            max_state_moved=3e-9,
        ),
        "trillions": make(
            [[3e12, 1e12, 2e12, 2e12, 1e12]],
            [0, 0, 0, 1, 1],
            2,
            state=[1e12, 2e12, 1e12, 3e12, 7e11],
            max_state_moved=3e12,
        ),
        "mixed scales": make(
            [[1e-9, 3e12, 2.0, 2e-9, 1e12]],
            [0, 0, 0, 1, 1],
            2,
            state=[1e12, 3e-9, 5.0, 1e-9, 2e-9],
            max_state_moved=4e-9,
        ),
        "ten": make(rng.integers(1, 30, (3, 10)), rng.integers(0, 3, 10), 3, max_state_moved=6),
    }
