"""The page that every report is written on: style for light and dark, wide and narrow, and figures that name their source."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keyshift.models.figures import figure
from keyshift.models.files.writing import write_text
from keyshift.terminal import visible

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6675; --line: #d5dae1; --page: #ffffff; --card: #f6f7f9;
  --before: #9aa3af; --after: #0072b2; --peak: #d55e00; --mean: #1c2330; --send: #0072b2; --take: #009e73;
  --shade: #eceff3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaf0; --soft: #9aa6b6; --line: #38414e; --page: #14181f;
  --card: #1c222b; --before: #6f7a89; --after: #56b4e9; --peak: #e69f00; --mean: #e7eaf0; --send: #56b4e9;
  --take: #2fc79a; --shade: #222a35; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.2rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 0 0 .6rem; }
p { margin: .3rem 0 .8rem; } .soft { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .7rem; margin: 1rem 0; padding: 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.15rem; overflow-wrap: anywhere; }
.tile > span { color: var(--soft); font-size: .85rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); gap: 1rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; min-width: 0; }
section.wide { grid-column: 1 / -1; }
.scroll { overflow-x: auto; } .tall { max-height: 32rem; overflow-y: auto; }
svg { display: block; width: 100%; max-width: 54rem; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg text.soft { fill: var(--soft); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { position: sticky; top: 0; background: var(--card); color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
td.words, th.words { text-align: left; white-space: normal; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin: 0 .3rem 0 .8rem;
  vertical-align: -.1rem; }
@media (max-width: 600px) { svg text { font-size: 21px; } section { padding: .7rem; } body { padding: .7rem; } }
ul { margin: .2rem 0; padding-left: 1.2rem; }
"""


def shown(value: Any) -> str:
    """A figure as reports show it: the same text for the same number everywhere."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return figure(value, digits=5) if isinstance(value, int | float) else str(value)


def text(value: Any) -> str:
    """Any text, safe to stand in a page."""
    return html.escape(visible(str(value)))


class Data:
    """The data of a report as JSON: the page carries it, and every figure on the page names its place in it."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def at(self, path: str) -> Any:
        """The value at a path such as ``plan.moves.3.gain``."""
        value: Any = self.content
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return value

    def figure(self, path: str) -> str:
        """A figure, marked with its place in the data."""
        return f'<span data-json="{text(path)}">{text(shown(self.at(path)))}</span>'

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[int] = ()) -> str:
        """A table; a cell is a path into the data, or begins with ``=`` and is a text."""
        marks = [' class="words"' if place in words else "" for place in range(len(heads))]
        top = "".join(f"<th{mark}>{text(head)}</th>" for head, mark in zip(heads, marks, strict=True))
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{mark}>{text(cell[1:]) if cell.startswith('=') else self.figure(cell)}</td>"
                for cell, mark in zip(row, marks, strict=True)
            )
            + "</tr>"
            for row in rows
        )
        return f'<div class="scroll tall"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'

    def tiles(self, tiles: Iterable[tuple[str, str]]) -> str:
        """Large figures with their names."""
        made = "".join(f'<div class="tile"><b>{value}</b><span>{text(name)}</span></div>' for name, value in tiles)
        return f'<div class="tiles">{made}</div>'


def section(title: str, content: str, note: str = "", wide: bool = False) -> str:
    """A card of the page."""
    said = f'<p class="soft">{note}</p>' if note else ""
    return f"<section{' class=wide' if wide else ''}><h2>{text(title)}</h2>{said}{content}</section>"


def write_page(path: str | Path, title: str, head: str, sections: Iterable[str], data: Data) -> None:
    """Write a page, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written there.
    """
    # A closing tag inside a text would end the block of data early: < is written as JSON allows.
    carried = json.dumps(data.content, allow_nan=False).replace("<", "\\u003c")
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style>"
        # An empty icon: without one a browser asks the server for it.
        '<link rel="icon" href="data:,"></head>'
        f'<body><h1>{text(title)}</h1>{head}<div class="cards">{"".join(sections)}</div>'
        f'<script type="application/json" id="data">{carried}</script></body></html>\n'
    )
    write_text(path, page)
