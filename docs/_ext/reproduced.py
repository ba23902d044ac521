"""The fence ``{reproduce} nasir2015:9``: a line of shell, our figures beside the paper's, the verdict, all from the registry.

Where three values of the paper can be read, its picture and ours stand side by side; ``{reproduce} all`` is every row, paper by
paper. The text is put in before the page is read as Markdown.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from sphinx.application import Sphinx

from keyshift.papers.registry import PAPERS, PaperFigure, compared, figures, stem, tables

FENCE = re.compile(r"^```\{reproduce\} *(.*)\n```$", flags=re.M)
SECONDS = {"full": "processor seconds in full", "quick": "s quick"}


SIZES = ("quick", "full")
HOLDS = {True: "holds", False: "**does not hold**", None: "not run"}


PICTURES = Path(__file__).parents[1] / "benchmarks" / "reproduced"


def pictures(row: PaperFigure, numbers: pd.DataFrame) -> str:
    """The paper's values and ours as two pictures with one axis; none where fewer than three can be read."""
    both = numbers.set_index("figure").apply(pd.to_numeric, errors="coerce").dropna()[::-1]
    if len(both) < 3:
        return ""
    figure = Figure(figsize=(8, 0.6 + 0.3 * len(both)), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    wide = both.min().min() > 0 and both.max().max() > 100 * both.min().min()
    for one, said, color in zip(axes, ("paper", "kept, full"), ("#999999", "#0072B2"), strict=True):
        one.barh(both.index, both[said], color=color)
        one.set(title={"paper": "the paper"}.get(said, "keyshift"), xscale="log" if wide else "linear")
        one.tick_params(labelsize=7)
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / f"{stem(row.id)}.png", dpi=90)
    return f"![{row.shows}: the paper's values and ours](reproduced/{stem(row.id).replace('%', '%25')}.png)\n"


def shown(value: object) -> str:
    """A figure in a cell."""
    text = "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")


def seconds(row: PaperFigure) -> str:
    """What a run took, quick and in full."""
    took = row.kept.get("seconds", {})
    return ", ".join(f"{took[size]:.0f} {said}" for size, said in SECONDS.items() if size in took) or "no full run yet"


def one(name: str) -> str:
    """A figure's shell line, comparison and verdict, in Markdown."""
    row = figures()[name]
    said = f"**{row.said}**" + (f" - {row.why}" if row.why else "")
    if not row.run:
        return f"`{name}`: {said}.\n"
    text = [f"```shell\nkeyshift reproduce {name}\n```\n"]
    if row.numbers:
        text += ["", f"| {row.shows} | the paper | keyshift, in full |", "|---|---|---|"]
        numbers = compared(row, tables(row), "kept, full")
        text += [
            f"| {what} | {shown(paper)} | {shown(ours)} |" for what, paper, ours in numbers.itertuples(index=False)
        ]
        text += ["", pictures(row, numbers)]
    text.append("")
    for check, held in zip(row.checks, row.kept.get("holds", [None] * len(row.checks)), strict=True):
        text.append(f"- {HOLDS[held]}: {check['says']}.")
    text.append("")
    of = f" Data: {row.data}." if row.data else ""
    return "\n".join([*text, "", f"{said}.{of} It takes {seconds(row)}.", ""])


def every() -> str:
    """All rows, paper by paper."""
    text = []
    counts = Counter(row.said for row in figures().values())
    text.append(
        f"{len(figures())} rows: " + ", ".join(f"{count} {said}" for said, count in counts.most_common()) + ".\n"
    )
    for paper, cited in PAPERS.items():
        text += [
            f"## {cited}",
            "",
            "| name | what it shows | verdict | checks that hold | seconds, quick | processor seconds, in full |",
            "|---|---|---|---|---|---|",
        ]
        rows = [row for row in figures().values() if row.id.startswith(f"{paper}:")]
        for row in rows:
            took = [f"{row.kept['seconds'][size]:.0f}" if size in row.kept.get("seconds", ()) else "" for size in SIZES]
            held = f"{sum(row.kept['holds'])} of {len(row.checks)}" if "holds" in row.kept else ""
            text.append(f"| `{row.id}` | {row.shows} | {row.said} | {held} | " + " | ".join(took) + " |")
        text.append("")
    return "\n".join(text)


def put_in(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace the fences of a page."""
    source[0] = FENCE.sub(
        lambda found: every() if found[1] == "all" else "\n".join(map(one, found[1].split())), source[0]
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", put_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
