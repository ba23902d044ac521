"""Kafka Streams: a plan as JSON for a ``TaskAssignor`` (KIP-924), and back to a workload.

A `TaskAssignor` returns, for each process (a UUID), its active tasks (``subtopology_partition``, such as ``0_3``). Kafka
Streams has no file for that: an assignor of one's own reads this one; docs/engines/index.md has the class.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from keyshift.engines.formats import write_assignments
from keyshift.models.base.disk import shown
from keyshift.models.base.schema import Amount, FileFormat, FileModel
from keyshift.models.errors import InputError
from keyshift.models.workload import Workload
from keyshift.plans.plan import Plan

TASK = re.compile(r"[0-9]{1,9}_[0-9]{1,9}")
PROCESS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Process = Annotated[str, Field(pattern=rf"^{PROCESS.pattern}$")]


class StreamsTask(FileModel):
    """An active task."""

    id: Annotated[str, Field(pattern=rf"^{TASK.pattern}$")]
    load: Amount = 1.0
    state: Amount = 0.0


class StreamsProcess(FileModel):
    """A process, and its active tasks."""

    processId: Process
    active: list[StreamsTask]
    host: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class StreamsFile(FileFormat, kind="keyshift-streams-assignment"):
    """Which process runs which active tasks."""

    processes: Annotated[list[StreamsProcess], Field(min_length=1)]


def read_workload(file: str | Path) -> Workload:
    """Read a workload from an assignment: a key group for each active task, a node for each process.

    Rules can name the column `subtopology` of key groups and, where the file has them, the `host` of nodes.

    Raises
    ------
    InputError
        With the field and the value that are wrong; for a task that two processes run, and a process that is listed twice.
    """
    found = StreamsFile.read(file)
    names = [p.processId for p in found.processes]
    if len(set(names)) < len(names):
        raise InputError(f"{file}: a process is listed twice")
    hosts = [p.processId for p in found.processes if p.host is not None]
    if hosts and len(hosts) < len(names):
        raise InputError(f"{file}: some processes have a host, and {next(n for n in names if n not in hosts)} has none")
    tasks: dict[str, tuple[int, StreamsTask]] = {}
    for i, process in enumerate(found.processes):
        for task in process.active:
            if task.id in tasks:
                said = f"{file}: processes[{i}] runs task {task.id}, which processes[{tasks[task.id][0]}] runs"
                raise InputError(said)
            tasks[task.id] = (i, task)
    if not tasks:
        raise InputError(f"{file} lists no task")
    ordered = [tasks[t] for t in sorted(tasks, key=lambda t: tuple(map(int, t.split("_"))))]
    return Workload(
        load=[t.load for _, t in ordered],
        state=[t.state for _, t in ordered],
        current=[i for i, _ in ordered],
        nodes=len(names),
        operator=[int(t.id.split("_")[0]) for _, t in ordered],
        keys=[t.id for _, t in ordered],
        node_names=names,
        groups={"subtopology": [t.id.split("_")[0] for _, t in ordered]},
        domains={"host": [p.host for p in found.processes if p.host is not None]} if hosts else None,
    )


def write_assignment(plan: Plan, folder: str | Path) -> list[Path]:
    """Write which process runs which tasks before a plan (``before-assignment.json``) and after each phase."""
    made = plan.made_for
    if made.keys is None or made.node_names is None or plan.capacity.size > len(made.node_names):
        raise InputError("Kafka Streams needs the names of tasks (0_3) and processes (a UUID each)")
    for key in made.keys:
        if not TASK.fullmatch(str(key)):
            raise InputError(f"the key {shown(key)} is not a task, such as 0_3")
    for name in made.node_names:
        if not PROCESS.fullmatch(str(name)):
            said = f"the node {shown(name)} is not a process id, such as 00000000-0000-0000-0000-000000000001"
            raise InputError(said)
    return write_assignments(folder, plan, lambda nodes: _assignment(plan, nodes))


def _assignment(plan: Plan, nodes: np.ndarray) -> dict[str, Any]:
    made = plan.made_for
    processes = []
    for i in range(plan.capacity.size):
        active = [
            {"id": made.key(k), "load": float(made.load[k]), "state": float(made.state[k])}
            for k in np.flatnonzero(nodes == i).tolist()
        ]
        processes.append({"processId": made.node(i), "active": active})
    return {**StreamsFile.stamp(), "processes": processes}
