"""Key splitting, exactly: a maximum flow first, whole messages from it, and the integer program for what gap is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.guards import Threads
from keyshift.models.splitting import KeySplitting
from keyshift.models.splitting.items import Groups, Items
from keyshift.solvers.splitting.flow import Flow, fractional_flow, whole_flow
from keyshift.solvers.splitting.statement import even, polished, rounded, search


def solve_flow(
    problem: KeySplitting, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, threads: Threads = 1
) -> Answer:
    """The least possible largest load with splitting: exact, by maximum flow.

    Where messages weigh differently, a flow may divide a message; the divided ones are placed greedily, single moves
    lower the largest load, and what gap is left is closed by the integer program of "milp".

    Parameters
    ----------
    threads : int, default 1
        For the integer program.

    Notes
    -----
    At most one maximum flow for every set of workers that ever binds, in practice two to five, each on a network
    of as many nodes as there are groups of like messages. Ours: the paper has no optimum.
    """
    items = Items.of_messages(problem)
    if (items.weight == items.weight[0]).all():
        flow = whole_flow(items, budget) if items.weight[0] > 0 else _weightless(items)
        share = flow.share
    else:
        flow = fractional_flow(items, budget)
        flow = replace(flow, bound=items.next_possible_load(flow.bound))
        share = None if flow.share is None else polished(items, rounded(items, flow.share), budget)
    details = {"rounds": flow.rounds, "binding_workers": int(flow.binding.sum())}
    if share is None:
        return Answer(
            items.assignment(even(items)) if start is None else start, flow.bound, budget.why, details=details
        )
    found = items.assignment(share)
    if start is not None and problem.objective(start) < problem.objective(found):
        found = start
    if (value := problem.objective(found)) - flow.bound <= problem.tolerance_of(value):
        return Answer(found, flow.bound, "optimal", details=details)
    answer = search(items, found, flow.bound, budget, seed, threads)
    answer.details.update(details)
    return answer


def _weightless(items: Groups) -> Flow:
    """Nothing weighs anything: every message to its first candidate."""
    share = np.zeros(items.options.shape, dtype=np.int64)
    share[:, 0] = items.count
    return Flow(0.0, share, np.ones(items.speeds.size, dtype=bool), 0)
