"""From decisions to the closed policy table, within a budget and with the compiled matching."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Budget
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.partition import spread
from keyshift.models.intervals.policy import closing
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.units import weights


def close(
    problem: MigrationPolicy, first: Callable[[int], IntArray], decide: closing.Decide, budget: Budget, most: int
) -> np.ndarray | None:
    """As `closing.close`, but None above this many states, and when the budget ends."""
    w = problem.workload
    kept_first = weights(np.where(w.draining[w.current], 0.0, w.state)).prefix
    kept = weights(w.state).prefix

    def relabel(_: MigrationPolicy, before: tuple[int, IntArray] | None, after: int, new: IntArray) -> IntArray:
        if before is None:
            return Owners(w.current, np.flatnonzero(w.kept).tolist(), w.nodes).migrate(new, after, kept_first)
        nodes, cuts = before
        now = Owners(spread(cuts, np.arange(cuts.size - 1)), list(range(nodes)), nodes)
        return now.migrate(new, after, kept)

    return closing.close(problem, first, decide, relabel, lambda states: states > most or budget.expired)
