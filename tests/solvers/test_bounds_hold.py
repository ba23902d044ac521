"""Bounds of short runs against the answers of long ones, of instances too large to enumerate: dozens of key groups.

A tree that was cut off once told too high a bound there, and ended in a wrong optimum; whatever enumerates ends far below.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from draws import draws

import keyshift as ks

RUNS = ((0.05, 0), (0.2, 1), (0.2, 0), (0.8, 0), (2.5, 2))
"""Efforts and seeds."""


def workload(rng, key_groups, nodes, windows=1, traffic=False):
    """Loads and states of several kinds, now and then with a node that drains."""
    shape = (windows, key_groups)
    loads = (
        rng.pareto(1.1, shape) + 0.05,
        rng.random(shape),
        rng.integers(1, 12, shape).astype(float),
        rng.gamma(1, 1, shape),
    )
    states = rng.pareto(1.1, key_groups) + 0.05, np.ones(key_groups), rng.integers(1, 9, key_groups).astype(float)
    drains = np.arange(nodes) == (rng.integers(nodes) if rng.random() < 0.25 else -1)
    talk = None
    if traffic:
        talk = np.where(
            rng.random((key_groups, key_groups)) < 3 / key_groups, rng.integers(1, 9, (key_groups, key_groups)), 0
        )
        np.fill_diagonal(talk, 0)
    return ks.Workload(
        load=loads[rng.integers(4)], state=states[rng.integers(3)], current=rng.integers(0, nodes, key_groups), nodes=nodes,
        draining=drains, traffic=talk,
    )  # fmt: skip


def mclb(rng):
    w = workload(rng, int(rng.integers(18, 42)), int(rng.integers(3, 9)), int(rng.integers(1, 4)))
    leaves = float(w.state[w.draining[w.current]].sum())
    most = leaves + float(rng.choice([0.05, 0.1, 0.3]) * w.state.sum())
    return ks.MCLB(w, max_state_moved=most if rng.random() < 0.7 else None)


def allocation(rng):
    p, windows = int(rng.integers(18, 60)), int(rng.integers(1, 4))
    w = workload(rng, p, int(rng.integers(3, 9)), windows)
    return ks.KeyGroupAllocation(
        w, windows=windows, over=("max", "mean", "cvar")[rng.integers(3)],
        max_migrations=int(rng.integers(3, p)) if rng.random() < 0.7 else None,
        max_migration_cost=0.2 * float(w.state.sum()) if rng.random() < 0.4 else None,
    )  # fmt: skip


def collocation(rng):
    w = workload(rng, int(rng.integers(15, 40)), int(rng.integers(3, 6)), traffic=True)
    moves = int(rng.integers(3, 40)) if rng.random() < 0.7 else None
    return ks.CollocatedAllocation(w, max_load_distance=float(rng.choice([10, 25, 60])), max_migrations=moves)


def movement(rng):
    w = workload(rng, int(rng.integers(18, 60)), int(rng.integers(3, 9)))
    kept = int(w.kept.sum())
    mean = float(w.last_load.sum()) / kept
    high = max(1.3 * mean, 1.01 * float(w.last_load.max()))
    return ks.MovementWithinLimits(w, lower=0.6 * mean, upper=high, nodes_after=kept)


def replicas(rng):
    w = workload(rng, int(rng.integers(12, 40)), 6)
    return ks.ReplicatedAllocation(w, copies=w.key_groups + int(rng.integers(2, 12)))


def of_family(name, **sizes):
    def drawn(rng):
        chosen = {key: int(rng.integers(*ends)) for key, ends in sizes.items()}
        return next(
            itertools.islice(ks.family(name, seed=int(rng.integers(10**6)), **chosen), int(rng.integers(4)), None)
        )[1]

    return drawn


DRAWN = {
    "mclb": mclb, "allocation": allocation, "collocation": collocation, "movement": movement, "replicas": replicas,
    "routing": of_family("hard-routing", nodes=(4, 8), keys=(40, 200)), "step": of_family("hard-step", tasks=(24, 80)),
    "sequence": of_family("hard-sequence", tasks=(20, 50)), "policy": of_family("hard-policy", tasks=(10, 18)),
    "splitting": of_family("hard-splitting", messages=(400, 2000), keys=(20, 60)),
    "placement": of_family("hard-placement", messages=(400, 1000), keys=(20, 60)),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
@draws(2, 60)
def test_no_short_run_bounds_what_a_long_one_beats(name, count):
    bounded = 0
    for number in range(count):
        problem = DRAWN[name](np.random.default_rng([number, *map(ord, name)]))
        found = []
        for effort, seed in RUNS[:3] if count < 10 else RUNS:
            found.append(ks.solve(problem, effort=effort, seed=seed, gap=0.0))
            if found[-1].status in ("optimal", "infeasible") and effort >= 0.8:
                break
        best = min((s.objective for s in found if s.objective is not None), default=np.inf)
        for s in found:
            assert s.status != "infeasible" or best == np.inf, (number, s)
            if s.bound is not None and best < np.inf:
                bounded += s.bound > 0
                assert s.bound <= best + problem.tolerance_of(best), (number, s, best)
    assert bounded > 0
