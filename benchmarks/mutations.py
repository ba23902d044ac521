"""Deliberate mutations of the searches' move space, one at a time in a copy of the package: which test catches each?

    python benchmarks/mutations.py [PATTERN]

Runs `tests/models/test_space.py`, one test of routing and the fast sample of `tests/solvers/test_searches.py` on every copy, and the slow sweep
where these pass. The exit code is 1 if a mutation survives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    "tests/models/test_space.py",
    "tests/solvers/test_searches.py",
    "tests/solvers/test_routing_exact.py::test_reduced_costs_leave_the_optimum_open_whatever_is_known",
)


class Mutation(NamedTuple):
    """An edit of one line, and the portfolio that it breaks."""

    kind: str
    file: str
    old: str
    new: str


A, S = "solvers/allocation/", "solvers/search/"
MUTATIONS = (
    Mutation("space", "models/workload.py", "closed[:, nodes] = False", "closed[:] = False"),
    Mutation("space", "models/workload.py", "np.flatnonzero(np.asarray(self.enter.any(axis=1))[self.kind])", "np.arange(self.kind.size)"),
    Mutation("space", "models/workload.py", " & (self.current[key_groups] != node)", ""),
    Mutation("allocation", "models/objectives.py", "        return int(most)\n", "        return int(most) + 1\n"),
    Mutation("allocation", "solvers/arrays.py", "else limit * (1 + SLACK)", "else limit * 1.5"),
    Mutation("allocation", "solvers/arrays.py", "self.nodes) * (1 + SLACK)", "self.nodes) * 1.5"),
    Mutation("allocation", A + "arrays.py", "return 1.0 + self.total", "return 1.0 + self.distance(self.current)"),
    Mutation("allocation", A + "exchanges.py", "np.where(closed, np.inf, more)", "more"),
    Mutation("allocation", A + "exchanges.py", "spare_moves = it.max_moves -", "spare_moves = 1 + it.max_moves -"),
    Mutation("allocation", A + "ties.py", "closed = it.draining | ~it.space.enter[it.space.kind[k]]", "closed = it.draining"),
    Mutation("allocation", A + "ties.py", "if moves <= 0 or", "if moves < 0 or"),
    Mutation("allocation", S + "moves.py", "program.stay[k] if target == home else program.enter[program.kind[k], target]", "True"),
    Mutation("allocation", S + "program.py", "[(it.cost, it.cost_limit)]", "[(it.cost, 1.5 * it.cost_limit)]"),
    Mutation("allocation", S + "program.py", "in it.rooms:", "in ():"),
    Mutation("collocation", S + "moves.py", "program.stay[k] if target == home else program.enter[program.kind[k], target]", "True"),
    Mutation("collocation", S + "lowering.py", "math.floor(moves + 1e-9)", "math.floor(moves + 1.5)"),
    Mutation("collocation", S + "lowering.py", "made[:] = given", "made[:] = 1.5 * given"),
    Mutation("mclb", "solvers/mclb/local_search.py", "cost_limit=problem.max_state_moved", "cost_limit=problem.max_state_moved and 1.5 * problem.max_state_moved"),
    Mutation("routing", "solvers/routing/lagrangian.py", "self.home = w.kept,", "self.home = np.ones_like(w.kept),"),
    Mutation("routing", "solvers/routing/statement.py", "allowance = (self.found.objective - dual.bound) / ", "allowance = 0.2 * (self.found.objective - dual.bound) / "),
)  # fmt: skip


def copied(folder: Path) -> Path:
    """The package in one folder, with what Numba has compiled, as an import finds it."""
    site, skipped = folder / "keyshift", shutil.ignore_patterns("*.egg-info", "build")
    shutil.copytree(ROOT / "interface", site, ignore=skipped)
    for room in ("models", "solvers", "heuristics", "spark_stats"):
        shutil.copytree(ROOT / room, site / room, ignore=skipped)
    return site


def caught_by(mutation: Mutation, site: Path) -> str:
    """The test that fails first, and why; empty where all pass."""
    for marker in ("not slow", "slow"):
        chosen = ["-m", marker, "-k", f"{mutation.kind} or test_{mutation.kind}"]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *chosen, *TESTS]
        path = os.pathsep.join([str(site.parent), os.environ.get("PYTHONPATH", "")])
        said = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", said.stdout, re.MULTILINE)
        if failed:
            return f"{failed[1].rsplit('/', 1)[-1]}: {(failed[2] or '')[:90]}"
    return ""


def main() -> int:
    """Print a line a mutation."""
    pattern, alive = (sys.argv[1:] or [""])[0], 0
    for number, mutation in enumerate(MUTATIONS, 1):
        if pattern not in f"{mutation.kind} {mutation.file}":
            continue
        with tempfile.TemporaryDirectory() as folder:
            site = copied(Path(folder))
            file = site / mutation.file
            text = file.read_text()
            assert text.count(mutation.old) == 1, mutation
            file.write_text(text.replace(mutation.old, mutation.new))
            if "njit" in text:  # who calls a compiled function holds a copy of it
                for compiled in (site / Path(*Path(mutation.file).parts[:2])).rglob("*.nb[ic]"):
                    compiled.unlink()
            test = caught_by(mutation, site)
        alive += not test
        print(
            f"{number:2} {mutation.file}: {mutation.old} -> {mutation.new or 'nothing'}\n   {test or 'LIVES'}",
            flush=True,
        )
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
