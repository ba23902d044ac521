"""Clusters drawn at random, printed as Kafka's and Cruise Control's tools print them, and what may happen to such files."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

NOISE = (
    "[2026-11-28 23:57:30,511] WARN [AdminClient clientId=log-dirs-tool] Connection to node -1 could not be established.",
    "OpenJDK 64-Bit Server VM warning: Option UseConcMarkSweepGC was deprecated in version 9.0.",
    "SLF4J: Class path contains multiple SLF4J bindings.", "",
)  # fmt: skip
Part = tuple[str, int]


@dataclass
class Truth:
    """A cluster as it is; what its tools would print follows."""

    brokers: list[int]
    down: set[int]
    dirs: dict[int, list[str]]
    offline: set[tuple[int, str]]
    lists: dict[Part, list[int]]
    leader: dict[Part, int | None]
    size: dict[Part, int]
    place: dict[tuple[Part, int], str]
    adding: dict[Part, list[int]] = field(default_factory=dict)
    removing: dict[Part, list[int]] = field(default_factory=dict)
    moving: set[tuple[Part, int]] = field(default_factory=set)

    def seen(self, p: Part, b: int) -> bool:
        return b not in self.down and (b, self.place[p, b]) not in self.offline

    def bytes_of(self, p: Part, b: int) -> int:
        return self.size[p] // 5 if b in self.adding.get(p, ()) else self.size[p]

    def log_dirs(self) -> Any:
        brokers = []
        for b in self.brokers:
            if b in self.down:
                continue
            folders = []
            for d in self.dirs[b]:
                dead = (b, d) in self.offline
                held = [
                    {"partition": f"{p[0]}-{p[1]}", "size": self.bytes_of(p, b), "offsetLag": 0, "isFuture": False}
                    for p, r in self.lists.items() if b in r and self.place[p, b] == d and not dead
                ]  # fmt: skip
                held += [
                    {"partition": f"{p[0]}-{p[1]}", "size": 1, "offsetLag": 3, "isFuture": True}
                    for p, at in sorted(self.moving) if at == b and self.place[p, b] != d and not dead
                ]  # fmt: skip
                error = "org.apache.kafka.common.errors.KafkaStorageException" if dead else None
                folders.append({"partitions": held, "error": error, "logDir": d})
            brokers.append({"broker": b, "logDirs": folders})
        return {"brokers": brokers, "version": 1}

    def assignment(self) -> Any:
        return {"version": 1, "partitions": [
            {"topic": t, "partition": n, "replicas": r,
             "log_dirs": [self.place[(t, n), b] if self.seen((t, n), b) else "any" for b in r]}
            for (t, n), r in self.lists.items()]}  # fmt: skip

    def topics(self) -> str:
        lines = []
        for topic in sorted({t for t, _ in self.lists}):
            own = {p: r for p, r in self.lists.items() if p[0] == topic}
            lines.append(
                f"Topic: {topic}\tTopicId: upaVhiB0Sk68o7-nV1_Xhw\tPartitionCount: {len(own)}\tReplicationFactor: 2\t"
                "Configs: min.insync.replicas=1"
            )
            for p, r in own.items():
                leader = "none" if self.leader[p] is None else self.leader[p]
                sync = [b for b in r if self.seen(p, b) and b not in self.adding.get(p, ())]
                moved = ""
                if p in self.adding:
                    moved = (
                        f"\tAdding Replicas: {joined(self.adding[p])}\tRemoving Replicas: {joined(self.removing[p])}"
                    )
                lines.append(
                    f"\tTopic: {topic}\tPartition: {p[1]}\tLeader: {leader}\tReplicas: {joined(r)}\tIsr: {joined(sync)}{moved}"
                    "\tElr: \tLastKnownElr: "
                )
        return "\n".join(lines) + "\n"

    def under_way(self) -> str:
        if not self.adding:
            return "No partition reassignments found.\n"
        lines = [
            f"{p[0]}-{p[1]}: replicas: {joined(self.lists[p])}. adding: {joined(a)}. removing: {joined(self.removing[p])}."
            for p, a in self.adding.items()
        ]
        return "\n".join(["Current partition reassignments:", *lines]) + "\n"

    def offsets(self) -> str:
        return "".join(f"{t}:{n}:{'' if self.leader[t, n] is None else self.size[t, n]}\n" for t, n in self.lists)

    def loads(self) -> str:
        return "topic,partition,value\n" + "".join(f"{t},{n},{self.size[t, n] % 97}\n" for t, n in self.lists)

    def cc_load(self) -> Any:
        states = {b: "DEAD" if b in self.down else "ALIVE" for b in self.brokers}
        return {"version": 1, "hosts": [], "brokers": [
            {"Broker": b, "BrokerState": states[b], "Rack": f"r{b % 3}", "DiskMB": 1.5} for b in self.brokers]}  # fmt: skip

    def cc_partitions(self) -> Any:
        records = []
        for (t, n), r in self.lists.items():
            leader = r[0] if self.leader[t, n] is None else self.leader[t, n]
            size = self.size[t, n]
            records.append({"topic": t, "partition": n, "leader": leader, "followers": [b for b in r if b != leader],
                            "cpu": size % 7 / 2, "networkInbound": float(size % 5), "networkOutbound": 2.0, "disk": size / 8, "msg_in": 1.0})  # fmt: skip
        return {"version": 1, "records": records}

    def capacity(self) -> Any:
        named = {"-1": 1000, **{str(b): 100 + b for b in self.brokers[:2]}}
        return {"brokerCapacities": [
            {"brokerId": b, "capacity": {"DISK": str(v), "CPU": "100", "NW_IN": "10000", "NW_OUT": f"{v}.5"}, "doc": "a // b"}
            for b, v in named.items()]}  # fmt: skip


def joined(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


def drawn(rng: random.Random, ill: bool = True) -> Truth:
    """A cluster; where it may be `ill`, brokers are down, directories offline, partitions on their way or without a leader."""
    brokers = sorted(rng.sample(range(1, 40), rng.randint(3, 6)))
    lists: dict[Part, list[int]] = {}
    for topic in rng.sample(["orders", "click-stream", "a.b_c", "__consumer_offsets", "t"], rng.randint(1, 3)):
        copies = rng.randint(1, 3)
        for n in range(rng.randint(1, 5)):
            lists[topic, n] = rng.sample(brokers, copies)
    dirs = {b: [f"/data/{b}/{d}" for d in "ab"] for b in brokers}
    place = {(p, b): rng.choice(dirs[b]) for p in lists for b in brokers}
    size = {p: rng.randint(10, 10**9) for p in lists}
    truth = Truth(brokers, set(), dirs, set(), lists, {p: r[0] for p, r in lists.items()}, size, place)
    if ill and rng.random() < 0.3:
        truth.down = {rng.choice(brokers)}
    if ill and rng.random() < 0.3:
        b = rng.choice(brokers)
        truth.offline = {(b, rng.choice(dirs[b]))}
    if ill and rng.random() < 0.3:
        for p in rng.sample(sorted(lists), min(2, len(lists))):
            if free := [b for b in brokers if b not in lists[p]]:
                truth.adding[p] = [rng.choice(free)]
                truth.removing[p] = [lists[p][-1]]
                lists[p][:0] = truth.adding[p]
    if ill and rng.random() < 0.2:
        p = rng.choice(sorted(lists))
        if (b := rng.choice(lists[p])) not in truth.down and not {(b, d) for d in dirs[b]} & truth.offline:
            truth.moving = {(p, b)}
    for p, r in lists.items():
        alive = [b for b in r if truth.seen(p, b) and b not in truth.adding.get(p, ())]
        truth.leader[p] = rng.choice(alive) if alive else None
    return truth


# What happens to files -----------------------------------------------------------------------------------------------


def noisy(rng: random.Random, text: str) -> str:
    """Lines of a client's warnings before, after and, where there are several lines, in between; other ends of lines."""
    lines = text.rstrip("\n").split("\n")
    for _ in range(rng.randint(0, 3)):
        lines.insert(0 if rng.random() < 0.5 else len(lines), rng.choice(NOISE))
    return rng.choice(["\n", "\r\n"]).join(lines) + "\n"


