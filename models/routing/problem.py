"""Mixed routing ([Fang2016], problem 3): the problem and its check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import metrics, records
from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.errors import InputError
from keyshift.models.objectives import TIE, OverWindows, Searched
from keyshift.models.problem import Limit, Violation, below_step
from keyshift.models.rules.rule import Rule
from keyshift.models.workload import FloatArray, IntArray, MoveSpace, Workload


@dataclass(frozen=True, eq=False)
class MixedRouting(OverWindows):
    r"""Rebalance keys that are routed by a hash and a table of exceptions of limited size, and move as little state as possible.

    Sets and data: keys k, nodes d, of which some may drain; load :math:`c(k)` (last window), state
    :math:`S(k, w)`, hash :math:`h(k)` (`workload.home`), current node :math:`F(k)` (`workload.current`), capacity
    :math:`q_d` (1 when nodes are equal), and :math:`\bar L = \sum_k c(k) / \sum_{d\ \mathrm{kept}} q_d`. The table
    in force needs no naming: it holds the keys with :math:`F(k) \ne h(k)`.

    Variables: the new assignment :math:`F'(k)`; in the declarative models, for every class t of :math:`m_t` keys
    alike in :math:`(F, h, c, S)`, how many of them go to each node, :math:`x_{td} \in \{0, \dots, m_t\}`.

    .. math::

        \min \; \sum_t S_t \sum_{d \ne F_t} x_{td} \quad \text{subject to}

        (1) \quad & \sum_d x_{td} = m_t                                        && \text{for every class } t \\
        (2) \quad & \sum_t c_t\, x_{td} \le (1 + \theta_{max})\, \bar L q_d    && \text{for every kept node } d \\
        (3) \quad & \sum_t c_t\, x_{td} \ge (1 - \theta_{max})\, \bar L q_d    && \text{likewise, for sides "both"} \\
        (4) \quad & \sum_t \sum_{d \ne h_t} x_{td} \le A_{max}                 && \text{the table's size} \\
        (5) \quad & x_{td} = 0                                                 && \text{for every draining node } d

    Over windows or scenarios each has loads :math:`c_s(k)`, a mean of its own, and rows (2) and (3) of its own; keys
    alike are then alike in all of them.

    `objective` is the state moved, in the unit of `workload.state`, unless `priorities` puts the table's size first.

    Parameters
    ----------
    workload : Workload
        Its key groups are the keys; it must have `home`. Only the last window of `load` counts by default. `state` is already
        :math:`S(k, w)`: the state of a key summed over the last w windows, whatever w the operator keeps.
    theta_max : float, default 0.08
        Tolerated imbalance, as a share of the mean load.
    max_table_size : int, optional
        Entries that the routing table may have, :math:`A_{max}`; None is no limit.
    sides : {"upper", "both"}, default "upper"
        Whether :math:`\theta` counts only nodes above the mean, or those below it too.
    priorities : sequence of str, optional
        What to minimise, the most important first, each among the answers that are best in those before:
        "state_moved", "table_size". By default the state moved alone. "broken_rules" may come first: rules that are
        broken today are then repaired as far as the limits allow, and get no worse.
    windows : int, default 1
        (2) and (3) hold in each of the last so many windows.
    scenarios : array_like, shape (k, p), optional
        (2) and (3) hold for each of these loads instead of the workload's: samples of a forecast, say. On the shell, a file:
        .csv, a row a scenario; .json, a list of lists; or .npy.
    rules : sequence of Rule, optional
        Further restrictions of the cluster (`keyshift.rules`).

    Raises
    ------
    InputError
        Names the field and the value that are wrong.

    Notes
    -----
    Source: Fang, Zhang, Fu, Zhang, Zhou, Zhu, *Parallel Stream Processing Against Workload Skewness and Variance*,
    2016, section II. Departures from the print:

    * :math:`\theta` is printed with two sides (:math:`|L(d) - \bar L| / \bar L`), but every algorithm of the paper
      enforces the upper side only: that is the default here, and ``sides="both"`` is the printed problem. Section V
      measures skewness otherwise again, as the largest load over the mean (Figure 7: over the least).
    * (5) is ours: a draining node is vacated, which makes scale-in a case of the problem. A key whose hash points at
      a draining node therefore needs a table entry until the hash itself changes.
    """

    name: ClassVar[str] = "mixed-routing"
    aim: ClassVar[str] = "theta"
    worth: ClassVar[str] = "load distance"
    repairable: ClassVar[tuple[str, ...]] = ("theta_max", "max_table_size")
    rescue: ClassVar[Literal["offered"]] = "offered"
    by_table: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = ("state_moved", "table_size", "broken_rules")

    workload: Workload
    theta_max: float = 0.08
    max_table_size: int | None = None
    sides: Literal["upper", "both"] = "upper"
    priorities: str | tuple[str, ...] = ()
    windows: int = 1
    scenarios: ArrayLike | None = None
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        self._require_workload()
        if self.workload.home is None:
            raise InputError("the workload has no home: mixed routing needs the node that each key hashes to")
        self._read_windows()
        self._put("theta_max", guards.real("theta_max", self.theta_max, optional=False))
        self._put("max_table_size", guards.whole("max_table_size", self.max_table_size))
        guards.one_of("sides", self.sides, ("upper", "both"))
        self._read_priorities()
        self._read_rules()

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def home(self) -> IntArray:
        """h(k), the node each key hashes to, shape (p,)."""
        assert self.workload.home is not None
        return self.workload.home

    @property
    def upper(self) -> FloatArray:
        """Right side of (2) for kept nodes, 0 for draining ones, in load units, shape (n,)."""
        return (1 + self.theta_max) * self._fair

    @property
    def lower(self) -> FloatArray:
        """Right side of (3), 0 where it does not apply, in load units, shape (n,)."""
        share = max(0.0, 1 - self.theta_max) if self.sides == "both" else 0.0
        return share * self._fair

    @property
    def slack(self) -> float:
        """Rounding allowed in (2) and (3), in load units."""
        # Relative rounding allowed when a node's load is held against its limit.
        return 1e-9 * self.workload.mean_load * float(self.workload.capacity.max())

    @property
    def table_limit(self) -> int:
        """A_max, or the number of keys if there is no limit."""
        p = self.workload.key_groups
        return p if self.max_table_size is None else min(self.max_table_size, p)

    @cached_property
    def _fair(self) -> FloatArray:
        """The load that a perfect balance gives each node, 0 for draining ones, shape (n,)."""
        w = self.workload
        return np.where(w.kept, w.mean_load * w.capacity, 0.0)

    # What every problem answers ---------------------------------------------------------------------------------

    def unit(self, measure: str) -> float:
        """The unit of a measure: the total state for what moves, 1 for entries of the table."""
        return (float(self.workload.state.sum()) if measure == "state_moved" else 0.0) or 1.0

    def limited(self, kept: Mapping[str, float]) -> Self | None:
        if set(kept) - {"table_size"}:
            return None
        most = math.floor(kept.get("table_size", self.table_limit) + 1e-6)
        return replace(self, priorities=(), max_table_size=most) if kept else self.plain()

    def tie(self, measure: str, value: float) -> float:
        """A millionth of the state that moves, or of one entry."""
        return below_step(TIE * (value if measure == "state_moved" else 1.0), self.step_of(measure))

    def measured(self, measure: str, assignment: np.ndarray) -> float:
        if measure == "table_size":
            return float(metrics.table_size(self.workload, assignment))
        if measure == "state_moved":
            return metrics.state_moved(self.workload, assignment)
        return super().measured(measure, assignment)

    def theta(self, assignment: np.ndarray) -> float:
        """The largest balance factor of a kept node in any window, one- or two-sided as the problem says; 0 without load."""
        return max(window._theta(assignment) for window in self.by_window)

    def _theta(self, assignment: np.ndarray) -> float:
        w, fair = self.workload, self._fair
        if w.mean_load == 0:
            return 0.0
        relative = metrics.last_node_loads(w, assignment)[w.kept] / fair[w.kept] - 1
        return float(np.abs(relative).max() if self.sides == "both" else max(relative.max(), 0.0))

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        loads = metrics.last_node_loads(self.workload, assignment) / self.workload.capacity
        mean = self.workload.mean_load
        return {
            **metrics.summary(self.workload, assignment),
            "theta": self.theta(assignment),
            "skewness": float(loads.max() / mean) if mean else 1.0,  # max L(d) / mean, sec. V
            "migration_share": metrics.state_moved(self.workload, assignment)
            / self.unit("state_moved"),  # migration cost as the figures give it
            **self._excess_of_rules(assignment),
        }

    def record(self) -> records.Record:
        """Node i carries at most 1 + theta, and at least 1 - theta, of the mean load for its capacity."""
        w, theta, load = self.workload, Fraction(self.theta_max), records.amounts(self.workload.last_load)
        capacity = [*map(Fraction, w.capacity.tolist())]
        mean = Fraction(sum(load["numbers"])) / sum(c for c, kept in zip(capacity, w.kept, strict=True) if kept)
        extra = records.ALLOWED * mean * max(capacity)
        low = max(Fraction(0), 1 - theta) if self.sides == "both" else Fraction(0)
        limits = [
            (max(0, math.ceil(low * mean * c - extra)), math.floor((1 + theta) * mean * c + extra)) if kept else (0, 0)
            for c, kept in zip(capacity, w.kept.tolist(), strict=True)
        ]
        return records.placed(
            w, [records.row(load, limits)], home=self.home.tolist(), max_entries=self.max_table_size,
            **self.recorded_rules(),
        )  # fmt: skip

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return [
            *(v for window in self.by_window for v in window._off_limits(assignment)),
            *self._table_too_large(assignment),
            *self._on_draining(assignment),
            *self.broken_rules(assignment),
        ]

    def _off_limits(self, assignment: np.ndarray) -> Iterator[Violation]:  # (2), (3)
        w, loads = self.workload, metrics.last_node_loads(self.workload, assignment)
        over, under = w.kept & (loads > self.upper + self.slack), loads < self.lower - self.slack
        for off, limit, name in ((over, self.upper, "limit"), (under, self.lower, "least")):
            for i in np.flatnonzero(off).tolist():
                carried, allowed = apart(loads[i], limit[i])
                said = f"node {w.node(i)} carries {carried}, the {name} is {allowed}"
                yield Violation("theta_max", said, i, abs(float(loads[i] - limit[i])))

    def _table_too_large(self, assignment: np.ndarray) -> list[Violation]:  # (4)
        size = metrics.table_size(self.workload, assignment)
        if self.max_table_size is None or size <= self.max_table_size:
            return []
        said = f"the routing table has {size} entries, the limit is {self.max_table_size}"
        return [Violation("max_table_size", said, amount=size - self.max_table_size)]

    def _on_draining(self, assignment: np.ndarray) -> list[Violation]:  # (5)
        w = self.workload
        left = np.bincount(assignment, minlength=w.nodes)
        return [
            Violation("draining", f"{left[i]} keys are on node {w.node(i)}, which is draining", int(i), float(left[i]))
            for i in np.flatnonzero(w.draining & (left > 0))
        ]

    def conflicts(self) -> list[str]:
        """The conflicts: one key above every limit, hashes to draining nodes, a table limit of 0, too few loaded keys."""
        if found := self.rule_conflicts():
            return found
        return next((found for window in self.by_window if (found := window._conflicts())), [])

    def _conflicts(self) -> list[str]:
        w, load, highest = self.workload, self.workload.last_load, self.upper.max()
        found = [
            "key {} alone has load {}, the highest limit of a node is {}".format(w.key(k), *apart(load[k], highest))
            for k in np.flatnonzero(load > highest + self.slack)[:3]
        ]
        homeless = int(w.draining[self.home].sum())
        if self.max_table_size is not None and homeless > self.max_table_size:
            found.append(f"{homeless} keys hash to draining nodes, the routing table holds {self.max_table_size}")
        elif self.max_table_size == 0:
            found += [f"{v.message}, and no key may leave its hash" for v in self._off_limits(self.home)]
        loaded, waiting = int((load > 0).sum()), int((self.lower > self.slack).sum())
        if loaded < waiting:
            found.append(f"{waiting} nodes each need a load above 0, only {loaded} keys have any")
        return found

    # What stages, plans, remedies and replays ask ---------------------------------------------------------------

    def searched(self) -> Searched:
        w, each = self.workload, self.by_window
        most = [np.where(w.kept, window.upper + window.slack / 2, 0.0) for window in each]
        least = [window.lower - window.slack / 2 for window in each]
        none = np.zeros((len(each), w.nodes))
        space = self.lowered.narrowed(MoveSpace.within(w.current, w.kept))
        return Searched(
            np.array([window.workload.last_load for window in each]), space, {"table_size": float(self.table_limit)},
            np.array([window.workload.mean_load for window in each]), bands=np.array([none, most, none, least]),
            share=self.planned.share,
        )  # fmt: skip

    def played(self) -> dict[str, Any]:
        return {
            "kind": self.name, "objective": self.stages[0], "sides": self.sides, "theta_max": self.theta_max,
            "max_table_size": self.max_table_size, "unit": self.unit("state_moved"),
            "mean": self.workload.mean_load,
            "windows": [
                {"load": w.workload.last_load, "mean": w.workload.mean_load, "fair": w._fair,
                 "upper": w.upper, "lower": w.lower, "slack": w.slack}
                for w in self.by_window
            ],
        }  # fmt: skip

    @property
    def limits(self) -> list[Limit]:
        w = self.workload
        ends = max(float(w.capacity[w.kept].sum() / w.capacity[w.kept].min()), self.theta_max)
        found = [Limit.of(self, "theta_max", needed=self.theta, ends=ends, step=0.01)]
        if self.max_table_size is not None:
            needed = partial(metrics.table_size, w)
            found.append(Limit.of(self, "max_table_size", whole=True, needed=needed, ends=w.key_groups))
        return [*found, *self.rule_limits, self.more_nodes()]
