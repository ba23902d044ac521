"""A plan afterwards: read from its file, which is held against itself before it is believed; and beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keyshift.files.solution import PlanFile
from keyshift.models.base.figures import apart
from keyshift.models.base.labels import by_label
from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError, naming, refusing
from keyshift.plans.made_for import MadeFor
from keyshift.plans.plan import Plan
from keyshift.plans.targets import Phase

AS_THEY_ARE = (
    "problem", "parameters", "method", "status", "objective", "bound", "measure", "parallel", "overload", "overload_bound",
    "broken_rules", "broken_rules_bound",
)  # fmt: skip
"""Fields of a plan that its file holds under the same names."""


def read_plan(path: str | Path) -> Plan:
    """Read a plan that `Plan.save` wrote.

    Raises
    ------
    InputError
        Names the file and what is wrong: it is not a plan, has another format, has a bad field, or has figures that
        contradict each other.
    """
    record = PlanFile.read(path)
    with naming(path, " contradicts itself: "), refusing("{reason}", IndexError, ValueError):
        plan = _plan_of(record)
        _refuse_contradictions(record, plan)
        return plan


def _plan_of(record: PlanFile) -> Plan:
    w = record.workload
    floats, whole = (lambda v: np.array(v, dtype=float)), (lambda v: np.array(v, dtype=np.int64))
    made = MadeFor(
        w.rest, floats(w.load), floats(w.state), whole(w.current), floats(w.capacity), np.array(w.draining, dtype=bool),
        None if w.keys is None else tuple(w.keys), None if w.node_names is None else tuple(w.node_names),
        w.units,
    )  # fmt: skip
    moves: dict[str, Any] = {
        name: whole([getattr(m, name) for m in record.moves]) for name in ("key_group", "source", "target", "phase")
    }
    moves |= {name: floats([getattr(m, name) for m in record.moves]) for name in ("gain", "start", "end")}
    key_group, phase = moves["key_group"], moves["phase"]
    assignment = made.current.copy()
    assignment[key_group] = moves["target"]
    phases = tuple(
        Phase(i, tuple(np.flatnonzero(phase == i).tolist()), p.start, p.end, p.bound, p.load_distance)
        for i, p in enumerate(record.phases)
    )
    return Plan(
        **moves, **{name: getattr(record, name) for name in AS_THEY_ARE}, made_for=made, assignment=assignment,
        load=made.load[key_group], state=made.state[key_group], phases=phases, notes=tuple(record.notes),
        capacity=floats(record.nodes.capacity), leaving=np.array(record.nodes.leaving, dtype=bool),
        bandwidth=None if record.bandwidth is None else floats(record.bandwidth),
        limits={r: floats([np.inf if v is None else v for v in x.limit]) for r, x in record.limits.items()},
        usage={r: floats(x.usage) for r, x in record.limits.items()},
        held={r: floats(x.held) for r, x in record.limits.items()},
    )  # fmt: skip


def _refuse_contradictions(record: PlanFile, plan: Plan) -> None:
    """Check what a schema cannot: lengths agree, nodes exist, figures follow from the moves."""
    made, p, n = plan.made_for, plan.made_for.load.size, plan.capacity.size
    lengths = {
        "workload.state": (made.state.size, p), "workload.current": (made.current.size, p),
        "workload.draining": (made.draining.size, made.capacity.size), "nodes.leaving": (plan.leaving.size, n),
        **{f"limits.{r}.{part}": (getattr(plan, part)[r].size, n if part == "held" else len(plan)) for r in plan.limits
           for part in ("held", "usage")},
        **{f"limits.{r}.limit": (plan.limits[r].size, n) for r in plan.limits},
    }  # fmt: skip
    for name, (found, expected) in lengths.items():
        if found != expected:
            raise InputError(f"{name} has {found} entries, expected {expected}")
    if not (plan.capacity > 0).all() or plan.leaving.all():
        raise InputError("nodes: capacities must be above 0, and one node must stay")
    if max(plan.source.max(initial=0), plan.target.max(initial=0), made.current.max()) >= n:
        raise InputError(f"a move names a node from {n} on")
    if (plan.phase >= len(plan.phases)).any():
        raise InputError("a move belongs to a phase that is not listed")
    if made.fingerprint != record.workload.fingerprint:
        raise InputError("the fingerprint is not that of the workload it lists")
    if broken := plan.violations():
        raise InputError(str(broken[0]))
    for name in ("seconds", "state_moved", "peak_load"):
        if not np.isclose(getattr(plan, name), getattr(record, name), rtol=1e-9, atol=1e-12):
            given, counted = apart(getattr(record, name), getattr(plan, name))
            raise InputError(f"{name} = {given}, its moves say {counted}")


# A plan's predictions and measurements side by side --------------------------------------------------------------------


def compare_measured(plan: Plan, measured: Mapping[str, Any]) -> pd.DataFrame:
    """Compare a plan's predictions with what was measured when it was carried out.

    Parameters
    ----------
    plan : Plan
    measured : mapping
        Figures by the names of `Plan.predict`: ``load``, ``peak_load``, ``sent`` and ``received`` of each node, shape
        (n,) or by the node's name; ``moves``, ``state_moved`` and ``seconds`` of the whole plan. They are in the
        workload's units; leave out what was not measured.

    Returns
    -------
    DataFrame
        A row for each figure and node: predicted, measured, difference, and the difference in percent of what was predicted.

    Raises
    ------
    InputError
        If a name is unknown, or the figures do not fit the nodes.
    """
    table, parts = plan.predict(), []
    known = dict.fromkeys(table.index.get_level_values("figure"))
    for name, values in measured.items():
        if name not in known:
            raise InputError(f"measured names {name!r:.60}; a plan predicts {', '.join(known)}")
        part = table.xs(name, level="figure", drop_level=False)
        nodes = part.index.get_level_values("node")
        values = by_label(f"measured[{name!r}]", values)
        if isinstance(values, Mapping):
            if unknown := [node for node in values if node not in nodes]:
                raise InputError(f"measured[{name!r}] names {unknown[0]!r:.60}, which is not a node of the plan")
            values, part = [values[node] for node in nodes if node in values], part[nodes.isin(list(values))]
        found = np.atleast_1d(np.asarray(values, dtype=float))
        if found.shape != (len(part),):
            said = f"measured[{name!r}] has shape {found.shape}; the plan has {len(part)} figures of that name"
            raise InputError(said)
        parts.append(part.assign(measured=found))
    if not parts:
        raise InputError("nothing was measured")
    made = pd.concat(parts)
    made["difference"] = made["measured"] - made["predicted"]
    made["percent"] = 100.0 * made["difference"] / made["predicted"].where(made["predicted"] != 0)
    return made
