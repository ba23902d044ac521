"""Sphinx configuration: MyST notebooks, executed and asserting, warnings as errors (see the Makefile)."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from keyshift.version import __version__

os.environ.setdefault("KEYSHIFT_PROGRESS", "0")  # pages have no lines that go again

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "keyshift"
author = "the keyshift developers"
copyright = "2026, the keyshift developers"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "book",
    "citations",
    "execution",
    "drawings",
    "gallery",
    "guard",
    "live",
    "kit_pages",
    "reproduced",
    "measured",
    "moved",
    "notebooks",
    "offline",
]
# Beside the site: tables and sections that pages include, how the code is built, and what a test reads.
exclude_patterns = ["_build", "_ext", "kit", "**.ipynb_checkpoints", "benchmarks/releases.md", "benchmarks/ablation.md"]
exclude_patterns += ["benchmarks/gaps.md", "benchmarks/outside.md", "dependencies.md", "glossary.md"]
exclude_patterns += ["design.md", "book.md", "engines/refusals.md"]
html_theme = "furo"
html_title = "keyshift"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["site.css"]
html_show_sphinx = False
html_math_renderer = "mathjax"  # with another one registered, Sphinx takes that
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "
pygments_style = "default"
pygments_dark_style = "github-dark"


def sources_digest() -> str:
    """A digest of what the lessons run on: the code of the package and the pinned versions."""
    digest = hashlib.sha256((HERE.parent / "constraints.txt").read_bytes())
    digest.update((HERE / "_ext" / "drawings.py").read_bytes())
    for folder in ("models", "solvers", "heuristics", "spark_stats", "interface"):
        for path in sorted((HERE.parent / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def execution_cache() -> str:
    """A folder for this very code; results of other code are dropped, so that a kept page is a page that still holds."""
    if asked := os.environ.get("KEYSHIFT_DOCS_CACHE"):  # while writing: keep what ran, whatever changed below
        return asked
    caches = HERE / "_build" / "executed"
    here = caches / sources_digest()
    for old in caches.glob("*") if caches.is_dir() else ():
        if old != here:
            shutil.rmtree(old)
    return str(here)


# A lesson that fails, or an assertion in it, fails the build. One that ran on this code, cell for cell, is not run again.
nb_execution_mode = "cache"
nb_execution_cache_path = execution_cache()
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_execution_show_tb = True
nb_merge_streams = True
nb_output_stderr = "remove"  # what Java and progress bars say there is nobody's lesson
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_ivar = True
