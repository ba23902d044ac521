"""The shell's edges: names that would steer the terminal, streams that are closed, Ctrl-C anywhere, modules that are missing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift import cli
from keyshift.cli import main
from keyshift.commands import own
from keyshift.terminal import Terminal, visible

NAMES = ["a\x1b[31mred", "\u202eright to left", "b\x07\x1b]0;title\x07", "[bold]c"]


def place(folder: Path, **more: object) -> str:
    content = {"load": [1, 2, 3, 4], "state": [1, 1, 1, 1], "current": [0, 0, 1, 1], "nodes": 2, **more}
    (folder / "w.json").write_text(json.dumps(content))
    return str(folder / "w.json")


def test_no_name_steers_the_terminal_or_a_page(tmp_path, capsys):
    path = place(tmp_path, keys=NAMES, node_names=["n\x1b[2J", "m\u2028"])
    report, plan = tmp_path / "r.html", str(tmp_path / "p.json")
    for line in (["plan", path, "--max-migrations", "2", "--all", "--report", str(report), "--out", plan], ["explain", path],
                 ["solve", path, "--all"], ["diff", plan, plan]):  # fmt: skip
        assert main(line) == 0
        said = capsys.readouterr()
        assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", said.out + said.err) == []
    page = report.read_text()
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page) == []
    assert "\\x1b[2J" in page
    assert main(["solve", path, "-p", "no\x1b[2Jsuch"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_the_terminal_keeps_what_is_fine(capsys):
    assert visible("caf\u00e9 \u2192 \U0001f600\n\tx") == "caf\u00e9 \u2192 \U0001f600\n\tx"
    Terminal(width=40, force_terminal=True, color_system="standard", no_color=False).print(
        "[red]x[/]\x1b[32my", highlight=False
    )
    assert capsys.readouterr().out == "\x1b[31mx\x1b[0m\\x1b[32my\n"


def shell(*line: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != cli.TRACEBACK}
    command = [sys.executable, "-m", "keyshift", *line]
    return subprocess.run(command, env=environment, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload]


def test_a_closed_output_is_one_sentence():
    ended = shell("methods", stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "standard output is closed" in ended.stderr
    assert shell("methods", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2)).returncode == 0
    assert (
        shell("solve", "nowhere", stdout=subprocess.PIPE, preexec_fn=lambda: (os.close(2), os.close(0))).returncode == 2
    )


@pytest.mark.parametrize(
    "line", [["solve"], ["compare"], ["stats", "-o", "x", "--topology", "t.yaml"], ["explain"], ["check", "-a", "a"]]
)
def test_ctrl_c_is_said_whatever_runs(tmp_path, capsys, monkeypatch, line):
    def interrupt(*arguments: object, **options: object) -> None:
        signal.raise_signal(signal.SIGINT)

    from keyshift.commands.stats import StatsJob

    monkeypatch.setattr(own.Request, "read", interrupt)
    monkeypatch.setattr(StatsJob, "run", interrupt)
    assert main([line[0], place(tmp_path), *line[1:]]) == 1
    assert capsys.readouterr().err == "keyshift: interrupted\n"


def test_what_a_library_makes_of_ctrl_c_is_ctrl_c(tmp_path, capsys, monkeypatch):
    def load(*arguments: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise ImportError("numpy could not be imported") from error

    monkeypatch.setattr(own.Request, "read", load)
    assert main(["solve", place(tmp_path)]) == 1
    assert capsys.readouterr().err == "keyshift: interrupted\n"


@pytest.mark.parametrize(
    "module",
    [
        "keyshift.models",
        "typer",
        "rich.markup",
        "numpy",
        "keyshift.commands.common",
        "keyshift.models.allocation.problem",
    ],
)
def test_ctrl_c_while_the_program_loads(tmp_path, module):
    """From the moment that a line of ours runs: what Python itself loads before is not ours to hear it in."""
    code = (
        "import signal, sys\n"
        f"asked = lambda event, given: event == 'import' and given[0] == {module!r} and signal.raise_signal(signal.SIGINT)\n"
        "sys.addaudithook(asked)\n"
        f"sys.argv = ['keyshift', 'solve', {place(tmp_path)!r}]\n"
        "from keyshift.cli import script; script()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (1, "keyshift: interrupted\n")


def test_a_missing_pyspark_is_named(tmp_path):
    code = (
        "import sys; sys.modules.update({'py4j': None, 'py4j.protocol': None, 'pyspark': None}); from keyshift.cli import main; "
        "sys.exit(main(['stats', 'log.json', '--topology', 't.yaml', '-o', 'out']))"
    )
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k}]\n")
    (tmp_path / "log.json").write_text('{"k": 1}\n')
    environment = {name: value for name, value in os.environ.items() if name != cli.TRACEBACK}
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("keyshift: PySpark is not installed: pip install ")


def test_loads_beyond_all_limits_are_bad_input(tmp_path, capsys):
    (tmp_path / "a.json").write_text("[0, 0, 1, 1]")
    movement = ["-p", "movement-within-limits", "--lower", "0.5", "--upper", "1.5"]
    for load in ([1e300, 2, 3, 4], [1e308, 1e308, 1, 1]):
        path = place(tmp_path, load=load)
        for line in (["check", path, "-a", str(tmp_path / "a.json"), *movement], ["solve", path, *movement]):
            assert main(line) == 2
            assert re.search("needs 2?e?1?.*nodes|more than a float can hold", capsys.readouterr().err)
    w = ks.Workload(load=[1, 1], state=[1, 1], current=[0, 0], nodes=1)
    with pytest.raises(ks.InputError, match="nodes_after"):
        ks.MovementWithinLimits(w, 0.5, 1.5, nodes_after=10**18)


def test_repair_says_what_a_method_is():
    w = ks.Workload(load=[4, 2, 1], state=[1, 1, 1], current=[0, 0, 0], nodes=2)
    problem = ks.KeyGroupAllocation(w, max_migrations=1)
    for verb in (ks.repair, ks.solve):
        with pytest.raises(ks.InputError, match="no method"):
            verb(problem, np.array([0, 1, 0]))


def test_a_front_without_load_has_one_point():
    w = ks.Workload(load=[0.0] * 4, state=[1] * 4, current=[0, 0, 1, 1], nodes=2)
    front = ks.pareto(ks.IntervalMigration(w, 3, 1), against="tau")
    assert front.to_frame()["objective"].tolist() == [0.0]


def test_a_cache_that_cannot_be_a_folder_is_refused_before_compiling(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert main(["warm-up", "key-splitting", "--cache", str(tmp_path / "file")]) == 2
    assert "cannot be made a folder" in " ".join(capsys.readouterr().err.split())
    assert "NUMBA_CACHE_DIR" not in os.environ
