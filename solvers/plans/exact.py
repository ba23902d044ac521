"""The exact model of transfer scheduling, for small plans, by CP-SAT."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models import Budget
from keyshift.models.integers import Scaled, scaled
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.workload import FloatArray
from keyshift.solvers import cpsat
from keyshift.solvers.plans.fast import Schedule, compiled, ordered_schedule

TIME_BITS, LOAD_BITS = 30, 40


class TransferCpSat:
    """`TransferScheduling` for CP-SAT: one method for each family of constraints, with the same numbers.

    Times and loads become whole numbers. Where they do not without rounding, times are rounded up and the bound is
    taken back by what that added; limits are widened by what rounding may add to loads, and what CP-SAT finds is
    checked against the true ones.
    """

    def __init__(self, problem: TransferScheduling, start: Schedule) -> None:
        self.problem = problem
        self.times = scaled(problem.seconds, TIME_BITS)
        self.length = _rounded_up(self.times, problem.seconds)
        self.model = cp_model.CpModel()
        self.horizon = int(self.length.sum())
        self.begun: dict[tuple[int, int], cp_model.IntVar] = {}
        self.ended: dict[tuple[int, int], cp_model.IntVar] = {}
        self._add_transfers()  # (1)
        self._add_parallel()  # (2)
        if problem.limited:
            self._add_order()
        for r in range(problem.limit.shape[0]):
            self._add_limits(r)  # (3)
        self.end = self.model.new_int_var(0, self.horizon, "end")
        self.model.add_max_equality(self.end, [interval.end_expr() for interval in self.intervals])
        self.model.add(self.end >= math.floor(start.bound * float(self.times.scale) * (1 - 1e-9)))
        self.model.minimize(self.end)
        for variable, value in zip(self.starts, start.starts, strict=True):
            self.model.add_hint(variable, round(value * float(self.times.scale)))

    def _add_transfers(self) -> None:
        count = range(self.problem.transfers)
        self.starts = [self.model.new_int_var(0, self.horizon, f"S_{j}") for j in count]
        self.intervals = [
            self.model.new_fixed_size_interval_var(self.starts[j], int(self.length[j]), f"transfer_{j}") for j in count
        ]

    def _add_parallel(self) -> None:
        p = self.problem
        for i in range(p.nodes):
            mine = [self.intervals[j] for j in np.flatnonzero((p.source == i) | (p.target == i)).tolist()]
            if p.parallel == 1 and len(mine) > 1:
                self.model.add_no_overlap(mine)
            elif len(mine) > p.parallel:
                self.model.add_cumulative(mine, [1] * len(mine), p.parallel)

    def _add_limits(self, r: int) -> None:
        """(3) can only break when a transfer begins: whatever has begun there counts, less what has ended."""
        p = self.problem
        whole = scaled(np.concatenate([p.held[r], p.usage[r]]), LOAD_BITS)
        held, usage = whole.values[: p.nodes], whole.values[p.nodes :]
        spare = 0 if whole.exact else 1 + p.transfers  # what rounding may add: a bound must not suffer from it
        for i in np.flatnonzero(np.isfinite(p.limit[r])).tolist():
            arriving, leaving = (np.flatnonzero(side == i).tolist() for side in (p.target, p.source))
            if not arriving:
                continue
            room = math.floor(p.limit[r, i] * (1 + 1e-10) * float(whole.scale)) - int(held[i]) + spare
            for j in arriving:
                there = sum(int(usage[k]) * (1 if k == j else self.begun[k, j]) for k in arriving)
                gone = sum(int(usage[k]) * self._ended(k, j) for k in leaving)
                self.model.add(there - gone <= room)

    def _add_order(self) -> None:
        """``begun[k, j]``: whether transfer k has begun when j begins, for every two transfers; an order with ties.

        Totality and transitivity follow from the starts, but said with times alone they would be found out a unit of
        time after the other.
        """
        count = range(self.problem.transfers)
        self.begun = {(k, j): self.model.new_bool_var(f"begun_{k}_{j}") for k, j in permutations(count, 2)}
        for (k, j), begun in self.begun.items():
            self.model.add(self.starts[k] <= self.starts[j]).only_enforce_if(begun)
            self.model.add(self.starts[k] >= self.starts[j] + 1).only_enforce_if(~begun)
            self.model.add_bool_or(begun, self.begun[j, k])
        for k, j, i in permutations(count, 3):
            self.model.add_bool_or(~self.begun[k, j], ~self.begun[j, i], self.begun[k, i])

    def _ended(self, k: int, j: int) -> cp_model.IntVar:
        """Whether transfer k has ended when j begins: 1 only if it has."""
        if (k, j) not in self.ended:
            over = self.model.new_bool_var(f"ended_{k}_{j}")
            self.model.add(self.starts[k] + int(self.length[k]) <= self.starts[j]).only_enforce_if(over)
            self.model.add_implication(over, self.begun[k, j])
            self.ended[k, j] = over
        return self.ended[k, j]

    def seconds(self, units: float) -> float:
        """Whole units of time in seconds."""
        return float(units / float(self.times.scale))


def _rounded_up(times: Scaled, seconds: FloatArray) -> np.ndarray:
    """Durations that are whole and no shorter than the true ones."""
    if times.exact:
        return times.values
    return np.maximum(1, np.ceil(seconds * float(times.scale) * (1 - 1e-12)).astype(np.int64))


def exact_schedule(problem: TransferScheduling, start: Schedule, budget: Budget, seed: int = 0) -> Schedule:
    """The shortest schedule, or the best one found within the budget with a proven bound.

    Parameters
    ----------
    problem : TransferScheduling
    start : Schedule
        One that may be carried out.
    budget : Budget
    seed : int, default 0
    """
    if problem.transfers == 0 or start.optimal:
        return start
    statement = TransferCpSat(problem, start)
    outcome = cpsat.minimise(statement.model, budget, seed=seed)
    if not outcome.found:
        return start
    rounding = 0.0 if statement.times.exact else statement.seconds(problem.transfers + 1)
    proven = statement.seconds(outcome.bound) - rounding
    bound = max(start.bound, min(proven * (1 - 1e-12), start.seconds))
    units = np.array([outcome.solver.value(s) for s in statement.starts], dtype=float)
    starts = _left_shifted(problem, units / float(statement.times.scale))
    seconds = problem.makespan(starts)
    if seconds >= start.seconds or problem.violations(starts):
        return Schedule(start.starts, start.seconds, min(bound, start.seconds))
    return Schedule(starts, seconds, min(bound, seconds))


def _left_shifted(problem: TransferScheduling, starts: FloatArray) -> FloatArray:
    """The same order with the true durations: each transfer as early as the ones before it allow."""
    shifted = np.empty(problem.transfers)
    end = ordered_schedule(np.argsort(starts, kind="stable"), compiled(problem), shifted)
    return shifted if np.isfinite(end) else starts
