"""The scalarisation that ELB follows: least movement with every node's load within limits, nodes added or removed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from keyshift.models import metrics, records
from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.base.integers import ROUNDING, Knapsack, capped
from keyshift.models.errors import InputError
from keyshift.models.problem import SLACK as SLACK
from keyshift.models.problem import Limit, MovesState, Violation, below_step, left_on_draining
from keyshift.models.rules.rule import Rule
from keyshift.models.rules.ruled import Ruled
from keyshift.models.workload import MOST_NODES, BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class MovementWithinLimits(Ruled, MovesState):
    r"""Bring the load of every node in use into [v, u] and move as little state as possible.

    Sets and data: key groups k, nodes i, loads :math:`y_{tk}` (the last window, or all of them), state
    :math:`s_k`, current node :math:`q_k`, limits :math:`0 \le v < u`, and the number of nodes afterwards,
    :math:`\pi = \lceil 2 W / (u + v) \rceil` for the last window's total load W unless given. There are
    :math:`\max(n, \pi)` nodes to choose from, the new ones empty.

    Variables: :math:`x_{ki} \in \{0, 1\}`, whether k runs on i; :math:`z_i \in \{0, 1\}`, whether i is in use.

    .. math::

        \min \; \psi = \sum_k s_k (1 - x_{k q_k}) \quad \text{subject to}

        (1) \quad & \sum_i x_{ki} = 1                               && \text{for every } k \\
        (2) \quad & v z_i \le \sum_k y_{tk} x_{ki} \le u z_i        && \text{for every } i, t \\
        (3) \quad & \sum_i z_i = \pi \\
        (4) \quad & x_{ki} \le z_i                                  && \text{for every } k, i \\
        (6) \quad & \sum_k x_{ki} \ge z_i                           && \text{for every } i, \text{ where } v > 0 \\
        (5) \quad & z_i = 0                                         && \text{for a draining } i

    `objective` is the state moved, in units of `state`.

    Parameters
    ----------
    workload : Workload
        p key groups on n equal nodes.
    lower, upper : float
        The limits v and u on a node's load, in load units.
    nodes_after : int, optional
        The number of nodes to use, in place of the paper's.
    windows : {"last", "all"}, default "last"
        Hold (2) for the last window, as ELB does, or for all of them.
    rules : sequence of Rule, optional
        Further restrictions of the cluster (`keyshift.rules`).

    Raises
    ------
    InputError
        Names the field and the value that are wrong.

    Notes
    -----
    Source: [Guo2018], section 3: ELB relaxes the imbalance to a range and saves movement. The paper states no model;
    this one is ours. ELB always drops the least loaded nodes: here the model decides which nodes go.
    """

    name: ClassVar[str] = "movement-within-limits"
    rescue: ClassVar[Literal["offered"]] = "offered"
    chooses_nodes: ClassVar[bool] = True
    objective_name: ClassVar[str] = "state moved"

    workload: Workload
    lower: float
    upper: float
    nodes_after: int = 0
    windows: str = "last"
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        self._require_workload()
        self._require_equal_nodes("nodes must have equal capacities, since the limits are the same for every node")
        guards.one_of("windows", self.windows, ("last", "all"))
        low, high = guards.real("lower", self.lower, optional=False), guards.real("upper", self.upper, optional=False)
        if low >= high:
            raise InputError(f"lower = {low} must be below upper = {high}")
        self._put("lower", low)
        self._put("upper", high)
        wanted = guards.whole("nodes_after", self.nodes_after, most=MOST_NODES, optional=False)
        self._put("nodes_after", wanted or nodes_for(float(self.workload.last_load.sum()), low, high))
        self._read_rules()

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def places(self) -> int:
        """How many nodes there are to choose from: the current ones and new ones."""
        return max(self.workload.nodes, self.nodes_after + int(self.workload.draining.sum()))

    node_limit = places  # its name in releases

    @property
    def open_nodes(self) -> BoolArray:
        """Nodes that may be in use, (5), shape (places,)."""
        may = np.ones(self.places, dtype=bool)
        may[: self.workload.nodes] = self.workload.kept
        return may

    @property
    def load(self) -> FloatArray:
        """The loads of the windows that count, shape (windows, p)."""
        return self.workload.load if self.windows == "all" else self.workload.load[-1:]

    def played(self) -> str:
        return (
            "How many nodes there are is part of the answer, so key groups are not moved by hand here: the page shows the "
            "loads, the moves and the figures of each answer instead."
        )

    def node_loads(self, assignment: IntArray) -> FloatArray:
        """Load of every node in the windows that count, shape (windows, places)."""
        return np.array([np.bincount(assignment, weights=row, minlength=self.places) for row in self.load])

    # What every problem answers ---------------------------------------------------------------------------------

    def tolerance_of(self, objective: float) -> float:
        """A millionth of the objective, which is the state that moves."""
        return below_step(1e-6 * objective, self.step)

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        loads = self.node_loads(assignment)
        used = np.bincount(assignment, minlength=self.places) > 0
        return {
            "state_moved": self.objective(assignment),
            "migrations": float(metrics.migrations(self.workload, assignment)),
            "nodes": float(used.sum()),
            "imbalance": float(loads[:, used].var(axis=1).sum()),
        }

    def record(self) -> records.Record:
        low, high, allowed, places = Fraction(self.lower), Fraction(self.upper), records.ALLOWED, self.places
        loads = records.windows_of(self.load)
        unit = Fraction(loads[0]["unit"])
        limit = max(0, math.ceil((low - allowed * high) / unit)), math.floor(high * (1 + allowed) / unit)
        rows = [records.row(load, [limit] * places) for load in loads]
        return records.placed(self.workload, rows, in_use=self.nodes_after, places=places, **self.recorded_rules())

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        used = np.bincount(assignment, minlength=self.places) > 0
        return [
            *self._outside_limits(assignment, used),
            *self._wrong_count(used),
            *left_on_draining(self.workload, assignment),  # (5)
            *self.broken_rules(assignment),
        ]

    def _outside_limits(self, assignment: np.ndarray, used: BoolArray) -> list[Violation]:  # (2)
        loads = self.node_loads(assignment)
        slack = SLACK * max(self.upper, 1e-300)
        broken = []
        for t, i in np.argwhere((loads > self.upper + slack) | (used & (loads < self.lower - slack))):
            load, low, high = apart(loads[t, i], self.lower, self.upper)
            said = f"node {self.workload.node(i)} has load {load}, outside {low} to {high}"
            excess = float(max(loads[t, i] - self.upper, self.lower - loads[t, i]))
            broken.append(Violation("limits", said, int(i), excess))
        return broken

    def _wrong_count(self, used: BoolArray) -> list[Violation]:  # (3), (4); an unused node has load 0
        count = int(used.sum())
        if count == self.nodes_after or (count < self.nodes_after and self.lower == 0):
            return []
        said = f"{count} nodes carry key groups, {self.nodes_after} should"
        return [Violation("nodes_after", said, amount=abs(count - self.nodes_after))]

    def conflicts(self) -> list[str]:
        """The limits that the total load, or a single key group, cannot meet."""
        found = []
        total, count = float(self.load.sum(axis=1).max()), self.nodes_after
        least = float(self.load.sum(axis=1).min())
        if total > count * self.upper * (1 + SLACK):
            found.append(f"{count} nodes of at most {self.upper:.9g} cannot carry a total load of {total:.9g}")
        if least < count * (self.lower - SLACK * self.upper):  # as the check reads (2)
            found.append(f"{count} nodes of at least {self.lower:.9g} need more than the total load of {least:.9g}")
        k = int(np.argmax(self.load.max(axis=0)))
        if (largest := float(self.load[:, k].max())) > self.upper * (1 + SLACK):
            name = self.workload.key(k)
            load, most = apart(largest, self.upper)
            found.append(f"key group {name} has load {load}, no node may have more than {most}")
        return found + self.rule_conflicts()

    @property
    def limits(self) -> list[Limit]:
        highest = float(self.load.sum(axis=1).max())

        def used(a: np.ndarray) -> FloatArray:
            loads = self.node_loads(a)
            return loads[:, np.bincount(a, minlength=loads.shape[1]) > 0]

        def lower(a: np.ndarray) -> float:
            loads = used(a)  # only a lower limit of 0 lets nodes be empty that should be used
            return float(loads.min()) if loads.shape[1] == self.nodes_after else 0.0

        nodes = f"nodes_after = {self.nodes_after}"  # another number may follow from other limits
        return [
            Limit.of(
                self, "upper", needed=lambda a: float(used(a).max()), ends=max(highest, self.upper),
                step=0.05 * self.upper, beside=nodes,
            ),
            Limit.of(self, "lower", needed=lower, ends=0.0, step=0.05 * self.lower or 1.0, down=True, beside=nodes),
            *self.rule_limits,
            Limit.of(self, "nodes_after", whole=True, ordered=False),
        ]  # fmt: skip


def nodes_for(total: float, lower: float, upper: float) -> int:
    """The paper's number of nodes, ceil(2 W / (u + v)); at least 1. A quotient a hair above a whole number is it."""
    quotient = 2 * total / (lower + upper)
    if not quotient <= MOST_NODES:
        raise InputError(
            f"a load of {total:g} within lower = {lower:g} and upper = {upper:g} needs {quotient:g} nodes: "
            f"at most {MOST_NODES:,} are allowed"
        )
    nearest = round(quotient)
    return max(1, nearest if abs(quotient - nearest) <= 1e-9 * max(nearest, 1) else math.ceil(quotient))


