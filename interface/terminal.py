"""A terminal that names cannot steer: what would move the cursor, or hide itself, is shown as it is written in Python."""

from __future__ import annotations

import io
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

if TYPE_CHECKING:
    from rich.table import Table


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


def table(
    heads: Iterable[str],
    rows: Iterable[Iterable[object]],
    right: Container[str] = (),
    whole: Container[str] = (),
    **style: Any,
) -> Table:
    """A table for the terminal.

    Parameters
    ----------
    heads : iterable of str
    rows : iterable of iterables
    right, whole : container of str
        Heads of columns whose cells stand on the right; of those that are never folded.
    **style
        For `rich.table.Table`.
    """
    from rich.table import Table

    made = Table(**style)
    for head in heads:
        made.add_column(head, justify="right" if head in right else "left", overflow="fold", no_wrap=head in whole)
    for row in rows:
        made.add_row(*map(str, row))
    return made


def printed(shown: Any, width: int, notes: Iterable[str] = ()) -> str:
    """What a terminal of so many columns shows, as a text; notes, a line each, below it."""
    terminal = Terminal(file=io.StringIO(), width=width, force_jupyter=False, markup=False)
    terminal.print(shown)
    for note in notes:
        terminal.print(note, markup=False, highlight=False)
    return str(terminal.file.getvalue())  # type: ignore[attr-defined]
