"""Optimal single-step migration by the band dynamic program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.integers import Scaled
from keyshift.models.intervals import IntervalMigration
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.step.band_kernels import band_cuts
from keyshift.solvers.intervals.units import in_fine_units, weights


def owners_now(problem: IntervalMigration) -> Owners:
    """The nodes and the assignment before the migration."""
    w = problem.workload
    return Owners(w.current, np.flatnonzero(w.kept).tolist(), w.nodes)


def keepable(problem: IntervalMigration, state: FloatArray | None = None) -> Scaled:
    """State that need not move, as whole weights; of other sizes than the workload's where these are capped."""
    if state is None or state is problem.workload.state:
        return weights(problem.keepable_state)
    return weights(np.where(problem.workload.draining[problem.workload.current], 0.0, state))


def answer_from_cuts(problem: IntervalMigration, cuts: IntArray, kept: Scaled) -> IntArray:
    """The assignment that realises a partition with as little movement as it allows."""
    return owners_now(problem).migrate(cuts, problem.nodes_after, kept.prefix)


def moved_at_least(problem: IntervalMigration, kept: Scaled, gain: int) -> float:
    """A lower bound on the state moved when no partition keeps more than `gain` whole units."""
    w = problem.workload
    forced = float(w.state[w.draining[w.current]].sum())
    return kept.lower(kept.total - gain) + forced * (1 - 1e-15)


def answer_by_cuts(problem: IntervalMigration, most_kept: Callable[[Scaled], tuple[int, IntArray]]) -> Answer:
    """The answer of a dynamic program in whole units that are fine enough.

    Parameters
    ----------
    most_kept : callable
        From the weights of the state that can be kept to the most that a partition keeps, < 0 where there is none,
        and to its cuts.
    """

    def answer_to(state: FloatArray, best: np.ndarray | None) -> Answer:
        kept = keepable(problem, state)
        gain, cuts = most_kept(kept)
        if gain < 0:
            return Answer(None, termination="infeasible", message="no partition keeps every node within its load limit")
        details = {"intervals": cuts.size - 1, "state_kept": gain * kept.unit}
        found = answer_from_cuts(problem, cuts, kept)
        return Answer(found, moved_at_least(problem, kept, gain), "optimal", details=details)

    return in_fine_units(problem, None, answer_to)


def solve_ssm(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Cut the tasks anew so that least state moves: exact.

    O(m (slack + 1)) time, where slack is n' less the least number of intervals that the load limit needs, and
    O(m sqrt(n')) memory above 4 million states. Draws no random numbers; of the optima it takes one with few
    intervals.

    Notes
    -----
    Source: the problem is that of [Ding2015], section 4; the dynamic program is keyshift's
    (`keyshift.solvers.intervals.step.band_kernels`), which replaces their Figure 7: see "ssm-repaired".
    """
    intervals = min(problem.nodes_after, problem.workload.key_groups)

    def most_kept(kept: Scaled) -> tuple[int, IntArray]:
        gain, cuts = band_cuts(problem.starts, problem.old_cuts, kept.prefix, intervals, True)
        return int(gain), cuts

    return answer_by_cuts(problem, most_kept)
