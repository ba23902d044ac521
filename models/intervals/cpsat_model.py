"""Interval migration, for one step or a known sequence, as a CP-SAT model. The numbers are those of the docstrings."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.base.integers import WHOLE_BITS, Scaled, scaled
from keyshift.models.intervals.step import IntervalMigration, MigrationSequence, open_nodes, steps_of
from keyshift.models.workload import FloatArray, IntArray


def whole_state(state: FloatArray) -> Scaled:
    """State in whole units, rounded down where it must be: the least whole state moved is a lower bound as it stands."""
    return scaled(state, 40, rounding="down", decimals=False, whole=WHOLE_BITS).coarsest()


class IntervalCpSat:
    """The statement of `IntervalMigration`, or of `MigrationSequence`, in whole numbers.

    Parameters
    ----------
    problem : IntervalMigration or MigrationSequence
    state : Scaled, optional
        State of the tasks in whole units, where these are not to be `whole_state` of the workload's.
    strengthened : bool, default True
        b and v only from below, as in `IntervalPyomo`.

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
    """

    def __init__(
        self,
        problem: IntervalMigration | MigrationSequence,
        state: Scaled | None = None,
        strengthened: bool = True,
    ) -> None:
        self.problem, self.strengthened = problem, strengthened
        self.workload = problem.workload
        self.whole = whole_state(problem.workload.state) if state is None else state
        self.state = self.whole.values.tolist()
        self.tasks = range(problem.workload.key_groups)
        self.steps = steps_of(problem)
        self.nodes = open_nodes(problem)
        self.model = cp_model.CpModel()
        self.variables()
        self.one_node_each()
        self.one_interval_each()
        self.loads()
        self.node_counts()
        self.moves()
        self.model.minimize(sum(self.state[k] * v for (_, k), v in self.v.items()))

    def variables(self) -> None:
        """x, b, v; (5) is imposed by leaving draining nodes out."""
        places = [(t, i, k) for t in range(len(self.steps)) for i in self.nodes for k in self.tasks]
        self.x = {(t, i, k): self.model.new_bool_var(f"x[t{t},n{i},k{k}]") for t, i, k in places}
        self.b = {(t, i, k): self.model.new_bool_var(f"b[t{t},n{i},k{k}]") for t, i, k in places}
        self.v = {(t, k): self.model.new_bool_var(f"v[t{t},k{k}]") for t in range(len(self.steps)) for k in self.tasks}

    def one_node_each(self) -> None:
        """(1) Every task runs on exactly one node."""
        for t in range(len(self.steps)):
            for k in self.tasks:
                self.model.add_exactly_one(self.x[t, i, k] for i in self.nodes).with_name(f"one_node[t{t},k{k}]")

    def one_interval_each(self) -> None:
        """(2) A node's tasks begin at most once."""
        for t in range(len(self.steps)):
            for i in self.nodes:
                for k in self.tasks:
                    before = self.x[t, i, k - 1] if k > 0 else 0
                    self.model.add(self.b[t, i, k] >= self.x[t, i, k] - before)
                    if not self.strengthened:
                        self.model.add(2 * self.b[t, i, k] <= self.x[t, i, k] + 1 - before)
                self.model.add_at_most_one(self.b[t, i, k] for k in self.tasks)

    def loads(self) -> None:
        """(3) No node carries more than its limit, in whole units.

        Loads that do not fit 64 bits exactly are replaced by pairs of tasks that no interval holds, as in Pyomo's rows.
        """
        sums = self.problem.prefix.sums
        for t, (_, limit) in enumerate(self.steps):
            # Of whole numbers that CP-SAT adds up.
            if (total := self.problem.prefix.total) <= (2**60):
                load = np.diff(np.asarray(sums)).tolist()
                for i in self.nodes:
                    row = sum(load[k] * self.x[t, i, k] for k in self.tasks) <= min(limit, total)
                    self.model.add(row).with_name(f"load_limit[t{t},n{i}]")
                continue
            for end, start in enumerate(self.problem.prefix.starts(limit).tolist()):
                for i in self.nodes if start > 0 else ():
                    self.model.add(self.x[t, i, start - 1] + self.x[t, i, end - 1] <= 1)

    def node_counts(self) -> None:
        """(4) At most this many nodes carry tasks."""
        for t, (nodes_after, _) in enumerate(self.steps):
            row = sum(self.b[t, i, k] for i in self.nodes for k in self.tasks) <= nodes_after
            self.model.add(row).with_name(f"nodes_after[t{t}]")

    def moves(self) -> None:
        """(6) A task moves when it leaves its node; before the first step, x is the assignment of now."""
        current = self.workload.current.tolist()
        for k in self.tasks:
            stays = self.x.get((0, current[k], k), 0)
            self.model.add(self.v[0, k] >= 1 - stays if self.strengthened else self.v[0, k] == 1 - stays)
        for t in range(1, len(self.steps)):
            for i in self.nodes:
                for k in self.tasks:
                    self.model.add(self.v[t, k] >= self.x[t - 1, i, k] - self.x[t, i, k])
                    if not self.strengthened:
                        self.model.add(self.v[t, k] <= 2 - self.x[t - 1, i, k] - self.x[t, i, k])

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        self.model.clear_hints()
        rows = np.atleast_2d(assignment)
        for (t, i, k), x in self.x.items():
            self.model.add_hint(x, int(rows[t, k] == i))

    def assignment(self, value: object) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        rows = np.zeros((len(self.steps), len(self.tasks)), dtype=np.int64)
        for (t, i, k), x in self.x.items():
            if value(x):  # type: ignore[operator]
                rows[t, k] = i
        return rows if isinstance(self.problem, MigrationSequence) else rows[0]

    def bound(self, proven: float) -> float:
        """Turn a bound on the whole state into one on the state moved."""
        return self.whole.lower(max(0, math.ceil(proven)))


class FreeCpSat(IntervalCpSat):
    """The same without contiguity, for one step: any task may go to any node. Its optimum is the price of intervals."""

    def one_interval_each(self) -> None:
        """In place of (2): a node that carries tasks counts once in (4)."""
        for t, i, k in self.x:
            self.model.add_implication(self.x[t, i, k], self.b[t, i, 0])
            if k > 0:
                self.model.add(self.b[t, i, k] == 0)
            elif not self.strengthened:
                self.model.add_bool_or(~self.b[t, i, 0], *(self.x[t, i, j] for j in self.tasks))

    def loads(self) -> None:
        """(3); loads that do not fit 64 bits are rounded down and the limit up, which only relaxes it."""
        spare = max(0, self.problem.prefix.total.bit_length() - 60)
        sums = [int(s) for s in self.problem.prefix.sums]
        load = [(b - a) >> spare for a, b in pairwise(sums)]
        for t, (_, limit) in enumerate(self.steps):
            for i in self.nodes:
                self.model.add(sum(load[k] * self.x[t, i, k] for k in self.tasks) <= min(-(-limit >> spare), sum(load)))
