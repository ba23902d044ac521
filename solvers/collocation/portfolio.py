"""Collocated allocation at scale: local search, a Lagrangian bound that closes nodes, HiGHS for the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import Settings, Termination
from keyshift.models.base.guards import Count, Threads, Whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray
from keyshift.solvers.checked import better_of, kept
from keyshift.solvers.collocation.arrays import Arrays, arrays_of
from keyshift.solvers.collocation.joining import joined
from keyshift.solvers.collocation.lagrangian import LagrangianBound, tighten
from keyshift.solvers.collocation.levels import solve_by_level
from keyshift.solvers.collocation.local_search import SEARCHED, TOO_MANY, Annealing
from keyshift.solvers.collocation.multilevel import Multilevel, Peer
from keyshift.solvers.collocation.sets import CollocationSets
from keyshift.solvers.collocation.statement import run_highs, second_opinion
from keyshift.solvers.collocation.structural_bounds import (
    mean_bound,
    most_by_structure,
    objective_bound,
    reweigh,
    semidefinite_cut,
    share_of,
)
from keyshift.solvers.tuning import numbers

_NUMBERS = numbers("collocation")


@dataclass(frozen=True)
class CollocationSettings(Settings):
    """Tuning parameters of "milp" for collocated allocation.

    Attributes
    ----------
    turns : int
        Turns of search and bound before the exact stage.
    searching, bounding, proving : float
        Shares of the time left for a turn's search, for its bound, and finally for HiGHS; the rest is for the search.
    few : int
        Few key groups may move if less than this part of all: 8 for an eighth. The linear relaxation is near the optimum there,
        and HiGHS near a proof.
    semidefinite : float
        Share of the time left for the semidefinite bound, of what the Lagrangian one leaves unproven.
    by_sets : float
        Share of the time left for set partitioning.
    partitioning : float
        Share of the time for graph partitioning at the beginning if many key groups may move; nine tenths of it for more than
        `provable` key groups.
    provable : int
        Up to so many key groups most of the time is for proofs.
    further : int
        Steps of the search from the second turn on.
    most_columns : int
        The most variables for HiGHS, since neither building a model nor its first relaxation can be interrupted. Further pairs,
        those with least traffic first, are bounded instead.
    confirmed : int
        Up to this many (pair, node) combinations, HiGHS's result on the remaining problem is checked in whole numbers.
    """

    turns: Count = _NUMBERS["turns"]
    searching: float = _NUMBERS["searching"]
    bounding: float = _NUMBERS["bounding"]
    proving: float = _NUMBERS["proving"]
    few: Count = _NUMBERS["few"]
    semidefinite: float = _NUMBERS["semidefinite"]
    by_sets: float = _NUMBERS["by_sets"]
    partitioning: float = _NUMBERS["partitioning"]
    provable: int = _NUMBERS["provable"]
    further: int = _NUMBERS["further"]
    most_columns: int = _NUMBERS["most_columns"]
    confirmed: int = _NUMBERS["confirmed"]


FEW_SMALL, SMALL = 3, 15_000
"""Few key groups move already if they are less than this part of all where the model has at most so many columns: larger ones
leave HiGHS no time for few moves to help."""
SEARCHING_FEW, BOUNDING_FEW = 0.4, 0.12
"""The shares of a turn's search and bound where few key groups may move."""
FIRST, FOR_EACH = 1_500_000, 6_000
"""Steps of the first search; all searches of a turn have at most so many for each key group and node: a small instance has shown
by then what its search can find."""
BEFORE_SETS, LATE = 1_000_000, 5_000_000
"""Steps of search before set partitioning - a better incumbent leaves fewer sets -, and of each search in the remaining time."""
BOUNDED = 10_000_000
"""Lagrangian relaxation, HiGHS and partitions are for instances whose traffic of each key group with each node is at most so many
numbers: of larger ones they say nothing within minutes."""
CYCLES, CYCLES_LARGE = 30, 1_000
"""Cycles of graph partitioning at the beginning; the second for more than `provable` key groups."""
COLUMNS_PER_SECOND, COLUMNS_OF_FEW, FREE_WINDOWS = 1_000, 5_000, 4
"""Variables for HiGHS for each second left; where few key groups may move, for the root of the seconds left: there it mostly
proves the optimum, or has found nothing at the end of its time. Over more windows than the last it gets fewer: each adds rows."""


