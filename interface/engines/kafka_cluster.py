"""The present state of a Kafka cluster: one record, filled from the output of its tools and checked in one place.

Log directories tell bytes and which brokers answer; ``kafka-reassign-partitions`` tells lists, the preferred leader first;
``kafka-topics --describe`` tells the leader, the replicas in sync and the reassignments under way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from keyshift.engines import kafka_files
from keyshift.engines.formats import some
from keyshift.engines.kafka_files import Described, LogDirs, Partition
from keyshift.models.errors import InputError

LEADERS_ASSUMED = (
    "The first broker of each list is taken for the leader; --describe (of kafka-topics) names the real one."
)


class PartitionState(NamedTuple):
    """A partition.

    Attributes
    ----------
    replicas : tuple of int
        Its brokers, the preferred leader first.
    leader : int or None
        None: it has no leader.
    sizes : mapping
        Bytes of the replicas that a directory shows, by broker.
    in_sync : tuple of int
        None where no file tells.
    offline, moving : frozenset of int
        Brokers that are down, or cannot read the directory of this replica; brokers that move it between two directories.
    """

    replicas: tuple[int, ...]
    leader: int | None
    sizes: Mapping[int, int]
    in_sync: tuple[int, ...]
    offline: frozenset[int]
    moving: frozenset[int]

    def size(self, broker: int) -> float:
        """Bytes of a replica; if its own size cannot be read, the size of its leader or of the largest replica."""
        seen = [self.sizes[b] for b in (broker, self.leader) if b in self.sizes]  # type: ignore[index]  # b is in it
        return float(seen[0] if seen else max(self.sizes.values(), default=0))


class KafkaCluster(NamedTuple):
    """A cluster.

    Attributes
    ----------
    brokers, down : tuple of int
        All of them, and those that did not answer.
    partitions : dict
        Those whose list of brokers is known.
    unlisted : dict of partitions to list of int
        Partitions of which only logs are seen, and where.
    under_way : dict of partitions to str
        Partitions that are certainly, or perhaps, being reassigned, and what tells.
    logs : LogDirs
        The directories, as they were read.
    notes : list of str
        What a reader of a plan has to know.
    observed : tuple of partitions
        Those with observers (Confluent): replicas that no election takes and that Kafka's lists cannot tell from others.
    """

    brokers: tuple[int, ...]
    down: tuple[int, ...]
    partitions: dict[Partition, PartitionState]
    unlisted: dict[Partition, list[int]]
    under_way: dict[Partition, str]
    logs: LogDirs
    notes: list[str]
    observed: tuple[Partition, ...] = ()

    def standing_on(self, brokers: Iterable[int], offline: bool = True) -> set[Partition]:
        """The partitions with a replica on one of these brokers, and those with one that is `offline`."""
        named = set(brokers)
        return {p for p, s in self.partitions.items() if (offline and s.offline) or not named.isdisjoint(s.replicas)}

    def refuse_under_way(self, partitions: Iterable[Partition]) -> None:
        """Refuse a plan of partitions that are on their way already: it would make doubled lists permanent; or have observers."""
        partitions = list(partitions)
        refuse_under_way({p: self.under_way[p] for p in partitions if p in self.under_way})
        refuse_observed([p for p in partitions if p in self.observed])


def refuse_observed(partitions: Sequence[Partition]) -> None:
    """Refuse partitions that have observers, by name."""
    if partitions:
        raise InputError(
            f"{some(partitions)}: a plan would make usual replicas of their observers: leave such topics out, for example by "
            f"--topics '!{partitions[0].topic}'"
        )


def refuse_under_way(found: Mapping[Partition, str]) -> None:
    """Refuse partitions that are being reassigned, by name, with the ways on."""
    if not found:
        return
    sure = {p: said for p, said in found.items() if not said.startswith("perhaps")}
    ways = "wait until `kafka-reassign-partitions --verify` says that all is complete, or end it by `--cancel`; then import again"
    p, said = next(iter((sure or found).items()))
    if sure:
        raise InputError(f"{some(sure)}: a reassignment is under way ({p}: {said}): {ways}")
    raise InputError(
        f"{some(found)}: a reassignment may be under way ({p}: {said.removeprefix('perhaps: ')}): give --describe or "
        f"--reassigning, which tell; {ways}; or say --settled if there is none"
    )


def read_cluster(
    log_dirs: str | Path,
    *,
    assignment: str | Path | None = None,
    describe: str | Path | None = None,
    reassigning: str | Path | None = None,
    settled: bool = False,
) -> KafkaCluster:
    """Read a cluster from what its tools printed.

    Parameters
    ----------
    log_dirs : str or Path
        What ``kafka-log-dirs --describe`` printed, for all brokers.
    assignment, describe : str or Path, optional
        What ``kafka-reassign-partitions`` and ``kafka-topics --describe`` printed. One of them may be left out; both only where
        each partition has a single replica.
    reassigning : str or Path, optional
        What ``kafka-reassign-partitions --list`` printed.
    settled : bool, default False
        Whether nothing is being reassigned, according to the operator; used if no file tells.

    Raises
    ------
    InputError
        Names the file and what is wrong in it, or how the files contradict each other.
    """
    found = kafka_files.read_log_dirs(log_dirs)
    described = {} if describe is None else kafka_files.read_topics(describe)
    lists = {} if assignment is None else kafka_files.read_assignment(assignment)
    moved = {} if reassigning is None else kafka_files.read_under_way(reassigning)
    if assignment is None and describe is None:
        lists = _sole_replicas(found)
    under_way = {**{p: f"--list says {said}" for p, said in moved.items()}, **under_way_by(described)}
    for p, d in described.items():
        if p not in under_way and lists.get(p, d.replicas) != d.replicas:
            said = f"{p} is on {listed(lists[p])} in {assignment}, on {listed(d.replicas)} in {describe}"
            raise InputError(f"{said}: the files are of different times")
    lists = {**lists, **{p: d.replicas for p, d in described.items()}}
    down = sorted({b for r in lists.values() for b in r} - set(found.brokers))
    if answering := sorted({b for d in described.values() for b in d.in_sync} & set(down)):
        said = f"broker {answering[0]} is in sync in {describe}, and {log_dirs} does not list it"
        raise InputError(f"{said}: ask kafka-log-dirs for all brokers")
    partitions: dict[Partition, PartitionState] = {}
    for p in sorted(lists):
        leader, in_sync = (described[p].leader, described[p].in_sync) if p in described else (lists[p][0], ())
        offline, moving = _offline(p, lists[p], found), frozenset(found.moving.get(p, ()))
        partitions[p] = PartitionState(lists[p], leader, found.sizes.get(p, {}), in_sync, offline, moving)
    if not settled:
        told = set(described) if reassigning is None else set(partitions)
        under_way |= {p: said for p, said in _doubtful(partitions).items() if p not in told and p not in under_way}
    for p, s in partitions.items():
        if p not in under_way:
            _refuse_contradiction(p, s, found, settled)
    unlisted = {p: sorted(held) for p, held in sorted(found.sizes.items()) if p not in partitions}
    brokers = tuple(sorted({*found.brokers, *down}))
    observed = tuple(p for p, d in described.items() if d.observers)
    made = KafkaCluster(brokers, tuple(down), partitions, unlisted, under_way, found, [], observed)
    made.notes.extend(_notes(made, found, described))
    return made


def _sole_replicas(found: LogDirs) -> dict[Partition, tuple[int, ...]]:
    """Where each partition is, if it is in one place: log directories do not say who leads."""
    for p, held in sorted(found.sizes.items()):
        if len(held) > 1:
            raise InputError(
                f"{p} is on brokers {listed(sorted(held))}, and log directories do not say which one leads: give "
                "--describe, what kafka-topics printed, or --assignment, what kafka-reassign-partitions printed"
            )
    return {p: tuple(held) for p, held in found.sizes.items()}


def under_way_by(described: Mapping[Partition, Described]) -> dict[Partition, str]:
    """The partitions that ``kafka-topics --describe`` says are being reassigned."""
    return {
        p: f"adding {listed(d.adding) or 'none'}, removing {listed(d.removing) or 'none'}"
        for p, d in described.items()
        if d.adding or d.removing
    }


def _doubtful(partitions: Mapping[Partition, PartitionState]) -> dict[Partition, str]:
    """The partitions that look as if they were being reassigned: longer lists than others of the topic, far shorter logs."""
    least: dict[str, int] = defaultdict(lambda: 2**31)
    for p, s in partitions.items():
        least[p.topic] = min(least[p.topic], len(s.replicas))
    made: dict[Partition, str] = {}
    for p, s in partitions.items():
        seen = [s.sizes[b] for b in s.replicas if b in s.sizes]
        if len(s.replicas) > least[p.topic]:
            made[p] = f"perhaps: {len(s.replicas)} replicas, others of {p.topic} have {least[p.topic]}"
        # A log of less than this share of its partition's longest may be one that is being copied.
        elif seen and min(seen) < 0.5 * max(seen):
            made[p] = f"perhaps: logs of {min(seen):,} and {max(seen):,} bytes"
    return made


def _offline(p: Partition, replicas: tuple[int, ...], found: LogDirs) -> frozenset[int]:
    """The replicas that no directory shows, where that has a reason."""
    held = found.sizes.get(p, {})
    return frozenset(b for b in replicas if b not in held and (b not in found.brokers or b in found.offline))


def _refuse_contradiction(p: Partition, standing: PartitionState, found: LogDirs, settled: bool) -> None:
    missing = set(standing.replicas) - set(standing.sizes) - standing.offline
    stray = set() if settled else set(standing.sizes) - set(standing.replicas)
    if missing or stray:
        seen = listed(sorted(found.sizes.get(p, {}))) or "none"
        raise InputError(
            f"{p} is assigned to brokers {listed(standing.replicas)}, but its logs are on {seen}: a reassignment is under "
            "way, or the files are of different times"
        )


def _notes(made: KafkaCluster, found: LogDirs, described: Mapping[Partition, Described]) -> list[str]:
    """What is not as it should be, each by name."""
    notes = (
        [LEADERS_ASSUMED] if any(len(s.replicas) > 1 for p, s in made.partitions.items() if p not in described) else []
    )
    for b in made.down:
        stood = [p for p, s in made.partitions.items() if b in s.replicas]
        notes.append(
            f"Broker {b} did not answer: it is taken to be down, and what stands on it ({some(stood)}) leaves first. Kafka "
            "refuses every list that names a broker that is down."
        )
    for b, folders in found.offline.items():
        lost = [p for p, s in made.partitions.items() if b in s.offline]
        what = f"replicas that cannot be seen there ({some(lost)}) leave first" if lost else "no partition is missed"
        notes.append(f"Broker {b} cannot read {some(folders)}: {what}.")
    if moving := [p for p, s in made.partitions.items() if s.moving]:
        notes.append(f"{some(moving)}: moving between two directories of a broker, and left where it is.")
    return notes


def listed(brokers: Iterable[int]) -> str:
    """Brokers with commas."""
    return ", ".join(map(str, brokers))
