"""Kafka: from what its tools print to a workload, and from a plan to the files that ``kafka-reassign-partitions`` reads.

**Leaders only**, unless each replica is a key group (`keyshift.engines.kafka_replicas`). A partition's key group runs where its
*leader* is; followers come along. So disks and the traffic between brokers are not balanced, and a draining broker keeps its
followers; the output counts them. `keyshift.engines.kafka_cluster` says what is read of a cluster that is not well, and
`keyshift.engines.kafka_reassignment` how a leader moves.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keyshift.engines import kafka_files
from keyshift.engines.formats import counted, some
from keyshift.engines.kafka_cluster import LEADERS_ASSUMED, KafkaCluster, PartitionState, listed, read_cluster
from keyshift.engines.kafka_files import Partition, Racks, RacksOf, Replicas, read_assignment, read_log_dirs
from keyshift.engines.kafka_reassignment import (
    DIRECTORIES,
    LEADERS_ONLY,
    Reassignment,
    moved_leader,
    partition_of,
    write_reassignment,
)
from keyshift.engines.kafka_replicas import (
    ALL_REPLICAS,
    ANYWHERE,
    EXCLUDED,
    FOLLOWER,
    LEADER,
    MOVING,
    UNPLACED,
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
    "ALL_REPLICAS", "DIRECTORIES", "LEADERS_ONLY", "Reassignment", "made_of", "moved_leader", "partition_of", "read_assignment",
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
    topics: Sequence[str] = (),
    excluded: Sequence[int] = (),
    replication: Mapping[str, int] | None = None,
    directories: int | None = None,
    copies: bool = True,
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
    topics : sequence of str, optional
        Patterns of the topics to plan, such as ``orders-*``; what fits a pattern such as ``!__*`` is left out.
    excluded : sequence of int, optional
        Brokers that get nothing more (`standing_rules`). The others are balanced among themselves: the capacity of an excluded
        broker is such that its load is their mean.
    replication : mapping of str to int, optional
        Replicas that partitions of topics are to have, by pattern; the last that fits counts. New ones stand on the node
        ``unplaced``, which drains. Those that go are followers: first on brokers that drain or are down, then in the rack with
        most replicas of the partition, then on the broker with most bytes.
    directories : int, optional
        A key group for each replica on this broker, and a node for each of its directories, such as ``4:/var/lib/kafka/b``.
    copies : bool, default True
        Whether a leader may move where a copy has to be made first. Else only among its replicas (in sync, where `describe` says
        so; `standing_rules`), and nothing has a state.
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
    known = None if racks is None else kafka_files.read_racks(racks)
    cluster = read_cluster(log_dirs, assignment=assignment, describe=describe, reassigning=reassigning, settled=settled)
    values, without = None if loads is None else kafka_files.read_loads(loads, both=replicas), tuple[Partition, ...]()
    if offsets is not None:
        values, without = kafka_files.read_offsets(*offsets, seconds)
        without += tuple(p for p in values if p not in cluster.partitions)
        values = {p: value for p, value in values.items() if p in cluster.partitions}
    lists = None if assignment is None else read_assignment(assignment)
    called = Names("broker", cluster.brokers, len(cluster.brokers))
    leaving, closed = (
        [cluster.brokers[called.position(said, b)] for b in given]
        for said, given in (("draining", draining), ("excluded", excluded))
    )
    chosen, said = _chosen(cluster, values, without, lists, {*leaving, *cluster.down}, offsets is not None, topics)
    cluster.refuse_under_way(chosen)
    wish = _Wish(values, leaving, closed, capacities or {}, replicas, known, replication or {}, copies)
    wish.refuse_contradiction(directories is not None)
    if directories is None:
        made = _made_of(cluster, chosen, wish)
        told = cluster.notes + said + _no_places(cluster, made, replicas)
    else:
        made, told = _of_directories(
            cluster, chosen, wish, cluster.brokers[called.position("directories", directories)]
        )
    if notes is not None:
        notes.extend(told)
    of_load = "messages/s" if offsets is not None else "bytes" if loads is None else None
    made = made.replace(units={"state": "bytes", **({"load": of_load} if of_load else {})})
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
    patterns: Sequence[str],
) -> tuple[dict[Partition, PartitionState], list[str]]:
    """The partitions of the topics to plan, and all that stand on a broker that is left or that are offline somewhere.

    Beside them, what is said about the others.
    """
    named = values if values is not None else cluster.partitions if lists is None else lists
    topics, leaves = {p.topic for p in named}, cluster.standing_on(leaving)
    if patterns:
        wanted = kafka_files.chosen_topics(patterns, {p.topic for p in [*cluster.partitions, *cluster.unlisted]})
        topics, leaves = topics & wanted, {p for p in leaves if p.topic in wanted}
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
        notes.append(f"{some(lost)}: no leader, so left out.")
    if apart := [p for p in without if p not in chosen and p not in lost]:
        notes.append(f"{some(apart)}: no two offsets, so left out; there is no leader, or the partition is too new.")
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
        if apart := sorted(cluster.standing_on([b], offline=False) - {*chosen, *lost}):
            notes.append(f"Broker {b} drains, and keeps {some(apart)}, which the topics to plan leave out.")
    return chosen, notes


def _no_places(cluster: KafkaCluster, made: Workload, each: bool) -> list[str]:
    """What is said where a plan cannot empty what it should."""
    kept, found = int(made.kept.sum()), []
    if each and (most := max(map(int, made.groups["replicas"]))) > kept:
        found.append(f"There are partitions of {most} replicas, and {kept} brokers stay: no plan has a place for all.")
    if cluster.down and not each:
        found.append(
            "Where only leaders are planned, followers on a broker that is down stay there: plan with --replicas."
        )
    return found


class _Wish(NamedTuple):
    """What is planned, of the options of `read_workload`."""

    values: Mapping[Partition, tuple[float, ...]] | None
    draining: Sequence[int]
    excluded: Sequence[int]
    capacities: Mapping[int, float]
    each: bool
    racks: RacksOf | None
    replication: Mapping[str, int]
    copies: bool

    def refuse_contradiction(self, directories: bool) -> None:
        """Refuse options that cannot go together."""
        if (self.each or directories) and not self.copies:
            raise InputError("where replicas or directories are planned, copies are made: plan leaders alone")
        if self.replication and not self.each:
            raise InputError("replication changes how many replicas there are: plan each replica (--replicas)")
        if directories and any((self.each, self.racks, self.draining, self.excluded, self.capacities)):
            raise InputError("directories: those of one broker are planned alone, without any option about brokers")

    def loads(self, partitions: Collection[Partition]) -> list[Sequence[float]]:
        """The columns of the loads, a value for each partition; none without loads."""
        width = 1 if self.values is None else len(next(iter(self.values.values()), (0.0,)))
        none = (0.0,) * width
        found = [] if self.values is None else zip(*(self.values.get(p, none) for p in partitions), strict=True)
        return list(found)


def _made_of(cluster: KafkaCluster, chosen: Mapping[Partition, PartitionState], wish: _Wish) -> Workload:
    """The workload of a cluster's partitions, or of each of their replicas."""
    leaving = [*dict.fromkeys((*wish.draining, *cluster.down))]
    wish = wish._replace(excluded=[b for b in wish.excluded if b not in leaving])
    order = _orders(cluster, chosen, wish)
    held = order if wish.each else {p: r[:1] for p, r in order.items()}
    sizes = [chosen[p].size(b) for p, r in held.items() for b in r]
    state, load, use, given = sizes, sizes, dict[str, Sequence[float]](), wish.loads(chosen)
    if not wish.each:
        everywhere = set(cluster.brokers) - set(cluster.down)
        still = [not wish.copies or set(r) >= everywhere for r in order.values()]
        state = [0.0 if stays else size for size, stays in zip(sizes, still, strict=True)]
        load = list(given[0]) if given else sizes
    else:
        use["disk"] = sizes
        if len(given) == 1:
            load = Shares(given[0], [0.0] * len(order)).of(order)
        elif given:
            use |= {name: share.of(order) for name, share in traffic(order, *given).items()}
            load = [i + o for i, o in zip(use["network_in"], use["network_out"], strict=True)]
    used = [b for r in held.values() for b in r]
    unplaced, brokers = UNPLACED in used, [b for b in cluster.brokers if b not in wish.excluded or b in used]
    domains: dict[str, dict[Any, str]] = {} if wish.racks is None else {"rack": wish.racks.of_all(cluster.brokers)}
    if cluster.down or wish.excluded:
        domains["state"] = dict.fromkeys(brokers, "ALIVE") | dict.fromkeys(wish.excluded, EXCLUDED)
        domains["state"] |= dict.fromkeys(cluster.down, "DEAD")
    domains = {name: {b: label for b, label in of.items() if b in brokers} for name, of in domains.items()}
    for of_broker in domains.values() if unplaced else ():
        of_broker[UNPLACED] = UNPLACED
    label = {p: standing(s.offline.difference(cluster.down), s.moving) for p, s in chosen.items()}
    marks = [label[p] for p, r in held.items() for _ in r]
    groups = {"standing": marks} if set(marks) - {WELL} else {}
    if not wish.each and {*(allowed := [_allowed(cluster, chosen[p], r, wish) for p, r in order.items()])} - {ANYWHERE}:
        groups["allowed"] = allowed
    return made_of(
        order,
        [*brokers, *[UNPLACED] * unplaced],
        each=wish.each,
        lists={p: s.replicas for p, s in chosen.items()},
        load=load,
        state=state,
        draining=[*leaving, *[UNPLACED] * unplaced],
        capacities=_capacities(wish, used, load, {*brokers} - {*leaving}),
        resources=use,
        domains=domains,
        groups=groups,
    )


