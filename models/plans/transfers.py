"""From one assignment to another: the scheduling of transfers and its check, loads and rules at every moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from keyshift.models.base.figures import apart
from keyshift.models.base.guards import frozen
from keyshift.models.errors import InputError
from keyshift.models.problem import SLACK, Violation
from keyshift.models.rules.lowered import Lowered, labels_of
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class TransferScheduling:
    r"""Transfer key groups between nodes so that the last transfer ends as early as possible.

    Sets and data: transfers j from node :math:`u_j` to node :math:`v_j \ne u_j`, of duration :math:`p_j > 0`; nodes i, each
    of which takes part in at most m transfers at once, sending or receiving; resources r (the load is one), of which
    transfer j carries :math:`w_{rj}` and node i holds :math:`h_{ri}` before the first, and the limits :math:`R_{ri}`.

    Variables: the start :math:`S_j` of every transfer, which then runs without a break.

    .. math::

        \min \; \max_j \, (S_j + p_j) \quad \text{subject to}

        (1) \quad & S_j \ge 0 && \text{for every } j \\
        (2) \quad & |\{j : i \in \{u_j, v_j\},\; S_j \le t < S_j + p_j\}| \le m && \text{for every } i, t \\
        (3) \quad & h_{ri} + \sum_{j : v_j = i,\, S_j \le t} w_{rj} - \sum_{j : u_j = i,\, S_j + p_j \le t} w_{rj} \le R_{ri}
                  && \text{for every } r, i, t

    A key group counts at both ends while it moves: that is (3). It is stated for a limit; where no order of transfers
    meets it, the plan raises all limits by the least common share that some order meets (`least_overload`).

    Parameters
    ----------
    source, target : ndarray of int, shape (e,)
    seconds : ndarray, shape (e,)
        Durations p_j, all above 0.
    nodes : int
    parallel : int
        m of (2).
    held, limit : ndarray, shape (resources, nodes)
        h and R of (3); a limit may be infinite.
    usage : ndarray, shape (resources, e)
        w of (3).

    Notes
    -----
    (1) and (2) are *file transfer scheduling* (Coffman, Garey, Johnson, LaPaugh, *Scheduling file transfers*, SIAM Journal
    on Computing 14, 1985): edge colouring of a multigraph whose edges have lengths. Where each node only sends or only
    receives it is the open shop. NP-hard with three nodes already. The busiest node gives the lower bound
    :math:`\max_i \sum_{j \ni i} p_j / m`, the longest transfer another. Without (3), a list schedule, which never lets a
    transfer wait while both its ends have room, is within a factor of 2 of them for m = 1 and of 3 for any m: until its
    last transfer j begins, u or v is busy m times over, so it ends by
    :math:`(\sum_{l \ni u} p_l + \sum_{l \ni v} p_l) / m + (1 - 2 / m) p_j`. (3) is the reservoir constraint of project
    scheduling.
    """

    source: IntArray
    target: IntArray
    seconds: FloatArray
    nodes: int
    parallel: int
    held: FloatArray
    usage: FloatArray
    limit: FloatArray

    def __post_init__(self) -> None:
        if self.seconds.size and not (self.seconds > 0).all():
            j = int(np.argmin(self.seconds))
            raise InputError(f"seconds[{j}] = {self.seconds[j]:g}: a transfer must take more than 0 seconds")
        if (self.source == self.target).any():
            j = int(np.argmax(self.source == self.target))
            raise InputError(f"transfer {j} goes from node {self.source[j]} to itself")

    @property
    def transfers(self) -> int:
        """Number of transfers, e."""
        return int(self.source.size)

    @property
    def limited(self) -> bool:
        """Whether (3) can bind at all."""
        return bool(np.isfinite(self.limit).any())

    def makespan(self, starts: FloatArray) -> float:
        """The end of the last transfer, in seconds; 0 when there is none."""
        return float((starts + self.seconds).max(initial=0.0))

    def violations(self, starts: FloatArray) -> list[Violation]:
        """Everything that a schedule breaks, by the numbers of the formulation; empty when it may be carried out."""
        early = np.flatnonzero(starts < -SLACK * self.seconds)
        return [
            *(Violation("start", f"transfer {j} starts at {starts[j]:g}", int(j), float(-starts[j])) for j in early),
            *self._too_many_at_once(starts),
            *self._over_limit(starts),
        ]

    def _too_many_at_once(self, starts: FloatArray) -> list[Violation]:  # (2)
        slack = SLACK * max(1e-300, self.makespan(starts))
        broken = []
        for i in range(self.nodes):
            mine = (self.source == i) | (self.target == i)
            moments = starts[mine]
            ends = moments + self.seconds[mine]
            running = (moments[:, None] <= moments + slack) & (moments < ends[:, None] - slack)
            most = int(running.sum(axis=0).max(initial=0))
            if most > self.parallel:
                said = f"node {i} takes part in {most} transfers at once, the limit is {self.parallel}"
                broken.append(Violation("parallel", said, i, most - self.parallel))
        return broken

    def _over_limit(self, starts: FloatArray) -> list[Violation]:  # (3)
        broken = []
        for r in range(self.limit.shape[0]):
            peak = peaks(self.held[r], self.usage[r], self.source, self.target, starts, starts + self.seconds)
            over = peak - self.limit[r]
            scale = np.where(np.isfinite(self.limit[r]), np.maximum(np.abs(self.limit[r]), peak), 1.0)
            for i in np.flatnonzero(over > SLACK * scale):
                held, most = apart(peak[i], self.limit[r, i])
                said = f"node {i} has {held} of resource {r} on the way, the limit is {most}"
                broken.append(Violation("limit", said, int(i), float(over[i])))
        return broken

    def part(self, chosen: IntArray, held: FloatArray) -> TransferScheduling:
        """The same problem for some of the transfers, with other holdings before the first."""
        moved = {name: getattr(self, name)[chosen] for name in ("source", "target", "seconds")}
        return replace(self, **moved, held=held, usage=self.usage[:, chosen])

    def after(self) -> FloatArray:
        """The state on every node once all transfers are done, shape (resources, nodes)."""
        return self.held + net_change(self.usage, self.source, self.target, self.nodes)


def durations(state: FloatArray, source: IntArray, target: IntArray, bandwidth: FloatArray | None) -> FloatArray:
    """Seconds that transfers take, or units of state without a bandwidth; no state takes a moment, too, shape (e,)."""
    seconds = state if bandwidth is None else state / np.minimum(bandwidth[source], bandwidth[target])
    some = seconds[seconds > 0]
    moment = 1e-3 * min(1.0, float(some.mean())) if some.size else 1e-3
    return np.where(seconds > 0, seconds, moment)


def net_change(usage: FloatArray, source: IntArray, target: IntArray, nodes: int) -> FloatArray:
    """The nodes' gains by transfers less their losses, shape (resources, nodes)."""
    made = np.zeros((usage.shape[0], nodes))
    for change, row in zip(made, usage, strict=True):
        change[:] = np.bincount(target, row, nodes) - np.bincount(source, row, nodes)
    return made


