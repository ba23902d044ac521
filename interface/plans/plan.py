"""A plan: which key group moves when, from where to where, and what that is worth."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from keyshift.catalogue.method import FORMULATIONS
from keyshift.files.problem import pose
from keyshift.models.base.figures import apart, figure
from keyshift.models.base.guards import FrozenArrays
from keyshift.models.base.lazily import load, pd
from keyshift.models.errors import ChangedWorkloadError, InputError
from keyshift.models.plans.transfers import TransferScheduling, Way, durations, net_change, peaks
from keyshift.models.problem import CheckReport, Violation
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload
from keyshift.plans.made_for import MadeFor
from keyshift.plans.targets import Phase, broken_on_the_way, distance_gains

MOVED = ("key_group", "source", "target", "gain", "phase", "start", "end")
"""Of a move, the columns that a plan's file holds; the others follow from the workload."""
CHANGES = ("same", "other target", "only here", "only there")
"""How a move of one plan stands to another's."""
COLUMNS = ("key_group", "key", "source", "target", "load", "state", "gain", "phase", "start", "end")


@dataclass(frozen=True, eq=False)
class Plan(FrozenArrays):
    """The moves for an operator to carry out, phase by phase.

    The arrays that follow have one entry for each move, in the order of their starts: shape (e,).

    Attributes
    ----------
    problem : str
        Name of the problem that the plan answers.
    parameters : mapping
        The problem's own parameters, so that it can be posed again.
    made_for : MadeFor
        The workload it was made for.
    method, status : str
        How the target was found, and whether it is proven ("optimal") or not.
    objective, bound : float or None
        Objective and bound of the target, in the problem's unit.
    measure : str
        What `gain` is measured in: "load distance", "imbalance", "remote traffic", or the objective of a problem of one's own.
    assignment : ndarray of int, shape (p,)
        The node of every key group once the plan is carried out.
    key_group, source, target : ndarray of int
        Numbers; `moves` has names where the workload has them.
    load, state, gain : ndarray
        Load (last window), state, and what the objective loses if this move alone is undone.
    start, end : ndarray
        Seconds from the start of the plan; where no bandwidth was given, units of state.
    phase : ndarray of int
    phases : tuple of Phase
    capacity : ndarray, shape (n,)
        Of every node, new ones included.
    leaving : ndarray of bool, shape (n,)
        Nodes that drain, or that the plan empties and the problem may give up.
    bandwidth : ndarray, shape (n,) or None
        Units of state per second that a node sends or receives in one transfer.
    parallel : int
        Transfers that a node takes part in at once.
    limits : mapping of str to ndarray, shape (n,)
        The most that a node may hold on the way, by resource ("load" is one); what it has before or after, where that
        is more.
    usage : mapping of str to ndarray, shape (e,)
        Use of the limited resources by what moves; held : mapping of str to ndarray, shape (n,), before the plan.
    overload, overload_bound : float
        The largest excess over a limit on the way, as a share of the limit, and the excess that no order of moves avoids.
    notes : tuple of str
        Further remarks for the operator.
    broken_rules, broken_rules_bound : float
        By how much rules are broken at the worst moment on the way, and the part that no order of moves avoids.
    """

    problem: str
    parameters: Mapping[str, Any]
    made_for: MadeFor
    method: str
    status: str
    objective: float | None
    bound: float | None
    measure: str
    assignment: IntArray
    key_group: IntArray
    source: IntArray
    target: IntArray
    load: FloatArray
    state: FloatArray
    gain: FloatArray
    start: FloatArray
    end: FloatArray
    phase: IntArray
    phases: tuple[Phase, ...]
    capacity: FloatArray
    leaving: BoolArray
    bandwidth: FloatArray | None
    parallel: int
    limits: Mapping[str, FloatArray] = field(default_factory=dict)
    usage: Mapping[str, FloatArray] = field(default_factory=dict)
    held: Mapping[str, FloatArray] = field(default_factory=dict)
    overload: float = 0.0
    overload_bound: float = 0.0
    notes: tuple[str, ...] = ()
    broken_rules: float = 0.0
    broken_rules_bound: float = 0.0

    reporter: ClassVar[Any] = None
    """What writes the page of `report`; `keyshift` names the code when it is imported."""

    def __len__(self) -> int:
        return int(self.key_group.size)

    # What the operator reads -----------------------------------------------------------------------------------

    @cached_property
    def moves(self) -> pd.DataFrame:
        """A table with a row for each move: key_group, key, source, target, load, state, gain, phase, start, end.

        `source` and `target` are the nodes' names where the workload names them, else their numbers; `key` likewise.
        """
        made, columns = self.made_for, {name: getattr(self, name) for name in COLUMNS if name != "key"}
        columns["key"] = [made.key(int(k)) for k in self.key_group]
        columns |= {side: [made.node(int(i)) for i in columns[side]] for side in ("source", "target")}
        return pd.DataFrame(columns, columns=list(COLUMNS))

    @property
    def seconds(self) -> float:
        """Seconds from the first transfer to the end of the last; without a bandwidth, units of state."""
        return float(self.end.max(initial=0.0))

    @cached_property
    def lengths(self) -> FloatArray:
        """How long each move takes, computed from its state: late in a long plan `end` - `start` may round to 0."""
        return durations(self.state, self.source, self.target, self.bandwidth)

    @property
    def seconds_bound(self) -> float:
        """A lower bound on the seconds of any schedule with the same phases."""
        return float(sum(phase.bound for phase in self.phases))

    @property
    def state_moved(self) -> float:
        """State of all moves."""
        return float(self.state.sum())

    @property
    def current(self) -> IntArray:
        """The node of every key group before the plan, shape (p,)."""
        return self.made_for.current

    @property
    def loads_before(self) -> FloatArray:
        """Load of every node before the plan, shape (n,)."""
        return self._way.before

    @property
    def loads_after(self) -> FloatArray:
        """Load of every node after the plan, shape (n,)."""
        return self._way.after

    @cached_property
    def peak_loads(self) -> FloatArray:
        """The highest load of every node at any time on the way, shape (n,)."""
        return peaks(self.loads_before, self.load, self.source, self.target, self.start, self.end)

    @property
    def peak_load(self) -> float:
        """The highest load of any node on the way."""
        return float(self.peak_loads.max())

    @property
    def load_distance(self) -> tuple[float, float]:
        """The load distance before and after, over the nodes that stay."""
        return float(self.distance(self.loads_before)), float(self.distance(self.loads_after))

    @cached_property
    def _way(self) -> Way:
        """The loads of the nodes before and after."""
        before, after = (
            np.bincount(a, self.made_for.load, self.capacity.size) for a in (self.current, self.assignment)
        )
        return Way(self.made_for.load, self.capacity, self.leaving, before, after)

    @property
    def mean(self) -> float:
        """Load per unit of capacity over the nodes that stay."""
        return self._way.mean

    def distance(self, loads: FloatArray) -> FloatArray:
        """Load distance of node loads, shape (..., n): upwards only on nodes that leave."""
        return self._way.distance(loads)

    def assignments(self) -> list[IntArray]:
        """The node of every key group after each phase; the last one is `assignment`."""
        now, made = self.current.copy(), []
        for phase in self.phases:
            rows = np.array(phase.moves, dtype=np.int64)
            now[self.key_group[rows]] = self.target[rows]
            made.append(now.copy())
        return made

    def __repr__(self) -> str:
        before, after = self.load_distance
        return (
            f"Plan({len(self)} moves in {len(self.phases)} phases, {figure(self.state_moved)} of state, "
            f"{figure(self.seconds)} s, load distance {figure(before, self.mean)} -> {figure(after, self.mean)})"
        )

    def _repr_html_(self) -> str:
        """The first moves as a table, for notebooks."""
        return f"<p>{html.escape(repr(self))}</p>{self.moves.head(20).to_html(index=False)}"

    # What the plan is held to ----------------------------------------------------------------------------------

    def transfers(self) -> TransferScheduling:
        """The scheduling problem of the whole plan, with limits that are relaxed as far as necessary."""
        n, parts = self.capacity.size, (self.held, self.usage, self.limits)
        held, usage, limit = (
            np.array([part[r] for r in self.limits], dtype=float).reshape(len(self.limits), width)
            for part, width in zip(parts, (n, len(self), n), strict=True)
        )
        raised = limit * (1 + self.overload)
        return TransferScheduling(self.source, self.target, self.lengths, n, self.parallel, held, usage, raised)

    def violations(self) -> list[Violation]:
        """The rules that the plan breaks: transfers at once, limits, overlapping phases, moves that miss the target."""
        broken = [] if len(self) == 0 else self.transfers().violations(self.start)
        reached = self.current.copy()
        reached[self.key_group] = self.target
        if not np.array_equal(reached, self.assignment) or not np.array_equal(
            self.current[self.key_group], self.source
        ):
            broken.append(Violation("moves", "the moves do not lead from where key groups run to the assignment"))
        if np.unique(self.key_group).size != self.key_group.size:
            broken.append(Violation("moves", "a key group moves twice"))
        slack = 1e-9 * self.seconds
        if late := np.flatnonzero(np.abs(self.start + self.lengths - self.end) > slack).tolist():
            j = late[0]
            end, counted = apart(self.end[j], self.start[j] + self.lengths[j])
            said = f"move {j} ends at {end}, by its state at {counted}"
            broken.append(Violation("moves", said, j))
        for phase in self.phases:
            rows = np.array(phase.moves, dtype=np.int64)
            if (self.start[rows] < phase.start - slack).any() or (self.end[rows] > phase.end + slack).any():
                broken.append(Violation("phases", f"phase {phase.number} has moves outside its time", phase.number))
        if any(b.start < a.end - slack for a, b in zip(self.phases, self.phases[1:], strict=False)):
            broken.append(Violation("phases", "two phases overlap"))
        return broken

    # A workload that has changed ---------------------------------------------------------------------------------

    def changes(self, workload: Workload) -> list[str]:
        """How a workload differs from the one that the plan was made for, one sentence for each difference."""
        return self.made_for.changes(workload)

    def check(self, workload: Workload) -> CheckReport:
        """Check that the plan still fits the workload, and that it keeps its limits on the way.

        Raises
        ------
        ChangedWorkloadError
            When the workload is not the one that the plan was made for: with a sentence for each difference (which key group
            runs elsewhere, which load changed by how much), and what the plan would be worth on it.
        """
        if changes := self.changes(workload):
            worth = worth_on(self, workload)
            raise ChangedWorkloadError(
                f"the plan was made for another workload: {'; '.join(changes)}. {worth}", tuple(changes)
            )
        broken = (*self.violations(), *broken_on_the_way(self, workload))
        before, after = self.load_distance
        figures = {
            "load_distance_before": before, "load_distance": after, "peak_load": self.peak_load,
            "seconds": self.seconds, "state_moved": self.state_moved, "migrations": float(len(self)),
        }  # fmt: skip
        value = after if self.objective is None else self.objective
        return CheckReport(not broken, broken, value, figures)

    def diff(self, other: Plan) -> PlanDifference:
        """Compare this plan with another plan for the same key groups."""
        return difference(self, other)

    # What can be made of it ------------------------------------------------------------------------------------

    def undo(self) -> Plan:
        """The plan that moves every key group back, in the opposite order, starting from where this plan ends.

        While a key group moves it counts on both nodes, so the way back keeps the same limits.
        """
        return undone(self)

    def predict(self) -> pd.DataFrame:
        """The plan's predictions, indexed by figure and node ("all" for figures of the whole plan).

        `keyshift.compare_measured` puts measurements beside it.
        """
        n, whole = self.capacity.size, ["all"]
        nodes = [self.made_for.node(i) for i in range(n)]
        sent, received = (np.bincount(side, self.state, n) for side in (self.source, self.target))
        every = {"load": self.loads_after, "peak_load": self.peak_loads, "sent": sent, "received": received}
        of_all = {"moves": len(self), "state_moved": self.state_moved, "seconds": self.seconds}
        parts = [pd.Series(values, nodes) for values in every.values()] + [pd.Series(v, whole) for v in of_all.values()]
        return pd.concat(parts, keys=[*every, *of_all], names=["figure", "node"]).astype(float).to_frame("predicted")

    def as_record(self) -> dict[str, Any]:
        """The plan as plain values for JSON; `keyshift.files.solution` says what each field means."""
        from keyshift.files.solution import LimitRecord, NodesRecord, PhaseRecord, PlanFile, WorkloadRecord

        limits = {
            name: LimitRecord.content(None, limit=self.limits[name], held=self.held[name], usage=self.usage[name])
            for name in self.limits
        }
        moved = zip(*(getattr(self, name).tolist() for name in MOVED), strict=True)
        content = PlanFile.content(
            self, workload=WorkloadRecord.content(self.made_for), nodes=NodesRecord.content(self), limits=limits,
            phases=[PhaseRecord.content(p) for p in self.phases], moves=[dict(zip(MOVED, m, strict=True)) for m in moved],
        )  # fmt: skip
        if not self.made_for.units:  # releases before units can read it
            del content["workload"]["units"]
            content["version"] = 2
        return {**PlanFile.stamp(), **content}

    def report(self, path: str | Path, **options: Any) -> None:
        """Write the plan as one HTML page that needs no server and no network.

        Parameters
        ----------
        path : str or Path
        **options
            ``comparison``, a `Comparison` of methods; ``other``, another plan to stand beside this one; ``title``.
        """
        load(self.reporter)(self, path, **options)

    def save(self, path: str | Path) -> None:
        """Write the plan as one JSON file. The file is written completely or not at all.

        Raises
        ------
        InputError
            If the folder does not exist.
        """
        from keyshift.files.solution import PlanFile

        PlanFile.write(path, self.as_record())