def _capacities(wish: _Wish, used: Sequence[Any], load: Sequence[float], staying: set[int]) -> dict[int, float]:
    """Those that are given, and of each excluded broker that by which its load is the mean of the others."""
    carried = dict.fromkeys(wish.excluded, 0.0)
    for b, value in zip(used, load, strict=True):
        if b in carried:
            carried[b] += value
    mean = (sum(load) - sum(carried.values())) / max(
        sum(wish.capacities.get(b, 1.0) for b in staying - {*carried}), 1.0
    )
    return {b: value / mean for b, value in carried.items() if value > 0 < mean} | {**wish.capacities}


def _orders(
    cluster: KafkaCluster, chosen: Mapping[Partition, PartitionState], wish: _Wish
) -> dict[Partition, tuple[Any, ...]]:
    """The replicas of each partition, its leader first, with those that are to be made and without those that are to go."""
    left = {*wish.draining, *cluster.down}
    most = len({*cluster.brokers} - left)
    held: Counter[int] = Counter()
    for p, s in cluster.partitions.items():
        held.update({b: int(s.size(b)) for b in s.replicas})
        if p in chosen and (stuck := s.moving & left):
            said = f"{p} moves between two directories of broker {min(stuck)}, which drains"
            raise InputError(f"{said}: wait until it is done")
    wanted: dict[str, int] = {}
    for pattern, count in wish.replication.items():
        if not 0 < count <= most:
            raise InputError(f"replication: {pattern:.60} is to have {count} replicas; 1 to {most} are possible")
        wanted |= dict.fromkeys(kafka_files.chosen_topics([pattern], {p.topic for p in chosen}), count)
    made: dict[Partition, tuple[Any, ...]] = {}
    for p, s in chosen.items():
        assert s.leader is not None
        r = [s.leader, *(b for b in s.replicas if b != s.leader)]
        while len(r) > wanted.get(p.topic, len(r)):
            racks = Counter(wish.racks.of.get(b) for b in r) if wish.racks else Counter()
            of = wish.racks.of if wish.racks else {}
            gone = max(r[1:], key=lambda b: (b in left or b in s.offline, racks[of.get(b)], held[b], r.index(b)))
            r.remove(gone)
            held[gone] -= int(s.size(gone))
        made[p] = (*r, *[UNPLACED] * (wanted.get(p.topic, len(r)) - len(r)))
    return made


