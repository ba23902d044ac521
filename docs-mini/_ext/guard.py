"""Refuse a build whose pages show what no reader should see.

A figure that was never drawn, an object's address, a formula left as TeX, a stack trace of the Java machine, or anything that is
fetched from another site: each is listed with its page, and the build fails.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

#: What a page loads by itself; a link that a reader may follow is no such thing.
LOADS = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}
REMOTE = re.compile(r"(https?:)?//", re.IGNORECASE)
REMOTE_STYLE = re.compile(r"(@import\s+|url\()\s*['\"]?(https?:)?//", re.IGNORECASE)

ANYWHERE = {
    "a figure that was not drawn": re.compile(r"<Figure size"),
    "an object's address": re.compile(r"\bat 0x[0-9a-f]{6,}"),
    "what a drawing call returned": re.compile(r"\bText\(0\.|\[<matplotlib"),
    "a stack trace of the Java machine": re.compile(r"\bat (org\.apache|java|scala|jdk)\.|JVM stacktrace"),
}
PROSE = {
    "a formula left as TeX": re.compile(r"\$\$|\\begin\{|\\(frac|sum|le|ge|text[a-z]{2}|tfrac|bar)\b"),
    "a table left as text": re.compile(r"\|\s?[-\u2014]+\s?\|"),
    "a directive left as text": re.compile(r":::|```\{|\{(doc|ref|term|func|class)\}`"),
}
CODE = {"pre", "code", "script", "style", "title"}


class Page(HTMLParser):
    """Collect what a page loads, and its text, prose apart from code and formulas."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.styles: list[str] = []
        self.text: list[str] = []
        self.prose: list[str] = []
        self._open: list[tuple[str, bool]] = []  # the open elements, and whether prose ends there

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element loads, and whether its text is prose."""
        named = {k: v or "" for k, v in attrs}
        if (
            tag in LOADS
            and LOADS[tag] in named
            and named.get("rel") not in ("canonical", "index", "search", "next", "prev")
        ):
            self.loads.append(named[LOADS[tag]])
        self.styles.append(named.get("style", ""))
        if tag not in ("img", "link", "meta", "br", "hr", "input", "source", "wbr", "col"):
            self._open.append((tag, tag in CODE or "math" in named.get("class", "").split()))

    def handle_endtag(self, tag: str) -> None:
        """Close the element, and whatever was left open inside it."""
        while self._open and any(name == tag for name, _ in self._open):
            if self._open.pop()[0] == tag:
                return

    def handle_data(self, data: str) -> None:
        """Keep the text where it belongs."""
        inside = {name for name, _ in self._open}
        if "style" in inside:
            self.styles.append(data)
        elif "script" not in inside:
            self.text.append(data)
            if not any(ends for _, ends in self._open):
                self.prose.append(data)


def faults(html: str) -> list[str]:
    """Everything that is wrong with one page."""
    page = Page()
    page.feed(html)
    found = [f"loads {url}" for url in page.loads if REMOTE.match(url)]
    found += ["a style that loads from another site" for style in page.styles if REMOTE_STYLE.search(style)]
    for patterns, pieces in ((ANYWHERE, page.text), (PROSE, page.prose)):
        text = "".join(pieces)
        for name, pattern in patterns.items():
            if match := pattern.search(text):
                around = text[max(0, match.start() - 40) : match.end() + 40]
                found.append(f"{name}: ...{' '.join(around.split())}...")
    return found


def refuse(app: Sphinx, error: Exception | None) -> None:
    """Read every page that was built; fail if one has a fault."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    found = [
        f"{path.relative_to(folder)}: {fault}"
        for path in sorted(folder.rglob("*.html"))
        for fault in faults(path.read_text())
    ]
    if found:
        raise ExtensionError("pages that no reader should see:\n  " + "\n  ".join(found))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", refuse, priority=900)  # once the theme has finished, too
    return {"parallel_read_safe": True, "parallel_write_safe": True}
