"""The best answer so far, as the phases of "milp" share it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.rules import RULES
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.checked import kept

SEARCHED = ("distance_floor",)
"""The rules that the annealing leaves to the check: (5)."""
PLANNED = (*SEARCHED, "max_migration_cost", "resource_capacity", *RULES)
"""Those that a plan leaves to the check besides, before it is polished."""


class WholeLoads(NamedTuple):
    """Every node's load is a multiple of a unit, so that few distances from the mean there are.

    Attributes
    ----------
    units : ndarray
        For each capacity that nodes have, per unit of it.
    mean : float
    least : float
        Where the mean is no multiple, some node is above it and some below; or all are below, where draining nodes keep the rest.
    doubt : float
        What rounding may have added to a bound, far below a step between distances.
    """

    units: FloatArray
    mean: float
    least: float
    doubt: float

    def at_least(self, bound: float) -> float:
        """The least distance that is no less than a bound, less what rounding may have added."""
        doubt = self.doubt
        above = np.ceil((self.mean + bound - doubt) / self.units) * self.units - self.mean
        below = self.mean - np.floor((self.mean - bound + doubt) / self.units) * self.units
        least = max(float(np.minimum(above, below).min()), self.least)
        return max(bound, least - doubt)


def least_distance(problem: KeyGroupAllocation, multiple: int) -> float:
    """The distance of loads that are whole multiples, on nodes that are alike, from a mean that is none; else 0."""
    w, load = problem.workload, problem.workload.last_load.astype(np.int64) // multiple
    nodes = int(w.kept.sum())
    rest = int(load.sum()) % nodes
    if problem.mean != "exact" or not (w.capacity == 1).all() or rest == 0:
        return 0.0
    mask, stays = (1 << nodes) - 1, 1  # bit r: draining nodes can keep a load of r
    for units in load[w.draining[w.current]].tolist():
        stays |= (stays << min(units, nodes)) & mask
    lower = bool(stays >> rest & 1) or (w.draining.any() and problem.into_draining)
    return multiple * (rest if lower else max(rest, nodes - rest)) / nodes


@dataclass
class Incumbent:
    """The best assignment and the best bound so far.

    Parameters
    ----------
    problem : KeyGroupAllocation
    budget : Budget
    enough : float, default 0
        An objective at which there is nothing left to do.
    """

    problem: KeyGroupAllocation
    budget: Budget
    enough: float = 0.0
    best: IntArray | None = None
    objective: float = math.inf
    deviation_sum: float = math.inf
    bound: float = 0.0
    infeasible: str = ""
    stopped: bool = False  # HiGHS ended by proof, within its tolerances

    @property
    def heavy_tailed(self) -> bool:
        """Whether a few key groups have much of the load: where these go is a solver's question, however near the bound is."""
        load = self.problem.by_window[0].workload.last_load
        return bool(load.std() > load.mean())

    @cached_property
    def steps(self) -> WholeLoads | None:
        """The distances there are, where loads are whole multiples of a unit."""
        w, last_alone = self.problem.workload, self.problem.by_window[0] is self.problem
        load = w.last_load
        # Up to so large sums are exact, and so are distances, but for the mean's rounding.
        whole = np.array_equal(load, np.rint(load)) and 0 < load.sum() < 2**40
        if not (last_alone and whole):
            return None
        multiple = int(np.gcd.reduce(load.astype(np.int64)))
        least = least_distance(self.problem, multiple)
        mean, step = self.problem.mean_load, self.problem.step_of("load_distance")
        return WholeLoads(multiple / np.unique(w.capacity), mean, least, min(1e-9 * mean, step / 16))

    @property
    def proven(self) -> bool:
        """Whether objective and bound have met."""
        return self.objective - self.bound <= self.margin * self.problem.scale

    @cached_property
    def margin(self) -> float:
        """An objective this close to the bound, as a share of the mean, is optimal; half of what `Problem.tolerance` grants."""
        return 0.5 * self.problem.tolerance / self.problem.scale

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do, or no time."""
        settled = self.proven or self.stopped or bool(self.infeasible)
        return settled or self.objective <= self.enough or self.budget.expired

    def offer(self, assignment: IntArray | None, note: str = "", but: Collection[str] | None = None) -> bool:
        """Keep an assignment if it passes the check and is better; `but` is for `kept`."""
        if assignment is None or (value := self.problem.objective(assignment)) > self.objective:
            return False
        rank = (value, self.problem.metrics(assignment)["deviation_sum"])
        if rank >= (self.objective, self.deviation_sum) or not kept(self.problem, assignment, but):
            return False
        self.best = np.asarray(assignment).copy()
        self.objective, self.deviation_sum = rank
        self.budget.report(objective=self.objective, note=note)
        return True

    def raise_bound(self, bound: float, note: str) -> None:
        """Keep a bound if it is higher; whole loads make for few distances, of which the next one bounds as well."""
        if self.steps is not None:
            bound = self.steps.at_least(bound)
        if bound > self.bound:
            self.bound = bound
            self.budget.report(bound=bound, note=note)

    def hear(self, answer: Answer, note: str) -> None:
        """Keep what a solver says of the statement, less a verdict that the best answer disproves or turns into a proof."""
        if answer.termination == "infeasible" and self.best is None:
            self.infeasible = answer.message
        elif answer.termination == "infeasible":  # what is left after cuts is refused: nothing is better than the best
            self.raise_bound(self.objective, note)
        else:
            self.offer(answer.assignment, note)
            if answer.bound is not None:
                self.raise_bound(answer.bound, note)
