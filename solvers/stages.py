"""Priorities, one stage after another, and the local search for later ones: none gives up what an earlier one has reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from keyshift.models import Answer, Budget
from keyshift.models.objectives import TIE, Prioritised
from keyshift.models.rules.ruled import BROKEN
from keyshift.models.stages import Stage, StageBound, state
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import answered, confirmed, without_false_bound
from keyshift.solvers.conductor import SHORTEST, Component, Incumbent, conduct, solver_turns
from keyshift.solvers.least_moved import MOVED, cost_of, least_moved, rules_kept
from keyshift.solvers.search.annealing import Cooling, LocalSearch, Task, search_within, shares_of
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.search.program import Aim
from keyshift.solvers.tuning import StageSettings

SHARE, OWN_SHARE = 0.5, 0.7
"""Of the time left every stage but the last may take the first; of a stage's time the method itself may take the second, and
local search goes on where it has no proof."""
COUNTED = ("migrations", "table_size", "draining_key_groups", BROKEN)
"""Measures that are whole numbers."""
SHARES = shares_of(join=0.2, cluster=0.25, anywhere=0.1, swap=0.25, go_home=0.1, exchange_home=0.1)
FIRST, COLUMNS = 0.1, 20_000
"""Effort of a first turn; where a statement has more variables, as much as this goes into it, and solvers wait for as long."""
MOVED_SHARES = shares_of(join=0.1, cluster=0.2, anywhere=0.1, swap=0.1, go_home=0.25, exchange_home=0.25)


def improve_within(stage: Stage, start: IntArray, budget: Budget, seed: int = 0, rounds: int | None = None) -> IntArray:
    """The best assignment for a stage that simulated annealing finds from a feasible one; the start if none is better.

    No guarantee. The same seed gives the same answer, unless the budget ends it; `search_turns` says how.
    """
    found = Incumbent(stage, budget)
    found.add_solution(start)
    if found.best is None:
        return start
    for _ in search_turns(found, seed, budget.tuned(StageSettings).rounds if rounds is None else rounds):
        pass
    return found.best


def search_turns(found: Incumbent, seed: int, rounds: float = math.inf) -> Iterator[None]:
    """Rounds of annealing from the incumbent, as many at a turn as take its least work, now and then of twice the steps.

    A step moves a key group or two that talk to each other, swaps them with others, or sends moved ones back; where
    the migration limit is full, others go back with them. Whatever breaks a limit of the problem or raises an earlier
    measure above what is kept is refused, so every step's assignment is as good in the earlier stages as the start. Its
    arrays are of the last window: where others are planned for, there is no round. A step costs O(nodes + degree).
    """
    stage, budget = found.problem, found.budget
    while found.best is None:
        yield
    if getattr(stage.problem, "by_window", (stage.problem,))[0] is not stage.problem or found.best.size == 0:
        return
    settings, turn, counted = budget.tuned(StageSettings), 0, stage.measure in COUNTED
    posed = Posed(stage.problem, stage.kept, stage.measure, found.best)
    search = LocalSearch(posed.placing, MOVED_SHARES if counted else SHARES, seed, 83)
    while turn < rounds and not found.done:
        begun = budget.work
        while budget.work - begun < SHORTEST and turn < rounds and not found.done:
            steps = min(settings.steps * found.best.size, 20_000) << min(turn // max(settings.rounds, 1), 12)
            search.begin(found.best)
            aim, size = posed.aim(found.best)
            hot = 1.0 if aim.doublings or counted else size * (0.03 if turn % 2 == 0 else 0.006)
            made, _ = search.cool(aim, Cooling(steps, hot, hot / 3_000))
            budget.spend(steps / 2 + 2 * found.best.size)
            if stage.objective(made) < found.objective:
                found.add_solution(made, stage.measure, ())
            turn += 1
        yield


# One stage after another; each keeps what the earlier ones have reached ----------------------------------------------


Own = Callable[[Prioritised, Budget, IntArray | None], Answer]
"""A method on a problem without priorities."""
Later = Callable[..., Answer]
"""``later(stage, budget=..., seed=..., start=...)``."""


def lexicographic(
    problem: Prioritised, own: Own, later: Later | None, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """Minimise the measures of a problem's `priorities`, one after another.

    A stage that minimises what the problem itself minimises - the first one, as a rule, or a later one whose kept
    measures are limits that the problem knows - is given to the method. Any other is given to `later`, from the best
    answer so far. What a proven stage reached may rise by what the problem calls a tie; what is not proven, by nothing.

    Parameters
    ----------
    problem : Prioritised
    own : callable
        The method, on a problem without priorities.
    later : callable, optional
        What answers the other stages. None, for heuristics: local search (`improve_within`), which proves nothing.
    budget, seed, start
        As for any method.

    Returns
    -------
    Answer
        Its `bound` is the first stage's; `stages` holds one for every stage, valid for assignments that keep what the earlier
        stages reached.
    """
    names = problem.stages
    at, found = _begun(problem, own, budget, start)
    ends, proven = list[bool](), list[StageBound]()
    told = Answer(start)
    last = 0.8 if problem.ties else 1.0  # the rest is for the choice among answers alike in all stages
    for place, name in enumerate(names):
        stage = at.stage(name)
        if place and found is not None and budget.expired:  # nothing is begun any more
            proven.append(StageBound(name, None, dict(at.kept)))
            ends.append(False)
            at = at.keeping(name, stage.objective(found))
            continue
        share = budget.part(last if place == len(names) - 1 else SHARE, scale=stage.scale)
        by_itself = name == at.plain.own_measure and (later is not None or place == 0)
        posed = _limited(at.plain, at.held, found) if by_itself else None
        if posed is not None:
            answer = own(posed, share if later is None else share.part(OWN_SHARE), found)
            if later is not None:
                answer = _searched_on(stage, answer, share, seed)
        elif later is not None:
            if BROKEN in at.kept and name == at.plain.own_measure and found is not None:
                alike = share.part(OWN_SHARE, scale=stage.scale)  # another problem: its bound is not the stage's
                found = _elastic(at.plain, stage, own, found, alike)
            answer = later(stage, budget=share, seed=seed, start=found)
        else:
            answer = _searched(stage, own(at.plain, share, None) if place == 0 else told, share, found, seed)
        if place == 0:
            told = answer
        if answer.problem is not None or (
            place == 0 and (answer.assignment is None or at.plain.violations(answer.assignment))
        ):
            return _alone(problem, answer, name)
        found = _better(stage, answer.assignment, found)
        if found is None:
            return _alone(problem, answer, names[0])
        value = stage.objective(found)
        bound = answer.bound if answer.bound is None or answer.bound <= value + stage.tolerance_of(value) else 0.0
        proven.append(StageBound(name, bound, dict(at.kept)))
        ends.append(bound is not None and value - bound <= stage.tolerance_of(value))
        at = at.keeping(name, stage.most(value, bound))
        budget.report(note=f"{name} {value:.6g}")
    ended = "optimal" if all(ends) else budget.why if budget.expired else "gap" if later is not None else "completed"
    open_ones = ", ".join(name for name, end in zip(names, ends, strict=True) if not end)
    said = f"not proven before the stage ended: {open_ones}" if ended == "gap" and not told.message else told.message
    found = _among_ties(problem.ties, at, found, later, budget, seed)
    return replace(told, assignment=found, bound=proven[0].bound, termination=ended, message=said, stages=tuple(proven))


@dataclass(frozen=True)
class _Kept:
    """The problem of the stages to come.

    Attributes
    ----------
    plain : Prioritised
        Some measures that are 0 are limits of its own.
    kept : dict of str to float
        The most that each earlier measure may be.
    held : dict of str to float
        Those of them that are not limits of `plain`.
    """

    plain: Prioritised
    kept: dict[str, float] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)

    def stage(self, name: str) -> Stage:
        """The stage of a measure."""
        return Stage(self.plain, name, dict(self.held))

    def keeping(self, name: str, most: float) -> _Kept:
        """The same with one measure more that is kept."""
        kept = {**self.kept, name: most}
        if BROKEN not in kept and (zero := self.plain.without(name, most)) is not None:
            return _Kept(zero, kept, self.held)
        return _Kept(self.plain, kept, {**self.held, name: most})


def _begun(problem: Prioritised, own: Own, budget: Budget, found: IntArray | None) -> tuple[_Kept, IntArray | None]:
    """Where the stages begin: with an answer in which the first measure is 0, where limits can say so and it is found soon."""
    plain, first = problem.plain(), problem.stages[0]
    if first == BROKEN:
        return _Kept(plain), _kept_to(problem.hard().plain(), own, budget, found)
    zero = None if plain.least(first) > 0 else plain.without(first, 0.0)
    return _Kept(plain), found if zero is None else _kept_to(zero, own, budget, found)


def _among_ties(
    ties: tuple[str, ...], at: _Kept, found: IntArray | None, later: Later | None, budget: Budget, seed: int
) -> IntArray | None:
    """Of the answers alike in all stages the best that is found in further measures, one after another."""
    for name in ties:
        if found is None or budget.expired:
            break
        stage = at.stage(name)
        share = budget.part(SHARE, scale=stage.scale)
        better: IntArray | None = improve_within(stage, found, share, seed)
        bound = None
        if later is not None:
            answer = later(stage, budget=share, seed=seed, start=better)
            better, bound = answer.assignment, answer.bound
        if (best := _better(stage, better, found)) is not None:
            found = best
        at = at.keeping(name, stage.most(stage.objective(found), bound))
    return found


def _kept_to(strict: Prioritised, own: Own, budget: Budget, found: IntArray | None) -> IntArray | None:
    """An assignment that keeps stricter limits, where the method finds one soon; else what there was."""
    here = strict.workload.current
    known = found if found is not None else here
    if known.shape == here.shape and not strict.violations(known):
        return known
    if strict.conflicts():
        return found
    answer = own(strict, budget.part(0.3, scale=strict.scale), None)
    able = answer.assignment is not None and answer.problem is None and not strict.violations(answer.assignment)
    return answer.assignment if able else found


def _elastic(plain: Prioritised, stage: Stage, own: Own, found: IntArray, budget: Budget) -> IntArray:
    """Improve an assignment by the method where no rule may be broken by more; it proves nothing of others."""
    other = own(plain.elastic_at(found), budget, found)
    return found if (best := _better(stage, other.assignment, found)) is None else best


def _limited(plain: Prioritised, kept: dict[str, float], found: IntArray | None) -> Prioritised | None:
    """The problem with measures kept by limits of its own, if it has them: where no rule is broken, the rules are."""
    if kept.get(BROKEN, 1.0) <= TIE and found is not None:
        strict = plain.hard()
        if not strict.violations(found):
            return strict.limited({name: most for name, most in kept.items() if name != BROKEN})  # type: ignore[no-any-return]
    return plain.limited(kept)


def _searched_on(stage: Stage, answer: Answer, budget: Budget, seed: int) -> Answer:
    """An unproven answer, improved by a local search that keeps every limit on the way."""
    found = answer.assignment
    if found is None or stage.violations(found) or answer.problem is not None:
        return answer
    value = stage.objective(found)
    if answer.bound is not None and value - answer.bound <= stage.tolerance_of(value):
        return answer
    return replace(answer, assignment=improve_within(stage, found, budget, seed))


def _searched(stage: Stage, answer: Answer, budget: Budget, found: IntArray | None, seed: int) -> Answer:
    """The best answer so far, improved for a stage by local search."""
    known = _better(stage, answer.assignment, found)
    if known is None:
        return answer
    return Answer(improve_within(stage, known, budget, seed), None, budget.why)


def _better(stage: Stage, one: IntArray | None, other: IntArray | None) -> IntArray | None:
    """The better of two assignments for a stage, among those that keep its limits."""
    able = [a for a in (one, other) if a is not None and not stage.violations(a)]
    return min(able, key=stage.objective) if able else None


def _alone(problem: Prioritised, answer: Answer, measure: str) -> Answer:
    """An answer of the method itself: without an assignment, or to a problem that lacks rules."""
    bound = answer.bound if measure == problem.stages[0] else None
    return replace(answer, bound=bound)


# A later stage by the declarative statements: HiGHS, CP-SAT, or local search first and both for what it leaves open ---


COUNTS = ("migrations", "table_size")


class Stated(Protocol):
    """A formulation as a stage asks it: the catalogue's entry has the answers."""

    @property
    def measure_bounds(self) -> Mapping[str, Callable[[Any, Budget, int], float]]:
        """By measures: what arithmetic and small programs say at any size, as ``bound(problem, budget, seed)``."""

    def stated(self, stage: Stage, language: str) -> Any:
        """The plain statement of a stage in a language."""


