"""Kafka: from what its tools print to a workload, and from a plan to the files that ``kafka-reassign-partitions`` reads.

**Leaders only**, unless each replica is a key group (`keyshift.engines.kafka_replicas`). A partition's key group runs where its
*leader* is; followers come along. So disks and the traffic between brokers are not balanced, and a draining broker keeps its
followers; the output counts them. `keyshift.engines.kafka_cluster` says what is read of a cluster that is not well, and
`keyshift.engines.kafka_reassignment` how a leader moves.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from keyshift.engines.formats import counted, some
from keyshift.engines.kafka_cluster import LEADERS_ASSUMED, KafkaCluster, PartitionState, listed, read_cluster
from keyshift.engines.kafka_files import (
    Partition,
    Racks,
    RacksOf,
    Replicas,
    read_assignment,
    read_loads,
    read_log_dirs,
    read_offsets,
    read_racks,
)
from keyshift.engines.kafka_reassignment import (
    LEADERS_ONLY,
    Reassignment,
    moved_leader,
    partition_of,
    write_reassignment,
)
from keyshift.engines.kafka_replicas import (
    ALL_REPLICAS,
    WELL,
    Shares,
    labels,
    replica_rules,
    standing,
    standing_rules,
    traffic,
)
from keyshift.models.base.names import Names
from keyshift.models.errors import InputError
from keyshift.models.workload import Workload

__all__ = [
    "ALL_REPLICAS", "LEADERS_ONLY", "Reassignment", "made_of", "moved_leader", "partition_of", "read_assignment",
    "read_log_dirs", "read_workload", "replica_rules", "standing_rules", "write_reassignment",
]  # fmt: skip


def read_workload(
    log_dirs: str | Path,
    loads: str | Path | None = None,
    *,
    assignment: str | Path | None = None,
    describe: str | Path | None = None,
    reassigning: str | Path | None = None,
    settled: bool = False,
    draining: Sequence[int] = (),
    capacities: Mapping[int, float] | None = None,
    replicas: bool = False,
    racks: Racks | None = None,
    offsets: tuple[str | Path, str | Path] | None = None,
    seconds: float = 0.0,
    notes: list[str] | None = None,
) -> Workload:
    """Read a workload from the output of Kafka's tools: a key group for each partition, a node for each broker.

    Parameters
    ----------
    log_dirs : str or Path
        What ``kafka-log-dirs --describe`` printed, for all brokers: brokers, and the bytes of each replica. The
        leader's are the partition's state. A broker that is assigned and did not answer is down: it drains, and what stands on
        it has the bytes of its leader.
    loads : str or Path, optional
        CSV ``topic,partition,value``, for every partition of the topics to plan; other topics stay where they are.
        Without it the bytes are the load.
    assignment, describe : str or Path, optional
        What ``kafka-reassign-partitions`` and ``kafka-topics --describe`` printed: where replicas are. Only the latter says who
        leads; without it the first of each list. Both may be left out only where each partition has a single replica.
    reassigning : str or Path, optional
        What ``kafka-reassign-partitions --list`` printed.
    settled : bool, default False
        Nothing is being reassigned, where no file tells: longer lists and shorter logs raise no question.
    replicas : bool, default False
        A key group for each replica, with `groups` topic, partition, role (leader or follower) and replicas (how many the
        partition has); `replica_rules` has the rules that they need. The disk of each is a resource. `loads` may have the
        columns ``topic,partition,in,out`` then, what clients write and read. A follower carries what comes in; the
        leader carries that, what goes out, and what it sends to its followers. A single ``value`` is the leader's load.
    racks : mapping of int to str, or a file or words ``1:a,2:b``, optional
        Rack of each broker.
    offsets : pair of paths, optional
        In place of `loads`: what ``kafka-get-offsets`` printed, before and after so many `seconds`; messages a second are
        the load.
    draining : sequence of int, optional
        Brokers to be removed. Everything that stands on them is planned, without a load where none is known.
    capacities : mapping of int to float, optional
        Capacity of brokers; 1 for others.
    notes : list of str, optional
        Filled with what is assumed, left out or not well; without a list, warnings say it.

    Returns
    -------
    Workload
        A partition that every broker holds already has no state: its leader moves by an election, which copies nothing.
        `node_names` are broker ids; `keys` are partitions with their replicas in Kafka's order: ``orders-3 [2,1,4]``, or
        replicas, ``orders-3/0`` the first of the list. A plan for this workload contains everything that Kafka's files need.
        Where a replica cannot be read or moves between directories, the column `standing` says so (`standing_rules`).

    Raises
    ------
    InputError
        Names the file and what is wrong in it, or how the files contradict each other; for partitions that are being reassigned.
    """
    if offsets is not None and loads is not None:
        raise InputError("loads and offsets both say the load: give one of them")
    known = None if racks is None else read_racks(racks)
    cluster = read_cluster(log_dirs, assignment=assignment, describe=describe, reassigning=reassigning, settled=settled)
    values, without = None if loads is None else read_loads(loads, both=replicas), tuple[Partition, ...]()
    if offsets is not None:
        values, without = read_offsets(*offsets, seconds)
        without += tuple(p for p in values if p not in cluster.partitions)
        values = {p: value for p, value in values.items() if p in cluster.partitions}
    lists = None if assignment is None else read_assignment(assignment)
    called = Names("broker", cluster.brokers, len(cluster.brokers))
    leaving = [cluster.brokers[called.position("draining", b)] for b in draining]
    chosen, said = _chosen(cluster, values, without, lists, {*leaving, *cluster.down}, offsets is not None)
    cluster.refuse_under_way(chosen)
    made = _made_of(cluster, chosen, values, leaving, capacities, replicas, known)
    told = cluster.notes + said
    if replicas and (most := max(len(s.replicas) for s in chosen.values())) > made.kept.sum():
        told.append(
            f"There are partitions of {most} replicas, and {made.kept.sum()} brokers stay: no plan has a place for all."
        )
    if cluster.down and not replicas:
        told.append(
            "Where only leaders are planned, followers on a broker that is down stay there: plan with --replicas."
        )
    if notes is not None:
        notes.extend(told)
    for note in told if notes is None else ():
        if note != LEADERS_ASSUMED:
            warnings.warn(note, stacklevel=2)
    return made


def _chosen(
    cluster: KafkaCluster,
    values: Mapping[Partition, tuple[float, ...]] | None,
    without: Sequence[Partition],
    lists: Iterable[Partition] | None,
    leaving: set[int],
    by_offsets: bool,
) -> tuple[dict[Partition, PartitionState], list[str]]:
    """The partitions of the topics to plan, and all that stand on a broker that is left or that are offline somewhere.

    Beside them, what is said about the others.
    """
    named = values if values is not None else cluster.partitions if lists is None else lists
    topics, leaves = {p.topic for p in named}, cluster.standing_on(leaving)
    if values is not None:
        if unknown := [p for p in values if p not in cluster.partitions]:
            logs = unknown[0] in cluster.unlisted
            seen = "of which only logs are seen: give its list" if logs else "which the cluster does not have"
            raise InputError(f"the loads name {unknown[0]}, {seen}")
        missing = [p for p in cluster.partitions if p.topic in topics and p not in values and p not in leaves]
        if missing and not by_offsets:
            raise InputError(f"the loads lack {some(missing, 1)}")
        without = sorted({*without, *missing})
    there = {p: s for p, s in cluster.partitions.items() if p in leaves or (p.topic in topics and p not in without)}
    chosen = {p: s for p, s in there.items() if s.leader is not None}
    notes = []
    if idle := [p for p in chosen if values is not None and p not in values]:
        notes.append(f"No load is known for {some(idle)}: planned without one, because of where they stand.")
    if lost := [p for p, s in cluster.partitions.items() if s.leader is None]:
        notes.append(f"Nobody leads {some(lost)}: left out.")
    if apart := [p for p in without if p not in chosen and p not in lost]:
        notes.append(f"There are no two offsets of {some(apart)}: nobody leads it, or it is too new. Left out.")
    others = [
        p for p in [*cluster.partitions, *cluster.unlisted] if p not in chosen and p not in lost and p not in apart
    ]
    if others:
        notes.append(
            f"Left where they are, without being counted: {counted(len(others), 'partition')} of "
            f"{some(sorted({p.topic for p in others}))}."
        )
    for b in sorted(leaving):
        if stays := [p for p, held in cluster.unlisted.items() if b in held]:
            notes.append(
                f"Broker {b} drains, and keeps {some(stays)}, in no list: --describe of all topics plans them, too."
            )
    return chosen, notes


def _made_of(
    cluster: KafkaCluster,
    chosen: Mapping[Partition, PartitionState],
    values: Mapping[Partition, tuple[float, ...]] | None,
    draining: Sequence[int],
    capacities: Mapping[int, float] | None,
    each: bool,
    racks: RacksOf | None,
) -> Workload:
    """The workload of a cluster's partitions, or of each of their replicas."""
    order: dict[Partition, tuple[int, ...]] = {}
    for p, s in chosen.items():
        assert s.leader is not None
        order[p] = (s.leader, *(b for b in s.replicas if b != s.leader))
    stay = {*draining, *cluster.down}
    for p, s in chosen.items():
        if stuck := s.moving & stay:
            said = f"{p} moves between two directories of broker {min(stuck)}, which drains"
            raise InputError(f"{said}: wait until it is done")
    held = {p: order[p] if each else order[p][:1] for p in chosen}
    sizes = [s.size(b) for p, s in chosen.items() for b in held[p]]
    state, load, use = sizes, sizes, dict[str, Sequence[float]]()
    width = 1 if values is None else len(next(iter(values.values()), (0.0,)))
    given = [] if values is None else list(zip(*(values.get(p, (0.0,) * width) for p in chosen), strict=True))
    if not each:
        everywhere = set(cluster.brokers) - set(cluster.down)
        state = [0.0 if set(r) >= everywhere else s for s, r in zip(sizes, order.values(), strict=True)]
        load = list(given[0]) if given else sizes
    else:
        use["disk"] = sizes
        if len(given) == 1:
            load = Shares(given[0], [0.0] * len(order)).of(order)
        elif given:
            use |= {name: share.of(order) for name, share in traffic(order, *given).items()}
            load = [i + o for i, o in zip(use["network_in"], use["network_out"], strict=True)]
    domains: dict[str, Mapping[int, str]] = {}
    if racks is not None:
        domains["rack"] = racks.of_all(cluster.brokers)
    if cluster.down:
        domains["state"] = {b: "DEAD" if b in cluster.down else "ALIVE" for b in cluster.brokers}
    marks = [standing(b, s.offline.difference(cluster.down), s.moving) for p, s in chosen.items() for b in held[p]]
    return made_of(
        order,
        cluster.brokers,
        each=each,
        lists={p: s.replicas for p, s in chosen.items()},
        load=load,
        state=state,
        draining=[*draining, *(b for b in cluster.down if b not in draining)],
        capacities=capacities,
        resources=use,
        domains=domains,
        groups={"standing": marks} if set(marks) - {WELL} else None,
    )


