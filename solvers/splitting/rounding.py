"""From a flow, or from nothing, to whole items on workers: quick, and no more than a start."""

from __future__ import annotations

import numpy as np

from keyshift.models import Budget
from keyshift.models.splitting.items import Groups
from keyshift.models.workload import IntArray
from keyshift.solvers.splitting.flow import DOUBT

POLISHING_MOVES = 1_000
"""At most this many single items are moved after rounding a flow."""


def even(items: Groups) -> IntArray:
    """Every group in equal parts on all its options, the rest dealt out in turns: an answer when there is no time."""
    width = (items.options >= 0).sum(axis=1)[:, None]
    rest = items.count[:, None] % width
    turn = (np.arange(items.options.shape[1]) - np.cumsum(rest)[:, None]) % width
    return np.where(items.options >= 0, items.count[:, None] // width + (turn < rest), 0)


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
