"""A fast method of our own for least movement within load limits: moves, swaps and returns, annealed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.compiling import njit
from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.ranges import NonNegative
from keyshift.models.tuning import Settings
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.random_kernels import uniform
from keyshift.solvers.within_rows import Task, load_limits, search_within


@dataclass(frozen=True)
class MovementSearchSettings(Settings):
    """Tuning numbers of the search.

    Attributes
    ----------
    rounds : int
        Coolings in a row that gain nothing before the search ends, where `effort` is 1.
    first, most, longest : int
        Steps of the first cooling for each key group, which double; at most so many; loads that one cooling touches at most.
    each_second : int
        The same for each second that is left: nobody looks at the clock while it cools.
    hot, cold : (float, float)
        Between which a cooling's first and last heat are drawn, in units of the mean state.
    first_price : (float, float)
        Between which the first price is drawn, in units of what the median key group's load costs to move.
    last_price : float
        The last price, in units of the most expensive key group's.
    """

    rounds: int = 12
    first: int = 500
    most: int = 16_000
    longest: int = 1_500_000
    each_second: int = 4_000_000
    hot: tuple[float, float] = (0.3, 5.0)
    cold: tuple[float, float] = (5e-4, 1e-2)
    first_price: tuple[float, float] = (0.01, 1.0)
    last_price: float = 10.0


def local_search(
    problem: MovementWithinLimits,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    effort: NonNegative = 1.0,
) -> Answer:
    """Simulated annealing on the state moved, at a price for loads outside the limits that follows from whether there are any.

    No guarantee. A step costs O(windows). Where there are more nodes than may be in use, those of least state are let go
    of, and in every second round one of them for another. Under rules `search_within` serves instead.

    Parameters
    ----------
    problem : MovementWithinLimits
    budget : Budget
    seed : int
    start : ndarray, optional
        A placement within the limits that the answer will not be worse than.
    effort : float, default 1
        Multiplies how often in a row the search may cool without a gain.
    """
    if problem.rules:
        return search_within(
            problem, _Turns(problem, start, seed), budget=budget, seed=seed, start=start, effort=effort
        )
    settings = MovementSearchSettings.now()
    rng = np.random.default_rng(seed)
    state = np.array([np.random.SeedSequence([seed, 61]).generate_state(1, np.uint64)[0] | 1], dtype=np.uint64)
    best, least = start, math.inf if start is None else problem.objective(start)
    used = _nodes_kept(problem, start)
    place = problem.workload.current if start is None else start
    steps, idle, turn = settings.first * max(place.size, 1), 0, 0
    while idle < max(1.0, settings.rounds * effort) and least > 0.0 and not budget.expired:
        tried = _other(problem, used, rng) if turn % 2 else used
        data = _data(problem, tried)
        prices = _prices(data, _drawn(rng, settings.first_price), settings.last_price)
        heats = np.array([_drawn(rng, settings.hot), _drawn(rng, settings.cold)])
        longest = min(settings.longest, settings.each_second * budget.remaining)
        most = max(1, int(min(settings.most * place.size, longest // data.load.shape[1])))
        begun = _settled(problem, place, tried)
        budget.spend(min(steps, most) * data.load.shape[1])
        found, excess, _ = anneal(data, begun, prices, heats, min(steps, most), SLACK / 2, state)
        steps, turn, idle = 2 * steps, turn + 1, idle + 1
        within = excess <= SLACK and kept(problem, found)
        value = problem.objective(found) if within else math.inf
        if value < least:
            best, least, idle = found, value, 0
            budget.report(objective=value, note="local search")
        if (within and value <= least) or best is None:
            place, used = found, tried
    return Answer(best, termination=budget.why if budget.expired else "completed")


class _Turns:
    """The task of each turn under rules: the nodes of the best known, and in every second turn another for one of them."""

    def __init__(self, problem: MovementWithinLimits, start: IntArray | None, seed: int) -> None:
        self.problem, self.rng = problem, np.random.default_rng([seed, 61])
        self.used = _nodes_kept(problem, start)
        self.first = self._task(self.used)

    def __call__(self, turn: int) -> Task:
        used = _other(self.problem, self.used, self.rng) if turn % 2 else self.used
        return self.first if used is self.used else self._task(used)

    def _task(self, used: BoolArray) -> Task:
        """The problem on these nodes."""
        problem, slack = self.problem, SLACK / 2 * self.problem.upper
        least, most = (np.where(used, limit, 0.0) for limit in (problem.lower - slack, problem.upper + slack))
        each = [least] * len(problem.load), [most] * len(problem.load)
        return Task(problem.lowered, used, load_limits(problem.load, *each), problem.workload.state)


def _nodes_kept(problem: MovementWithinLimits, start: IntArray | None) -> BoolArray:
    """The nodes to use: those of a known placement; of the others, those with most state."""
    held = np.bincount(problem.workload.current, problem.workload.state, problem.node_limit)
    if start is not None:
        held[np.unique(start)] = np.inf
    ranked = np.argsort(-np.where(problem.open_nodes, held, -1.0), kind="stable")
    used = np.zeros(problem.node_limit, dtype=bool)
    used[ranked[: problem.nodes_after]] = True
    return used & problem.open_nodes


def _other(problem: MovementWithinLimits, used: BoolArray, rng: np.random.Generator) -> BoolArray:
    """One node for another."""
    spare = np.flatnonzero(problem.open_nodes & ~used)
    if not spare.size:
        return used
    other = used.copy()
    other[rng.choice(np.flatnonzero(used))], other[rng.choice(spare)] = False, True
    return other


def _data(problem: MovementWithinLimits, used: BoolArray) -> MoveData:
    w = problem.workload
    load = np.ascontiguousarray(problem.load.T) / problem.upper
    state = w.state / (float(w.state.mean()) or 1.0)
    current = np.where(used[w.current], w.current, -1)
    return MoveData(load, state, current, np.flatnonzero(used), problem.lower / problem.upper)


def _drawn(rng: np.random.Generator, between: tuple[float, float]) -> float:
    """A number between two, its logarithm evenly distributed."""
    return float(np.exp(rng.uniform(*np.log(between))))


def _prices(data: MoveData, first_price: float, last_price: float) -> FloatArray:
    """Of loads outside the limits, first and last: in units of what it costs to move a load."""
    load = data.load.max(axis=1)
    costly = (load > 0) & (data.state > 0)
    each = data.state[costly] / load[costly]
    return np.array([first_price * np.median(each), last_price * each.max()]) if each.size else np.ones(2)


def _settled(problem: MovementWithinLimits, place: IntArray, used: BoolArray) -> IntArray:
    """Bring key groups from unused nodes, the largest first, to the least loaded used node."""
    made, load = place.copy(), problem.load.T
    nodes = np.flatnonzero(used)
    loads = problem.node_loads(place).T[nodes]
    homeless = np.flatnonzero(~used[place])
    for k in homeless[np.argsort(-load[homeless].max(axis=1), kind="stable")]:
        at = int(np.argmin((loads + load[k]).max(axis=1)))
        made[k] = nodes[at]
        loads[at] += load[k]
    return made


# The compiled loop of the search for little movement: loads in units of the upper limit, state in units of its mean.


class MoveData(NamedTuple):
    """The data of the loop."""

    load: np.ndarray  # (p, windows)
    state: np.ndarray  # (p,)
    current: np.ndarray  # (p,), -1 where the node is not used any more
    nodes: np.ndarray  # those in use
    lower: float


@njit(cache=True, error_model="numpy")
def outside(row, lower):
    """By how much a node's loads are outside the limits, summed over the windows."""
    excess = 0.0
    for t in range(row.size):
        if row[t] > 1.0:
            excess += row[t] - 1.0
        elif row[t] < lower:
            excess += lower - row[t]
    return excess


