"""ELB, eager load balancing ([Guo2018], section 3, Algorithm 1)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from keyshift.models import Answer, Budget, InputError
from keyshift.models.base.figures import apart
from keyshift.models.base.guards import NonNegative
from keyshift.models.mclb.problem import MCLB
from keyshift.models.movement.problem import MovementWithinLimits
from keyshift.models.rules.lowered import Lowered, RowTally
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload

Threshold = Literal["mean", "upper"]
LOOK = 1000
"""Key groups placed between two looks at the clock."""


def elb(
    problem: MCLB,
    *,
    budget: Budget,
    seed: int = 0,
    lower: NonNegative | None = None,
    upper: NonNegative | None = None,
    overloaded_above: Threshold = "mean",
) -> Answer:
    """Balance the last window eagerly: overloaded nodes give small key groups, underloaded ones take them.

    No guarantee on the imbalance or on the state moved; O(p log p + p n).

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Unused: ELB draws no random numbers; ties go to the lower index.
    lower, upper : float, optional
        The limits v and u on a node's load. By default the mean, less and plus the larger of a tenth of it and the
        largest key group - and a hair more, so that the assumption y <= (u - v) / 2 survives rounding.
    overloaded_above : {"mean", "upper"}
        What makes a node overloaded: a load above the mean (so that phase three makes sense as printed) or above u.

    Notes
    -----
    Source: [Guo2018], Algorithm 1. It uses the last window alone, and no budget: an answer over the budget is
    dropped. Departures: the number of nodes is the problem's, not what v and u give (see
    `MovementWithinLimits` for ELB with nodes added and removed); draining nodes are the set R; a key group that no
    underloaded node can hold goes to the least loaded one; rules are asked before each is placed.
    """
    core, w = problem.core, problem.workload
    load = w.last_load
    mean = float(load.sum()) / core.nodes
    # The default limits are wider by this share: more than rounding can take off u - v, less than would show in a load.
    width = max(0.1 * mean, float(load.max())) * (1 + 1e-12)
    limits = (mean - width if lower is None else lower, mean + width if upper is None else upper)
    if limits[0] > limits[1]:
        raise InputError(f"lower = {limits[0]:g} must not be above upper = {limits[1]:g}")
    placed = rebalance(load, w.current, w.kept, limits, overloaded_above, RowTally(problem.lowered, w.current), budget)
    return Answer(placed, message=broken_assumption(w, limits))


def elb_within_limits(
    problem: MovementWithinLimits, *, budget: Budget, seed: int = 0, overloaded_above: Threshold = "mean"
) -> Answer:
    """ELB with nodes added, or the least loaded ones removed, as the limits ask.

    No guarantee: the answer may break the limits and is then dropped. O(p log p + p n).

    Parameters
    ----------
    problem : MovementWithinLimits
    budget : Budget
    seed : int
        Unused.
    overloaded_above : {"mean", "upper"}

    Notes
    -----
    Source: [Guo2018], Algorithm 1. Only the last window counts.
    """
    w = problem.workload
    load = w.last_load
    kept = np.ones(problem.node_limit, dtype=bool)
    kept[: w.nodes] = w.kept
    surplus = int(kept.sum()) - problem.nodes_after
    if surplus > 0:  # the least loaded nodes form R
        loads = np.bincount(w.current, weights=load, minlength=kept.size)
        open_nodes = np.flatnonzero(kept)
        kept[open_nodes[np.argsort(loads[open_nodes], kind="stable")[:surplus]]] = False
    limits = (problem.lower, problem.upper)
    placed = rebalance(load, w.current, kept, limits, overloaded_above, RowTally(problem.lowered, w.current), budget)
    return Answer(placed, message=broken_assumption(w, limits))


def broken_assumption(workload: Workload, limits: tuple[float, float]) -> str:
    """A sentence when some key group is larger than ELB assumes, y <= (u - v) / 2."""
    half, load = (limits[1] - limits[0]) / 2, workload.last_load
    k = int(np.argmax(load))
    if load[k] <= half:
        return ""
    most, largest = apart(half, load[k])
    return f"ELB assumes no key group above (u - v) / 2 = {most}; key group {workload.key(k)} has load {largest}"


def rebalance(
    load: FloatArray,
    current: IntArray,
    kept: BoolArray,
    limits: tuple[float, float],
    overloaded_above: Threshold = "mean",
    rules: RowTally | None = None,
    budget: Budget | None = None,
) -> IntArray | None:
    """Run phases two and three of Algorithm 1: take key groups off overloaded and closing nodes, place them.

    Parameters
    ----------
    load : ndarray, shape (p,)
    current : ndarray of int, shape (p,)
    kept : ndarray of bool, shape (nodes,)
        False for the nodes of R. New nodes are empty ones.
    limits : (v, u)
    overloaded_above : {"mean", "upper"}
    rules : RowTally, optional
        Asked before each key group is placed.
    budget : Budget, optional

    Returns
    -------
    ndarray of int, shape (p,), or None
        None when the time is over before all are placed.
    """
    loads = np.bincount(current, weights=load, minlength=kept.size)
    mean = float(load.sum()) / int(kept.sum())
    line = mean if overloaded_above == "mean" else limits[1]
    waiting = np.flatnonzero(~kept[current]).tolist()
    waiting += _taken_off(load, current, kept, loads, mean, line, (limits[1] - limits[0]) / 2)
    known = RowTally(Lowered(current), current) if rules is None else rules
    return _placed(load, current, kept, loads, waiting, known, budget or Budget())


def _taken_off(
    load: FloatArray, current: IntArray, kept: BoolArray, loads: FloatArray, mean: float, line: float, half: float
) -> list[int]:
    """Phase two. Lowers `loads` by what leaves the overloaded nodes.

    The threshold falls as key groups leave, and the key groups are met in descending order: one traversal does.
    """
    leaving = []
    order = np.lexsort((-load, current))
    begins = np.searchsorted(current[order], np.arange(kept.size + 1))
    for j in np.flatnonzero(kept & (loads > line)):
        for k in order[begins[j] : begins[j + 1]]:
            if 0 < load[k] <= min(loads[j] - mean, half):
                leaving.append(int(k))
                loads[j] -= load[k]
    return leaving


def _placed(
    load: FloatArray,
    current: IntArray,
    kept: BoolArray,
    loads: FloatArray,
    waiting: list[int],
    rules: RowTally,
    budget: Budget,
) -> IntArray | None:
    """Phase three: the largest waiting key group goes to the least loaded node, of those that rules leave open to it.

    That is the least loaded underloaded node that can hold it, where one can: if the least loaded one cannot, none can.
    Where rules leave it none it goes back; None when the time is over before.
    """
    loads = np.where(kept, loads, np.inf)
    for number, k in enumerate(sorted(waiting, key=lambda k: (-load[k], k)), start=1):
        if number % LOOK == 0 and budget.expired:
            return None
        here = int(current[k])
        may = rules.open_to(k, kept.size)
        # Departure: where no underloaded node holds it the print leaves it homeless.
        i = int(np.argmin(np.where(may, loads, np.inf)))
        i = i if may[i] else here
        rules.move(k, i)
        loads[i] += load[k]
    return rules.place
