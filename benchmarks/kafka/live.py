"""A real Kafka: our files through its own tools, phase by phase, and what its brokers then hold and serve.

``make kafka`` starts ZooKeeper and three brokers (0.9.0.1, Java 17), writes messages whose keys follow a Zipf law, reads the
cluster by its own tools - offsets twice, the current assignment, sizes of the logs -, plans, and runs each phase's files.
Loads are offsets that grow, by the leader that took them. Ends with 1 if a prediction fails or a message is lost.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks' own modules

from brokers import PORTS, SERVERS, ZOOKEEPER, Brokers, running
from page import run

import keyshift as ks
from keyshift.engines import kafka
from keyshift.papers.page import Page

TOPIC, PARTITIONS = "orders", 24
KEEPER = ("--zookeeper", f"127.0.0.1:{ZOOKEEPER}")
FAILED: list[str] = []


def demand(holds: bool, otherwise: str) -> None:
    """Note what fails; the page is written nevertheless."""
    if not holds:
        FAILED.append(otherwise)


class Topic:
    """A topic on the running brokers, the messages that are sent to it again and again, and what its tools say."""

    def __init__(self, brokers: Brokers, messages: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        chance = np.arange(1, 301.0) ** -0.9
        keys = rng.choice(300, messages, p=chance / chance.sum())
        self.lines = "".join(
            f"user-{k}\t{'x' * int(size)}\n" for k, size in zip(keys, rng.integers(50, 400, messages), strict=True)
        )
        self.brokers, self.messages = brokers, messages
        brokers.tool(
            "kafka.admin.TopicCommand",
            *KEEPER,
            "--create",
            "--topic",
            TOPIC,
            "--partitions",
            PARTITIONS,
            "--replication-factor",
            2,
        )
        while len(counted(self.offsets())) < PARTITIONS:  # until every partition has a leader
            time.sleep(0.5)

    def send(self) -> Path:
        """Send the messages; the offsets afterwards, as the tool prints them."""
        self.brokers.tool(
            "kafka.tools.ConsoleProducer", "--broker-list", SERVERS, "--topic", TOPIC, "--property", "parse.key=true",
            "--request-required-acks", "-1", "--request-timeout-ms", 60_000, given=self.lines,
        )  # fmt: skip
        return self.offsets()

    def offsets(self) -> Path:
        """What the tool of today calls kafka-get-offsets prints."""
        path = self.brokers.folder / f"offsets-{time.monotonic_ns()}.txt"
        path.write_text(
            self.brokers.tool("kafka.tools.GetOffsetShell", "--broker-list", SERVERS, "--topic", TOPIC, "--time", "-1")
        )
        return path

    def assignment(self) -> Path:
        """The current assignment, as the tool prints it."""
        topics, path = self.brokers.folder / "topics.json", self.brokers.folder / "current.txt"
        topics.write_text(json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}))
        brokers = ",".join(map(str, PORTS))
        path.write_text(
            self.tool(
                "ReassignPartitionsCommand",
                "--generate",
                "--topics-to-move-json-file",
                topics,
                "--broker-list",
                brokers,
            )
        )
        return path

    def log_dirs(self) -> Path:
        """The sizes of all logs, in the words of kafka-log-dirs, which this release does not have."""
        path = self.brokers.folder / "log-dirs.txt"
        found = []
        for broker in PORTS:
            held = [
                {
                    "partition": folder.name,
                    "size": sum(f.stat().st_size for f in folder.glob("*.log")),
                    "offsetLag": 0,
                    "isFuture": False,
                }
                for folder in sorted((self.brokers.folder / f"data-{broker}").glob(f"{TOPIC}-*"))
            ]
            found.append(
                {"broker": broker, "logDirs": [{"logDir": f"data-{broker}", "error": None, "partitions": held}]}
            )
        path.write_text(json.dumps({"version": 1, "brokers": found}))
        return path

    def tool(self, name: str, *words: object) -> str:
        """What an administrator's tool prints."""
        return self.brokers.tool(f"kafka.admin.{name}", *KEEPER, *words)

    def leaders(self) -> dict[int, int]:
        """The leader of each partition."""
        said = self.tool("TopicCommand", "--describe", "--topic", TOPIC).splitlines()
        rows = [dict(part.split(": ", 1) for part in line.strip().split("\t")) for line in said if "Leader: " in line]
        return {int(row["Partition"]): int(row["Leader"]) for row in rows}

    def started(self, file: Path) -> None:
        """--execute, as STEPS.md says."""
        demand(
            "Successfully started"
            in self.tool("ReassignPartitionsCommand", "--reassignment-json-file", file, "--execute"),
            f"{file.name}: not started",
        )

    def verified(self, file: Path, seconds: float = 60) -> float:
        """Ask --verify until all is complete; how long it took. Infinite where it never is."""
        begun = time.monotonic()
        while time.monotonic() < begun + seconds:
            said = self.tool("ReassignPartitionsCommand", "--reassignment-json-file", file, "--verify")
            if "in progress" not in said and "failed" not in said:
                return time.monotonic() - begun
            time.sleep(0.5)
        return np.inf

    def carried_out(self, file: Path, elect: Path | None) -> float:
        """A phase, or its way back: --execute, --verify, election; seconds."""
        self.started(file)
        took = self.verified(file)
        demand(np.isfinite(took), f"{file.name}: not complete")
        if elect is not None and elect.exists():
            self.tool("PreferredReplicaLeaderElectionCommand", "--path-to-json-file", elect)
            time.sleep(2)
        return took