@dataclass(frozen=True)
class _Asked:
    """The options of "milp", by the names that `solve_milp` has for it."""

    seed: int
    start: np.ndarray | None
    threads: int
    search_steps: int | None
    bound_steps: int | None
    finish: bool


def solve_milp(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    threads: Threads = 1,
    search_steps: Whole | None = None,
    bound_steps: Whole | None = None,
    finish: bool = True,
    peer: Peer | None = None,
) -> Answer:
    """The linearised model, solved in four stages.

    1. Local search from the start (`Annealing`), and again whenever it gains nothing any more: from the second turn on, or
       at once where few key groups may move. Where moves are not scarce, graph partitioning (`Multilevel`) before it.
    2. An upper bound on the traffic that can be collocated: Lagrangian relaxation (`tighten`), the structure of the traffic
       (`most_by_structure`) and, of what these leave unproven, a semidefinite relaxation (`semidefinite_cut`).
       Of dozens of key groups, `CollocationSets` answers by the sets of them that nodes can carry.
    3. Every node that the bound proves no better for a key group than the incumbent is closed to it.
       Stages 1 to 3 take a few turns while what is open is too large for stage 4; where few key groups may move, one
       is enough if it is not.
    4. HiGHS on what is left open, from the incumbent. Where even that is too large, the weakest pairs are bounded
       rather than modelled, and the answer keeps a gap; where few key groups may move, HiGHS is not asked then. Time that
       is left goes to stage 1 again.

    Parameters
    ----------
    problem : CollocatedAllocation
    budget : Budget
    seed : int
    start : ndarray, optional
        A feasible assignment.
    threads : int, default 1
        For HiGHS. More than one may return another optimum from run to run.
    search_steps, bound_steps : int, optional
        How long stages 1 and 2 may take, in steps: a number of steps repeats itself, a number of seconds does not.
        None grows with the instance, to 1,500,000 and 1,500.
    finish : bool, default True
        Go on to stage 4. Without it the method is a fast heuristic with a bound.
    peer : {"kahip", "mtkahypar"}, optional
        Where graph partitioning suits, begin it from what this program makes of the graph: ``pip install
        'keyshift[partition]'``. It knows no time limit.

    Notes
    -----
    Over k windows all stages have the limits of each of them. Where (15) is not the mean, the bound is that of a
    weighted mean of the windows' traffic, with weights that each turn leans to those that were worst in it.

    Where traffic costs by level: `solve_by_level`.
    """
    if problem.costs is not None:
        options: dict[str, Any] = {"search_steps": search_steps, "bound_steps": bound_steps, "finish": finish}
        return solve_by_level(problem, solve_milp, budget, seed=seed, start=start, threads=threads, **options)
    asked = _Asked(seed, start, threads, search_steps, bound_steps, finish)
    data = arrays_of(problem)
    if data.cells > BOUNDED:
        return _large(problem, data, asked, budget)
    partitions = None if budget.expired or not Multilevel.suits(problem, data) else Multilevel(problem, data, seed)
    if partitions is not None:
        start = _partitioned(problem, partitions, asked, budget, peer)
    search = Annealing(problem, start, seed, data)
    answer = _staged(problem, search, budget, asked)
    ended = answer.termination in ("optimal", "infeasible")  # "completed" where a stage used its share up
    if not ended and finish and not search.over and np.isfinite(budget.remaining):
        return _searched_on(problem, search, answer, budget, partitions)
    return answer


