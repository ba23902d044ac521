"""The fewest phases of a migration: edge colouring of the bipartite graph of senders and receivers."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np

from keyshift.models import InputError, Workload
from keyshift.models.base.figures import apart
from keyshift.models.base.guards import real, whole
from keyshift.models.intervals.schedule import MigrationSchedule
from keyshift.models.problem import read_assignment
from keyshift.models.workload import IntArray


def schedule(
    workload: Workload,
    target: IntArray,
    *,
    max_tasks: int | None = None,
    max_state: float | None = None,
    per_link: int = 1,
) -> MigrationSchedule:
    """Split a migration into phases that keep uplinks and downlinks busy, within limits on what moves at a time.

    In a phase a node sends at most `per_link` tasks and receives at most as many. Without `max_state` the number of
    phases is the least possible, max(ceil(D / per_link), ceil(E / max_tasks)), D being the most tasks that a node sends
    or receives and E all tasks that move: a bipartite graph of degree D has an edge colouring with D colours (König
    1916), and colour classes can be evened out along alternating paths [Werra1971]. With `max_state` it is a
    bin-packing problem: first fit by decreasing state, no guarantee; `least` is then a lower bound.

    Parameters
    ----------
    workload : Workload
    target : array_like of int, shape (m,)
        The assignment to reach, as a solution of `IntervalMigration` has it; any assignment will do.
    max_tasks : int, optional
        At most this many tasks in a phase.
    max_state : float, optional
        The most state in a phase.
    per_link : int, default 1
        Tasks that a link carries in a phase.

    Raises
    ------
    InputError
        If a limit is bad, or one task alone exceeds `max_state`.

    Notes
    -----
    Source: [Ding2015], section 3.2 (progressive migrations; phases that saturate both directions, after [Rodiger2014]).
    """
    most = whole("max_tasks", max_tasks, least=1)
    limit = real("max_state", max_state)
    link = whole("per_link", per_link, least=1, optional=False)
    target = read_assignment(target, workload.key_groups, workload.nodes + workload.key_groups, workload.keys)
    tasks = np.flatnonzero(workload.current != target)
    if tasks.size == 0:
        return MigrationSchedule(workload, target, (), 0, link, most, limit)
    ends = np.stack([workload.current[tasks], target[tasks]])
    degree = max(int(np.bincount(side).max()) for side in ends)
    least = max(math.ceil(degree / link), math.ceil(tasks.size / (most or tasks.size)))
    if limit is None:
        classes = even_colouring(ends, least)
    else:
        state = workload.state[tasks]
        if state.max() > limit:
            k = int(tasks[np.argmax(state)])
            largest, alone = apart(limit, workload.state[k])
            raise InputError(f"max_state = {largest}: task {workload.key(k)} alone has state {alone}")
        least = max(least, math.ceil(float(state.sum()) / limit * (1 - 1e-12)) if limit > 0 else 1)
        classes = _first_fit(ends, state, most or tasks.size, limit, link)
    return MigrationSchedule(workload, target, tuple(tasks[c] for c in classes), least, link, most, limit)


def even_colouring(ends: IntArray, colours: int) -> list[IntArray]:
    """Edges by colour: as few of one colour at a node as there can be, class sizes that differ by at most 1.

    Parameters
    ----------
    ends : ndarray of int, shape (2, edges)
        Left and right end of every edge of a bipartite multigraph. A node of degree d has at most ceil(d / colours) of a colour.
    """
    split = np.stack([_split(side, colours) for side in ends])
    colour = _koenig(split, colours)
    _even_out(split, colour, colours)
    return [np.flatnonzero(colour == c) for c in range(colours)]


def _split(side: IntArray, most: int) -> IntArray:
    """Replace every node by copies of degree at most `most`: a copy carries one edge of a colour, together all of them."""
    seen: dict[int, int] = {}
    numbers: dict[tuple[int, int], int] = {}
    made = np.empty(side.size, dtype=np.int64)
    for e, node in enumerate(side.tolist()):
        seen[node] = seen.get(node, -1) + 1
        made[e] = numbers.setdefault((node, seen[node] // most), len(numbers))
    return made


def _koenig(ends: IntArray, colours: int) -> IntArray:
    """A proper edge colouring, edge by edge; where the ends have no free colour in common, swap along a path."""
    sizes = ends.max(axis=1) + 1
    at = [np.full((int(n), colours), -1, dtype=np.int64) for n in sizes]  # the edge of a colour at a node
    colour = np.full(ends.shape[1], -1, dtype=np.int64)
    for e in range(ends.shape[1]):
        u, v = int(ends[0, e]), int(ends[1, e])
        a, b = int(np.argmax(at[0][u] < 0)), int(np.argmax(at[1][v] < 0))
        if a != b:  # a is free at u, b at v: free a at v by swapping a and b along the path from v
            path, side, node, wanted = [], 1, v, a
            while (f := int(at[side][node, wanted])) >= 0:
                path.append(f)
                side = 1 - side
                node, wanted = int(ends[side, f]), a + b - wanted
            _swap(ends, colour, at, path, a, b)
        for side, node in ((0, u), (1, v)):
            at[side][node, a] = e
        colour[e] = a
    return colour


def _swap(ends: IntArray, colour: IntArray, at: list[IntArray], path: list[int], a: int, b: int) -> None:
    for f in path:
        for side in (0, 1):
            at[side][ends[side, f], colour[f]] = -1
    for f in path:
        colour[f] = a + b - colour[f]
        for side in (0, 1):
            at[side][ends[side, f], colour[f]] = f


def _even_out(ends: IntArray, colour: IntArray, colours: int) -> None:
    """Swap two colours along a path that holds one edge more of the larger one, until sizes differ by at most 1."""
    sizes = np.bincount(colour, minlength=colours)
    while sizes.max() - sizes.min() > 1:
        large, small = int(np.argmax(sizes)), int(np.argmin(sizes))
        path = _longer_path(ends, colour, large, small)
        colour[path] = large + small - colour[path]
        sizes = np.bincount(colour, minlength=colours)


def _longer_path(ends: IntArray, colour: IntArray, large: int, small: int) -> list[int]:
    """A component of the two colours' edges with one more of the large one: one exists, as there are more of these."""
    edges = np.flatnonzero((colour == large) | (colour == small)).tolist()
    touching: dict[tuple[int, int], list[int]] = {}
    for side, e in product((0, 1), edges):
        touching.setdefault((side, int(ends[side, e])), []).append(e)
    met: set[int] = set()
    for first in edges:
        component = [] if first in met else [first]
        met.add(first)
        for e in component:  # grows while it is read
            beside = {f for side in (0, 1) for f in touching[side, int(ends[side, e])]} - met
            component += beside
            met |= beside
        if sum(1 if colour[e] == large else -1 for e in component) == 1:
            return component
    raise AssertionError("a larger colour class has a path of its own")  # cannot happen: components are paths or cycles


def _first_fit(ends: IntArray, state: np.ndarray, most: int, limit: float, per_link: int) -> list[IntArray]:
    """Largest state first, each into the first phase that has room for it."""
    phases, carried, links = list[list[int]](), list[float](), list[Counter[tuple[int, int]]]()
    for e in np.argsort(-state, kind="stable").tolist():
        keys = [(side, int(ends[side, e])) for side in (0, 1)]
        fits = (
            at
            for at, phase in enumerate(phases)
            if len(phase) < most and carried[at] + state[e] <= limit and all(links[at][k] < per_link for k in keys)
        )
        at = next(fits, len(phases))
        if at == len(phases):
            phases.append([])
            carried.append(0.0)
            links.append(Counter())
        phases[at].append(e)
        carried[at] += float(state[e])
        links[at].update(keys)
    return [np.array(sorted(p), dtype=np.int64) for p in phases]