# The load limits as the statements need them -------------------------------------------------------------------------


class LoadLimits:
    """The limits on loads, row by row of the windows that count, and the states that count as moved.

    Parameters
    ----------
    problem : MovementWithinLimits
    most : float
        State that a known assignment moves: states above it count as little more.
    """

    def __init__(self, problem: MovementWithinLimits, most: float) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.open_nodes).tolist()
        self.key_groups = range(problem.workload.key_groups)
        slack = SLACK * problem.upper
        self.above = [Knapsack(row, problem.upper + slack) for row in problem.load]
        # A key group of load v or more is enough by itself: v in its place leaves (2) as it is.
        self.low = np.minimum(problem.load, problem.lower)
        self.least = max(0.0, (problem.lower - slack) * (1 - ROUNDING * (len(self.key_groups) + 2)))
        state = problem.workload.state
        self.state: FloatArray = state if math.isinf(most) else capped(state, most)

    def too_much(self, assignment: IntArray) -> Iterator[IntArray]:
        """Key groups that no node can run together: few of those on each node above u."""
        for limit in self.above:
            loads = np.bincount(assignment, limit.weights, self.problem.places)
            for i in np.flatnonzero(loads > limit.limit):
                yield limit.cover(np.flatnonzero(assignment == i))

    def too_little(self, assignment: IntArray) -> Iterator[IntArray]:
        """Key groups that are no load for a node in use: those on each node below v, and others as light as can be."""
        for row in self.problem.load:
            for i in np.unique(assignment).tolist():
                here = np.flatnonzero(assignment == i)
                if math.fsum(row[here]) >= self.least:
                    continue
                others = np.flatnonzero(assignment != i)
                others = others[np.argsort(row[others], kind="stable")]
                room = math.fsum(row[here]) + np.cumsum(row[others])
                yield np.concatenate([here, others[room < self.least * (1 - 2.0**-40)]])
