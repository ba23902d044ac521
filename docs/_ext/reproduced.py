"""The fence ``{reproduce} nasir2015:9``: a line of shell, our figures beside the paper's, the verdict, all from the registry.

``{reproduce} all`` is every row, paper by paper. The text is put in before the page is read as Markdown.
"""

from __future__ import annotations

import re
from collections import Counter

from sphinx.application import Sphinx

from keyshift.papers.registry import PAPERS, PaperFigure, figures

FENCE = re.compile(r"^```\{reproduce\} *(.*)\n```$", flags=re.M)
SIZES = {"full": "in full", "quick": "quick"}
SECONDS = {"full": "processor seconds in full", "quick": "s quick"}


def shown(value: object) -> str:
    """A figure in a cell."""
    text = "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")


def seconds(row: PaperFigure) -> str:
    """What a run took, quick and in full."""
    took = [f"{row.kept[size]['seconds']:.0f} {said}" for size, said in SECONDS.items() if size in row.kept]
    return ", ".join(took) or "not run yet"


def one(name: str) -> str:
    """A figure's shell line, comparison and verdict, in Markdown."""
    row = figures()[name]
    said = f"**{row.said}**" + (f" - {row.why}" if row.why else "")
    if not row.run:
        return f"`{name}`: {said}.\n"
    text = [f"```shell\nkeyshift reproduce {name}\n```\n"]
    size = next((size for size in SIZES if len(row.kept.get(size, {}).get("ours", ())) == len(row.numbers)), None)
    if size and row.numbers:
        text += ["", f"| {row.shows} | the paper | keyshift, {SIZES[size]} |", "|---|---|---|"]
        for (what, paper, _), ours in zip(row.numbers, row.kept[size]["ours"], strict=True):
            text.append(f"| {what} | {shown(paper)} | {shown(ours)} |")
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
            "| name | what it shows | verdict | seconds, quick | processor seconds, in full |",
            "|---|---|---|---|---|",
        ]
        rows = [row for row in figures().values() if row.id.startswith(f"{paper}:")]
        for row in rows:
            took = [f"{row.kept[size]['seconds']:.0f}" if size in row.kept else "" for size in ("quick", "full")]
            text.append(f"| `{row.id}` | {row.shows} | {row.said} | " + " | ".join(took) + " |")
        text.append("")
        text += [f"`{row.id}`: {row.why}.\n" for row in rows if row.verdict == "not done"]
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
