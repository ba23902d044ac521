"""Kafka's own formats: what its tools print, parsed strictly, and what they read."""

from __future__ import annotations

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from keyshift.engines.formats import Id, One, OpenModel, documents, read_model, some
from keyshift.files.table import open_table
from keyshift.models.base.disk import MOST_JSON, read_text, shown
from keyshift.models.base.frames import USUAL, Table
from keyshift.models.base.names import Names
from keyshift.models.base.schema import FileModel, Whole, validated
from keyshift.models.errors import InputError, naming

TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
CURRENT, PROPOSED = "Current partition replica assignment", "Proposed partition reassignment configuration"
UNDER_WAY = ("Current partition reassignments:", "No partition reassignments found.")
ANY = "any"
"""The directory of a replica that Kafka chooses."""


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
    """What the log directories of a cluster hold.

    Attributes
    ----------
    brokers : tuple of int
        Those that answered.
    sizes : mapping
        Bytes of every replica, by partition and broker.
    directories : mapping
        The directory of every replica, alike.
    readable, offline : dict of int to list of str
        Directories of a broker, and those that it cannot read, which may hold more.
    moving : dict of partitions to set of int
        Replicas that move between two directories of these brokers.
    """

    brokers: tuple[int, ...]
    sizes: Mapping[Partition, Mapping[int, int]]
    directories: Mapping[Partition, Mapping[int, str]]
    readable: Mapping[int, list[str]]
    offline: Mapping[int, list[str]]
    moving: Mapping[Partition, set[int]]

    def directory(self, p: Partition, broker: int) -> str:
        """The directory of a replica: the one that lists it, or the broker's only unreadable one."""
        unread = self.offline.get(broker, [])
        return self.directories.get(p, {}).get(broker) or (unread[0] if len(unread) == 1 else ANY)


def read_log_dirs(file: str | Path) -> LogDirs:
    """Read what ``kafka-log-dirs --describe`` printed: lines of text and a JSON object, or the object alone.

    Raises
    ------
    InputError
        For anything else.
    """
    path = Path(file)
    found = read_model(path, LogDirsFile)
    brokers = sorted(b.broker for b in found.brokers)
    if twice := [b for b, count in Counter(brokers).items() if count > 1]:
        raise InputError(f"{path} names broker {twice[0]} more than once")
    sizes: dict[Partition, dict[int, int]] = {}
    directories: dict[Partition, dict[int, str]] = {}
    readable: dict[int, list[str]] = {}
    offline: dict[int, list[str]] = {}
    moving: dict[Partition, set[int]] = {}
    for b, broker in enumerate(found.brokers):
        for d, directory in enumerate(broker.logDirs):
            place = f"{path}: brokers[{b}].logDirs[{d}]"
            kind = readable if directory.error is None else offline
            kind.setdefault(broker.broker, []).append(directory.logDir)
            if directory.error is not None:
                continue
            for p, replica in enumerate(directory.partitions):
                name = Partition.of(replica.partition, f"{place}.partitions[{p}].partition")
                if replica.isFuture:
                    moving.setdefault(name, set()).add(broker.broker)
                    continue
                held = sizes.setdefault(name, {})
                if broker.broker in held:
                    raise InputError(f"{place}: broker {broker.broker} holds {name} twice")
                held[broker.broker] = replica.size
                directories.setdefault(name, {})[broker.broker] = directory.logDir
    return LogDirs(tuple(brokers), sizes, directories, readable, offline, moving)


# kafka-reassign-partitions ----------------------------------------------------------------------------------------


class ReassignmentPartition(FileModel):
    """One partition of a reassignment: where its replicas are, or are to be."""

    topic: Annotated[str, Field(pattern=rf"^{TOPIC.pattern}$")]
    partition: Id
    replicas: Annotated[list[Id], Field(min_length=1)]
    log_dirs: list[str] | None = None
    observers: Annotated[list[Id], Field(max_length=0)] | None = None


