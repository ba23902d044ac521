"""Exercises about messages, intervals and uncertain futures."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from keyshift.exercises.exercise import Exercise, Values, differs


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
