"""The role ``measured``: a figure from a benchmark's CSV file or page, so that no other page can say another.

``{measured}`0.2.0/mclb_clb_thresholds.csv; keys == 'zipf' and theta == 0.5; std; .3g` `` is that row's value. The column may
follow ``mean``, ``min``, ``max``, ``sum`` or ``last``, of the rows that the query keeps; without one of these there must be
one row. ``0.1.0/mclb.md 7`` is the seventh table of a benchmark's page.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pandas as pd
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

FOLDER = "../benchmarks/results"
WAYS = ("mean", "min", "max", "sum", "last")


@cache
def table(path: Path) -> pd.DataFrame:
    """A file's rows, read once a build; of a page, the rows of one of its tables, as text."""
    if path.suffix == ".csv":
        return pd.read_csv(path)
    name, _, number = path.name.partition(" ")
    text = path.with_name(name).read_text(encoding="utf-8")
    lines = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.M)[int(number) - 1].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return pd.DataFrame(rows, columns=head)


def value(folder: Path, asked: str) -> str:
    """The figure that was asked for, in its format; ValueError where it is not to be had."""
    parts = [part.strip() for part in asked.split(";")]
    if len(parts) != 4:
        raise ValueError("file; query; column; format are wanted")
    file, query, column, shape = parts
    frame = table(folder / file)
    kept = frame.query(query) if query else frame
    way, _, of = column.partition(" ")
    if way not in WAYS or column in kept:
        way, of = "last", column
        if len(kept) != 1:
            raise ValueError(f"{len(kept)} rows of {file} where {query}, one is wanted")
    if of not in kept or kept.empty:
        raise ValueError(f"{file} has no {of} where {query}")
    found = kept[of].iloc[-1] if way == "last" else getattr(kept[of], way)()
    if pd.isna(found):
        raise ValueError(f"{of} is empty in {file} where {query}")
    return format(float(found) if shape else found, shape)


class Measured(SphinxRole):
    """A role: a measured figure in a page's text."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The figure as text; a warning, which ends the build, where there is none."""
        try:
            return [nodes.inline("", value(Path(self.env.srcdir) / FOLDER, self.text), classes=["measured"])], []
        except (ValueError, OSError, KeyError) as error:
            said = self.inliner.reporter.warning(f"measured: {self.text}: {error}", line=self.lineno)
            return [nodes.inline("", "?")], [said]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_role("measured", Measured())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
