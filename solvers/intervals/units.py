"""State sizes as whole numbers: ask again in finer units, with the sizes of what surely stays capped, while rounding shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keyshift.models import Answer
from keyshift.models.base.integers import Scaled, capped, scaled
from keyshift.models.intervals import IntervalMigration, MigrationSequence
from keyshift.models.workload import FloatArray

NEVER = -(1 << 60)
"""What dynamic programs in whole units put for what cannot be: below every sum of states."""


def weights(values: FloatArray, bits: int = 52) -> Scaled:
    """Turn state sizes into whole numbers, together below ``2**bits``: exact as a float; a unit is a power of two.

    Nothing is rounded where `bits` bits suffice. Otherwise everything is rounded down, so that the least whole state
    moved is a lower bound as it stands.
    """
    return scaled(values, bits, rounding="down", decimals=False)


def in_fine_units(
    problem: IntervalMigration | MigrationSequence,
    start: np.ndarray | None,
    answer_to: Callable[[FloatArray, np.ndarray | None], Answer],
) -> Answer:
    """The answer of a method that counts in units of about all the state, exact for answers far smaller than that.

    An answer that moves v proves that nothing heavier than v moves in any better one, so states above v may be capped
    at it: the same assignments are best, the bound holds, and the units become fine beside v.

    Parameters
    ----------
    start : ndarray or None
        A feasible assignment, kept unless a better one is found.
    answer_to : callable
        From state sizes, shape (m,), and the best assignment so far to an answer whose bound holds for these sizes.
        It ends with termination "optimal" when it has proved what its units allow.
    """
    state, best, bound = problem.workload.state, start, 0.0
    value = np.inf if best is None else problem.objective(best)
    while True:
        answer = answer_to(state, best)
        if answer.termination == "infeasible":
            return answer
        found = answer.assignment
        if found is not None and (reached := problem.objective(found)) < value:
            best, value = found, reached
        if bound > value + problem.tolerance_of(value):
            bound = 0.0  # an earlier round proved too much: a solver's word, refuted
        bound = max(bound, answer.bound or 0.0)
        answer.assignment, answer.bound = best, bound
        if best is None or answer.termination != "optimal":
            return answer
        if value - bound <= problem.tolerance_of(value):
            return answer
        less = capped(state, value)
        if float(less.sum()) > 0.75 * float(state.sum()):  # units would hardly shrink
            answer.termination = "gap"
            return answer
        state = less
