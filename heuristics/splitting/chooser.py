"""How many choices, and which keys to split how often: what a balance costs in memory, from a histogram of keys."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from keyshift.heuristics.splitting.partitioner import Partitioner
from keyshift.models import Budget, InputError
from keyshift.models.base.guards import non_negative, real, whole
from keyshift.models.base.labels import by_label
from keyshift.models.splitting.items import Groups, candidate_sets
from keyshift.models.splitting.stream import as_keys
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.splitting.flow import whole_flow


@dataclass(frozen=True)
class Option:
    """The balance that d choices for every key can reach.

    Attributes
    ----------
    choices : int
    optimum : float
        Imbalance at the end, divided by the messages, of the best that any scheme can do with these candidates.
    online : float or None
        Imbalance of greedy-d at the end of a trial stream of the same frequencies, divided by its messages; None if
        the optimum already misses the target.
    counters : int
        Memory: at most this many (key, worker) pairs.
    """

    choices: int
    optimum: float
    online: float | None
    counters: int


@dataclass(frozen=True)
class Advice:
    """The recommended scheme for staying below a target imbalance.

    Attributes
    ----------
    target : float
        Imbalance divided by messages.
    choices : int or None
        The least d with which greedy-d stays below it; None if none that was tried does.
    options : tuple of Option
        Every d that was tried, ascending.
    split : dict
        The plan: into how many parts to split each key that must be split, if every key could go anywhere.
    plan_imbalance : float
    plan_counters : int
        Memory of the plan: one counter for each key, and one more for each split.
    """

    target: float
    choices: int | None
    options: tuple[Option, ...]
    split: dict[int | str, int] = field(repr=False)
    plan_imbalance: float
    plan_counters: int


def choose_splitting(
    histogram: Mapping[int | str, int] | ArrayLike,
    workers: int = 10,
    target: float = 0.01,
    *,
    most_choices: int = 64,
    hash_seed: int = 0,
    seed: int = 0,
) -> Advice:
    """Find how many choices keep the imbalance below a target, and a few keys that are enough to split.

    Parameters
    ----------
    histogram : mapping of key to int, or array_like of int
        Messages of each key, by its label in a pandas Series; of an array, the keys are 0, 1, 2, ...
    workers : int
    target : float, default 0.01
        Imbalance divided by messages that is tolerated: 0.01 lets a worker have 1 % of all messages too many.
    most_choices : int, default 64
        The largest number of choices to try.
    hash_seed, seed : int
        Of the hash functions, and of the trial stream's order.

    Returns
    -------
    Advice

    Notes
    -----
    This procedure is keyshift's own. d starts at the least value that the universal bound max(p1 / d, 1 / W) allows.
    For every d a maximum flow computes the optimum with these candidates, and greedy-d on a trial stream shows what is
    reached; the least d for which both meet the target is returned. The plan puts keys, largest first, on the least
    loaded worker, and splits a key only if the worker would exceed 1/W + target of all messages: at most W - 1 splits
    more than the keys' sizes require.
    """
    labels, keys, count = _read(histogram)
    workers = whole("workers", workers, least=1, optional=False)
    real("target", target, optional=False, above=True)
    total = int(count.sum())
    trial = _trial(keys, count, seed)
    first = max(1, math.ceil(count.max() / total / (1 / workers + target) - 1e-9))
    options: list[Option] = []
    for d in range(min(first, workers), max(first, min(workers, most_choices)) + 1):
        options.append(_option(keys, count, workers, d, hash_seed, trial, target))
        if options[-1].online is not None and options[-1].online <= target:
            break
    last = options[-1]
    fits = last.online is not None and last.online <= target
    parts, largest = _plan(count, workers, math.floor(total / workers + target * total))
    split = {labels[k]: int(parts[k]) for k in np.flatnonzero(parts > 1)}
    return Advice(
        target,
        last.choices if fits else None,
        tuple(options),
        split,
        (largest - total / workers) / total,
        int(parts.sum()),
    )


def _read(histogram: Mapping[int | str, int] | ArrayLike) -> tuple[list[int | str], IntArray, IntArray]:
    """Labels, keys and counts of the keys that occur."""
    histogram = by_label("histogram", histogram)
    if isinstance(histogram, Mapping):
        labels: list[int | str] = list(histogram)
        values: FloatArray = non_negative("histogram", list(histogram.values()))
    else:
        values = non_negative("histogram", histogram)
        labels = list(range(values.size))
    broken = np.flatnonzero(values != np.floor(values))
    if broken.size:
        raise InputError(f"histogram[{labels[broken[0]]!r}] = {values[broken[0]]:g} must be a whole number of messages")
    if values.sum() == 0:
        raise InputError("histogram is empty: it counts no messages")
    held = np.flatnonzero(values > 0)
    return [labels[k] for k in held], as_keys([labels[k] for k in held]), values[held].astype(np.int64)


def _trial(keys: IntArray, count: IntArray, seed: int) -> IntArray:
    """The stream itself in random order, or a sample of it where it is long."""
    rng = np.random.default_rng(seed)
    total = int(count.sum())
    most = 1_000_000  # messages on which greedy-d is run
    if total <= most:
        return rng.permutation(np.repeat(keys, count))
    return keys[np.searchsorted(count.cumsum(), rng.integers(0, total, most), side="right")]


def _option(
    keys: IntArray, count: IntArray, workers: int, d: int, hash_seed: int, trial: IntArray, target: float
) -> Option:
    options, number = candidate_sets(keys, workers, d, hash_seed)
    together = np.bincount(number, weights=count, minlength=len(options)).astype(np.int64)
    groups = Groups(np.ones(workers), options, together, np.ones(len(options)))
    total = int(count.sum())
    optimum = (whole_flow(groups, Budget()).bound - total / workers) / total
    width = (options >= 0).sum(axis=1)
    counters = int(np.minimum(width[number], count).sum())
    if optimum > target:
        return Option(d, optimum, None, counters)
    partitioner = Partitioner("greedy-d", workers, d, hash_seed=hash_seed)
    partitioner.feed(trial)
    return Option(d, optimum, partitioner.imbalance / trial.size, counters)


def _plan(count: IntArray, workers: int, limit: int) -> tuple[IntArray, int]:
    """Number of parts of each key, and the largest load, when no worker may have more than `limit` messages."""
    limit = max(limit, -(-int(count.sum()) // workers))
    parts = np.zeros(count.size, dtype=np.int64)
    heap = [(0, w) for w in range(workers)]
    for k in np.argsort(-count, kind="stable").tolist():
        rest = int(count[k])
        while rest:
            load, w = heap[0]
            piece = min(rest, limit - load)
            heapq.heapreplace(heap, (load + piece, w))
            parts[k] += 1
            rest -= piece
    return parts, max(load for load, _ in heap)