class ReassignmentFile(FileModel):
    """The JSON that ``kafka-reassign-partitions`` prints and reads."""

    version: One
    partitions: Annotated[list[ReassignmentPartition], Field(min_length=1)]


class Listed(NamedTuple):
    """A partition's brokers, the preferred leader first, and the directory on each, where the file names it."""

    replicas: tuple[int, ...]
    directories: Mapping[int, str]


def read_lists(file: str | Path) -> dict[Partition, Listed]:
    """Read the current assignment as ``kafka-reassign-partitions`` prints it, or the JSON alone.

    Of ``--generate`` and ``--execute`` what stands after *Current partition replica assignment* counts; there may be several.

    Raises
    ------
    InputError
        For anything else, and for what Kafka itself refuses: a partition twice, a broker twice in one list.
    """
    path, made = Path(file), dict[Partition, Listed]()
    every = documents(path)
    current = [each for each in every if CURRENT in each.heading]
    if not current and (len(every) > 1 or PROPOSED in every[0].heading):
        raise InputError(f"{path} has no line {CURRENT!r} with JSON after it, as kafka-reassign-partitions prints")
    for each in current or every:
        for i, entry in enumerate(validated(ReassignmentFile, each.content, str(path)).partitions):
            name, place = Partition(entry.topic, entry.partition), f"{path}: partitions[{i}]"
            if name in made:
                raise InputError(f"{place} is {name}, which is listed before")
            if len(set(entry.replicas)) < len(entry.replicas):
                raise InputError(f"{place}.replicas = {shown(entry.replicas)} names a broker twice")
            if entry.log_dirs is not None and len(entry.log_dirs) != len(entry.replicas):
                raise InputError(
                    f"{place}.log_dirs has {len(entry.log_dirs)} entries for {len(entry.replicas)} replicas"
                )
            there = zip(entry.replicas, entry.log_dirs or [], strict=False)
            made[name] = Listed(tuple(entry.replicas), {b: folder for b, folder in there if folder != ANY})
    return made


def read_assignment(file: str | Path) -> dict[Partition, tuple[int, ...]]:
    """The brokers of each partition alone, as `read_lists` reads them."""
    return {name: listed.replicas for name, listed in read_lists(file).items()}


def _brokers(text: str, place: str) -> tuple[int, ...]:
    """Brokers as ``2,4,1``."""
    named = text.split(",") if text else []
    if not all(re.fullmatch(r"[0-9]{1,9}", name) for name in named) or len(set(named)) < len(named):
        raise InputError(f"{place}: {shown(text)} is not a list of different brokers")
    return tuple(map(int, named))


def read_under_way(file: str | Path) -> dict[Partition, str]:
    """What ``kafka-reassign-partitions --list`` printed: the partitions that are being reassigned, and how.

    Raises
    ------
    InputError
        For anything else.
    """
    made: dict[Partition, str] = {}
    told = False
    for number, line in enumerate(read_text(file, MOST_JSON).splitlines(), 1):
        told |= line.strip() in UNDER_WAY
        if ": replicas: " in line:
            name, _, rest = line.strip().partition(": ")
            if not re.fullmatch(r"replicas: [0-9,]+\.( adding: [0-9,]+\.)?( removing: [0-9,]+\.)?", rest):
                raise InputError(f"{file}, line {number}: {shown(line)} is not a reassignment as --list prints it")
            made[Partition.of(name, f"{file}, line {number}")] = rest
    if not told:
        raise InputError(f"{file} has neither of the lines {' and '.join(map(repr, UNDER_WAY))}, as --list prints")
    return made


# kafka-topics -----------------------------------------------------------------------------------------------------


class Described(NamedTuple):
    """A partition as ``kafka-topics --describe`` prints it; leader None: it has no leader."""

    replicas: tuple[int, ...]
    leader: int | None
    in_sync: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    observers: tuple[int, ...] = ()


