"""A terminal that names cannot steer: what would move the cursor, or hide itself, is shown as it is written in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text


def visible(text: str) -> str:
    r"""A text with every character that has no shape written out, but for ends of lines and tabs.

    >>> print(visible("a\x1b[31m\u202eb"))
    a\x1b[31m\u202eb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t\xa0" else c.encode("unicode_escape").decode() for c in text)


class Terminal(Console):
    """Rich's console for texts from files, whose names may hold escape sequences; ``:a:`` in them is no picture."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:  # type: ignore[override]
        """Replacements in a text, before there are rows and columns."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Replacements in anything else; Rich's own control codes are segments that say so."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
