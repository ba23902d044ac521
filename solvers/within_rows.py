"""One search for limits that are rows: single items, swaps and exchanges, annealed at a price for rows that are broken.

Whatever limits an assignment is a row here (`keyshift.solvers.rows`): the four forms of rules, limits of load in each
window, budgets of state, a routing table's room. What is left is a measure to lower: state that moves, or squares of loads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget, Problem
from keyshift.models.answer import Settings
from keyshift.models.compiling import LEAF, njit
from keyshift.models.rules.lowered import ROUNDING, Lowered
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.kernels import generator, overwrite, uniform, whole_below
from keyshift.solvers.rows import RowFamily, RuleRows, families, giving_way, rows_of, sharing, shift, sum_rows


@dataclass(frozen=True)
class RuledSearchSettings(Settings):
    """Tuning parameters of the search for least movement, and of the searches under rules.

    Attributes
    ----------
    rounds : int
        Coolings in a row without gain before the search ends, at `effort` 1.
    first, most : int
        Steps of the first cooling for each item, which then double; the most steps.
    each_second : int
        The most numbers that one cooling reads for each second left, since the clock is not checked during it.
    """

    rounds: int = 8
    first: int = 500
    most: int = 50_000
    each_second: int = 3_000_000


HOT, COLD = (0.03, 0.5), (1e-3, 1e-2)
"""Ranges from which a cooling's first and last temperature are drawn, in units of the mean cost of a key group."""
MELTED, FROZEN = (1.0, 4.0), (0.1, 0.5)
"""The same for a search on squares, in units of the temperature at which random moves keep them unchanged."""
FIRST_PRICE = 0.03, 2.0
"""Range of the first price, in units of what it costs the median key group to leave a row."""


class Task(NamedTuple):
    """A problem as the search sees it.

    Attributes
    ----------
    lowered : Lowered
    enter : ndarray of bool, shape (n,)
        Nodes that may be used at all.
    limits : sequence of RowFamily
        The problem's own, beside those of its rules.
    cost : ndarray, shape (p,)
        What it costs each key group to be elsewhere than now.
    load : ndarray, shape (p, m), or None
        Where the squares of the nodes' loads are lowered, instead of costs.
    """

    lowered: Lowered
    enter: BoolArray
    limits: Sequence[RowFamily]
    cost: FloatArray
    load: FloatArray | None = None


def load_limits(load: Iterable[FloatArray], least: Iterable[FloatArray], most: Iterable[FloatArray]) -> list[RowFamily]:
    """The least and the most that each node may carry, window by window."""
    made = []
    for row, low, high in zip(load, least, most, strict=True):
        some = np.flatnonzero(row > 0)
        limit = np.minimum(high, 2.0 * float(row.sum()) + 1.0)
        made.append(RowFamily(some, row[some], np.arange(high.size), np.maximum(low, 0.0), limit))
    return made


def search_within(
    problem: Problem,
    posed: Callable[[int], Task],
    *,
    budget: Budget,
    seed: int,
    start: IntArray | None,
    effort: float = 1.0,
    but: Collection[str] | None = (),
) -> Answer:
    """The best assignment that annealing finds, or the start; `posed` makes the task of each turn, `but` is for `kept`.

    A step moves an item - key groups that are merged are one - alone, or in exchange with another: one of the same node, one
    that goes home, or a member of the row that it would fill beyond its most. No guarantee; a step costs the rows of its items,
    and a node's windows where squares are lowered.
    """
    settings, rng = RuledSearchSettings.now(), np.random.default_rng(seed)
    state = generator(seed, 67)
    best, least = start, math.inf if start is None else problem.objective(start)
    idle, turn, steps = 0, 0, settings.first
    place = None if start is None else start.copy()
    last: tuple[Task, _Arrays] | None = None
    while idle < max(1.0, settings.rounds * effort) and least > 0.0 and not budget.expired:
        task = posed(turn)
        arrays = last[1] if last is not None and last[0] is task else _Arrays(task)
        last = task, arrays
        if not arrays.possible:
            break
        longest = min(10_000_000, settings.each_second * budget.remaining) / arrays.touched
        enough = 20 * arrays.assignments
        most = max(1, int(min(steps * arrays.items, settings.most * arrays.items, longest, enough)))
        found, excess = arrays.cool(place, most, rng, state)
        turn, idle, steps = turn + 1, idle + 1, 2 * steps
        within = excess <= arrays.slack and kept(problem, found, but)
        value = problem.objective(found) if within else math.inf
        if value < least:
            best, least, idle = found, value, 0
            budget.report(objective=value, note="local search")
        if (within and value <= least) or best is None:
            place = found
    return Answer(best, termination=budget.why if budget.expired else "completed")