def _large(problem: CollocatedAllocation, data: Arrays, asked: _Asked, budget: Budget) -> Answer:
    """Joins, the bounds that take one pass, and the annealing where it fits into memory."""
    best = joined(problem, data, asked.start, budget.part(0.5), asked.seed)
    mean = data if data.windows == 1 else arrays_of(problem.averaged())
    bound = 0.0 if budget.expired else mean_bound(problem, most_by_structure(mean, budget.part(0.2)))
    budget.report(bound=bound)
    if data.cells > SEARCHED:
        return replace(_answer(problem, best, bound, budget.ended("completed")), message=TOO_MANY)
    if not budget.expired:
        search = Annealing(problem, best, asked.seed, data)
        search.go_on(budget, FIRST * 10_000 if asked.search_steps is None else asked.search_steps, again=True)
        best = search.best
    return _answer(problem, best, bound, budget.why)


def _partitioned(
    problem: CollocatedAllocation, partitions: Multilevel, asked: _Asked, budget: Budget, peer: Peer | None
) -> np.ndarray | None:
    """A start by graph partitioning, where it is better than the one that is known."""
    tuned, large = (
        budget.tuned(CollocationSettings),
        problem.workload.key_groups > budget.tuned(CollocationSettings).provable,
    )
    if peer is not None:
        partitions.ask(peer, asked.seed)
    share = 0.9 if large else tuned.partitioning
    cycles = CYCLES_LARGE if large and asked.finish else min(CYCLES, problem.workload.key_groups)
    partitions.go_on(budget.part(share), cycles)
    best = partitions.best
    if best is None or not kept(problem, best, None):  # a partition knows little of moves
        return asked.start
    return better_of(problem, Answer(best), asked.start).assignment


def _searched_on(
    problem: CollocatedAllocation,
    search: Annealing,
    answer: Answer,
    budget: Budget,
    partitions: Multilevel | None = None,
) -> Answer:
    """The answer, improved by local search and graph partitioning for as long as there is time."""
    bound, found = answer.bound or 0.0, answer
    while found.termination != "optimal" and not budget.expired:
        if partitions is not None:
            partitions.go_on(budget, CYCLES)
            if partitions.best is not None and kept(problem, partitions.best):
                search.offer(partitions.best, budget)
        search.go_on(budget, LATE, again=True)
        best = better_of(problem, Answer(search.best), answer.assignment).assignment
        found = _answer(problem, best, bound, budget.why)
    return answer if found is answer else replace(found, details=answer.details, message=answer.message)


