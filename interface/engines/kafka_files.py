"""Kafka's own formats: what its tools print, parsed strictly."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from keyshift.engines.formats import EngineModel, Id, Number, One, OpenModel
from keyshift.models.errors import InputError
from keyshift.models.files.reading import MOST_JSON, parse_json, read_text, shown
from keyshift.models.files.schema import validated

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
        if not hyphen or not TOPIC.fullmatch(topic) or not re.fullmatch(r"[0-9]{1,9}", number):
            raise InputError(f"{place} = {shown(text)} is not a partition, such as orders-3")
        return cls(topic, int(number))


Replicas = Mapping[Partition, tuple[int, ...]]
"""Brokers that hold a partition, the preferred leader first."""


# kafka-log-dirs ---------------------------------------------------------------------------------------------------


class LogDirPartition(OpenModel):
    """One replica: its name, bytes, how far it lags, and whether it is one that moves between directories."""

    partition: str
    size: Number
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
