"""A reader of what Kafka's and Cruise Control's tools print that shares nothing with the package: the word against which it is held.

Written after LogDirsCommand, ReassignPartitionsCommand, TopicCommand and GetOffsetShell of Kafka 4, and after the Gson that
reads ``capacity.json``. It understands, or raises `UnreadableError`.
"""

from __future__ import annotations

import json
import re
from typing import Any

Broker, Part = int, tuple[str, int]


class UnreadableError(Exception):
    """The file is not what the tool prints."""


def need(condition: object) -> None:
    if not condition:
        raise UnreadableError


def decoded(content: bytes) -> str:
    try:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError from None


def objects(text: str) -> list[tuple[str, Any]]:
    """Every object that begins a line, by counting braces outside of strings; and the words since the last one."""
    found, words, at = [], [], 0
    lines = text.split("\n")
    while at < len(lines):
        if not lines[at].lstrip(" \t").startswith("{"):
            words.append(lines[at].strip())
            at += 1
            continue
        rest, depth, quoted, end = "\n".join(lines[at:]), 0, False, -1
        i = 0
        while i < len(rest):
            sign = rest[i]
            if quoted:
                i += sign == "\\"
                quoted = sign != '"'
            elif sign == '"':
                quoted = True
            elif sign in "{[":
                depth += 1
            elif sign in "}]":
                depth -= 1
                if depth == 0:
                    end = i + 1
                    break
            i += 1
        need(end > 0)
        found.append(("\n".join(words), loaded(rest[:end])))
        after = rest[end:].split("\n")
        at += rest[:end].count("\n")
        words, lines[at] = [], after[0]
    return found


def loaded(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len(dict(pairs)) == len(pairs))
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except ValueError:
        raise UnreadableError from None


def whole(value: Any, least: int = 0, most: int = 2**53 - 1) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    need(type(value) is int and least <= value <= most)
    return int(value)


def broker(value: Any) -> Broker:
    return whole(value, 0, 2**31 - 1)


def number(value: Any) -> float:
    need(type(value) in (int, float) and 0 <= value < float("inf"))
    return float(value)


def part(text: Any) -> Part:
    need(isinstance(text, str))
    found = re.fullmatch(r"([A-Za-z0-9._-]{1,249})-([0-9]{1,9})", text)
    need(found)
    return found[1], int(found[2])  # type: ignore[index]


def entries(value: Any, least: int = 0) -> list[Any]:
    need(isinstance(value, list) and len(value) >= least)
    return list(value)


def field(holder: Any, name: str) -> Any:
    need(isinstance(holder, dict) and name in holder)
    return holder[name]


def log_dirs(content: bytes) -> dict[str, Any]:
    every = objects(decoded(content))
    need(len(every) == 1)
    top = every[0][1]
    need(whole(field(top, "version")) == 1)
    sizes: dict[Part, dict[Broker, int]] = {}
    offline: dict[Broker, int] = {}
    moving: set[tuple[Part, Broker]] = set()
    ids = []
    for each in entries(field(top, "brokers"), 1):
        b = broker(field(each, "broker"))
        ids.append(b)
        for folder in entries(field(each, "logDirs")):
            need(isinstance(field(folder, "logDir"), str))
            error = field(folder, "error")
            need(error is None or isinstance(error, str))
            for replica in entries(field(folder, "partitions")):
                p, size = part(field(replica, "partition")), whole(field(replica, "size"))
                lag = field(replica, "offsetLag")
                need(type(lag) is int and lag >= -1)
                need(type(field(replica, "isFuture")) is bool)
                if error is not None:
                    continue
                if replica["isFuture"]:
                    moving.add((p, b))
                    continue
                need(b not in sizes.setdefault(p, {}))
                sizes[p][b] = size
            if error is not None:
                offline[b] = offline.get(b, 0) + 1
    need(len(set(ids)) == len(ids))
    return {"brokers": sorted(ids), "sizes": sizes, "offline": offline, "moving": moving}


