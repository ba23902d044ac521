"""From decisions to the closed policy table that `MigrationPolicy` checks and values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Budget
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.partition import cuts_of, spread
from keyshift.models.intervals.policy.table import NOT_ASKED
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.state_sizes import weights

Decide = Callable[[int, IntArray, int], IntArray]
"""(nodes, cuts, next node count) -> cuts."""


def close(
    problem: MigrationPolicy, first: Callable[[int], IntArray], decide: Decide, budget: Budget, most: int
) -> np.ndarray | None:
    """Follow the decisions from now through all that can happen, state by state in the order they are met.

    Parameters
    ----------
    first : callable
        Next node count -> cuts, for the first step.
    decide : callable
        Called once for every state and next count.
    most : int
        Give up, with None, above so many states; also when the budget ends.
    """
    w = problem.workload
    kept_first = weights(np.where(w.draining[w.current], 0.0, w.state)).prefix
    kept = weights(w.state).prefix
    blank = np.full((len(problem.counts), w.key_groups), NOT_ASKED, dtype=np.int32)
    column = {n: j for j, n in enumerate(problem.counts)}
    states: list[tuple[int, IntArray]] = [(problem.nodes_now, cuts_of(w.current))]
    met: set[tuple[int, bytes]] = set()
    table: list[np.ndarray] = []
    while len(table) < len(states):
        if len(states) > most or budget.expired:
            return None
        row = blank.copy()
        nodes, cuts = states[len(table)]
        for after in problem.transitions[nodes] if table else problem.first_row:
            new = decide(nodes, cuts, after) if table else first(after)
            if table:
                now = Owners(spread(cuts, np.arange(cuts.size - 1)), list(range(nodes)), nodes)
                row[column[after]] = now.migrate(new, after, kept)
            else:
                now = Owners(w.current, np.flatnonzero(w.kept).tolist(), w.nodes)
                row[column[after]] = now.migrate(new, after, kept_first)
            key = (after, new.tobytes())
            if key not in met:
                met.add(key)
                states.append((after, new))
        table.append(row)
    return np.stack(table)
