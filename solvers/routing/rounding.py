"""Overloaded nodes that shed what they must, the cheapest keys first; a search under rules."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import njit
from keyshift.models.base.guards import NonNegative
from keyshift.models.base.integers import scaled
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import CompactKeys
from keyshift.models.workload import IntArray
from keyshift.solvers.search.annealing import Task, search_within
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.search.program import Aim


@njit(cache=True)
def shed(order, load, count, excess, enough, few, taken):
    """Let keys of one node go: in this order, each that still fits what is too much; at last the lightest that covers the rest.

    With `few`, the first that does not fit ends it: more is shed than there must be, by fewer keys. Keys that the last one makes
    needless stay. Returns what is still too much.
    """
    left = excess
    for r in order:
        if left <= enough:
            break
        if 0 < load[r] <= left:
            # Loads may be too far apart for a quotient that fits an integer.
            units = count[r] if count[r] * load[r] <= left else int(left / load[r])
            taken[r] += units
            left -= units * load[r]
        if few and taken[r] < count[r] and load[r] > left:
            break
    if left > enough:
        last = -1
        for r in order:
            if taken[r] < count[r] and load[r] >= left and (last < 0 or load[r] < load[last]):
                last = r
        if last >= 0:
            taken[last] += 1
            left -= load[last]
            for r in order:
                while r != last and taken[r] > 0 and load[r] <= -left:
                    taken[r] -= 1
                    left += load[r]
    return left


@njit(cache=True)
def place(gone, load, current, home, kept, limit, used, to):
    """Send keys home where there is room, else to the node with most room; -1 where that is too little."""
    for at, r in enumerate(gone):
        target = home[r]
        if target == current[r] or not kept[target] or used[target] + load[r] > limit[target]:
            target = -1
            for d in range(limit.size):
                better = target < 0 or limit[d] - used[d] > limit[target] - used[target]
                if kept[d] and d != current[r] and better:
                    target = d
            if target >= 0 and used[target] + load[r] > limit[target]:
                target = -1
        used[current[r] if target < 0 else target] += load[r]
        to[at] = target


PRICES = np.concatenate([[0.0], 4.0 ** np.arange(-4, 9)])
"""Prices of an entry of the table, in median states, from none to one above all else."""


def rounded(problem: MixedRouting, keys: CompactKeys, budget: Budget) -> Iterator[IntArray]:
    """Assignments, the cheapest first; they may need too many entries, or too much room.

    At each price of an entry every node sheds what it has too much, the cheapest by unit of load first, and a key only
    where it fits; what leaves goes home or where most room is. What finds no room there stays, and the node sheds others. Nodes
    shed closely, or more by fewer keys. No guarantee; O(r log r + n times the keys that leave) a price.
    """
    shedding = _Shedding(problem, keys)
    positive = keys.state[keys.state > 0]
    for price in PRICES * (float(np.median(positive)) if positive.size else 1.0):
        for few in (False, True):
            shedding.by_price(price, few, budget)
        if budget.expired:
            break
    yield from shedding.assignments()


class _Shedding:
    """Plans by the keys that leave: which these are, and where they go, -1 where nothing has room."""

    def __init__(self, problem: MixedRouting, keys: CompactKeys) -> None:
        self.problem, self.keys = problem, keys
        self.at, self.n = keys.current.copy(), problem.workload.nodes
        self.used = np.bincount(self.at, keys.load * keys.count, self.n)
        self.limit, self.enough = problem.upper + 0.5 * problem.slack, 0.25 * problem.slack
        over = np.flatnonzero(self.used > self.limit)
        self.full = {int(i): np.flatnonzero(self.at == i) for i in over}
        self.plans: dict[bytes, tuple[IntArray, IntArray]] = {}

    def by_price(self, price: float, few: bool, budget: Budget) -> None:
        """Keep the plan that a price of an entry gives, and each on the way to it."""
        keys, kept = self.keys, self.problem.workload.kept
        orders = {i: _cheapest_first(keys, on, i, price) for i, on in self.full.items()}
        stays = np.zeros(keys.size, dtype=bool)
        for _ in range(8):
            taken = np.zeros(keys.size, dtype=np.int64)
            for i, order in orders.items():
                excess = self.used[i] - self.limit[i]
                shed(order[~stays[order]], keys.load, keys.count, excess, self.enough, few, taken)
            unplaced = None if budget.expired else self.place(taken)
            if unplaced is None:
                break
            stays[unplaced] = kept[self.at[unplaced]]
            if not stays[unplaced].any():
                break

    def place(self, taken: IntArray) -> IntArray | None:
        """Keep a plan, and say which records find no room; None where it is known."""
        gone = _heaviest_first(self.keys, taken)
        if (name := gone.tobytes()) in self.plans:
            return None
        to, room = np.empty_like(gone), self.used - np.bincount(self.at, self.keys.load * taken, self.n)
        kept = self.problem.workload.kept
        place(gone, self.keys.load, self.at, self.keys.home, kept, self.limit, room, to)
        self.plans[name] = gone, to
        return gone[to < 0]

    def assignments(self) -> Iterator[IntArray]:
        """All plans, the cheapest first."""
        keys, every = self.keys, np.arange(self.keys.size)
        for gone, to in sorted(self.plans.values(), key=lambda plan: float(keys.state[plan[0]].sum())):
            rest = keys.count - np.bincount(gone, minlength=keys.size)
            node = np.concatenate([self.at, np.where(to < 0, self.at[gone], to)])
            yield keys.expand(np.concatenate([every, gone]), node, np.concatenate([rest, np.ones_like(to)]))


def _cheapest_first(keys: CompactKeys, on: IntArray, i: int, price: float) -> IntArray:
    """The records of node i by what a unit of load costs to move away; among equals the heaviest first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = (keys.state[on] + np.where(keys.home[on] == i, price, -price)) / keys.load[on]
    return on[np.lexsort((-keys.load[on], worth))]


