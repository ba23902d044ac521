"""A real Kafka 4.3: from what its tools print to a plan, through its tools, and back.

``make kafka`` starts four brokers (KRaft, two log directories each, racks a a b b), fills topics, and lets a client write and read
all the while. Each case reads the cluster by Kafka's own tools, imports, plans and exports by our commands, runs the files phase
by phase, and runs them back. Messages are counted by the leader that took them, bytes by broker and directory; both must be as
predicted, to the message and to the byte, and the way back must be exact. Ends with 1 if anything is otherwise.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks' own modules

from cluster import RACKS, until
from operation import FAILED, QUIET, TOPICS, WORDS, Live, Place, Planned, State, demand, filled
from page import run

from keyshift.papers.page import Page

# The cases ---------------------------------------------------------------------------------------------------------------


class Table:
    """The rows of the page: a line a case, and a line a figure."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []

    def carried_out(
        self, live: Live, case: str, planned: Planned, before: State, messages: Counter[Place], back: bool = True
    ) -> None:
        """Run a plan, compare, and run it back."""
        begun = time.monotonic()
        wanted = planned.after(before)
        for number in planned.phases:
            live.phase(planned.out, number)
        now = live.state()
        until(lambda: live.state().held() == wanted.held(), "", 20) if now.held() != wanted.held() else None
        now = live.state()
        led: Counter[int] = Counter()
        for p, count in messages.items():
            led[wanted.leaders[p]] += count
        taken = live.send()
        exact = self._figures(
            case, "messages", {str(b): n for b, n in led.items()}, {str(b): n for b, n in taken.items()}
        )
        named = [{f"{b}:{Path(d).name}": n for (b, d), n in held.items()} for held in (wanted.held(), now.held())]
        exact &= self._figures(case, "bytes", *named)
        exact &= demand(all(now.lists[p] == r for p, r in wanted.lists.items()), f"{case}: lists are not as planned")
        row = {"case": case, "phases": len(planned.phases), "partitions": len(list(planned.lists()))}
        copies = _figure(planned.said, "replicas copied") + _figure(planned.said, "between directories")
        row |= {"copies": copies, "as predicted": exact}
        if back:
            row["back"] = self.back(live, case, planned, before)
        self.cases.append({**row, "seconds": round(time.monotonic() - begun, 1)})
        print(self.cases[-1], flush=True)

    def back(self, live: Live, case: str, planned: Planned, before: State) -> bool:
        """Run a plan back; whether lists, leaders and directories are what they were."""
        for number in reversed(planned.phases):
            live.phase(planned.out, number, "rollback")
        live.settled()
        now = live.state()
        same = demand(now.lists == before.lists, f"{case}: lists after the way back")
        moved = {p for p, _, _ in planned.lists()}
        leaders = {p: now.leaders[p] for p in moved}
        same &= demand(
            leaders
            == {
                p: before.lists[p][0] if (planned.out / "00-elect.json").exists() else before.leaders[p] for p in moved
            },
            f"{case}: leaders after the way back",
        )
        away = {k: (d, now.directories.get(k)) for k, d in before.directories.items() if now.directories.get(k) != d}
        return same & demand(not away, f"{case}: directories after the way back: {away}")

    def _figures(self, case: str, what: str, predicted: dict[str, int], measured: dict[str, int]) -> bool:
        for where in sorted({*predicted, *measured}):
            row = {
                "case": case,
                "figure": what,
                "where": where,
                "predicted": predicted.get(where, 0),
                "measured": measured.get(where, 0),
            }
            self.figures.append({**row, "difference": row["measured"] - row["predicted"]})
        wrong = [row for row in self.figures if row["case"] == case and row["figure"] == what and row["difference"]]
        return demand(not wrong, f"{case}: {wrong}")


def _figure(said: str, name: str) -> int:
    found = said.partition(f"{name} ")[2].split()
    return int(found[0].replace(",", "")) if found and found[0].replace(",", "").isdigit() else 0


def sent() -> Counter[Place]:
    return Counter({(t, n): count(n) for t, (r, count, _) in TOPICS.items() for n in range(len(r))})


