"""A study's summary for the terminal: what fits 80 columns, all of it where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyshift.models.figures import figure

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

WIDE = 140
"""Columns from which on every figure is shown."""


def summary_as_table(summary: pd.DataFrame, width: int) -> Table:
    """A Rich table, a block for each family.

    Parameters
    ----------
    summary : DataFrame
        As `Study.summary` gives it.
    width : int
        Columns of the terminal.
    """
    from rich import box
    from rich.table import Table

    counts = ["solved", "proven", "wins"] + (["broke_rules", "failed"] if width >= WIDE else [])
    gaps = ["gap_mean", "gap_worst"] if width < WIDE else ["gap_mean", "gap_low", "gap_high", "gap_median", "gap_worst"]
    heads = {"gap_mean": "mean", "gap_low": "from", "gap_high": "to", "gap_median": "median", "gap_worst": "worst"}
    table = Table(title="Gaps to the best bound, in percent of the objective", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("family, method", no_wrap=True)
    for name in ["solves", *counts, *gaps, "seconds"]:
        table.add_column(heads.get(name, name.replace("_", " ")), justify="right", no_wrap=True)
    for family, part in summary.groupby("family", sort=False):
        table.add_row(str(family), style="bold")
        for row in part.to_dict("records"):
            figures = [f"{row[name]:,}" for name in ["solves", *counts]]
            shares = [
                figure(None if row[name] is None or row[name] != row[name] else 100 * row[name], 100.0, 3)
                for name in gaps
            ]
            table.add_row(f"  {row['method']}", *figures, *shares, figure(row["seconds_median"], digits=3))
        table.add_section()
    return table