def lists(content: bytes) -> dict[Part, tuple[tuple[Broker, ...], dict[Broker, str]]]:
    every = objects(decoded(content))
    current = [o for words, o in every if "Current partition replica assignment" in words]
    if not current:
        need(len(every) == 1 and "Proposed partition reassignment configuration" not in every[0][0])
        current = [every[0][1]]
    made: dict[Part, tuple[tuple[Broker, ...], dict[Broker, str]]] = {}
    for top in current:
        need(isinstance(top, dict) and set(top) == {"version", "partitions"} and whole(top["version"]) == 1)
        for each in entries(top["partitions"], 1):
            need(isinstance(each, dict) and set(each) - {"log_dirs"} == {"topic", "partition", "replicas"})
            need(isinstance(each["topic"], str))
            p = part(f"{each['topic']}-{broker(each['partition'])}")
            need(p[0] == each["topic"] and p not in made)
            replicas = tuple(map(broker, entries(each["replicas"], 1)))
            need(len(set(replicas)) == len(replicas))
            folders = each.get("log_dirs")
            if folders is None:
                folders = ["any"] * len(replicas)
            need(len(entries(folders)) == len(replicas) and all(isinstance(f, str) for f in folders))
            made[p] = (replicas, {b: f for b, f in zip(replicas, folders, strict=True) if f != "any"})
    return made


def id_list(text: str) -> tuple[Broker, ...]:
    made = tuple(int(word) for word in text.split(",")) if text else ()
    need(len(set(made)) == len(made))
    return made


def topics(content: bytes) -> dict[Part, tuple[Any, ...]]:
    """Replicas, leader, in sync, adding, removing."""
    made: dict[Part, tuple[Any, ...]] = {}
    counts: dict[str, int] = {}
    tail: set[str] = set()
    for line in decoded(content).splitlines():
        if summary := re.search(r"Topic: ?(\S+)\s.*PartitionCount: ?([0-9]{1,9})(\s|$)", line):
            counts[summary[1]] = int(summary[2])
        if not re.search(r"Partition: ?[^\s,]", line):
            continue
        ids = r"((?:[0-9]{1,9}(?:,[0-9]{1,9})*)?)"
        found = re.fullmatch(
            rf"\s*Topic: ?(\S+)\s+Partition: ?([0-9]{{1,9}})\s+Leader: ?([0-9]{{1,9}}|none|-1)\s+Replicas: ?{ids}\s+Isr: ?{ids}"
            rf"(?:\s+Adding Replicas: ?{ids})?(?:\s+Removing Replicas: ?{ids})?((?:\s+(?:Elr|LastKnownElr): ?\S*)*)\s*",
            line,
        )
        need(found)
        assert found is not None
        p = part(f"{found[1]}-{found[2]}")
        need(p not in made)
        leader = None if found[3] in ("none", "-1") else int(found[3])
        replicas, in_sync, adding, removing = (id_list(found[i] or "") for i in (4, 5, 6, 7))
        need(replicas and (leader is None or leader in replicas))
        need({*in_sync, *adding, *removing} <= set(replicas))
        tail.add(re.sub(r"[^A-Za-z]+", " ", re.sub(r": ?\S*", " ", found[8])).strip())
        made[p] = (replicas, leader, in_sync, adding, removing)
    need(made and len(tail) == 1)
    for topic, count in counts.items():
        need(sum(t == topic for t, _ in made) == count)
    return made


def under_way(content: bytes) -> set[Part]:
    lines = [line.strip() for line in decoded(content).splitlines()]
    need({"Current partition reassignments:", "No partition reassignments found."} & set(lines))
    made = set()
    for line in lines:
        if ": replicas: " in line:
            found = re.fullmatch(r"(\S+): replicas: [0-9,]+\.( adding: [0-9,]+\.)?( removing: [0-9,]+\.)?", line)
            need(found)
            made.add(part(found[1]))  # type: ignore[index]
    return made


def offsets(content: bytes) -> dict[Part, int | None]:
    made: dict[Part, int | None] = {}
    for raw in decoded(content).splitlines():
        line = raw.strip()
        found = re.fullmatch(r"([A-Za-z0-9._-]{1,249}):([0-9]{1,9}):([0-9]{1,18}|-1|)", line)
        if found is None:
            need(not line or " " in line)  # words of the client
            continue
        p = (found[1], int(found[2]))
        need(p not in made)
        made[p] = int(found[3]) if found[3] not in ("", "-1") else None
    return made


def cc_load(content: bytes) -> dict[Broker, tuple[str, str | None]]:
    every = objects(decoded(content))
    need(len(every) == 1)
    made: dict[Broker, tuple[str, str | None]] = {}
    need(not isinstance(every[0][1].get("errorMessage"), str))
    for each in entries(field(every[0][1], "brokers"), 1):
        state, rack = field(each, "BrokerState"), each.get("Rack")
        need(state in ("ALIVE", "DEAD", "NEW", "DEMOTED", "BAD_DISKS") and (rack is None or isinstance(rack, str)))
        made[broker(field(each, "Broker"))] = (state, rack)
    return made


