"""How few exceptions a routing table can have: counted node by node, with the few large keys placed exactly."""

from __future__ import annotations

import math
from dataclasses import replace

from keyshift.models import Budget
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.choices import records_of
from keyshift.solvers import highs
from keyshift.solvers.routing.lagrangian import Relaxation
from keyshift.solvers.routing.large_keys import LargeKeys, singled_out

WORD = 1e-4
"""This many entries are taken off a solver's dual bound."""


def fewest_entries(problem: MixedRouting, budget: Budget, seed: int = 0, most: int | None = None) -> int:
    """A lower bound on the table's size that any answer needs, whatever moves: `LargeKeys`, from where the hash puts everything.

    Parameters
    ----------
    most : int, optional
        Where divisible large keys need more entries already, that figure is returned: weak duality, nobody's word.

    Notes
    -----
    Else the figure rests on HiGHS's dual bound, rounded up after `WORD` is taken off.
    """
    records = records_of(problem)
    keys, large = singled_out(replace(records, current=records.home), problem.upper)
    program = LargeKeys(Relaxation(problem, keys), large, entries_only=True).program()
    if most is not None:
        relaxed, _ = highs.relaxation_bound(program, budget, seed)
        if relaxed is not None and math.ceil(relaxed - WORD) > most:
            return math.ceil(relaxed - WORD)
    result = highs.minimise(program, budget, seed=seed)
    if not math.isfinite(result.bound):
        return 0
    return max(0, math.ceil(result.bound - WORD))
