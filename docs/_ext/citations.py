"""Turn ``[Madsen2016]`` in text into a link to the page of papers; refuse a name that the page does not have."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

PAGE = "papers"
NAME = re.compile(r"\[([A-Z][a-z]+(?:19|20)\d\d)\]")
ENTRY = re.compile(r"^\*\*\[(\w+)\]\*\*", re.MULTILINE)
NO_LINKS = (nodes.literal, nodes.literal_block, nodes.reference, nodes.raw, nodes.math, nodes.math_block)


@cache
def known(page: Path) -> frozenset[str]:
    """The names that the page of papers explains."""
    return frozenset(ENTRY.findall(page.read_text()))


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace names by links, everywhere but on the page of papers itself and in code."""
    if docname == PAGE or app.builder.format != "html":
        return
    page = Path(app.srcdir) / f"{PAGE}.md"
    for text in list(doctree.findall(nodes.Text)):
        if not NAME.search(text) or any(isinstance(above, NO_LINKS) for above in _above(text)):
            continue
        pieces: list[nodes.Node] = []
        for i, piece in enumerate(NAME.split(text)):
            if i % 2 == 0:
                pieces.append(nodes.Text(piece))
                continue
            if piece not in known(page):
                logging.getLogger(__name__).warning("[%s] is not on the page of papers", piece, location=text.parent)
            page_of = "" if app.builder.name == "singlehtml" else app.builder.get_relative_uri(docname, PAGE)
            where = f"{page_of}#{piece.lower()}"
            pieces.append(nodes.reference("", f"[{piece}]", refuri=where, internal=True))
        text.parent.replace(text, pieces)


def _above(node: nodes.Node) -> list[nodes.Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
