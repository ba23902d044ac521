"""Changes of the assignment on the way: which key groups are held when, and which nodes stand still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base.guards import indices, non_negative, one_of, real
from keyshift.models.base.labels import aligned
from keyshift.models.errors import InputError
from keyshift.models.problem import read_assignment
from keyshift.models.workload import FloatArray, IntArray, Workload
from keyshift.plans.plan import Plan

PAUSES = ("keys", "nodes", "all")


@dataclass(frozen=True, eq=False)
class Migration:
    """How state is transferred when the assignment changes, and which tuples wait for it.

    Parameters
    ----------
    bandwidth : float, optional
        Units of state a second that a node sends and receives; None: transfers take no time. A `Plan` has its own.
    state : array_like, shape (p,) or (changes, p), optional
        State of each key group, at each change; by default the workload's.
    seconds : float, default 0
        Further seconds that each transfer of a key group takes.
    pause : {"keys", "nodes", "all"}, default "keys"
        What is paused: the moved key groups; also the nodes that send or receive, until they have done so; or all
        nodes.
    progressive : bool, default True
        If a change has phases, each phase pauses only its own key groups. Otherwise all are paused from the first phase
        on.
    buffers : bool, default True
        Tuples of a key group in transit are buffered and replayed to its new node, in their order, when its state has
        arrived. Otherwise the first of them waits in the new node's queue and blocks the tuples behind it.

    Notes
    -----
    Tuples that arrived before a change are served by the old node during the transfer: the model does not require that
    the queue is empty before the state leaves. Buffers are unlimited. A transfer takes no processor time of a node,
    unless it pauses.
    """

    bandwidth: float | None = None
    state: ArrayLike | None = None
    seconds: float = 0.0
    pause: Literal["keys", "nodes", "all"] = "keys"
    progressive: bool = True
    buffers: bool = True

    def __post_init__(self) -> None:
        real("bandwidth", self.bandwidth, above=True)
        real("seconds", self.seconds, optional=False)
        one_of("pause", self.pause, PAUSES)


class Holds(NamedTuple):
    """Tuples of `key` go to `target` from `start` on, and are served there from ``release[group]`` on; by start."""

    start: FloatArray
    key: IntArray
    target: IntArray
    group: IntArray
    release: FloatArray


class Standstills(NamedTuple):
    """When nodes stand still: those of node i are ``first[i]`` to ``first[i + 1]``, in order and apart."""

    first: IntArray
    start: FloatArray
    end: FloatArray


class TransferPhase(NamedTuple):
    """One phase of a change: what moves, when it is held and released, and which nodes take part (node, start, end)."""

    key: IntArray
    target: IntArray
    start: FloatArray
    release: FloatArray
    taking_part: tuple[IntArray, FloatArray, FloatArray]


def read_changes(
    changes: Sequence[tuple[float, Any]], placement: IntArray, nodes: int, how: Migration, state: Any
) -> tuple[Holds, Standstills]:
    """Carry out the changes one after another from a placement, shape (p,)."""
    now, before, found = placement.copy(), 0.0, []
    states = _states(how.state if how.state is not None else state, placement.size, len(changes))
    for c, (when, what) in enumerate(changes):
        if when < before:
            raise InputError(f"changes[{c}] at {when:g} s comes before the one before it: sort the changes by time")
        if isinstance(what, Plan):
            phases = _of_plan(what, now, when, how)
        else:
            phases = _of_assignments(what, now, when, how, states[min(c, len(states) - 1)], nodes)
        for one in phases:
            now[one.key] = one.target
            found.append(one)
        before = when
    return _holds(found), _standstills(found, nodes, how.pause)


def _states(given: Any, p: int, changes: int) -> FloatArray:
    if given is None:
        return np.ones((1, p))
    states = non_negative("state", given, ndim=(1, 2), length=p, of="key groups")
    if states.shape[0] not in (1, changes):
        raise InputError(f"state has {states.shape[0]} rows, expected one for each of the {changes} changes")
    return states


def _of_plan(plan: Plan, now: IntArray, when: float, how: Migration) -> list[TransferPhase]:
    """The plan's own times; a phase holds its key groups from its start on."""
    if not np.array_equal(plan.current, now):
        raise InputError(f"the plan at {when:g} s begins from another assignment than the one in force then")
    if plan.bandwidth is None and len(plan):
        raise InputError("the plan has no bandwidth, so its times are not in seconds: make the plan with a bandwidth")
    begins = np.array([phase.start for phase in plan.phases])
    start = begins[plan.phase] if how.progressive else np.zeros(len(plan))
    end = plan.end + how.seconds
    ends = np.concatenate([plan.source, plan.target]), np.tile(when + plan.start, 2), np.tile(when + end, 2)
    return [TransferPhase(plan.key_group, plan.target, when + start, when + end, ends)]


def _of_assignments(
    rows: IntArray, now: IntArray, when: float, how: Migration, state: FloatArray, nodes: int
) -> list[TransferPhase]:
    """Phase after phase; all transfers of a node run at once and share its bandwidth, so they end together."""
    before, found = now, []
    for row in np.atleast_2d(rows) if how.progressive else np.atleast_2d(rows)[-1:]:
        after = read_assignment(row, now.size, nodes)
        key = np.flatnonzero(before != after)
        source, target = before[key], after[key]
        moved = np.bincount(source, state[key], nodes) + np.bincount(target, state[key], nodes)
        takes = moved / (np.inf if how.bandwidth is None else how.bandwidth)
        part = np.union1d(source, target)
        takes[part] += how.seconds
        release = when + np.maximum(takes[source], takes[target])
        taking_part = part, np.full(part.size, when), when + takes[part]
        found.append(TransferPhase(key, target, np.full(key.size, when), release, taking_part))
        before, when = after, when + float(takes.max())
    return found


