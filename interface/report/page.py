"""The page that every report is written on: style for light and dark, wide and narrow, and figures that name their source."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyshift.models.figures import figure
from keyshift.models.files.disk import write_text
from keyshift.terminal import visible

if TYPE_CHECKING:
    import pandas as pd

SCRIPTS = Path(__file__).parent
"""The pages' style and their JavaScript, as they stand: a page carries what it needs of them inside itself."""


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


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table as JSON can hold them: null where there is nothing."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[return-value]


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


def script(*names: str) -> str:
    """Modules as one script that needs no other file: what they import of each other is in it, the first one first."""
    code = "".join((SCRIPTS / f"{name}.mjs").read_text(encoding="utf-8") for name in names)
    code = re.sub(r"(?m)^import .*\n|^export (?=const|function|class)", "", code)
    return f'(() => {{\n"use strict";\n{code}}})();'


def write_page(
    path: str | Path, title: str, head: str, sections: Iterable[str], data: Data, scripts: Sequence[str] = ("tables",)
) -> None:
    """Write a page, whole or not at all: it runs the scripts it carries, no other, and asks no network for anything.

    Raises
    ------
    InputError
        If the file cannot be written there.
    """
    # A closing tag inside a text would end the block of data early: < is written as JSON allows.
    carried = json.dumps(data.content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    style, code = (SCRIPTS / "page.css").read_text(encoding="utf-8"), script(*scripts)
    policy = (
        f"default-src 'none'; script-src {_digest(code)}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{style}</style>"
        # An empty icon: without one a browser asks the server for it.
        '<link rel="icon" href="data:,"></head>'
        f'<body><h1>{text(title)}</h1>{head}<div class="cards" id="cards">{"".join(sections)}</div>'
        f'<script type="application/json" id="data">{carried}</script><script>{code}</script></body></html>\n'
    )
    write_text(path, page)


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
