"""Priorities: one stage after another; each keeps what the earlier ones have reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from keyshift.models import Answer, Budget
from keyshift.models.priorities import TIE, Prioritised, Stage, StageBound
from keyshift.models.rules.ruled import BROKEN
from keyshift.models.workload import IntArray
from keyshift.solvers.stages.search import StageSettings, improve_within

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
    plain, names = problem.plain(), problem.stages
    found, ends, kept = start, [], dict[str, float]()
    if names[0] == BROKEN:
        found = _mended(problem, own, budget, found)
    proven: list[StageBound] = []
    told, settings = Answer(start), StageSettings.now()
    for place, name in enumerate(names):
        stage = Stage(plain, name, dict(kept))
        if place and found is not None and budget.expired:  # nothing is begun any more
            proven.append(StageBound(name, None, dict(kept)))
            ends.append(False)
            kept[name] = stage.objective(found)
            continue
        share = budget.part(1.0 if place == len(names) - 1 else settings.share, scale=stage.scale)
        posed = (
            _limited(plain, kept, found) if name == plain.own_measure and (later is not None or place == 0) else None
        )
        if posed is not None:
            answer = own(posed, share if later is None else share.part(settings.own_share), found)
            if later is not None:
                answer = _searched_on(stage, answer, share, seed)
        elif later is not None:
            if BROKEN in kept and name == plain.own_measure and found is not None:
                alike = share.part(
                    settings.own_share, scale=stage.scale
                )  # another problem: its bound is not the stage's
                found = _as_broken(plain, stage, own, found, alike)
            answer = later(stage, budget=share, seed=seed, start=found)
        else:
            answer = _searched(stage, own(plain, share, None) if place == 0 else told, share, found, seed)
        if place == 0:
            told = answer
        if answer.problem is not None or (
            place == 0 and (answer.assignment is None or plain.violations(answer.assignment))
        ):
            return _alone(problem, answer, name)
        found = _better(stage, answer.assignment, found)
        if found is None:
            return _alone(problem, answer, names[0])
        value = stage.objective(found)
        bound = answer.bound if answer.bound is None or answer.bound <= value + stage.tolerance_of(value) else 0.0
        proven.append(StageBound(name, bound, dict(kept)))
        ends.append(bound is not None and value - bound <= stage.tolerance_of(value))
        kept[name] = stage.most(value, bound)
        budget.report(note=f"{name} {value:.6g}")
    ended = "optimal" if all(ends) else budget.why if budget.expired else "gap" if later is not None else "completed"
    open_ones = ", ".join(name for name, end in zip(names, ends, strict=True) if not end)
    said = f"not proven before the stage ended: {open_ones}" if ended == "gap" and not told.message else told.message
    return replace(told, assignment=found, bound=proven[0].bound, termination=ended, message=said, stages=tuple(proven))


def _mended(problem: Prioritised, own: Own, budget: Budget, found: IntArray | None) -> IntArray | None:
    """An assignment that breaks no rule, where the method finds one soon; else what there was."""
    strict, here = problem.strict().plain(), problem.workload.current  # type: ignore[attr-defined]  # it has rules
    known = found if found is not None else here
    if known.shape == here.shape and not strict.violations(known):
        return known
    if strict.conflicts():
        return found
    answer = own(strict, budget.part(StageSettings.now().mending, scale=strict.scale), None)
    able = answer.assignment is not None and answer.problem is None and not strict.violations(answer.assignment)
    return answer.assignment if able else found


def _as_broken(plain: Prioritised, stage: Stage, own: Own, found: IntArray, budget: Budget) -> IntArray:
    """Improve an assignment by the method where no rule may be broken by more; it proves nothing of others."""
    other = own(plain.as_broken(found), budget, found)  # type: ignore[attr-defined]  # it has rules
    return found if (best := _better(stage, other.assignment, found)) is None else best


def _limited(plain: Prioritised, kept: dict[str, float], found: IntArray | None) -> Prioritised | None:
    """The problem with measures kept by limits of its own, if it has them: where no rule is broken, the rules are."""
    if kept.get(BROKEN, 1.0) <= TIE and found is not None:
        strict = plain.strict()  # type: ignore[attr-defined]  # it has rules
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
