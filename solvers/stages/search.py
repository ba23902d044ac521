"""Priorities, one stage after another, and the local search for later ones: none gives up what an earlier one has reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from keyshift.models import Answer, Budget
from keyshift.models.objectives import TIE, Prioritised
from keyshift.models.rules.ruled import BROKEN as BROKEN_RULES
from keyshift.models.stages import Stage, StageBound
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.search.annealing import Cooling, LocalSearch, shares_of
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.tuning import StageSettings

SHARE, OWN_SHARE = 0.5, 0.7
"""Of the time left every stage but the last may take the first; of a stage's time the method itself may take the second, and
local search goes on where it has no proof."""
COUNTED = ("migrations", "table_size", "draining_key_groups", BROKEN_RULES)
"""Measures that are whole numbers."""
SHARES = shares_of(join=0.2, cluster=0.25, anywhere=0.1, swap=0.25, go_home=0.1, exchange_home=0.1)
MOVED_SHARES = shares_of(join=0.1, cluster=0.2, anywhere=0.1, swap=0.1, go_home=0.25, exchange_home=0.25)


def improve_within(
    stage: Stage,
    start: IntArray,
    budget: Budget,
    seed: int = 0,
    rounds: int | None = None,
) -> IntArray:
    """The best assignment for a stage that simulated annealing finds from a feasible one; the start if none is better.

    A step moves a key group or two that talk to each other, swaps them with others, or sends moved ones back; where
    the migration limit is full, others go back with them. Whatever breaks a limit of the problem or raises an earlier
    measure above what is kept is refused, so every step's assignment is as good in the earlier stages as the start. Its
    arrays are of the last window: where others are planned for, the start comes back.

    No guarantee. A step costs O(nodes + degree). The same seed gives the same answer, unless the budget ends it.
    """
    last_alone = getattr(stage.problem, "by_window", (stage.problem,))[0] is stage.problem
    if stage.violations(start) or start.size == 0 or not last_alone:
        return start
    settings, best, value = budget.tuned(StageSettings), start, stage.objective(start)
    posed = Posed(stage.problem, stage.kept, stage.measure, start)
    search = LocalSearch(posed.placing, MOVED_SHARES if stage.measure in COUNTED else SHARES, seed, 83)
    steps = min(settings.steps * start.size, 20_000)
    for turn in range(settings.rounds if rounds is None else rounds):
        if budget.expired or value <= 0:
            break
        search.begin(best)
        aim, size = posed.aim(best)
        hot = 1.0 if aim.doublings or stage.measure in COUNTED else size * (0.03 if turn % 2 == 0 else 0.006)
        made, _ = search.cool(aim, Cooling(steps, hot, hot / 3_000))
        found = stage.objective(made)
        if found < value and kept(stage, made):
            best, value = made, found
            budget.report(note=f"{stage.measure} {value:.6g}")
    return best


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
            if BROKEN_RULES in at.kept and name == at.plain.own_measure and found is not None:
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
        if BROKEN_RULES not in kept and (zero := self.plain.without(name, most)) is not None:
            return _Kept(zero, kept, self.held)
        return _Kept(self.plain, kept, {**self.held, name: most})


def _begun(problem: Prioritised, own: Own, budget: Budget, found: IntArray | None) -> tuple[_Kept, IntArray | None]:
    """Where the stages begin: with an answer in which the first measure is 0, where limits can say so and it is found soon."""
    plain, first = problem.plain(), problem.stages[0]
    if first == BROKEN_RULES:
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
    if kept.get(BROKEN_RULES, 1.0) <= TIE and found is not None:
        strict = plain.hard()
        if not strict.violations(found):
            return strict.limited({name: most for name, most in kept.items() if name != BROKEN_RULES})  # type: ignore[no-any-return]
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
