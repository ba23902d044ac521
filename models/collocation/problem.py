"""Collocated allocation ([Madsen2016], section 4.3.2, stated exactly): the problem and its check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import metrics, records
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.limits import allocation_limits
from keyshift.models.allocation.problem import SLACK
from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.collocation.load_model import Levels, LoadModel, Pairs, levels_of, read_costs
from keyshift.models.errors import InputError
from keyshift.models.objectives import Over, OverWindows, Searched
from keyshift.models.problem import Limit, Problem, Violation
from keyshift.models.rules.rule import Rule
from keyshift.models.workload import FloatArray, IntArray, Workload

CHOICES = {
    "minimise": ("remote_traffic", "total_load"),
    "distance_unit": ("percent", "load"),
    "sides": ("both", "upper"),
}


@dataclass(frozen=True, eq=False)
class CollocatedAllocation(OverWindows):
    r"""Keep key groups that exchange many tuples on one node, within a load distance and a migration limit.

    Sets and data as in `KeyGroupAllocation`; further :math:`t_e`, the tuples that the two key groups of pair
    :math:`e = \{k, l\}` send each other, either way; ser and des, the load of one remote tuple at its two ends;
    :math:`Y_k = y_k + ser \sum_l t_{kl} + des \sum_l t_{lk}`, the load of k were all its traffic remote.

    Variables: :math:`x_{ki} \in \{0, 1\}`, whether k runs on i; :math:`z_{ei} \in [0, 1]`, whether both key groups of
    e do; :math:`Z \in [0, 1]`, the share of the traffic T whose two ends share a node. For short,

    .. math::

        load_i = \sum_k Y_k x_{ki} - (ser + des) \sum_e t_e z_{ei}, \quad
        total = \sum_i load_i, \quad mean = \frac{total}{\sum_{i \in A} c_i}

    .. math::

        \min \; \sum_e t_e \bigl(1 - \sum_i z_{ei}\bigr) \;\text{ or }\; total \quad \text{subject to}

        (1), (2), (6), (7) \quad & \text{of key-group allocation} \\
        (8)  \quad & load_i / c_i \le mean + D                 && \text{for every } i \in A \cup B \\
        (9)  \quad & load_i / c_i \ge mean - D                 && \text{for every } i \in A \\
        (10) \quad & z_{ei} \le x_{ki}, \; z_{ei} \le x_{li}   && \text{for every } i \text{ and } e = \{k, l\} \\
        (11) \quad & z_{ei} \ge x_{ki} + x_{li} - 1            && \text{for every } i \text{ and } e = \{k, l\} \\
        (16) \quad & T Z = \sum_e t_e \sum_i z_{ei}

    D is `max_load_distance` percent of the mean; with the sides "upper" there is no (9). Solvers need (11) only where z weighs
    on loads, ser + des > 0: elsewhere the objective pushes z up by itself.

    Over windows or scenarios s each has loads :math:`y_{ks}`, a mean of its own, and rows (8) and (9) of its own; and
    traffic :math:`t_{es}` of its own, where the workload has it, with one :math:`z_{ei}` for all. With

    .. math:: (14) \quad v_s = \sum_e t_{es} \bigl(1 - \sum_i z_{ei}\bigr) \;\text{ or }\; total_s

    it minimises, in the terms of `keyshift.models.objectives`, the mean, the worst, or the mean of the worst share 1 - level:

    .. math::

        (15) \quad \min \; \sum_s q_s v_s, \quad \min \; t : t \ge v_s, \quad\text{or}\quad
                   \min \; t + \sum_s \tfrac{q_s}{1 - level} u_s : u_s \ge v_s - t, \; u_s \ge 0

    The sum over the windows is k times their mean: the same assignments are best.

    Where a tuple costs by level, `costs` gives :math:`c_1 < c_2 < \dots` for labels of nodes, and a tuple between two nodes
    costs the most of the labels in which they differ. A block b of level g is the nodes that share its label and all dearer
    ones. With :math:`z_{eb}` for each block in place of each node, in (10) and (11) the sum of :math:`x_{ki}` over its nodes, and
    :math:`c_0 = 0`, the traffic in the objective, in (14) and in (16) is

    .. math:: (17) \quad \sum_g (c_g - c_{g-1}) \sum_e t_e \bigl(1 - \sum_{b \in g} z_{eb}\bigr)

    `objective` is the remote traffic (tuples), or with ``minimise="total_load"`` the load of the whole system, unless
    `priorities` puts another measure first.

    Parameters
    ----------
    workload : Workload
        p key groups on n nodes, with `traffic`. The last window of `load` is the processing load; where
        serialisation and deserialisation are 0 it may as well be the measured load.
    max_load_distance : float or None, default 10
        The most that a node may deviate from the mean node load; None is no limit.
    max_migrations, max_migration_cost, alpha, into_draining, resource_capacity : optional
        Limits on what may move and on the use of resources, as in `KeyGroupAllocation`.
    minimise : {"remote_traffic", "total_load"}, default "remote_traffic"
    serialisation, deserialisation : float, default 0
        Load of one remote tuple at its sender and at its receiver (`LoadModel`).
    distance_unit : {"percent", "load"}, default "percent"
        Unit of `max_load_distance`: percent of the mean node load, or units of load. [Madsen2016] has loads in percentage
        points of a node's capacity (section 3) and the limit in the same: that is "load", with such loads. Over time
        the two differ: a limit in percent of the mean tightens as collocation lowers the mean.
    priorities : sequence of str, optional
        What to minimise, the most important first, each among the answers that are best in those before:
        "remote_traffic", "total_load", "load_distance", "migrations", "state_moved". By default `minimise` alone. Over
        k > 1 windows there is no "load_distance", and none of traffic but with the mean. "broken_rules" may come first:
        rules that are broken today are then repaired as far as the limits allow, and get no worse.
    windows : int, default 1
        (8) and (9) hold in each of the last so many windows; traffic is that of each of them. (7) is about the last one.
    scenarios : array_like, shape (k, p), optional
        (8) and (9) hold for each of these loads instead of the workload's: samples of a forecast, say; traffic is the last
        window's. On the shell, a file: .csv, a row a scenario; .json, a list of lists; or .npy.
    over : {"mean", "max", "cvar"}, default "mean"
        (15): what becomes of the windows' remote traffic, or total load.
    level : float, default 0.9
        Level of CVaR: the share of probability that it leaves out.
    probabilities : array_like, shape (k,), optional
        Probabilities of the windows or scenarios; equal by default. Those of probability 0 are left out.
    rules : sequence of Rule, optional
        Further restrictions of the cluster (`keyshift.rules`).
    costs : mapping of str to float, optional
        (17): the cost of a tuple by the widest label in which its two nodes differ, "node" or a domain of the workload:
        ``{"node": 1, "rack": 3}`` is 1 within a rack and 3 between racks; a label without a cost costs nothing. Labels need
        not be nested: of several that differ the dearest counts. Where each domain of one lies within one of another, that
        other is the wider one and may not cost less. Remote traffic is in units of cost then. Not with a cost of
        serialisation, nor with the total load as what is minimised.
    sides : {"both", "upper"}, default "both"
        Whether `max_load_distance` limits loads below the mean as well, or only loads above it, as graph partitioners
        do. The metric `load_distance` has both sides in either case.

    Raises
    ------
    InputError
        Names the field and the value that are wrong; also raised for a workload without traffic.

    Notes
    -----
    Source: [Madsen2016], section 4.3.2, which declines this model as quadratic; the products
    :math:`x_{ki} x_{li}` are linearised in (10) and (11). Size: n (p + pairs) variables. When the current nodes
    break (8) or (9) and no assignment within the migration limits repairs it, the problem is infeasible; the paper's
    way out, to restore the balance first, is `KeyGroupAllocation`, and `replay` takes it.
    """

    name: ClassVar[str] = "collocated-allocation"
    worth: ClassVar[str] = "remote traffic"
    aim: ClassVar[str] = "remote_traffic"
    repairable: ClassVar[tuple[str, ...]] = ("max_load_distance", "resource_capacity")
    rescue: ClassVar[Literal["balance"]] = "balance"
    limits_first: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = (
        "remote_traffic", "total_load", "load_distance", "migrations", "state_moved", "broken_rules",
    )  # fmt: skip

    workload: Workload
    max_load_distance: float | None = 10.0
    max_migrations: int | None = None
    max_migration_cost: float | None = None
    alpha: float = 1.0
    minimise: Literal["remote_traffic", "total_load"] = "remote_traffic"
    serialisation: float = 0.0
    deserialisation: float = 0.0
    distance_unit: Literal["percent", "load"] = "percent"
    into_draining: bool = False
    resource_capacity: Mapping[str, ArrayLike | Mapping[str | int, float]] | None = None
    priorities: str | tuple[str, ...] = ()
    windows: int = 1
    scenarios: ArrayLike | None = None
    over: Over = "mean"
    level: float = 0.9
    probabilities: ArrayLike | None = None
    rules: Sequence[Rule] = ()
    sides: Literal["both", "upper"] = "both"
    costs: Mapping[str, float] | None = None
    allocation: KeyGroupAllocation = field(init=False, repr=False)
    """The same limits without collocation: what (1), (2), (6), (7) are taken from."""

    def __post_init__(self) -> None:
        shared = ("max_migrations", "max_migration_cost", "alpha", "into_draining", "resource_capacity", "rules")
        self._put("allocation", KeyGroupAllocation(self.workload, **{name: getattr(self, name) for name in shared}))
        for name in shared:
            self._put(name, getattr(self.allocation, name))
        self._put("max_load_distance", guards.real("max_load_distance", self.max_load_distance))
        model = LoadModel(self.serialisation, self.deserialisation)
        self._put("serialisation", model.serialisation)
        self._put("deserialisation", model.deserialisation)
        for name, known in CHOICES.items():
            guards.one_of(name, getattr(self, name), known)
        self._read_priorities()
        self._read_rules()
        if self.soft_rule is not None:
            self._put("allocation", replace(self.allocation, rules=(self.soft_rule,)))
        self._read_windows()
        combined = ("remote_traffic", "total_load") if self.combines else ()
        self._refuse_priorities_of_one_window("load_distance", *combined)
        if self.workload.traffic is None:
            raise InputError("the workload has no traffic, which collocation needs")
        if model.per_tuple > 0 and "load" in (self.resource_capacity or {}):
            said = "resource_capacity names 'load', which with a cost of remote traffic is not a fixed number for a key group"
            raise InputError(said)
        if self.costs is not None:
            self._put("costs", read_costs(self.costs, self.workload))
            self._put("worth", "cost of traffic")
            if model.per_tuple > 0 or self.minimise == "total_load":
                raise InputError(
                    "costs by label are about traffic: leave out serialisation, deserialisation and total_load"
                )

    def arguments(self) -> dict[str, Any]:
        """The arguments without the default aggregation rule and sides, so that fingerprints stay those of earlier versions."""
        given: dict[str, Any] = super().arguments()
        usual_ones = {"sides": "both", "costs": None}
        given = {name: value for name, value in given.items() if name not in usual_ones or value != usual_ones[name]}
        rule: dict[str, Any] = {"over": "mean", "level": 0.9, "probabilities": None}
        usual = all(np.array_equal(given.get(name, value), value) for name, value in rule.items())
        return {name: value for name, value in given.items() if not (usual and name in rule)}

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def combines(self) -> bool:
        """Whether (15) differs from a single window with the mean load and traffic."""
        differs = bool(self.planned_traffic or self.minimise == "total_load")
        return self.planned.count > 1 and self.over != "mean" and differs

    @property
    def separate(self) -> bool:
        """Whether the traffic of each window matters, or only their mean."""
        return bool(self.planned_traffic) and (self.combines or self.load_model.per_tuple > 0)

    @property
    def own_measure(self) -> str:
        """The measure that the formulation minimises: the value of `minimise`."""
        return self.minimise

    @cached_property
    def load_model(self) -> LoadModel:
        """How remote traffic weighs on nodes."""
        return LoadModel(self.serialisation, self.deserialisation)

    @cached_property
    def remote_loads(self) -> FloatArray:
        """Y, shape (p,); over k windows, of the mean load and traffic."""
        return guards.frozen(self.load_model.remote_loads(self.typical()))

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs e with their traffic, in lexicographic order."""
        return Pairs.of(self.typical().traffic)

    @cached_property
    def pair_traffic(self) -> FloatArray:
        """Traffic of each pair in each window, shape (k, pairs); a single row, the mean, unless the windows are `separate`."""
        return guards.frozen(self.pairs.under(self.planned_traffic if self.separate else ()))

    @cached_property
    def levels(self) -> Levels:
        """What a tuple costs between nodes, (17)."""
        return levels_of(self.costs, self.workload)

    @cached_property
    def links(self) -> Pairs:
        """The pairs once for each level, with their traffic times its step."""
        pairs, count = self.pairs, self.levels.cost.size
        ends = np.tile(pairs.first, count), np.tile(pairs.second, count)
        return Pairs(*ends, self.levels.weighed(pairs.traffic)) if self.costs else pairs

    def ends(self, assignment: IntArray) -> tuple[IntArray, IntArray]:
        """The blocks that the two ends of each link are in, by the first of their nodes."""
        at = self.levels.block[:, assignment]
        return at[:, self.pairs.first].ravel(), at[:, self.pairs.second].ravel()

    @cached_property
    def apart(self) -> FloatArray:
        """The value of (14) with all traffic remote, shape (k,)."""
        if self.minimise == "total_load":
            return np.array([float(window.remote_loads.sum()) for window in self.by_window])
        return np.broadcast_to(self.saved * self.pair_traffic.sum(axis=1), (self.planned.count,))

    @property
    def saved(self) -> float:
        """The decrease of (14) for each tuple that stays on its node, from the dearest level."""
        return float(self.levels.cost[-1]) if self.minimise == "remote_traffic" else self.load_model.per_tuple

    @cached_property
    def total_traffic(self) -> float:
        """Tuples between different key groups."""
        return float(self.pairs.traffic.sum())

    @property
    def all_remote(self) -> float:
        """Their cost, were all of them remote at the dearest level, (17)."""
        return float(self.levels.cost[-1]) * self.total_traffic

    @property
    def kept_capacity(self) -> float:
        """Capacity of the kept nodes."""
        return float(self.workload.capacity[self.workload.kept].sum())

    def load_band(self, mean: float) -> tuple[float, float]:
        """The smallest and the largest load per unit of capacity that (9) and (8) allow, given the mean."""
        if self.max_load_distance is None:
            return -np.inf, np.inf
        d = self.max_load_distance * (mean / 100 if self.distance_unit == "percent" else 1.0)
        return mean - d if self.sides == "both" else -np.inf, mean + d

    def value(self, collocated: Any) -> Any:
        """The objective if so much traffic, by (17), is collocated; over k windows that of their mean, a lower bound on (15)."""
        if self.minimise == "remote_traffic":
            return self.all_remote - collocated
        return float(self.remote_loads.sum()) - self.load_model.per_tuple * collocated

    # What every problem answers ---------------------------------------------------------------------------------

    def unit(self, measure: str) -> float:
        """The unit of a measure: the total; for a load distance the mean load with all traffic remote; 1 for counts."""
        if measure == "remote_traffic":
            return self.all_remote or 1.0
        total = float(self.remote_loads.sum())
        units = {"total_load": total, "load_distance": total / self.kept_capacity}
        return units.get(measure) or self.allocation.unit(measure)

    def step_of(self, measure: str) -> float:
        """As in key-group allocation, where no tuple weighs on loads; traffic is told apart as far as solvers in floats can."""
        weighed = measure == "total_load" or (measure == "load_distance" and self.load_model.per_tuple > 0)
        return 0.0 if weighed or measure == "remote_traffic" else self.allocation.step_of(measure)

    def limited(self, kept: Mapping[str, float]) -> Self | None:
        limits: dict[str, Any] = {}
        stated_so = self.max_load_distance is None or (self.distance_unit == "load" and self.sides == "both")
        for name, most in kept.items():
            if name == "migrations":
                limits["max_migrations"] = math.floor(most + 1e-6)
            elif name == "load_distance" and stated_so:
                limits |= {"max_load_distance": most, "distance_unit": "load", "sides": "both"}
            else:
                return None
        return replace(self, priorities=(), **limits) if kept else self.plain()

    def measured(self, measure: str, assignment: np.ndarray) -> float:
        known = measure in ("remote_traffic", "total_load")
        return self._summed(measure, assignment) if known else super().measured(measure, assignment)

    def _summed(self, measure: str, assignment: np.ndarray) -> float:
        """(14), the remote traffic or the total load, as (15) combines it."""
        of = self._remote if measure == "remote_traffic" else self.load_model.total_load
        if self.over == "mean" or not (self.planned_traffic or measure == "total_load"):
            return of(self.typical(), assignment)
        return self.planned.combined(np.array([of(window.workload, assignment) for window in self.by_window]))

    def _remote(self, workload: Workload, assignment: np.ndarray) -> float:
        """(17), of the workload's traffic."""
        if self.costs is None:
            return metrics.remote_traffic(workload, assignment)
        sent = workload.traffic.tocoo()  # type: ignore[union-attr]  # there is traffic
        return float(sent.data @ self.levels.between(assignment[sent.row], assignment[sent.col]))

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        each = [(w, *w._deviations(assignment)) for w in self.by_window]
        found = [(window._distance(away), mean) for window, away, mean in each]
        return {
            **metrics.summary(self.workload, assignment),
            "load_distance": max(away for away, _ in found),
            "load_distance_percent": max(100 * away / mean if mean else 0.0 for away, mean in found),
            "remote_traffic": self._summed("remote_traffic", assignment),
            "collocation_factor": metrics.collocation_factor(self.typical(), assignment),
            "total_load": self._summed("total_load", assignment),
            "migration_cost": self.allocation._cost(assignment),
            **self._excess_of_rules(assignment),
        }

    def _deviations(self, assignment: np.ndarray) -> tuple[FloatArray, float]:
        """Load per unit of capacity less the mean, for every node, and the mean."""
        loads = self.load_model.node_loads(self.workload, assignment)
        mean = float(loads.sum()) / self.kept_capacity
        return loads / self.workload.capacity - mean, mean

    def _distance(self, deviation: FloatArray) -> float:
        kept = self.workload.kept
        return float(max(np.abs(deviation[kept]).max(), deviation[~kept].max(initial=0.0)))

    def _limited_part(self, deviation: FloatArray) -> FloatArray:
        """What (8) and (9) limit of the deviation of every node."""
        both = self.workload.kept if self.sides == "both" else np.zeros(deviation.size, dtype=bool)
        return np.where(both, np.abs(deviation), deviation)

    def record(self) -> records.Record:
        if self.load_model.per_tuple > 0:
            said = "loads must not depend on where key groups run"
            raise InputError(f"certificates do not support a cost of serialisation: {said}")
        if self.minimise != "remote_traffic":
            raise InputError("certificates only support remote traffic, and this problem minimises the total load")
        if self.costs is not None:
            raise InputError(
                "certificates only support traffic that costs the same between all nodes, and this has costs"
            )
        pairs, limit = self.pairs, self.max_load_distance
        if limit is not None and self.sides == "upper":
            said = "limits on both sides of the mean, and this problem limits the heavy side alone"
            raise InputError(f"certificates only support {said}")
        unit = self.allocation.exact_mean / 100 if self.distance_unit == "percent" else Fraction(1)
        allocation = self.allocation.record_within(None if limit is None else Fraction(limit) * unit)
        ends = [[int(k), int(l)] for k, l in zip(pairs.first, pairs.second, strict=True)]
        return {**allocation, "traffic": records.amounts(pairs.traffic), "pairs": ends}

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        in_windows = (v for window in self.by_window for v in window.broken_load_distance(assignment))
        return [*self.allocation.violations(assignment), *in_windows]

    def broken_load_distance(self, assignment: np.ndarray) -> list[Violation]:
        """(8), (9): the node that deviates most, if it deviates too far."""
        deviation, mean = self._deviations(assignment)
        high = self.load_band(mean)[1]
        excess = self._limited_part(deviation) - (high - mean)
        i = int(np.argmax(excess))
        if excess[i] <= SLACK * mean:
            return []
        by, most = apart(abs(deviation[i]), high - mean)
        said = f"deviates from the mean load {mean:g} by {by}, the limit is {most}"
        return [Violation("max_load_distance", f"node {self.workload.node(i)} {said}", i, float(excess[i]))]

    def conflicts(self) -> list[str]:
        """The conflicts of key-group allocation; a key group that is too heavy for any node; a limit that lets nothing move."""
        by_window = (found for window in self.by_window if (found := window._conflicts()))
        return next(by_window, self.allocation.conflicts())

    def _conflicts(self) -> list[str]:
        found, w = self.allocation.conflicts(), self.workload
        if w.nodes == 1 or self.max_load_distance is None:
            return found
        # The largest mean against the lightest key group: no assignment need attain either, so this is only necessary.
        mean, roomiest = float(self.remote_loads.sum()) / self.kept_capacity, float(w.capacity.max())
        k, most = int(np.argmax(w.last_load)), roomiest * self.load_band(mean)[1]
        if w.last_load[k] > most + SLACK * mean * roomiest:
            load, limit = apart(w.last_load[k], most)
            found.append(f"key group {w.key(k)} alone loads a node with {load}, the limit is {limit}")
        if self.max_migrations == 0:
            found += [f"{v.message}, and nothing may move" for v in self.broken_load_distance(w.current)]
        return found

    # What stages, plans, remedies and replays ask ---------------------------------------------------------------

    def searched(self) -> Searched:
        w, most, windows, bands = self.workload, self.max_load_distance, self.by_window, None
        if most is not None:
            percent = self.distance_unit == "percent"
            share, rest = SLACK + (most / 100 if percent else 0.0), 0.0 if percent else most
            lowest = w.kept & (self.sides == "both")
            per_node, below = w.capacity / self.kept_capacity, np.where(lowest, -rest, -np.inf)
            sides = np.array([per_node * (1 + share), rest * w.capacity, per_node * (1 - share), below * w.capacity])
            bands = np.repeat(sides[:, None], len(windows), axis=1)
        return self.allocation.searched()._replace(
            load=np.array([window.remote_loads for window in windows]), mean=None, bands=bands, share=self.planned.share,
            pairs=(self.pairs.first, self.pairs.second, np.atleast_2d(self.saved * self.pair_traffic)),
            per_tuple=self.load_model.per_tuple, near=self._near(),
        )  # fmt: skip

    def _near(self) -> FloatArray | None:
        """How much less than the dearest a tuple between two nodes costs, as a share, shape (n, n)."""
        node = np.arange(self.workload.nodes)
        return None if self.costs is None else 1.0 - self.levels.between(node[:, None], node) / self.levels.cost[-1]

    def played(self) -> dict[str, Any]:
        typical, it, model, own = self.typical(), self.planned, self.load_model, self.planned_traffic
        return {
            **self.allocation.played_limits(), "kind": self.name, "objective": self.stages[0], "over": it.over,
            "share": it.share, "most": it.most, "serialisation": model.serialisation,
            "deserialisation": model.deserialisation, "max_load_distance": self.max_load_distance,
            "distance_unit": self.distance_unit, "sides": self.sides, "kept_capacity": self.kept_capacity,
            "typical": typical.last_load,
            "traffic": [*own, typical.traffic],
            **({"levels": list(zip(*map(np.ndarray.tolist, self.levels), strict=True))} if self.costs else {}),
            "windows": [{"load": load, "traffic": at if own else 0} for at, load in enumerate(it.load)],
            "mean": self.workload.mean_load,
        }  # fmt: skip

    @property
    def limits(self) -> list[Limit]:
        found, most = allocation_limits(self), self.max_load_distance
        if most is None:
            return found
        # All load on the smallest node is the farthest from the mean, in the window that has most.
        load = max(float(window.remote_loads.sum()) for window in self.by_window)
        whole = 100.0 * self.kept_capacity if self.distance_unit == "percent" else load
        ends = whole / float(self.workload.capacity.min())
        return [Limit.of(self, "max_load_distance", needed=self._needed_distance, ends=max(ends, most)), *found]

    def _needed_distance(self, assignment: np.ndarray) -> float:
        """The least `max_load_distance` that allows an assignment."""
        each, percent = [(w, *w._deviations(assignment)) for w in self.by_window], self.distance_unit == "percent"
        found = [(float(window._limited_part(away).max()), mean) for window, away, mean in each]
        return max(0.0, *((100 * most / mean if mean else 0.0) if percent else most for most, mean in found))

    @classmethod
    def fallback(cls, workload: Workload, options: Mapping[str, Any]) -> Problem:
        """Key-group allocation under the same limits."""
        return KeyGroupAllocation.fallback(workload, options)
