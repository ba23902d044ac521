"""Kafka's own formats: what its tools print, parsed strictly; and replicas, a key group for each with the rules that they need.

The key ``orders-3/0`` is the leader of partition 3, ``orders-3/1`` its first follower. Where a leader and a follower change
places, two key groups move, but no data: the reassignment only says who leads.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from keyshift.engines.formats import EngineModel, Id, One, OpenModel
from keyshift.models.errors import InputError
from keyshift.models.files.disk import MOST_JSON, parse_json, read_text, shown
from keyshift.models.files.schema import Whole, validated
from keyshift.models.rules import Apart, Never, Rule, Spread
from keyshift.models.workload import IntArray, Workload

if TYPE_CHECKING:
    from keyshift.models.plans.plan import Plan


TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
HEADS = ("Querying brokers for log directories information", "Received log directory information from brokers ")
CURRENT = "Current partition replica assignment"
LOADS = ("topic,partition,value", "topic,partition,in,out")


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"

    @classmethod
    def of(cls, text: str, place: str) -> Partition:
        """Read ``topic-3``: what follows the last hyphen is the number."""
        topic, hyphen, number = text.rpartition("-")
        if not hyphen or not TOPIC.fullmatch(topic) or not re.fullmatch(r"0|[1-9][0-9]{0,8}", number):
            raise InputError(f"{place} = {shown(text)} is not a partition, such as orders-3")
        return cls(topic, int(number))


Replicas = Mapping[Partition, tuple[int, ...]]
"""Brokers that hold a partition, the preferred leader first."""


# kafka-log-dirs ---------------------------------------------------------------------------------------------------


class LogDirPartition(OpenModel):
    """One replica: its name, bytes, how far it lags, and whether it is one that moves between directories."""

    partition: str
    size: Whole
    offsetLag: Annotated[int, Field(ge=-1)]
    isFuture: bool


class LogDir(OpenModel):
    """One directory of a broker."""

    logDir: str
    error: str | None
    partitions: list[LogDirPartition]


class LogDirBroker(OpenModel):
    """One broker."""

    broker: Id
    logDirs: list[LogDir]


class LogDirsFile(OpenModel):
    """The third line that ``kafka-log-dirs --describe`` prints."""

    version: One
    brokers: Annotated[list[LogDirBroker], Field(min_length=1)]


class LogDirs(NamedTuple):
    """All brokers, and the bytes of every replica."""

    brokers: tuple[int, ...]
    sizes: Mapping[Partition, Mapping[int, int]]


def read_log_dirs(file: str | Path) -> LogDirs:
    """Read what ``kafka-log-dirs --describe`` printed: two lines of text and one of JSON, or the JSON alone.

    Raises
    ------
    InputError
        For anything else; for a directory with an error, and for a replica that is moving.
    """
    path = Path(file)
    lines = read_text(path, MOST_JSON).lstrip().splitlines(keepends=True)
    while lines and lines[0].startswith(HEADS):
        del lines[0]
    if not "".join(lines).strip():
        raise InputError(f"{path} holds no JSON line: is it all that kafka-log-dirs --describe printed?")
    found = validated(LogDirsFile, parse_json("".join(lines), str(path)), str(path))
    brokers = sorted(_once([b.broker for b in found.brokers], path))
    sizes: dict[Partition, dict[int, int]] = {}
    for b, broker in enumerate(found.brokers):
        for d, directory in enumerate(broker.logDirs):
            place = f"{path}: brokers[{b}].logDirs[{d}]"
            if directory.error is not None:
                raise InputError(f"{place}.error = {shown(directory.error)}: broker {broker.broker} cannot read it")
            for p, replica in enumerate(directory.partitions):
                name = Partition.of(replica.partition, f"{place}.partitions[{p}].partition")
                if replica.isFuture:
                    raise InputError(f"{place}: {name} is moving between directories; wait until that is done")
                held = sizes.setdefault(name, {})
                if broker.broker in held:
                    raise InputError(f"{place}: broker {broker.broker} holds {name} twice")
                held[broker.broker] = replica.size
    return LogDirs(tuple(brokers), sizes)


def _once(brokers: Sequence[int], path: Path) -> Sequence[int]:
    broker, count = Counter(brokers).most_common(1)[0]
    if count > 1:
        raise InputError(f"{path} names broker {broker} more than once")
    return brokers


# kafka-reassign-partitions ----------------------------------------------------------------------------------------


class ReassignmentPartition(EngineModel):
    """One partition of a reassignment: where its replicas are, or are to be."""

    topic: Annotated[str, Field(pattern=rf"^{TOPIC.pattern}$")]
    partition: Id
    replicas: Annotated[list[Id], Field(min_length=1)]
    log_dirs: list[str] | None = None


class ReassignmentFile(EngineModel):
    """The JSON that ``kafka-reassign-partitions`` prints and reads."""

    version: One
    partitions: Annotated[list[ReassignmentPartition], Field(min_length=1)]


def read_assignment(file: str | Path) -> dict[Partition, tuple[int, ...]]:
    """Read the current assignment as ``kafka-reassign-partitions`` prints it, or the JSON alone.

    Of ``--generate`` and ``--execute`` the line after *Current partition replica assignment* counts.

    Raises
    ------
    InputError
        For anything else, and for what Kafka itself refuses: a partition twice, a broker twice in one list.
    """
    path = Path(file)
    text = read_text(path, MOST_JSON)
    if not text.lstrip().startswith("{"):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if CURRENT not in lines[:-1]:
            raise InputError(f"{path} has no line {CURRENT!r} with JSON after it, as kafka-reassign-partitions prints")
        text = lines[lines.index(CURRENT) + 1]
    found = validated(ReassignmentFile, parse_json(text, str(path)), str(path))
    made: dict[Partition, tuple[int, ...]] = {}
    for i, entry in enumerate(found.partitions):
        name, place = Partition(entry.topic, entry.partition), f"{path}: partitions[{i}]"
        if name in made:
            raise InputError(f"{place} is {name}, which is listed before")
        if len(set(entry.replicas)) < len(entry.replicas):
            raise InputError(f"{place}.replicas = {shown(entry.replicas)} names a broker twice")
        if entry.log_dirs is not None and len(entry.log_dirs) != len(entry.replicas):
            raise InputError(f"{place}.log_dirs has {len(entry.log_dirs)} entries for {len(entry.replicas)} replicas")
        made[name] = tuple(entry.replicas)
    return made


def reassignment(replicas: Replicas) -> dict[str, object]:
    """Kafka's reassignment of some partitions, as JSON can hold it."""
    return {
        "version": 1,
        "partitions": [
            {"topic": p.topic, "partition": p.number, "replicas": list(r), "log_dirs": ["any"] * len(r)}
            for p, r in replicas.items()
        ],
    }


