r"""Branch and price on how many key groups each node sends and takes: bounds, and the plans that realise them.

Where prices alone (`keyshift.solvers.allocation.pricing.bound`) cannot rule a distance out, the master program mixes columns
of one node: half of "send one", half of "send three". One of the two must be chosen: either the node sends at most
two, or at least three. Each half is priced again; when both are ruled out, so is the distance. Where the program
mixes no counts any more, it has made a plan: departures and arrivals of every node, with which a distance may be
within reach. Depth first, the nearer half first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.allocation.arrays import Instance
from keyshift.solvers.allocation.counting import TOO_FEW, CountBound, counted
from keyshift.solvers.allocation.joint_relaxation import JointRelaxation
from keyshift.solvers.allocation.pricing.bound import NodeUse, PriceBound
from keyshift.solvers.tuning import AllocationSettings


@dataclass
class PriceTree:
    """Branch and price over one instance, at any distance.

    Parameters
    ----------
    bound : PriceBound
    """

    bound: PriceBound

    def excludes(
        self,
        distance: float,
        most_nodes: int,
        expired: Callable[[], bool],
        realise: Callable[[IntArray], bool] = lambda plan: False,
        most_plans: int = 1,
    ) -> bool:
        """Whether no assignment of the allowed number of moves lies within a distance.

        Parameters
        ----------
        distance : float
            In units of the mean.
        most_nodes : int
            Branches to price at most.
        expired : callable
            Ends the search when it says so.
        realise : callable
            Told every plan, shape (n, 2), departures and arrivals; says whether to stop. Where the program ended above
            the limit, so does its plan.
        most_plans : int, default 1
            Plans after which to stop, since a plan that is not ruled out leaves the distance open.
        """
        stack = [(self.bound.counts, self.bound.curve)]
        nodes, plans = 0, 0
        while stack:
            if nodes >= most_nodes or expired():
                return False
            counts, curve = stack.pop()
            priced = self.bound.price(distance, counts, curve, expired)
            nodes += 1
            self.bound.curve = priced.curve
            if self.bound.enough(priced.value):
                continue
            use = priced.master.use()
            side = most_mixed(use)
            if side is not None:
                stack += halves(use, side, counts, priced.curve)
                continue
            plans += 1
            if (use.balanced and realise(np.rint(use.mean).astype(np.int64))) or plans >= most_plans:
                return False
        return plans == 0

    def highest(self, low: float, high: float, precision: float, most_nodes: int, expired: Callable[[], bool]) -> float:
        """Bisect for the highest distance that is ruled out.

        Parameters
        ----------
        low, high : float
            A distance known to be impossible (or 0), and one to stay at or below, in units of the mean.
        precision : float
        most_nodes : int
            Branches to price for one distance at most.
        expired : callable
        """
        trial = high
        while not expired():
            if self.excludes(trial, most_nodes, expired):
                low = trial
                if trial == high:
                    break
            else:
                high = trial
            if high - low <= precision:
                break
            trial = (low + high) / 2
        return low


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
    """An assignment with the departures and arrivals of a plan, whoever they are; None where none is met or too many move."""
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


def halves(
    use: NodeUse, side: tuple[int, int], counts: IntArray, curve: FloatArray
) -> list[tuple[IntArray, FloatArray]]:
    """At most, and more than, the mixed count; the nearer one last, which is the next to be priced."""
    node, which = side
    mean = float(use.mean[node, which])
    cut = int(np.clip(np.floor(mean), use.least[node, which], use.most[node, which] - 1))
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
        low = max(low, JointRelaxation(instance, lambda: budget.expired).improve())
        return Answer(None, low * problem.scale, budget.why if budget.expired else "completed")
    high = max(low, instance.distance(instance.current))
    for tree in price_trees(instance, budget, budget.tuned(AllocationSettings)):
        low = tree.highest(low, high, 1e-6, 64, lambda: budget.expired)
    return Answer(None, low * problem.scale, budget.why if budget.expired else "completed")
