"""What must move at least where earlier measures are kept: sums that take one pass, at any size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from keyshift.models.objectives import TIE, Prioritised
from keyshift.models.problem import step_of_sums
from keyshift.models.rules.lowered import Lowered, Rooms
from keyshift.models.rules.ruled import BROKEN, Ruled
from keyshift.models.workload import BoolArray, FloatArray

MOVED = ("migrations", "state_moved")


def cost_of(problem: Prioritised, measure: str) -> FloatArray:
    """What each key group adds to a measure of `MOVED` when it leaves its node, shape (p,)."""
    w = problem.workload
    return np.ones(w.key_groups) if measure == "migrations" else w.state


def rules_kept(problem: Prioritised, kept: Mapping[str, float]) -> Lowered | None:
    """The rules that an assignment keeps which keeps some measures; None where there are none."""
    if not isinstance(problem, Ruled):
        return None
    return problem.hard().lowered if kept.get(BROKEN, 1.0) <= TIE else problem.lowered


def least_moved(problem: Prioritised, measure: str, kept: Mapping[str, float]) -> float:
    r"""A lower bound on a measure of `MOVED`, where earlier measures are kept, by arithmetic alone at any size.

    A move takes a key group out of one domain of a room and puts it into one other. With :math:`h_d` the weight that domain d of
    a room runs today, every assignment that keeps the room moves key groups of d that weigh :math:`h_d - most_d` at least, and
    moves key groups that weigh :math:`least_d - h_d` at least into d. What these cost at least is a fractional knapsack a domain,
    and as nothing leaves two domains of a room, or enters two, the sums over its domains are bounds:

    .. math::

        (1) \quad moved \ge \sum_d \min \Bigl\{ \sum_{k \in d} c_k z_k : \sum_{k \in d} w_k z_k \ge h_d - most_d \Bigr\},
        \qquad
        (2) \quad moved \ge \sum_d \min \Bigl\{ \sum_{k \notin d} c_k z_k : \sum_{k \notin d} w_k z_k \ge least_d - h_d \Bigr\}

    with :math:`c_k` = 1, or the state of k, and :math:`0 \le z_k \le 1`. Bounds of rooms without a common key group add up.
    A load distance that is kept is a room: the most that each node runs.
    """
    w, cost = problem.workload, cost_of(problem, measure)
    low, whole = rules_kept(problem, kept), bool(step_of_sums(cost))
    must = np.zeros(w.key_groups, dtype=bool)
    if "draining_load" in kept:
        must |= w.draining[w.current] & (w.last_load > kept["draining_load"] + TIE * w.last_load.sum())
    if low is not None and low.closed is not None:
        must |= low.closed[np.arange(w.key_groups), w.current]
    rooms = [*(() if low is None else low.rooms), *_near_the_mean(problem, kept)]
    known = sorted(((_through(room, w.current, cost, must, whole), room) for room in rooms), key=lambda one: -one[0])
    total, counted = 0.0, np.zeros(w.key_groups, dtype=bool)
    for least, room in known:
        if not counted[room.key_groups].any():
            total += least
            counted[room.key_groups] = True
    total += float(cost[must & ~counted].sum())
    return total if whole else total * (1 - 1e-12)


def _near_the_mean(problem: Prioritised, kept: Mapping[str, float]) -> list[Rooms]:
    """What a load distance that is kept leaves each node to run in the last window, where traffic is no load."""
    w, it = problem.workload, problem.searched()
    if "load_distance" not in kept or len(it.load) > 1 or it.per_tuple:
        return []
    total = float(w.capacity[w.kept].sum())
    mean = float(it.load[0].sum()) / total if it.mean is None else float(it.mean[0])
    far = kept["load_distance"] + TIE * mean
    most, least = w.capacity * (mean + far), np.zeros(w.nodes)
    if w.nodes * w.key_groups <= 20_000_000:  # what a node lacks takes a sort of all key groups
        least = np.where(w.kept, w.capacity * (mean - far), 0.0)
    return [Rooms(np.arange(w.key_groups), it.load[0], np.arange(w.nodes), least, most)]


def _through(room: Rooms, current: np.ndarray, cost: FloatArray, must: BoolArray, whole: bool) -> float:
    """The larger of (1), with the key groups that must leave anyway, and (2)."""
    here, held = room.domain[current[room.key_groups]], room.held(current)
    cost, must, weight = cost[room.key_groups], must[room.key_groups], room.weights
    spare = TIE * room.heaviest
    out, into = float(cost[must & (here < 0)].sum()), 0.0
    order = np.argsort(here, kind="stable")
    starts = np.searchsorted(here[order], np.arange(room.most.size + 1))
    for d, (begin, end) in enumerate(pairwise(starts)):
        own = order[begin:end]
        surplus, missing = held[d] - room.most[d] - spare, room.least[d] - held[d] - spare
        out += max(float(cost[own[must[own]]].sum()), _cover(cost[own], weight[own], surplus, whole))
        if missing > 0:
            others = np.r_[order[:begin], order[end:]]
            into += _cover(cost[others], weight[others], missing, whole)
    return max(out, into)


def _cover(cost: FloatArray, weight: FloatArray, needed: float, whole: bool) -> float:
    """The least cost of shares of items that weigh so much together; of whole items, where all weigh the same."""
    if needed <= 0 or not (weight > 0).any():
        return 0.0
    cost, weight = cost[weight > 0], weight[weight > 0]
    if (weight == weight[0]).all():
        count = math.ceil(needed / weight[0] * (1 - 1e-9))
        return float(np.sort(cost)[:count].sum())
    order = np.argsort(cost / weight, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(weight[order])[:-1]])
    share = np.clip((needed - before) / weight[order], 0.0, 1.0)
    least = float(share @ cost[order]) * (1 - 1e-9)
    return float(math.ceil(least)) if whole else least