TABLE, FINDINGS = Table(), list[dict[str, Any]]()


def found(what: str, holds: object, said: str = "") -> None:
    """A step of what was found on a real Kafka: whether it holds, and what was printed."""
    printed = " ".join(re.sub(r"/\S+/data-", "data-", said).split())
    FINDINGS.append({"step": what, "as it should be": bool(holds), "printed": printed[:150]})
    demand(holds, f"{what}: {said[-500:]}")
    print(FINDINGS[-1], flush=True)


def healthy(live: Live) -> None:
    """The cases of a cluster that is well."""
    first, files = live.cluster.keep("before.txt", live.cluster.tool("get-offsets", "--time", "-1")), None
    live.client.fill()
    last = live.cluster.keep("after.txt", live.cluster.tool("get-offsets", "--time", "-1"))
    offsets = f"--offsets {first} {last} --seconds 1 --topics '!stream,!__*'"
    for case, options, planning in (
        ("leaders only", offsets, "--max-migrations 8 --phase-moves 3"),
        ("leadership only, no copies", f"{offsets} --no-copies", ""),
        ("replicas with racks", f"--replicas {WORDS} {QUIET}", "--max-migrations 10 --phase-moves 4"),
        (
            "replication factor by the plan",
            f"--replicas {WORDS} {QUIET} --replication 'orders:3,audit-log:2,single:2'",
            "",
        ),
        ("directories of broker 1", f"--directories 1 {QUIET}", ""),
        ("directories of broker 3", f"--directories 3 {QUIET}", ""),
        ("a topic by pattern, broker 4 excluded", f"--replicas {WORDS} --topics 'o*,!stream' --excluded 4", ""),
    ):
        before = live.state()
        planned = live.planned(options, planning, files)
        TABLE.carried_out(live, case, planned, before, sent())
        if "excluded" in case:
            more = [p for p, r, _ in planned.lists() if 4 in r and 4 not in before.lists[p]]
            others = {p[0] for p, _, _ in planned.lists()} - {"orders"}
            found("an excluded broker gets nothing more, other topics stay", not more and not others)


