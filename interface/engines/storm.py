"""Storm: where a topology's tasks run, for a scheduler of one's own, and a table for a ``CustomStreamGrouping``.

Storm has no format for either: a scheduler (``IScheduler``) and a grouping are Java classes that one writes. These are
the files that such classes read here; docs/engines/storm.md has both classes, a dozen lines each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema

from keyshift.engines.formats import entries_of, write_assignments
from keyshift.models.base.disk import shown
from keyshift.models.base.schema import Amount, FileFormat, FileModel, Whole, validated
from keyshift.models.errors import InputError
from keyshift.models.routing import RoutingTable
from keyshift.models.workload import Workload
from keyshift.plans.plan import Plan

Name = Annotated[str, Field(min_length=1, max_length=500)]
_SLOT = r"^[^:\s]{1,200}:[0-9]{1,5}$"


def _slot(text: str) -> str:
    if not re.match(_SLOT, text):
        raise ValueError("must be a node's name, a colon and a port")
    return text


Slot = Annotated[str, AfterValidator(_slot), WithJsonSchema({"type": "string", "pattern": _SLOT})]
"""A worker: the supervisor's node id, a colon, the port."""


class TaskPart(FileModel):
    """A task of a component, and the worker that runs it."""

    task: Whole
    component: Name
    slot: Slot
    load: Amount = 1.0
    state: Amount = 0.0


class StormAssignmentFile(FileFormat, kind="keyshift-storm-assignment"):
    """Where the tasks of a topology run."""

    topology: Name
    slots: Annotated[list[Slot], Field(min_length=1)]
    tasks: Annotated[list[TaskPart], Field(min_length=1)]


class StormGroupingFile(FileFormat, kind="keyshift-storm-grouping"):
    """Which task a key's tuples go to; keys that are not listed go where the hash says."""

    tasks: Annotated[int, Field(ge=1, le=10**6)]
    entries: dict[str, Whole]


def read_workload(file: str | Path) -> Workload:
    """Read a workload from an assignment: a key group for each task (``component:task``), a node for each slot.

    Rules can name the column `component` of key groups, and the `supervisor` of nodes.

    Raises
    ------
    InputError
        Names the field and the value that are wrong.
    """
    found = StormAssignmentFile.read(file)
    position = {slot: i for i, slot in enumerate(found.slots)}
    if len(position) < len(found.slots):
        raise InputError(f"{file}: a slot is listed twice")
    for i, part in enumerate(found.tasks):
        if part.slot not in position:
            raise InputError(f"{file}: tasks[{i}].slot = {shown(part.slot)} is not one of the slots")
    components = sorted({part.component for part in found.tasks})
    return Workload(
        load=[part.load for part in found.tasks],
        state=[part.state for part in found.tasks],
        current=[position[part.slot] for part in found.tasks],
        nodes=len(found.slots),
        operator=[components.index(part.component) for part in found.tasks],
        keys=[f"{part.component}:{part.task}" for part in found.tasks],
        node_names=found.slots,
        groups={"component": [part.component for part in found.tasks]},
        domains={"supervisor": [slot.rpartition(":")[0] for slot in found.slots]},
    )


def write_assignment(plan: Plan, folder: str | Path, topology: str) -> list[Path]:
    """Write where the tasks run before a plan and after each phase: whole assignments, since a scheduler needs one.

    ``before-assignment.json`` is the assignment before the plan, ``NN-assignment.json`` the one after its phase NN.
    """
    made = plan.made_for
    if made.keys is None or made.node_names is None or plan.capacity.size > len(made.node_names):
        raise InputError("Storm needs the names of tasks (component:task) and slots (node:port)")
    return write_assignments(folder, plan, lambda nodes: _assignment(plan, nodes, topology))


def _assignment(plan: Plan, nodes: np.ndarray, topology: str) -> dict[str, Any]:
    made, tasks = plan.made_for, []
    for k, i in enumerate(nodes.tolist()):
        component, colon, task = str(made.key(k)).rpartition(":")
        if not colon or not component or not re.fullmatch("0|[1-9][0-9]{0,8}", task):
            raise InputError(f"the key {shown(made.key(k))} is not a task, such as counter:4")
        slot = made.node(i)
        tasks.append({"task": int(task), "component": component, "slot": slot,
                      "load": float(made.load[k]), "state": float(made.state[k])})  # fmt: skip
    slots = list(made.node_names or ())
    content = {**StormAssignmentFile.stamp(), "topology": topology, "slots": slots, "tasks": tasks}
    validated(StormAssignmentFile, content, "the plan's assignment")
    return content


def write_grouping(
    table: RoutingTable, path: str | Path, tasks: int, labels: Sequence[str | int] | None = None
) -> None:
    """Write a routing table for a ``CustomStreamGrouping``: the position of the target task for each listed key.

    Parameters
    ----------
    table : RoutingTable
    path : str or Path
    tasks : int
        Number of target tasks, the nodes of the table.
    labels : sequence, optional
        The key at each position of the table; default: the positions.
    """
    if table.size and int(table.nodes.max()) >= tasks:
        raise InputError(f"the table names task {int(table.nodes.max())}: there are {tasks}")
    entries = {str(key): node for key, node in entries_of(table, labels)}
    if len(entries) < table.size:
        raise InputError("two keys of the table have the same text")
    StormGroupingFile.write(path, {"tasks": tasks, "entries": entries}, separators=(",", ":"))


def read_grouping(path: str | Path) -> tuple[int, dict[str, int]]:
    """The number of tasks, and the task of each listed key."""
    found = StormGroupingFile.read(path)
    for key, node in found.entries.items():
        if node >= found.tasks:
            raise InputError(f"{path}: entries[{shown(key)}] = {node}: there are {found.tasks} tasks")
    return found.tasks, dict(found.entries)
