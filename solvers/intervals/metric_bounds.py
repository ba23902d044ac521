"""Lower bounds for instances of any size: state moved is a metric, so no detour costs less than the direct step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from keyshift.models import Budget
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.intervals.policy.transitions import macqueen_interval
from keyshift.models.workload import FloatArray
from keyshift.solvers.intervals.band_kernels import band_cuts
from keyshift.solvers.intervals.ssm import LONG, keepable, lagrangian, moved_at_least, states_of


def least_moved(step: IntervalMigration, budget: Budget | None = None) -> float:
    """A lower bound on the state that one migration moves, by the band dynamic program; no partition is made.

    Where a budget is given and the program would take long, by a price on intervals (`lagrangian`).
    """
    kept = keepable(step)
    intervals = min(step.nodes_after, step.workload.key_groups)
    if budget is not None and states_of(step.starts, intervals) > LONG:
        return lagrangian(step, budget=budget.part(0.2)).bound or 0.0
    gain, _ = band_cuts(step.starts, step.old_cuts, kept.prefix, intervals, False)
    return max(0.0, moved_at_least(step, kept, int(gain)))


def sequence_bound(problem: MigrationSequence, budget: Budget | None = None) -> float:
    """A lower bound on the state that a known sequence of migrations moves.

    Until step t at least as much moves as in one optimal step from now to any of the counts up to t.
    """
    return max(least_moved(problem.first_step(nodes), budget) for nodes in set(problem.counts))


def policy_bound(problem: MigrationPolicy) -> float:
    r"""A lower bound on the expected discounted state moved, from single steps out of the present alone.

    With d(n) the least state that one step from now to n nodes moves, and D_t the state moved in steps 1..t, the
    triangle inequality gives D_t >= max(d(n_1), .., d(n_t)), and summation by parts
    :math:`\sum_t \gamma^{t-1} c_t = \sum_t (\gamma^{t-1} - \gamma^t) D_t`. The expectation of that maximum is a
    Markov chain on (count, largest d so far).
    """
    p, gamma = problem, problem.discount
    least = {n: least_moved(p.first_step(n)) for n in p.reachable}
    levels = sorted({0.0, *least.values()})
    states = [(n, r) for n in p.reachable for r in levels]
    number = {state: i for i, state in enumerate(states)}

    def step(row: Mapping[int, float], r: float) -> tuple[float, FloatArray]:
        """The least that the next step adds, and the probabilities of the states it leads to."""
        added, towards = 0.0, np.zeros(len(states))
        for n, chance in row.items():
            added += chance * (1 - gamma) * max(r, least[n])
            towards[number[n, max(r, least[n])]] += chance
        return added, towards

    added, towards = (np.array(part) for part in zip(*(step(p.transitions[n], r) for n, r in states), strict=True))
    value = np.linalg.solve(np.eye(len(states)) - gamma * towards, added)
    better = added + gamma * (towards @ value)
    below, _ = macqueen_interval([better - value], gamma)  # the system is solved to rounding, the bound holds anyway
    now, ahead = step(p.first_row, 0.0)
    return max(0.0, now + gamma * float(ahead @ (better + below)) - 1e-12 * p.scale)
