"""Cruise Control: from what its REST API says of a Kafka cluster to a workload, and its own proposals valued beside ours.

As in `keyshift.engines.kafka`, a partition runs where its leader is, and keys list the replicas; or each replica is a key group.
A plan of this workload is written for Kafka by `kafka.write_reassignment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field

from keyshift.engines.formats import Id, OpenModel, read_model, some
from keyshift.engines.kafka import made_of, partition_of
from keyshift.engines.kafka_files import TOPIC, Partition
from keyshift.engines.kafka_replicas import LEADER, Shares, lists_of, members_of
from keyshift.models import CheckReport, Problem
from keyshift.models.base import guards
from keyshift.models.base.disk import shown
from keyshift.models.base.guards import as_number
from keyshift.models.base.schema import Amount
from keyshift.models.errors import InputError
from keyshift.models.rules import Rule, Use
from keyshift.models.workload import IntArray, Workload

MOST = 128 * 2**20
UNITS = {"cpu": "% of a core", "network_in": "KB/s", "network_out": "KB/s", "disk": "MB"}
RESOURCES = {"cpu": "CPU", "network_in": "NW_IN", "network_out": "NW_OUT", "disk": "DISK"}
"""The names of resources here, and Cruise Control's own in capacity.json."""
DRAINS = ("DEAD", "BAD_DISKS", "DEMOTED")
"""Brokers in these states must lead no partition. Which replicas are on the bad disks is not said: all of them leave."""

CPU_WEIGHTS = (0.7, 0.15, 0.15)
"""Of what comes to a leader, goes out of it, and comes to a follower, for CPU: Cruise Control's defaults."""

State = Literal["ALIVE", "DEAD", "NEW", "DEMOTED", "BAD_DISKS"]
Resource = Literal["cpu", "network_in", "network_out", "disk"]


# The formats ------------------------------------------------------------------------------------------------------


class BrokerLoad(OpenModel):
    """A broker in ``/load?json=true``."""

    Broker: Id
    BrokerState: State
    Rack: str | None = None


class LoadFile(OpenModel):
    """``/load?json=true``."""

    brokers: Annotated[list[BrokerLoad], Field(min_length=1)]


class PartitionLoad(OpenModel):
    """A partition in ``/partition_load?json=true``: the use of its leader."""

    topic: Annotated[str, Field(pattern=rf"^{TOPIC.pattern}$")]
    partition: Id
    leader: Id
    followers: list[Id]
    cpu: Amount
    networkInbound: Amount
    networkOutbound: Amount
    disk: Amount


class PartitionLoadFile(OpenModel):
    """``/partition_load?json=true``."""

    records: Annotated[list[PartitionLoad], Field(min_length=1)]