def draining(live: Live) -> None:
    """A broker that drains: with each replica planned, and with leaders alone."""
    before = live.state()
    planned = live.planned(f"--replicas {WORDS} --draining 4")
    TABLE.carried_out(live, "broker 4 drains, internal topics too", planned, before, sent(), back=False)
    now = live.state()
    found(
        "a drained broker leads and holds nothing",
        not any(4 in r for r in now.lists.values()) and not any(b == 4 for _, b in now.directories),
    )
    TABLE.cases[-1]["back"] = TABLE.back(live, "broker 4 drains", planned, before)
    both = live.planned(f"--replicas {WORDS} --topics orders --draining 3,4").said
    found(
        "a drain that leaves partitions on fewer racks says so",
        "On fewer racks than before: 12" in both,
        both[both.find("On fewer") :],
    )
    before = live.state()
    planned = live.planned(f"--draining 4 {WORDS} {QUIET}")
    TABLE.carried_out(live, "broker 4 drains, leaders only, with racks", planned, before, sent(), back=False)
    now = live.state()
    fewer = [p for p, r in now.lists.items() if len({RACKS[b] for b in r}) < len({RACKS[b] for b in before.lists[p]})]
    found(
        "leaders only, draining, racks: no partition on fewer racks",
        not fewer and not any(now.leaders[p] == 4 for p in now.leaders if p[0] in TOPICS),
        str(fewer),
    )
    TABLE.cases[-1]["back"] = TABLE.back(live, "leaders drain", planned, before)
    some = live.cluster.keep(
        "some.txt",
        json.dumps(
            {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": before.lists["orders", 0]}]}
        ),
    )
    said = live.shell(
        f"import kafka --log-dirs {live.fetch()['log_dirs']} --assignment {some} --out {live.folder}/some"
    )
    found(
        "an assignment of some partitions names what it leaves",
        "Left where they are" in said,
        said[said.find("Left where") :],
    )


def in_flight(live: Live) -> None:
    """A reassignment under way is refused; after --cancel the rollback file and an election bring all back."""
    before, c = live.state(), live.cluster
    order = before.lists["orders", 7]
    goal = [b for b in (4, 2) if b not in order] or [4]
    file = c.keep(
        "00-reassign.json",
        json.dumps(
            {
                "version": 1,
                "partitions": [{"topic": "orders", "partition": 7, "replicas": goal, "log_dirs": ["any"] * len(goal)}],
            }
        ),
    )
    held = [before.directories[("orders", 7), b] for b in order]
    back = c.keep(
        "00-rollback.json",
        json.dumps(
            {"version": 1, "partitions": [{"topic": "orders", "partition": 7, "replicas": order, "log_dirs": held}]}
        ),
    )
    elect = c.keep("00-elect.json", json.dumps({"partitions": [{"topic": "orders", "partition": 7}]}))
    live.reassign(file, "--execute", "--throttle", 2_000)
    files = live.fetch()
    listed = c.keep("list.txt", c.tool("reassign-partitions", "--list"))
    for words in (
        f"--describe {files['describe']}",
        f"--assignment {files['assignment']}",
        f"--assignment {files['assignment']} --reassigning {listed}",
    ):
        said = live.shell(f"import kafka --log-dirs {files['log_dirs']} {words} --out {live.folder}/flight", code=2)
        found(f"in flight, refused by {words.split()[-2]}", "orders-7" in said and "--cancel" in said, said)
    live.reassign(file, "--cancel")
    until(lambda: "No partition reassignments" in c.tool("reassign-partitions", "--list").out, "not cancelled")
    after = live.state().lists["orders", 7]
    found(
        "--cancel: the same replicas, perhaps in another order", sorted(after) == sorted(order), f"{order} -> {after}"
    )
    live.reassign(back, "--execute")
    live.complete(back)
    live.elect(elect)
    now = live.state()
    found(
        "the rollback file and an election bring list, leader and directories back",
        now.lists["orders", 7] == order
        and now.leaders["orders", 7] == order[0]
        and all(now.directories[("orders", 7), b] == d for b, d in zip(order, held, strict=True)),
    )
    said = live.elect(elect)
    found("an election of leaders that lead says so", "Valid replica already elected" in said, said)
    said = live.reassign(file, "--verify", check=False).all
    found(
        "--verify of a list that did not come about says what is there",
        "There is no active reassignment" in said and "rather than" in said,
        said[said.find("There is no") :],
    )


def elsewhere(live: Live) -> None:
    """A broker is killed and comes back: others lead what it led. Loads are counted there, and every planned leader is elected."""
    live.cluster.kill(1)
    live.cluster.wait()
    until(lambda: 1 not in live.state().leaders.values(), "broker 1 still leads")
    live.cluster.start(1)
    live.cluster.wait()
    live.settled()
    before = live.state()
    led = [p for p, b in before.leaders.items() if b != before.lists[p][0] and p[0] in TOPICS]
    planned = live.planned(f"--loads {ones(live)} {QUIET}", "--max-migrations 0")
    found("leaders are elsewhere than the first of their lists", len(led) > 5, f"{len(led)} partitions")
    TABLE.carried_out(live, "leaders elsewhere: nothing moves, all are elected", planned, before, sent(), back=False)
    now = live.state()
    found(
        "every planned leader is elected, also those that the plan leaves",
        all(now.leaders[p] == now.lists[p][0] == before.leaders[p] for p in led),
    )
    TABLE.cases[-1]["back"] = TABLE.back(live, "leaders elsewhere", planned, before)


def ones(live: Live) -> Path:
    rows = [f"{t},{n},1" for t, (r, _, _) in TOPICS.items() for n in range(len(r))]
    return live.cluster.keep("ones.csv", "\n".join(["topic,partition,value", *rows, ""]))


def replaced(live: Live) -> None:
    """Broker 4 is killed, and broker 5, new and empty, takes its place."""
    before, files = live.state(), live.fetch("alive")
    live.cluster.kill(4)
    live.cluster.wait()
    live.cluster.start(5)
    live.cluster.wait()
    until(lambda: 4 not in live.state().leaders.values(), "broker 4 still leads")
    now = {
        **live.fetch(),
        "assignment": files["assignment"],
    }  # the lists are the same, and name the dead broker's directories
    planned = live.planned(f"--replicas --racks 1:a,2:a,3:b,4:b,5:b {QUIET}", "", now, "--racks 1:a,2:a,3:b,4:b,5:b")
    found("a broker that is down is named, and left", "Broker 4 did not answer" in planned.said, planned.said)
    TABLE.carried_out(live, "broker 4 killed, replaced by 5", planned, live.state(), sent(), back=False)
    said = live.reassign(planned.out / "00-rollback.json", "--execute", check=False)
    found(
        "a list that names a broker that is down: Unknown broker id",
        said.code == 1 and "Unknown broker id" in said.all,
        said.all.splitlines()[0] if said.all else "",
    )
    live.cluster.start(4)
    live.cluster.wait()
    TABLE.cases[-1]["back"] = TABLE.back(live, "broker 4 killed", planned, before)
    live.cluster.stop(5)
    live.cluster.wait()


def offline(live: Live) -> None:
    """Directory b of broker 4 goes offline while the broker runs."""
    before, folder = live.state(), live.cluster.directory(4, "b")
    aside = folder.with_name("b-aside")
    folder.rename(aside)
    folder.write_text("")
    until(
        lambda: not any(b == 4 and d == str(folder) for (_, b), d in live.state().directories.items()),
        "the directory is not noticed",
    )
    planned = live.planned(f"--replicas {WORDS} {QUIET}")
    found(
        "a directory that is offline is named, and what it held leaves first",
        f"Broker 4 cannot read {folder}" in planned.said,
        planned.said,
    )
    TABLE.carried_out(live, "directory b of broker 4 offline", planned, live.state(), sent(), back=False)
    live.cluster.kill(4)
    folder.unlink()
    aside.rename(folder)
    live.cluster.start(4)
    live.cluster.wait()
    TABLE.cases[-1]["back"] = TABLE.back(live, "directory offline", planned, before)


# A client all the while, and kills --------------------------------------------------------------------------------------

MOMENTS = (
    ("before --execute", "target"), ("while it copies", "target"), ("while it copies", "source"), ("while it copies", "controller"),
    ("before the election", "target"), ("after the election", "target"),
)  # fmt: skip
"""When a broker is killed, and which: one that gets a copy, one that leads what is copied, the leader of the controllers."""
BREAKS = ("in --execute", "between --execute and --verify", "in --verify", "in the election")
"""When the tool is killed."""


def victim(live: Live, file: Path, which: str) -> int:
    """The broker to kill."""
    if which == "controller":
        said = live.cluster.tool("metadata-quorum", "describe", "--status").out
        return int(next(line for line in said.splitlines() if line.startswith("LeaderId")).split()[-1])
    state = live.state()
    for each in json.loads(file.read_text())["partitions"]:
        p = each["topic"], each["partition"]
        if more := [b for b in each["replicas"] if b not in state.lists[p]]:
            return more[0] if which == "target" else state.leaders[p]
    return json.loads(file.read_text())["partitions"][0]["replicas"][0]


def disturbed(live: Live, file: Path, elect: Path, moment: str, which: str) -> dict[str, Any]:
    """A phase with a kill in it, taken up again: what was killed, and how often --execute had to be repeated."""
    c, limit = live.cluster, ("--throttle", 700_000)
    b = 0 if which == "the tool" else victim(live, file, which)

    def strike(now: str) -> None:
        if b and moment == now:
            c.kill(b)
            c.wait()  # until the controllers have noticed
            c.start(b)

    strike("before --execute")
    if moment == "in --execute":
        c.break_off("reassign-partitions", "--reassignment-json-file", file, "--execute", *limit)
    else:
        live.reassign(file, "--execute", *limit, check=False)
    strike("while it copies")
    if moment == "between --execute and --verify":
        c.kill_tools()
    if moment == "in --verify":
        c.break_off("reassign-partitions", "--reassignment-json-file", file, "--verify")
    c.wait()
    again = live.complete(file, again=True)
    strike("before the election")
    if moment == "in the election":
        c.break_off("leader-election", "--election-type", "PREFERRED", "--path-to-json-file", elect)
    c.wait()
    live.settled()
    live.elect(elect)
    strike("after the election")
    c.wait()
    live.settled()
    live.elect(elect)
    state, wanted = live.state(), json.loads(file.read_text())["partitions"]
    right = all(
        state.lists[w["topic"], w["partition"]] == w["replicas"]
        and state.leaders[w["topic"], w["partition"]] == w["replicas"][0]
        for w in wanted
    )
    return {
        "killed": f"broker {b}, {which}" if b else which,
        "when": moment,
        "file": file.name,
        "--execute again": again,
        "as planned": right,
    }


def all_kills(live: Live) -> None:
    """Brokers and tools are killed while the client's own topic moves with the others, there and back."""
    before = live.state()
    planned = live.planned(f"--replicas {WORDS} --topics '!__*'", "--max-migrations 24 --phase-moves 3")
    wanted = planned.after(before)
    there = [(planned.out / f"{n}-reassign.json", n) for n in planned.phases]
    back = [(planned.out / f"{n}-rollback.json", n) for n in reversed(planned.phases)]
    wishes = [*MOMENTS, *((when, "the tool") for when in BREAKS)]
    order = [*wishes, *MOMENTS[:4]]  # ten kills of brokers, four of the tool
    while order:
        for way, goal in ((there, wanted), (back, before)):
            for file, n in way:
                moment, which = order.pop(0) if order else ("never", "the tool")
                row = disturbed(live, file, planned.out / f"{n}-elect.json", moment, which)
                if moment != "never":
                    client = live.client.said()
                    row |= {
                        "acknowledged": client["acknowledged"],
                        "not read yet": client["missing"],
                        "twice": client["twice"],
                    }
                    demand(row["as planned"], f"kill: {row}")
                    KILLS.append(row)
                    print(row, flush=True)
            live.cluster.tool("leader-election", "--election-type", "PREFERRED", "--all-topic-partitions", check=False)
            now = live.state()
            demand(now.lists == goal.lists, "kills: lists are not as planned")
            demand(now.directories == goal.directories, "kills: directories are not as planned")


KILLS: list[dict[str, Any]] = []


CLUSTER = ExitStack()


@cache
def shared() -> Live:
    """The cluster and its client, the same for all parts: started by the first of them."""
    return CLUSTER.enter_context(filled())


def kills(page: Page) -> None:
    """A client all the while, and kills.

    A plan moves all topics, that of the client as well, there and back, a kill in each phase: brokers by kill -9, and the tool. The
    plan is taken up as ``STEPS.md`` says: *--execute again* is how often that was needed.
    """
    try:
        all_kills(shared())
    finally:
        page.table(KILLS, "kills")


def cases(page: Page) -> None:
    """Cases, predicted and measured.

    A line a case: whether messages by leader and bytes by broker and directory are as predicted, to the message and the byte, and
    whether lists, leaders and directories are exactly what they were after the way back. `kafka_figures.csv` has every figure.
    """
    try:
        for part in (healthy, draining, in_flight, elsewhere, replaced, offline):
            begun = time.monotonic()
            part(shared())
            print(f"-- {part.__name__}: {time.monotonic() - begun:.0f} s", flush=True)
    finally:
        page.table(TABLE.cases, "cases")
        page.keep(TABLE.figures, "figures")
        differ = sum(row["difference"] != 0 for row in TABLE.figures)
        page.say("", f"{len(TABLE.figures)} figures, of which {differ} differ.", "")
        page.table(FINDINGS, "findings")


def client(page: Page) -> None:
    """What the client sent and read in the end.

    It wrote 300 numbers a second all the while, acks=all and idempotent, and its group read them: none may be missing or come twice.
    """
    said = shared().client.end()
    page.table([{k: v for k, v in said.items() if k not in ("why", "errors")}], "client")
    demand(said["missing"] == said["twice"] == said["failed"] == 0, f"the client: {said}")


if __name__ == "__main__":
    with CLUSTER:
        run("kafka", "Kafka, live", __doc__, [kills, cases, client])
    sys.exit("; ".join(FAILED) or None)
