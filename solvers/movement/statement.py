"""Least movement within load limits: local search, and HiGHS and CP-SAT on their statements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import NonNegative, Threads
from keyshift.models.base.lazily import lazily
from keyshift.models.movement.problem import SLACK, MovementWithinLimits
from keyshift.models.objectives import Searched
from keyshift.models.rules.lowered import Lowered, MoveBudget
from keyshift.models.workload import BoolArray, FloatArray, IntArray, MoveSpace
from keyshift.solvers.checked import answered, confirmed, too_large
from keyshift.solvers.conductor import Component, Incumbent, conduct, solver_turns
from keyshift.solvers.search.annealing import Task, search_within
from keyshift.solvers.search.lowering import load_unit
from keyshift.solvers.search.program import Aim, Placing

with lazily():
    from keyshift.models.movement.cpsat_model import MovementCpSat
    from keyshift.models.movement.pyomo_model import MovementPyomo


def forced_movement(problem: MovementWithinLimits) -> float:
    """The most that a window shows: state that must leave nodes, or that must come to them. O(p log p) for each window.

    What a node has above u must leave it, at the least state for each load, a part of a key group counted as a part; all
    must leave a draining node, and as many others as are not used. What nodes lack of v must come, from anywhere.
    """
    w = problem.workload
    held = np.bincount(w.current, w.state, problem.places)
    unused = int(problem.open_nodes.sum()) - problem.nodes_after
    best = 0.0
    for row in problem.load:
        loads = np.bincount(w.current, row, problem.places)
        slack = 2 * SLACK * problem.upper + 4 * (row.size + 4) * 2.0**-53 * (loads + problem.upper)
        above, lacking = loads - problem.upper - slack, problem.lower - slack - loads
        leaves = np.where(problem.open_nodes, 0.0, held)
        for i in np.flatnonzero(problem.open_nodes & (above > 0)):
            on_it = np.flatnonzero(w.current == i)
            leaves[i] = least_state(row[on_it], w.state[on_it], float(above[i]))
        emptied = np.sort(np.maximum(held - leaves, 0.0)[problem.open_nodes])[: max(unused, 0)]
        lacking = np.sort(np.maximum(lacking[problem.open_nodes], 0.0))[: problem.nodes_after]
        need = math.fsum(lacking) * (1 - 1e-12) - 4 * row.size * 2.0**-53 * float(row.sum())
        comes = least_state(row, w.state, need) if problem.lower > 0 else 0.0
        best = max(best, math.fsum([*leaves, *emptied]), comes)
    # What rounding may have added to a sum of floats.
    return best * (1 - 1e-12 * (w.key_groups + 4))


def least_state(load: FloatArray, state: FloatArray, need: float) -> float:
    """The least state that has so much load, the last key group taken in part."""
    if need <= 0:
        return 0.0
    some: IntArray = np.flatnonzero(load > 0)
    with np.errstate(over="ignore"):
        order = some[np.argsort(state[some] / load[some], kind="stable")]
    reached = np.cumsum(load[order])
    last = int(np.searchsorted(reached, need))
    whole = math.fsum(state[order[:last]])
    if last == order.size:
        return whole
    part = (need - (reached[last - 1] if last else 0.0)) / load[order[last]]
    return whole + max(0.0, part) * float(state[order[last]])


NO_PLACEMENT = "no placement keeps within the limits"
FIRST, WRITTEN, ROOT, LATER = 0.1, 2e-5, 2e-4, 1e-4
"""Effort of the first search and the least of a solver's first turn; for each key group and node, what it takes to write a
statement down, which the search gets before where that is long; what HiGHS needs for the root of its tree, which it begins anew
at each turn; and what CP-SAT leaves to the others, of two units at most."""


def solve_milp(
    problem: MovementWithinLimits,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The conductor (`keyshift.solvers.conductor`) gives turns to HiGHS, local search and CP-SAT.

    CP-SAT also says again what is doubtful of HiGHS's word, such as that there is no placement.
    """
    asked: dict[str, Any] = {"seed": seed, "threads": threads}
    if too_large(problem):
        return _by_size(problem, "highs", MovementPyomo, budget, start, **asked)
    found = Incumbent(problem, budget)
    found.add_solution(start)
    found.raise_bound(least := forced_movement(problem), "forced")
    if not found.done:
        found.add_solution(_searched(problem, budget.turn(FIRST), seed, found.best), "local search")

    def by_highs(turn: Budget) -> Answer:
        answer = _capped(problem, "highs", MovementPyomo, turn, found.best, least, **asked)
        return confirmed(problem, answer, by_whole_numbers, budget=turn, **asked)

    def by_whole_numbers(
        _: MovementWithinLimits, *, budget: Budget, start: IntArray | None = None, **asked: Any
    ) -> Answer:
        return _capped(problem, "cpsat", MovementCpSat, budget, start, least, **asked)

    def by_cpsat(turn: Budget) -> Answer:
        return by_whole_numbers(problem, budget=turn, start=found.best, **asked)

    pairs = problem.workload.key_groups * problem.places
    first, before = max(FIRST, ROOT * pairs), max(WRITTEN * pairs - 3 * FIRST, 0.0)
    later = max(WRITTEN * pairs, min(LATER * pairs, 2.0))
    components = [
        Component("HiGHS", solver_turns(found, by_highs, "HiGHS", first), 1.0, before),
        Component("CP-SAT", solver_turns(found, by_cpsat, "CP-SAT", FIRST), 1.0, later),
        Component("search", _search_turns(found, seed)),
    ]
    conduct(found, components)
    return found.answer()


