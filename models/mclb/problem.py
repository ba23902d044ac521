"""Minimum-cost load balancing ([Guo2018], section 2): the problem and its check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from keyshift.models import metrics, records
from keyshift.models.base import guards
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.figures import apart
from keyshift.models.base.integers import Knapsack
from keyshift.models.errors import InputError
from keyshift.models.problem import SLACK as SLACK
from keyshift.models.problem import Limit, Violation, below_step, left_on_draining, step_of_sums
from keyshift.models.rules.rule import Rule
from keyshift.models.rules.ruled import Ruled
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload


@dataclass(frozen=True, eq=False)
class MCLB(Ruled):
    r"""Place key groups so that node loads vary least over all windows, within a budget of moved state.

    Sets and data: key groups k (p of them), nodes i, of which A are kept and B drain, windows t (m of them); load
    :math:`y_{tk}`, state :math:`s_k`, current node :math:`q_k`, and
    :math:`mean_t = \tfrac{1}{|A|} \sum_k y_{tk}`.

    Variables: :math:`x_{ki} \in \{0, 1\}`, whether k runs on i; the loads :math:`L_{ti} \ge 0` (in models, less
    the mean).

    .. math::

        \min \; h = \sum_t \tfrac{1}{|A|} \sum_{i \in A} (L_{ti} - mean_t)^2 \quad \text{subject to}

        (1) \quad & \sum_i x_{ki} = 1                                   && \text{for every } k \\
        (2) \quad & L_{ti} = \sum_k y_{tk} x_{ki}                       && \text{for every } t, i \\
        (3) \quad & \sum_k s_k (1 - x_{k q_k}) \le max\_state\_moved    && \text{unless None} \\
        (4) \quad & x_{ki} = 0                                          && \text{for } i \in B \\
        (5) \quad & x_{k i} \le \sum_{l < k} x_{l j}                    && \text{for interchangeable } i,
                    \text{ j the one before} \\
        (6) \quad & x_{k q_k} = 1                                       && \text{for every } k \text{ of } s_k > max\_state\_moved

    (6) follows from (3) and helps solvers. (5) only breaks symmetry. Nodes are interchangeable if they hold no state,
    or if there is no budget, since then it costs nothing to exchange them. With a budget all nodes that hold state
    differ, and (5) does not apply to them.

    With :math:`C = Y^T Y` and :math:`Z_{kl} = 1` iff k and l share a node, :math:`h = \tfrac{1}{n} \langle C, Z - J/n
    \rangle`: maximum n-cut, NP-hard already for one window.

    `objective` is h, in squared load units, summed over the windows ([Guo2018], eq. 1 and section 2.2); the
    second objective, the state moved (eq. 2), is ``metrics["state_moved"]``. `keyshift.pareto` returns both.

    Parameters
    ----------
    workload : Workload
        p key groups on n equal nodes; all m windows of `load` count.
    max_state_moved : float, optional
        Upper limit on the state that moves, in units of `state`. None: no budget.
    rules : sequence of Rule, optional
        Further restrictions of the cluster (`keyshift.rules`).

    Raises
    ------
    InputError
        Names the field and the value that are wrong; unequal node capacities are refused.

    Notes
    -----
    Source: *Minimum-cost load balancing* of [Guo2018] (ELB and CLB), sections 2.1 and 2.2. Departures from the print:

    * The paper minimises h and the state moved together; here the second is a budget (the epsilon-constraint form).
    * Draining nodes are ours: they must end up empty (4), and h is taken over the kept nodes.
    """

    name: ClassVar[str] = "mclb"
    worth: ClassVar[str] = "imbalance"
    aim: ClassVar[str] = "imbalance"
    objective_name: ClassVar[str] = "imbalance"

    workload: Workload
    max_state_moved: float | None = None
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        self._require_workload()
        self._put("max_state_moved", guards.real("max_state_moved", self.max_state_moved))
        self._require_equal_nodes("MCLB compares the loads of equal nodes")
        with np.errstate(over="ignore"):
            largest = max(float(self.workload.load.sum()), float(self.workload.state.sum()))
        if not largest < 1e150:
            raise InputError("load and state must each sum to less than 1e+150: their squares are summed")
        self._read_rules()

    def clauses(self, assignment: IntArray) -> list[list[tuple[int, int, bool]]]:
        """What an assignment breaks: of each of these, key groups on nodes of the core or not, one holds."""
        core, at = self.core, self.core.lower(assignment)
        if core.moved(at) > core.budget:  # of the few that exceed the budget together, one stays
            few = core.limit.cover(np.flatnonzero((at != core.current) & (core.state > 0)))
            return [[(k, int(core.current[k]), True) for k in few.tolist()]]
        return [[(k, i, False) for k, i in enumerate(at.tolist())]] if self.violations(assignment) else []

    # What every problem answers ---------------------------------------------------------------------------------

    @cached_property
    def scale(self) -> float:  # type: ignore[override]
        """The imbalance caused by one average key group: its second moment over the kept nodes."""
        w = self.workload
        return float(np.square(w.load).sum() / (w.key_groups * w.kept.sum())) or 1.0

    @cached_property
    def step(self) -> float:
        """Sums of squares of whole loads, with one sum in a window, differ by 2."""
        return 2.0 * step_of_sums(self.workload.load) ** 2 / float(self.workload.kept.sum())

    def tolerance_of(self, objective: float) -> float:
        """A millionth of the scale or of the objective, whichever is larger, since rounding grows with sums of squares."""
        return below_step(1e-6 * max(self.scale, objective), self.step)

    def objective(self, assignment: np.ndarray) -> float:
        w = self.workload
        if not w.draining.any():
            return metrics.imbalance(w, assignment)
        mean = w.load.sum(axis=1) / w.kept.sum()
        deviation = metrics.node_loads(w, assignment)[:, w.kept] - mean[:, None]
        return float(np.square(deviation).mean(axis=1).sum())

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        figures = metrics.summary(self.workload, assignment)
        total = float(self.workload.state.sum())
        imbalance = self.objective(assignment)
        return {
            **figures,
            "imbalance": imbalance,  # over the kept nodes
            "imbalance_per_window": imbalance / self.workload.windows,
            "share_moved": figures["state_moved"] / total if total > 0 else 0.0,
        }

    def record(self) -> records.Record:
        rows = [records.row(load) for load in records.windows_of(self.workload.load)]
        return records.placed(self.workload, rows, state=self.max_state_moved, **self.recorded_rules())

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return [
            *self._broken_budget(assignment),
            *left_on_draining(self.workload, assignment),  # (4)
            *self.broken_rules(assignment),
        ]

    def _broken_budget(self, assignment: np.ndarray) -> list[Violation]:  # (3)
        moved = metrics.state_moved(self.workload, assignment)
        if self.max_state_moved is None or moved <= self.max_state_moved * (1 + SLACK):
            return []
        state, most = apart(moved, self.max_state_moved)
        said = f"{state} of state move, the limit is {most}"
        return [Violation("max_state_moved", said, amount=moved - self.max_state_moved)]

    def conflicts(self) -> list[str]:
        """The conflict that arises when emptying the draining nodes moves more state than the budget allows."""
        forced, found = self.core.forced, self.rule_conflicts()
        if self.max_state_moved is None or forced <= self.max_state_moved * (1 + SLACK):
            return found
        state, most = apart(forced, self.max_state_moved)
        return [f"emptying the draining nodes moves {state} of state, the limit is {most}", *found]

    def played(self) -> dict[str, Any]:
        w = self.workload
        return {
            "kind": self.name, "objective": "imbalance", "max_state_moved": self.max_state_moved,
            "total_state": float(w.state.sum()), "kept_means": w.load.sum(axis=1) / w.kept.sum(),
            "windows": [{"load": row} for row in w.load], "mean": w.mean_load,
        }  # fmt: skip

    @property
    def limits(self) -> list[Limit]:
        w, most = self.workload, self.max_state_moved
        if most is None:
            return [*self.rule_limits, self.more_nodes()]
        total = float(w.state.sum())
        budget = Limit.of(
            self, "max_state_moved", needed=lambda a: metrics.state_moved(w, a), ends=total,
            step=0.1 * most or 0.1 * total or 1.0,
        )  # fmt: skip
        return [budget, *self.rule_limits, self.more_nodes()]

    # What the algorithms work on --------------------------------------------------------------------------------

    @cached_property
    def core(self) -> Core:
        """The problem on its kept nodes alone."""
        return Core.of(self)


@dataclass(frozen=True, eq=False)
class Core:
    """An MCLB instance without its draining nodes: the n kept nodes are numbered 0..n-1.

    Attributes
    ----------
    load : ndarray, shape (p, m)
        Load series, one row for each key group.
    state : ndarray, shape (p,)
        What moving a key group costs; 0 for one that has to leave a draining node, since that is paid anyway.
    current : ndarray of int, shape (p,)
        Current node, -1 for a key group on a draining node.
    nodes : int
    budget : float
        State that may still move once the draining nodes are empty; infinite without a limit.
    forced : float
        State that emptying the draining nodes moves.
    names : ndarray of int, shape (n,)
        The workload's number of each kept node.
    labelled : bool
        Whether rules tell nodes apart: then none are interchangeable.
    """

    load: FloatArray
    state: FloatArray
    current: IntArray
    nodes: int
    budget: float
    forced: float
    names: IntArray
    labelled: bool = False

    @classmethod
    def of(cls, problem: MCLB) -> Core:
        """Build it from a problem."""
        w = problem.workload
        names = np.flatnonzero(w.kept)
        number = np.full(w.nodes, -1, dtype=np.int64)
        number[names] = np.arange(names.size)
        current = number[w.current]
        forced = float(w.state[current < 0].sum())
        limit = np.inf if problem.max_state_moved is None else problem.max_state_moved * (1 + SLACK) - forced
        # What rounds to a negative rest is none: `conflicts` has already compared with the same slack.
        budget = max(float(limit), 0.0)
        load = np.ascontiguousarray(w.load.T)
        return cls(
            load, np.where(current < 0, 0.0, w.state), current, names.size, budget, forced, names, bool(problem.rules)
        )

    @cached_property
    def limit(self) -> Knapsack:
        """The budget on the state of the key groups that move."""
        return Knapsack(self.state, self.budget)

    @property
    def limited(self) -> bool:
        """Whether the budget can bind at all."""
        return self.budget < float(self.state.sum())

    def openings(self) -> Iterator[tuple[tuple[int, int], list[tuple[int, int]]]]:
        """(5): a key group on an interchangeable node, and the larger ones on the node before, of which one comes first."""
        alike = np.flatnonzero(self.interchangeable).tolist()
        for r, k in enumerate(self.order):
            for i, before in zip(alike[1:], alike, strict=False):
                yield (k, i), [(other, before) for other in self.order[:r]]

    @property
    def interchangeable(self) -> BoolArray:
        """Nodes whose labels carry no cost, shape (n,): all of them without a budget, else those without state."""
        if self.labelled:
            return np.zeros(self.nodes, dtype=bool)
        if not self.limited:
            return np.ones(self.nodes, dtype=bool)
        holds = np.zeros(self.nodes, dtype=bool)
        holds[self.current[(self.state > 0) & (self.current >= 0)]] = True
        return ~holds

    @cached_property
    def order(self) -> list[int]:
        """The key groups by the squares of their loads, the largest first: (5) is stated in this order."""
        return np.argsort(-np.square(self.load).sum(axis=1), kind="stable").tolist()

    def in_order(self, assignment: IntArray) -> IntArray:
        """The same groups with interchangeable nodes numbered as (5) asks."""
        return in_order(assignment, self.order, self.interchangeable)

    def moved(self, assignment: IntArray) -> float:
        """State that an assignment to 0..n-1 moves beyond what is forced."""
        return float(self.state[assignment != self.current].sum())

    def squares(self, assignment: IntArray) -> float:
        """Sum over windows and nodes of (load - mean)^2: n times the imbalance."""
        loads = sums_on_nodes(self.load, assignment, self.nodes)
        return float(np.square(loads - loads.mean(axis=0)).sum())

    def relabelled(self, assignment: IntArray) -> IntArray:
        """The same groups on the nodes where they move least state: an assignment problem among those that hold something."""
        if self.labelled:
            return assignment
        with off_clock():
            from scipy.optimize import linear_sum_assignment  # half a second: not before it is needed

        known = self.current >= 0
        holding, group = _numbered(assignment)
        held, now = _numbered(self.current[known])
        pair, size = group[known] * held.size + now, holding.size * held.size
        staying = np.bincount(pair, weights=self.state[known], minlength=size).reshape(holding.size, held.size)
        groups, nodes = linear_sum_assignment(staying, maximize=True)
        label = np.full(holding.size, -1, dtype=np.int64)
        label[groups] = held[nodes]
        label[label < 0] = np.setdiff1d(np.arange(self.nodes), label)[: np.count_nonzero(label < 0)]
        return label[group]

    def lower(self, assignment: IntArray) -> IntArray:
        """From the workload's node numbers to 0..n-1; -1 for draining nodes."""
        number = np.full(int(max(self.names.max(), assignment.max())) + 1, -1, dtype=np.int64)
        number[self.names] = np.arange(self.nodes)
        return number[assignment]

    def lift(self, assignment: IntArray) -> IntArray:
        """From 0..n-1 to the workload's node numbers."""
        return self.names[assignment]


def sums_on_nodes(load: FloatArray, assignment: IntArray, nodes: int) -> FloatArray:
    """The load of every node in every window, shape (n, m), of key groups with loads of shape (p, m)."""
    m = load.shape[1]
    at = (assignment[:, None] * m + np.arange(m)).ravel()
    return np.bincount(at, weights=load.ravel(), minlength=nodes * m).reshape(nodes, m)


def _numbered(nodes: IntArray) -> tuple[IntArray, IntArray]:
    """The nodes that occur, in order, and of each entry the number of its own among them: `np.unique` without sorting."""
    occurs = np.bincount(nodes) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[nodes]


def in_order(assignment: IntArray, order: list[int], alike: np.ndarray) -> IntArray:
    """Renumber interchangeable nodes by the first key group, in the given order, that runs on each."""
    label = np.arange(alike.size)
    free = iter(np.flatnonzero(alike).tolist())
    seen: dict[int, int] = {}
    for k in order:
        i = int(assignment[k])
        if alike[i] and i not in seen:
            seen[i] = next(free)
    for i, new in seen.items():
        label[i] = new
    return label[assignment]