def _allowed(cluster: KafkaCluster, s: PartitionState, order: tuple[int, ...], wish: _Wish) -> str:
    """The brokers that may lead a partition, where only leaders are planned: who does so, and others.

    Without copies these are its replicas. What a draining broker leads goes to a replica, or where the replicas have no rack
    in common with it: else the export would put it in the place of that replica, and the draining broker would stay.
    """
    found = {*order} - s.offline
    if wish.copies:
        if wish.racks is None or order[0] not in wish.draining:
            return ANYWHERE
        taken = {wish.racks.of[b] for b in order[1:]}
        found |= {b for b in cluster.brokers if wish.racks.of[b] not in taken}
    elif s.in_sync:
        found &= {*s.in_sync}
    return listed(sorted({order[0], *found})).replace(" ", "")


def _of_directories(
    cluster: KafkaCluster, chosen: Mapping[Partition, PartitionState], wish: _Wish, broker: int
) -> tuple[Workload, list[str]]:
    """The workload of one broker's directories, a key group for each replica that stands in one; and what to know of it."""
    logs, names = cluster.logs, [f"{broker}:{folder}" for folder in sorted(cluster.logs.readable.get(broker, []))]
    here = {p: s for p, s in chosen.items() if broker in logs.directories.get(p, {}) and broker in s.replicas}
    if len(names) < 2 or not here:
        raise InputError(
            f"directories: broker {broker} has {len(names)} that can be read, and {len(here)} replicas there"
        )
    keys = [f"{p}/{s.replicas.index(broker)} [{listed(s.replicas).replace(' ', '')}]" for p, s in here.items()]
    sizes, given = [s.size(broker) for s in here.values()], wish.loads(here)
    leads = [s.leader == broker for s in here.values()]
    load = sizes
    if len(given) == 1:
        load = [value * first for value, first in zip(given[0], leads, strict=True)]
    elif given:
        # What comes in is written here; what goes out is read where the leader is.
        load = [i + o * first for i, o, first in zip(*given, leads, strict=True)]
    current = [names.index(f"{broker}:{logs.directories[p][broker]}") for p in here]
    marks = [MOVING if broker in s.moving else WELL for s in here.values()]
    groups = {"topic": [p.topic for p in here], "role": [LEADER if first else FOLLOWER for first in leads]}
    unread = logs.offline.get(broker, [])
    made = Workload(
        load=load, state=sizes, current=current, nodes=len(names), node_names=names, keys=keys, resources={"disk": sizes},
        groups={**groups, **({"standing": marks} if set(marks) - {WELL} else {})},
    )  # fmt: skip
    return made, [f"Broker {broker} cannot read {some(unread)}: the replicas there are not planned."] if unread else []


def made_of(
    replicas: Replicas,
    brokers: Sequence[Any],
    *,
    each: bool,
    load: Sequence[float],
    state: Sequence[float],
    lists: Replicas | None = None,
    draining: Sequence[Any] = (),
    capacities: Mapping[int, float] | None = None,
    resources: Mapping[str, Sequence[float]] | None = None,
    domains: Mapping[str, Mapping[Any, str]] | None = None,
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
