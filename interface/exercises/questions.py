"""The exercises: about where key groups run, then about messages, intervals and uncertain futures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from keyshift.exercises.exercise import Exercise, Values, differs
from keyshift.models.base.figures import apart


def _distance(load: list[int], assignment: Any, nodes: int) -> float:
    loads = np.bincount(np.asarray(assignment, dtype=np.int64), load, nodes)
    return float(np.abs(loads - sum(load) / nodes).max())


def _everywhere(key_groups: int, nodes: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(nodes), repeat=key_groups)


def _moves(current: list[int], assignment: Any) -> int:
    return sum(int(a != b) for a, b in zip(current, assignment, strict=True))


def _moved(state: list[int], current: list[int], assignment: Any) -> int:
    return sum(s for s, i, j in zip(state, current, assignment, strict=True) if i != j)


def _between(rng: np.random.Generator, least: float, most: float) -> int:
    return int(rng.integers(round(least), round(most) + 1))


def _draw(rng: np.random.Generator, size: float) -> Values:
    key_groups, nodes = _between(rng, 1 + 2 * size, 2 + 4 * size), _between(rng, 1 + size, 2 + size)
    return rng.integers(0, 10, key_groups).tolist(), rng.integers(0, nodes, key_groups).tolist(), nodes


def _judge_distance(returned: Any, load: list[int], assignment: list[int], nodes: int) -> str:
    return differs(returned, _distance(load, assignment, nodes), "the largest deviation from the mean")


def _draw_limited(rng: np.random.Generator, size: float) -> Values:
    return *_draw(rng, size), int(rng.integers(0, 4))


def _judge_allocation(returned: Any, load: list[int], current: list[int], nodes: int, limit: int) -> str:
    if len(returned) != len(current):
        return f"you returned {len(returned)} nodes; there are {len(current)} key groups"
    if any(int(i) != i or not 0 <= i < nodes for i in returned):
        return f"you returned {list(returned)}; nodes are 0 to {nodes - 1}"
    if _moves(current, returned) > limit:
        return f"you returned {list(returned)}, which moves {_moves(current, returned)} key groups"
    able = [a for a in _everywhere(len(load), nodes) if _moves(current, a) <= limit]
    best = min(able, key=lambda a: _distance(load, a, nodes))
    reached, least = _distance(load, returned, nodes), _distance(load, best, nodes)
    if reached <= least + 1e-9:
        return ""
    yours, other = apart(reached, least)
    return f"you returned {list(returned)} with load distance {yours}; {list(best)} has {other}"


def _draw_target(rng: np.random.Generator, size: float) -> Values:
    return *_draw(rng, size), int(rng.integers(0, 6))


def _judge_fewest(returned: Any, load: list[int], current: list[int], nodes: int, distance: int) -> str:
    able = (a for a in _everywhere(len(load), nodes) if _distance(load, a, nodes) <= distance + 1e-9)
    fewest = min((_moves(current, a) for a in able), default=None)
    return differs(returned, fewest, "the least number of moves")


def _draw_traffic(rng: np.random.Generator, size: float) -> Values:
    load, *others = _draw_limited(rng, size)
    talk = rng.integers(0, 9, (len(load), len(load))) * (rng.random((len(load), len(load))) < 0.4)
    np.fill_diagonal(talk, 0)
    return load, *others, talk.tolist(), int(rng.integers(2, 12))


def _judge_traffic(
    returned: Any, load: list[int], current: list[int], nodes: int, limit: int, traffic: list[list[int]], distance: int
) -> str:
    talk = np.asarray(traffic)
    remote = [
        float(talk[np.not_equal.outer(a, a)].sum())
        for a in _everywhere(len(load), nodes)
        if _moves(current, a) <= limit and _distance(load, a, nodes) <= distance + 1e-9
    ]
    return differs(returned, min(remote, default=None), "the least remote traffic")


def _draw_draining(rng: np.random.Generator, size: float) -> Values:
    load, nodes = _draw(rng, size)[0], _between(rng, 1 + size, 2 + 2 * size)
    leaving = rng.permutation(nodes)[: int(rng.integers(0, nodes))]
    return load, rng.integers(0, nodes, len(load)).tolist(), nodes, sorted(leaving.tolist())


def _judge_draining(returned: Any, load: list[int], assignment: list[int], nodes: int, leaving: list[int]) -> str:
    above = np.bincount(assignment, load, nodes) - sum(load) / (nodes - len(leaving))
    deviation = np.where(np.isin(range(nodes), leaving), above, abs(above))
    return differs(returned, float(deviation.max()), "the load distance")


def _draw_front(rng: np.random.Generator, size: float) -> Values:
    load, current, nodes = _draw(rng, size)
    return load, current, nodes, rng.integers(1, 6, len(load)).tolist()


def _judge_front(returned: Any, load: list[int], current: list[int], nodes: int, state: list[int]) -> str:
    points = set()
    for a in _everywhere(len(load), nodes):
        loads = np.bincount(a, load, nodes)
        points.add((_moved(state, current, a), round(float(loads.var()), 9)))
    kept: list[tuple[float, float]] = []
    for moved, imbalance in sorted(points):
        if not kept or imbalance < kept[-1][1] - 1e-9:
            kept.append((moved, imbalance))
    if len(returned) == len(kept) and np.allclose(returned, kept, rtol=1e-6, atol=1e-6):
        return ""
    return f"you returned {returned}; the front is {[(float(a), round(b, 6)) for a, b in kept]}"


def _draw_routing(rng: np.random.Generator, size: float) -> Values:
    load, current, nodes, state = _draw_front(rng, size)
    home, theta = rng.integers(0, nodes, len(load)).tolist(), float(rng.choice([0.0, 0.25, 0.5, 1.0]))
    return load, current, nodes, state, home, theta, int(rng.integers(0, 4))


def _judge_routing(
    returned: Any, load: list[int], current: list[int], nodes: int, state: list[int], home: list[int], theta: float,
    entries: int,
) -> str:  # fmt: skip
    limit = (1 + theta) * sum(load) / nodes
    moved = [
        float(_moved(state, current, a))
        for a in _everywhere(len(load), nodes)
        if np.bincount(a, load, nodes).max() <= limit + 1e-9 and _moves(home, a) <= entries
    ]
    return differs(returned, min(moved, default=None), "the least state moved")


PLACEMENT = (
    Exercise(
        "load_distance(load, assignment, nodes) -> float\n"
        "The largest deviation of a node's load from the mean load of a node. `load` and `assignment` have one entry\n"
        "for each key group; a node without key groups counts, too.",
        "number", _draw, _judge_distance, (([6, 7], [1, 2], 3), ([5, 4], [1, 2], 3)),
    ),
    Exercise(
        "allocation(load, current, nodes, max_migrations) -> list of int\n"
        "An assignment of least load distance among those in which at most `max_migrations` key groups change node.\n"
        "Any of the best will do.",
        "numbers", _draw_limited, _judge_allocation,
        (
            ([1, 4, 1, 1], [2, 2, 1, 1], 3, 3), ([8, 3, 5, 2, 3], [0, 0, 0, 1, 1], 3, 3),
            ([9, 7, 9, 7, 3], [1, 1, 2, 2, 2], 3, 3), ([5, 14, 21, 7], [2, 0, 2, 0], 3, 1),
            ([4, 21, 1, 6], [0, 1, 1, 0], 3, 1),
        ),
    ),
    Exercise(
        "fewest_moves(load, current, nodes, distance) -> int or None\n"
        "The least number of key groups that must change node so that the load distance is at most `distance`; None\n"
        "if no assignment is that even.",
        "number or None", _draw_target, _judge_fewest,
        (([7, 3, 3, 2], [1, 0, 0, 2], 3, 2), ([5, 3, 6, 7], [0, 1, 1, 0], 2, 1), ([8, 3, 5, 5], [0, 1, 1, 0], 2, 1)),
    ),
    Exercise(
        "remote_traffic(load, current, nodes, max_migrations, traffic, distance) -> float or None\n"
        "The least traffic between key groups on different nodes, with at most `max_migrations` moves and a load\n"
        "distance of at most `distance`; None if there is no such assignment. `traffic[k][l]` goes from k to l.",
        "number or None", _draw_traffic, _judge_traffic,
        (([4, 5], [1, 0], 3, 3, [[0, 0], [5, 0]], 2), ([2, 8], [1, 0], 2, 1, [[0, 4], [0, 0]], 5)),
    ),
    Exercise(
        "draining(load, assignment, nodes, leaving) -> float\n"
        "The load distance while the nodes in `leaving` are emptied: the mean is the total load over the number of nodes\n"
        "that stay; a node that stays deviates by being above or below it, a leaving one only by being above.",
        "number", _draw_draining, _judge_draining,
        (([3, 0, 3], [3, 0, 3], 4, [3]), ([6, 7, 8, 7, 2], [1, 3, 1, 1, 0], 4, [1])),
    ),
    Exercise(
        "front(load, current, nodes, state) -> list of (state moved, imbalance)\n"
        "All points of the Pareto front, by rising movement. The imbalance is the population variance of the node\n"
        "loads.",
        "pairs", _draw_front, _judge_front,
        (([2, 1, 6], [0, 0, 0], 2, [4, 3, 5]), ([3, 6, 4], [1, 0, 0], 2, [2, 3, 4])),
    ),
    Exercise(
        "mixed_routing(load, current, nodes, state, home, theta, entries) -> float or None\n"
        "The least state moved such that no node exceeds (1 + theta) times the mean load and at most `entries` keys\n"
        "are on another node than `home`, the hash's; None if that cannot be.",
        "number or None", _draw_routing, _judge_routing, (([6, 1], [1, 1], 2, [1, 4], [0, 0], 1.0, 0),),
    ),
)  # fmt: skip


# Messages, intervals and uncertain futures ------------------------------------------------------------------------------


def _draw_messages(rng: np.random.Generator, size: float) -> Values:
    workers, keys = int(rng.integers(1, 3 + round(3 * size))), int(rng.integers(1, 3 + round(4 * size)))
    messages = rng.integers(0, keys, int(rng.integers(1, 5 + round(20 * size)))).tolist()
    return messages, rng.integers(0, workers, (keys, 2)).tolist(), workers


def _judge_greedy(returned: Any, messages: list[int], candidates: list[list[int]], workers: int) -> str:
    loads = [0] * workers
    for key in messages:
        first, second = candidates[key]
        loads[second if loads[second] < loads[first] else first] += 1
    return "" if returned == loads else f"you returned {returned}; the workers end with {loads}"


def _judge_split(returned: Any, messages: list[int], candidates: list[list[int]], workers: int) -> str:
    least = 0
    for size in range(1, workers + 1):  # messages that cannot leave a set of workers fill one of them
        for group in itertools.combinations(range(workers), size):
            held = sum(set(candidates[key]) <= set(group) for key in messages)
            least = max(least, math.ceil(held / size))
    return differs(returned, least, "the least possible largest load")


def _draw_intervals(rng: np.random.Generator, size: float) -> Values:
    tasks, nodes = int(rng.integers(1, 3 + round(5 * size))), int(rng.integers(1, 2 + round(2 * size)))
    load, state = rng.integers(0, 6, tasks), rng.integers(0, 9, tasks)
    current, nodes_after = np.sort(rng.integers(0, nodes, tasks)), int(rng.integers(1, 5))
    limit = int(rng.integers(max(load), 2 + load.sum()))
    return load.tolist(), state.tolist(), current.tolist(), nodes_after, limit


def _judge_intervals(
    returned: Any, load: list[int], state: list[int], current: list[int], nodes_after: int, limit: int
) -> str:
    tasks, best = len(load), None
    old = [[k for k in range(tasks) if current[k] == i] for i in sorted(set(current))]
    for inner in itertools.combinations_with_replacement(range(tasks + 1), nodes_after - 1):
        cuts = [0, *inner, tasks]
        new = [range(a, b) for a, b in itertools.pairwise(cuts)]
        if any(sum(load[k] for k in part) > limit for part in new):
            continue
        kept = np.array([[sum(state[k] for k in part if k in was) for was in old] for part in new])
        gain = int(kept[linear_sum_assignment(-kept)].sum())
        best = gain if best is None else max(best, gain)
    return differs(returned, None if best is None else sum(state) - best, "the least state moved")


def _draw_policy(rng: np.random.Generator, size: float) -> Values:
    states, events = int(rng.integers(1, 3 + round(3 * size))), int(rng.integers(1, 3))
    chance = rng.integers(1, 10, events)
    drawn = (rng.choice(states, int(rng.integers(1, states + 1)), replace=False) for _ in range(events))
    allowed = [sorted(some.tolist()) for some in drawn]
    place = rng.integers(0, 10, states)
    cost = np.abs(np.subtract.outer(place, place))
    return cost.tolist(), (chance / chance.sum()).tolist(), allowed, float(rng.choice([0.0, 0.5, 0.8]))


def _judge_policy(
    returned: Any, cost: list[list[int]], chance: list[float], allowed: list[list[int]], discount: float
) -> str:
    step, value = np.asarray(cost, dtype=float), np.zeros(len(cost))
    for _ in range(200):  # 0.8 ** 200 is 4e-20: far below what is compared
        ways = zip(chance, allowed, strict=True)
        value = np.sum([p * (step[:, to] + discount * value[to]).min(axis=1) for p, to in ways], axis=0)
    said = np.asarray(returned, dtype=float)
    if said.shape != value.shape:
        return f"you returned {said.size} values; there are {value.size} states"
    if np.allclose(said, value, rtol=1e-6, atol=1e-6):
        return ""
    return f"you returned {said.round(6).tolist()}; the values are {value.round(6).tolist()}"


STREAMS = (
    Exercise(
        "greedy_two(messages, candidates, workers) -> list of int\n"
        "Partial key grouping: each message, a key, goes to the one of its key's two candidates that has had fewer\n"
        "messages so far, to the first of them on a tie. The final loads of the workers.",
        "numbers", _draw_messages, _judge_greedy,
    ),
    Exercise(
        "split_optimum(messages, candidates, workers) -> int\n"
        "The least possible largest load of a worker when all messages are known beforehand and each may go to either\n"
        "candidate of its key.",
        "number", _draw_messages, _judge_split,
        (([0, 0, 0, 0, 1, 1, 1], [[0, 1], [1, 1]], 2), ([0, 1, 2] * 4, [[0, 1], [1, 2], [2, 0]], 5)),
    ),
    Exercise(
        "intervals(load, state, current, nodes_after, limit) -> float or None\n"
        "Tasks in order, each node a contiguous range (it may be empty), no node above `limit`: the least state of\n"
        "tasks that change node; None if no cuts are within the limit. New nodes hold nothing.",
        "number or None", _draw_intervals, _judge_intervals,
        (([1, 3], [5, 7], [0, 0], 4, 3), ([1, 3], [4, 7], [0, 0], 2, 3)),
    ),
    Exercise(
        "policy_value(cost, chance, allowed, discount) -> list of float\n"
        "At each step event e comes with probability chance[e]; then one moves from state s to one of allowed[e], at\n"
        "cost[s][t] - staying is moving to s, if allowed. The least expected discounted cost from each state, for ever.",
        "numbers", _draw_policy, _judge_policy,
        (([[0, 2, 4, 1], [2, 0, 6, 3], [4, 6, 0, 3], [1, 3, 3, 0]], [0.3, 0.7], [[2, 3], [1, 2]], 0.8),),
    ),
)  # fmt: skip
