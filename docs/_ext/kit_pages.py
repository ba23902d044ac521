"""Build the lecturer's kit beside the site: ``kit/`` has the decks, the workbook, the exercise sheets and the projects.

The directive ``kit`` lists them as links. ``docs/kit/build.py`` makes the pages; `make kit` prints them, too.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

FOLDER = "kit"


class KitDirective(Directive):
    """Links to pages of the kit: a line each, ``name | what it is``."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Make the list; the pages are written when all others are."""
        items = []
        for line in filter(str.strip, self.content):
            name, _, words = (part.strip() for part in line.partition("|"))
            items.append(f'<li><a href="{FOLDER}/{escape(name)}.html">{escape(words)}</a></li>')
        return [nodes.raw("", f"<ul>{''.join(items)}</ul>", format="html")]


def build(app: Sphinx, error: Exception | None) -> None:
    """Write the pages."""
    if error is not None or app.builder.name != "html":
        return
    sys.path.insert(0, str(Path(app.srcdir) / FOLDER))
    from build import pages

    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.html").write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("kit", KitDirective)
    app.connect("build-finished", build)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
