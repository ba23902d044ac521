"""An operator of a real Kafka: reads it by its own tools, plans by our commands, carries files out as ``STEPS.md`` says."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cluster import HERE, PATIENCE, PORT, Cluster, Said, running, topics_json, until

import keyshift as ks
from keyshift.cli import main

TOPICS = {  # partitions, replicas, messages of a partition by its number, bytes of a message
    "orders": ([[1, 3], [1, 4], [1, 3], [2, 3], [1, 4], [2, 4], [1, 3], [3, 1], [1, 3], [4, 2], [2, 3], [1, 4]], lambda n: 300 + 97 * (n * n % 11), 260),
    "clicks": ([[2, 4], [1, 3], [2, 4], [4, 1], [2, 3], [3, 1]], lambda n: 500 + 61 * n, 180),
    "audit-log": ([[4, 1, 3], [2, 3, 1], [4, 1, 3], [2, 3, 1]], lambda n: 200 + 40 * n, 320),
    "my.topic-v2": ([[1, 4], [3, 2], [1, 4], [4, 2], [1, 4]], lambda n: 250 + 30 * n, 150),
    "single": ([[2], [3], [1]], lambda n: 150 + 50 * n, 200),
}  # fmt: skip
STREAM, OFFSETS = "stream", "__consumer_offsets"
QUIET = "--topics '!stream,!__*'"
"""Of topics that nothing writes to meanwhile, bytes can be predicted."""
WORDS = "--racks 1:a,2:a,3:b,4:b"
NOT_DONE = ("There is no active reassignment", "is not being moved from log dir", "is being moved to log dir")
"""What --verify prints of lists that did not come about, and of replicas that came about in another directory."""
FAILED: list[str] = []
Place = tuple[str, int]  # topic and partition


def demand(holds: object, otherwise: str) -> bool:
    """Note what fails; the page is written nevertheless."""
    if not holds:
        FAILED.append(otherwise)
        print(f"!! {otherwise}", flush=True)
    return bool(holds)


# What the tools say, read by this script alone ---------------------------------------------------------------------------


class State(NamedTuple):
    """Where everything is: lists and leaders of partitions; directory and bytes of each replica."""

    lists: dict[Place, list[int]]
    leaders: dict[Place, int]
    directories: dict[tuple[Place, int], str]
    sizes: dict[tuple[Place, int], int]

    def held(self) -> Counter[tuple[int, str]]:
        """Bytes of the quiet topics by broker and directory."""
        found: Counter[tuple[int, str]] = Counter()
        for (p, b), folder in self.directories.items():
            if p[0] in TOPICS:
                found[b, folder] += self.sizes[p, b]
        return found


class Live:
    """A running cluster, the client, and one case's files."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster, self.client, self.number = cluster, client, 0
        self.folder = cluster.folder

    # Files of the tools, as an operator would make them

    def fetch(self, name: str = "now") -> dict[str, Path]:
        """log-dirs, topics and the current assignment."""
        c, said = self.cluster, {}
        said["log_dirs"] = c.keep(f"{name}-log-dirs.txt", c.tool("log-dirs", "--describe"))
        said["describe"] = c.keep(f"{name}-topics.txt", c.tool("topics", "--describe"))
        wanted = c.keep("topics.json", topics_json([*TOPICS, STREAM, OFFSETS]))
        current = c.tool(
            "reassign-partitions", "--generate", "--topics-to-move-json-file", wanted, "--broker-list", "1,2,3"
        )
        said["assignment"] = c.keep(f"{name}-current.txt", current)
        return said

    def state(self) -> State:
        lists, leaders = {}, {}
        for line in self.cluster.tool("topics", "--describe").out.splitlines():
            said = dict(part.split(": ", 1) for part in line.strip().split("\t") if ": " in part)
            if "Partition" in said:
                p = said["Topic"], int(said["Partition"])
                lists[p] = [int(b) for b in said["Replicas"].split(",")]
                leaders[p] = int(said["Leader"]) if said["Leader"].isdigit() else -1
        directories, sizes = {}, {}
        for broker in json.loads(self.cluster.tool("log-dirs", "--describe").out.splitlines()[-1])["brokers"]:
            for folder in broker["logDirs"]:
                for each in folder["partitions"]:
                    topic, _, number = each["partition"].rpartition("-")
                    key = (topic, int(number)), broker["broker"]
                    directories[key], sizes[key] = folder["logDir"], each["size"]
        return State(lists, leaders, directories, sizes)

    def offsets(self) -> dict[Place, int]:
        said = self.cluster.tool("get-offsets", "--time", "-1").out.split()
        found = (line.rsplit(":", 2) for line in said)
        return {(topic, int(p)): int(offset) for topic, p, offset in found if topic in TOPICS and offset}

    def send(self) -> Counter[int]:
        """The messages once more; how many each broker took as the leader."""
        before, state = self.offsets(), self.state()
        self.client.fill()
        after, taken = self.offsets(), Counter[int]()
        for p, last in after.items():
            taken[state.leaders[p]] += last - before[p]
        return taken

    def settled(self) -> None:
        """Wait until every replica is in sync, and every directory shows what it should."""

        def in_sync() -> bool:
            said = self.cluster.tool("topics", "--describe", "--under-replicated-partitions").out
            state = self.state()
            return not said.strip() and {(p, b) for p, r in state.lists.items() for b in r} == set(state.directories)

        until(in_sync, "replicas are not in sync")

    # Our commands

    def shell(self, line: str, code: int = 0) -> str:
        """What one of our commands prints, on one line."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ended = main(shlex.split(line))
        said = " ".join((out.getvalue() + err.getvalue()).split())
        demand(ended == code, f"keyshift {line}: exit {ended}: {said[-400:]}")
        return said

    def planned(
        self, options: str, planning: str = "", files: dict[str, Path] | None = None, racks: str = WORDS
    ) -> Planned:
        """From the tools' output to the files of a plan: import, plan, export."""
        self.number += 1
        made = self.folder / f"case-{self.number}"
        made.mkdir()
        f = files or self.fetch()
        names = " ".join(f"--{name.replace('_', '-')} {path}" for name, path in f.items())
        said = self.shell(f"import kafka {names} {options} --out {made}/w")
        said += self.shell(f"plan {made}/w {planning} --time-limit 3 --out {made}/plan.json")
        said += self.shell(f"export {made}/plan.json --to kafka {names} {racks} --out {made}/out")
        return Planned(made / "out", ks.read_plan(made / "plan.json"), said)

    # The tools, as STEPS.md says

    def reassign(self, file: Path, step: str, *more: object, check: bool = True) -> Said:
        return self.cluster.tool("reassign-partitions", "--reassignment-json-file", file, step, *more, check=check)

    def complete(self, file: Path, again: bool = False) -> int:
        """Ask --verify until all is complete; with `again`, --execute once more where lists did not come about. How often."""
        repeated = 0
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            said = self.reassign(file, "--verify", check=False).all
            if again and any(words in said for words in NOT_DONE) and "still in progress" not in said:
                self.reassign(file, "--execute", "--additional", check=False)
                repeated += 1
            elif not any(word in said for word in (*NOT_DONE, "in progress", "not found", "Error", "Exception")):
                return repeated
            time.sleep(0.3)
        demand(False, f"{file.parent.name}/{file.name}: not complete: {said[-600:]}")
        return repeated

    def elect(self, file: Path) -> str:
        if not file.exists():
            return ""
        return self.cluster.tool("leader-election", "--election-type", "PREFERRED", "--path-to-json-file", file).out

    def phase(self, out: Path, number: str, kind: str = "reassign", *more: object) -> None:
        file = out / f"{number}-{kind}.json"
        self.reassign(file, "--execute", *more)
        self.complete(file)
        self.elect(out / f"{number}-elect.json")