def _heaviest_first(keys: CompactKeys, taken: IntArray) -> IntArray:
    """The record of each key that leaves."""
    movers = np.flatnonzero(taken)
    movers = movers[np.argsort(-keys.load[movers], kind="stable")]
    return np.repeat(movers, taken[movers])


# The values that the state moved can have ------------------------------------------------------------------------------


def on_grid(problem: MixedRouting, bound: float) -> float:
    """Round a bound up to the next value the objective can have: states that are multiples of a unit sum to one."""
    whole = scaled(problem.workload.state)
    if not whole.exact or bound <= 0:
        return max(bound, 0.0)
    unit = math.gcd(*np.unique(whole.values).tolist())
    if unit == 0:
        return 0.0
    from fractions import Fraction

    step = Fraction(unit) / whole.scale
    return float(math.ceil(Fraction(bound) / step) * step)


# Under rules: single keys, swaps and exchanges, annealed -------------------------------------------------------------


def local_search(
    problem: MixedRouting, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None, effort: NonNegative = 1.0
) -> Answer:
    """Keys one by one, two in exchange, or those that are merged, annealed (`search_within`).

    No guarantee. It is what finds an assignment under rules; without them the heuristics of [Fang2016] do in less time.

    Parameters
    ----------
    problem : MixedRouting
    budget : Budget
    seed : int
    start : ndarray, optional
        An assignment within the limits that the answer will not be worse than.
    effort : float, default 1
        Multiplies how often in a row the search may cool without a gain.
    """
    w = problem.workload
    posed = Posed(problem, goal="state_moved")
    task = Task(posed.placing, Aim(goal=1.0), w.state / (float(w.state.max(initial=0.0)) or 1.0))
    return search_within(problem, lambda turn: task, budget=budget, seed=seed, start=start, effort=effort)
