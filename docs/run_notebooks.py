"""Run every notebook that the site offers, with another environment's Python: the one a reader gets by ``pip install '.[demo]'``.

    make notebooks                                              (makes that environment in build/reader, and runs them all)
    python docs/run_notebooks.py PYTHON [part of a page's name ...]

Each runs in a folder of its own that is empty, as if it had just been downloaded; the checkout is out of its sight. The list of
seconds, waiting and computing, says which page makes the build of the site slow.
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

KERNEL = "reader"


def pages() -> list[Path]:
    """The pages with a notebook."""
    from notebooks import IS_NOTEBOOK

    built = HERE / "_build"
    found = [path for path in HERE.rglob("*.md") if built not in path.parents and IS_NOTEBOOK.match(path.read_text())]
    return sorted(found)


def name_kernel(python: Path, folder: Path) -> None:
    """Let Jupyter find the other environment's Python, and its programs before ours."""
    spec = folder / "kernels" / KERNEL
    spec.mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "PYTHONPATH": "", "VIRTUAL_ENV": str(python.parent.parent)}
    (spec / "kernel.json").write_text(
        json.dumps({"argv": command, "display_name": KERNEL, "language": "python", "env": env})
    )
    os.environ["JUPYTER_PATH"] = str(folder)


def computed() -> float:
    """Seconds of processor time of the kernels that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(page: Path, folder: Path) -> str | None:
    """Run one page's notebook; what went wrong, if anything did."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellControlSignal, DeadKernelError
    from notebooks import notebook_name, to_notebook

    docname = page.relative_to(HERE).with_suffix("").as_posix()
    here = folder / notebook_name(docname)
    here.mkdir()
    file = here / f"{here.name}.ipynb"
    nbformat.write(to_notebook(page.read_text(), docname), file)
    notebook = nbformat.read(file, as_version=4)
    try:
        NotebookClient(notebook, timeout=900, kernel_name=KERNEL, resources={"metadata": {"path": str(here)}}).execute()
    except (CellControlSignal, DeadKernelError) as error:  # an error, a limit, or the end of the kernel
        return str(error)
    finally:
        nbformat.write(notebook, file)
    return None


def main() -> int:
    """Run the notebooks, one after another, and say how each went."""
    python, only = Path(sys.argv[1]).absolute(), sys.argv[2:]
    failed = []
    with tempfile.TemporaryDirectory(prefix="keyshift-notebooks-") as name:
        folder = Path(name)
        name_kernel(python, folder)
        chosen = [page for page in pages() if not only or any(part in str(page) for part in only)]
        print(f"{'notebook':<32} {'seconds':>8} {'computing':>10}")
        for page in chosen:
            began, before = time.perf_counter(), computed()
            error = run(page, folder)
            took, busy = time.perf_counter() - began, computed() - before
            shown = str(page.relative_to(HERE))
            print(f"{shown:<32} {took:8.1f} {busy:10.1f}{'  FAILED' if error else ''}", flush=True)
            if error:
                failed.append(f"{shown}:\n{error}")
    print(f"{len(chosen)} notebooks, {len(failed)} failed", *failed, sep="\n\n" if failed else "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