class Planned(NamedTuple):
    """A plan and its files."""

    out: Path
    plan: Any
    said: str

    @property
    def phases(self) -> list[str]:
        return sorted(file.name[:2] for file in self.out.glob("*-reassign.json"))

    def lists(self, kind: str = "reassign") -> Iterator[tuple[Place, list[int], list[str]]]:
        """Each partition of the files, its list, and the directories."""
        for number in self.phases:
            for each in json.loads((self.out / f"{number}-{kind}.json").read_text())["partitions"]:
                yield (each["topic"], each["partition"]), each["replicas"], each["log_dirs"]

    def after(self, state: State) -> State:
        """Where everything will be: leaders first in their lists, copies in the directories that are named, bytes as they are."""
        lists, leaders = dict(state.lists), dict(state.leaders)
        directories, sizes = dict(state.directories), dict(state.sizes)
        for p, replicas, folders in self.lists():
            size = max(s for (q, _), s in state.sizes.items() if q == p)
            for b in {*lists[p], *(b for q, b in directories if q == p)} - set(replicas):
                directories.pop((p, b), None)
                sizes.pop((p, b), None)
            for b, folder in zip(replicas, folders, strict=True):
                directories[p, b] = directories[p, b] if folder == "any" else folder
                sizes[p, b] = size
            lists[p], leaders[p] = replicas, replicas[0] if (self.out / "00-elect.json").exists() else leaders[p]
        return State(lists, leaders, directories, sizes)


class Client:
    """The client's process, and a second one that fills the quiet topics."""

    def __init__(self, servers: str) -> None:
        self.line = [str(HERE / ".venv/bin/python"), str(HERE / "client.py"), servers]
        self.process = subprocess.Popen([*self.line, STREAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fill(self) -> None:
        lines = [f"{t} {n} {count(n)} {size}\n" for t, (r, count, size) in TOPICS.items() for n in range(len(r))]
        done = subprocess.run([*self.line, "fill"], input="".join(lines), capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["failed"] == 0, done.stdout

    def said(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        return json.loads(self.process.stdout.read().splitlines()[-1])


@contextmanager
def filled() -> Iterator[Live]:
    """A cluster with topics and messages, and a client that writes and reads."""
    with running() as cluster:
        for topic, (lists, _, _) in TOPICS.items():
            placed = ",".join(":".join(map(str, r)) for r in lists)
            cluster.tool("topics", "--create", "--topic", topic, "--replica-assignment", placed)
        stream = ["--create", "--topic", STREAM, "--partitions", 6, "--replication-factor", 3]
        cluster.tool("topics", *stream, "--config", "min.insync.replicas=2")
        client = Client(",".join(f"127.0.0.1:{PORT + b}" for b in (1, 2, 3, 4)))
        try:
            client.fill()
            live = Live(cluster, client)
            until(lambda: client.said()["read"], "the consumer group reads nothing")
            live.settled()
            yield live
        finally:
            client.process.kill()
            client.process.wait()