def worth_on(plan: Plan, workload: Workload) -> str:
    """One sentence: what carrying out the plan would bring on another workload."""
    if workload.key_groups != plan.assignment.size or workload.nodes != plan.made_for.capacity.size:
        return "It cannot be carried out on this one."
    gives_up = bool((plan.leaving[: plan.made_for.draining.size] & ~plan.made_for.draining).any())
    way = Way.of(workload, workload.current, plan.assignment, gives_up)
    before, after = float(way.distance(way.before)), float(way.distance(way.after))
    moves = int((workload.current != plan.assignment).sum())
    was, then = apart(before, after, shown=figure)
    said = f"On this one its target would take {moves} moves and bring the load distance from {was} to {then}"
    cls = FORMULATIONS[plan.problem].problem_class if plan.problem in FORMULATIONS else None
    if cls is None or cls.in_steps or plan.status == "undo":
        return f"{said}."
    try:
        report = pose(plan.problem, workload, plan.parameters).check(plan.assignment)
    except InputError as error:
        return f"{said}; {plan.problem} cannot be asked about it: {error}."
    if np.isfinite(report.objective) and plan.objective is not None:
        reached, planned = apart(report.objective, plan.objective, shown=figure)
        said += f" (objective {reached}, planned {planned})"
    return f"{said}; {f'it breaks a rule: {report.violations[0]}' if report.violations else 'no rule is broken'}."


