"""The page and the figures of the interval benchmark."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from markdown_table import markdown


def figures(out: Path, tables: dict[str, pd.DataFrame]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    looks = {"storm": "s:", "redist": "^:", "consistent-hashing": "v:", "ssm": "o-", "mtm": "D-"}
    names = {
        "storm": "Storm",
        "redist": "Redist (outline)",
        "consistent-hashing": "consistent hashing",
        "ssm": "SSM",
        "mtm": "MTM",
    }
    tau, gamma, m = tables["by_tau"], tables["by_gamma"], tables["by_tasks"]
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.2), layout="constrained")
    for name, look in looks.items():
        axes[0, 0].plot(tau["tau"], 100 * tau[name], look, label=names[name])
    axes[0, 0].set(
        xlabel="tau: load above the mean",
        ylabel="state moved, % of all",
        title="Figure 12: cost of a migration",
        yscale="log",
    )
    axes[0, 0].set_yticks([3, 5, 10, 20, 50], labels=["3", "5", "10", "20", "50"])
    axes[0, 0].minorticks_off()
    axes[0, 0].legend(fontsize=8, loc="center right", bbox_to_anchor=(1.0, 0.72))
    axes[0, 1].plot(tau["tau"], tau["ssm_ms"], "o-")
    axes[0, 1].set(xlabel="tau", ylabel="ms", title="Figure 13: time of SSM (kernel)", ylim=(0, None))
    known = tau.dropna(subset=["precompute_s"]) if "precompute_s" in tau else tau[:0]
    axes[0, 2].plot(known["tau"], known["precompute_s"], "D-", color="C1")
    for _, row in known.iterrows():
        axes[0, 2].annotate(
            f"{row['partitions'] / 1e3:,.0f}k",
            (row["tau"], row["precompute_s"]),
            textcoords="offset points",
            xytext=(0, 6),
            ha="center",
            fontsize=7,
        )
    axes[0, 2].set(xlabel="tau", ylabel="s", title="Figure 14: precomputation of MTM\n(labels: partitions)")
    axes[1, 0].plot(m["m"], m["band_ms"], "o-", label="band dynamic program")
    axes[1, 0].plot(m["m"], m["figure_7_repaired_ms"], "x--", label="Figure 7, repaired")
    axes[1, 0].set(xscale="log", yscale="log", xlabel="m: tasks", ylabel="ms", title="Figure 15: time of SSM")
    axes[1, 0].legend(fontsize=8)
    axes[1, 1].plot(m["m"], 100 * m["ssm"], "o-")
    axes[1, 1].set(
        xscale="log", xlabel="m: tasks", ylabel="state moved, % of all", title="Figure 15: cost of SSM", ylim=(0, None)
    )
    axes[1, 2].plot(gamma["gamma"], 100 * gamma["mtm"], "D-", color="C1")
    axes[1, 2].set(xlabel="gamma: discount", title="Figure 17: MTM")
    axes[1, 2].set_ylabel("state moved, % of all (solid)", color="C1")
    right = axes[1, 2].twinx()
    right.plot(gamma["gamma"], gamma["precompute_s"], "k.--", alpha=0.5)
    right.set_ylabel("precomputation, s (dashed)")
    right.set_ylim(0, None)
    figure.savefig(out / "intervals.png", dpi=90)


def report(out: Path, tables: dict[str, pd.DataFrame], told: str) -> None:
    lines = ["# Interval migration", "", told, ""]
    titles = {
        "by_tau": "Figures 12-14: tau. Costs are the mean share of all the state that a migration moves",
        "by_gamma": "Figure 17: the discount", "by_tasks": "Figure 15: the number of tasks",
        "known_sequences": "Known sequences: OMS against repeated SSM", "sizes": "Sizes, milliseconds",
    }  # fmt: skip
    for name, table in tables.items():
        lines += [f"## {titles[name]}", "", markdown(table), ""]
    (out / "intervals.md").write_text("\n".join(lines), encoding="utf-8")
