"""Key splitting, exactly: a maximum flow first, whole messages from it, and the integer program for what gap is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.ranges import Threads
from keyshift.models.splitting import KeySplitting
from keyshift.models.splitting.items import Groups, Items
from keyshift.models.workload import IntArray
from keyshift.solvers.splitting.flow import DOUBT, Flow, fractional_flow, next_possible_load, whole_flow
from keyshift.solvers.splitting.statement import search

POLISHING_MOVES = 1_000
"""At most so many single items are moved after rounding a flow."""


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
        flow = replace(flow, bound=next_possible_load(items, flow.bound))
        share = None if flow.share is None else polished(items, rounded(items, flow.share), budget)
    details = {"rounds": flow.rounds, "binding_workers": int(flow.binding.sum())}
    if share is None:
        return Answer(
            items.assignment(even(items)) if start is None else start, flow.bound, budget.why, details=details
        )
    found = items.assignment(share)
    if start is not None and problem.objective(start) < problem.objective(found):
        found = start
    if problem.objective(found) - flow.bound <= problem.tolerance:
        return Answer(found, flow.bound, "optimal", details=details)
    answer = search(items, found, flow.bound, budget, seed, threads)
    answer.details.update(details)
    return answer


def _weightless(items: Groups) -> Flow:
    """Nothing weighs anything: every message to its first candidate."""
    share = np.zeros(items.options.shape, dtype=np.int64)
    share[:, 0] = items.count
    return Flow(0.0, share, np.ones(items.speeds.size, dtype=bool), 0)


def even(items: Groups) -> IntArray:
    """Every group in equal parts on all its options: an answer when there is no time for a better one."""
    width = (items.options >= 0).sum(axis=1)[:, None]
    first = np.arange(items.options.shape[1])[None, :]
    share = items.count[:, None] // width + (first < items.count[:, None] % width)
    return np.where(items.options >= 0, share, 0)


def rounded(items: Groups, divided: np.ndarray) -> IntArray:
    """Whole items near a flow of weight: rounded down, and the rest - heaviest first - where least is loaded."""
    weight = np.where(items.weight > 0, items.weight, 1.0)[:, None]
    share = np.minimum(np.floor(divided / weight * (1 + DOUBT)), items.count[:, None]).astype(np.int64)
    excess = np.maximum(share.cumsum(axis=1) - items.count[:, None], 0)
    share = np.maximum(share - excess, 0)
    speeds = items.speeds
    loads = items.loads(share) * speeds
    rest = items.count - share.sum(axis=1)
    for g in np.argsort(-items.weight, kind="stable"):
        options = items.options[g][items.options[g] >= 0]
        for _ in range(int(rest[g])):
            at = int(np.argmin((loads[options] + items.weight[g]) / speeds[options]))
            share[g, at] += 1
            loads[options[at]] += items.weight[g]
    return share


def polished(items: Groups, share: IntArray, budget: Budget) -> IntArray:
    """Move single items off the most loaded worker while that lowers the larger of the two loads."""
    share, speeds = share.copy(), items.speeds
    loads = items.loads(share) * speeds
    for _ in range(POLISHING_MOVES):
        worst = int(np.argmax(loads / speeds))
        group, at = np.nonzero((items.options == worst) & (share > 0))
        weight, others = items.weight[group][:, None], items.options[group]
        after = (loads[others] + weight) / speeds[others]
        larger = np.where(
            (others < 0) | (others == worst), np.inf, np.maximum(after, (loads[worst] - weight) / speeds[worst])
        )
        move, to = np.unravel_index(int(np.argmin(larger)), larger.shape) if larger.size else (0, 0)
        if budget.expired or not larger.size or larger[move, to] >= loads[worst] / speeds[worst]:
            break
        g = group[move]
        share[g, at[move]] -= 1
        share[g, to] += 1
        loads[worst] -= items.weight[g]
        loads[items.options[g, to]] += items.weight[g]
    return share
