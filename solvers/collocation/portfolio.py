"""Collocated allocation, exactly and anytime: the components that the conductor gives turns to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Threads, Whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import BoolArray
from keyshift.solvers.checked import better_of
from keyshift.solvers.collocation.arrays import BOUNDED, Arrays
from keyshift.solvers.collocation.joining import joined
from keyshift.solvers.collocation.lagrangian import LagrangianBound, tighten
from keyshift.solvers.collocation.levels import level_components
from keyshift.solvers.collocation.local_search import SEARCHED, TOO_MANY, Annealing, search_turns
from keyshift.solvers.collocation.metis import by_metis
from keyshift.solvers.collocation.multilevel import Multilevel, Peer
from keyshift.solvers.collocation.sets import CollocationSets
from keyshift.solvers.collocation.statement import run_highs, second_opinion, solve_cpsat
from keyshift.solvers.collocation.structural_bounds import (
    mean_bound,
    most_by_structure,
    objective_bound,
    reweigh,
    semidefinite_cut,
    share_of,
)
from keyshift.solvers.conductor import Component, Incumbent, conduct, solver_turns
from keyshift.solvers.tuning import CollocationSettings

FEW_SMALL, SMALL = 3, 15_000
"""Few key groups move already if they are less than this part of all where the model has at most so many columns: larger ones
leave HiGHS no time for few moves to help."""
FIRST = 1_500_000
"""Steps of the search before it may begin anew where it gains nothing any more; on small instances fewer."""
CYCLES = 30
"""Cycles of graph partitioning where sets and solvers are not to be asked."""
COLUMNS_PER_EFFORT, COLUMNS_OF_FEW, FREE_WINDOWS, WAITS, OF_SETS = 1_000, 5_000, 4, 0.06, 5e-3
"""Variables for HiGHS for each unit of effort of its turn; where few key groups may move, for the root of these: there it mostly
proves the optimum, or has found nothing at the end of its time. Over more windows than the last it gets fewer: each adds rows.
A turn begins when the others have done this share of its length. Effort of the first turn of sets for each key group and node."""


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
    """The linearised model by the conductor (`keyshift.solvers.conductor`), which gives turns to these components:

    - *search*: annealing (`Annealing`) from the start, and again whenever it gains nothing any more; where moves are not scarce,
      *partitions* of the graph (`Multilevel`).
    - *bound* on the traffic that can be collocated: the structure of the traffic (`most_by_structure`), Lagrangian relaxation
      (`tighten`), and where many may move a *semidefinite* relaxation (`semidefinite_cut`). Every node that the Lagrangian bound
      proves no better for a key group than the incumbent is closed to it.
    - *sets*: of dozens of key groups, branch and price over the sets of them that nodes can carry (`CollocationSets`).
    - *CP-SAT* on the declarative statement, from the incumbent: at once where it is small.
    - *HiGHS* on what is left open, from the incumbent. Where even that is too large, the weakest pairs are bounded
      rather than modelled; where few key groups may move, HiGHS waits for a longer turn.

    Parameters
    ----------
    problem : CollocatedAllocation
    budget : Budget
    seed : int
    start : ndarray, optional
        A feasible assignment.
    threads : int, default 1
        For the solvers. More than one may return another optimum from run to run.
    search_steps, bound_steps : int, optional
        How long search and bound take, in steps, before the one begins anew and the other waits for a better incumbent.
        None grows with the instance, to 1,500,000 and 1,500.
    finish : bool, default True
        Go on to sets and solvers. Without it the method is a fast heuristic with a bound.
    peer : {"kahip", "mtkahypar"}, optional
        Where graph partitioning suits, begin it from what this program makes of the graph: ``pip install
        'keyshift[partition]'``. It has no time limit.

    Notes
    -----
    Over k windows all components have the limits of each of them. Where (15) is not the mean, the bound is that of a
    weighted mean of the windows' traffic, with weights that each turn leans to those that were worst in it.

    Where traffic costs by level: `level_components`.
    """
    asked: dict[str, Any] = {"search_steps": search_steps, "bound_steps": bound_steps, "finish": finish}
    if problem.costs is not None:
        found = Incumbent(problem, budget)
        found.add_solution(start)
        conduct(found, level_components(found, solve_milp, seed=seed, threads=threads, **asked))
        return found.answer()
    if budget.late:
        return Answer(start, termination=budget.why, message="the time limit was reached before the search began")
    if (data := Arrays(problem)).cells > BOUNDED:
        steps = (FIRST * 10_000 if finish else FIRST) if search_steps is None else search_steps
        return _large(problem, data, budget, seed, start, steps)
    run = CollocationPortfolio(problem, budget, seed, threads, start)
    conduct(run.found, run.components(peer=peer, **asked))
    return run.found.answer()


def _large(
    problem: CollocatedAllocation, data: Arrays, budget: Budget, seed: int, start: np.ndarray | None, steps: int
) -> Answer:
    """METIS where moves are not scarce, joins, the bounds that take one pass, and the annealing where it fits into memory."""
    found = Incumbent(problem, budget)
    if Multilevel.suits(problem, data) and (parts := by_metis(problem, data, budget)) is not None:
        start = better_of(problem, Answer(joined(problem, data, parts, budget.part(0.5), seed)), start).assignment
    # Where nothing is annealed joins are all there is: they have the time but for the bounds.
    share = 0.5 if data.cells <= SEARCHED else 0.8
    found.add_solution(joined(problem, data, start, budget.part(share), seed), "joins")
    if not budget.expired:
        found.raise_bound(mean_bound(problem, most_by_structure(data, budget.part(0.2))), "structure")
    if data.cells > SEARCHED and not found.done:
        found.add_solution(joined(problem, data, found.best, budget, seed + 1), "joins")
    elif not found.done:
        search = Annealing(problem, found.best, seed, data)
        search.go_on(budget, steps, again=True)
        found.add_solution(search.best, "local search")
    answer = found.answer()
    return answer if data.cells <= SEARCHED else replace(answer, message=TOO_MANY)


class CollocationPortfolio:
    """The components of "milp" for one instance, around one incumbent.

    Parameters
    ----------
    problem : CollocatedAllocation
    budget : Budget
    seed, threads, start
        As for `solve_milp`.
    """

    def __init__(
        self,
        problem: CollocatedAllocation,
        budget: Budget,
        seed: int = 0,
        threads: int = 1,
        start: np.ndarray | None = None,
    ) -> None:
        self.problem, self.seed, self.threads = problem, seed, threads
        self.settings, self.data = budget.tuned(CollocationSettings), Arrays(problem)
        whole = problem.minimise == "remote_traffic" and _whole(problem)
        self.found = Incumbent(
            problem, budget, next_value=lambda bound: max(0.0, float(np.ceil(bound - 1e-6))) if whole else bound
        )
        self.found.add_solution(start)
        self.lagrangian = LagrangianBound(self.data)
        self.mean = self.data if self.data.windows == 1 else Arrays(problem.averaged())

    def components(
        self,
        search_steps: int | None = None,
        bound_steps: int | None = None,
        finish: bool = True,
        peer: Peer | None = None,
    ) -> list[Component]:
        """The components that suit the instance."""
        data, problem, settings = self.data, self.problem, self.settings
        pairs = data.key_groups * data.nodes
        made = list[Component]()
        if Multilevel.suits(problem, data):
            large = data.key_groups > settings.provable
            made.append(
                Component("partitions", self.partition_turns(peer, finish), settings.partitioning if large else 0.25)
            )
        steps = min(FIRST, 1_000 * pairs) if search_steps is None else search_steps
        made.append(Component("search", search_turns(self.found, self.seed, steps, finish, self.few), 2.0))
        rounds = min(1500, 50 + 5 * data.key_groups) if bound_steps is None else bound_steps
        made.append(Component("bound", self.bound_turns(rounds, finish)))
        if not finish:
            return made
        later = min(settings.late, settings.waits * pairs)
        if not self.few:  # with few moves the Lagrangian bound is far better
            made.append(Component("semidefinite bound", self.semidefinite_turns()))
        if not problem.rules and CollocationSets.suits(problem, data):
            made.append(Component("sets", self.sets_turns(), 1.0, later))
        columns = data.nodes * data.first.size
        if columns <= settings.most_columns:
            cpsat = solver_turns(self.found, self.by_cpsat, "CP-SAT", settings.first)
            made.append(Component("CP-SAT", cpsat, 1.0, later if columns <= settings.small else settings.late))
        made.append(Component("HiGHS", self.highs_turns(), 1.0, min(later, settings.first)))
        return made

    @property
    def few(self) -> bool:
        """Whether so few key groups may move that linear relaxations are near the optimum."""
        data = self.data
        columns = data.nodes * data.first.size
        return data.max_moves < data.key_groups // (FEW_SMALL if columns <= SMALL else self.settings.few)

    # The components --------------------------------------------------------------------------------------------------

    def partition_turns(self, peer: Peer | None, finish: bool) -> Iterator[None]:
        """Graph partitioning, a cycle at a turn."""
        partitions = Multilevel(self.problem, self.data, self.seed)
        if peer is not None:
            partitions.ask(peer, self.seed)
        elif (parts := by_metis(self.problem, self.data, self.found.budget)) is not None:
            partitions.take(parts, self.found.budget)
            self.found.add_solution(partitions.best, "METIS")
            yield
        cycles = min(CYCLES, self.data.key_groups)
        while finish or cycles > 0:
            partitions.go_on(self.found.budget, 1)
            cycles -= 1
            self.found.add_solution(partitions.best, "partition")  # it hardly limits moves
            yield

    def bound_turns(self, steps: int, finish: bool) -> Iterator[None]:
        """Bounds on what can be collocated; a Lagrangian one goes on while it helps, and when there is a better incumbent."""
        found, problem, lagrangian = self.found, self.problem, self.lagrangian
        found.raise_bound(mean_bound(problem, most_by_structure(self.mean, found.budget)), "structure")
        turn, length, last = 0, min(steps, 100 if finish else steps), (np.inf, -np.inf)
        while finish or turn == 0 or length < steps:
            if turn > 1 and last == (found.objective, found.bound):
                yield
                continue
            last = found.objective, found.bound
            share = None if found.best is None else share_of(problem, lagrangian, found.best)
            most = tighten(lagrangian, found.budget, share, length, _tuple_share(problem))
            found.raise_bound(objective_bound(problem, lagrangian, most), "Lagrangian relaxation")
            reweigh(problem, lagrangian, turn)
            turn, length = turn + 1, min(2 * length, steps)
            yield

    def semidefinite_turns(self) -> Iterator[None]:
        """The semidefinite bound, of what the Lagrangian one leaves unproven."""
        yield
        found, length = self.found, self.settings.first
        while True:
            turn = found.budget.turn(length)
            cut = semidefinite_cut(self.mean, turn)
            found.raise_bound(mean_bound(self.problem, 1.0 - cut), "semidefinite relaxation")
            if (cut > 0 and not turn.expired) or length > found.budget.time_limit:
                return
            length *= 2
            yield

    def sets_turns(self) -> Iterator[None]:
        """Sets, which are far fewer once there is an incumbent: for a while they wait for one."""
        first, data = self.settings.first, self.data
        for _ in range(0 if CollocationSets.tabled(data, first) else 4):
            if self.found.best is None:
                yield
        # They cannot go on where they stopped: a first turn is long enough for most proofs, unless that is too long to wait for.
        enough = OF_SETS * data.key_groups * data.nodes
        longer = max(first, enough) if enough <= self.settings.late else first
        yield from solver_turns(self.found, self.by_sets, "sets", longer)

    def by_sets(self, turn: Budget) -> Answer:
        """The answer by the sets that nodes can carry."""
        problem, found, tuple_share = self.problem, self.found, _tuple_share(self.problem)
        # A little less than the incumbent's slack, which is half of the tolerance: the difference of the two is rounded.
        less = 0.49 * problem.tolerance
        closer = 0.999 * tuple_share if tuple_share else less / (problem.saved * self.data.traffic_unit)
        sets = CollocationSets(problem, self.data, found.best, closer, self.lagrangian.open_to)
        done = sets.run(turn)
        details = {"sets": found.details.get("sets", 0) + sets.visited}
        bound = mean_bound(problem, 1.0 - sets.lowest)
        if sets.best is None:
            said = "no assignment meets the load distance within the other limits" if done else ""
            return Answer(None, bound, "infeasible" if done else "gap", said, details)
        best = better_of(problem, Answer(sets.best), found.best).assignment
        if done and best is not None:
            # Where traffic is in whole tuples the next better answer has one less.
            bound = max(bound, problem.objective(best) - (0.0 if tuple_share else less))
        return Answer(best, bound, "gap", details=details)

    def by_cpsat(self, turn: Budget) -> Answer:
        """CP-SAT on the whole statement."""
        return solve_cpsat(self.problem, budget=turn, seed=self.seed, start=self.found.best, threads=self.threads)

    def highs_turns(self) -> Iterator[None]:
        """HiGHS on what is left open, in turns that are long enough for so much; before a long one the others have had theirs."""
        # Where few key groups may move the first turn is long enough for most proofs: what ends early is begun again.
        found, length = self.found, (20.0 if self.few else 1.0) * self.settings.first
        while True:
            while (explicit := self.modelled(length)) is None:
                if length > 1e3:
                    return
                length *= 1.25
            if found.budget.work < WAITS * length and not found.all_wait:
                yield
                continue
            turn = found.budget.turn(length)
            found.take(self.by_highs(turn, explicit), "HiGHS")
            if not turn.expired and explicit.all():
                return
            length *= 2
            yield

    def modelled(self, work: float) -> BoolArray | None:
        """The pairs that are modelled in a turn of so much work, the others being bounded; None where it is too little."""
        data, open_to = self.data, self.open_to
        in_time = COLUMNS_OF_FEW * np.sqrt(work) if self.few else COLUMNS_PER_EFFORT * work
        most = min(self.settings.most_columns, in_time) / max(1.0, data.windows / FREE_WINDOWS)
        room = int(most) - int(open_to.sum())
        explicit = _explicit(data, open_to, room)
        # Where z weighs on loads, or on more than one window's traffic, no pair can be left out.
        whole = data.serialisation.max() > 0 or data.row_share.size > 1
        too_large = room < 0 or (not explicit.all() and self.few)
        return (
            None
            if (np.isfinite(self.found.budget.time_limit) and too_large) or (whole and not explicit.all())
            else explicit
        )

    @property
    def open_to(self) -> BoolArray:
        """Where better assignments than the incumbent may have key groups."""
        return self.data.allowed if self.found.best is None else self.lagrangian.open_to

    def by_highs(self, turn: Budget, explicit: BoolArray) -> Answer:
        """What is closed is no better than the incumbent, so the bound is that of the rest, or the incumbent."""
        problem, data, best, open_to = self.problem, self.data, self.found.best, self.open_to
        outside = (None, None) if explicit.all() else (explicit, self.lagrangian.beyond(explicit))
        rest = run_highs(problem, turn, self.seed, best, self.threads, None if best is None else open_to, *outside)
        rest.details |= {"open": int(open_to.sum()), "pairs_left_out": int((~explicit).sum())}
        small = data.nodes * len(problem.pairs) <= self.settings.confirmed
        if best is None:
            return (
                second_opinion(problem, turn, self.seed, self.threads, rest)
                if rest.termination == "infeasible"
                else rest
            )
        value = problem.objective(best)
        if rest.termination == "infeasible":  # nothing better is left open
            rest = Answer(best, 0.0 if small else value, "gap", details=rest.details)
        rest.bound = min(rest.bound or 0.0, value)
        rest.termination = "gap"
        met = self.found.objective - max(rest.bound, self.found.bound) <= self.found.slack
        return (
            second_opinion(problem, turn, self.seed, self.threads, rest)
            if small and not met and not turn.expired
            else rest
        )


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
