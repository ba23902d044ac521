"""Storm: which task the tuples of a key go to, for the classes of engines/storm, and which worker runs a task.

Storm has no format for either: a grouping and a scheduler are Java classes. These are the files that ours read and write,
and those that a scheduler of one's own can read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema

from keyshift.engines.formats import as_json, entries_of, some, write_assignments, write_folder
from keyshift.models.base.disk import shown
from keyshift.models.base.schema import Amount, FileFormat, FileModel, Positive, Whole, validated
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


Tasks = Annotated[list[Whole], Field(min_length=1, max_length=10**6)]


class StormTable(FileModel):
    """The task of each key group, and the tasks of each listed key."""

    groups: Tasks
    entries: dict[str, Tasks] = Field(default_factory=dict)


class StormGroupingFile(FileFormat, kind="keyshift-storm-grouping", newest=2):
    """Which task a key's tuples go to: tables from number `epoch` on, or one with entries only; other keys are hashed."""

    tasks: Annotated[int, Field(ge=1, le=10**6)]
    entries: dict[str, Whole] = Field(default_factory=dict)
    epoch: Whole = 1
    tables: list[StormTable] = Field(default_factory=list)


class StormCountsFile(FileFormat, kind="keyshift-storm-counts"):
    """The tuples and bytes of state of each key that a task has served, and the table in force."""

    component: Name
    task: Whole
    tasks: Annotated[int, Field(ge=1, le=10**6)]
    epoch: Whole
    seconds: Positive
    groups: Tasks
    entries: dict[str, Tasks]
    keys: dict[str, Annotated[list[Amount], Field(min_length=2, max_length=2)]]


class StormTopology(NamedTuple):
    """What all tasks of a component counted, and the table in force."""

    epoch: int
    tasks: int
    table: StormTable
    loads: dict[str, float]
    states: dict[str, float]

    def groups(self, keys: Sequence[str]) -> np.ndarray:
        """The key group of each key, which is hashed as fields grouping hashes a string."""
        from keyshift.models.base.arrow import pa
        from keyshift.spark_stats.hashing import storm_task

        return storm_task(pa.array(list(keys), pa.string()), len(self.table.groups))

    def shared(self) -> list[str]:
        """Keys that several tasks serve."""
        return [key for key, tasks in self.table.entries.items() if len(tasks) > 1]


def read_topology(folder: str | Path) -> StormTopology:
    """Read what the tasks of a component have counted: the ``*.json`` that a `PlanBolt` writes.

    Raises
    ------
    InputError
        If a task is missing, or if the tasks are not all on the same table.
    """
    files = sorted(Path(folder).glob("*.json"))
    found = [StormCountsFile.read(file) for file in files]
    if not found:
        raise InputError(f"{folder} has no counts of a topology: files that end in .json")
    first = found[0]
    missing = sorted(set(range(first.tasks)) - {one.task for one in found})
    if missing or len(found) > first.tasks:
        what = f"task {some(missing)} is missing" if missing else f"{len(found)} files for {first.tasks} tasks"
        raise InputError(f"{folder}: {what}")
    for file, one in zip(files, found, strict=True):
        for name in ("component", "tasks", "epoch", "groups", "entries"):
            if getattr(one, name) != getattr(first, name):
                raise InputError(f"{file}: {name} differs from {files[0].name}: wait until a plan under way has ended")
    loads: dict[str, float] = {}
    states: dict[str, float] = {}
    for one in found:
        for key, (tuples, size) in one.keys.items():
            loads[key] = loads.get(key, 0.0) + tuples / one.seconds
            states[key] = states.get(key, 0.0) + size
    table = StormTable(groups=first.groups, entries=first.entries)
    _expect_tasks(table, first.tasks, str(files[0]))
    return StormTopology(first.epoch, first.tasks, table, loads, states)


def _expect_tasks(table: StormTable, tasks: int, of: str) -> None:
    largest = max(max(table.groups), *(max(some) for some in table.entries.values()), 0)
    if largest >= tasks:
        raise InputError(f"{of} names task {largest}: there are {tasks}")