def made_of(
    replicas: Replicas,
    brokers: Sequence[int],
    *,
    each: bool,
    load: Sequence[float],
    state: Sequence[float],
    lists: Replicas | None = None,
    draining: Sequence[int] = (),
    capacities: Mapping[int, float] | None = None,
    resources: Mapping[str, Sequence[float]] | None = None,
    domains: Mapping[str, Mapping[int, str]] | None = None,
    groups: Mapping[str, Sequence[str | int]] | None = None,
) -> Workload:
    """A workload of partitions, or of `each` of their replicas, the leader first, labelled for a plan that Kafka can read.

    `lists` are Kafka's own, where another than the first may lead.
    """
    called = Names("broker", brokers, len(brokers))
    if not replicas:
        raise InputError("there is no partition to plan")
    ordered = replicas if lists is None else lists
    keys, columns = labels(replicas, ordered) if each else ([f"{p} [{listed(ordered[p])}]" for p in replicas], {})
    return Workload(
        load=load,
        state=state,
        current=[called.position("replicas", b) for r in replicas.values() for b in (r if each else r[:1])],
        nodes=called.values("capacities", capacities or {}, 1.0),
        draining=called.values("draining", dict.fromkeys(draining, True), False),
        resources=resources,
        keys=[key.replace(", ", ",") for key in keys],
        node_names=list(brokers),
        groups={**columns, **(groups or {})} or None,
        domains={name: called.values(name, labelled, None).tolist() for name, labelled in (domains or {}).items()},
    )
