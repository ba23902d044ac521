"""The page that every report is written on: style for light and dark, wide and narrow, and figures that name their source."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from keyshift.models.base.disk import write_text
from keyshift.models.base.figures import quantity
from keyshift.terminal import visible

if TYPE_CHECKING:
    import pandas as pd

SCRIPTS = Path(__file__).parent
"""The pages' style and their JavaScript, as they stand: a page carries what it needs of them inside itself."""
WIDTH = 760
"""Of every drawing, in units of its view box."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")
"""The colours of Okabe and Ito, legible on light and on dark; lines of the same colour differ in their dashes."""


def shown(value: Any, unit: str = "") -> str:
    """A figure as reports show it: the same text for the same number everywhere."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return quantity(value, unit, digits=5) if isinstance(value, int | float) else str(value)


def _short(name: Any, most: int = 9) -> str:
    said = str(name)
    return said if len(said) <= most else said[: most - 1] + "…"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table as JSON can hold them: null where there is nothing."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[return-value]


def script(*names: str) -> str:
    """Modules as one script that needs no other file: what they import of each other is in it, the first one first."""
    code = "".join((SCRIPTS / f"{name}.mjs").read_text(encoding="utf-8") for name in names)
    code = re.sub(r"(?m)^import .*\n|^export (?=const|function|class)", "", code)
    return f'(() => {{\n"use strict";\n{code}}})();'


@cache
def pages() -> Environment:
    """The templates: what they are given is a text, unless it is `Markup`."""
    made = Environment(
        loader=FileSystemLoader(SCRIPTS / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
    )
    made.filters |= {"digest": _digest, "short": _short, "px": "{:.1f}".format}
    made.filters["rounded"] = lambda value: shown(float(f"{value:.2g}"))  # for a mark of an axis
    made.globals |= {"shown": shown, "width": WIDTH, "colours": COLOURS, "dashes": ("", "6 3", "2 3", "8 3 2 3")}
    return made


def write_page(
    path: str | Path, template: str, title: str, data: dict[str, Any], scripts: Sequence[str] = ("tables",), **more: Any
) -> None:
    """Write a page, whole or not at all: it runs the scripts it carries, no other, and asks no network for anything.

    Parameters
    ----------
    path : str or Path
    template : str
        Its name in the folder of templates.
    title : str
    data : dict
        What the page carries as JSON; every figure on the page names its place in it.
    scripts : sequence of str
    **more
        What else the template takes: drawings, counts.

    Raises
    ------
    InputError
        If the file cannot be written there.
    """

    def at(place: str) -> Any:
        return reduce(lambda part, name: part[int(name) if isinstance(part, list) else name], place.split("."), data)

    # A closing tag inside a text would end the block of data early: < is written as JSON allows.
    carried = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    style, code = (SCRIPTS / "page.css").read_text(encoding="utf-8"), script(*scripts)
    page = pages().get_template(f"{template}.html.jinja")
    write_text(path, page.render(title=title, data=data, at=at, carried=carried, style=style, code=code, **more))


def _digest(content: str) -> Markup:
    return Markup(f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'")