def _staged(problem: CollocatedAllocation, search: Annealing, budget: Budget, asked: _Asked) -> Answer:
    """Stages 1 to 4."""
    data, finish, tuned = search.data, asked.finish, budget.tuned(CollocationSettings)
    few = finish and _few_move(data, tuned)
    steps = min(FIRST, 1_000 * data.key_groups * data.nodes) if asked.search_steps is None else asked.search_steps
    further = min(tuned.further, FOR_EACH * data.key_groups * data.nodes)
    bound_steps = min(1500, 50 + 5 * data.key_groups) if asked.bound_steps is None else asked.bound_steps
    lagrangian, mean = LagrangianBound(data), data if data.windows == 1 else arrays_of(problem.averaged())
    bound = mean_bound(problem, most_by_structure(mean, budget))
    searching = SEARCHING_FEW if few else tuned.searching
    bounding = BOUNDING_FEW if few else tuned.bounding
    for turn in range(tuned.turns if finish else 1):
        more = further if turn and asked.search_steps is None else steps
        search.go_on(budget.part(searching), more, again=few or turn > 0)
        best = search.best
        share = None if best is None else share_of(problem, lagrangian, best)
        most = tighten(lagrangian, budget.part(bounding), share, bound_steps, _tuple_share(problem))
        answer = _answer(problem, best, max(bound, objective_bound(problem, lagrangian, most)), "gap")
        reweigh(problem, lagrangian, turn)
        bound = max(bound, answer.bound or 0.0)
        budget.report(None if best is None else problem.objective(best), bound)
        if answer.termination == "optimal" or budget.expired or not finish:
            break
        if turn == 0 and not _few_move(data, tuned):  # with few moves the Lagrangian bound is far better
            cut = semidefinite_cut(mean, budget.part(tuned.semidefinite))
            bound = max(bound, mean_bound(problem, 1.0 - cut))
            answer = _answer(problem, best, max(bound, answer.bound or 0.0), "gap")
            budget.report(bound=answer.bound)
            if answer.termination == "optimal" or budget.expired:
                break
        if turn == 0 and not problem.rules and CollocationSets.suits(problem, data):
            answer = _by_sets(problem, search, lagrangian, answer, budget)
            bound = max(bound, answer.bound or 0.0)
            if answer.termination in ("optimal", "infeasible") or budget.expired:
                break
        if best is None or ((turn > 0 or _few_move(data, tuned)) and _fits(data, lagrangian.open_to, budget)):
            break
    if answer.termination in ("optimal", "infeasible") or not finish:
        return answer
    if budget.expired:
        answer.termination = budget.why
        return answer
    part = budget if best is None else budget.part(tuned.proving)
    answer = _finish(problem, data, lagrangian, answer, part, asked.seed, asked.threads)
    if answer.assignment is not None and not search.over:
        search.offer(answer.assignment, budget)
    return answer


def _by_sets(
    problem: CollocatedAllocation, search: Annealing, lagrangian: LagrangianBound, answer: Answer, budget: Budget
) -> Answer:
    """The answer by the sets that nodes can carry, where these are few enough."""
    tuned, tuple_share = budget.tuned(CollocationSettings), _tuple_share(problem)
    steps = min(BEFORE_SETS, FOR_EACH * search.data.key_groups * search.data.nodes)
    search.go_on(budget.part(1 - tuned.by_sets), steps, again=True)
    closer = (
        0.999 * tuple_share if tuple_share else 0.5 * problem.tolerance / (problem.saved * search.data.traffic_unit)
    )
    sets = CollocationSets(problem, search.data, search.best, closer, lagrangian.open_to)
    done = sets.run(budget.part(tuned.by_sets))
    bound = max(answer.bound or 0.0, mean_bound(problem, 1.0 - sets.lowest))
    if sets.best is None:
        said = "no assignment meets the load distance within the other limits" if done else ""
        return Answer(None, bound, "infeasible" if done else "gap", said)
    if not search.over:
        search.offer(sets.best, budget)
    best = better_of(problem, Answer(search.best), sets.best).assignment
    if done and best is not None:
        # Where traffic is in whole tuples the next better answer has one less.
        bound = max(bound, problem.objective(best) - (0.0 if tuple_share else 0.5 * problem.tolerance))
    return replace(_answer(problem, best, bound, "gap"), details={"sets": sets.visited})


def _fits(data: Arrays, open_to: BoolArray, budget: Budget) -> bool:
    """Whether what is open can go to HiGHS whole."""
    return bool(_explicit(data, open_to, _room(data, open_to, budget)).all())


def _few_move(data: Arrays, tuned: CollocationSettings) -> bool:
    """Whether so few key groups may move that linear relaxations are near the optimum."""
    columns = data.nodes * data.first.size
    return data.max_moves < data.key_groups // (FEW_SMALL if columns <= SMALL else tuned.few)


def _room(data: Arrays, open_to: BoolArray, budget: Budget) -> int:
    """How many z the exact stage may have."""
    settings = budget.tuned(CollocationSettings)
    in_time = COLUMNS_PER_SECOND * budget.remaining
    if _few_move(data, settings):
        in_time = COLUMNS_OF_FEW * np.sqrt(budget.remaining)
    most = min(settings.most_columns, in_time)
    return int(most / max(1.0, data.windows / FREE_WINDOWS)) - int(open_to.sum())