def peaks(
    held: FloatArray, usage: FloatArray, source: IntArray, target: IntArray, starts: FloatArray, ends: FloatArray
) -> FloatArray:
    """The most that each node holds of one resource at any time, a key group counting at both ends while it moves.

    Parameters
    ----------
    held : ndarray, shape (n,)
        Before the first transfer.
    usage, source, target, starts, ends : ndarray, shape (e,)

    Returns
    -------
    ndarray, shape (n,)
    """
    node = np.concatenate([target, source])
    when = np.concatenate([starts, ends])
    change = np.concatenate([usage, -usage])
    # What ends at a moment has left when the next begins: departures come first among ties, ties being up to rounding.
    when = _merged(when)
    order = np.lexsort((change > 0, when, node))
    node, change = node[order], change[order]
    running = np.cumsum(change)
    first = np.searchsorted(node, np.arange(held.size))
    before = np.concatenate([[0.0], running])[first]
    peak = held.astype(float).copy()
    np.maximum.at(peak, node, held[node] + running - before[node])
    return frozen(peak)


def _merged(when: FloatArray) -> FloatArray:
    """Moments with those that differ by rounding only made equal."""
    order = np.argsort(when, kind="stable")
    ordered = when[order]
    gap = np.diff(ordered, prepend=ordered[:1]) > SLACK * max(1e-300, float(np.abs(when).max(initial=0.0)))
    merged = np.empty_like(when)
    merged[order] = np.cumsum(gap)
    return merged


