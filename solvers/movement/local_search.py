"""A fast method of our own for least movement within load limits: moves, swaps and returns, annealed."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import NonNegative
from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.rules.lowered import Lowered, MoveBudget
from keyshift.models.workload import BoolArray, IntArray, MoveSpace
from keyshift.solvers.search.lowering import load_unit
from keyshift.solvers.search.program import Aim, Placing
from keyshift.solvers.search.within import Task, search_within


def local_search(
    problem: MovementWithinLimits,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    effort: NonNegative = 1.0,
) -> Answer:
    """Simulated annealing on the state moved, at a price for loads outside the limits (`search_within`).

    No guarantee. A step costs O(windows). Where there are more nodes than may be in use, those of least state are let go
    of, and in every second round one of them for another.

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
    rng, used = np.random.default_rng([seed, 61]), _nodes_kept(problem, start)
    first = _task(problem, used)

    def turn_of(turn: int) -> Task:
        """The nodes of a known placement, and in every second turn another for one of them."""
        other = _other(problem, used, rng) if turn % 2 else used
        return first if other is used else _task(problem, other)

    return search_within(problem, turn_of, budget=budget, seed=seed, start=start, effort=effort)


def _task(problem: MovementWithinLimits, used: BoolArray) -> Task:
    """The problem on these nodes."""
    w, slack, k = problem.workload, SLACK / 2 * problem.upper, len(problem.load)
    least, most = (
        np.tile(np.where(used, limit, 0.0), (k, 1)) for limit in (problem.lower - slack, problem.upper + slack)
    )
    space = MoveSpace.within(w.current, used)
    worth, none = w.state / (float(w.state.max(initial=0.0)) or 1.0), np.zeros_like(most)
    load, every = np.asarray(problem.load), np.ones(used.size, dtype=bool)
    unit = load_unit(load, worth)
    placing = Placing(
        problem.lowered, problem.lowered.narrowed(space), np.ones(used.size), load=load / unit,
        bands=np.array([none, most, none, least]) / unit, worth=worth,
        goals=Lowered(w.current, budgets=(MoveBudget(np.arange(w.key_groups), w.state, every, 0.0),)),
    )  # fmt: skip
    return Task(placing, Aim(goal=1.0), worth)


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
