"""Kafka: from what its tools print to a workload, and from a plan to the files that ``kafka-reassign-partitions`` reads.

**Leaders only**, unless each replica is a key group (`keyshift.engines.kafka_files`). A partition's key group runs where its
*leader* is; followers come along. A leader moves in one of three ways, none of which loses or doubles a replica:

1. the target holds a replica: both change places in the list. No data travel, only leadership;
2. with racks known, a follower shares the target's rack: the target takes the follower's place, the old leader stays
   as a follower. The racks of the partition stay the same;
3. else the target takes the old leader's place.

So disks and the traffic between brokers are not balanced, and a draining broker keeps its followers; the output counts them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keyshift.engines.formats import as_json, write_folder
from keyshift.engines.kafka_files import (
    ALL_REPLICAS,
    LogDirs,
    Partition,
    Replicas,
    Shares,
    election,
    labels,
    lists_by_phase,
    members_of,
    read_assignment,
    read_loads,
    read_log_dirs,
    read_offsets,
    reassignment,
    replica_rules,
    traffic,
)
from keyshift.models.errors import InputError
from keyshift.models.names import Names
from keyshift.models.plans.plan import Plan
from keyshift.models.workload import FloatArray, Workload

__all__ = [
    "ALL_REPLICAS", "LEADERS_ONLY", "Reassignment", "made_of", "moved_leader", "read_workload", "replica_rules",
    "write_reassignment",
]  # fmt: skip

LEADERS_ONLY = "Leaders only: followers stay where they are, or make room for a leader; disks are not balanced."
"""Outputs about partitions as a whole begin with this."""

_LABEL = re.compile(r"(?P<partition>[^ ]+) \[(?P<replicas>[0-9]+(,[0-9]+)*)\]")


class Reassignment(NamedTuple):
    """The files of a reassignment.

    Attributes
    ----------
    files : list of Path
        ``STEPS.md``, and for each phase ``NN-reassign.json``, ``NN-elect.json`` and ``NN-rollback.json``.
    elections, copies : int
        Partitions that get another leader without a copy, and replicas that are copied.
    state_copied : float
        State of the latter, in the workload's unit (bytes).
    followers_left : dict of int to int
        Draining brokers, and how many replicas they keep as followers; 0 if each replica is planned.
    note : str
        What was planned: leaders only, or each replica.
    """

    files: list[Path]
    elections: int
    copies: int
    state_copied: float
    followers_left: dict[int, int]
    note: str = LEADERS_ONLY


# From a cluster to a workload -------------------------------------------------------------------------------------


def read_workload(
    log_dirs: str | Path,
    loads: str | Path | None = None,
    *,
    assignment: str | Path | None = None,
    draining: Sequence[int] = (),
    capacities: Mapping[int, float] | None = None,
    replicas: bool = False,
    racks: Mapping[int, str] | None = None,
    offsets: tuple[str | Path, str | Path] | None = None,
    seconds: float = 0.0,
) -> Workload:
    """Read a workload from the output of Kafka's tools: a key group for each partition, a node for each broker.

    Parameters
    ----------
    log_dirs : str or Path
        What ``kafka-log-dirs --describe`` printed, for all brokers: brokers, and the bytes of each replica. The
        leader's are the partition's state.
    loads : str or Path, optional
        CSV ``topic,partition,value``, for every partition of the topics to plan; other topics stay where they are.
        Without it the bytes are the load.
    assignment : str or Path, optional
        The current assignment as ``kafka-reassign-partitions`` prints it: which replica leads. It may be left out only
        where each partition has a single replica.
    replicas : bool, default False
        A key group for each replica, with `groups` topic, partition, role (leader or follower) and replicas (how many the
        partition has); `replica_rules` has the rules that they need. The disk of each is a resource. `loads` may have the
        columns ``topic,partition,in,out`` then, what clients write and read. A follower carries what comes in; the
        leader carries that, what goes out, and what it sends to its followers. A single ``value`` is the leader's load.
    racks : mapping of int to str, optional
        Rack of each broker, with `replicas`.
    offsets : pair of paths, optional
        In place of `loads`: what ``kafka-get-offsets`` printed, before and after so many `seconds`; messages a second are
        the load.
    draining : sequence of int, optional
        Brokers to be removed.
    capacities : mapping of int to float, optional
        Capacity of brokers; 1 for others.

    Returns
    -------
    Workload
        A partition that every broker holds already has no state: its leader moves by an election, which copies nothing.
        `node_names` are broker ids; `keys` are partitions with their replicas, the leader first: ``orders-3 [2,1,4]``, or
        replicas, ``orders-3/0`` the leader. A plan for this workload contains everything that Kafka's files need.

    Raises
    ------
    InputError
        Names the file and what is wrong in it, or how the files contradict each other.
    """
    if racks and not replicas:
        raise InputError("racks are for replicas=True; where only leaders are planned, the export takes them")
    found = read_log_dirs(log_dirs)
    if offsets is not None and loads is not None:
        raise InputError("loads and offsets both say the load: give one of them")
    values = None if loads is None else read_loads(loads, both=replicas)
    values = values if offsets is None else read_offsets(*offsets, seconds)
    current = _sole_replicas(found) if assignment is None else read_assignment(assignment)
    topics = {p.topic for p in (current if values is None else values)}
    partitions = sorted(p for p in current if p.topic in topics)
    if values is not None:
        _refuse_other_partitions(partitions, values)
    for p in partitions:
        _refuse_contradiction(p, current[p], found)
    chosen = {p: current[p] for p in partitions}
    use: dict[str, list[float]] = {}
    domains: dict[str, Mapping[int, str]] | None = None
    if not replicas:
        size = [float(found.sizes[p][r[0]]) for p, r in chosen.items()]
        state = [0.0 if set(r) >= set(found.brokers) else s for s, r in zip(size, chosen.values(), strict=True)]
        load = size if values is None else [values[p][0] for p in partitions]
    else:
        domains = {"rack": racks} if racks else {}
        load = state = [float(found.sizes[p][b]) for p, r in chosen.items() for b in r]
        use["disk"] = state
        given = [] if values is None else list(zip(*(values[p] for p in partitions), strict=True))
        if len(given) == 1:
            load = Shares(given[0], [0.0] * len(chosen)).of(chosen)
        elif given:
            use |= {name: share.of(chosen) for name, share in traffic(chosen, *given).items()}
            load = [i + o for i, o in zip(use["network_in"], use["network_out"], strict=True)]
    return made_of(
        chosen,
        found.brokers,
        load=load,
        state=state,
        draining=draining,
        capacities=capacities,
        resources=use,
        domains=domains,
    )


def made_of(
    replicas: Replicas,
    brokers: Sequence[int],
    *,
    load: Sequence[float],
    state: Sequence[float],
    draining: Sequence[int] = (),
    capacities: Mapping[int, float] | None = None,
    resources: Mapping[str, Sequence[float]] | None = None,
    domains: Mapping[str, Mapping[int, str]] | None = None,
) -> Workload:
    """A workload of partitions in a given order, or with `domains` of their replicas, labelled for a plan that Kafka can read."""
    called = Names("broker", brokers, len(brokers))
    if not replicas:
        raise InputError("there is no partition to plan")
    for name, labelled in (domains or {}).items():
        if missing := [
            b for b, label in zip(brokers, called.values(f"{name}s", labelled, None), strict=True) if label is None
        ]:
            raise InputError(f"{name}s: broker {missing[0]} is missing")
    keys, groups = labels(replicas) if domains is not None else ([_key(p, r) for p, r in replicas.items()], None)
    return Workload(
        load=load,
        state=state,
        current=[called.position("replicas", b) for r in replicas.values() for b in (r[:1] if domains is None else r)],
        nodes=called.values("capacities", capacities or {}, 1.0),
        draining=called.values("draining", dict.fromkeys(draining, True), False),
        resources=resources,
        keys=keys,
        node_names=list(brokers),
        groups=groups,
        domains={name: called.values(name, labelled, None).tolist() for name, labelled in (domains or {}).items()},
    )


def _key(p: Partition, replicas: tuple[int, ...]) -> str:
    return f"{p} [{','.join(map(str, replicas))}]"


def _sole_replicas(found: LogDirs) -> dict[Partition, tuple[int, ...]]:
    """Where each partition is, if it is in one place: log directories do not say who leads."""
    for p, held in sorted(found.sizes.items()):
        if len(held) > 1:
            raise InputError(
                f"{p} is on brokers {', '.join(map(str, sorted(held)))}, and log directories do not say which one "
                "leads: give the current assignment that kafka-reassign-partitions prints"
            )
    return {p: tuple(held) for p, held in found.sizes.items()}


def _refuse_other_partitions(partitions: Sequence[Partition], values: Mapping[Partition, tuple[float, ...]]) -> None:
    known = set(partitions)
    for p in values:
        if p not in known:
            raise InputError(f"the loads name {p}, which the cluster does not have")
    missing = [p for p in partitions if p not in values]
    if missing:
        raise InputError(f"the loads lack {missing[0]}{f' and {len(missing) - 1} more' if len(missing) > 1 else ''}")


def _refuse_contradiction(p: Partition, replicas: tuple[int, ...], found: LogDirs) -> None:
    held = found.sizes.get(p, {})
    if set(held) != set(replicas):
        raise InputError(
            f"{p} is assigned to brokers {_listed(replicas)}, but its logs are on {_listed(sorted(held)) or 'none'}: a "
            "reassignment is under way, or the files are of different times"
        )


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


# From a plan to files ---------------------------------------------------------------------------------------------


def write_reassignment(
    plan: Plan, path: str | Path, *, assignment: str | Path | None = None, racks: Mapping[int, str] | None = None
) -> Reassignment:
    """Write the files that ``kafka-reassign-partitions`` reads: for each phase the move, the elections, and the way back.

    Parameters
    ----------
    plan : Plan
        Of a workload whose nodes are named by broker ids.
    path : str or Path
        A folder that does not exist, or is empty.
    assignment : str or Path, optional
        The current assignment. Needed if the keys do not list replicas; otherwise it is compared with them.
    racks : mapping of int to str, optional
        Rack of each broker: a move then never brings the replicas of a partition onto fewer racks.

    Raises
    ------
    InputError
        If a node is not a broker id or a key not a partition, if the assignment is not the one that the plan was made
        for, or if racks cannot be kept.
    """
    brokers = _brokers(plan)
    keys = [plan.made_for.key(k) for k in range(plan.current.size)]
    given = None if assignment is None else read_assignment(assignment)
    leaving = {brokers[i] for i in np.flatnonzero(plan.leaving).tolist()}
    members = members_of(keys)
    if members:
        if racks is not None:
            raise InputError("the plan is of replicas: their racks are given at the import, and kept by rules")
        before, phases = lists_by_phase(plan, members, brokers)
        for p, listed in before.items():
            _replicas(p, listed, given)
        state = {p: float(plan.made_for.state[held[0]]) for p, held in members.items()}
    else:
        before, phases = _lists_of_leaders(plan, keys, brokers, given, racks, leaving)
        state = dict(zip(before, plan.made_for.state.tolist(), strict=True))
    elections, copied, state_copied = 0, 0, 0.0
    files: dict[str, str] = {}
    steps: list[tuple[str, int, bool]] = []
    now = dict(before)
    for lists in filter(None, phases):
        copies = {p: len(set(r) - set(now[p])) for p, r in lists.items()}
        elected = [p for p, r in lists.items() if r[0] != now[p][0]]
        elections += sum(copies[p] == 0 for p in elected)
        copied += sum(copies.values())
        state_copied += sum(state[p] * count for p, count in copies.items())
        number = f"{len(steps) + 1:02}"
        steps.append((number, len(lists), bool(elected)))
        files[f"{number}-reassign.json"] = as_json(reassignment(lists))
        if elected:
            files[f"{number}-elect.json"] = as_json(election(elected))
        files[f"{number}-rollback.json"] = as_json(reassignment({p: now[p] for p in lists}))
        now |= lists
    left = {b: n for b in sorted(leaving) if (n := sum(b in r[0 if members else 1 :] for r in now.values()))}
    made = Reassignment([], elections, copied, state_copied, left, ALL_REPLICAS if members else LEADERS_ONLY)
    changed = sum(now[p] != before[p] for p in now)
    return made._replace(files=write_folder(path, {"STEPS.md": _steps(made, changed, steps, plan.bandwidth), **files}))


def _lists_of_leaders(
    plan: Plan,
    keys: Sequence[str | int],
    brokers: Sequence[int],
    given: Mapping[Partition, tuple[int, ...]] | None,
    racks: Mapping[int, str] | None,
    leaving: set[int],
) -> tuple[Replicas, list[Replicas]]:
    """The replicas before a plan for leaders, and for each phase those of the partitions that get another leader."""
    partitions = [partition_of(str(key)) for key in keys]
    before = {p: _replicas(p, known, given) for p, known in partitions}
    names = [p for p, _ in partitions]
    for k, p in enumerate(names):
        if before[p][0] != brokers[int(plan.current[k])]:
            raise InputError(f"{p} is led by broker {before[p][0]}, the plan expects {brokers[int(plan.current[k])]}")

    def after(row: int) -> tuple[Partition, tuple[int, ...]]:
        p = names[int(plan.key_group[row])]
        return p, moved_leader(p, before[p], brokers[int(plan.target[row])], racks, leaving)

    return before, [dict(map(after, phase.moves)) for phase in plan.phases]


def moved_leader(
    partition: Partition, replicas: tuple[int, ...], target: int, racks: Mapping[int, str] | None, leaving: set[int]
) -> tuple[int, ...]:
    """Replicas once the target leads: as many as before, each on another broker, on no fewer racks."""
    leader, *followers = replicas
    if target in followers:
        return (target, *(leader if b == target else b for b in followers))
    if racks is None:
        return (target, *followers)
    for broker in (target, *replicas):
        if broker not in racks:
            raise InputError(f"the racks do not name broker {broker}, which {partition} needs")
    shared = next((b for b in followers if racks[b] == racks[target] != racks[leader]), None)
    if shared is None:
        return (target, *followers)
    if leader in leaving:
        raise InputError(
            f"{partition}: broker {target} is on rack {racks[target]} like its follower {shared}, and the old leader "
            f"{leader}, which drains, cannot take the follower's place: move that follower first"
        )
    return (target, *(leader if b == shared else b for b in followers))


def _brokers(plan: Plan) -> list[int]:
    named = [plan.made_for.node(i) for i in range(plan.capacity.size)]
    if plan.made_for.node_names is None or plan.capacity.size > len(plan.made_for.node_names):
        raise InputError("the plan's nodes have no names: Kafka needs the broker id of each")
    for name in named:
        if not isinstance(name, int) or name < 0:
            raise InputError(f"node {name!r} is not a broker id")
    return [int(name) for name in named]


def partition_of(label: str) -> tuple[Partition, tuple[int, ...] | None]:
    """The partition and replicas that a key names: ``orders-3 [2,1,4]``, or ``orders-3`` alone."""
    found = _LABEL.fullmatch(label)
    if found is None:
        return Partition.of(label, "a key of the plan"), None
    replicas = tuple(int(b) for b in found["replicas"].split(","))
    if len(set(replicas)) < len(replicas):
        raise InputError(f"the key {label!r} names a broker twice")
    return Partition.of(found["partition"], "a key of the plan"), replicas


def _replicas(
    p: Partition, known: tuple[int, ...] | None, given: Mapping[Partition, tuple[int, ...]] | None
) -> tuple[int, ...]:
    if given is None:
        if known is None:
            raise InputError(f"the key {p} does not list its replicas: give the current assignment")
        return known
    if p not in given:
        raise InputError(f"the assignment does not list {p}, which the plan needs")
    if known is not None and known != given[p]:
        raise InputError(f"{p} is on {_listed(given[p])} now, the plan was made for {_listed(known)}: import again")
    return given[p]


def _steps(
    made: Reassignment, changed: int, steps: Sequence[tuple[str, int, bool]], bandwidth: FloatArray | None
) -> str:
    """The commands to run, in order."""
    each = made.note == ALL_REPLICAS
    lines = ["# Reassignment", "", f"**{made.note}**", ""]
    if each:
        lines.append(
            f"{changed} partitions change: {made.elections} get another leader without a copy, {made.copies} replicas are "
            f"copied ({made.state_copied:,.0f} of state)."
        )
    else:
        lines.append(
            f"{changed} partitions get another leader: {made.elections} by election alone, {made.copies} by a copy "
            f"({made.state_copied:,.0f} of state)."
        )
    role = "" if each else " as a follower"
    lines += [f"Broker {b} drains, but keeps {n} replicas{role}." for b, n in made.followers_left.items()]
    if steps:
        lines += ["", "For each phase, in this order; go on when `--verify` says that all is complete:", ""]
    tool, elect = "kafka-reassign-partitions.sh --bootstrap-server HOST:9092", "kafka-leader-election.sh"
    pace = "" if bandwidth is None else f" \\\n  --throttle {max(1, int(bandwidth.min()))}"
    for n, partitions, elected in steps:
        lines += [
            f"## Phase {n}: {partitions} partitions", "", "```",
            f"{tool} \\\n  --reassignment-json-file {n}-reassign.json --execute{pace}",
            f"{tool} \\\n  --reassignment-json-file {n}-reassign.json --verify",
            *([f"{elect} --bootstrap-server HOST:9092 \\\n  --election-type PREFERRED --path-to-json-file {n}-elect.json"]
              if elected else []),
            "```", "",
            f"Back again (later phases first): the same {'three' if elected else 'two'} with `{n}-rollback.json` for "
            f"`{n}-reassign.json`.", "",
        ]  # fmt: skip
    if steps:
        lines.append("`--cancel` in the place of `--execute` stops a phase half-way and brings its partitions back.")
        lines += [
            "If a broker was down meanwhile: the same `--execute` again where `--verify` says *failed*, and an",
            "election of all preferred leaders (`--all-topic-partitions`), since it has lost what it led.",
        ]
        lines += ["`--verify` takes the throttle away, once all is complete."] if pace else []
    return "\n".join(lines).rstrip() + "\n"