class _Arrays:
    """A task as arrays, and its coolings."""

    def __init__(self, task: Task) -> None:
        low, p = task.lowered, task.cost.size
        first = np.arange(p)
        for members in low.merged:
            first[members] = members[0]
        heads, item = np.unique(first, return_inverse=True)
        self.items, self.squares = heads.size, task.load is not None
        open_to = np.broadcast_to(task.enter, (p, task.enter.size))
        open_to = (open_to if low.closed is None else open_to & ~low.closed)[heads]
        enter, kind = np.unique(open_to, axis=0, return_inverse=True)
        self.possible = bool(enter.any(axis=1).all())
        self.assignments = math.exp(min(float(np.log(np.maximum(open_to.sum(axis=1), 1)).sum()), 100.0))
        load = np.zeros((p, 0)) if task.load is None else task.load
        of_items = np.zeros((heads.size, load.shape[1]))
        np.add.at(of_items, item, load)
        worth = np.square(load).sum(axis=1) if self.squares else task.cost
        self.mean = float(worth.mean()) or 1.0
        worth = worth / self.mean
        limits = [*families(low, task.enter.size), *task.limits]
        rows, self.highest, self.slack = _priced(limits, worth, task.enter.size)
        self.data = RuledData(
            np.ascontiguousarray(low.current), rows, np.zeros(p) if self.squares else worth, of_items / math.sqrt(self.mean),
            np.concatenate([[0], np.cumsum(np.bincount(item))]).astype(np.int64), np.argsort(item, kind="stable"),
            item.astype(np.int64), enter, kind.ravel().astype(np.int64),
        )  # fmt: skip
        self.unit = 1.0
        self.touched = 1.0 + load.shape[1] / 8 + rows.weight.size / p

    def cool(
        self, place: IntArray | None, steps: int, rng: np.random.Generator, state: IntArray
    ) -> tuple[IntArray, float]:
        """One cooling from an assignment, or from today's: the best on the way, and by how much it breaks rows."""

        def drawn(between: tuple[float, float]) -> float:
            return float(np.exp(rng.uniform(*np.log(sorted(between)))))

        made, data = (self.data.current if place is None else place).copy(), self.data
        held = np.zeros(data.rows.most.size)
        sums = np.zeros((data.enter.shape[1], data.load.shape[1])) if self.squares else None
        gather(data, made, held, sums)
        hot, cold = HOT, COLD
        if sums is not None:
            freedom = max(1, (sums.shape[0] - 1) * sums.shape[1])
            self.unit = 2 * float(np.square(sums - sums.mean(axis=0)).sum()) / freedom
            hot, cold = MELTED, FROZEN
        heats = self.unit * np.array([drawn(hot), drawn(cold)])
        prices = np.array([self.unit * drawn(FIRST_PRICE), 10.0 * self.highest])
        return anneal(data, made, held, sums, prices, heats, steps, self.slack, state)


def _priced(made: list[RowFamily], worth: FloatArray, nodes: int) -> tuple[RuleRows, float, float]:
    """Rows in units of what their members cost, so that one price serves all; the most it takes, and what rounding is."""
    ready: list[RowFamily] = []
    highest, slack = 1.0, ROUNDING
    for parts, heaviest in sharing(made):
        some = np.concatenate([one.key_groups for one in parts])
        weights = np.concatenate([one.weights for one in parts]) / heaviest
        costly = (worth[some] > 0) & (weights > 0)
        each = worth[some[costly]] / weights[costly]
        factor = float(np.median(each)) if each.size else 1.0
        highest = max(highest, float(each.max()) / factor if each.size else 1.0)
        slack = max(slack, ROUNDING * factor)
        ready += [one.in_units(heaviest / factor) for one in parts]
    return rows_of(ready, worth.size, nodes), highest, slack


# The compiled loop ------------------------------------------------------------------------------------------------------


class RuledData(NamedTuple):
    """The data of the loop, in which key groups that move as one are one item."""

    current: IntArray  # (p,)
    rows: RuleRows
    cost: FloatArray  # (p,)
    load: FloatArray  # (items, m)
    starts: IntArray  # where each item's key groups begin in `members`
    members: IntArray
    item: IntArray  # (p,)
    enter: BoolArray  # (kinds, n)
    kind: IntArray  # (items,)


@njit(**LEAF)
def carry(item, target, data, place, held, sums):
    """Put an item on a node: by how much rows are more exceeded, and what it costs."""
    source, over, cost = place[data.members[data.starts[item]]], 0.0, 0.0
    for x in range(data.starts[item], data.starts[item + 1]):
        k = data.members[x]
        over += shift(held, k, source, target, data)
        cost += data.cost[k] * ((target != data.current[k]) * 1.0 - (source != data.current[k]) * 1.0)
        place[k] = target
    return over, cost + level(item, source, target, data, sums)


@njit(**LEAF)
def level(item, source, target, data, sums):
    """Move an item's load; the change of the sum of squares."""
    if sums is None:
        return 0.0
    change = 0.0
    for t in range(sums.shape[1]):
        y = data.load[item, t]
        change += 2.0 * y * (sums[target, t] - sums[source, t] + y)
        sums[source, t] -= y
        sums[target, t] += y
    return change