def election(partitions: Sequence[Partition]) -> dict[str, object]:
    """The JSON that ``kafka-leader-election --path-to-json-file`` reads."""
    return {"partitions": [{"topic": p.topic, "partition": p.number} for p in partitions]}


# Loads and racks --------------------------------------------------------------------------------------------------


def read_loads(file: str | Path, both: bool = False) -> dict[Partition, tuple[float, ...]]:
    """Read a table of loads: CSV with the columns ``topic,partition,value``, or for `both` ways ``topic,partition,in,out``.

    Raises
    ------
    InputError
        With the line and what is wrong with it.
    """
    path = Path(file)
    rows = csv.reader(io.StringIO(read_text(path, MOST_JSON)), strict=True)
    made: dict[Partition, tuple[float, ...]] = {}
    known = LOADS[: 2 if both else 1]
    try:
        if (head := ",".join(name.strip() for name in next(rows, []))) not in known:
            raise InputError(f"{path} must begin with the line {' or '.join(known)}, not {shown(head)}")
        names = head.split(",")
        for row in rows:
            place = f"{path}, line {rows.line_num}"
            if not row:
                continue
            if len(row) != len(names):
                raise InputError(f"{place} has {len(row)} fields, expected {head}")
            name = Partition.of(f"{row[0].strip()}-{row[1].strip()}", place)
            if name in made:
                raise InputError(f"{place}: {name} has a load already")
            made[name] = tuple(_load(text, column, place) for text, column in zip(row[2:], names[2:], strict=True))
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}") from None
    if not made:
        raise InputError(f"{path} lists no partition")
    return made