def _holds(found: list[TransferPhase]) -> Holds:
    if not found:
        none = np.empty(0, np.int64)
        return Holds(np.empty(0), none, none, none, np.empty(0))
    key, target, start, end = (np.concatenate([one[i] for one in found]) for i in range(4))
    order = np.lexsort((start, key))
    again = np.flatnonzero((np.diff(key[order]) == 0) & (start[order][1:] < end[order][:-1]))
    if again.size:
        first, i = order[again[0] : again[0] + 2]
        said = f"key group {key[i]} moves again at {start[i]:g} s, before its state has arrived at {end[first]:g} s"
        raise InputError(said)
    release, group = np.unique(end, return_inverse=True)
    order = np.argsort(start, kind="stable")
    return Holds(start[order], key[order], target[order], group[order], release)


def _standstills(found: list[TransferPhase], nodes: int, pause: str) -> Standstills:
    none = (np.empty(0, np.int64), np.empty(0), np.empty(0))
    node, start, end = (
        np.concatenate(column) for column in zip(none, *(one.taking_part for one in found), strict=True)
    )
    if pause == "all":
        node, start, end = np.repeat(np.arange(nodes), node.size), np.tile(start, nodes), np.tile(end, nodes)
    merged: list[list[float]] = []
    firsts = np.zeros(nodes + 1, dtype=np.int64)
    for i in range(nodes) if pause != "keys" else ():
        firsts[i] = len(merged)
        mine = np.flatnonzero(node == i)
        for j in mine[np.argsort(start[mine], kind="stable")]:
            if len(merged) > firsts[i] and start[j] <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], float(end[j]))
            elif end[j] > start[j]:
                merged.append([float(start[j]), float(end[j])])
    firsts[nodes] = len(merged)
    spans = np.array(merged).reshape(-1, 2)
    return Standstills(firsts, np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1]))


# The tuples that a simulation serves: a log, or rates from which one is drawn ------------------------------------------

ARRIVALS = ("poisson", "even")


class TupleLog(NamedTuple):
    """Tuples in the order in which they come: seconds, key groups, and the work of each (none: 1 each)."""

    times: FloatArray
    keys: IntArray
    work: FloatArray
    seconds: float


@dataclass(frozen=True, eq=False)
class WindowRates:
    """Tuples of each key group in each window, shape (m, p), and how long a window is, in seconds."""

    load: FloatArray
    window_seconds: float

    @property
    def seconds(self) -> float:
        """How long the stream is."""
        return float(self.load.shape[0] * self.window_seconds)

    @property
    def tuples(self) -> float:
        """Tuples of all windows."""
        return float(self.load.sum())

    def draw(self, arrivals: str, rng: np.random.Generator) -> TupleLog:
        """One log: a Poisson process of each key group, or its tuples (rounded) evenly over each window."""
        parts = [(_poisson if arrivals == "poisson" else _even)(row, rng) for row in self.load]
        times = [(t + share) * self.window_seconds for t, (share, _) in enumerate(parts)]
        keys = np.concatenate([keys for _, keys in parts])
        return TupleLog(np.concatenate(times), keys, np.empty(0), self.seconds)


def _poisson(load: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Times as shares of the window: gaps are exponential, so the sums over all of them are uniform order statistics."""
    total = load.sum()
    times = rng.standard_exponential(rng.poisson(total) + 1)
    np.cumsum(times, out=times)
    times /= times[-1]
    if times.size == 1:
        return times[:0], np.empty(0, np.int32)
    busy = np.flatnonzero(load)  # rounding must not give tuples to a key group that has none
    found = np.searchsorted(np.cumsum(load[busy])[:-1] / total, rng.random(times.size - 1), side="right")
    return times[:-1], busy.astype(np.int32)[found]


def _even(load: FloatArray, _: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Each key group's tuples at equal distances; the key groups begin one after another, not at once."""
    count = np.rint(load).astype(np.int64)
    keys = np.repeat(np.arange(load.size, dtype=np.int32), count)
    number = np.arange(keys.size) - np.repeat(np.cumsum(count) - count, count)
    times = (number + ((keys + 1) * ((5**0.5 - 1) / 2)) % 1.0) / count[keys]
    order = np.argsort(times, kind="stable")
    return times[order], keys[order]


def read_stream(given: Any, window_seconds: float) -> TupleLog | WindowRates:
    """Read a workload, loads or a log (times, keys[, work]); refuse anything else."""
    if isinstance(given, Workload):
        return WindowRates(given.load, window_seconds)
    if not isinstance(given, tuple):
        return WindowRates(non_negative("stream", given, ndim=(1, 2)), window_seconds)
    if len(given) not in (2, 3):
        raise InputError(f"stream has {len(given)} parts, expected (times, keys) or (times, keys, work)")
    names = ("times", "keys", "work")
    given = tuple(aligned(dict(zip(names, given, strict=False)), what="")[0].values())
    times = non_negative("times", given[0])
    back = np.flatnonzero(np.diff(times) < 0)
    if back.size:
        i = int(back[0]) + 1
        said = f"times[{i}] = {times[i]:g} comes before times[{i - 1}] = {times[i - 1]:g}: sort the log by time"
        raise InputError(said)
    keys = np.asarray(given[1])
    if keys.shape != times.shape:
        raise InputError(f"keys has shape {keys.shape}, expected {times.shape}: one key for each time")
    work = non_negative("work", given[2], length=times.size, of="tuples") if len(given) == 3 else np.empty(0)
    return TupleLog(times, indices("keys", keys, length=times.size, what="key"), work, float(times[-1]))
