"""The tightest value of a limit by brute force over all assignments, and tiny workloads to try it on."""

from __future__ import annotations

from itertools import product

import numpy as np

import keyshift as ks
from keyshift.models.problem import Limit


def all_assignments(problem: ks.Problem, nodes: int):
    return (np.array(a) for a in product(range(nodes), repeat=problem.workload.key_groups))


def least_by_brute_force(limit: Limit, nodes: int) -> float | None:
    """The tightest value of a limit at which some assignment is feasible: tried at what each assignment needs."""
    open_ended = limit.at(limit.ends)
    sign = -1 if limit.down else 1
    needed = limit.needed if limit.name != "tau" else lambda a: _tau(open_ended, a)
    needs = [sign * needed(a) for a in all_assignments(open_ended, nodes) if open_ended.check(a).feasible]
    return sign * min(needs) if needs else None


def _tau(problem: ks.IntervalMigration, assignment: np.ndarray) -> float:
    loads = np.bincount(assignment, weights=problem.workload.last_load)
    return max(0.0, float(loads.max() * problem.nodes_after / loads.sum() - 1))


def random_workload(rng: np.random.Generator) -> ks.Workload:
    p, n = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    return ks.Workload(
        load=rng.integers(1, 9, p), state=rng.integers(1, 5, p), current=rng.integers(0, n, p), nodes=n,
        home=rng.integers(0, n, p), resources={"memory": rng.integers(1, 5, p)},
        traffic=rng.integers(0, 4, (p, p)), draining=rng.permutation([rng.random() < 0.3] + [False] * (n - 1)),
    )  # fmt: skip