def counted(offsets: Path) -> dict[int, int]:
    """Messages by partition."""
    return {int(line.split(":")[1]): int(line.split(":")[2]) for line in offsets.read_text().split()}


def served(before: Path, after: Path, leaders: dict[int, int]) -> np.ndarray:
    """Messages that each broker took as the leader."""
    first, last, taken = counted(before), counted(after), Counter()  # type: ignore[var-annotated]
    for p, broker in leaders.items():
        taken[broker] += last[p] - first[p]
    return np.array([taken[b] for b in PORTS], dtype=float)


def leaders(page: Page) -> None:
    """Leaders, planned and measured.

    The messages are sent, the cluster is read, the plan's phases are run by Kafka's tools, and the same messages are sent
    again. Predicted and measured must be alike to the message.
    """
    with running() as brokers:
        topic = Topic(brokers, 3_000 if page.quick else 30_000)
        before = topic.offsets()
        after = topic.send()
        w = kafka.read_workload(topic.log_dirs(), assignment=topic.assignment(), offsets=(before, after), seconds=1.0)
        plan = ks.solve(ks.KeyGroupAllocation(w, max_migrations=6), time_limit=10).plan(bandwidth=5e6, phase_moves=3)
        made = kafka.write_reassignment(plan, brokers.folder / "there", assignment=topic.assignment())
        files = sorted((brokers.folder / "there").glob("*-reassign.json"))
        took = sum(topic.carried_out(f, f.with_name(f.name.replace("reassign", "elect"))) for f in files)
        again = topic.offsets()
        measured = served(again, topic.send(), topic.leaders())
        sizes = kafka.read_workload(topic.log_dirs(), assignment=topic.assignment())
        table = ks.compare_measured(plan, {"load": measured, "moves": int((sizes.current != w.current).sum())})
        copied = made.state_copied
        total = sum(counted(topic.offsets()).values())
    page.table(table.reset_index(), "leaders")
    page.say(
        "",
        f"{made.elections} by election alone, {made.copies} by a copy of {copied:,.0f} bytes in all; the tools took {took:.1f} s. {total:,} messages of {2 * topic.messages:,} are there.",
        "",
    )
    demand(bool((table["difference"] == 0).all()), "a prediction does not hold")
    demand(total == 2 * topic.messages, "messages are lost")


