"""CLB, correlation-based load balancing ([Guo2018], section 4, Algorithm 2), as printed and corrected; and its baselines."""

from __future__ import annotations

from typing import Literal

import numpy as np

from keyshift.models import Answer, Budget, InputError
from keyshift.models.answer import LimitReached
from keyshift.models.base.figures import apart
from keyshift.models.base.guards import Count, Finite, NonNegative
from keyshift.models.mclb.problem import MCLB, Core
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
    kept = np.ones(problem.places, dtype=bool)
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
) -> IntArray:
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
    ndarray of int, shape (p,)
        Whoever still waits when the time is over is where it was.
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
    leaving: list[int] = []
    over = kept & (loads > line)
    some = np.flatnonzero(over[current])
    order = some[np.lexsort((-load[some], current[some]))]
    begins = np.searchsorted(current[order], np.arange(kept.size + 1))
    for j in np.flatnonzero(over):
        mine = order[begins[j] : begins[j + 1]]
        y, at = load[mine], 0
        while True:
            at += int(np.searchsorted(-y[at:], -min(loads[j] - mean, half)))  # the largest that may go
            left = np.subtract.accumulate(np.append(loads[j], y[at:]))
            stays = (y[at:] <= 0) | (y[at:] > left[:-1] - mean)  # none of them is above half: they fall
            run = int(np.argmax(np.append(stays, True)))
            if run == 0:
                break
            leaving += mine[at : at + run].tolist()
            loads[j], at = left[run], at + run
    return leaving


def _placed(
    load: FloatArray,
    current: IntArray,
    kept: BoolArray,
    loads: FloatArray,
    waiting: list[int],
    rules: RowTally,
    budget: Budget,
) -> IntArray:
    """Phase three: the largest waiting key group goes to the least loaded node, of those that rules leave open to it.

    That is the least loaded underloaded node that can hold it, where one can: if the least loaded one cannot, none can.
    Where rules leave it none it goes back, and so do all that wait when the time is over.
    """
    loads = np.where(kept, loads, np.inf)
    for number, k in enumerate(sorted(waiting, key=lambda k: (-load[k], k)), start=1):
        if number % LOOK == 0 and budget.expired:
            break  # the others stay where they are
        here = int(current[k])
        may = rules.open_to(k, kept.size)
        # Departure: where no underloaded node holds it the print leaves it homeless.
        i = int(np.argmin(np.where(may, loads, np.inf)))
        i = i if may[i] else here
        rules.move(k, i)
        loads[i] += load[k]
    return rules.place


Labels = Literal["matched", "printed"]


def clb(
    problem: MCLB,
    *,
    budget: Budget,
    seed: int = 0,
    theta: NonNegative = 0.0,
    scale: Literal["correlation", "covariance"] = "correlation",
    labels: Labels = "matched",
) -> Answer:
    """Split the key groups into n sets along positive covariances, as printed.

    No guarantee: what it lowers is the variance of each node's load over time, which is not the imbalance. With
    loads constant over time every placement has none, and CLB is free to put all load on one node. O(n p^2).

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Unused: CLB draws no random numbers; ties go to the lower index.
    theta : float, default 0
        Threshold; key groups with at least this correlation with the chosen one are sent away.
    scale : {"correlation", "covariance"}
        What theta is measured in. 0 <= theta < 1 in the paper reads as a correlation, the formula compares covariances.
    labels : {"matched", "printed"}
        Give the sets to the nodes where they move least state, or in the order of their making.

    Notes
    -----
    Source: [Guo2018], Algorithm 2. Departures from the print:

    * The prose defines S_1 once with cov >= theta and once, in the formula, with cov < theta. The split that
      serves the purpose keeps those with cov < theta and sends the correlated ones away.
    * Where no split would send anything away, the largest key group (by the diagonal) of the set with the largest
      sum leaves alone, so that n sets are reached.
    * The paper does not say which set goes to which node.

    [Guo2018]'s budget plays no part: an answer over it is dropped.
    """
    core = problem.core
    if refused := too_large(core):
        return refused
    centred = core.load - core.load.mean(axis=1, keepdims=True)
    covariance = centred @ centred.T / core.load.shape[1]
    spread = np.sqrt(np.diag(covariance))
    unit = np.outer(spread, spread) if scale == "correlation" else 1.0
    return _answer(core, covariance, covariance >= theta * unit, labels, budget)