def _number(value: Any) -> Any:
    """capacity.json writes numbers as texts."""
    try:
        return as_number(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _text(value: Any) -> Any:
    """Gson takes a number where a text is meant."""
    return str(value) if type(value) is int else value


Capacity = Annotated[float, BeforeValidator(_number), Field(gt=0, allow_inf_nan=False)]


class CapacityPart(OpenModel):
    """A broker's capacity: MB of disk - of each directory, where there are more -, % or cores of CPU, KB/s of network."""

    DISK: Capacity | dict[str, Capacity]
    CPU: Capacity | dict[str, Capacity]
    NW_IN: Capacity
    NW_OUT: Capacity


class BrokerCapacity(OpenModel):
    """One entry; broker -1 stands for all that are not listed."""

    brokerId: Annotated[str, BeforeValidator(_text), Field(pattern=r"^(-1|[0-9]{1,9})$")]
    capacity: CapacityPart


class CapacityFile(OpenModel):
    """``capacity.json``, ``capacityCores.json`` or ``capacityJBOD.json``."""

    brokerCapacities: Annotated[list[BrokerCapacity], Field(min_length=1)]


class TopicPartition(OpenModel):
    """A partition as Gson writes Kafka's class."""

    topic: str
    partition: Id


class PartitionProposal(OpenModel):
    """One proposal."""

    topicPartition: str | TopicPartition
    oldLeader: Id
    oldReplicas: Annotated[list[Id], Field(min_length=1)]
    newReplicas: Annotated[list[Id], Field(min_length=1)]


class ProposalsFile(OpenModel):
    """``/proposals?json=true&verbose=true``, and what ``/rebalance?dryrun=true`` answers."""

    proposals: list[PartitionProposal]


# Workload ---------------------------------------------------------------------------------------------------------


def read_workload(
    load: str | Path,
    partition_load: str | Path,
    capacity: str | Path | None = None,
    *,
    balance: Resource = "cpu",
    replicas: bool = False,
    racks: bool = True,
    notes: list[str] | None = None,
) -> Workload:
    """Read a workload from Cruise Control's measurements.

    Parameters
    ----------
    load : str or Path
        The answer of ``/load?json=true``: brokers, and which are dead, demoted or have bad disks - these drain.
    partition_load : str or Path
        The answer of ``/partition_load?json=true&entries=...``, of all partitions: CPU (percent of a core), network in and
        out (KB/s) and disk (MB) of each leader, and where the replicas are.
    capacity : str or Path, optional
        ``capacity.json``: brokers' capacities for what is balanced. Default: all equal. `capacity_rules` has the other limits.
    balance : {"cpu", "network_in", "network_out", "disk"}
        The resource that is the load; all four are `resources`. Disk is the state.
    replicas : bool, default False
        A key group for each replica, as in `keyshift.engines.kafka`, with the use that Cruise Control assumes for a
        follower: the leader's disk and network in, nothing out, and a share of its CPU. Racks and states of brokers are
        `domains`. Dead brokers drain; demoted ones may hold followers (`kafka.replica_rules`).
    racks : bool, default True
        Whether replicas are kept on different racks.
    notes : list of str, optional
        Filled with the brokers that are not well.

    Raises
    ------
    InputError
        Names the file and what is wrong in it, or how the files contradict each other.
    """
    guards.one_of("balance", balance, RESOURCES)
    listed = read_model(load, LoadFile, MOST).brokers
    brokers = {b.Broker: b.BrokerState for b in listed}
    records = read_model(partition_load, PartitionLoadFile, MOST).records
    held: dict[Partition, tuple[int, ...]] = {}
    for i, r in enumerate(records):
        place, p = f"{partition_load}: records[{i}]", Partition(r.topic, r.partition)
        if p in held:
            raise InputError(f"{place} is {p}, which is listed before")
        held[p] = (r.leader, *r.followers)
        if len(set(held[p])) < len(held[p]):
            raise InputError(f"{place}: leader and followers {shown(list(held[p]))} name a broker twice")
        for broker in held[p]:
            if broker not in brokers:
                raise InputError(f"{place}: {p} is on broker {broker}, which {load} does not list")
    order = sorted(range(len(records)), key=lambda i: (records[i].topic, records[i].partition))
    used = {
        "cpu": [records[i].cpu for i in order], "network_in": [records[i].networkInbound for i in order],
        "network_out": [records[i].networkOutbound for i in order], "disk": [records[i].disk for i in order],
    }  # fmt: skip
    limits = None if capacity is None else read_capacities(capacity, sorted(brokers))
    there = {p: held[p] for p in sorted(held)}
    domains: dict[str, dict[int, str]] | None = None
    if replicas:
        used = {name: share.of(there) for name, share in _shares(used).items()}
        domains = {"state": dict(brokers)}
        known = {b.Broker: b.Rack for b in listed if b.Rack}
        if racks and known:
            if lacking := sorted(set(brokers) - set(known)):
                raise InputError(
                    f"{load} does not say the rack of broker {lacking[0]}: plan without racks by --no-racks (racks=False)"
                )
            domains["rack"] = known
    told = [] if notes is None else notes
    for state in DRAINS:
        if ill := sorted(b for b, said in brokers.items() if said == state):
            stood = sorted(p for p, brokers_of in held.items() if not set(ill).isdisjoint(brokers_of))
            told.append(f"{state}: broker {some(ill)}; what stands there ({some(stood) or 'nothing'}) leaves first.")
    made = made_of(
        there,
        sorted(brokers),
        each=replicas,
        load=used[balance],
        state=used["disk"],
        draining=[b for b, state in brokers.items() if state in DRAINS[: 2 if replicas else 3]],
        capacities=None if limits is None else limits[balance],
        resources=used,
        domains=domains,
    )
    return made.replace(units={"load": UNITS[balance], "state": UNITS["disk"]})


def _shares(used: Mapping[str, list[float]]) -> dict[str, Shares]:
    """Each resource's use by leaders and by followers."""
    come, go, follow = CPU_WEIGHTS
    cpu = [
        c * follow * i / (come * i + go * o) if i > 0 else 0.0
        for c, i, o in zip(used["cpu"], used["network_in"], used["network_out"], strict=True)
    ]
    theirs = {"cpu": cpu, "network_out": [0.0] * len(cpu)}
    return {name: Shares(values, theirs.get(name, values)) for name, values in used.items()}


def capacity_rules(workload: Workload, file: str | Path, balance: str = "cpu") -> list[Rule]:
    """The limits of ``capacity.json`` as rules, except for the balanced resource, whose capacities are those of the nodes."""
    brokers = [int(workload.node(i)) for i in range(workload.nodes)]
    limits = read_capacities(file, brokers)
    return [
        Use(name, {str(b): most for b, most in limits[name].items()})
        for name in RESOURCES
        if name != balance and workload.resources[name].any()
    ]


def read_capacities(file: str | Path, brokers: list[int]) -> dict[str, dict[int, float]]:
    """Capacity of each broker for each resource: MB of disk, percent or cores of CPU, KB/s of network.

    `KeyGroupAllocation(..., resource_capacity=...)` takes them as limits.
    """
    listed: dict[int, CapacityPart] = {}
    for i, entry in enumerate(read_model(file, CapacityFile, MOST, gson=True).brokerCapacities):
        broker = int(entry.brokerId)
        if broker in listed:
            raise InputError(f"{file}: brokerCapacities[{i}] is of broker {broker}, which is listed before")
        cpu = entry.capacity.CPU
        if isinstance(cpu, dict) and set(cpu) != {"num.cores"}:
            raise InputError(f"{file}: brokerCapacities[{i}].capacity.CPU = {shown(cpu)} must be percent, or num.cores")
        listed[broker] = entry.capacity
    found: dict[str, dict[int, float]] = {name: {} for name in RESOURCES}
    kinds = {isinstance(c.CPU, dict) for c in listed.values()}
    if len(kinds) > 1:
        raise InputError(f"{file}: some brokers' CPU is in cores, others' in percent")
    for broker in brokers:
        own = listed.get(broker, listed.get(-1))
        if own is None:
            raise InputError(f"{file} lists neither broker {broker} nor -1, which stands for all others")
        found["disk"][broker] = sum(own.DISK.values()) if isinstance(own.DISK, dict) else own.DISK
        found["cpu"][broker] = own.CPU["num.cores"] if isinstance(own.CPU, dict) else own.CPU
        found["network_in"][broker], found["network_out"][broker] = own.NW_IN, own.NW_OUT
    return found


# Proposals --------------------------------------------------------------------------------------------------------


class Valued(NamedTuple):
    """Cruise Control's proposals, checked against a problem.

    Attributes
    ----------
    assignment : ndarray of int
        Where the proposals lead: the broker of each leader, or of each replica.
    report : CheckReport
        Whether the problem allows it, and its objective.
    leaders, replicas : int
        Leaders that change broker; replicas that move in all.
    """

    assignment: IntArray
    report: CheckReport
    leaders: int
    replicas: int


def read_proposals(file: str | Path) -> dict[Partition, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Old and new replicas of each partition that Cruise Control wants to change, the leader first.

    Raises
    ------
    InputError
        For anything but an answer of ``/proposals?json=true``.
    """
    made: dict[Partition, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for i, proposal in enumerate(read_model(file, ProposalsFile, MOST).proposals):
        place, tp = f"{file}: proposals[{i}]", proposal.topicPartition
        text = tp if isinstance(tp, str) else f"{tp.topic}-{tp.partition}"
        p = Partition.of(text, f"{place}.topicPartition")
        if p in made:
            raise InputError(f"{place} is {p}, which is listed before")
        for name, listed in (("oldReplicas", proposal.oldReplicas), ("newReplicas", proposal.newReplicas)):
            if len(set(listed)) < len(listed):
                raise InputError(f"{place}.{name} = {shown(listed)} names a broker twice")
        if proposal.oldLeader not in proposal.oldReplicas:
            raise InputError(f"{place}.oldLeader = {proposal.oldLeader} is not one of the old replicas")
        others = tuple(b for b in proposal.oldReplicas if b != proposal.oldLeader)
        made[p] = ((proposal.oldLeader, *others), tuple(proposal.newReplicas))
    return made


def value(problem: Problem, proposals: Mapping[Partition, tuple[tuple[int, ...], tuple[int, ...]]]) -> Valued:
    """Check Cruise Control's proposals against a problem, and compute their objective, to compare with `Solution.objective`.

    Parameters
    ----------
    problem : Problem
        On a workload of `read_workload`.
    proposals : mapping
        As `read_proposals` returns them.

    Raises
    ------
    InputError
        If they are of another cluster, or the cluster has changed since.
    """
    workload = getattr(problem, "workload", None)
    if not isinstance(workload, Workload) or workload.keys is None or workload.node_names is None:
        raise InputError("proposals are held against a workload of partitions on brokers, with their names")
    assignment = assignment_of(workload, proposals)
    moved = sum(len(set(new) - set(old)) for old, new in proposals.values())
    changed = assignment != workload.current
    if "role" in workload.groups:
        changed &= np.array([role == LEADER for role in workload.groups["role"]])
    leaders = int(changed.sum())
    return Valued(assignment, problem.check(assignment), leaders, moved)


def assignment_of(
    workload: Workload, proposals: Mapping[Partition, tuple[tuple[int, ...], tuple[int, ...]]]
) -> IntArray:
    """The node of each key group once the proposals are carried out."""
    assert workload.keys is not None
    assert workload.node_names is not None
    position = {name: i for i, name in enumerate(workload.node_names)}
    if members := members_of(workload.keys):
        return _of_replicas(workload, proposals, members, position)
    rows = {partition_of(str(key))[0]: k for k, key in enumerate(workload.keys)}
    assignment: IntArray = workload.current.copy()
    for p, (old, new) in proposals.items():
        if p not in rows:
            raise InputError(f"the proposals name {p}, which the workload does not have")
        leader = workload.node_names[int(workload.current[rows[p]])]
        if old[0] != leader:
            raise InputError(f"the proposals have {p} led by broker {old[0]}, the workload by {leader}")
        if new[0] not in position:
            raise InputError(f"the proposals let broker {new[0]} lead {p}: the workload has no such broker")
        assignment[rows[p]] = position[new[0]]
    return assignment


def _of_replicas(
    workload: Workload,
    proposals: Mapping[Partition, tuple[tuple[int, ...], tuple[int, ...]]],
    members: Mapping[Partition, list[int]],
    position: Mapping[Any, int],
) -> IntArray:
    """The same where each replica is a key group: followers that stay keep their number."""
    brokers = [int(name) for name in position]
    now, assignment = lists_of(members, workload.current, brokers), workload.current.copy()
    for p, (old, new) in proposals.items():
        if p not in members:
            raise InputError(f"the proposals name {p}, which the workload does not have")
        if old[0] != now[p][0] or set(old) != set(now[p]):
            raise InputError(f"the proposals have {p} on brokers {list(old)}, the workload on {list(now[p])}")
        if unknown := [b for b in new if b not in position]:
            raise InputError(f"the proposals bring {p} to broker {unknown[0]}: the workload has no such broker")
        if len(new) != len(old):
            raise InputError(f"the proposals give {p} {len(new)} replicas, it has {len(old)}")
        come = iter([b for b in new[1:] if b not in now[p][1:]])
        after = [new[0], *(b if b in new[1:] else next(come) for b in now[p][1:])]
        assignment[members[p]] = [position[b] for b in after]
    return assignment
