"""The table and the figures of benchmarks/allocation.py, from its allocation.csv."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

TIMES = (1, 5, 10, 30, 60)


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


def number(row: dict | None, field: str = "distance") -> str:
    return f"{float(row[field]):.3f}" if row and row[field] else "-"


def table(found: dict[tuple, dict[str, dict]]) -> list[str]:
    """One line a setting; every distance in percent of the mean node load."""
    head = "nodes / key groups | varies | limit | seed | flux | rebalancer, best (s) | milp, same time | milp (s)"
    head += " | bound | gap | first (s) | highs / its bound | cp-sat / its bound | lp bound"
    lines = ["| " + head + " |", "|" + "---|" * (head.count("|") + 1)]
    for key in sorted(found):
        m = found[key]
        milp, rival, highs, cpsat = m.get("milp"), best_rebalancer(m), m.get("highs"), m.get("cp-sat")
        if milp is None:
            continue
        gap = max(0.0, float(milp["distance"]) - float(milp["bound"]))
        lines.append(
            f"| {key[0]} / {key[1]} | {100 * key[2]:.0f} % | {key[3]} | {key[4]} | {number(m.get('flux'))} "
            f"| {number(rival)} ({number(rival, 'seconds')}) | {number(m.get('milp, equal time'))} "
            f"| {number(milp)} ({float(milp['seconds']):.1f}) "
            f"| {number(milp, 'bound')} | {gap:.3f}{' proven' if gap < 1e-4 else ''} "
            f"| {number(milp, 'first')} | {number(highs)} / {number(highs, 'bound')} "
            f"| {number(cpsat)} / {number(cpsat, 'bound')} | {number(m.get('lp'), 'bound')} |"
        )
    return lines


def summary(found: dict[tuple, dict[str, dict]]) -> list[str]:
    """The counts that the table is read for, seed by seed, losses included."""
    lines = []
    for seed in sorted({key[4] for key in found}):
        mine = {key: m for key, m in found.items() if key[4] == seed and "milp" in m}
        gaps = [max(0.0, float(m["milp"]["distance"]) - float(m["milp"]["bound"])) for m in mine.values()]
        worse_flux = sum(float(m["milp"]["distance"]) > float(m["flux"]["distance"]) + 1e-6 for m in mine.values())
        pairs = [(m["milp, equal time"], best_rebalancer(m)) for m in mine.values() if "milp, equal time" in m]
        lost = sum(float(ours["distance"]) > float(theirs["distance"]) + 1e-6 for ours, theirs in pairs)
        allowed = max(float(m["milp"]["allowed"]) for m in mine.values())
        near, optimal = sum(g <= 0.1 for g in gaps), sum(g < 1e-4 for g in gaps)
        lines.append(
            f"- seed {seed}, at most {allowed:g} s: {near} of {len(gaps)} settings proven within 0.1 points, {optimal} "
            f"optimal; worse than Flux on {worse_flux}; worse than the best of Rebalancer's formulas at its time on "
            f"{lost} of {len(pairs)}."
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


def panel(axis, m: dict[str, dict]) -> None:
    milp = m.get("milp")
    if milp is None:
        return
    done = float(milp["distance"])
    line = [(t, float(milp[f"at_{t}"])) for t in TIMES if milp[f"at_{t}"]]
    if line and line[-1][0] < max(TIMES) and milp["proven"] == "True":
        line.append((max(TIMES), done))
    axis.plot(*zip(*line, strict=True), "o-", color="C0", markersize=4, label="milp")
    axis.axhline(float(milp["bound"]), color="C0", linestyle=":", label="its bound")
    if "flux" in m:
        axis.axhline(float(m["flux"]["distance"]), color="C3", linestyle="--", label="Flux")
    if rival := best_rebalancer(m):
        axis.plot(
            [float(rival["seconds"])],
            [float(rival["distance"])],
            "D",
            color="C1",
            markersize=5,
            label="Rebalancer, best",
        )
    for name, color in (("highs", "C2"), ("cp-sat", "C4")):
        if m.get(name, {}).get("distance"):
            axis.plot(
                [float(m[name]["seconds"])],
                [float(m[name]["distance"])],
                "s",
                color=color,
                markersize=4,
                label=f"plain {name}",
            )
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)


def report(folder: Path) -> None:
    found = read(folder)
    text = [
        "# Key-group allocation, version 0.1.0",
        "",
        "Load distance in percent of the mean node load; instances of `keyshift.models.allocation.generate`; made by",
        "`benchmarks/allocation.py` and `benchmarks/allocation_scale_in.py`, one thread each. Times are wall times on",
        "two cores that other work kept busy (load average around ten): compare within a row.",
        "Figures 2-4 of the paper are allocation_fig2.png to allocation_fig4.png, Figure 5 is allocation_scale_in.png.",
        "",
        *summary(found),
        "",
        *table(found),
    ]
    (folder / "allocation.md").write_text("\n".join(text) + "\n")
    draw(found, folder)


if __name__ == "__main__":
    report(Path(sys.argv[1]))
