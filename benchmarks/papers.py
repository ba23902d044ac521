"""The figure of the page "The papers, figure by figure": three differences that a parameter missing in print explains.

    python benchmarks/papers.py [--quick] --out DIR

Drawn from the tables of mclb.py, key_splitting.py and mixed_routing.py in DIR, or in docs/benchmarks/0.2.0 where DIR has none.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from page import Page, grid, lines, run

KEPT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "0.2.0"


def figure(page: Page) -> None:
    """Thresholds, choices, adjustments."""

    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(page.out / name if (page.out / name).exists() else KEPT / name)

    drawn, axes = grid(1, 3, (4.2, 3.4))
    lines(axes[0], read("mclb_clb_thresholds.csv"), "theta", "mean var(L_t)", "keys").set(
        yscale="log", title="CLB by its threshold"
    )
    axes[0].axhline(2.09e10, color="black", linestyle=":")
    least = read("key_splitting_least_choices.csv").melt(
        "exponent", ["W = 5", "W = 10", "W = 40"], "workers", "least choices"
    )
    lines(axes[1], least.dropna(), "exponent", "least choices", "workers").set(
        yscale="log", title="Choices that balance, by skew"
    )
    for printed in (4, 9):
        axes[1].axhline(printed, color="black", linestyle=":")
    axes[1].set_yticks([2, 4, 9, 20, 40], labels=["2", "4", "9", "20", "40"])
    axes[1].minorticks_off()
    tables = read("mixed-routing_adjustments.csv").assign(table=lambda f: f["table"].clip(1))
    lines(axes[2], tables, "adjustments", "table", "series").set_title("MinMig's table")
    axes[2].set_xscale("log", base=2)
    axes[2].axhline(9350, color="black", linestyle=":")
    for axis in axes:
        axis.legend(fontsize=7)
    drawn.savefig(page.out / "papers.png", dpi=100)


if __name__ == "__main__":
    run("papers_figure", "The papers' figures", __doc__, (figure,))
