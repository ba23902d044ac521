"""Sphinx configuration: MyST notebooks, executed and asserting, warnings as errors (see the Makefile)."""

from keyshift.version import __version__

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
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = "keyshift"
html_static_path = ["_static"]

# A lesson that fails, or an assertion in it, fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_ivar = True
