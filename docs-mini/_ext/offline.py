"""Bring MathJax into the built site, so that formulas are set without a network.

The file comes out of the package ``sphinx-mathjax-offline`` (MathJax 3.2.2, Apache-2.0): the one that draws formulas as SVG and
therefore needs no font files, which browsers refuse to load from the file system.
"""

from __future__ import annotations

import shutil
from importlib.metadata import files
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

SCRIPT = "tex-svg-full.js"

#: Answers that a page opened from disk cannot fetch are not asked for: the search then lists titles without their text.
SEARCH = "if (location.protocol === 'file:') { DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false; }"


def mathjax() -> Path:
    """The MathJax script in the installed package."""
    for file in files("sphinx-mathjax-offline") or []:
        if file.name == SCRIPT:
            return Path(str(file.locate()))
    raise ExtensionError(f"sphinx-mathjax-offline is installed without {SCRIPT}")


def put_mathjax(app: Sphinx) -> None:
    """Copy MathJax beside the pages, with a note where it is from."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "mathjax"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(mathjax(), folder / SCRIPT)
    (folder / "NOTICE.txt").write_text("MathJax 3.2.2, https://www.mathjax.org, Apache License 2.0\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.config.mathjax_path = f"mathjax/{SCRIPT}"
    app.connect("builder-inited", put_mathjax)
    app.add_js_file(None, body=SEARCH, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
