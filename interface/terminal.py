"""A terminal that names from data cannot control: characters without a visible form are shown as Python escapes."""

from __future__ import annotations

import io
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from keyshift.models.answer import Progress
from keyshift.models.base.compiling import COMPILING
from keyshift.models.base.figures import figure

if TYPE_CHECKING:
    from rich.table import Table


def visible(text: str) -> str:
    r"""A text with all invisible characters written out as escapes, except newlines and tabs.

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
        Heads of columns whose cells stand on the right; of others that are never folded, as these and the first are not.
    **style
        For `rich.table.Table`.
    """
    made = _fitted()(**style)
    for place, head in enumerate(heads):
        kept = place == 0 or head in right or head in whole
        made.add_column(head, justify="right" if head in right else "left", overflow="fold", no_wrap=kept)
    for row in rows:
        made.add_row(*map(str, row))
    return made


@cache
def _fitted() -> type[Table]:
    """A table that leaves out columns where the terminal is too narrow for them, the last ones first, and says which."""
    from rich.table import Table

    class Fitted(Table):
        """The first column, and those of numbers, stand whole: what does not fit is left out and named."""

        def __rich_console__(self, console: Any, options: Any) -> Any:
            """As many columns as fit; two at least, which fold where even they do not."""
            every, heads, gone = self.columns, [column.header for column in self.columns], list[str]()
            wide = options.update(max_width=10_000)

            def needed() -> list[int]:
                """The columns that each column needs; its head is as wide as its longest line."""
                sizes = [[Measurement.get(console, wide, cell) for cell in (c.header, *c.cells)] for c in every]
                return [
                    max(size.maximum if column.no_wrap else size.minimum for size in of)
                    for column, of in zip(every, sizes, strict=True)
                ]

            try:
                need, shown = needed(), list(range(len(every)))
                own = self._extra_width + sum(self._get_padding_width(at) for at in shown)
                if sum(need) + own > options.max_width:  # a head of several words stands on several lines first
                    for column in every:
                        column.header = str(column.header).replace(" ", "\n") if column.no_wrap else column.header
                    need = needed()
                while len(shown) > 2 and sum(need[at] for at in shown) + own > options.max_width:
                    at = shown.pop()
                    own -= self._get_padding_width(at) + bool(self.box)
                    gone.insert(0, str(heads[at]))
                self.columns = [every[at] for at in shown]
                yield from super().__rich_console__(console, options)
            finally:
                self.columns = every
                for column, head in zip(every, heads, strict=True):
                    column.header = head
            if gone:
                yield Text(f"not shown: {', '.join(gone)} (a wider terminal shows them)", style="dim")

    return Fitted


def printed(shown: Any, width: int, notes: Iterable[str] = ()) -> str:
    """What a terminal of so many columns shows, as a text; notes, a line each, below it."""
    terminal = Terminal(file=io.StringIO(), width=width, force_jupyter=False, markup=False)
    terminal.print(shown)
    for note in notes:
        terminal.print(note, markup=False, highlight=False)
    return str(terminal.file.getvalue())  # type: ignore[attr-defined]


# What a run does just now ----------------------------------------------------------------------------------------------

_ONE = threading.Lock()
"""Only one line is shown at a time: that of the outermost call."""
DELAY = 1.0
"""Seconds before a line is shown."""


class _Line:
    """The spinner's words, by what a run does just now; Rich asks for it as long as the spinner turns."""

    def __init__(self, title: str, limit: float | None) -> None:
        self.title, self.limit, self.now, self.began = title, limit, Progress(), time.monotonic() - COMPILING.seconds

    def __rich__(self) -> str:
        if COMPILING.now:
            return escape(f"{self.title} - compiling, once for this machine: {COMPILING.anew:.0f} s")
        best, bound = self.now.objective, self.now.bound
        words = [f"{name} {figure(value)}" for name, value in (("best", best), ("bound", bound)) if value is not None]
        if best and bound is not None:
            words.append(f"gap {figure(100 * max(0.0, best - bound) / best, 100, 3)} %")
        if self.limit is not None:
            left = self.limit - (time.monotonic() - COMPILING.seconds - self.began)
            words.append(f"{max(0.0, left):.0f} s left")
        return escape(" ".join(filter(None, [self.title, self.now.note, *words])))


@cache
def _on_stderr(kind: type[Console]) -> Console:
    """A console for what stderr is at the time: to make one takes a fifth of a small instance's time."""
    return kind(stderr=True)


@contextmanager
def progress(
    title: str, limit: float | None = None, watch: Callable[[Progress], None] | None = None, shown: bool = True
) -> Iterator[Callable[[Progress], None] | None]:
    """Show a line with the phase and the best figures so far once a run takes longer than a second.

    It is shown on a terminal or in a notebook, for the outermost call in the main thread, not in workers or pipes, and not where
    the caller watches. The variable KEYSHIFT_PROGRESS=0 turns it off.
    """
    here = (
        threading.current_thread() is threading.main_thread()
        and multiprocessing.current_process().name == "MainProcess"
    )
    wanted = shown and watch is None and here and os.environ.get("KEYSHIFT_PROGRESS") != "0"
    console = _on_stderr(Terminal) if wanted else None
    if console is None or not (console.is_terminal or console.is_jupyter) or not _ONE.acquire(blocking=False):
        yield watch
        return
    line, running = _Line(title, limit), threading.Event()
    status = console.status(line)

    def show() -> None:
        status.start()
        running.set()

    timer = threading.Timer(DELAY, show)
    timer.daemon = True
    timer.start()
    try:
        yield partial(setattr, line, "now")
    finally:
        timer.cancel()
        if running.is_set():
            status.stop()
        _ONE.release()
