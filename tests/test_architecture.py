"""Imports only go down, the front door is light, and the two solver libraries live in one process."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import keyshift as ks

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "models": {"models"},
    "solvers": {"models", "solvers"},
    "heuristics": {"models", "solvers", "heuristics"},
    "spark_stats": {"models", "spark_stats"},
}
HEAVY = ("pyomo", "ortools", "pyspark", "numba", "matplotlib")


def imported_modules(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.module
            # `from keyshift import x` may name a floor
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "keyshift")


@pytest.mark.parametrize("floor", MAY_IMPORT)
def test_imports_only_go_down(floor):
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    for path in files:
        for module in imported_modules(path):
            head, *rest = module.split(".")
            assert head not in {*MAY_IMPORT, "interface"}, f"{path} imports {module} by its bare name"
            if head == "keyshift":
                assert rest, f"{path} imports the front door"
                assert rest[0] in MAY_IMPORT[floor], f"{path} imports {module}, which is on a higher floor"


def test_there_is_no_folder_that_shadows_the_package():
    assert not (ROOT / "keyshift").exists()


@pytest.mark.parametrize("command", ["import keyshift", "from keyshift.cli import main; main(['--help'])"])
def test_the_front_door_is_light(command):
    code = f"{command}; import sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "order", ["import highspy, ortools.sat.python.cp_model", "import ortools.sat.python.cp_model, highspy"]
)
def test_highs_and_ortools_share_a_process(order):
    # highspy 1.15 and ortools 9.15 cannot: both ship libhighs.so.1. The pin in pyproject.toml keeps this true.
    solve_both = "h = highspy.Highs(); h.setOptionValue('output_flag', False); h.run(); from ortools.sat.python import cp_model; cp_model.CpSolver().solve(cp_model.CpModel())"
    subprocess.run([sys.executable, "-c", f"{order}; {solve_both}"], check=True, capture_output=True)


def test_every_public_name_loads():
    for name in ks.__all__:
        assert getattr(ks, name) is not None
    assert set(ks._LAZY) < set(ks.__all__)
    assert set(ks.__all__) <= set(dir(ks))
    with pytest.raises(AttributeError, match="no attribute 'rebalance'"):
        ks.rebalance  # noqa: B018


def test_every_subpackage_is_installed():
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"keyshift"} | {
        "keyshift." + ".".join(init.parent.relative_to(ROOT).parts).removeprefix("interface.")
        for floor in (*MAY_IMPORT, "interface")
        for init in (ROOT / floor).rglob("__init__.py")
        if init.parent != ROOT / "interface"
    }
    assert listed == found
