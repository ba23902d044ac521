"""As in a hardened container: an installation that cannot be written, no home, another user; see docs/reference-engines.md."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from instances import BATTERIES

import keyshift as ks

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"


def problems() -> dict[str, ks.Problem]:
    """A small instance of every problem, and one that wants compiled kernels."""
    rng = np.random.default_rng(3)
    load, state = np.round(1 + 99 * rng.random(400) ** 4, 2), np.round(1 + 9 * rng.random(400), 1)
    large = ks.Workload(load=load, state=state, current=rng.integers(0, 20, 400), nodes=20)
    found = {name: battery()["ties"] for name, battery in BATTERIES.items()}
    return found | {"large": ks.KeyGroupAllocation(large, max_migrations=13)}


def answers() -> dict[str, float | None]:
    return {name: ks.solve(problem).objective for name, problem in problems().items()}


def asked_by_another_user(package: Path, cache: Path | None, temporary: Path) -> tuple[dict[str, float], float, str]:
    """The answers, the seconds that compiling took, and what was said."""
    rights = [
        "--inh-caps=-all,+dac_read_search",
        "--ambient-caps=-all,+dac_read_search",
    ]  # to reach root's Python, to write nowhere
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *rights] if os.getuid() == 0 else []
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": f"{package}:{SUPPORT}",
        "TMPDIR": str(temporary),
        "HOME": "/nonexistent",
    }
    environment |= {} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}
    command = [*nobody, sys.executable, "-B", str(Path(__file__))]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/", timeout=600)
    assert run.returncode == 0, run.stderr
    found, anew = json.loads(run.stdout)
    return found, anew, run.stderr


@pytest.fixture
def package(tmp_path):
    """A folder with keyshift as it is installed, which nobody may write."""
    without = shutil.ignore_patterns("*.nb[ic]")
    shutil.copytree(ROOT / "interface", tmp_path / "lib" / "keyshift", ignore=without)
    for floor in ("models", "solvers", "heuristics", "spark_stats"):
        shutil.copytree(ROOT / floor, tmp_path / "lib" / "keyshift" / floor, ignore=without)
    folders = [tmp_path / "lib", *(path for path in (tmp_path / "lib").rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield tmp_path / "lib"
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.slow
@pytest.mark.skipif(
    os.name != "posix" or (os.getuid() == 0 and not shutil.which("setpriv")), reason="needs another user"
)
def test_another_user_has_all_answers_and_at_most_one_sentence_and_with_a_cache_compiles_nothing(package, tmp_path):
    temporary, cache = tmp_path / "temporary", tmp_path / "cache"
    temporary.mkdir()
    temporary.chmod(0o777)
    expected = pytest.approx(answers(), rel=1e-6, abs=1e-6, nan_ok=True)
    found, anew, said = asked_by_another_user(package, None, temporary)
    assert found == expected
    assert anew > 0
    assert said.count("\n") == 1
    assert "kept in" in said
    given = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": f"{package}:{SUPPORT}"}
    subprocess.run([sys.executable, str(Path(__file__))], env=given, capture_output=True, check=True, timeout=600)
    for folder in (cache, *cache.iterdir()):
        folder.chmod(0o555)
    shutil.rmtree(temporary)
    temporary.mkdir()
    temporary.chmod(0o777)
    assert asked_by_another_user(package, cache, temporary) == (expected, 0.0, "")


if __name__ == "__main__":
    from keyshift.models.base.compiling import COMPILING

    made = answers()
    print(json.dumps([made, COMPILING.anew]))