_NOW_AND_THEN = {"Offline", "Observers", "LiveObservers", "MarkedForDeletion", "Adding Replicas", "Removing Replicas"}
"""Fields that only some lines have."""
_FIELDS = {
    "Topic", "Partition", "Leader", "Replicas", "Isr", "Elr", "LastKnownElr", *_NOW_AND_THEN,
}  # fmt: skip
"""Of Kafka's and Confluent's tool. Others are refused: what is not understood may say that the partition is on its way."""
_LISTS = ("Replicas", "Isr", "Adding Replicas", "Removing Replicas", "Observers", "LiveObservers")
_FIELD = re.compile(r"(?<!\S)((?:Adding |Removing )?[A-Z][A-Za-z]*): ?(\S*)")


def read_topics(file: str | Path) -> dict[Partition, Described]:
    """Read what ``kafka-topics --describe`` printed: who leads, who is in sync, and what is being added and removed.

    Lines about topics as a whole say how many partitions there are; other lines are passed over.

    Raises
    ------
    InputError
        For lines about partitions that are not as the tool prints them or cut short, and where there is none.
    """
    made: dict[Partition, Described] = {}
    counts: dict[str, int] = {}
    shape: frozenset[str] | None = None
    topic = ""
    for number, line in enumerate(read_text(file, MOST_JSON).splitlines(), 1):
        fields, place = _FIELD.findall(line), f"{file}, line {number}"
        said = dict(fields)
        topic = said.get("Topic", topic)  # lines about partitions may leave it to the line about their topic
        if "Topic" in said and re.fullmatch("[0-9]{1,9}", said.get("PartitionCount", "")):
            counts[said["Topic"]] = int(said["PartitionCount"])
        if not re.search(r"Partition: ?[^\s,]", line):
            continue
        usual = frozenset(said) - _NOW_AND_THEN
        more = _FIELD.sub("", line).strip() or len(said) < len(fields) or not _FIELDS.issuperset(said)
        if more or not (topic and {"Partition", "Leader", "Replicas", "Isr"} <= usual) or usual != (shape or usual):
            raise InputError(f"{place}: {shown(line.strip())} is not a partition as kafka-topics --describe prints it")
        shape = usual
        name = Partition.of(f"{topic}-{said['Partition']}", place)
        if name in made:
            raise InputError(f"{place} is {name}, which is described before")
        lists = replicas, in_sync, adding, removing, *watch = [_brokers(said.get(f, ""), place) for f in _LISTS]
        leader = None if said["Leader"] in ("none", "-1") else _brokers(said["Leader"], place)
        if not lists[0] or (leader is not None and (len(leader) != 1 or leader[0] not in lists[0])):
            raise InputError(
                f"{place}: {name} is led by {shown(said['Leader'])}, its replicas are {shown(said['Replicas'])}"
            )
        if strange := {b for named in lists[1:] for b in named} - set(lists[0]):
            raise InputError(f"{place}: {name} names broker {min(strange)}, which is none of its replicas")
        made[name] = Described(replicas, leader[0] if leader else None, in_sync, adding, removing, watch[0] or watch[1])
    if not made:
        raise InputError(f"{file} describes no partition: is it what kafka-topics --describe printed?")
    there = Counter(name.topic for name in made)
    for topic, count in counts.items():
        if there[topic] != count:
            raise InputError(
                f"{file}: {topic} has {count} partitions and {there[topic]} are described: is it cut short?"
            )
    return made


# Words that choose topics -------------------------------------------------------------------------------------------


