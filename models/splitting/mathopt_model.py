"""Key splitting and key placement as an OR-Tools MathOpt model. The numbers are those of the problems' docstrings."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from ortools.math_opt.python import mathopt

from keyshift.models.doubts import MATHOPT_DOUBT
from keyshift.models.splitting.items import Items
from keyshift.models.splitting.problem import KeySplitting
from keyshift.models.workload import IntArray


class SplittingMathOpt:
    """(1)-(3) over groups of like items, and (4) where the items are whole keys: a program for SCIP, HiGHS, CP-SAT.

    Its linear relaxation is a flow from the groups through their candidates to the workers, for GLOP or PDLP; with
    messages of equal weight on equal workers, it is the optimum rounded up.

    Parameters
    ----------
    problem : KeySplitting or KeyPlacement
    relaxed : bool
        Without integrality: items may be divided.
    strengthened : bool, default True
        The largest load does not exceed what dealing every group out in turn makes it: for our own solving.

    Attributes
    ----------
    model : ortools.math_opt.python.mathopt.Model
        Variables ``x[group,worker]``, how many items of a group go to a worker, and ``largest``, in units.
    unit : float
        What a unit of load is worth: a power of two near the largest load where groups are dealt out evenly.
    """

    def __init__(self, problem: KeySplitting, relaxed: bool = False, strengthened: bool = True) -> None:
        self.problem, self.items = problem, Items.of(problem)
        self.most = float(self.items.loads(self.items.dealt()).max())
        self.unit = math.ldexp(0.5, math.frexp(self.most)[1]) if self.most > 0 else 1.0
        self.limit = self.most if strengthened else self.items.most_load
        self.filled = self.items.filled(self.unit)
        group, at = self.items.pairs
        self.places = list(zip(group.tolist(), at.tolist(), self.items.options[group, at].tolist(), strict=True))
        self.model = mathopt.Model(name=problem.name)
        self.variables(relaxed)
        self.every_item_once()
        self.worker_loads()
        self.model.minimize(self.largest)

    def variables(self, relaxed: bool) -> None:
        """x, which exists only for candidates - that is (2) -, and for whole keys counts them - that is (4); and L."""
        add, count = self.model.add_variable, self.items.count.tolist()
        self.x = [add(lb=0, ub=count[g], is_integer=not relaxed, name=f"x[g{g},n{i}]") for g, _, i in self.places]
        self.largest = add(lb=0, ub=self.limit / self.unit * (1 + MATHOPT_DOUBT), name="largest")

    def every_item_once(self) -> None:
        """(1) All items of a group go to its candidates."""
        parts: dict[int, list[mathopt.Variable]] = {}
        for x, (g, _, _) in zip(self.x, self.places, strict=True):
            parts.setdefault(g, []).append(x)
        for g, terms in parts.items():
            self.model.add_linear_constraint(mathopt.fast_sum(terms) == int(self.items.count[g]), name=f"once[g{g}]")

    def worker_loads(self) -> None:
        """(3) No worker's load per unit of speed exceeds the largest."""
        on: dict[int, list[object]] = {}
        for x, (g, at, i) in zip(self.x, self.places, strict=True):
            if self.filled[g, at] > 0:
                on.setdefault(i, []).append(float(self.filled[g, at]) * x)
        for i, terms in on.items():
            self.model.add_linear_constraint(mathopt.fast_sum(terms) <= self.largest, name=f"worker_load[n{i}]")

    def hint(self, assignment: IntArray) -> mathopt.SolutionHint:
        """A known assignment as a warm start."""
        share = self.items.share(assignment)
        values = {x: float(share[g, at]) for x, (g, at, _) in zip(self.x, self.places, strict=True)}
        values[self.largest] = float(self.items.loads(share).max()) / self.unit
        return mathopt.SolutionHint(variable_values=values)

    def assignment(self, values: Mapping[mathopt.Variable, float]) -> IntArray:
        """Read the worker of each message from a solution's values, of the relaxation too: rounded, groups complete."""
        share = np.zeros(self.items.options.shape, dtype=np.int64)
        for x, (g, at, _) in zip(self.x, self.places, strict=True):
            share[g, at] = math.floor(values[x] + 0.5)
        return self.items.assignment(self.items.completed(share))

    def value(self, native: float) -> float:
        """The largest load, from the model's objective."""
        return native * self.unit

    def bound(self, proven: float) -> float:
        """Turn a bound that a solver proves into one on the largest load, rounded up to one that can occur."""
        if not math.isfinite(proven):
            return 0.0
        spared = max(0.0, self.value(proven) - MATHOPT_DOUBT * self.most)
        return max(0.0, self.value(proven), self.items.next_possible_load(spared))
