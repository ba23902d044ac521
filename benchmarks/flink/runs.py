"""One run of a routed job on a real Flink: what the REST API counted, what the workers noted, and what was predicted."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cluster import Flink

from keyshift.engines import flink as ours
from keyshift.engines.flink_partitioner import Routing

sys.path.append(str(Path(__file__).parents[1]))  # the other benchmarks' own modules
from keyshift.papers.markdown_table import markdown

RATE = 4_000
"""Records a second that the sources offer: about what two idle cores carry of Python."""


@dataclass
class Live:
    """A running Flink, a client for its jobs, and a folder for what they say."""

    flink: Flink
    submit: Callable[[dict[str, Any]], str]
    folder: Path
    out: Path
    runs: int = 3
    count: int = 8_000
    slow: float = 1
    period: float = 10

    def place(self, name: str, content: Any) -> str:
        """A file for a job."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def run(self, words: list[str], routing: Path, workers: int, delay: float, sources: int = 8, **more: Any) -> Run:
        """Send the words; by the routing, to so many workers, which sleep `delay` seconds over each."""
        notes = Path(tempfile.mkdtemp(dir=self.folder))
        job = self.submit({
            "name": routing.stem, "words": self.place("words", words), "count": len(words), "rate": RATE / self.slow, "routing": str(routing),
            "workers": workers, "delay": delay * self.slow, "sources": sources, "folder": str(notes), **more,
        })  # fmt: skip
        self.flink.wait(job)
        seen = ours.read_workload(self.flink.rest, job, vertex="work")  # by the REST API, as of anybody's job
        records = np.bincount(seen.current, seen.last_load, workers).round().astype(int).tolist()
        noted = [note for file in notes.iterdir() if (note := json.loads(file.read_text()))["latencies"]]
        return Run(records, noted, predicted(words, routing, workers, sources))

    def say(self, name: str, rows: list[dict[str, Any]]) -> bool:
        """Print a table, and keep it; whether everything was as predicted."""
        frame = pd.DataFrame(rows)
        frame.to_csv(self.out / f"flink-{name}.csv", index=False)
        print(f"\n{name}\n\n{markdown(frame)}\n", flush=True)
        return all(row["as predicted"] for row in rows)


@dataclass
class Run:
    """A finished run."""

    records: list[int]
    noted: list[dict[str, Any]]
    predicted: list[int]

    @property
    def figures(self) -> dict[str, float]:
        """Throughput in records a second, latencies in milliseconds since a record was due, keys held by all workers."""
        took = max(n["last"] for n in self.noted) - min(n["first"] for n in self.noted)
        latencies = 1000 * np.concatenate([n["latencies"] for n in self.noted])
        p50, p99 = np.quantile(latencies, [0.5, 0.99])
        held, sent = (sum(n[name] for n in self.noted) for name in ("held", "sent"))
        return {"records/s": sum(self.records) / took, "mean ms": latencies.mean(), "p50 ms": p50, "p99 ms": p99,
                "keys held": held, "handed on": sent}  # fmt: skip

    @property
    def counts(self) -> Counter[str]:
        """The words, as the workers counted them."""
        return sum((Counter(n["counts"]) for n in self.noted), Counter())


def imbalance(records: list[int]) -> float:
    """The busiest subtask above the mean, in percent of the mean."""
    return 100 * (max(records) * len(records) / sum(records) - 1)


def predicted(words: list[str], routing: Path, workers: int, sources: int) -> list[int]:
    """Records of each worker, if each source sends its part of the stream by the rule."""
    sent: Counter[int] = Counter()
    for part in np.array_split(np.array(words), sources):
        rule = Routing.load(str(routing))
        sent.update(rule.partition(str(word), workers) for word in part)
    return [sent[i] for i in range(workers)]


def row(runs: list[Run]) -> dict[str, Any]:
    """Several runs as a row: the middle one, and least - most."""
    figures = pd.DataFrame([run.figures for run in runs])

    def spread(name: str, digits: int = 0) -> str:
        v = sorted(figures[name])
        return f"{v[len(v) // 2]:,.{digits}f} ({v[0]:,.{digits}f} - {v[-1]:,.{digits}f})"

    return {
        "predicted imbalance %": round(imbalance(runs[0].predicted), 2),
        "measured %": round(imbalance(runs[0].records), 2),
        "as predicted": all(run.records == run.predicted for run in runs),
        **{name: spread(name) for name in ("records/s", "mean ms", "p50 ms", "p99 ms")},
        "keys held": int(figures["keys held"].median()),
    }  # fmt: skip


def draw(shares: np.ndarray, count: int, seed: int) -> list[str]:
    """A stream of words w0, w1, ... by their shares."""
    return [f"w{k}" for k in np.random.default_rng(seed).choice(shares.size, count, p=shares / shares.sum())]


def zipf(keys: int, exponent: float) -> np.ndarray:
    """Shares of a Zipf law."""
    return np.arange(1, keys + 1.0) ** -exponent