def _search_turns(found: Incumbent, seed: int) -> Iterator[None]:
    """Local search from the incumbent, again and again, each time for twice as long: its coolings grow."""
    number = 0
    while math.isfinite(found.budget.time_limit) or number == 0:
        turn = found.budget.turn(FIRST * 2.0 ** min(number, 30))
        number += 1
        answer = local_search(found.problem, budget=turn, seed=seed + number, start=found.best)
        found.add_solution(answer.assignment, "local search")
        yield


def solve_cpsat(
    problem: MovementWithinLimits,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
) -> Answer:
    """The same in whole numbers by CP-SAT."""
    return _by_size(problem, "cpsat", MovementCpSat, budget, start, seed=seed, threads=threads)


def lp_bound(problem: MovementWithinLimits, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear relaxation: divisible key groups on nodes that may be in use in part. A bound, no assignment."""
    with off_clock():
        from keyshift.solvers.highs import relaxed

    return relaxed(problem, MovementPyomo, solve_cpsat, budget=budget, seed=seed, least=forced_movement(problem))


def _by_size(
    problem: MovementWithinLimits, solver: str, statement: Any, budget: Budget, start: np.ndarray | None, *, seed: int,
    threads: int,
) -> Answer:  # fmt: skip
    """The statement from what the local search finds in a little while."""
    if said := too_large(problem):
        effort = math.inf if math.isfinite(budget.time_limit) else 8.0
        answer = local_search(problem, budget=budget, seed=seed, start=start, effort=effort)
        answer.bound, answer.message = forced_movement(problem), said
        return answer
    best = _searched(problem, budget, seed, start)
    return _capped(problem, solver, statement, budget, best, forced_movement(problem), seed=seed, threads=threads)


def _capped(
    problem: MovementWithinLimits, solver: str, statement: Any, budget: Budget, best: IntArray | None, least: float,
    **asked: Any,
) -> Answer:  # fmt: skip
    """Solve with states capped at what the best known placement moves, again where the optimum is far smaller."""
    most = math.inf if best is None else problem.objective(best)
    asked |= {"least": least, "infeasible": NO_PLACEMENT}
    while True:
        if best is not None and most - least <= problem.tolerance_of(most):
            return Answer(best, min(least, most), "optimal")
        answer = answered(problem, solver, statement, most, budget=budget, start=best, **asked)
        if answer.assignment is None or answer.termination != "gap" or budget.expired:
            return answer
        value = problem.objective(answer.assignment)
        if value > most / 8:  # else states are capped again, so that the last digits are exact
            return answer
        best, most = answer.assignment, value


def _searched(problem: MovementWithinLimits, budget: Budget, seed: int, start: IntArray | None) -> IntArray | None:
    """What the local search finds in a little while, which caps what the program may move."""
    share, effort = (0.05, 1.0) if problem.rules else (0.5, 0.125)  # under rules programs are slow to better anything
    return local_search(problem, budget=budget.part(share), seed=seed, start=start, effort=effort).assignment


# A fast method of our own for least movement within load limits: moves, swaps and returns, annealed -------------------


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
    space = problem.lowered.narrowed(MoveSpace.within(w.current, used))
    worth, none = w.state / (float(w.state.max(initial=0.0)) or 1.0), np.zeros_like(most)
    load, every = np.asarray(problem.load), np.ones(used.size, dtype=bool)
    unit = load_unit(load, worth)
    bands = np.array([none, most, none, least]) / unit
    placing = Placing(
        Searched(load / unit, space, {}, np.zeros(k), bands=bands), problem.lowered, np.ones(used.size), worth=worth,
        goals=Lowered(w.current, budgets=(MoveBudget(np.arange(w.key_groups), w.state, every, 0.0),)),
    )  # fmt: skip
    return Task(placing, Aim(goal=1.0), worth)


def _nodes_kept(problem: MovementWithinLimits, start: IntArray | None) -> BoolArray:
    """The nodes to use: those of a known placement; of the others, those with most state."""
    held = np.bincount(problem.workload.current, problem.workload.state, problem.places)
    if start is not None:
        held[np.unique(start)] = np.inf
    ranked = np.argsort(-np.where(problem.open_nodes, held, -1.0), kind="stable")
    used = np.zeros(problem.places, dtype=bool)
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