def cc_partitions(content: bytes) -> dict[Part, tuple[tuple[Broker, ...], tuple[float, ...]]]:
    every = objects(decoded(content))
    need(len(every) == 1)
    made: dict[Part, tuple[tuple[Broker, ...], tuple[float, ...]]] = {}
    need(not isinstance(every[0][1].get("errorMessage"), str))
    for each in entries(field(every[0][1], "records"), 1):
        need(isinstance(field(each, "topic"), str))
        p = part(f"{each['topic']}-{broker(field(each, 'partition'))}")
        need(p[0] == each["topic"] and p not in made)
        held = (broker(field(each, "leader")), *map(broker, entries(field(each, "followers"))))
        need(len(set(held)) == len(held))
        used = tuple(number(field(each, name)) for name in ("cpu", "networkInbound", "networkOutbound", "disk"))
        made[p] = (held, used)
    return made


class Gson:
    """Gson's lenient reader: comments of three kinds, quotes of two, and words without any."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def skip(self) -> str:
        while self.at < len(self.text):
            rest = self.text[self.at :]
            if rest[0] in " \t\r\n":
                self.at += 1
            elif rest[0] == "#" or rest.startswith("//"):
                end = rest.find("\n")
                self.at += len(rest) if end < 0 else end
            elif rest.startswith("/*"):
                end = rest.find("*/")
                need(end > 0)
                self.at += end + 2
            else:
                return rest[0]
        raise UnreadableError

    def word(self) -> Any:
        sign = self.skip()
        if sign in "\"'":
            begin = self.at + 1
            self.at = begin
            while True:
                need(self.at < len(self.text))
                if self.text[self.at] == "\\":
                    self.at += 2
                elif self.text[self.at] == sign:
                    break
                else:
                    self.at += 1
            self.at += 1
            return self.text[begin : self.at - 1]
        begin = self.at
        while self.at < len(self.text) and self.text[self.at] not in " \t\r\n{}[]:,;\"'/#":
            self.at += 1
        need(self.at > begin)
        return Bare(self.text[begin : self.at])

    def value(self) -> Any:
        sign = self.skip()
        if sign == "{":
            return self.several("}", self.pair)
        if sign == "[":
            return self.several("]", self.value)
        return self.word()

    def pair(self) -> tuple[str, Any]:
        name = self.word()
        need(self.skip() == ":")
        self.at += 1
        return str(name), self.value()

    def several(self, closing: str, one: Any) -> Any:
        self.at += 1
        made: list[Any] = []
        if self.skip() != closing:
            made.append(one())
            while self.skip() == ",":
                self.at += 1
                made.append(one())
        need(self.skip() == closing)
        self.at += 1
        if closing == "]":
            return made
        need(len({name for name, _ in made}) == len(made))
        return dict(made)


class Bare(str):
    """A word without quotes."""


def positive(value: Any) -> float:
    need(isinstance(value, str))
    try:
        made = float(value)
    except ValueError:
        raise UnreadableError from None
    need(0 < made < float("inf"))
    return made


def capacity(content: bytes) -> dict[str, dict[str, float]]:
    reader = Gson(decoded(content))
    need(reader.skip() == "{")
    top = reader.value()
    made: dict[str, dict[str, float]] = {}
    for each in entries(field(top, "brokerCapacities"), 1):
        b = field(each, "brokerId")
        need(isinstance(b, str) and re.fullmatch(r"-1|[0-9]{1,9}", b))
        own = field(each, "capacity")
        need(isinstance(own, dict))
        disk, cpu = field(own, "DISK"), field(own, "CPU")
        if isinstance(cpu, dict):
            need(set(cpu) == {"num.cores"})
            cpu = cpu["num.cores"]
        name = str(int(b))
        need(name not in made)
        made[name] = {
            "disk": sum(map(positive, disk.values())) if isinstance(disk, dict) else positive(disk),
            "cpu": positive(cpu), "network_in": positive(field(own, "NW_IN")), "network_out": positive(field(own, "NW_OUT")),
            "cores": float(isinstance(own["CPU"], dict)),
        }  # fmt: skip
    need(len({own["cores"] for own in made.values()}) == 1)
    return made
