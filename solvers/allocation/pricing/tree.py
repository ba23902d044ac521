r"""Branch and price on how many key groups each node sends and takes: bounds, and the plans that realise them.

Where prices alone (`keyshift.solvers.allocation.pricing.bound`) cannot rule a distance out, the master program mixes columns
of one node: half of "send one", half of "send three". One of the two must be chosen: either the node sends at most
two, or at least three. Each half is priced again; when both are ruled out, so is the distance. Where the program
mixes no counts any more, it has made a plan: departures and arrivals of every node, with which a distance may be
within reach. Depth first, the nearer half first.

On small instances a branch is settled as soon as its columns are few: all that the limit leaves open are listed, and a set
partitioning finds an assignment among them or proves that there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting import TOO_FEW, CountBound, counted
from keyshift.solvers.allocation.pricing.bound import ListedColumns, NodeUse, PriceBound
from keyshift.solvers.allocation.whole_pairs import bounds_over_windows
from keyshift.solvers.set_partitioning import Cover, SetColumns, placed
from keyshift.solvers.tuning import AllocationSettings

Node = tuple[IntArray, FloatArray]
"""Bounds on the counts, and the curve to begin with."""


@dataclass
class PriceTree:
    """Branch and price over one instance, at any distance.

    Parameters
    ----------
    bound : PriceBound
    """

    bound: PriceBound

    def __post_init__(self) -> None:
        self.open, self.listed = [self.root], False

    @property
    def root(self) -> Node:
        """All counts, and the curve that said most last."""
        return self.bound.counts, self.bound.curve

    def excludes(
        self,
        distance: float,
        most_nodes: int,
        turn: Budget,
        realise: Callable[[IntArray], bool] = lambda plan: False,
        accept: Callable[[IntArray], bool] | None = None,
        stack: list[Node] | None = None,
    ) -> bool:
        """Whether no assignment of the allowed number of moves lies within a distance.

        Parameters
        ----------
        distance : float
            In units of the mean.
        most_nodes : int
            Branches to price at most.
        turn : Budget
            Ends the search.
        realise : callable
            Told every plan, shape (n, 2), departures and arrivals; says whether to stop. Where the program ended above
            the limit, so does its plan.
        accept : callable, optional
            Told every assignment within the distance; says whether to stop.
        stack : list, optional
            The branches that are open, of this distance or a larger one; those that are left stay in it.
        """
        stack, lists = [self.root] if stack is None else stack, accept is not None and self.bound.lists
        for _ in range(most_nodes):
            if not stack or turn.expired:
                break
            node = counts, curve = stack.pop()
            priced = self.bound.price(distance, counts, curve, lambda: turn.expired)
            self.bound.curve = priced.curve
            if self.bound.enough(priced.value):
                continue
            columns = self.bound.columns(priced.curve, distance, counts) if lists else None
            self.listed |= columns is not None
            if columns is None:
                use = priced.master.use()
                side = most_mixed(use)
                if side is None and not (use.balanced and realise(np.rint(use.mean).astype(np.int64))) and lists:
                    side = widest(counts)
                if side is not None:
                    stack += halves(use, side, counts, priced.curve)
                    continue
            elif accept is not None and ColumnCover(self.bound, columns, accept).excluded(turn):
                continue
            stack.append(node)
            break
        if lists and stack:  # where too much is open at first, it stays so
            self.bound.lists = self.listed
        return not stack

    def highest(self, low: float, high: float, precision: float, most_nodes: int, turn: Budget) -> float:
        """Bisect for the highest distance that is ruled out.

        Parameters
        ----------
        low, high : float
            A distance known to be impossible (or 0), and one to stay at or below, in units of the mean.
        precision : float
        most_nodes : int
            Branches to price for one distance at most.
        turn : Budget
        """
        trial = high
        while not turn.expired:
            if self.excludes(trial, most_nodes, turn):
                low = trial
                if trial == high:
                    break
            else:
                high = trial
            if high - low <= precision:
                break
            trial = (low + high) / 2
        return low


class ColumnCover(Cover):
    """Whether some of the columns listed are an assignment: a set partitioning of the key groups that move in any."""

    def __init__(self, bound: PriceBound, columns: ListedColumns, accept: Callable[[IntArray], bool]) -> None:
        it = self.instance = bound.instance
        self.accept, self.accepted = accept, False
        self.keys = np.flatnonzero(columns.leaving.sum(axis=0))
        own = it.current[self.keys] == np.arange(it.nodes)[:, None]
        leaving, arriving = columns.leaving[:, self.keys], columns.arriving[:, self.keys]
        members = sp.csr_array(own.astype(np.float64))[columns.kind] - leaving + arriving
        self.columns = SetColumns(
            members, leaving @ bound.effort[self.keys], columns.kind, np.zeros((columns.kind.size, 0))
        )
        super().__init__(self.keys.size, np.ones(it.nodes), 0, float(it.max_moves), 2.0 * it.max_moves)

    @property
    def goal(self) -> float:
        return -1.0 if self.accepted else self.instance.max_moves + 1e-6

    def excluded(self, turn: Budget) -> bool:
        """Whether there is proven to be none."""
        if np.unique(self.columns.kind).size < self.instance.nodes:
            return True
        if self.keys.size == 0:
            return not self.accept(self.instance.current)
        return math.isinf(self.cover(self.columns, turn)) and not self.accepted

    def add_solution(self, sets: FloatArray, kinds: IntArray) -> None:
        place = self.instance.current.copy()
        place[self.keys] = placed(sets, kinds, [np.array([i]) for i in range(self.instance.nodes)])
        self.accepted = self.accept(place)


def price_trees(instance: Instance, budget: Budget, settings: AllocationSettings | None = None) -> list[PriceTree]:
    """For prices in moves, in cost and in half of each, as far as there are limits on them; none where they cost too much."""
    problem = instance.problem
    if instance.space.movers.size == 0:
        return []
    shares: tuple[float, ...] = (0.0, 0.5, 1.0)
    if problem.max_migration_cost is None:
        shares = (0.0,)
    elif problem.max_migrations is None:
        shares = (1.0,)
    bounds = [PriceBound(instance, settings, instance.effort(share), budget.spend) for share in shares]
    return [PriceTree(bound) for bound in bounds if bound.affordable]


def dealt(instance: Instance, plan: IntArray, rng: np.random.Generator) -> IntArray | None:
    """An assignment with the numbers of departures and arrivals of a plan; None if none is met or too many move."""
    order, starts = instance.space.by_node
    if (
        plan[:, 0].sum() != plan[:, 1].sum()
        or plan[:, 0].sum() > instance.max_moves
        or (plan[:, 0] > np.diff(starts)).any()
    ):
        return None
    leaving = [rng.choice(order[starts[i] : starts[i + 1]], out, replace=False) for i, out in enumerate(plan[:, 0])]
    keys, targets = np.concatenate(leaving), rng.permutation(np.repeat(np.arange(instance.nodes), plan[:, 1]))
    for _ in range(50):
        stuck = (instance.current[keys] == targets) | ~instance.space.may_enter(keys, targets)
        if not stuck.any():
            place = instance.current.copy()
            place[keys] = targets
            return place
        again = stuck | (rng.random(keys.size) < 0.2)
        targets[again] = rng.permutation(targets[again])
    return None


def most_mixed(use: NodeUse) -> tuple[int, int] | None:
    """The node and the side, 0 for departures, whose counts are mixed most; departures first. None when none is."""
    spread = (use.most - use.least).astype(np.float64)
    spread += np.abs(use.mean - np.rint(use.mean)) * (spread > 0)
    for side in (0, 1):
        node = int(np.argmax(spread[:, side]))
        if spread[node, side] > 0:
            return node, side
    return None


def widest(counts: IntArray) -> tuple[int, int] | None:
    """The node and the side whose counts are least decided; None when all are."""
    span = counts[:, 1::2] - counts[:, ::2]
    node, side = np.unravel_index(int(span.argmax()), span.shape)
    return (int(node), int(side)) if span[node, side] > 0 else None


def halves(
    use: NodeUse, side: tuple[int, int], counts: IntArray, curve: FloatArray
) -> list[tuple[IntArray, FloatArray]]:
    """At most, and more than, the mixed count; the nearer one last, which is the next to be priced."""
    node, which = side
    mean = float(use.mean[node, which])
    low, high = use.least[node, which], use.most[node, which]
    if low == high:  # nothing is mixed
        low, high = counts[node, 2 * which : 2 * which + 2]
    cut = int(np.clip(np.floor(mean), low, high - 1))
    fewer, more = counts.copy(), counts.copy()
    fewer[node, 2 * which + 1] = cut
    more[node, 2 * which] = cut + 1
    nearer_last = (more, fewer) if mean - cut < 0.5 else (fewer, more)
    return [(half, curve) for half in nearer_last]


def price_bound(problem: KeyGroupAllocation, *, budget: Budget, seed: int = 0) -> Answer:
    """The highest load distance that counts and prices rule out; no assignment.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    seed : int
        Not used: nothing is drawn.

    Notes
    -----
    Source: keyshift; see `keyshift.solvers.allocation.pricing.bound`.
    """
    instance = Instance(problem)
    counts = [CountBound(window, lambda: budget.expired) for window in instance.by_window]
    low = counted(problem, counts)
    if np.isinf(low):
        return Answer(None, termination="infeasible", message=TOO_FEW)
    if instance.windows > 1:
        low = max(low, *bounds_over_windows(instance, budget))
        return Answer(None, low * problem.scale, budget.why if budget.expired else "completed")
    high = max(low, instance.distance(instance.current))
    for tree in price_trees(instance, budget, budget.tuned(AllocationSettings)):
        low = tree.highest(low, high, 1e-6, 64, budget)
    return Answer(None, low * problem.scale, budget.why if budget.expired else "completed")
