"""Certificates against the truth by trying everything, against tampering, and under every Python there is."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from draws import rest_slow
from hostile.solving import MODULES, spec_of
from typer.testing import CliRunner

import keyshift as ks
from keyshift.certificates import certificate, verify
from keyshift.cli import application

PROGRAM = Path(verify.__file__)
ROUNDING = Fraction(1, 10**8)
SMALL = {
    "key-group-allocation": ("madsen-allocation", {"nodes": 3, "key_groups": 12, "max_migrations": 3}),
    "collocated-allocation": ("madsen-collocation", {"nodes": 3, "key_groups": 12}),
    "mclb": ("guo-mclb", {"nodes": 3, "key_groups": 6, "windows": 3}),
    "movement-within-limits": ("hard-movement", {"kind": "giant"}),
    "key-splitting": ("hard-splitting", {"kind": "giant", "messages": 500}),
    "key-placement": ("hard-placement", {"kind": "giant"}),
    "mixed-routing": ("hard-routing", {"kind": "ties"}),
    "interval-migration": ("hard-step", {"kind": "giant"}),
    "migration-sequence": ("hard-sequence", {"kind": "giant"}),
    "migration-policy": ("hard-policy", {"kind": "giant"}),
}


@pytest.fixture(scope="module", params=SMALL)
def certified(request):
    family, parameters = SMALL[request.param]
    ((_, problem),) = ks.family(family, **parameters, count=1)
    solution = ks.solve(problem, time_limit=5)
    without_proof = request.param == "collocated-allocation"  # its search has no end worth waiting for
    return solution, ks.certify(solution, time_limit=0.5 if without_proof else 20)


def refused(record) -> bool:
    """Whether the checker refuses a record, in one sentence and never with a traceback."""
    try:
        verify.verified(record)
    except verify.Refused:
        return True
    except verify.DAMAGED:
        return True
    return False


def holds(name: str, index: int, seed: int) -> int:
    """1 if there was a certificate to hold against the truth."""
    spec = spec_of(name, seed, index)
    truth = MODULES[name].Truth(spec)
    truth.find()
    try:
        solution = ks.solve(MODULES[name].build(spec), time_limit=1)
        c = ks.certify(solution, time_limit=1)
    except ks.InputError:  # too many nodes needed; nothing to certify, or only by the rounding of floats
        return 0
    if solution.status == "infeasible":
        assert truth.best is None or not c.complete, (name, index)
        return 1
    assert truth.loose is not None
    assert c.value >= truth.loose * (1 - ROUNDING), (name, index)
    if c.bound:
        assert c.bound <= truth.best + ROUNDING * max(truth.unit, truth.best), (name, index, c)
    return 1


CERTIFIED = [name for name in MODULES if name != "replicated-allocation"]  # for which there are no certificates


@pytest.mark.parametrize("name", CERTIFIED)
def test_brute_force_agrees(name):
    assert sum(holds(name, index, 41) for index in range(4)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CERTIFIED)
def test_brute_force_agrees_a_thousand_times(name):
    # Of collocation five in six have costs or sides that certificates know nothing of.
    assert sum(holds(name, index, 42) for index in range(1000)) > (150 if name == "collocated-allocation" else 200)


def test_what_is_claimed_is_proven(certified):
    solution, c = certified
    assert float(c.value) == pytest.approx(solution.objective, rel=1e-6, abs=1e-9)
    assert not refused(json.loads(json.dumps(c.record)))
    if (
        solution.problem.name == "collocated-allocation"
    ):  # all may move, and all talk to all: less of its bound is proven
        assert not c.complete
        assert "solver's word" in solution.details["proof"]
    else:
        assert c.complete, c.word
        assert solution.details["proof"].startswith("certificate")


def test_ctrl_c_ends_the_search_with_what_is_proven(certified, tmp_path, monkeypatch):
    solution, c = certified
    asked, before = [], signal.getsignal(signal.SIGINT)

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        asked.append(arguments)
        return prove(*arguments)

    prove = certificate.prove
    monkeypatch.setattr(certificate, "prove", interrupted)
    began = time.process_time()
    made = ks.certify(solution, tmp_path / "c.json", time_limit=1000)
    assert time.process_time() - began < 5
    assert asked
    assert verify.check_file(str(tmp_path / "c.json")) == (True, str(made).partition(";")[0])
    assert made.value == c.value
    assert signal.getsignal(signal.SIGINT) is before


def test_a_bound_without_a_certificate_is_the_solvers_word():
    ((_, problem),) = ks.family("madsen-allocation", nodes=3, key_groups=12, max_migrations=3, count=1)
    assert ks.solve(problem, time_limit=2).details["proof"] == "solver's word"


def test_collocation_of_pairs_that_form_a_forest_is_proven():
    parameters = {"nodes": 4, "key_groups": 24, "one_to_one": 1.0, "max_migrations": 3}
    ((_, problem),) = ks.family("madsen-collocation", **parameters, count=1)
    c = ks.certify(ks.solve(problem, time_limit=10), time_limit=60)
    assert c.bound > 0.99 * c.value


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path):
    file = tmp_path / "c.json"
    file.write_bytes(b"\xff\xfe\x00")
    assert verify.check_file(str(file))[1].startswith("not proven: ")
    assert verify.check_file(str(tmp_path / "none.json")) == (
        False,
        "not proven: the file cannot be read (No such file or directory)",
    )


def test_the_checker_is_one_short_file_of_the_standard_library():
    tree = ast.parse(PROGRAM.read_text())
    imported = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"json", "sys", "bisect", "collections", "fractions", "itertools", "math", "pathlib", "stat"}
    assert imported <= sys.stdlib_module_names
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not called & {"eval", "exec", "__import__", "compile"}
    assert len(PROGRAM.read_text().splitlines()) <= 1025  # the four forms of rules among them


@pytest.mark.parametrize("python", rest_slow(1, ["python3.11", "python3.12", "python3.13", "python3.14"]))
def test_it_runs_alone_under_every_python(python, certified, tmp_path):
    found = sorted(Path.home().glob(f".pyenv/versions/{python.removeprefix('python')}*/bin/{python}"))
    program = str(found[0]) if found else python
    try:
        subprocess.run([program, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"there is no {python}")
    _, c = certified
    c.save(tmp_path / "c.json")
    run = subprocess.run([program, "-I", "-S", PROGRAM, tmp_path / "c.json"], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, f"proven: {c.proven}", "")


def test_the_shell_certifies_and_verifies(tmp_path):
    shell, app = CliRunner(), application()
    w = ks.Workload(load=[6, 3, 2, 1], state=[9, 2, 2, 1], current=[0, 0, 0, 1], nodes=2, home=[0, 0, 0, 1])
    ks.write_workload(w, tmp_path / "w.json")
    out = tmp_path / "c.json"
    made = shell.invoke(
        app, ["certify", str(tmp_path / "w.json"), "-p", "mixed-routing", "--theta-max", "0.1", "--out", str(out)]
    )
    assert made.exit_code == 0, made.output
    assert "no assignment has less" in made.output
    assert shell.invoke(app, ["verify", str(out)]).exit_code == 0
    record = json.loads(out.read_text())
    record["claim"]["value"] = 1
    out.write_text(json.dumps(record))
    said = shell.invoke(app, ["verify", str(out), "--json"])
    assert said.exit_code == 1
    assert json.loads(said.output)["proven"] is False
