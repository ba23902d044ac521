"""The directive ``gallery``: pictures out of the lessons, each leading to where it was drawn.

Each line names a page, the number of the picture on it (from 0) and a caption: ``lessons/intervals 0 | Cuts before and after``.
"""

from __future__ import annotations

from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


class Gallery(nodes.General, nodes.Element):
    """A place for cards, filled once every page has been read."""


class GalleryDirective(Directive):
    """Keep the lines until the pictures are known."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Make the place-holder."""
        return [Gallery(lines=[line for line in self.content if line.strip()])]


def figures(app: Sphinx, page: str) -> list[str]:
    """The pictures of a page, each once: where an output holds it in several formats, as SVG."""
    found = []
    for node in app.env.get_doctree(page).findall(nodes.image):
        kind, bundle = node.parent.get("mime_type"), node.parent.parent
        others = [child.get("mime_type") for child in bundle.children if isinstance(child, nodes.container)]
        if kind not in (None, "image/svg+xml") and "image/svg+xml" in others:
            continue
        if node["uri"] in app.env.images:
            found.append(node["uri"])
    return found


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace each place-holder by cards with the pictures of the pages named."""
    for place in list(doctree.findall(Gallery)):
        cards = []
        for line in place["lines"]:
            where, caption = (part.strip() for part in line.split("|", 1))
            page, _, number = where.partition(" ")
            known = [app.env.images[uri][1] for uri in figures(app, page)]
            if int(number or 0) >= len(known):
                raise ExtensionError(
                    f"{docname}: {page} has {len(known)} pictures, so none with the number {number or 0}"
                )
            up = "../" * docname.count("/")
            target, picture = app.builder.get_target_uri(page), f"{up}_images/{known[int(number or 0)]}"
            text = escape(caption)
            cards.append(
                f'<a class="card" href="{up}{target}"><img src="{picture}" alt="{text}"><span>{text}</span></a>'
            )
        place.replace_self(nodes.raw("", f'<div class="gallery">{"".join(cards)}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(Gallery)
    app.add_directive("gallery", GalleryDirective)
    app.connect("doctree-resolved", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
