"""Oracles for interval problems that share no code with the library: all partitions, Hungarian matchings, fractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.optimize import linear_sum_assignment

import keyshift as ks


def partitions(w: ks.Workload, nodes: int, tau: Fraction) -> Iterator[tuple[int, ...]]:
    """All cuts (0, ..., m) into at most this many non-empty intervals within the limit, loads as fractions."""
    load = [Fraction(float(y)) for y in w.last_load]
    limit = (1 + Fraction(tau)) * sum(load) / nodes
    m = len(load)
    sums = list(itertools.accumulate(load, initial=Fraction(0)))
    for inner in range(min(nodes, m)):
        for chosen in itertools.combinations(range(1, m), inner):
            cuts = (0, *chosen, m)
            if all(sums[b] - sums[a] <= limit for a, b in itertools.pairwise(cuts)):
                yield cuts


def kept(old: tuple[int, ...], new: tuple[int, ...], state: np.ndarray) -> float:
    """Largest state that a labelling keeps, by the Hungarian method."""
    sums = np.concatenate(([0.0], np.cumsum(state)))
    left = np.maximum.outer(old[:-1], new[:-1])
    right = np.maximum(np.minimum.outer(old[1:], new[1:]), left)
    overlap = sums[right] - sums[left]
    rows, columns = linear_sum_assignment(-overlap)
    return float(overlap[rows, columns].sum())


def cuts_of(assignment: np.ndarray) -> tuple[int, ...]:
    return (0, *(k for k in range(1, len(assignment)) if assignment[k] != assignment[k - 1]), len(assignment))


def single_step(problem: ks.IntervalMigration) -> float | None:
    """Least state moved, None if no partition is feasible."""
    w = problem.workload
    stays = np.where(w.draining[w.current], 0.0, w.state)
    old = cuts_of(w.current)
    best = max((kept(old, new, stays) for new in partitions(w, problem.nodes_after, problem.tau)), default=None)
    return None if best is None else float(w.state.sum()) - best


def sequence(problem: ks.MigrationSequence) -> float | None:
    """Least state moved over the sequence, by value over all partitions of every step."""
    w = problem.workload
    stays = np.where(w.draining[w.current], 0.0, w.state)
    total = float(w.state.sum())
    before, cost = [cuts_of(w.current)], [0.0]
    for t, n in enumerate(problem.node_counts):
        weight = stays if t == 0 else w.state
        after = list(partitions(w, n, problem.tau))
        cost = [min(c + total - kept(p, q, weight) for p, c in zip(before, cost, strict=True)) for q in after]
        before = after
        if not after:
            return None
    return min(cost)


def certificate(problem: ks.IntervalMigration, assignment: np.ndarray) -> float:
    """State moved by an assignment, after asserting cuts, loads, labels by hand."""
    w = problem.workload
    cuts = cuts_of(assignment)
    nodes = [int(assignment[a]) for a in cuts[:-1]]
    assert len(set(nodes)) == len(nodes), "a node has two intervals"
    assert len(nodes) <= problem.nodes_after
    limit = (1 + Fraction(problem.tau)) * sum(Fraction(float(y)) for y in w.last_load) / problem.nodes_after
    for a, b in itertools.pairwise(cuts):
        assert sum(Fraction(float(y)) for y in w.last_load[a:b]) <= limit, "overloaded"
    staying = [i for i in range(w.nodes) if not w.draining[i]]
    assert all(node in staying or w.nodes <= node < w.nodes + problem.nodes_after - len(staying) for node in nodes)
    return float(sum(w.state[k] for k in range(w.key_groups) if assignment[k] != w.current[k]))


def policy(problem: ks.MigrationPolicy, rounds: int = 300) -> float | None:
    """Expected discounted state moved from now on, by naive value iteration over all partitions."""
    w, gamma = problem.workload, problem.discount
    total = float(w.state.sum())
    can_come = set(problem.first_row)
    for _ in problem.counts:
        can_come |= {after for n in can_come for after in problem.transitions[n]}
    classes = {n: list(partitions(w, n, problem.tau)) for n in sorted(can_come)}
    if not all(classes.values()):
        return None
    cost = {
        (n, after): np.array([[total - kept(p, q, w.state) for q in classes[after]] for p in classes[n]])
        for n in classes
        for after in problem.transitions[n]
    }
    value = {n: np.zeros(len(c)) for n, c in classes.items()}
    for _ in range(rounds):
        value = {
            n: sum(
                chance * (cost[n, after] + gamma * value[after]).min(axis=1)
                for after, chance in problem.transitions[n].items()
            )
            for n in classes
        }
    stays = np.where(w.draining[w.current], 0.0, w.state)
    now = cuts_of(w.current)
    return sum(
        chance * min(total - kept(now, q, stays) + gamma * v for q, v in zip(classes[after], value[after], strict=True))
        for after, chance in problem.first_row.items()
    )