# The nodes' loads on the way from one assignment to another, and what rules have to say of every moment in between ----


@dataclass(frozen=True, eq=False)
class Way:
    """The nodes of a plan, new ones included, and the quality of a distribution of load over them.

    Attributes
    ----------
    load : ndarray, shape (p,)
        Load of every key group, last window.
    capacity : ndarray, shape (n,)
        A new node is as large as the largest there is.
    leaving : ndarray of bool, shape (n,)
        Nodes that drain, or that the problem may give up: being empty is what is wanted of them.
    before, after : ndarray, shape (n,)
        Loads of the nodes.
    """

    load: FloatArray
    capacity: FloatArray
    leaving: BoolArray
    before: FloatArray
    after: FloatArray

    @classmethod
    def of(cls, workload: Workload, current: IntArray, target: IntArray, may_leave: bool = False) -> Way:
        """From one assignment to another, which may use nodes that the workload does not have yet.

        With `may_leave`, a node that the plan empties is taken to leave; else only a draining one is.
        """
        n = max(workload.nodes, int(current.max()) + 1, int(target.max()) + 1)
        new = n - workload.nodes
        capacity = np.concatenate([workload.capacity, np.full(new, workload.capacity.max())])
        draining = np.concatenate([workload.draining, np.zeros(new, dtype=bool)])
        emptied = np.zeros(n, dtype=bool)
        if may_leave:
            emptied = (np.bincount(current, minlength=n) > 0) & (np.bincount(target, minlength=n) == 0)
        load = workload.last_load
        before, after = (np.bincount(a, weights=load, minlength=n) for a in (current, target))
        return cls(load, capacity, draining | emptied, before, after)

    @property
    def nodes(self) -> int:
        """Nodes, new ones included."""
        return int(self.capacity.size)

    @cached_property
    def mean(self) -> float:
        """Load per unit of capacity over the nodes that stay."""
        return float(self.load.sum() / self.capacity[~self.leaving].sum())

    def deviation(self, loads: FloatArray, nodes: IntArray | slice = np.s_[:]) -> FloatArray:
        """How far loads of some nodes, shape (..., n), are from the mean: upwards alone on nodes that leave."""
        away = loads / self.capacity[nodes] - self.mean
        return np.where(self.leaving[nodes], np.maximum(away, 0.0), np.abs(away))

    def distance(self, loads: FloatArray) -> FloatArray:
        """Load distance of some node loads, shape (..., n): both ways on nodes that stay, upwards on those that leave."""
        return self.deviation(loads).max(axis=-1)

    def distances(self, loads: FloatArray, moved: FloatArray, source: IntArray, target: IntArray) -> FloatArray:
        """Load distance of the nodes' loads after each of some moves alone, of loads `moved`, shape (e,)."""
        before = self.deviation(loads)
        top = np.argsort(-before)[:3, None]  # of three nodes, one at least is neither source nor target
        others = np.where((top != source) & (top != target), before[top], 0.0).max(axis=0)
        sent, taken = self.deviation(loads[source] - moved, source), self.deviation(loads[target] + moved, target)
        return np.maximum(others, np.maximum(sent, taken))