def clb_moment(
    problem: MCLB,
    *,
    budget: Budget,
    seed: int = 0,
    theta: Finite = 0.0,
    split: Literal["cut", "threshold"] = "cut",
    labels: Labels = "matched",
) -> Answer:
    """CLB with the uncentred second moment in place of the covariance, for which its cut argument is exact.

    The imbalance is (1/n) sum_{kl sharing a node} M[k, l] - const with M = Y'Y: splitting sets so that much of M is cut
    lowers it by as much. No guarantee; O(n p^2).

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Unused.
    theta : float, default 0
        Threshold on the cosine of two load series, for ``split="threshold"``.
    split : {"cut", "threshold"}
        "threshold" is Algorithm 2's split on the corrected matrix: second moments of loads are never negative, so that
        one key group keeps its node to itself and everything else stays together. "cut" deals the set's key groups, in
        descending order, each to the side that it shares less second moment with, relative to the number of sets that the
        side is to become.
    labels : {"matched", "printed"}

    Notes
    -----
    Source: [Guo2018], section 4, with the slip of eqs. (3)-(5) corrected: sum_i eta_i^2 in eq. (4) is not a constant.
    """
    core = problem.core
    if refused := too_large(core):
        return refused
    moment = core.load @ core.load.T
    size = np.sqrt(np.diag(moment))
    above = moment >= theta * np.outer(size, size) if split == "threshold" else None
    return _answer(core, moment, above, labels, budget)


def is_quick(problem: MCLB) -> bool:
    """Whether a matrix of all pairs takes neither much time nor much memory."""
    return bool(problem.workload.key_groups <= 2_000)  # CLB takes seconds from there on


def too_large(core: Core) -> Answer | None:
    """Refuse more key groups than have room for some matrices of all pairs: 30 bytes each."""
    p = core.load.shape[0]
    if 30 * p**2 <= 5e8:
        return None
    said = f"matrices of all pairs of {p} key groups would take {30e-9 * p**2:.1f} GB, more than 0.5: choose another method"
    return Answer(None, message=said)


def _answer(core: Core, weight: FloatArray, above: BoolArray | None, labels: Labels, budget: Budget) -> Answer:
    """Sets with nodes; none where the time is over before there are as many as nodes."""
    try:
        member = _split_all(weight, above, core.nodes, budget)
    except LimitReached:
        return Answer(None, None, budget.why, "the time was over before there were as many sets as nodes")
    return Answer(core.lift(member if labels == "printed" else core.relabelled(member)))


def _split_all(weight: FloatArray, above: BoolArray | None, nodes: int, budget: Budget) -> IntArray:
    """Algorithm 2, lines 8-23: split the set of the heaviest key group until there are as many sets as nodes."""
    p = weight.shape[0]
    member = np.zeros(p, dtype=np.int64)
    parts = np.ones(nodes, dtype=np.int64)  # how many sets each one is to become; counts for "cut" only
    parts[0] = nodes
    off_diagonal = ~np.eye(p, dtype=bool)
    partners = off_diagonal if above is None else above & off_diagonal
    for new in range(1, min(nodes, p)):
        budget.tick()
        together = member[:, None] == member[None, :]
        omega = np.where(together & partners, weight, 0.0).sum(axis=1)  # recomputed inside the sets
        can_send = (together & partners).any(axis=1)
        if above is None:
            can_send &= parts[member] > 1
        if can_send.any():
            k = int(np.argmax(np.where(can_send, omega, -np.inf)))
            inside = np.flatnonzero(together[k])
            sent = (
                inside[partners[k, inside]]
                if above is not None
                else _dealt(weight, k, inside, parts, int(member[k]), new)
            )
        else:  # departure: every split would be empty
            sent = _one_alone(weight, member)
        member[sent] = new
    return member


