"""Instances of mixed routing."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.MixedRouting.name


def random_problem(rng: np.random.Generator, p: int, n: int) -> ks.MixedRouting:
    """One random instance: ties, zeros, odd capacities, draining nodes, tight tolerances, every table limit."""
    load = (
        rng.integers(0, 5, p).astype(float),
        rng.random(p),
        rng.random(p) * 1e6,
        rng.choice([0.0, 3.0], p),
        rng.choice([0.1, 0.2, 0.7], p),
    )[rng.integers(5)]
    draining = rng.random(n) < 0.2
    draining[rng.integers(n)] = False
    home = rng.integers(0, n, p)
    w = ks.Workload(
        load=load,
        state=(load, rng.integers(0, 4, p), rng.random(p))[rng.integers(3)],
        current=np.where(rng.random(p) < 0.6, home, rng.integers(0, n, p)),
        home=home,
        nodes=rng.choice([1.0, 2.0, 1.1, 0.7], n) if rng.random() < 0.2 else n,
        draining=draining,
    )
    return ks.MixedRouting(
        w,
        theta_max=float(rng.choice([0.0, 0.08, 0.3, 0.5, 1.0, 1.5])),
        max_table_size=None if rng.random() < 0.2 else int(rng.integers(0, p + 2)),
        sides=str(rng.choice(["upper", "both"])),
    )


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""

    def make(load, current, home, nodes, **options):
        draining = options.pop("draining", None)
        state = options.pop("state", load)
        w = ks.Workload(load=load, state=state, current=current, home=home, nodes=nodes, draining=draining)
        return ks.MixedRouting(w, **options)

    rng = np.random.default_rng(11)
    home = rng.integers(0, 4, 28)
    return {
        "ties": make([2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 1, 2], [0, 0, 0, 0, 1, 1], 3, max_table_size=3),
        "zeros": make([0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0], 2),
        "one node": make([3, 1, 2], [0, 0, 0], [0, 0, 0], 1, max_table_size=0),
        "one key group": make([5], [1], [0], 2, theta_max=1.0),
        "draining all but one": make([4, 2, 1, 3], [0, 1, 2, 2], [0, 1, 2, 1], 3, draining=[True, False, True]),
        "figure 4": make([7, 4, 2, 1, 5, 1], [0, 0, 1, 1, 0, 1], [0, 0, 0, 1, 1, 1], 2, theta_max=0.0, max_table_size=2),
        "figure 4, both sides": make([7, 4, 2, 1, 5, 1], [0, 0, 1, 1, 0, 1], [0, 0, 0, 1, 1, 1], 2, theta_max=0.1, sides="both"),
        "no table": make([5, 4, 3, 4], [0, 1, 0, 1], [0, 0, 1, 1], 2, theta_max=0.3, max_table_size=0),
        "no room in the table": make([5, 4, 3, 4], [0, 0, 0, 1], [0, 0, 0, 1], 2, max_table_size=0),
        "one entry": make([5, 4, 3, 4], [0, 0, 0, 1], [0, 0, 0, 1], 2, theta_max=0.2, max_table_size=1),
        "a key above every limit": make([9, 1, 1], [0, 1, 1], [0, 1, 1], 2),
        "unequal nodes": make([5, 4, 3, 2, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1.0, 3.0], max_table_size=4),
        "billionths": make(
            [3e-9, 1e-9, 2e-9, 2e-9, 1e-9], [0, 0, 0, 1, 1], [0, 1, 0, 1, 1], 2, theta_max=0.2, max_table_size=2
        ),
        "trillions": make(
            [3e12, 1e12, 2e12, 2e12, 1e12], [0, 0, 0, 1, 1], [0, 1, 0, 1, 1], 2, theta_max=0.2, max_table_size=2
        ),
        "mixed scales": make(
            [1e-9, 3e12, 2.0, 2e-9, 1e12], [0, 0, 0, 0, 0], [0, 1, 0, 1, 0], 2, theta_max=0.6,
            state=[1e12, 3e-9, 5.0, 1e-9, 2e-9],
        ),
        "three windows": make(
            [[5, 4, 3, 2, 1], [1, 2, 3, 4, 5], [3, 3, 3, 3, 3]], [0, 0, 1, 1, 1], [0, 0, 1, 1, 0], 2, theta_max=0.25,
            state=[1, 2, 3, 4, 5], windows=3,
        ),
        "scenarios, both sides": make(
            [1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1], 2, theta_max=0.5, sides="both", state=[1, 2, 3, 4],
            scenarios=[[3e-9, 1e-9, 2e-9, 2e-9], [3e12, 1e12, 2e12, 2e12]],
        ),
        "twenty-eight": make(
            rng.zipf(1.7, 28).clip(max=12), rng.integers(0, 4, 28), home, 4, state=rng.integers(1, 3, 28), max_table_size=8
        ),
    }  # fmt: skip