def replicas(page: Page) -> None:
    """Each replica a key group.

    Leaders and followers are planned together, no two of a partition on one broker; the load is the bytes. Sizes of the logs on
    each broker, predicted and measured; followers' logs are byte for byte those of their leaders.
    """
    with running() as brokers:
        topic = Topic(brokers, 3_000 if page.quick else 30_000, seed=1)
        topic.send()
        w = kafka.read_workload(topic.log_dirs(), assignment=topic.assignment(), replicas=True)
        problem = ks.KeyGroupAllocation(w, max_migrations=8, rules=kafka.replica_rules(w))
        plan = ks.solve(problem, time_limit=10).plan(phase_moves=4)
        made = kafka.write_reassignment(plan, brokers.folder / "there", assignment=topic.assignment())
        for f in sorted((brokers.folder / "there").glob("*-reassign.json")):
            topic.carried_out(f, f.with_name(f.name.replace("reassign", "elect")))
        time.sleep(3)
        now = kafka.read_log_dirs(topic.log_dirs()).sizes
        held = np.array([sum(size.get(b, 0) for size in now.values()) for b in PORTS], dtype=float)
        table = ks.compare_measured(plan, {"load": held})
        apart = all(len(set(r)) == len(r) for r in kafka.read_assignment(topic.assignment()).values())
    page.table(table.reset_index(), "replicas")
    page.say(
        "",
        f"{made.copies} replicas copied; load distance {plan.load_distance[0]:,.0f} -> {plan.load_distance[1]:,.0f} bytes.",
        "",
    )
    demand(bool((table["difference"] == 0).all()) and apart, "replicas are not where the plan wants them")


def back(page: Page) -> None:
    """The way back, and a broker that is killed.

    The first phase is run and rolled back: lists must be exactly what they were. Then the second phase's target is killed
    with kill -9 right before --execute, and started again some seconds later. The way on: the same --execute once more, if
    --verify says *failed*, and an election of all preferred leaders, since the broker lost what it led.
    """
    with running() as brokers:
        topic = Topic(brokers, 3_000 if page.quick else 30_000, seed=2)
        before = topic.offsets()
        after = topic.send()
        w = kafka.read_workload(topic.log_dirs(), assignment=topic.assignment(), offsets=(before, after), seconds=1.0)
        plan = ks.solve(ks.KeyGroupAllocation(w, max_migrations=6), time_limit=10).plan(phase_moves=3)
        lists = kafka.read_assignment(topic.assignment())
        kafka.write_reassignment(plan, brokers.folder / "there", assignment=topic.assignment())
        there = brokers.folder / "there"
        topic.carried_out(there / "00-reassign.json", there / "00-elect.json")
        moved = kafka.read_assignment(topic.assignment()) != lists
        topic.carried_out(there / "01-rollback.json", there / "00-elect.json")
        same = kafka.read_assignment(topic.assignment()) == lists and topic.leaders() == {
            p.number: r[0] for p, r in lists.items()
        }
        topic.carried_out(there / "00-reassign.json", there / "00-elect.json")
        killed = int(w.node_names[int(plan.target[plan.phases[1].moves[0]])])
        brokers.kill(killed)
        topic.started(there / "02-reassign.json")
        said = topic.tool(
            "ReassignPartitionsCommand", "--reassignment-json-file", there / "02-reassign.json", "--verify"
        )
        waited = topic.verified(there / "02-reassign.json", 8)
        brokers.start(killed)
        brokers.wait(list(PORTS))
        began, again = time.monotonic(), not np.isfinite(topic.verified(there / "02-reassign.json", 10))
        if again:  # the controller gave it up while the target was away
            topic.started(there / "02-reassign.json")
        took = topic.verified(there / "02-reassign.json", 90) + time.monotonic() - began
        topic.tool("PreferredReplicaLeaderElectionCommand")  # of all: the broker lost what it led while it was away
        time.sleep(3)
        led = topic.leaders()
        wanted = {
            kafka.partition_of(str(w.keys[k]))[0].number: int(w.node_names[i])
            for k, i in enumerate(plan.assignment.tolist())
        }
        total = sum(counted(topic.offsets()).values())
    page.table(
        [
            {"": "the first phase moved leaders", "so": moved},
            {"": "rolled back: lists and leaders as before", "so": same},
            {"": f"broker {killed} killed before --execute: --verify then says", "so": next((line for line in said.splitlines() if "progress" in line or "fail" in line or "completed" in line), "")},
            {"": "complete without it, within 8 s", "so": bool(np.isfinite(waited))},
            {"": "started again: --execute had to be repeated", "so": again},
            {"": "started again: complete after seconds", "so": round(took, 1)},
            {"": "leaders as planned", "so": led == wanted},
            {"": "messages lost", "so": topic.messages - total},
        ]
    )  # fmt: skip
    demand(
        moved and same and np.isfinite(took) and led == wanted and total == topic.messages, "the way back, or on, fails"
    )


if __name__ == "__main__":
    run("kafka", "Kafka, live", __doc__, [leaders, replicas, back])
    sys.exit("; ".join(FAILED) or None)