def chosen_topics(patterns: Iterable[str], topics: Iterable[str]) -> set[str]:
    """The topics that patterns such as ``orders-*`` choose, less those of patterns such as ``!__*``.

    Raises
    ------
    InputError
        For a pattern that fits no topic.
    """
    there = set(topics)
    fit = {p: {t for t in there if fnmatch.fnmatchcase(t, p.removeprefix("!"))} for p in patterns}
    for pattern, found in fit.items():
        if not found:
            raise InputError(f"topics: {pattern:.60} fits no topic; there are {some(sorted(there), 5)}")
    wanted = [found for pattern, found in fit.items() if not pattern.startswith("!")]
    return set().union(*(wanted or [there])).difference(*(fit[p] for p in patterns if p.startswith("!")))


# What the tools read ------------------------------------------------------------------------------------------------


def reassignment(replicas: Replicas, directory: Callable[[Partition, int], str]) -> dict[str, object]:
    """Kafka's reassignment of some partitions, as JSON can hold it: each replica into a directory, or into any."""
    return {
        "version": 1,
        "partitions": [
            {"topic": p.topic, "partition": p.number, "replicas": list(r), "log_dirs": [directory(p, b) for b in r]}
            for p, r in replicas.items()
        ],
    }  # fmt: skip


def election(partitions: Sequence[Partition]) -> dict[str, object]:
    """The JSON that ``kafka-leader-election --path-to-json-file`` reads."""
    return {"partitions": [{"topic": p.topic, "partition": p.number} for p in partitions]}


# Loads and racks --------------------------------------------------------------------------------------------------


def read_loads(file: str | Path, both: bool = False) -> dict[Partition, tuple[float, ...]]:
    """Read a table of loads: the columns topic and partition, and one of loads; for `both` ways in and out may take its place.

    The column of loads is called value, or is the only one that is left, or has a usual name (`keyshift.models.base.frames`).

    Raises
    ------
    InputError
        With the line and what is wrong with it.
    """
    table = Table(open_table(Path(file), MOST_JSON))
    names = {name.strip().lower(): name for name in table.data.columns}
    rest = [name for name in names if name not in ("topic", "partition", "", "unnamed: 0")]
    if not {"topic", "partition"} <= names.keys() or len(names) < len(table.data.columns):
        raise InputError(f"{file} needs the columns topic and partition, and has {shown(table.data.columns)}")
    if both and {"in", "out"} <= set(rest):
        rest = ["in", "out"]
    elif len(rest) > 1:
        rest = ["value"] if "value" in rest else [name for name in rest if name in USUAL["load"]]
    if not rest or (len(rest) > 1 and rest != ["in", "out"]):
        raise InputError(f"{file}: which column is the load? Call it value; there are {', '.join(names)}")
    with naming(file):
        columns = [map(str, table.labels(names[name])) for name in ("topic", "partition", *rest)]
    made: dict[Partition, tuple[float, ...]] = {}
    for at, row in enumerate(zip(*columns, strict=True)):
        place = f"{file}, {table.place(at)}"
        name = Partition.of(f"{row[0].strip()}-{row[1].strip()}", place)
        if name in made:
            raise InputError(f"{place}: {name} has a load already")
        made[name] = tuple(_load(table, text, column, place) for text, column in zip(row[2:], rest, strict=True))
    if not made:
        raise InputError(f"{file} lists no partition")
    return made


class Growth(NamedTuple):
    """Messages a second, and the partitions without two offsets, which have no leader or are too new."""

    loads: dict[Partition, tuple[float, ...]]
    without: tuple[Partition, ...]


def read_offsets(before: str | Path, after: str | Path, seconds: float) -> Growth:
    """Messages a second by partition, from what ``kafka-get-offsets`` printed twice: lines ``topic:partition:offset``.

    Raises
    ------
    InputError
        For anything else, and for offsets that fall.
    """
    if not 0 < seconds < math.inf:
        raise InputError(f"seconds = {seconds:g}: give the seconds between the two measurements")
    first, last = _offsets(before), _offsets(after)
    made: dict[Partition, tuple[float, ...]] = {}
    for name in sorted(first.keys() & last.keys()):
        begin, end = first[name], last[name]
        if begin is None or end is None:
            continue
        if end < begin:
            raise InputError(f"{name}: the offset falls from {begin} to {end}: are the files in order?")
        made[name] = ((end - begin) / seconds,)
    if not made:
        raise InputError(f"{before} and {after} have no partition in common that has offsets")
    return Growth(made, tuple(sorted((first.keys() | last.keys()) - made.keys())))


