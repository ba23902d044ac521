"""What people read without building anything: the README's lines run as printed."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import keyshift as ks
from keyshift.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FRONT = (ROOT / "docs" / "index.md").read_text()
sys.path.insert(0, str(ROOT / "docs"))

import transcripts  # noqa: E402  # a script of the documentation, not a module of ours


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [README, FRONT], ids=["README", "front page"])
def test_the_python_block_prints_what_it_says(page):
    (code,), (said,) = blocks(page, "python"), blocks(page, "text")
    assert len([line for line in code.splitlines() if line]) <= 8
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README", "exec"), {})
    assert transcripts.masked(output.getvalue()) == transcripts.masked(said)


def test_the_example_is_the_only_optimum_and_leaves_the_largest_state():
    given: dict = {}
    exec("\n".join(blocks(README, "python")[0].splitlines()[:5]), given)
    problem, best = given["problem"], given["s"]
    w = problem.workload
    moved = {int(k) for k in best.moves["key_group"]}
    assert int(w.state.argmax()) not in moved
    values = [
        problem.objective(other)
        for other in all_assignments(w.key_groups, w.nodes)
        if problem.check(other).feasible and other.tolist() != best.assignment.tolist()
    ]
    assert min(values) > best.objective


def all_assignments(key_groups: int, nodes: int):
    import itertools

    import numpy as np

    yield from (np.array(a) for a in itertools.product(range(nodes), repeat=key_groups))


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    """A copy of what `make demo` left, where it ran; else a stand-in with the same names."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    if (ROOT / "out" / "workload").is_dir():
        shutil.copytree(ROOT / "out", folder, ignore=shutil.ignore_patterns("benchmarks", "hostile", "statistics"))
    else:
        folder.mkdir()
        ((_, problem),) = ks.family("flights-allocation", nodes=3, key_groups=12)
        ks.write_workload(problem.workload, folder / "workload")
    return folder


SHELL = [line for block in blocks(README, "console") for line in block.splitlines() if "keyshift" in line]


def test_there_are_three_shell_lines():
    assert len(SHELL) == 3
    assert all(line.startswith("$ keyshift ") for line in SHELL)


@pytest.mark.parametrize("line", SHELL)
def test_every_shell_line_runs_in_the_demos_folder(line, demo_folder, monkeypatch, capsys):
    monkeypatch.chdir(demo_folder)
    assert main(shlex.split(line)[2:]) == 0, capsys.readouterr().err
    if "--report" in line:
        assert (demo_folder / "plan.html").stat().st_size > 1000
        assert ks.read_plan(demo_folder / "plan.json").check(ks.read_workload(demo_folder / "workload")).feasible


def test_the_shell_lines_of_the_cheat_sheet_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    w = ks.Workload(load=[[7, 5, 4, 3], [6, 6, 4, 3]], state=[7, 5, 4, 3], current=[0, 0, 1, 1], nodes=2)
    ks.write_workload(w, "w")
    w.to_frame().to_csv("instance.csv")
    Path("now.json").write_text("[0, 1, 0, 1]")
    lines = re.findall(r"`(keyshift [^`]+)`", (ROOT / "docs" / "cheat-sheet.md").read_text())
    assert len(lines) > 12
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] not in ("compare", "study", "reproduce"):  # they take their time
            assert main(words) == 0, line + capsys.readouterr().err


def test_the_python_blocks_for_those_who_come_from_elsewhere_run(capsys):
    found = blocks((ROOT / "docs" / "which-problem.md").read_text(), "python")
    assert len(found) == 2
    for code in found:
        exec(compile(code, "which-problem", "exec"), {})


def test_the_readme_is_short_and_its_links_lead_somewhere():
    assert len(README.split()) <= 500
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_seconds_and_the_width_of_tables_are_not_compared():
    one = "solved in 0.05 s\nseconds   0.95\n━━━━━━ ━━━\n│ a   │ 0.05"
    other = "solved in 10.05 s\nseconds   12.01\n━━━━━━━━━━━ ━━━━\n│ a     │ 10.05"
    assert transcripts.masked(one) == transcripts.masked(other)
    assert transcripts.masked("objective 1.05 reached") != transcripts.masked("objective 2.05 reached")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/design.md"])
def test_the_files_that_a_guide_names_are_there(page):
    named = re.findall(r"`([\w.]+/[\w./]+)`", (ROOT / page).read_text())
    assert len(named) > 20
    assert not [path for path in named if not (ROOT / path).exists() and not list(ROOT.glob(f"*/{path}"))]