def read_offsets(before: str | Path, after: str | Path, seconds: float) -> dict[Partition, tuple[float, ...]]:
    """Messages a second by partition, from what ``kafka-get-offsets`` printed twice: lines ``topic:partition:offset``.

    Raises
    ------
    InputError
        For anything else, for partitions that only one of them lists, and for offsets that fall.
    """
    if not 0 < seconds < math.inf:
        raise InputError(f"seconds = {seconds:g}: give the seconds between the two measurements")
    first, last = _offsets(before), _offsets(after)
    for name in sorted(first.keys() ^ last.keys()):
        raise InputError(f"{name} is listed in {before if name in first else after} alone")
    for name, offset in first.items():
        if last[name] < offset:
            raise InputError(f"{name}: the offset falls from {offset} to {last[name]}: are the files in order?")
    if not first:
        raise InputError(f"{before} lists no partition")
    return {name: ((last[name] - offset) / seconds,) for name, offset in first.items()}


def _offsets(file: str | Path) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for number, line in enumerate(read_text(file, MOST_JSON).splitlines(), 1):
        if not line.strip():
            continue
        line_of = re.fullmatch(rf"({TOPIC.pattern}):([0-9]{{1,9}}):([0-9]{{1,18}})", line.strip())
        if line_of is None:
            raise InputError(f"{file}, line {number}: {shown(line)} is not topic:partition:offset")
        found[Partition(line_of[1], int(line_of[2]))] = int(line_of[3])
    return found