def _finish(
    problem: CollocatedAllocation,
    data: Arrays,
    lagrangian: LagrangianBound,
    answer: Answer,
    budget: Budget,
    seed: int,
    threads: int,
) -> Answer:
    """Stage 4. What was closed is no better than the incumbent, so the bound is that of the rest, or the incumbent."""
    best, settings = answer.assignment, budget.tuned(CollocationSettings)
    open_to = data.allowed if best is None else lagrangian.open_to
    room = _room(data, open_to, budget)
    explicit = _explicit(data, open_to, room)
    left_out = int((~explicit).sum())
    details = {"open": int(open_to.sum()), "pairs_left_out": left_out}
    # Where z weighs on loads, or on more than one window's traffic, no pair can be left out.
    whole = data.cost.max() > 0 or data.row_share.size > 1
    late = np.isfinite(budget.remaining) and (room < 0 or (left_out and _few_move(data, settings)))
    if late or (left_out and whole):
        said = "what the bound leaves open is too large to be solved exactly"
        return Answer(best, answer.bound, "gap", said, details)
    outside = (None, None) if left_out == 0 else (explicit, lagrangian.beyond(explicit))
    rest = run_highs(problem, budget, seed, best, threads, None if best is None else open_to, *outside)
    doubtful = rest.termination == "infeasible" and data.nodes * len(problem.pairs) <= settings.confirmed
    if rest.termination == "infeasible":
        if best is None:
            return second_opinion(problem, budget, seed, threads, rest)
        # nothing better is left open
        rest.bound = 0.0 if doubtful else problem.objective(best)
    proven = max(answer.bound or 0.0, min(rest.bound or 0.0, np.inf if best is None else problem.objective(best)))
    found = better_of(problem, Answer(rest.assignment), best).assignment
    why: Termination = "gap" if rest.termination in ("optimal", "infeasible") else rest.termination
    finished = _answer(problem, found, proven, why)
    finished.details = {**details, **rest.details}
    if finished.termination == "gap" and data.nodes * len(problem.pairs) <= settings.confirmed:
        return second_opinion(problem, budget, seed, threads, finished)
    return finished


def _answer(problem: CollocatedAllocation, best: np.ndarray | None, bound: float, otherwise: Termination) -> Answer:
    """An answer, optimal where bound and objective meet."""
    if problem.minimise == "remote_traffic" and _whole(problem):
        bound = max(0.0, float(np.ceil(bound - 1e-6)))
    if best is None:
        return Answer(None, bound, otherwise)
    met = problem.objective(best) - bound <= problem.tolerance
    return Answer(best, min(bound, problem.objective(best)), "optimal" if met else otherwise)


def _explicit(data: Arrays, open_to: BoolArray, room: int) -> BoolArray:
    """The pairs that get a z for every common node: all, or the most talkative ones that fit."""
    free = open_to.sum(axis=1) > 1
    common = (open_to[data.first] & open_to[data.second]).sum(axis=1)
    columns = np.where(free[data.first] & free[data.second], common, 0)
    order = np.argsort(-data.mean_traffic, kind="stable")
    fits = np.zeros(columns.size, dtype=bool)
    fits[order] = np.cumsum(columns[order]) <= max(room, 0)
    return fits | (columns == 0)


def _whole(problem: CollocatedAllocation) -> bool:
    """Whether all traffic is in whole tuples, few enough to be told apart in floating point."""
    traffic = problem.pairs.traffic
    return not problem.combines and bool((traffic == np.rint(traffic)).all()) and problem.total_traffic < 1e8


def _tuple_share(problem: CollocatedAllocation) -> float | None:
    """One tuple as a share of all traffic, where traffic is whole."""
    return 1.0 / problem.total_traffic if problem.total_traffic > 0 and _whole(problem) else None
