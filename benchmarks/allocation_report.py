"""The table and the figures of benchmarks/allocation.py, from its allocation.csv."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

TIMES = (1, 5, 10, 30, 60)
LEAST = 1e-3
"""Where the figures' axis of distances begins, in percent."""
SCALING_IN = (
    "The integrated model has a good load distance long before draining first has, and 95 % of the key groups off the",
    "draining nodes in about the same time. The last few can stay: with one overloaded node they weigh some half a point of",
    "every kept node, and taking them in means mending most nodes at once, which 20 moves cannot, so that no period's best",
    "plan drains them. The paper's Lemma 4.2, that draining ends, is false for indivisible loads. More moves",
    "a period, or `drain-first` for the rest, ends it.",
)


def read(folder: Path) -> dict[tuple, dict[str, dict]]:
    """Setting -> method -> line."""
    found: dict[tuple, dict[str, dict]] = {}
    with (folder / "allocation.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            key = (int(row["nodes"]), int(row["key_groups"]), float(row["varies"]), int(row["limit"]), int(row["seed"]))
            found.setdefault(key, {})[row["method"]] = row
    return found


def best_rebalancer(methods: dict[str, dict]) -> dict | None:
    rows = [row for name, row in methods.items() if name.startswith("rebalancer") and row["distance"]]
    return min(rows, key=lambda row: float(row["distance"])) if rows else None


def gap(milp: dict) -> float:
    return max(0.0, float(milp["distance"]) - float(milp["bound"]))


def mean(rows: list[dict | None], field: str = "distance", digits: int = 3) -> str:
    values = [float(row[field]) for row in rows if row and row[field]]
    return f"{sum(values) / len(values):.{digits}f}" if values else "-"


def table(found: dict[tuple, dict[str, dict]]) -> list[str]:
    """One line a setting, means over the seeds; every distance in percent of the mean node load."""
    head = (
        "nodes / key groups | varies | moves | Flux | Rebalancer, best (s) | milp, same time | milp (s) | largest gap"
    )
    head += " | optimal | first answer (s) | plain HiGHS / its bound | plain CP-SAT / its bound | LP bound"
    lines = ["| " + head + " |", "|" + "---|" * (head.count("|") + 1)]
    for setting in sorted({key[:4] for key in found}):
        runs = [m for key, m in sorted(found.items()) if key[:4] == setting and "milp" in m]
        if not runs:
            continue
        milp = [m["milp"] for m in runs]
        rivals = [best_rebalancer(m) for m in runs]
        same = [m.get("milp, equal time") for m in runs]
        highs, cpsat, lp = ([m[name] for m in runs if name in m] for name in ("highs", "cp-sat", "lp"))
        lines.append(
            f"| {setting[0]} / {setting[1]} | {100 * setting[2]:.0f} % | {setting[3]} | {mean([m.get('flux') for m in runs])} "
            f"| {mean(rivals)} ({mean(rivals, 'seconds', 1)}) | {mean(same)} | {mean(milp)} ({mean(milp, 'seconds', 1)}) "
            f"| {max(gap(row) for row in milp):.4f} | {sum(row['proven'] == 'True' for row in milp)} of {len(milp)} "
            f"| {max(float(row['first']) for row in milp):.3f} | {mean(highs)} / {mean(highs, 'bound')} "
            f"| {mean(cpsat)} / {mean(cpsat, 'bound')} | {mean(lp, 'bound')} |"
        )
    return lines


def summary(found: dict[tuple, dict[str, dict]]) -> list[str]:
    """The counts that the table is read for, seed by seed, losses included."""
    lines = []
    for seed in sorted({key[4] for key in found}):
        mine = {key: m for key, m in found.items() if key[4] == seed and "milp" in m}
        if not mine:
            continue
        worse_flux = sum(float(m["milp"]["distance"]) > float(m["flux"]["distance"]) + 1e-6 for m in mine.values())
        pairs = [(m["milp, equal time"], best_rebalancer(m)) for m in mine.values() if "milp, equal time" in m]
        lost = sum(float(ours["distance"]) > float(theirs["distance"]) + 1e-6 for ours, theirs in pairs)
        allowed = max(float(m["milp"]["allowed"]) for m in mine.values())
        near = sum(gap(m["milp"]) <= 0.1 for m in mine.values())
        optimal = sum(m["milp"]["proven"] == "True" for m in mine.values())
        lines.append(
            f"- seed {seed}, at most {allowed:g} s: {near} of {len(mine)} settings proven within 0.1 points, {optimal} "
            f"optimal, largest gap {max(gap(m['milp']) for m in mine.values()):.4f}; worse than Flux on {worse_flux}; worse than "
            f"the best of Rebalancer's formulas at its time on {lost} of {len(pairs)}."
        )
    return lines


def draw(found: dict[tuple, dict[str, dict]], folder: Path) -> None:
    """Figures 2-4: load distance by time limit, a panel for each limit, with the bound."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    seed = min(key[4] for key in found)
    for name, nodes in (("fig2", 20), ("fig3", 40), ("fig4", 60)):
        figure, axes = plt.subplots(2, 4, figsize=(12, 5.5), sharex=True, layout="constrained")
        for row, varies in enumerate((0.2, 0.4)):
            for column, limit in enumerate((10, 20, 30, 40)):
                axis = axes[row, column]
                m = found.get((nodes, 20 * nodes, varies, limit, seed), {})
                panel(axis, m)
                axis.set_title(f"varies {100 * varies:.0f} %, {limit} moves", fontsize=10)
        for axis in axes[1]:
            axis.set_xlabel("time (s)")
        for axis in axes[:, 0]:
            axis.set_ylabel("load distance (%)")
        axes[0, 0].legend(fontsize=8)
        figure.suptitle(f"{nodes} nodes, {20 * nodes} key groups")
        figure.savefig(folder / f"allocation_{name}.png", dpi=90)
        plt.close(figure)


def over_time(row: dict) -> list[tuple[float, float]]:
    """The best distance at each of the paper's times; a proof holds for all later ones."""
    line = [(t, float(row[f"at_{t}"])) for t in TIMES if row[f"at_{t}"]]
    return line or [(max(1.0, float(row["seconds"])), float(row["distance"]))]


def panel(axis, m: dict[str, dict]) -> None:
    if "milp" not in m:
        return
    axis.plot(*zip(*over_time(m["milp"]), strict=True), "o-", color="C0", markersize=4, label="milp")
    axis.axhline(
        max(LEAST, float(m["milp"]["bound"])), color="C0", linestyle=":", label="its bound"
    )  # 0 has no place here
    if "flux" in m:
        axis.axhline(float(m["flux"]["distance"]), color="C3", linestyle="--", label="Flux")
    if rival := best_rebalancer(m):
        at = [float(rival["seconds"])], [float(rival["distance"])]
        axis.plot(*at, "D", color="C1", markersize=5, label="Rebalancer, best")
    for name, color, label in (("highs", "C2", "plain HiGHS"), ("cp-sat", "C4", "plain CP-SAT")):
        if m.get(name, {}).get("distance"):
            axis.plot(
                *zip(*over_time(m[name]), strict=True), "s-", color=color, markersize=3, linewidth=0.8, label=label
            )
    axis.set_xscale("log")
    axis.set_yscale("log")
    shown = [value for line in axis.lines for value in line.get_ydata() if value > LEAST]
    axis.set_ylim(0.7 * min(shown), 1.6 * max(shown))
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter("{x:g}")
        side.set_minor_formatter("")
    axis.set_yticks(_ticks(*axis.get_ylim()))


def _ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 times a power of ten within the axis; the powers alone where it spans many."""
    steps = (1, 2, 5) if high < 100 * low else (1,)
    return [step * 10.0**power for power in range(-4, 3) for step in steps if low <= step * 10.0**power <= high]


def large(folder: Path) -> list[str]:
    """The table of benchmarks/allocation_large.py, when it was run."""
    path = folder / "allocation_large.csv"
    if not path.exists():
        return []
    lines = [
        "## Large instances",
        "",
        "varies 40 %, seed 0; `benchmarks/allocation_large.py`. On the larger one Flux alone",
        "takes longer than a second.",
        "",
    ]
    lines += [
        "| nodes / key groups / moves | limit (s) | took (s) | load distance (%) | bound (%) | Flux | peak memory (GiB) |"
    ]
    lines += ["|" + "---|" * 7]
    with path.open(newline="") as file:
        for r in csv.DictReader(file):
            lines.append(
                f"| {r['nodes']} / {r['key_groups']} / {r['limit']} | {r['allowed']} | {r['seconds']} | {r['distance']} "
                f"| {r['bound']} | {r['flux']} | {r['memory']} |"
            )
    return [*lines, ""]


def scale_in(folder: Path) -> list[str]:
    """When benchmarks/allocation_scale_in.py was balanced and drained."""
    path = folder / "allocation_scale_in.csv"
    if not path.exists():
        return []
    lines = [
        "## Figure 5: scaling in",
        "",
        "`benchmarks/allocation_scale_in.py`: 60 nodes, ten to drain, 20 moves a period. First period with",
        "",
    ]
    lines += [
        "| overloaded nodes | method | distance <= 25 % | <= 10 % | <= 2 % | 90 % drained | all drained |",
        "|" + "---|" * 7,
    ]
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for hot, method in dict.fromkeys((r["overloaded"], r["method"]) for r in rows):
        mine = [
            (int(r["period"]), float(r["distance"]), int(r["left"]))
            for r in rows
            if (r["overloaded"], r["method"]) == (hot, method)
        ]
        first = [next((str(t) for t, d, _ in mine if d <= bar), f"not in {len(mine) - 1}") for bar in (25, 10, 2)]
        emptied = [
            next((str(t) for t, _, k in mine if k <= share * mine[0][2]), f"{mine[-1][2]} left") for share in (0.1, 0)
        ]
        lines.append(
            f"| {hot} | {'integrated (milp)' if method == 'milp' else method} | {' | '.join(first + emptied)} |"
        )
    lines += ["", "![Figure 5 of the paper](allocation_scale_in.png)", ""]
    return [*lines, *SCALING_IN]


def report(folder: Path) -> None:
    found = read(folder)
    text = [
        "# Key-group allocation, version 0.1.0",
        "",
        "Load distance in percent of the mean node load; instances of `keyshift.models.families.allocation`; made by",
        "`benchmarks/allocation.py`, one thread each. Wall times on two cores that other work shared (load average two",
        "to three). Rebalancer is Meta's 1.0.4 with single and swap moves, the best of its four balance formulas with",
        "that formula's time, and *milp, same time* had just as long. Plain HiGHS, CP-SAT and the LP solve the declarative",
        "statement of seed 0 in at most 30 s. *Largest gap* is over the seeds, in points.",
        "",
        *summary(found),
        "",
        *table(found),
        "",
        *(f"![Figure {k} of the paper](allocation_fig{k}.png)" for k in (2, 3, 4)),
        "",
        *large(folder),
        *scale_in(folder),
    ]
    (folder / "allocation.md").write_text("\n".join(text).rstrip() + "\n")
    draw(found, folder)


if __name__ == "__main__":
    report(Path(sys.argv[1]))