@njit(fastmath={"nnan", "nsz", "contract", "reassoc"}, **LEAF)
def foreseen(k, q, data, place, sums):
    """The cost of exchanging items k and q."""
    one, other = data.members[data.starts[k]], data.members[data.starts[q]]
    a, b, cost = place[one], place[other], 0.0
    if sums is None:
        for x in range(data.starts[k], data.starts[k + 1]):
            member = data.members[x]
            cost += data.cost[member] * ((b != data.current[member]) * 1.0 - (a != data.current[member]) * 1.0)
        for x in range(data.starts[q], data.starts[q + 1]):
            member = data.members[x]
            cost += data.cost[member] * ((a != data.current[member]) * 1.0 - (b != data.current[member]) * 1.0)
        return cost
    for t in range(sums.shape[1]):
        y = data.load[k, t] - data.load[q, t]
        cost += 2.0 * y * (sums[b, t] - sums[a, t] + y)
    return cost


@njit(cache=True, error_model="numpy")
def gather(data, place, held, sums):
    """Bring every item together, on a node that is open to it: where it is, or where it breaks and costs least."""
    items = data.kind.size
    for item in range(items):
        node = place[data.members[data.starts[item]]]
        for x in range(data.starts[item], data.starts[item + 1]):
            place[data.members[x]] = node
        if sums is not None:
            for t in range(sums.shape[1]):
                sums[node, t] += data.load[item, t]
    sum_rows(held, place, data)
    for item in range(items):
        here = place[data.members[data.starts[item]]]
        if data.enter[data.kind[item], here]:
            continue
        best, least = -1, np.inf
        for i in range(data.enter.shape[1]):
            if data.enter[data.kind[item], i]:
                over, cost = carry(item, i, data, place, held, sums)
                carry(item, here, data, place, held, sums)
                if over + 1e-3 * cost < least:
                    best, least = i, over + 1e-3 * cost
        carry(item, best, data, place, held, sums)


@njit(**LEAF)
def propose(data, place, held, rng):
    """Draw item k for node b, and q for node d (q = -1: k alone); k = -1 where nothing sensible was drawn.

    Of a hundred draws, 25 send k home - anywhere, if it is there - alone, 25 with another that goes home or to where k was,
    10 send k anywhere alone, 25 swap two, and 15 let a member of a row that k would fill beyond its most give way.
    """
    items, n = data.kind.size, data.enter.shape[1]
    k, draw = whole_below(rng, items), uniform(rng)
    one = data.members[data.starts[k]]
    b = data.current[one] if draw < 0.5 and place[one] != data.current[one] else whole_below(rng, n)
    if not data.enter[data.kind[k], b]:
        return -1, b, -1, b
    if draw < 0.25 or (draw >= 0.5 and draw < 0.6):
        return k, b, -1, b
    if draw >= 0.85:
        other, d = giving_way(rng, one, b, held, place, data)
        return k, b, -1 if other < 0 else data.item[other], d
    q = whole_below(rng, items)
    other = data.members[data.starts[q]]
    if draw >= 0.6:
        return k, place[other], q, place[one]
    return k, b, q, data.current[other] if place[other] != data.current[other] else place[one]


@njit(cache=True, error_model="numpy", nogil=True)
def anneal(data, place, held, sums, prices, heats, steps, slack, rng):
    """Simulated annealing; while the heat falls, the price of excess rises.

    Returns the placement of least cost among those that exceed rows by no more than `slack` - of least excess, if none did -
    and that excess; `place` is changed.
    """
    total, value = sum_rows(held, place, data), 0.0
    best, least, fewest = place.copy(), max(total, slack), value
    heat, cooling = heats[0], (heats[1] / heats[0]) ** (1.0 / max(steps, 1))
    price, growth = prices[0], (prices[1] / prices[0]) ** (1.0 / max(steps, 1))
    for _ in range(steps):
        heat *= cooling
        price *= growth
        k, b, q, d = propose(data, place, held, rng)
        if k < 0 or q == k or not data.enter[data.kind[k], b]:
            continue
        a = place[data.members[data.starts[k]]]
        c = place[data.members[data.starts[max(q, 0)]]]
        if a == b or (q >= 0 and not data.enter[data.kind[q], d]):
            continue
        luck = -heat * np.log(1.0 - uniform(rng))
        if total <= slack and q >= 0 and d == a and c == b and foreseen(k, q, data, place, sums) > luck:
            continue
        over, cost = carry(k, b, data, place, held, sums)
        if q >= 0 and c != d:
            more, also = carry(q, d, data, place, held, sums)
            over, cost = over + more, cost + also
        if cost + price * over > luck:
            if q >= 0 and c != d:
                carry(q, c, data, place, held, sums)
            carry(k, a, data, place, held, sums)
            continue
        value += cost
        total += over
        if max(total, slack) < least or (total <= slack and value < fewest - 1e-9 * abs(fewest)):
            overwrite(best, place)
            least, fewest = max(total, slack), value
    return best, least