def workload_of(topology: StormTopology, keys: bool = False) -> Workload:
    """A workload of a component's key groups (``group-17``) and listed keys (``key-apple``); a node for each task (``task-3``).

    With `keys`, every key is a key group, and its home the task of its hash, as `MixedRouting` needs it. Keys that several
    tasks serve are left out.
    """
    table, shared = topology.table, set(topology.shared())
    names = [key for key in topology.loads if key not in shared]
    groups = topology.groups(names)
    home = np.array(table.groups)[groups]
    load, state = (np.array([of[key] for key in names], dtype=float) for of in (topology.loads, topology.states))
    current = [table.entries[key][0] if key in table.entries else int(i) for key, i in zip(names, home, strict=True)]
    labels = [f"key-{key}" for key in names]
    more: dict[str, Any] = {"home": home} if keys else {}
    if not keys:
        alone = np.array([key in table.entries for key in names], dtype=bool)
        count = len(table.groups)
        load, state = (
            np.concatenate([np.bincount(groups[~alone], of[~alone], count), of[alone]]) for of in (load, state)
        )
        current = [*table.groups, *np.array(current, dtype=int)[alone].tolist()]
        labels = [*(f"group-{g}" for g in range(count)), *np.array(labels, dtype=object)[alone].tolist()]
    nodes = [f"task-{i}" for i in range(topology.tasks)]
    return Workload(
        load=load, state=state, current=current, nodes=topology.tasks, keys=labels, node_names=nodes, **more
    )


def write_plan(plan: Plan, folder: str | Path, topology: StormTopology) -> list[Path]:
    """Write a plan for engines/storm: ``plan.json`` with the table now and after each phase, ``undo.json`` the same way back.

    Raises
    ------
    InputError
        If the plan is not one of `workload_of`, or the topology has another table by now.
    """
    tables = [_after(plan, nodes, topology.table, topology) for nodes in (plan.current, *plan.assignments())]
    if tables[0] != topology.table:
        raise InputError("the topology has another table than the plan begins with: import and plan again")
    there = _tables(topology.tasks, topology.epoch, tables)
    back = _tables(topology.tasks, topology.epoch + len(tables) - 1, tables[::-1])
    return write_folder(folder, {"plan.json": as_json(there), "undo.json": as_json(back)})


def _after(plan: Plan, nodes: np.ndarray, table: StormTable, topology: StormTopology) -> StormTable:
    """The table where key groups and keys are on these nodes; a key that is where its key group is needs no entry."""
    groups, placed = list(table.groups), {}
    for k, i in enumerate(nodes.tolist()):
        kind, _, name = str(plan.made_for.key(k)).partition("-")
        task = str(plan.made_for.node(i)).removeprefix("task-")
        if kind == "group" and name.isdecimal() and int(name) < len(groups) and task.isdecimal():
            groups[int(name)] = int(task)
        elif kind == "key" and task.isdecimal():
            placed[name] = int(task)
        else:
            raise InputError(f"{shown(plan.made_for.key(k))} is no key group of a topology, such as group-17")
    home = dict(zip(placed, topology.groups(list(placed)).tolist(), strict=True))
    listed = {key: [task] for key, task in placed.items() if task != groups[home[key]]}
    return StormTable(groups=groups, entries={key: table.entries[key] for key in topology.shared()} | listed)


def write_tables(
    path: str | Path, tasks: int, epoch: int, tables: Sequence[tuple[Sequence[int], dict[str, list[int]]]]
) -> None:
    """Write tables made without a plan: the task of each key group and of each listed key; the first is number `epoch`."""
    listed = [StormTable(groups=list(groups), entries=entries) for groups, entries in tables]
    StormGroupingFile.write(path, _tables(tasks, epoch, listed), separators=(",", ":"))


def _tables(tasks: int, epoch: int, tables: list[StormTable]) -> dict[str, Any]:
    for table in tables:
        _expect_tasks(table, tasks, "the table")
    listed = [table.model_dump() for table in tables]
    return {**StormGroupingFile.stamp(), "tasks": tasks, "epoch": epoch, "tables": listed}


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
    """The number of tasks, and the task of each listed key: of a plan's last table, its keys with one task."""
    found = StormGroupingFile.read(path)
    for key, node in found.entries.items():
        if node >= found.tasks:
            raise InputError(f"{path}: entries[{shown(key)}] = {node}: there are {found.tasks} tasks")
    last = found.tables[-1].entries if found.tables else {}
    return found.tasks, found.entries | {key: tasks[0] for key, tasks in last.items() if len(tasks) == 1}
