"""Instances of migration under a transition matrix."""

from __future__ import annotations

import numpy as np

import keyshift as ks
from instances.intervals import random_workload, workloads

NAME = ks.MigrationPolicy.name


def random_problem(rng: np.random.Generator, m: int, n: int) -> ks.MigrationPolicy:
    w = random_workload(rng, m, n)
    counts = sorted({int(w.kept.sum()), *rng.integers(1, 5, 2).tolist()})
    matrix = {}
    for now in counts:
        chances = rng.random(len(counts)) * (rng.random(len(counts)) < 0.7)
        chances[rng.integers(len(counts))] += 0.1
        matrix[now] = dict(zip(counts, (chances / chances.sum()).tolist(), strict=True))
    revealed = counts[0] if rng.random() < 0.3 else None
    tau, discount = str(rng.choice(["0.2", "0.5", "1"])), float(rng.choice([0, 0.5, 0.8]))
    return ks.MigrationPolicy(w, matrix, tau, discount, nodes_after=revealed)


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""
    made = {}
    for label, (w, n, tau) in workloads().items():
        now = int(w.kept.sum())
        other = n if n != now else n + 1
        matrix = {now: {now: 0.5, other: 0.5}, other: {now: 1.0}}
        made[label] = ks.MigrationPolicy(w, matrix, tau if label == "infeasible" else 1, 0.8)
    w = made["twelve"].workload
    matrix = {2: {2: 0.3, 3: 0.6, 4: 0.1}, 3: {2: 0.3, 3: 0.4, 4: 0.3}, 4: {2: 0.1, 3: 0.5, 4: 0.4}}  # paper's Table 4
    made["twelve"] = ks.MigrationPolicy(w, matrix, 0.4, 0.8)
    made["revealed"] = ks.MigrationPolicy(w, matrix, 0.4, 0.5, nodes_after=4)
    return made