def _offsets(file: str | Path) -> dict[Partition, int | None]:
    """The offset of each partition; None where the tool prints none. Lines of other words are passed over."""
    found: dict[Partition, int | None] = {}
    for number, line in enumerate(read_text(file, MOST_JSON).splitlines(), 1):
        line_of = re.fullmatch(rf"({TOPIC.pattern}):([0-9]{{1,9}}):([0-9]{{1,18}}|-1)?", line.strip())
        if line_of is None:
            if line.strip() and " " not in line.strip():
                raise InputError(f"{file}, line {number}: {shown(line)} is not topic:partition:offset")
            continue
        name = Partition(line_of[1], int(line_of[2]))
        if name in found:
            raise InputError(f"{file}, line {number}: {name} is listed before")
        found[name] = int(line_of[3]) if line_of[3] not in (None, "-1") else None
    return found


def _load(table: Table, text: str, column: str, place: str) -> float:
    with naming(f"{place}: {column} = ", ""):
        value = table.number(text)
    if not 0 <= value < math.inf:
        raise InputError(f"{place}: {column} = {shown(text)} must be a number of at least 0")
    return value


Racks = Mapping[int, str] | str | Path
"""The rack of each broker, or a file or words that say it."""


class RacksOf(NamedTuple):
    """The rack of each broker, and who says so."""

    of: Mapping[int, str]
    source: str

    def of_all(self, brokers: Sequence[int]) -> dict[int, str]:
        """The rack of every broker; `InputError` for racks of other brokers than these, and where one is missing."""
        found = Names("broker", brokers, len(brokers)).values(self.source, self.of, None).tolist()
        if missing := [b for b, rack in zip(brokers, found, strict=True) if rack is None]:
            said = f"{self.source}: broker {missing[0]} is missing"
            raise InputError(f"{said}; without racks, replicas are only kept on different brokers")
        return dict(zip(brokers, found, strict=True))


def read_racks(given: Racks) -> RacksOf:
    """Read racks: a mapping, words ``1:a,2:b``, or a file: lines ``1:a``, or what ``kafka-broker-api-versions`` printed."""
    if isinstance(given, Mapping):
        return RacksOf(given, "racks")
    found: dict[int, str] = {}
    source, text = "--racks", str(given)
    if not isinstance(given, Path) and ":" not in given and not Path(given).exists():
        raise InputError(f"--racks {given:.60} is no file, and no words such as 1:a,2:b")
    if isinstance(given, Path) or ":" not in given or Path(given).is_file():
        source, text = str(given), read_text(given, MOST_JSON).strip()
        if printed := re.findall(r"\(id: ([0-9]+) rack: (\S+)(?: isFenced: \w+)?\) -> \(", text):
            if without := [broker for broker, rack in printed if rack == "null"]:
                raise InputError(f"{source}: broker {without[0]} has no rack")
            text = "\n".join(map(":".join, printed))
    for part in re.split(r"[,\n]", text):
        broker, _, rack = (word.strip() for word in part.partition(":"))
        if not part.strip() and source != "--racks":
            continue
        if not rack or not re.fullmatch(r"0|[1-9][0-9]{0,8}", broker):
            raise InputError(f"{source} {part.strip():.60}: write broker and value with a colon, such as 1:a,2:b")
        if int(broker) in found:
            raise InputError(f"{source} names broker {broker} twice")
        found[int(broker)] = rack
    if not found:
        raise InputError(f"{source} names no broker: write lines such as 1:a")
    return RacksOf(found, source)
