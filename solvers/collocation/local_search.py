"""Local search for collocated allocation: good incumbents fast, for the exact method to start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.ranges import Whole
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.collocation.arrays import Arrays, arrays_of
from keyshift.solvers.collocation.local_search_kernels import anneal, refresh
from keyshift.solvers.collocation.move_kernels import Before, Goal, Proposal, ShiftData, ShiftState


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
    blend : float
        Where the worst windows count, the share of the mean in what the search looks at.
    """

    chunk: int = 50_000
    join: float = 0.45
    relocate: float = 0.20
    swap: float = 0.15
    exchange: float = 0.3
    cool: float = 0.25
    fall: float = 100.0
    from_best: int = 4
    blend: float = 0.2

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

    Over several windows it anneals under the limits of each of them.

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
    typical = max(float(np.median(data.remote_load)), 1e-9)
    penalty = 4 * (float(data.traffic.max()) if data.traffic.size else 1.0) / typical / data.windows
    rng = np.array([np.random.SeedSequence([seed, 71]).generate_state(1, np.uint64)[0] | 1], dtype=np.uint64)
    base = data.current if best is None else best
    read, state, record = _data_of(data, goal_of(problem, data, chosen), chosen), _state_of(data, base), base.copy()
    wanted = Proposal(*np.empty((2, 3), np.int64), *np.empty((2, len(data.traffic), 3)))
    before = Before(np.empty(len(data.traffic)), np.empty(data.nodes))
    refresh(read, state)
    heats = _heats(data, state, chosen)
    for round_ in range(max(1, steps // chosen.chunk)):
        if budget.expired:
            break
        hot = heats[round_ % len(heats)]
        level = _level(problem, data, read.goal, data.current if best is None else best)
        schedule = np.array([min(steps, chosen.chunk), hot, hot / chosen.fall, penalty, level])
        found, infeasible = anneal(rng, schedule, record, wanted, before, read, state)
        penalty *= 2.0 if found == -np.inf or infeasible > 0.5 else 0.7 if infeasible < 0.1 else 1.0
        feasible = found > -np.inf and not problem.violations(record)
        if feasible and (best is None or problem.objective(record) < problem.objective(best)):
            best = record.copy()
            budget.report(objective=problem.objective(best), note="local search")
        if best is not None and round_ % chosen.from_best == chosen.from_best - 1:
            state.a[:] = best
    return best


def _heats(data: Arrays, state: ShiftState, settings: LocalSearchSettings) -> tuple[float, ...]:
    """The temperatures that rounds begin at, in turns: what a pair matters, or a key group's best node, and less."""
    pair = float(np.median(data.mean_traffic)) if data.traffic.size else 1.0
    on_node = np.einsum("t,tpn->pn", data.lean, state.on_node)
    node = float(np.median(on_node.max(axis=1) - on_node.mean(axis=1)))
    return pair, settings.cool * pair, max(pair, node), settings.cool * max(pair, node)


def goal_of(problem: CollocatedAllocation, data: Arrays, settings: LocalSearchSettings) -> Goal:
    """What the search maximises."""
    over, planned = problem.over if problem.combines else "mean", problem.planned
    apart = problem.apart / (problem.saved * data.traffic_unit or 1.0) if problem.combines else data.traffic.sum(axis=1)
    most = planned.most if over == "cvar" else planned.share
    return Goal(np.array(apart), np.array(most), over == "max", 0.0 if over == "mean" else settings.blend)


def _level(problem: CollocatedAllocation, data: Arrays, goal: Goal, assignment: IntArray) -> float:
    """The t of (15) at an assignment: 0 unless it is CVaR."""
    if problem.over != "cvar" or len(data.traffic) == 1 or not problem.combines:
        return 0.0
    remote = goal.apart - data.together(assignment)
    return float(remote[problem.planned.weights(remote) > 0].min())


def _data_of(data: Arrays, goal: Goal, settings: LocalSearchSettings) -> ShiftData:
    """The instance as the kernels take it."""
    d = data
    return ShiftData(
        d.current, d.allowed, d.remote_load, d.total_remote, d.cost, bool(d.cost.max() == 0), goal, d.indptr, d.neighbour,
        d.weight, d.first, d.second, d.upper_share, d.upper_extra, d.lower_share, d.lower_extra, d.max_moves, d.move_cost,
        d.use, d.capacity, settings.shares,
    )  # fmt: skip


def _state_of(data: Arrays, base: IntArray) -> ShiftState:
    """Room for a search that begins at an assignment."""
    p, n, t = data.key_groups, data.nodes, len(data.traffic)
    return ShiftState(
        base.copy(), np.zeros((data.windows, n)), np.zeros((data.use.shape[0], n)), np.zeros((t, p, n)), np.zeros(t),
        np.zeros(2), np.zeros(n),
    )  # fmt: skip