def undone(plan: Plan) -> Plan:
    """The same transfers the other way round and in the opposite order."""
    end = max([plan.seconds, *(p.end for p in plan.phases)])  # sums of many parts round, each its own way
    order = np.lexsort((plan.key_group, end - plan.start, end - plan.end))
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    last = len(plan.phases) - 1
    distances = [plan.load_distance[0], *(p.load_distance for p in plan.phases[:-1])]
    phases = tuple(
        Phase(
            last - p.number, tuple(sorted(int(place[row]) for row in p.moves)), end - p.end, end - p.start,
            p.bound, distances[p.number],
        )
        for p in reversed(plan.phases)
    )  # fmt: skip
    change = {r: net_change(u[None, :], plan.source, plan.target, plan.capacity.size)[0] for r, u in plan.usage.items()}
    turned = {r: np.maximum(held + change[r], 0.0) for r, held in plan.held.items()}  # a sum may round below 0
    back = replace(plan._way, before=plan.loads_after, after=plan.loads_before)
    worth = distance_gains(back, plan.assignment, plan.current, plan.key_group[order])
    return replace(
        plan,
        made_for=plan.made_for.once(plan.assignment, plan.capacity),
        status="undo", objective=None, bound=None, measure="load distance", assignment=plan.current.copy(),
        key_group=plan.key_group[order], source=plan.target[order], target=plan.source[order],
        load=plan.load[order], state=plan.state[order], gain=worth,
        start=(end - plan.end)[order], end=(end - plan.start)[order], phase=(last - plan.phase)[order],
        phases=phases, notes=(), usage={r: u[order] for r, u in plan.usage.items()}, held=turned,
    )  # fmt: skip


