"""Exercises about where key groups run: loads, few moves, traffic, fronts, a hash with exceptions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from keyshift.exercises.exercise import Exercise, Instance, differs


def _distance(load: list[int], assignment: Any, nodes: int) -> float:
    loads = np.bincount(np.asarray(assignment, dtype=np.int64), load, nodes)
    return float(np.abs(loads - sum(load) / nodes).max())


def _everywhere(key_groups: int, nodes: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(nodes), repeat=key_groups)


def _moves(current: list[int], assignment: Any) -> int:
    return sum(int(a != b) for a, b in zip(current, assignment, strict=True))


def _read(instance: Instance, returned: Any) -> str:
    """Errors in a returned assignment, found before it is valued."""
    wanted = len(instance["current"])
    if len(returned) != wanted:
        return f"you returned {len(returned)} nodes; there are {wanted} key groups"
    if any(int(i) != i or not 0 <= i < instance["nodes"] for i in returned):
        return f"you returned {list(returned)}; nodes are 0 to {instance['nodes'] - 1}"
    return ""


def _between(rng: np.random.Generator, least: float, most: float) -> int:
    return int(rng.integers(round(least), round(most) + 1))


def _draw(rng: np.random.Generator, size: float) -> Instance:
    key_groups, nodes = _between(rng, 1 + 2 * size, 2 + 4 * size), _between(rng, 1 + size, 2 + size)
    return {
        "load": rng.integers(0, 10, key_groups).tolist(),
        "current": rng.integers(0, nodes, key_groups).tolist(),
        "nodes": nodes,
    }


def _draw_assigned(rng: np.random.Generator, size: float) -> Instance:
    drawn = _draw(rng, size)
    return {"load": drawn["load"], "assignment": drawn["current"], "nodes": drawn["nodes"]}


def _judge_distance(instance: Instance, returned: Any) -> str:
    return differs(returned, _distance(**instance), "the largest deviation from the mean")


def _draw_limited(rng: np.random.Generator, size: float) -> Instance:
    return {**_draw(rng, size), "max_migrations": int(rng.integers(0, 4))}


def _judge_allocation(instance: Instance, returned: Any) -> str:
    if wrong := _read(instance, returned):
        return wrong
    load, current, nodes, limit = instance.values()
    if _moves(current, returned) > limit:
        return f"you returned {list(returned)}, which moves {_moves(current, returned)} key groups"
    able = [a for a in _everywhere(len(load), nodes) if _moves(current, a) <= limit]
    best = min(able, key=lambda a: _distance(load, a, nodes))
    reached, least = _distance(load, returned, nodes), _distance(load, best, nodes)
    if reached <= least + 1e-9:
        return ""
    return f"you returned {list(returned)} with load distance {reached:g}; {list(best)} has {least:g}"


def _draw_target(rng: np.random.Generator, size: float) -> Instance:
    return {**_draw(rng, size), "distance": int(rng.integers(0, 6))}


def _judge_fewest(instance: Instance, returned: Any) -> str:
    load, current, nodes, distance = instance.values()
    able = (a for a in _everywhere(len(load), nodes) if _distance(load, a, nodes) <= distance + 1e-9)
    fewest = min((_moves(current, a) for a in able), default=None)
    return differs(returned, fewest, "the least number of moves")


def _draw_traffic(rng: np.random.Generator, size: float) -> Instance:
    drawn = _draw_limited(rng, size)
    p = len(drawn["load"])
    talk = rng.integers(0, 9, (p, p)) * (rng.random((p, p)) < 0.4)
    np.fill_diagonal(talk, 0)
    return {**drawn, "traffic": talk.tolist(), "distance": int(rng.integers(2, 12))}


def _judge_traffic(instance: Instance, returned: Any) -> str:
    load, current, nodes, limit, traffic, distance = instance.values()
    talk = np.asarray(traffic)
    remote = [
        float(talk[np.not_equal.outer(a, a)].sum())
        for a in _everywhere(len(load), nodes)
        if _moves(current, a) <= limit and _distance(load, a, nodes) <= distance + 1e-9
    ]
    return differs(returned, min(remote, default=None), "the least remote traffic")


def _draw_draining(rng: np.random.Generator, size: float) -> Instance:
    load, nodes = _draw(rng, size)["load"], _between(rng, 1 + size, 2 + 2 * size)
    leaving = rng.permutation(nodes)[: int(rng.integers(0, nodes))]
    return {
        "load": load,
        "assignment": rng.integers(0, nodes, len(load)).tolist(),
        "nodes": nodes,
        "leaving": sorted(leaving.tolist()),
    }


def _judge_draining(instance: Instance, returned: Any) -> str:
    load, assignment, nodes, leaving = instance.values()
    above = np.bincount(assignment, load, nodes) - sum(load) / (nodes - len(leaving))
    deviation = np.where(np.isin(range(nodes), leaving), above, abs(above))
    return differs(returned, float(deviation.max()), "the load distance")


def _draw_front(rng: np.random.Generator, size: float) -> Instance:
    drawn = _draw(rng, size)
    return {**drawn, "state": rng.integers(1, 6, len(drawn["load"])).tolist()}


def _judge_front(instance: Instance, returned: Any) -> str:
    load, current, nodes, state = instance.values()
    points = set()
    for a in _everywhere(len(load), nodes):
        loads = np.bincount(a, load, nodes)
        moved = sum(s for s, i, j in zip(state, current, a, strict=True) if i != j)
        points.add((moved, round(float(loads.var()), 9)))
    kept: list[tuple[float, float]] = []
    for moved, imbalance in sorted(points):
        if not kept or imbalance < kept[-1][1] - 1e-9:
            kept.append((moved, imbalance))
    if len(returned) == len(kept) and np.allclose(returned, kept, rtol=1e-6, atol=1e-6):
        return ""
    return f"you returned {returned}; the front is {[(float(a), round(b, 6)) for a, b in kept]}"


def _draw_routing(rng: np.random.Generator, size: float) -> Instance:
    drawn = _draw_front(rng, size)
    home = rng.integers(0, drawn["nodes"], len(drawn["load"])).tolist()
    return {
        **drawn,
        "home": home,
        "theta": float(rng.choice([0.0, 0.25, 0.5, 1.0])),
        "entries": int(rng.integers(0, 4)),
    }


def _judge_routing(instance: Instance, returned: Any) -> str:
    load, current, nodes, state, home, theta, entries = instance.values()
    limit = (1 + theta) * sum(load) / nodes
    moved = [
        float(sum(s for s, i, j in zip(state, current, a, strict=True) if i != j))
        for a in _everywhere(len(load), nodes)
        if np.bincount(a, load, nodes).max() <= limit + 1e-9 and _moves(home, a) <= entries
    ]
    return differs(returned, min(moved, default=None), "the least state moved")


PLACEMENT = (
    Exercise(
        "load-distance",
        "load_distance(load, assignment, nodes) -> float\n"
        "The largest deviation of a node's load from the mean load of a node. `load` and `assignment` have one entry\n"
        "for each key group; a node without key groups counts, too.",
        "number",
        _draw_assigned,
        _judge_distance,
        ({"load": [6, 7], "assignment": [1, 2], "nodes": 3}, {"load": [5, 4], "assignment": [1, 2], "nodes": 3}),
    ),
    Exercise(
        "allocation",
        "allocation(load, current, nodes, max_migrations) -> list of int\n"
        "An assignment of least load distance among those in which at most `max_migrations` key groups change node.\n"
        "Any of the best will do.",
        "numbers",
        _draw_limited,
        _judge_allocation,
        (
            {"load": [1, 4, 1, 1], "current": [2, 2, 1, 1], "nodes": 3, "max_migrations": 3},
            {"load": [8, 3, 5, 2, 3], "current": [0, 0, 0, 1, 1], "nodes": 3, "max_migrations": 3},
            {"load": [9, 7, 9, 7, 3], "current": [1, 1, 2, 2, 2], "nodes": 3, "max_migrations": 3},
            {"load": [5, 14, 21, 7], "current": [2, 0, 2, 0], "nodes": 3, "max_migrations": 1},
            {"load": [4, 21, 1, 6], "current": [0, 1, 1, 0], "nodes": 3, "max_migrations": 1},
        ),
    ),
    Exercise(
        "fewest-moves",
        "fewest_moves(load, current, nodes, distance) -> int or None\n"
        "The least number of key groups that must change node so that the load distance is at most `distance`; None\n"
        "if no assignment is that even.",
        "number or None",
        _draw_target,
        _judge_fewest,
        (
            {"load": [7, 3, 3, 2], "current": [1, 0, 0, 2], "nodes": 3, "distance": 2},
            {"load": [5, 3, 6, 7], "current": [0, 1, 1, 0], "nodes": 2, "distance": 1},
            {"load": [8, 3, 5, 5], "current": [0, 1, 1, 0], "nodes": 2, "distance": 1},
        ),
    ),
    Exercise(
        "remote-traffic",
        "remote_traffic(load, current, nodes, max_migrations, traffic, distance) -> float or None\n"
        "The least traffic between key groups on different nodes, with at most `max_migrations` moves and a load\n"
        "distance of at most `distance`; None if there is no such assignment. `traffic[k][l]` goes from k to l.",
        "number or None",
        _draw_traffic,
        _judge_traffic,
        (
            {
                "load": [4, 5],
                "current": [1, 0],
                "nodes": 3,
                "max_migrations": 3,
                "traffic": [[0, 0], [5, 0]],
                "distance": 2,
            },
            {
                "load": [2, 8],
                "current": [1, 0],
                "nodes": 2,
                "max_migrations": 1,
                "traffic": [[0, 4], [0, 0]],
                "distance": 5,
            },
        ),
    ),
    Exercise(
        "draining",
        "draining(load, assignment, nodes, leaving) -> float\n"
        "The load distance while the nodes in `leaving` are emptied: the mean is the total load over the number of nodes\n"
        "that stay; a node that stays deviates by being above or below it, a leaving one only by being above.",
        "number",
        _draw_draining,
        _judge_draining,
        (
            {"load": [3, 0, 3], "assignment": [3, 0, 3], "nodes": 4, "leaving": [3]},
            {"load": [6, 7, 8, 7, 2], "assignment": [1, 3, 1, 1, 0], "nodes": 4, "leaving": [1]},
        ),
    ),
    Exercise(
        "front",
        "front(load, current, nodes, state) -> list of (state moved, imbalance)\n"
        "All points of the Pareto front, by rising movement. The imbalance is the population variance of the node\n"
        "loads.",
        "pairs",
        _draw_front,
        _judge_front,
        (
            {"load": [2, 1, 6], "current": [0, 0, 0], "nodes": 2, "state": [4, 3, 5]},
            {"load": [3, 6, 4], "current": [1, 0, 0], "nodes": 2, "state": [2, 3, 4]},
        ),
    ),
    Exercise(
        "mixed-routing",
        "mixed_routing(load, current, nodes, state, home, theta, entries) -> float or None\n"
        "The least state moved such that no node exceeds (1 + theta) times the mean load and at most `entries` keys\n"
        "are on another node than `home`, the hash's; None if that cannot be.",
        "number or None",
        _draw_routing,
        _judge_routing,
        ({"load": [6, 1], "current": [1, 1], "nodes": 2, "state": [1, 4], "home": [0, 0], "theta": 1.0, "entries": 0},),
    ),
)
