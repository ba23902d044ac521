"""A fixed stream through a real Flink, routed by each scheme: records at each subtask, throughput and latency, beside what was predicted."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from cluster import HERE, Flink, cluster

import keyshift as ks
from keyshift.engines import flink as ours
from keyshift.engines.flink_partitioner import Routing

SCHEMES = ("table", "hash", "shuffle", "pkg")


def stream(count: int, keys: int, exponent: float, seed: int) -> list[str]:
    """Words of a Zipf law."""
    share = 1 / np.arange(1, keys + 1) ** exponent
    return [f"w{k}" for k in np.random.default_rng(seed).choice(keys, count, p=share / share.sum())]


def rule_of(scheme: str, words: list[str], workers: int, path: Path) -> tuple[Routing, ks.Solution | None]:
    """The rule, written for the job; for "table" the exact mixed routing, with the loads that it promises."""
    if scheme != "table":
        ours.write_routing(scheme, path)
        return Routing.load(str(path)), None
    counts = Counter(words)
    keys = sorted(counts)
    home = ours.homes(keys, workers)
    w = ks.Workload(
        load=[counts[k] for k in keys],
        state=[counts[k] for k in keys],
        current=home,
        home=home,
        nodes=workers,
        keys=keys,
    )
    best = counts.most_common(1)[0][1] / (len(words) / workers) - 1
    solution = ks.solve(ks.MixedRouting(w, theta_max=max(0.02, 1.01 * best)), time_limit=20)
    ours.write_routing(solution, path)
    return Routing.load(str(path)), solution


def run(flink: Flink, folder: Path, words: list[str], routing: Path, workers: int, delay: float) -> dict[str, Any]:
    """One run: what the REST API counted, and what the workers noted."""
    notes = Path(tempfile.mkdtemp(dir=folder))
    job = flink.run(
        "-py", str(HERE / "routed_job.py"), "-pyfs", ours.partitioner_file(), "--words", str(folder / "words.json"),
        "--count", str(len(words)), "--routing", str(routing), "--workers", str(workers), "--delay", str(delay), "--folder", str(notes),
    )  # fmt: skip
    about = flink.ask(f"/jobs/{job}")
    vertex = next(v for v in about["vertices"] if v["parallelism"] == workers)
    seen = flink.ask(f"/jobs/{job}/vertices/{vertex['id']}")
    records = [s["metrics"]["read-records"] for s in sorted(seen["subtasks"], key=lambda s: s["subtask"])]
    noted = [json.loads(file.read_text()) for file in notes.iterdir()]
    took = max(n["last"] for n in noted if n["records"]) - min(n["first"] for n in noted if n["records"])
    latencies = np.concatenate([np.array(n["latencies"]) for n in noted])
    return {
        "records": records, "keys": sum(n["keys"] for n in noted), "throughput": len(words) / took,
        "p50": float(np.quantile(latencies, 0.5)), "p99": float(np.quantile(latencies, 0.99)), "job": job, "answers": (about, seen),
    }  # fmt: skip


def imbalance(records: list[int]) -> float:
    """The busiest subtask above the mean, as a share of the mean."""
    return max(records) * len(records) / sum(records) - 1


def measure(flink: Flink, given: argparse.Namespace) -> list[dict[str, Any]]:
    """All schemes, so many runs each."""
    rows = []
    words = stream(given.count, given.keys, given.exponent, given.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "words.json").write_text(json.dumps(words))
        for scheme in SCHEMES:
            rule, solution = rule_of(scheme, words, given.workers, folder / f"{scheme}.json")
            sent = Counter(rule.partition(word, given.workers) for word in words)
            predicted = [sent[i] for i in range(given.workers)]
            if solution is not None:
                loads = np.bincount(solution.assignment, solution.problem.workload.last_load, given.workers)
                assert predicted == loads.astype(int).tolist(), "the rule is not the plan"
            runs = [
                run(flink, folder, words, folder / f"{scheme}.json", given.workers, given.delay)
                for _ in range(given.runs)
            ]
            rows.append({
                "scheme": scheme, "predicted": predicted, "equal": all(r["records"] == predicted for r in runs),
                "imbalance": imbalance(predicted), "measured": imbalance(runs[0]["records"]), "keys": runs[0]["keys"],
                **{name: [r[name] for r in runs] for name in ("throughput", "p50", "p99")}, "answers": runs[-1]["answers"],
            })  # fmt: skip
            print(line(rows[-1]), flush=True)
    return rows


HEAD = "| scheme | predicted imbalance | measured | records of each worker | keys held | records a second | p50 s | p99 s |\n|---|---|---|---|---|---|---|---|"


def line(row: dict[str, Any]) -> str:
    """A row of the table: three runs as least - most."""

    def spread(values: list[float]) -> str:
        return f"{min(values):.3g} - {max(values):.3g}"

    same = "as predicted" if row["equal"] else "OTHERWISE"
    return (
        f"| {row['scheme']} | {100 * row['imbalance']:.2f} % | {100 * row['measured']:.2f} % | {same} | {row['keys']} | "
        f"{spread(row['throughput'])} | {spread(row['p50'])} | {spread(row['p99'])} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--exponent", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--delay", type=float, default=0.001)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--answers", type=Path, help="keep what the REST API said of the last run")
    given = parser.parse_args()
    print(HEAD)
    with cluster(slots=given.workers) as flink:
        rows = measure(flink, given)
    if given.answers is not None:
        given.answers.mkdir(parents=True, exist_ok=True)
        for name, content in zip(("job", "vertex"), rows[-1]["answers"], strict=True):
            (given.answers / f"{name}.json").write_text(json.dumps(content) + "\n")
    return int(not all(row["equal"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