def by_cpsat(
    stage: Stage, formulation: Stated, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """A stage by CP-SAT on the problem's statement, with the earlier measures kept by rows of their own."""

    def stated(stage: Stage) -> Any:
        made = formulation.stated(stage, "cp-sat")
        least = state(stage, made)
        made.bound = lambda proven: max(0.0, least(int(proven)))
        return made

    return answered(stage, "cpsat", stated, budget=budget, seed=seed, start=start)


def by_highs(
    stage: Stage, formulation: Stated, *, budget: Budget, seed: int = 0, start: IntArray | None = None
) -> Answer:
    """A stage by HiGHS on the problem's Pyomo statement; what its tolerances leave in doubt goes to CP-SAT."""
    # HiGHS proves its bound within feasibility tolerances; so much of a measure's unit is taken off it.
    error_bound = 0.0 if stage.measure in COUNTS else 5e-7 * stage.scale

    def stated(stage: Stage) -> Any:
        made = formulation.stated(stage, "pyomo")
        unit = state(stage, made)
        made.bound = lambda proven: max(0.0, proven * unit - error_bound)
        return made

    answer = answered(stage, "highs", stated, budget=budget, seed=seed, start=start)
    return confirmed(stage, answer, partial(by_cpsat, formulation=formulation), budget=budget, seed=seed)


def by_search_and_solvers(
    stage: Stage,
    formulation: Stated,
    *,
    budget: Budget,
    seed: int = 0,
    start: IntArray | None = None,
    own: Own | None = None,
) -> Answer:
    """A stage by the conductor: local search, the method itself, a bound, and CP-SAT and HiGHS unless the statement is too long.

    The method itself, `own`, answers problems with less of the measure where that is a limit of the problem (`limited_turns`).
    """
    found, settings = Incumbent(stage, budget), budget.tuned(StageSettings)
    found.add_solution(start)
    bound, known = stage.problem.least(stage.measure), formulation.measure_bounds.get(stage.measure)
    moved, columns = stage.measure in MOVED, _columns(stage.problem)
    if moved:
        bound = max(bound, least_moved(stage.problem, stage.measure, stage.kept))
    found.raise_bound(without_false_bound(stage, Answer(found.best, bound)).bound or 0.0, "arithmetic")
    rounds = math.inf if math.isfinite(budget.time_limit) else settings.rounds
    parts = [Component("search", search_turns(found, seed, rounds), 2.0)]
    if columns > settings.most_columns and moved and (rooms := _priced_rows(stage, found, seed)):
        parts.append(Component("priced rows", rooms))
    if own is not None and stage.problem.own_measure in stage.kept:
        parts.append(Component("limited", limited_turns(found, own), 2.0, FIRST))
    first = max(FIRST, columns / COLUMNS)
    if known is not None and not moved:

        def relaxed(turn: Budget) -> Answer:
            return Answer(None, float(known(stage.problem, turn, seed)), "gap")

        parts.append(Component("bound", solver_turns(found, relaxed, "bound", first)))
    for solver in (by_cpsat, by_highs) if columns <= settings.most_columns else ():

        def ask(turn: Budget, solver: Later = solver) -> Answer:
            return solver(stage, formulation, budget=turn, seed=seed, start=found.best)

        parts.append(Component(solver.__name__, solver_turns(found, ask, solver.__name__[3:], first), 1.0, first))
    conduct(found, parts)
    return found.answer()


def limited_turns(found: Incumbent, own: Own) -> Iterator[None]:
    """The method itself with less and less of what the stage minimises, by bisection: does it keep its own measure as low?

    Where it proves that it cannot, that bounds the stage.
    """
    stage, low, length = found.problem, -math.inf, FIRST
    plain, measure, whole = stage.problem, stage.measure, stage.measure in COUNTED
    kept = {name: most for name, most in stage.kept.items() if name != plain.own_measure}
    most = stage.kept[plain.own_measure]
    while True:
        low = max(low, found.bound)
        if found.best is None or found.objective - low <= max(0.02 * found.objective, float(whole)):
            low, length = found.bound, 2 * length
            yield
            continue
        target = (low + found.objective) / 2
        posed = plain.limited({**kept, measure: math.floor(target) if whole else target})
        if posed is None:
            return
        part = found.budget.part(1.0, scale=posed.scale, silent=True)
        part.enough = most
        answer = own(posed, part.turn(length), None)
        if answer.problem is None and not found.add_solution(answer.assignment, "limited"):
            low = target
            if whole and (answer.bound or 0.0) > most + plain.tie(plain.own_measure, most):
                found.raise_bound(math.floor(target) + 1.0, "limited")
        yield


def _priced_rows(stage: Stage, found: Incumbent, seed: int) -> Iterator[None] | None:
    """A search that prices what rules' rows are exceeded by, for what moves in a large problem with rooms."""
    low = rules_kept(stage.problem, stage.kept)
    if low is None or not low.rooms:
        return None
    posed, cost = Posed(stage.problem, goal=stage.measure), cost_of(stage.problem, stage.measure)
    task = Task(posed.placing, Aim(goal=1.0), cost / (float(cost.max(initial=0.0)) or 1.0))

    def turns() -> Iterator[None]:
        # Without an incumbent a longer cooling is the only hope: each turn has twice as long, up to more than a day.
        for number in range(20):
            turn = found.budget.turn(FIRST * 2.0**number)
            answer = search_within(
                stage, lambda _: task, budget=turn, seed=seed + number, start=found.best, effort=0.25, but=None
            )
            if not found.add_solution(answer.assignment, "priced rows") and found.best is not None and not turn.expired:
                return
            yield

    return turns()


def _columns(problem: Prioritised) -> int:
    """Variables of the statement, roughly."""
    w, pairs = problem.workload, problem.searched().pairs
    return int(w.nodes * (w.key_groups + (0 if pairs is None else pairs[2].size)))
