"""Plans on disk: one JSON file, checked against a schema and against itself before it is believed.

====================  ==============================================================================================
``format``, ``version``
``problem`` ...       what was asked, how it was answered: parameters, method, status, objective, bound
``workload``          what the plan was made for: the fingerprint of all of it, and what moves are held against
``nodes``             capacity of every node, new ones included; which ones leave
``limits``            by resource: the limit of each node on the way, what it holds before, what each move uses
``phases``            start, end, proven least length and the load distance afterwards
``moves``             key_group, source, target, gain, phase, start, end
====================  ==============================================================================================
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from keyshift.models.base.schema import Amount, Count, FileFormat, FileModel, Finite, Labels, Whole, Wholes


class WorkloadRecord(FileModel):
    """The part of its workload that a plan's file holds."""

    fingerprint: str
    rest: str
    load: list[Amount]
    state: list[Amount]
    current: Wholes
    capacity: list[Amount]
    draining: list[bool]
    keys: Labels | None
    node_names: Labels | None
    units: Annotated[
        dict[str, str], Field(description="Units of load and state; from version 3 on", default_factory=dict)
    ]


class NodesRecord(FileModel):
    """Every node, new ones included."""

    capacity: list[Amount]
    leaving: list[bool]


class LimitRecord(FileModel):
    """One resource on the way."""

    limit: list[Amount | None]
    held: list[Amount]
    usage: list[Amount]


class PhaseRecord(FileModel):
    """One phase."""

    start: Amount
    end: Amount
    bound: Amount
    load_distance: Amount


class MoveRecord(FileModel):
    """One move."""

    key_group: Whole
    source: Whole
    target: Whole
    gain: Finite
    phase: Whole
    start: Amount
    end: Amount


class PlanFile(FileFormat, kind="keyshift-plan", newest=3):
    """A plan as its file holds it."""

    problem: str
    parameters: dict[str, Any]
    method: str
    status: str
    objective: Finite | None
    bound: Finite | None
    measure: str
    seconds: Amount
    seconds_bound: Amount
    state_moved: Amount
    peak_load: Amount
    load_distance: Annotated[list[Amount], Field(min_length=2, max_length=2)]
    overload: Amount
    overload_bound: Amount
    parallel: Count
    bandwidth: list[Amount] | None
    notes: list[str]
    broken_rules: Annotated[Amount, Field(description="by how much rules are broken on the way; from version 2 on")] = (
        0.0
    )
    broken_rules_bound: Annotated[Amount, Field(description="what no order of the moves avoids of it")] = 0.0
    workload: WorkloadRecord
    nodes: NodesRecord
    limits: dict[str, LimitRecord]
    phases: list[PhaseRecord]
    moves: list[MoveRecord]
