"""Local search for a later stage; it never gives up what an earlier stage has reached."""

from __future__ import annotations

import numpy as np

from keyshift.models import Budget
from keyshift.models.priorities import Stage
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.stages.arrays import PLACES, UNLIMITED, SearchArrays
from keyshift.solvers.stages.search_kernels import LINEAR, StageState, search

CHUNK = 20_000
"""Steps between two looks at the clock."""
ROUNDS = 12
HOT, COLD = 0.03, 1e-5
"""First and last temperature, as shares of the measure's value at the start."""


def improve_within(
    stage: Stage,
    start: IntArray,
    budget: Budget,
    seed: int = 0,
    rounds: int = ROUNDS,
    arrays: SearchArrays | None = None,
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
    it = SearchArrays(stage.problem) if arrays is None else arrays
    limits = it.limits.copy()
    for name, most in stage.kept.items():
        limits[PLACES[name]] = min(limits[PLACES[name]], it.value(name, most))
    goal = PLACES[stage.measure]
    n, resources = it.data.capacity.size, it.data.use.shape[0]
    state = StageState(start.copy(), np.zeros(n), np.zeros((resources, n)), np.zeros(limits.size), np.zeros(3))
    rng = np.array([np.random.SeedSequence([seed, 83]).generate_state(1, np.uint64)[0] | 1], dtype=np.uint64)
    best, record, value = start, start.copy(), stage.objective(start)
    size = max(it.value(stage.measure, value), 1e-9)
    for turn in range(rounds):
        if budget.expired or value <= 0 or size >= UNLIMITED:
            break
        state.place[:] = best
        hot = 1.0 if goal >= LINEAR and goal != PLACES["state_moved"] else HOT * size * (1.0 if turn % 2 == 0 else 0.2)
        heats = np.array([hot, hot * COLD / HOT])
        search(it.data, state, record, limits, goal, heats, rng, CHUNK)
        found = stage.objective(record)
        if found < value and kept(stage, record):
            best, value = record.copy(), found
            budget.report(note=f"{stage.measure} {value:.6g}")
    return best