# The rules of a cluster on the way -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RuledWay:
    r"""The rooms that several units of moves share, and could break together between the first move of a plan and the last.

    A key group counts where it comes from until it has moved, and where it goes to from the moment it begins: once in a domain
    that holds both. Key groups that rules keep together move as one. With :math:`h_r` the weight in a room, and :math:`in_{ur}`
    and :math:`out_{ur}` what a unit u of moves brings into it and takes out, a phase of units U keeps the rules, however its
    moves overlap, if for every room r

    .. math:: (1) \quad h_r + \sum_{u \in U} in_{ur} \le most_r, \qquad h_r - \sum_{u \in U} out_{ur} \ge least_r

    A room that is exceeded before the plan or after it must at least go no higher in between. Nothing else can break half-way:
    closed nodes and budgets of moves only tell the first state from the last.

    Attributes
    ----------
    unit : ndarray of int, shape (e,)
        The unit that each move belongs to.
    held, least, most : ndarray, shape (rooms,)
    touched : tuple of (rooms, in, out)
        Of each unit.
    """

    unit: IntArray
    held: FloatArray
    least: FloatArray
    most: FloatArray
    touched: tuple[tuple[IntArray, FloatArray, FloatArray], ...]

    @classmethod
    def of(cls, lowered: Lowered, current: IntArray, target: IntArray, moving: IntArray) -> RuledWay:
        """The rules' rooms on the way from one assignment to another; `moving` are the key groups that move."""
        unit = np.unique(labels_of(lowered.merged, current.size)[moving], return_inverse=True)[1]
        count = int(unit.max(initial=-1)) + 1
        of_key_group = np.full(current.size, -1)
        of_key_group[moving] = unit
        rows: list[tuple[float, float, float, FloatArray, FloatArray, IntArray]] = []
        for room in lowered.rooms:
            mine = of_key_group[room.key_groups]
            source, goal = (room.domain[where[room.key_groups]] for where in (current, target))
            crossing = (mine >= 0) & (source != goal)
            if len(set(mine[crossing].tolist())) < 2:
                continue
            before, after = room.held(current), room.held(target)
            for d in np.unique(np.concatenate([source[crossing], goal[crossing]])):
                if d < 0:
                    continue
                come, go = crossing & (goal == d), crossing & (source == d)
                into, out = (np.bincount(mine[at], room.weights[at], count) for at in (come, go))
                units = np.flatnonzero((into > 0) | (out > 0))
                most = max(float(room.most[d]), before[d], after[d])
                least = min(float(room.least[d]), before[d], after[d])
                if units.size > 1 and (before[d] + into.sum() > most * (1 + SLACK) or before[d] - out.sum() < least):
                    rows.append((before[d], least, most, into[units], out[units], units))
        held, least, most = (np.array([row[part] for row in rows], dtype=float) for part in range(3))
        return cls(unit, held, least, most, _by_unit(rows, count))

    @property
    def units(self) -> int:
        """Units of moves."""
        return len(self.touched)

    def excess(self, held: FloatArray, low: FloatArray | None = None) -> FloatArray:
        """By how much rooms, shape (..., rooms), are exceeded, or fallen short of where they may hold less, in all."""
        low = held if low is None else low
        over = np.where(held > self.most * (1 + SLACK), held - self.most, 0.0)
        under = np.where(low < self.least * (1 - SLACK), self.least - low, 0.0)
        return np.asarray((over + under).sum(axis=-1))

    def after(self, held: FloatArray, units: Iterable[int]) -> FloatArray:
        """The weight in each room once some units have moved."""
        then = held.copy()
        for u in units:
            rooms, into, out = self.touched[u]
            then[rooms] += into - out
        return then

    def worst(self, phases: Iterable[IntArray]) -> float:
        """The most by which rooms are exceeded at any time, whatever the overlaps: (1); phases are lists of moves."""
        held, worst = self.held, 0.0
        for moves in phases:
            units = dict.fromkeys(self.unit[moves].tolist())
            then = self.after(held, units)
            if len(units) > 1:
                high, low = held.copy(), held.copy()
                for u in units:
                    rooms, into, out = self.touched[u]
                    high[rooms] += into
                    low[rooms] -= out
                worst = max(worst, float(self.excess(high, low)))
            worst = max(worst, float(self.excess(then)))
            held = then
        return worst


def _by_unit(
    rows: list[tuple[float, float, float, FloatArray, FloatArray, IntArray]], count: int
) -> tuple[tuple[IntArray, FloatArray, FloatArray], ...]:
    """The amounts that each unit brings into each of its rooms, and takes out."""
    found: list[list[tuple[int, float, float]]] = [[] for _ in range(count)]
    for number, (_, _, _, into, out, units) in enumerate(rows):
        for u, more, less in zip(units.tolist(), into.tolist(), out.tolist(), strict=True):
            found[u].append((number, more, less))
    made = [np.array(one, dtype=float).reshape(-1, 3).T for one in found]
    return tuple((rooms.astype(np.int64), into, out) for rooms, into, out in made)