def _dealt(weight: FloatArray, k: int, inside: IntArray, parts: IntArray, old: int, new: int) -> IntArray:
    """Deal the key groups of k's set to the parts with which they share least weight; returns those that leave."""
    total = int(parts[old])
    share = np.array([(total + 1) // 2, total // 2])
    parts[old], parts[new] = share
    order = [k, *(int(j) for j in inside[np.argsort(-np.diag(weight)[inside], kind="stable")] if j != k)]
    shared = np.zeros((2, weight.shape[0]))
    halves: tuple[list[int], list[int]] = ([], [])
    for j in order:
        side = 0 if shared[0, j] / share[0] <= shared[1, j] / share[1] else 1
        halves[side].append(j)
        shared[side] += weight[j]
    return np.array(halves[1], dtype=np.int64)


def _one_alone(weight: FloatArray, member: IntArray) -> IntArray:
    """The largest key group of the set with the largest sum, of the sets that have two or more."""
    sizes = np.bincount(member)
    sums = np.bincount(member, weights=np.diag(weight))
    chosen = int(np.argmax(np.where(sizes >= 2, sums, -np.inf)))
    inside = np.flatnonzero(member == chosen)
    return inside[[int(np.argmax(np.diag(weight)[inside]))]]


# The baselines of [Guo2018], section 5: UHLB, a fresh universal hash, and PKG without its splitting -------------------


PRIME = (1 << 61) - 1
"""A Mersenne prime above any number of key groups."""


def universal_hash(key_groups: int, nodes: int, rng: np.random.Generator) -> IntArray:
    """((a k + b) mod P) mod n with random a in 1..P-1 and b in 0..P-1, for k = 0..key_groups-1.

    Notes
    -----
    Source: [Carter1979]: two keys collide with
    probability at most 1/n.
    """
    a, b = int(rng.integers(1, PRIME)), int(rng.integers(0, PRIME))
    return np.array([((a * k + b) % PRIME) % nodes for k in range(key_groups)], dtype=np.int64)


def uhlb(problem: MCLB, *, budget: Budget, seed: int = 0) -> Answer:
    """A fresh 2-universal hash of the key groups onto the nodes; loads and current nodes play no part.

    No guarantee on one draw; in expectation two key groups share a node with probability at most 1/n. O(p).
    A fresh hash moves a share (n - 1)/n of the state in expectation.

    Notes
    -----
    Source: [Guo2018], section 5. An answer over the budget is dropped.
    """
    core = problem.core
    return Answer(core.lift(universal_hash(core.load.shape[0], core.nodes, np.random.default_rng(seed))))


def pkg(problem: MCLB, *, budget: Budget, seed: int = 0, choices: Count = 2) -> Answer:
    """Each key group, in order, to the less loaded of the nodes that two hashes give it.

    No guarantee in MCLB's terms. O(p * choices).

    Parameters
    ----------
    problem : MCLB
    budget : Budget
    seed : int
        Draws the hash functions.
    choices : int, default 2
        Number of hash functions.

    Notes
    -----
    Source: [Guo2018], section 5, after [Nasir2015]. Departure: partial key grouping splits a key over both its
    nodes, tuple by tuple, which a stateful key group cannot be: here it goes as a whole, by its load over all windows.
    `KeySplitting` has the method itself. An answer over the budget is dropped.
    """
    core = problem.core
    rng = np.random.default_rng(seed)
    candidates = np.stack([universal_hash(core.load.shape[0], core.nodes, rng) for _ in range(choices)])
    size, loads = core.load.sum(axis=1), np.zeros(core.nodes)
    chosen = np.empty(size.size, dtype=np.int64)
    for k in range(size.size):
        chosen[k] = min(candidates[:, k].tolist(), key=lambda i: loads[i])
        loads[chosen[k]] += size[k]
    return Answer(core.lift(chosen))