@njit(cache=True, error_model="numpy")
def put(data, place, sums, excess, k, target):
    """Move one key group; returns the change of all excess and of the state moved."""
    source = place[k]
    change = -excess[source] - excess[target]
    for t in range(data.load.shape[1]):
        sums[source, t] -= data.load[k, t]
        sums[target, t] += data.load[k, t]
    excess[source], excess[target] = outside(sums[source], data.lower), outside(sums[target], data.lower)
    place[k] = target
    back = data.current[k]
    return change + excess[source] + excess[target], data.state[k] * ((target != back) * 1.0 - (source != back) * 1.0)


@njit(cache=True, error_model="numpy")
def propose(data, place, rng):
    """Draw key group k for node b, and q for node d (q = -1: k alone): a move, a swap, or a move against a return."""
    p, n = place.size, data.nodes.size
    k, draw = int(uniform(rng) * p), uniform(rng)
    if place[k] != data.current[k] and data.current[k] >= 0 and draw < 0.5:
        b = data.current[k]
    else:
        b = data.nodes[int(uniform(rng) * n)]
    if draw < 0.25 or (draw >= 0.5 and draw < 0.6):
        return k, b, -1, -1
    q = int(uniform(rng) * p)
    if draw >= 0.8:
        return k, place[q], q, place[k]
    return k, b, q, (data.current[q] if place[q] != data.current[q] and data.current[q] >= 0 else place[k])


@njit(cache=True, error_model="numpy", nogil=True)
def anneal(data, place, prices, heats, steps, slack, rng):
    """Simulated annealing; while the heat falls, the price of excess rises.

    Returns the placement of least movement among those within the limits by `slack` - of least excess, if none was - with
    its excess and movement. O(windows) a step.
    """
    place = place.copy()
    p = place.size
    sums = np.zeros((int(max(data.nodes.max(), place.max())) + 1, data.load.shape[1]))
    moved = 0.0
    for k in range(p):
        moved += data.state[k] * (place[k] != data.current[k])
        for t in range(sums.shape[1]):
            sums[place[k], t] += data.load[k, t]
    excess = np.zeros(sums.shape[0])
    for i in data.nodes:
        excess[i] = outside(sums[i], data.lower)
    total = excess.sum()
    best, least, fewest = place.copy(), max(total, slack), moved
    heat, cooling = heats[0], (heats[1] / heats[0]) ** (1.0 / max(steps, 1))
    price, growth = prices[0], (prices[1] / prices[0]) ** (1.0 / max(steps, 1))
    for _ in range(steps):
        heat *= cooling
        price *= growth
        k, b, q, d = propose(data, place, rng)
        a = place[k]
        if a == b or q == k:
            continue
        c = place[q] if q >= 0 else -1
        over, cost = put(data, place, sums, excess, k, b)
        if q >= 0 and c != d:
            more, also = put(data, place, sums, excess, q, d)
            over, cost = over + more, cost + also
        rise = cost + price * over
        if rise > 0 and uniform(rng) >= np.exp(-rise / heat):
            if q >= 0 and c != d:
                put(data, place, sums, excess, q, c)
            put(data, place, sums, excess, k, a)
            continue
        moved += cost
        total = 0.0
        for i in data.nodes:
            total += excess[i]
        if max(total, slack) < least or (total <= slack and moved < fewest - 1e-9 * abs(fewest)):
            best[:] = place
            least, fewest = max(total, slack), moved
    return best, least, fewest
