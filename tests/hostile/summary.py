"""What a run of the net found: counts by problem and method, and the smallest instance of every kind of failure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hostile.judge import HARD, SOFT
from hostile.runner import records

Key = tuple[str, str]


def read(out: Path) -> list[dict[str, Any]]:
    """All records of a directory, but for those of refusals, which may lie there, too."""
    return [r for path in sorted(out.glob("*.jsonl")) if path.stem != "refusals" for r in records(path)]


def table(found: Iterable[dict[str, Any]]) -> str:
    """Problem by method: instances, solves, every class of failure."""
    runs: Counter[Key] = Counter()
    instances: Counter[str] = Counter()
    codes: dict[str, Counter[str]] = defaultdict(Counter)
    statuses: Counter[tuple[str, str, str]] = Counter()
    wrong: dict[Key, Counter[str]] = defaultdict(Counter)
    for record in found:
        instances[record["problem"]] += 1
        codes[record["problem"]][record.get("code", "unknown")] += 1
        for verdict in record["runs"]:
            key = (record["problem"], verdict["method"])
            runs[key] += 1
            statuses[(*key, verdict["status"])] += 1
            wrong[key].update(kind for kind, _ in verdict["found"])
    lines = []
    for problem in instances:
        lines.append(f"{problem}: {instances[problem]:,} instances, by code {dict(codes[problem])}")
        for key in (k for k in runs if k[0] == problem):
            seen = [f"{statuses[(*key, s)]} {s}" for s in ("optimal", "feasible", "infeasible", "none", "refused")]
            hard = [f"{kind} {wrong[key][kind]}" for kind in HARD if wrong[key][kind]]
            soft = [f"{kind} {wrong[key][kind]}" for kind in SOFT if wrong[key][kind] and kind != "refused"]
            lines.append(f"  {key[1]:18} {runs[key]:7,}  {', '.join(seen)}")
            if hard:
                lines.append(f"      WRONG  {', '.join(hard)}")
            if soft:
                lines.append(f"      to see {', '.join(soft)}")
    total: Counter[str] = sum(wrong.values(), Counter())
    lines.append(f"all: {sum(instances.values()):,} instances, {sum(runs.values()):,} solves")
    lines.append("  " + ", ".join(f"{kind} {total[kind]}" for kind in (*HARD, *SOFT)))
    return "\n".join(lines)


def smallest(
    found: Iterable[dict[str, Any]], kinds: Iterable[str] = HARD
) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The shortest instance of every problem, method and class of failure."""
    chosen: dict[tuple[str, str, str], dict[str, Any]] = {}
    wanted = set(kinds)
    for record in found:
        for verdict in record["runs"]:
            for kind, said in verdict["found"]:
                key = (record["problem"], verdict["method"], kind)
                size = len(str(record.get("spec")))
                if kind in wanted and (key not in chosen or size < chosen[key]["size"]):
                    chosen[key] = {"size": size, "said": said, "spec": record["spec"], "verdict": verdict,
                                   "index": record["index"], "seed": record["seed"]}  # fmt: skip
    return chosen
