"""The fence ``{reproduce} nasir2015:9``: a line of shell, our figures beside the paper's, the verdict, all from the registry.

``{reproduce} all`` is every row, paper by paper. The text is put in before the page is read as Markdown.
"""

from __future__ import annotations

import re
from collections import Counter

from sphinx.application import Sphinx

from keyshift.papers.registry import PAPERS, PaperFigure, compared, figures, tables

FENCE = re.compile(r"^```\{reproduce\} *(.*)\n```$", flags=re.M)
SECONDS = {"full": "processor seconds in full", "quick": "s quick"}


SIZES = ("quick", "full")
HOLDS = {True: "holds", False: "**does not hold**", None: "not run"}


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
        for what, paper, ours in compared(row, tables(row), "kept, full").itertuples(index=False):
            text.append(f"| {what} | {shown(paper)} | {shown(ours)} |")
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