# Two plans side by side: which moves they share, and what each is worth ------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlanDifference:
    """The differences that `Plan.diff` finds.

    Attributes
    ----------
    moves : DataFrame
        One row for each key group that either plan moves: key_group, key, source, target (this plan's, None where it
        stays), other_target, load, state, change ("same", "only here", "only there", "other target").
    figures : dict of str to tuple of float
        Moves, state moved, seconds, peak load and load distance: this plan's and the other's.
    """

    moves: pd.DataFrame
    figures: dict[str, tuple[float, float]]

    def counts(self) -> dict[str, int]:
        """How many moves are of which kind."""
        return {kind: int((self.moves["change"] == kind).sum()) for kind in CHANGES}

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        figures = ((name, *apart(*both, shown=figure)) for name, both in self.figures.items())
        lines = [f"{name}: {here} here, {there} there" for name, here, there in figures]
        return "\n".join([f"moves: {kinds}", *lines])


def difference(one: Plan, other: Plan) -> PlanDifference:
    """Compare two plans for the same key groups and nodes.

    Raises
    ------
    InputError
        When they are about different key groups, or key groups start on different nodes.
    """
    if one.assignment.size != other.assignment.size or one.made_for.keys != other.made_for.keys:
        raise InputError(f"the plans are about different key groups: {one.assignment.size} and {other.assignment.size}")
    elsewhere = np.flatnonzero(one.current != other.current)
    if elsewhere.size:
        why = f"the plans start differently: key group {one.made_for.key(int(elsewhere[0]))} is not on the same node"
        raise InputError(why)
    made, rows = one.made_for, np.flatnonzero((one.assignment != one.current) | (other.assignment != one.current))
    here, there, stays = one.assignment[rows], other.assignment[rows], one.current[rows]

    def goes(plan: Plan, k: int) -> Any:
        return None if plan.assignment[k] == one.current[k] else plan.made_for.node(int(plan.assignment[k]))

    table = pd.DataFrame(
        {
            "key_group": rows,
            "key": [made.key(int(k)) for k in rows],
            "source": [made.node(int(one.current[k])) for k in rows],
            "target": [goes(one, int(k)) for k in rows],
            "other_target": [goes(other, int(k)) for k in rows],
            "load": made.load[rows],
            "state": made.state[rows],
            "change": np.select(
                [here == there, (here != stays) & (there != stays), there == stays], CHANGES[:3], CHANGES[3]
            ),
        }
    )
    said = [
        {"moves": float(len(p)), "phases": float(len(p.phases)), "state moved": p.state_moved, "seconds": p.seconds,
         "peak load": p.peak_load, "load distance": p.load_distance[1]}
        for p in (one, other)
    ]  # fmt: skip
    figures = {name: (said[0][name], said[1][name]) for name in said[0]}
    return PlanDifference(table, figures)
