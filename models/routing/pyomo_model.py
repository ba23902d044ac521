"""Mixed routing as a Pyomo model. The numbers are those of `MixedRouting`'s docstring."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from keyshift.models.base.integers import capped
from keyshift.models.base.pyomo import pyo
from keyshift.models.routing.compact import Choices
from keyshift.models.routing.problem import MixedRouting
from keyshift.models.rules.rows import add_to_pyomo, broken_in_pyomo
from keyshift.models.stages import PyomoStages, Stage
from keyshift.models.workload import FloatArray, IntArray


class RoutingPyomo(PyomoStages):
    """Problem (3) of [Fang2016] in whole numbers of keys alike, one method for each family of constraints.

    Loads are in units of the mean node load, states in `state_unit`, so that a solver's tolerances mean the same
    on every instance.

    Parameters
    ----------
    choices : Choices
        The pairs that get a variable; ``Choices.all(problem)`` is the whole problem.
    state_unit : float
        One unit of the model's objective, in units of state.
    most : float, optional
        State that a known assignment moves: states above it count as little more.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[j]``, the keys on pair j of `choices`.
    """

    letters: Mapping[str, str] = {"upper_load": "n", "lower_load": "n"}
    record: ClassVar[str] = "r"
    """The letter of a record; k, where each is a single key."""

    @classmethod
    def of(cls, problem: MixedRouting) -> Self:
        """The whole problem, every record open to every kept node."""
        choices = Choices.all(problem, each=cls.record == "k")
        return cls(choices, choices.state_unit)

    @classmethod
    def of_stage(cls, stage: Stage) -> Self:
        return cls(Choices.all(stage.problem), stage.problem.unit("state_moved"))  # type: ignore[arg-type]

    def __init__(self, choices: Choices, state_unit: float = 1.0, most: float = math.inf) -> None:
        self.choices, self.problem = choices, choices.problem
        self.workload = self.problem.workload
        self.state_unit = state_unit
        keys, record = choices.keys, choices.record
        known = keys.state if math.isinf(most) else capped(keys.state, most)
        self.state = (known[record] / state_unit).tolist()
        self.fixed_state = float(choices.fixed_moved(known).sum()) / state_unit
        self.model = pyo.ConcreteModel(name=self.problem.name)
        self.variables()
        self.state_moved()
        self.every_key_somewhere()
        self.upper_loads()
        self.lower_loads()
        self.table_size()
        if self.problem.rules:
            x = choices.by_key(list(self.model.x.values()))
            add_to_pyomo(self.model, self.problem.lowered, x, self.workload.nodes)

    def variables(self) -> None:
        """x for the open pairs; (5) is imposed by leaving out draining nodes."""
        most = self.choices.keys.count[self.choices.record].tolist()
        self.model.pairs = pyo.RangeSet(0, len(most) - 1)
        self.model.x = pyo.Var(self.model.pairs, domain=pyo.NonNegativeIntegers, bounds=lambda m, j: (0, most[j]))

    def state_moved(self) -> None:
        """The objective: state of the keys that change node."""
        self.minimise("state_moved")

    def every_key_somewhere(self) -> None:
        """(1) All keys of a record go somewhere."""
        records, first = np.unique(self.choices.record, return_index=True)
        ends = np.append(first, self.choices.record.size).tolist()
        count = self.choices.keys.count[records].tolist()
        self.records = records.tolist()
        self.model.somewhere = pyo.Constraint(
            range(records.size), rule=lambda m, t: sum(m.x[j] for j in range(ends[t], ends[t + 1])) == count[t]
        )

    def node_load(self, d: int) -> pyo.Expression:
        """Load of node d from the records with a choice."""
        pairs = np.flatnonzero(self.choices.node == d).tolist()
        return pyo.quicksum(self.load[j] * self.model.x[j] for j in pairs if self.load[j] > 0)

    def upper_loads(self) -> None:
        """(2) No kept node carries more than (1 + theta_max) times the mean."""
        for name, window, fixed in self.windows("upper_load"):
            limit = (window.upper + window.slack - fixed) / self.mean
            self._load_rows(
                name, np.flatnonzero(self.workload.kept), lambda load, d, limit=limit: load <= float(limit[d])
            )

    def lower_loads(self) -> None:
        """(3) No kept node carries less than (1 - theta_max) times the mean, with sides "both"."""
        for name, window, fixed in self.windows("lower_load"):
            least = (window.lower - window.slack - fixed) / self.mean
            nodes = np.flatnonzero(window.lower > window.slack)
            self._load_rows(name, nodes, lambda load, d, least=least: load >= float(least[d]))

    def windows(self, family: str) -> Iterator[tuple[str, MixedRouting, FloatArray]]:
        """The name of a family's rows in each window, the problem in that window alone, and what is fixed on each node.

        Meanwhile `load` and `mean` are those of the window.
        """
        for at, window, load in self.choices.windows():
            self.mean = window.workload.mean_load or 1.0
            self.load = (load[self.choices.record] / self.mean).tolist()
            name = f"{family}_{at}" if at else family
            self.letters = {**self.letters, name: "n"}
            yield name, window, self.choices.fixed_load(load)

    def _load_rows(self, name: str, nodes: IntArray, row: object) -> None:
        loads = {int(d): self.node_load(int(d)) for d in nodes}
        empty = [d for d, load in loads.items() if isinstance(load, int | float)]

        def rule(m: pyo.ConcreteModel, d: int) -> object:
            held = row(loads[d], d)  # type: ignore[operator]
            if d not in empty:
                return held
            return pyo.Constraint.Skip if held else pyo.Constraint.Infeasible

        setattr(self.model, name, pyo.Constraint(list(loads), rule=rule))

    def table_size(self) -> None:
        """(4) The table has no more entries than allowed."""
        room = self.problem.table_limit - self.choices.fixed_entries
        pairs = np.flatnonzero(self.choices.excepts)
        if self.choices.keys.count[np.unique(self.choices.record[pairs])].sum() > room:
            self.model.table = pyo.Constraint(expr=pyo.quicksum(self.model.x[j] for j in pairs.tolist()) <= room)

    def measure(self, name: str) -> tuple[Any, float]:
        """A measure of mixed routing: an expression, and its unit."""
        m, choices = self.model, self.choices
        if name == "table_size":
            return pyo.quicksum(m.x[j] for j in np.flatnonzero(choices.excepts).tolist()) + choices.fixed_entries, 1.0
        if name == "broken_rules":
            x = choices.by_key(list(m.x.values()))
            return broken_in_pyomo(m, self.problem.stated, x, self.workload.nodes), 1.0
        moves = np.flatnonzero(choices.moves).tolist()
        return pyo.quicksum(self.state[j] * m.x[j] for j in moves) + self.fixed_state, self.state_unit

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable the value it has in a known assignment, if that keeps to the choices."""
        units = self.choices.units(assignment)
        if units is not None:
            for j, x in self.model.x.items():
                x.value = int(units[j])

    def label(self, name: str, index: tuple[int, ...]) -> str | None:
        """Say which record, and which node, a variable or a row is about; keys alike are one record, r0 the first."""
        if name == "x":
            return f"{self.record}{self.choices.record[index[0]]},n{self.choices.node[index[0]]}"
        return f"{self.record}{self.records[index[0]]}" if name == "somewhere" else None

    def bound(self, proven: float) -> float:
        """Turn a bound that HiGHS proves into one on the state moved."""
        return max(0.0, proven * self.state_unit)

    def assignment(self) -> IntArray:
        """Read the assignment from the variables' values."""
        values = np.array([x.value for x in self.model.x.values()], dtype=float)
        return self.choices.assignment(np.nan_to_num(np.rint(values), nan=-1.0).astype(np.int64))


class RoutingKeysPyomo(RoutingPyomo):
    """The same with every key by itself, alike or not, for rules that name a key: ``x[k3,n1]``, whether key 3 goes to node 1."""

    record: ClassVar[str] = "k"