def _load(text: str, column: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{place}: {column} = {shown(text)} must be a number of at least 0")
    return value


# Replicas: a key group for each, and the rules that keep them apart ----------------------------------------------------


LEADER, FOLLOWER = "leader", "follower"
ALL_REPLICAS = "Each replica is planned, leaders and followers; where they change places, only leadership moves."
"""Outputs about replicas begin with this."""

_LABEL = re.compile(r"(?P<partition>[^ /]+)/(?P<number>[0-9]{1,9})")


class Shares(NamedTuple):
    """The load of each partition's leader, and that of each of its followers, in the order of the partitions."""

    leader: Sequence[float]
    follower: Sequence[float]

    def of(self, replicas: Replicas) -> list[float]:
        """One value for each replica."""
        each = zip(replicas.values(), self.leader, self.follower, strict=True)
        return [x for r, leads, follows in each for x in (leads, *[follows] * (len(r) - 1))]


def traffic(replicas: Replicas, come: Sequence[float], go: Sequence[float]) -> dict[str, Shares]:
    """Network in and out of leader and follower, of what clients write and read each second: a leader feeds its followers."""
    fed = [i * (len(r) - 1) for r, i in zip(replicas.values(), come, strict=True)]
    out = [o + i for o, i in zip(go, fed, strict=True)]
    return {"network_in": Shares(come, come), "network_out": Shares(out, [0.0] * len(out))}


def labels(replicas: Replicas) -> tuple[list[str], dict[str, list[str | int]]]:
    """The key of each replica, and what rules may name it by."""
    keys = [f"{p}/{j}" for p, r in replicas.items() for j in range(len(r))]
    columns: dict[str, list[str | int]] = {"topic": [], "partition": [], "role": [], "replicas": []}
    for p, r in replicas.items():
        columns["topic"] += [p.topic] * len(r)
        columns["partition"] += [str(p)] * len(r)
        columns["role"] += [LEADER, *[FOLLOWER] * (len(r) - 1)]
        columns["replicas"] += [len(r)] * len(r)
    return keys, columns


def replica_rules(workload: Workload) -> list[Rule]:
    """The rules of a cluster of replicas, for the parameter `rules` of a problem.

    Replicas of a partition are on different brokers and, where racks are known, on different racks; where there are fewer racks
    than replicas, each rack has its share. Brokers that drain keep none, and demoted ones (of Cruise Control) no leader.

    Parameters
    ----------
    workload : Workload
        As `read_workload` of this module or of `cruise_control` makes it with ``replicas=True``.
    """
    if not {"partition", "replicas"} <= set(workload.groups):
        raise InputError("the workload has no replicas: read it with replicas=True")
    counts = sorted(map(int, set(workload.groups["replicas"]) - {1}))
    staying = {label for label, kept in zip(workload.domains.get("rack", ()), workload.kept, strict=False) if kept}
    made: list[Rule] = []
    if len(staying) < max(counts, default=0):
        made.append(Apart(by="partition"))
    if few := [c for c in counts if c <= len(staying)]:
        made.append(Apart(None if few == counts else {"replicas": few}, domain="rack", by="partition"))
    for c in counts[len(few) :] if len(staying) > 1 else ():
        chosen = None if counts == [c] else {"replicas": c}
        least = c // len(staying)
        made.append(Spread(chosen, "rack", at_least=least, at_most=least + (c % len(staying) > 0), by="partition"))
    if workload.draining.any():
        made.append(Never(None, [str(workload.node(i)) for i in np.flatnonzero(workload.draining)]))
    if "DEMOTED" in workload.domains.get("state", ()):
        made.append(Never({"role": LEADER}, {"state": "DEMOTED"}))
    return made


# From assignments to lists of replicas --------------------------------------------------------------------------------


def replica_of(key: Any) -> tuple[Partition, int] | None:
    """The partition and the number that a key such as ``orders-3/1`` names; None for keys of whole partitions."""
    found = _LABEL.fullmatch(str(key))
    return None if found is None else (Partition.of(found["partition"], "a key"), int(found["number"]))


def members_of(keys: Sequence[Any]) -> dict[Partition, list[int]]:
    """The key groups of each partition, its leader's first; none where keys are of whole partitions."""
    found: dict[Partition, dict[int, int]] = {}
    for k, key in enumerate(keys):
        replica = replica_of(key)
        if replica is None:
            if found:
                raise InputError(f"the key {str(key)!r:.80} is not a replica, such as orders-3/0, and others are")
            continue
        if not found and k:
            raise InputError(f"the key {str(keys[0])!r:.80} is not a replica, such as orders-3/0, and others are")
        found.setdefault(replica[0], {})[replica[1]] = k
    for p, held in found.items():
        if sorted(held) != list(range(len(held))):
            raise InputError(f"the replicas of {p} are not numbered from 0 on: {', '.join(map(str, sorted(held)))}")
    return {p: [held[j] for j in range(len(held))] for p, held in found.items()}


def lists_of(members: Mapping[Partition, list[int]], nodes: IntArray, brokers: Sequence[int]) -> Replicas:
    """The replicas of each partition for key groups on these nodes, the leader's broker first."""
    return {p: tuple(brokers[i] for i in nodes[held].tolist()) for p, held in members.items()}


def lists_by_phase(
    plan: Plan, members: Mapping[Partition, list[int]], brokers: Sequence[int]
) -> tuple[Replicas, list[Replicas]]:
    """The replicas before a plan, and for each phase those of the partitions that change.

    A partition changes once, in the phase of its first move: no broker is named twice in between, no rack has replicas of it
    that it has neither before nor after, and what is there already is not copied again.

    Raises
    ------
    InputError
        If the plan leads two replicas of a partition to one broker.
    """
    before, after = (lists_of(members, nodes, brokers) for nodes in (plan.current, plan.assignment))
    for p, listed in after.items():
        if len(set(listed)) < len(listed):
            said = f"the plan leads two replicas of {p} to one broker: solve with rules (--rules), as imported"
            raise InputError(said)
    partition = {k: p for p, held in members.items() for k in held}
    done: set[Partition] = set()
    phases: list[Replicas] = []
    for phase in plan.phases:
        begun = dict.fromkeys(partition[int(plan.key_group[row])] for row in phase.moves)
        phases.append({p: after[p] for p in begun if p not in done})
        done |= set(begun)
    return before, phases
