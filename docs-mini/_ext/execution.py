"""Run the pages before Sphinx reads them, so many at once as Sphinx has processes, the longest first.

Sphinx hands its processes a row of pages each; the lessons stand in one row, and one process would run them all while the
others have ended. Here whoever is free takes the next page. What has run is in MyST-NB's cache, where Sphinx then finds it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import ExecutionResult, single_nb_execution
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbformat import NotebookNode
from notebooks import IS_NOTEBOOK
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util import logging


def run(path: Path, notebook: NotebookNode, timeout: int) -> ExecutionResult:
    """Run one page in its folder, as MyST-NB would."""
    return single_nb_execution(notebook, cwd=str(path.parent), timeout=timeout, allow_errors=False)


def code_length(notebook: NotebookNode) -> int:
    """How much a page computes is not known before; how much code it has is a fair guess."""
    return sum(len(cell.source) for cell in notebook.cells if cell.cell_type == "code")


def execute(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Fill the cache with every page that is to be read and is not in it."""
    cache = get_cache(app.config.nb_execution_cache_path)
    waiting = []
    for docname in docnames:
        path = Path(env.doc2path(docname))
        left_out = any(path.match(pattern) for pattern in app.config.nb_execution_excludepatterns)
        if left_out or path.suffix != ".md" or not IS_NOTEBOOK.match(source := path.read_text()):
            continue
        notebook = read_myst_markdown_notebook(source, config=MdParserConfig(), add_source_map=True)
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            waiting.append((path, notebook))
    waiting.sort(key=lambda pair: -code_length(pair[1]))
    said = logging.getLogger(__name__)
    with ThreadPoolExecutor(max_workers=max(app.parallel, 1)) as pool:
        running = {pool.submit(run, *pair, app.config.nb_execution_timeout): pair[0] for pair in waiting}
        for done in as_completed(running):
            path, result = running[done], done.result()
            if result.err is not None:
                pool.shutdown(cancel_futures=True)
                raise ExtensionError(f"{path.relative_to(app.srcdir)} fails:\n{result.exc_string}")
            data = {"execution_seconds": result.time}
            cache.cache_notebook_bundle(CacheBundleIn(result.nb, str(path), data=data), check_validity=False)
            said.info("%6.1f s  %s", result.time, path.relative_to(app.srcdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("env-before-read-docs", execute)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
