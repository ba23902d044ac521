"""The figure of the benchmarks' front page: three differences that a parameter missing in print explains.

    python benchmarks/papers.py [--quick] --out DIR

Drawn from the tables of mclb.py, key_splitting.py and mixed_routing.py in DIR, or in benchmarks/results/0.2.0 where DIR has none.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from page import Page, run

KEPT = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "0.2.0"
CHOICES, ADJUSTMENTS = [2, 4, 9, 20, 40], [4**i for i in range(6)]


def figure(page: Page) -> None:
    """Thresholds, choices, adjustments."""

    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(page.out / name if (page.out / name).exists() else KEPT / name)

    least = read("key_splitting_least_choices.csv").melt(
        "exponent", ["W = 5", "W = 10", "W = 40"], "workers", "least choices"
    )
    page.draw("figure", "Dotted: what the papers print.",
              {"frame": read("mclb_clb_thresholds.csv"), "x": "theta", "y": "mean var(L_t)", "by": "keys", "yscale": "log",
               "at": [2.09e10], "title": "CLB by its threshold"},
              {"frame": least.dropna(), "x": "exponent", "y": "least choices", "by": "workers", "yscale": "log", "at": [4, 9],
               "yticks": CHOICES, "yticklabels": CHOICES, "title": "Choices that balance, by skew"},
              {"frame": read("mixed-routing_adjustments.csv").assign(table=lambda f: f["table"].clip(1)), "x": "adjustments", "y": "table",
               "by": "series", "xscale": "log", "xticks": ADJUSTMENTS, "xticklabels": ADJUSTMENTS, "at": [9350], "title": "MinMig's table"},
              size=(4.2, 3.4))  # fmt: skip


if __name__ == "__main__":
    run("papers", "The papers' figures", __doc__, (figure,))
