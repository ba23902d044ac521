"""The exact model of transfer scheduling, for small plans: intervals and reservoirs, by CP-SAT."""

from __future__ import annotations

import math

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models import Budget
from keyshift.models.integers import Scaled, scaled
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.workload import FloatArray
from keyshift.solvers import cpsat
from keyshift.solvers.plans.fast import Schedule, compiled
from keyshift.solvers.plans.schedule_kernels import ordered_schedule

TIME_BITS, LOAD_BITS = 30, 40


class TransferCpSat:
    """`TransferScheduling` for CP-SAT: one method for each family of constraints, with the same numbers.

    Times and loads become whole numbers. Where they do not without rounding, times are rounded up and loads against
    the limits, so that what CP-SAT finds can be carried out, and its bound is taken back by what rounding added.
    """

    def __init__(self, problem: TransferScheduling, start: Schedule) -> None:
        self.problem = problem
        self.times = scaled(problem.seconds, TIME_BITS)
        self.length = _rounded_up(self.times, problem.seconds)
        self.model = cp_model.CpModel()
        self.horizon = int(self.length.sum())
        self._add_transfers()  # (1)
        self._add_parallel()  # (2)
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
        p = self.problem
        whole = scaled(np.concatenate([p.held[r], p.usage[r]]), LOAD_BITS)
        held, usage = whole.values[: p.nodes], whole.values[p.nodes :]
        spare = 0 if whole.exact else 1 + p.transfers  # what rounding may hide
        for i in np.flatnonzero(np.isfinite(p.limit[r])).tolist():
            arriving, leaving = (np.flatnonzero(side == i).tolist() for side in (p.target, p.source))
            if not arriving:
                continue
            room = math.floor(p.limit[r, i] * (1 + 1e-10) * float(whole.scale)) - int(held[i]) - spare
            whens = [self.starts[j] for j in arriving] + [self.intervals[j].end_expr() for j in leaving]
            changes = [int(usage[j]) for j in arriving] + [-int(usage[j]) for j in leaving]
            self.model.add_reservoir_constraint(whens, changes, -int(usage.sum()) - 1, max(room, 0))

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
    rounding = 0.0 if statement.times.exact else statement.seconds(problem.transfers + 1)
    proven = statement.seconds(outcome.bound) - rounding
    bound = max(start.bound, min(proven * (1 - 1e-12), start.seconds))
    if not outcome.found:
        return Schedule(start.starts, start.seconds, bound)
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
