"""The instances of the table of best known answers, over all eleven problems: solve them, add what is better, and check it all.

python benchmarks/best_known.py --out out/best_known            solve, resumable; --minutes 9 stops after so long
python benchmarks/best_known.py --out out/best_known --update   write what is better into docs/benchmarks
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.files.problem import problem_fingerprint
from keyshift.models import Problem
from keyshift.papers.markdown_table import markdown
from keyshift.studies.tables import BestKnown
from keyshift.version import __version__

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
TABLE = FOLDER / "best_known.csv"
LIMIT = 2.0
TASKS = ["ties", "giant", "two-scales", "boundary"]

INSTANCES: dict[str, list[tuple[str, dict[str, object]]]] = {
    "key-group-allocation": [
        ("hard-allocation", {"count": 3}),
        ("madsen-allocation", {"nodes": 10, "key_groups": 100, "max_migrations": [5, 10], "count": 6}),
        ("madsen-allocation", {"count": 4}),
        ("madsen-scale-in", {"nodes": 20, "key_groups": 200, "drain": 4, "count": 6}),
        ("flights-allocation", {"count": 6}),
    ],
    "collocated-allocation": [
        ("hard-collocation", {"count": 4}),
        ("madsen-collocation", {"nodes": 6, "key_groups": 48, "one_to_one": [0.25, 0.5, 0.75, 1.0], "count": 5}),
        ("madsen-collocation", {"nodes": 10, "key_groups": 120, "count": 3}),
    ],
    "mclb": [
        ("hard-mclb", {"count": 4}),
        ("guo-mclb", {"keys": ["gaussian", "zipf"], "nodes": 4, "key_groups": 24, "windows": 12,
                      "share_moved": [0.1, 0.3], "count": 4}),
        ("guo-mclb", {"keys": ["gaussian", "zipf"], "drift": [0.0, 0.3], "share_moved": 0.2, "count": 2}),
    ],
    "movement-within-limits": [
        ("hard-movement", {"count": 6}),
        ("guo-movement", {"keys": ["gaussian", "zipf"], "width": [0.05, 0.2], "count": 6}),
    ],
    "replicated-allocation": [
        ("hard-replicas", {"count": 5}),
        ("zipf-replicas", {"nodes": [3, 4], "key_groups": [12, 24], "exponent": [0.8, 1.2], "count": 4}),
    ],
    "key-splitting": [
        ("hard-splitting", {"count": 4, "messages": 1000}),
        ("nasir-splitting", {"messages": 2000, "keys": 300, "exponent": [0.8, 1.4], "workers": [5, 10], "count": 6}),
    ],
    "key-placement": [
        ("hard-placement", {"count": 4}),
        ("nasir-placement", {"messages": 5000, "keys": [100, 300], "exponent": [0.8, 1.4], "count": 6}),
    ],
    "mixed-routing": [
        ("hard-routing", {"count": 6}),
        ("fang-routing", {"keys": [500, 1000], "nodes": 5, "theta_max": [0.02, 0.08], "max_table_size": 300, "count": 5}),
        ("flights-routing", {"count": 2}),
    ],
    "interval-migration": [
        ("hard-step", {"kind": TASKS, "count": 6}),
        ("ding-step", {"tasks": [32, 64], "nodes_after": [6, 10], "count": 6}),
    ],
    "migration-sequence": [
        ("hard-sequence", {"kind": TASKS, "count": 6}),
        ("ding-sequence", {"tasks": [24, 32], "changes": [2, 5], "count": 6}),
    ],
    "migration-policy": [
        ("hard-policy", {"kind": TASKS, "count": 6}),
        ("ding-policy", {"tasks": [12, 16], "discount": [0.8, 0.95], "count": 6}),
    ],
}  # fmt: skip


def drawn(problem: str) -> Iterator[tuple[str, Problem]]:
    """The instances of one problem, each once: where all is alike, several seeds draw the same."""
    seen = set()
    for family, parameters in INSTANCES[problem]:
        for name, drawn_problem in ks.family(family, **parameters):  # type: ignore[arg-type]
            if (mark := problem_fingerprint(drawn_problem)) not in seen:
                seen.add(mark)
                yield name, drawn_problem


def figures(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each problem and method: shares and mean gaps in percent."""
    rows = []
    for (problem, method), part in frame.groupby(["problem", "method"], sort=False):
        above, gap = part["above_best_known"], part["gap"]
        rows.append(
            {
                "version": __version__, "problem": problem, "method": method, "kind": part["kind"].iloc[0],
                "instances": len(part), "answered": int(above.notna().sum()),
                "proven": int((part["status"] == "optimal").sum()),
                "optimal": int((gap <= 1e-6).sum()),
                "best": int(part["won"].sum()), "within_1": int((above <= 0.01).sum()),
                "within_10": int((above <= 0.1).sum()), "above_best_known": 100 * above.mean(), "gap": 100 * gap.mean(),
                "worst_gap": 100 * gap.max(),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def write_release(frame: pd.DataFrame) -> None:
    """Put this version's rows into the table of releases, and write its page."""
    file = FOLDER / "releases.csv"
    known = pd.read_csv(file) if file.exists() else pd.DataFrame()
    others = known[known["version"] != __version__] if len(known) else known
    rows = pd.concat([others, figures(frame)], ignore_index=True)
    rows.to_csv(file, index=False, lineterminator="\n", float_format="%.4f")
    now = rows[(rows["version"] == __version__) & (rows["kind"] == "heuristic")]
    _draw(now, FOLDER / "releases.png")
    entries = BestKnown.read(TABLE).to_frame()
    closed = entries["bound"] >= entries["objective"] * (1 - 1e-6) - 1e-12
    page = PAGE.format(
        versions=beside("A row a version"), answers=beside("The same answers by seed?"), seconds=beside("Seconds of the defaults"),
        entries=len(entries), closed=int(closed.sum()), version=__version__,
        counts=markdown(entries.assign(closed=closed).groupby("problem", sort=False).agg(
            instances=("instance", "size"), proven=("closed", "sum")).loc[list(INSTANCES)].reset_index()),
        heuristics=markdown(now.assign(source=[_source(p, m) for p, m in zip(now["problem"], now["method"], strict=True)])[
            ["problem", "method", "source", "instances", "answered", "optimal", "best", "within_1", "within_10",
             "above_best_known", "gap"]].rename(columns={
                 "answered": "allowed answer", "optimal": "certainly optimal", "best": "as good as best known",
                 "within_1": "within 1 %", "within_10": "within 10 %", "above_best_known": "above best known, mean %",
                 "gap": "gap to bound, mean %"}).round(2)),
    )  # fmt: skip
    (FOLDER / "releases.md").write_text(page)


def beside(title: str) -> str:
    """What `benchmarks/versions.py` wrote of the releases side by side under a title."""
    page = (Path(__file__).parent / "results" / __version__ / "versions.md").read_text()
    return page.split(f"## {title}\n")[1].split("\n## ")[0].strip()


def _source(problem: str, method: str) -> str:
    return next(m.source for m in FORMULATIONS[problem].methods if m.name == method)


def _draw(rows: pd.DataFrame, file: Path) -> None:
    """How often each heuristic is as good as the best known answer, within 1 %, within 10 %."""
    figure, axes = plt.subplots(figsize=(7.5, 0.21 * len(rows) + 1.2), layout="constrained")
    names = [f"{row.problem}: {row.method}" for row in rows.itertuples()]
    left = pd.Series(0.0, index=rows.index)
    for name, label, colour in (
        ("best", "as good as best known", "#0072B2"), ("within_1", "within 1 %", "#56B4E9"),
        ("within_10", "within 10 %", "#B8DDF2"), ("answered", "further away", "#E69F00"),
    ):  # fmt: skip
        share = 100 * rows[name] / rows["instances"]
        axes.barh(names, (share - left).clip(lower=0), left=left, color=colour, label=label)
        left = share.clip(lower=left)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.margins(y=0.01)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("instances, in percent (white: no answer to this problem that keeps the rules)")
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)
    plt.close(figure)


PAGE = """# Releases, against the best known answers

{entries} instances of all eleven problems are kept with the best answer and the highest bound that anybody has found, who found them, and in which version:
{{download}}`best_known.csv`, and the answers themselves, {{download}}`best_known.answers.json`. {closed} of them are closed: the answer is proven optimal, to a
millionth. Every instance can be drawn again by its name, `ks.family("hard-step(kind=ties)/3")`, and `make best-known` draws them all, checks every answer
without any solver and holds every bound against it.

{counts}

A study compares itself with the table, and says what it finds better:

```console
$ keyshift study "hard-step(kind=ties)/3" --best docs/benchmarks/best_known.csv
$ keyshift study hard-mclb --time-limit 60 --best docs/benchmarks/best_known.csv --update-best
```

## One row a version

The default of each version (what `ks.solve` takes), one processor second for each instance, all in one run on one machine (`benchmarks/versions.py`):

{versions}

## The same answers by seed

{answers}

## Seconds of the defaults

{seconds}

## The heuristics of the papers ({version})

On how many of the instances each heuristic keeps the rules, is certainly optimal (its value is the best bound), is as good as the best known answer, within
1 % and within 10 % of it:

![For each heuristic, the share of the instances on which it is as good as the best known answer, within 1 % and within 10 %](releases.png)

{heuristics}

A heuristic that answers another problem - D-Choices may use more workers than a key's candidates - or that knows nothing of a limit is allowed only where that happens
not to matter. Many of the instances are hard on purpose. Every number, of the exact methods and relaxations too: {{download}}`releases.csv`. Made by `benchmarks/best_known.py`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/best_known"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=LIMIT)
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--only", choices=list(INSTANCES), nargs="*", default=list(INSTANCES))
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--release", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.check:
        known = BestKnown.read(TABLE)
        wrong = known.wrong()
        print(*wrong, f"{len(known.entries)} instances drawn, {len(wrong)} defects", sep="\n")
        raise SystemExit(bool(wrong))
    frames = []
    for name in args.only:
        began = time.perf_counter()
        done = ks.study(
            drawn(name),
            args.methods,
            time_limit=args.time_limit,
            out=args.out / name,
            workers=args.workers,
            best_known=TABLE,
        )
        print(f"{name}: {done}, {time.perf_counter() - began:.0f} s", flush=True)
        for sentence in done.contradictions():
            print("  contradiction:", sentence, flush=True)
        for sentence in done.update_best(TABLE) if args.update else done.improvements():
            print("  better:", sentence, flush=True)
        frames.append(done.to_frame())
    if args.release:
        write_release(pd.concat(frames))


if __name__ == "__main__":
    main()
