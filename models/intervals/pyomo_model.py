"""Interval migration, for one step or a known sequence, as a Pyomo model. The numbers are those of the docstrings."""

from __future__ import annotations

import itertools
import math
from typing import ClassVar

import numpy as np

from keyshift.models.base.pyomo import pyo
from keyshift.models.intervals.step import IntervalMigration, MigrationSequence, open_nodes, steps_of
from keyshift.models.workload import FloatArray, IntArray


class IntervalPyomo:
    """The statement of `IntervalMigration`, or of `MigrationSequence`, one method for each family of constraints.

    Parameters
    ----------
    problem : IntervalMigration or MigrationSequence
    state : ndarray, shape (m,), optional
        Sizes in place of the workload's.
    strengthened : bool, default True
        b and v only from below, which is enough for the objective; without, they are 1 just where they say, so that a
        rule may speak of them.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[t, i, k]``, ``b[t, i, k]``, and ``v[t, k]``: task k moves in step t.
    """

    letters: ClassVar[dict[str, str]] = {
        "x": "tnk", "b": "tnk", "v": "tk", "one_node": "tk", "begin": "tnk", "begin_only": "tnk",
        "one_interval": "tn", "nodes_after": "t",
    }  # fmt: skip

    def __init__(
        self,
        problem: IntervalMigration | MigrationSequence,
        state: FloatArray | None = None,
        strengthened: bool = True,
    ) -> None:
        self.problem, self.strengthened = problem, strengthened
        self.workload = problem.workload
        self.state = problem.workload.state if state is None else state
        self.tasks = range(problem.workload.key_groups)
        self.steps = steps_of(problem)
        self.nodes = open_nodes(problem)
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables()
        self.set_objective()
        self.one_node_each()
        self.one_interval_each()
        self.loads()
        self.node_counts()
        self.moves()

    def variables(self) -> None:
        """x, b, v; (5) is imposed by leaving draining nodes out."""
        m = self.model
        places = itertools.product(range(len(self.steps)), self.nodes, self.tasks)
        m.places = pyo.Set(initialize=list(places), dimen=3)
        m.x = pyo.Var(m.places, domain=pyo.Binary)
        m.b = pyo.Var(m.places, domain=pyo.Binary)
        m.v = pyo.Var(range(len(self.steps)), self.tasks, domain=pyo.Binary)

    def set_objective(self) -> None:
        """Minimise the state moved over all steps."""
        state = self.state.tolist()
        self.model.objective = pyo.Objective(expr=pyo.quicksum(state[k] * v for (_, k), v in self.model.v.items()))

    def one_node_each(self) -> None:
        """(1) Every task runs on exactly one node."""
        self.model.one_node = pyo.Constraint(
            range(len(self.steps)), self.tasks, rule=lambda m, t, k: sum(m.x[t, i, k] for i in self.nodes) == 1
        )

    def one_interval_each(self) -> None:
        """(2) A node's tasks begin at most once."""
        m = self.model

        def begins(m: pyo.ConcreteModel, t: int, i: int, k: int) -> object:
            return m.b[t, i, k] >= m.x[t, i, k] - (m.x[t, i, k - 1] if k > 0 else 0)

        def begins_there(m: pyo.ConcreteModel, t: int, i: int, k: int) -> object:
            return 2 * m.b[t, i, k] <= m.x[t, i, k] + (1 - m.x[t, i, k - 1] if k > 0 else 1)

        m.begin = pyo.Constraint(m.places, rule=begins)
        if not self.strengthened:
            m.begin_only = pyo.Constraint(m.places, rule=begins_there)
        m.one_interval = pyo.Constraint(
            range(len(self.steps)), self.nodes, rule=lambda m, t, i: sum(m.b[t, i, k] for k in self.tasks) <= 1
        )

    def loads(self) -> None:
        """(3) No node carries more than its limit.

        A node's tasks are consecutive under (2), so it suffices that the last task of an interval never shares its
        node with the first task that makes the interval too heavy: rows without loads, hence without tolerances.
        """
        m = self.model
        m.load_limit = pyo.ConstraintList()
        for t, (_, limit) in enumerate(self.steps):
            for end, start in enumerate(self.problem.prefix.starts(limit).tolist()):
                for i in self.nodes if start > 0 else ():
                    too_heavy = m.x[t, i, start - 1] + m.x[t, i, end - 1] <= 1
                    m.load_limit.add(too_heavy)

    def node_counts(self) -> None:
        """(4) At most this many nodes carry tasks."""
        self.model.nodes_after = pyo.Constraint(
            range(len(self.steps)),
            rule=lambda m, t: sum(m.b[t, i, k] for i in self.nodes for k in self.tasks) <= self.steps[t][0],
        )

    def moves(self) -> None:
        """(6) A task moves when it leaves its node; before the first step, x is the assignment of now."""
        m, current = self.model, self.workload.current.tolist()
        m.leave = pyo.ConstraintList()
        for t in range(len(self.steps)):
            for k in self.tasks:
                if t == 0:
                    stays = m.x[0, current[k], k] if current[k] in self.nodes else 0
                    m.leave.add(m.v[0, k] >= 1 - stays if self.strengthened else m.v[0, k] == 1 - stays)
                else:
                    for i in self.nodes:
                        m.leave.add(m.v[t, k] >= m.x[t - 1, i, k] - m.x[t, i, k])
                        if not self.strengthened:
                            m.leave.add(m.v[t, k] <= 2 - m.x[t - 1, i, k] - m.x[t, i, k])

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable the value it has in a known assignment."""
        m, rows = self.model, np.atleast_2d(assignment)
        before = np.vstack([self.workload.current, rows[:-1]])
        for (t, i, k), x in m.x.items():
            x.value = int(rows[t, k] == i)
            m.b[t, i, k].value = int(rows[t, k] == i and (k == 0 or rows[t, k - 1] != i))
        for (t, k), v in m.v.items():
            v.value = int(rows[t, k] != before[t, k])

    def bound(self, proven: float) -> float | None:
        """Turn a bound that HiGHS proves into one on the state moved."""
        return max(0.0, proven) if math.isfinite(proven) else None

    def assignment(self) -> IntArray:
        """Read the assignment, in the problem's shape: for each task its node of largest x."""
        rows = np.empty((len(self.steps), len(self.tasks)), dtype=np.int64)
        for t, k in np.ndindex(rows.shape):
            rows[t, k] = max(self.nodes, key=lambda i: self.model.x[t, i, k].value)
        return rows if isinstance(self.problem, MigrationSequence) else rows[0]
