"""Local search for collocated allocation: good incumbents fast, for the exact method to start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.ranges import Whole
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.collocation.arrays import Arrays, arrays_of
from keyshift.solvers.collocation.local_search_kernels import Proposal, ShiftData, ShiftState, anneal, refresh


@dataclass(frozen=True)
class LocalSearchSettings:
    """Tuning numbers of the local search.

    Attributes
    ----------
    chunk : int
        Steps of a round, and between two looks at the clock.
    join, relocate, swap : float
        How often each move is drawn; what is left of 1 sends key groups back.
    exchange : float
        How often a join sends somebody the other way.
    cool : float
        Every other round begins at this share of the temperature of the one before.
    fall : float
        The factor by which the temperature falls in a round.
    from_best : int
        Every so many rounds the search goes on from the best assignment.
    """

    chunk: int = 50_000
    join: float = 0.45
    relocate: float = 0.20
    swap: float = 0.15
    exchange: float = 0.3
    cool: float = 0.25
    fall: float = 100.0
    from_best: int = 4

    @property
    def shares(self) -> FloatArray:
        """Cumulative shares of joining, relocating and swapping, then the share of joins that exchange."""
        return np.append(np.round(np.cumsum((self.join, self.relocate, self.swap)), 9), self.exchange)


def local_search(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: IntArray | None = None,
    steps: Whole = 1_500_000,
) -> Answer:
    """ALBIC's answer, or where everything runs now, improved by annealing: `improve`. No guarantee.

    Over several windows it anneals under the limits of their mean load; what it keeps has passed the check of every window.

    Parameters
    ----------
    steps : int, default 1,500,000
        About a second for a thousand key groups.
    """
    return Answer(
        improve(problem, start, budget, seed, steps), termination=budget.why if budget.expired else "completed"
    )


def improve(
    problem: CollocatedAllocation,
    start: IntArray | None,
    budget: Budget,
    seed: int = 0,
    steps: int = 400_000,
    arrays: Arrays | None = None,
    settings: LocalSearchSettings | None = None,
) -> IntArray | None:
    """The best assignment that simulated annealing finds; None where neither it nor the start is feasible.

    A step moves a key group to a neighbour's node, or to any node, swaps two, or sends one back to its current node; when the
    migration limit is full, another goes back with it. Migration limits are never broken; broken load and resource limits cost
    a penalty, which grows while too much time is spent beyond them and falls while too little is. Rounds begin
    from the best so far, hot then cold; the first begins from the start, or from the current nodes.

    No guarantee. A step costs O(degree of the key group + nodes). The same seed and
    number of steps give the same answer.
    """
    data = arrays_of(problem) if arrays is None else arrays
    best = None if start is None or problem.violations(start) else start.copy()
    if data.key_groups == 1 or data.nodes == 1 or data.max_moves == 0:
        return (
            best
            if best is not None or problem.violations(problem.workload.current)
            else problem.workload.current.copy()
        )
    chosen = settings or LocalSearchSettings()
    penalty = (
        4 * (float(data.traffic.max()) if data.traffic.size else 1.0) / max(float(np.median(data.remote_load)), 1e-9)
    )
    rng = np.array([np.random.SeedSequence([seed, 71]).generate_state(1, np.uint64)[0] | 1], dtype=np.uint64)
    base = data.current if best is None else best
    read, state, record = _data_of(data, chosen), _state_of(data, base), base.copy()
    wanted = Proposal(*np.empty((2, 3), np.int64), *np.empty((2, 3)))
    refresh(read, state)
    heats = _heats(data, state, chosen)
    for round_ in range(max(1, steps // chosen.chunk)):
        if budget.expired:
            break
        hot = heats[round_ % len(heats)]
        found, infeasible = anneal(
            rng, min(steps, chosen.chunk), hot, hot / chosen.fall, penalty, record, wanted, read, state
        )
        penalty *= 2.0 if found < 0 or infeasible > 0.5 else 0.7 if infeasible < 0.1 else 1.0
        feasible = found >= 0 and not problem.violations(record)
        if feasible and (best is None or problem.objective(record) < problem.objective(best)):
            best = record.copy()
            budget.report(objective=problem.objective(best), note="local search")
        if best is not None and round_ % chosen.from_best == chosen.from_best - 1:
            state.a[:] = best
    return best


def _heats(data: Arrays, state: ShiftState, settings: LocalSearchSettings) -> tuple[float, ...]:
    """The temperatures that rounds begin at, in turns: what a pair matters, or a key group's best node, and less."""
    pair = float(np.median(data.traffic)) if data.traffic.size else 1.0
    node = float(np.median(state.on_node.max(axis=1) - state.on_node.mean(axis=1)))
    return pair, settings.cool * pair, max(pair, node), settings.cool * max(pair, node)


def _data_of(data: Arrays, settings: LocalSearchSettings) -> ShiftData:
    """The instance as the kernels take it."""
    return ShiftData(
        data.current, data.allowed, data.remote_load, data.total_remote, data.cost, data.indptr, data.neighbour,
        data.weight, data.first, data.second, data.upper_share, data.upper_extra, data.lower_share, data.lower_extra,
        data.max_moves, data.move_cost, data.use, data.capacity, settings.shares,
    )  # fmt: skip


def _state_of(data: Arrays, base: IntArray) -> ShiftState:
    """Room for a search that begins at an assignment."""
    p, n = data.key_groups, data.nodes
    return ShiftState(base.copy(), np.zeros(n), np.zeros((data.use.shape[0], n)), np.zeros((p, n)), np.zeros(3))
