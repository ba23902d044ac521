"""Streams of tuples for the live topology, what the engine noted of them, and what the simulation says of the same tuples."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from cluster import Storm

import keyshift as ks
from keyshift.engines import storm as ours
from keyshift.spark_stats.hashing import storm_task

TASKS, SOURCES, GROUPS = 8, 4, 128
NOTED = np.dtype([("seq", ">i4"), ("tries", ">i4"), ("due", ">i8"), ("emitted", ">i8"), ("acked", ">i8")])
SERVED = np.dtype(
    [("key", ">i4"), ("source", ">i4"), ("seq", ">i4"), ("task", ">i4"), ("begin", ">i8"), ("end", ">i8")]
)


class Stream(NamedTuple):
    """Tuples in order: when each is due, in seconds, its key, and which spout sends it."""

    due: np.ndarray
    keys: np.ndarray
    source: np.ndarray
    seconds: float


def zipf(keys: int, exponent: float) -> np.ndarray:
    """Shares of the keys."""
    weights = np.arange(1, keys + 1.0) ** -exponent
    return weights / weights.sum()


def drawn(parts: list[tuple[float, float, np.ndarray]], seed: int, even: bool = False) -> Stream:
    """Poisson arrivals, part after part: seconds, tuples a second, and shares of the keys.

    `even` gives each key its share of a part's tuples, rounded at random, where chance would give it more or less.
    """
    rng, begin, found = np.random.default_rng(seed), 0.0, []
    for seconds, rate, shares in parts:
        count = rng.poisson(rate * seconds)
        keys = rng.choice(shares.size, count, p=shares)
        if even:
            edges = np.searchsorted(np.cumsum(shares), (np.arange(count) + rng.uniform()) / count)
            keys = rng.permutation(np.minimum(edges, shares.size - 1))
        found.append((begin + np.sort(rng.uniform(0, seconds, count)), keys))
        begin += seconds
    due, keys = (np.concatenate(one) for one in zip(*found, strict=True))
    return Stream(due, keys, rng.integers(SOURCES, size=due.size), begin)


def groups_of(keys: int) -> np.ndarray:
    """The key group of each key."""
    return storm_task(pa.array([f"k{k}" for k in range(keys)]), GROUPS)


class Table(NamedTuple):
    """A routing table: the task of each key group, and of listed keys the tasks."""

    groups: np.ndarray
    entries: dict[str, list[int]]

    def nodes(self, keys: int) -> np.ndarray:
        """The task of each key, the first of several."""
        nodes = self.groups[groups_of(keys)]
        for key, tasks in self.entries.items():
            nodes[int(key[1:])] = tasks[0]
        return nodes


HASH = Table(np.arange(GROUPS) % TASKS, {})


# The engine --------------------------------------------------------------------------------------------------------------


class Live:
    """A topology that runs one setting after another."""

    def __init__(self, storm: Storm, **given: object) -> None:
        self.storm, self.number, self.epoch, self.table = storm, 0, 0, HASH
        self.pkg = np.zeros((SOURCES, TASKS), int)
        """What Storm's `PartialKeyGrouping` counts at each spout from its start on, and goes by for good."""
        self.turns = np.tile(np.arange(TASKS), (SOURCES, 1))
        """The tasks to which Storm's shuffling sends next, spout by spout: each goes round in an order of its own, for good."""
        self.partial = -1
        storm.end_topology()
        storm.submit(tasks=TASKS, spouts=SOURCES, groups=GROUPS, **given)
        self.until(lambda: len(list(storm.out.glob("ready-*"))) == SOURCES, 180)

    @staticmethod
    def until(holds: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s")
            time.sleep(0.05)

    def fresh(self) -> str:
        """A stream whose partial key grouping has counted nothing yet."""
        self.partial += 1
        self.pkg[:] = 0
        return f"pkg{self.partial}"

    def switch(self, *tables: Table, wait: float | None = 120) -> float:
        """Put tables in force, one after another; seconds until all is done."""
        if self.epoch:  # a plan has to end before the next
            self.until(lambda: self.switched(self.epoch) == TASKS, 240)
        begin = time.monotonic()
        listed = [(table.groups.tolist(), table.entries) for table in (self.table, *tables)]
        scratch = self.storm.out / "plan.tmp"
        ours.write_tables(scratch, TASKS, self.epoch, listed)
        scratch.rename(self.storm.out / "plan.json")
        self.epoch, self.table = self.epoch + len(tables), tables[-1]
        if wait is not None:
            self.until(lambda: self.switched(self.epoch) == TASKS, wait)
        return time.monotonic() - begin

    def switched(self, epoch: int) -> int:
        """Tasks at which a table is in force and complete."""
        notes = (file.read_text().splitlines() for file in self.storm.out.glob("switched-*"))
        return sum(any(line.split()[1] == str(epoch) and line.endswith("true") for line in note) for note in notes)

    def begin(self, stream: Stream, way: str, us: int, pending: int = 0, pad: int = 0, pace: int = 0) -> float:
        """Let the sources begin with a stream soon: when, on the monotonic clock."""
        self.number += 1
        folder = self.storm.out / str(self.number)
        folder.mkdir()
        row = np.dtype([("due", "<i8"), ("key", "<i4")])
        for i in range(SOURCES):
            mine = stream.source == i
            rows = np.empty(mine.sum(), row)
            rows["due"], rows["key"] = stream.due[mine] * 1e9, stream.keys[mine]
            (folder / f"stream-{i}.bin").write_bytes(rows.tobytes())
        start = time.monotonic() + 1.0
        setting = {"id": self.number, "stream": way, "start": int(start * 1e9), "lasts": int(stream.seconds * 1e9), "us": us,
                   "pending": pending // SOURCES, "pad": pad, "pace": pace}  # fmt: skip
        scratch = self.storm.out / "control.tmp"
        scratch.write_text(json.dumps(setting))
        scratch.rename(self.storm.out / "control.json")
        return start

    def finish(self, start: float, stream: Stream, patience: float = 180, way: str = "") -> pd.DataFrame:
        """Wait until all that was sent is acknowledged: every tuple, with its times in seconds from the start."""
        folder = self.storm.out / str(self.number)
        self.until(lambda: len(list(folder.glob("done-*"))) == SOURCES, stream.seconds + patience)
        noted = [np.fromfile(folder / f"acked-{i}.bin", NOTED) for i in range(SOURCES)]
        acked = pd.concat([frame(rows).assign(source=i) for i, rows in enumerate(noted)])
        served = frame(np.concatenate([np.fromfile(file, SERVED) for file in sorted(folder.glob("served-*.bin"))]))
        served[["begin", "end"]] -= int(start * 1e9)
        made = served.merge(acked, on=["source", "seq"], how="left")
        made[["due", "emitted", "acked", "begin", "end"]] /= 1e9
        self.served(way, made)
        return made

    def served(self, way: str, made: pd.DataFrame) -> None:
        """Note where Storm's groupings have come to."""
        if way == "shuffle":
            rounds = made.sort_values("seq").groupby("source")["task"]
            self.turns = np.array([rounds.get_group(i).to_numpy()[-TASKS:] for i in range(SOURCES)])
        if way.startswith("pkg"):
            np.add.at(self.pkg, (made["source"].to_numpy(), made["task"].to_numpy()), 1)

    def sent(self, stream: Stream, grouping: str, table: Table) -> np.ndarray:
        """The task of each tuple, from what Storm's groupings have sent before."""
        return sent(stream, grouping, table, self.pkg if grouping.startswith("pkg") else None, self.turns)

    def run(self, stream: Stream, way: str, us: int, **given: int) -> pd.DataFrame:
        """One setting from its first tuple to its last."""
        return self.finish(self.begin(stream, way, us, **given), stream, way=way)


def frame(rows: np.ndarray) -> pd.DataFrame:
    """Records in this machine's byte order."""
    return pd.DataFrame({name: rows[name].astype(np.int64) for name in rows.dtype.names})


# The simulation ----------------------------------------------------------------------------------------------------------


class JavaRandom:
    """``java.util.Random``, for Storm's candidates of a key."""

    def __init__(self, seed: int) -> None:
        self.state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def below(self, bound: int) -> int:
        """``nextInt(bound)``."""
        while True:
            self.state = (self.state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
            bits = self.state >> 17
            if bound & (bound - 1) == 0:
                return (bound * bits) >> 31
            if bits - bits % bound + bound - 1 < 1 << 31:
                return bits % bound


def candidates(key: int) -> tuple[int, int]:
    """Both tasks that Storm's `PartialKeyGrouping` gives a key: drawn by ``Arrays.hashCode`` of the bytes of its hash code."""
    text = 0
    for letter in f"k{key}".encode():
        text = (31 * text + letter) & 0xFFFFFFFF
    code = 1
    for byte in text.to_bytes(4, "big"):
        code = (31 * code + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    random = JavaRandom(code - (1 << 32) if code >> 31 else code)
    first, second = random.below(TASKS), random.below(TASKS)
    return first, second if second != first else (second + 1) % TASKS


def sent(stream: Stream, way: str, table: Table, before: np.ndarray | None, turns: np.ndarray) -> np.ndarray:
    """The task of each tuple: by the table, by Storm's fields or partial key grouping, or in the turns of its spout.

    `before` is what each spout sent to each task before, by partial key grouping.
    """
    count = int(stream.keys.max()) + 1
    if way == "fields":
        return HASH.nodes(count)[stream.keys]
    if way == "shuffle":
        nodes = np.empty(stream.keys.size, int)
        for source, order in enumerate(turns):
            mine = np.flatnonzero(stream.source == source)
            nodes[mine] = np.resize(order, mine.size)
        return nodes
    allowed: dict[int, tuple[int, ...]] = {
        int(key[1:]): tuple(some) for key, some in table.entries.items() if len(some) > 1
    }
    nodes = table.nodes(count)[stream.keys]
    loads = np.zeros((SOURCES, TASKS), int) if before is None else before.copy()
    for at, (key, source) in enumerate(zip(stream.keys.tolist(), stream.source.tolist(), strict=True)):
        if way.startswith("pkg") and key not in allowed:
            allowed[key] = candidates(key)
        if key in allowed:
            nodes[at] = min(allowed[key], key=lambda task: loads[source, task])
        loads[source, nodes[at]] += 1
    return nodes


def predicted(stream: Stream, nodes: np.ndarray, us: int, **given: Any) -> ks.Simulation:
    """`ks.simulate` of the same tuples, each sent where `sent` says."""
    return ks.simulate((stream.due, np.arange(stream.keys.size)), nodes, service_rate=1e6 / us, nodes=TASKS, **given)