def coded(rng: random.Random, text: str) -> bytes:
    """As UTF-8, with or without a mark, or as UTF-16."""
    return text.encode(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))


def shuffled(rng: random.Random, content: Any) -> Any:
    """The same object with its fields, and its lists of objects, in another order, and with fields of later releases."""
    if isinstance(content, dict):
        names = list(content)
        rng.shuffle(names)
        return {name: shuffled(rng, content[name]) for name in names}
    if isinstance(content, list) and content and isinstance(content[0], dict):
        return [shuffled(rng, each) for each in rng.sample(content, len(content))]
    return content


def spoilt(rng: random.Random, content: Any) -> Any:
    """One thing in a JSON value is wrong, or at least another."""
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        each = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in each:
            places.append((value, key))
            visit(inner)

    visit(content)
    holder, key = rng.choice(places)
    was, what = holder[key], rng.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.append(json.loads(json.dumps(was)))
    else:
        odd = [None, "", "x", -1, 1.5, 7, True, [], {}, str(was), 2**60, 3.0, "1"]
        holder[key] = rng.choice([*odd, was + 1] if type(was) is int else odd)
    return content


def scratched(rng: random.Random, text: str) -> str:
    """A character less, more or another, a line less or twice, or the end missing."""
    what, at = rng.randrange(6), rng.randrange(max(1, len(text)))
    if what == 0:
        return text[:at]
    if what < 4:
        return (
            text[:at]
            + ("", rng.choice('01,:-{}[]" a\t'), rng.choice('01,:-{}[]" a\t') + text[at : at + 1])[what - 1]
            + text[at + 1 :]
        )
    lines = text.splitlines(keepends=True)
    line = rng.randrange(len(lines))
    return "".join([*lines[:line], *([lines[line]] * 2 if what == 4 else []), *lines[line + 1 :]])


def written(rng: random.Random, content: Any, before: str = "") -> str:
    """JSON over one line or several, after the tool's words."""
    return before + json.dumps(content, indent=rng.choice([None, None, 1, 2])) + "\n"


def as_people_write(rng: random.Random, text: str) -> str:
    """What Gson takes in ``capacity.json``: comments, quotes of the other kind, names without any, ids as numbers."""
    if rng.random() < 0.5:
        text = "// capacities\n" + text.replace('{"brokerId"', '/* one\n broker */ {"brokerId"')
    if rng.random() < 0.5:
        text = text.replace('"brokerId"', "brokerId").replace('"CPU"', "'CPU'")
    if rng.random() < 0.5:
        text = text.replace('"-1"', "-1").replace('"100"', "100")
    return text + ("# end\n" if rng.random() < 0.5 else "")
