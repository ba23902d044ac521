"""Single-step migration for millions of tasks: a price on intervals in place of their number."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.intervals import IntervalMigration
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.step.band_kernels import BandLayer, TaskLine, WindowScratch, cells, penalised
from keyshift.solvers.intervals.step.ssm import answer_from_cuts, moved_at_least
from keyshift.solvers.intervals.units import weights

VALUE_BITS = 60


class _Pass:
    """One pass of the dynamic program for any price, with its scratch."""

    def __init__(self, problem: IntervalMigration, prefix: IntArray) -> None:
        m = problem.workload.key_groups
        left, right = cells(problem.old_cuts, m)
        self.line = TaskLine(problem.starts, left, right, prefix)
        self.row = BandLayer(np.zeros(m + 1, np.int64), np.zeros(m + 1, np.int64), 0, m)
        self.scratch = WindowScratch(np.empty((4, m + 1), np.int64), np.empty(m + 1, np.int64))

    def __call__(self, price: int) -> tuple[int, IntArray]:
        best, cuts = penalised(self.line, price, self.row, self.scratch)
        return int(best), cuts


def lagrangian(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    r"""Bisect the price of an interval until as few are used as there are nodes: a bound, and an assignment near it.

    For every price :math:`\lambda \ge 0` the state kept by at most n' intervals is at most
    :math:`h(\lambda) + \lambda n'`, where h is the largest state kept less the intervals' price. A pass takes O(m);
    there are about log2(all the state) of them, and one suffices when the best partition without a price uses
    at most n' intervals, as it often does when nodes are added. The assignment is proven optimal where it attains
    the bound; where it does not, the default method closes the gap in more time.

    Notes
    -----
    That the bound is tight rests on the state kept being concave in the number of intervals, for which there is
    evidence (millions of instances) and no proof. Nothing returned here relies on it. The price that proves the bound,
    in units of state, is in ``details["price"]``.
    """
    m, most = problem.workload.key_groups, problem.nodes_after
    # Prices times intervals must fit 64 bits beside the state itself.
    kept = weights(problem.keepable_state, bits=min(52, VALUE_BITS - m.bit_length()))
    run = _Pass(problem, kept.prefix)
    low, high = 0, kept.total + 1
    best, first = run(0)
    upper, passes, cheapest = best, 1, 0
    searched = first.size - 1 > most
    found: IntArray | None = None if searched else first
    if searched:
        while high - low > 1 and not budget.expired:
            price = (low + high) // 2
            value, cuts = run(price)
            passes += 1
            if value + price * most < upper:
                upper, cheapest = value + price * most, price
            if cuts.size - 1 > most:
                low = price
            else:
                high, found = price, cuts
            budget.report(bound=moved_at_least(problem, kept, upper))
    if found is None:  # the highest price: the fewest intervals
        _, found = run(high)
    bound = moved_at_least(problem, kept, upper)
    if found.size - 1 > most:  # ties at the highest price
        return Answer(None, bound, budget.why, "the time limit was reached before a price led to few enough intervals")
    assignment = answer_from_cuts(problem, found, kept)
    details = {"passes": passes, "intervals": found.size - 1, "price": cheapest / kept.scale}
    done = budget.why if searched and high - low > 1 else "completed"
    return Answer(assignment, bound, done, details=details)
