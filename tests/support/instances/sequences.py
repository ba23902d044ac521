"""Instances of migration through a known sequence of node counts."""

from __future__ import annotations

import numpy as np

import keyshift as ks
from instances.intervals import random_workload, workloads

NAME = ks.MigrationSequence.name


def random_problem(rng: np.random.Generator, m: int, n: int) -> ks.MigrationSequence:
    counts = rng.integers(1, n + 3, int(rng.integers(1, 4))).tolist()
    return ks.MigrationSequence(random_workload(rng, m, n), counts, str(rng.choice(["0.2", "0.5", "1", "1.5"])))


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""
    made = {label: ks.MigrationSequence(w, [n, n, max(1, n - 1)], tau) for label, (w, n, tau) in workloads().items()}
    made["twelve"] = ks.MigrationSequence(made["twelve"].workload, [4, 3], 0.6)
    made["table 3"] = ks.MigrationSequence(
        ks.Workload(load=np.ones(20), state=np.ones(20), current=np.repeat([0, 1], [13, 7]), nodes=2), [3, 4], 0.4
    )
    return made
