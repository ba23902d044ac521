"""A full disk, a place where nothing can be written, somebody else's files: one sentence, and nothing is lost or half."""

from __future__ import annotations

import resource
import signal
import sys
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.studies.tables import BestKnown


@contextmanager
def full_disk(size=40):
    """No file may be larger than so many bytes. Compiled modules are not written: they would be cut off and stay broken."""
    before, kept = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = kept
        signal.signal(signal.SIGXFSZ, ignored)


STUDY = ["study", "guo-mclb", "--nodes", "2", "--key-groups", "6", "--windows", "1", "-m", "local-search"]
MODEL = ["model", "w", "-p", "mclb", "--max-state-moved", "3"]
LINES = {
    "pareto --plot": ["pareto", "w", "--points", "2", "--plot", "f.png"],
    "pareto --checkpoint": ["pareto", "w", "--points", "2", "--checkpoint", "f.json"],
    "generate": ["generate", "allocation", "f.yaml.json", "--nodes", "9", "--key-groups", "900"],
    "generate a folder": ["generate", "allocation", "f", "--nodes", "9", "--key-groups", "900"],
    "plan --out": ["plan", "w", "-p", "mclb", "-m", "local-search", "--out", "f.json"],
    "plan --report": ["plan", "w", "-p", "mclb", "-m", "local-search", "--report", "f.html"],
    "solve --out": ["solve", "w", "-p", "mclb", "-m", "local-search", "--out", "f.json"],
    "model --write mps": [*MODEL, "--write", "f.mps"],
    "model --write nl": [*MODEL, "--write", "f.nl"],
    "model --write pb": [*MODEL, "--kind", "cp-sat", "--write", "f.pb"],
    "export": ["export", "plan.json", "--to", "storm", "--topology", "t", "--out", "f"],
    "study --out": [*STUDY, "--out", "f"],
    "study --report": [*STUDY, "--report", "f.html"],
}


def folder(tmp_path):
    """A workload and a plan."""
    rng = np.random.default_rng(1)
    w = ks.Workload(load=rng.random((3, 9)), state=rng.random(9), current=np.arange(9) % 3, nodes=3,
                    keys=[f"c:{k}" for k in range(9)], node_names=["h:1", "h:2", "h:3"])  # fmt: skip
    ks.write_workload(w, tmp_path / "w")
    ks.plan(ks.MCLB(w), ks.solve(ks.MCLB(w), "local-search"), phase_moves=1).save(tmp_path / "plan.json")
    return tmp_path


def names(place):
    return sorted(str(f.relative_to(place)) for f in place.rglob("*"))


def test_a_full_disk_is_one_sentence_of_every_command(tmp_path, monkeypatch, capsys):
    for library in ("matplotlib.figure", "numba", "pyomo.environ"):
        import_module(library)  # what these keep in files of their own comes before the disk is full
    monkeypatch.chdir(folder(tmp_path))
    (tmp_path / "f.json").write_text("mine")  # what a command would replace stays
    before = names(tmp_path)
    for name, line in LINES.items():
        if name != "pareto --checkpoint":
            with full_disk():
                code = main(line)
            said = capsys.readouterr().err
            assert (code, said.count("keyshift:"), "cannot be" in said, "Traceback" in said) == (2, 1, True, False), (
                said
            )
    assert (tmp_path / "f.json").read_text() == "mine"
    assert [name for name in names(tmp_path) if name not in before and name not in ("f", "f/results")] == []


@pytest.mark.parametrize("name", LINES)
def test_where_nothing_can_be_written_a_command_says_so(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(folder(tmp_path))
    before = names(tmp_path)
    line = [f"/proc/{token}" if token.split(".")[0] == "f" else token for token in LINES[name]]
    assert main(line) == 2
    said = capsys.readouterr().err
    assert "keyshift: /proc/" in said
    assert "Traceback" not in said
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pareto --checkpoint", "f.json"),
        ("study --out", "f is not a folder|cannot be made a folder"),
        ("export", "f is not empty|not a folder"),
        ("generate a folder", "f"),
    ],
)
def test_somebody_elses_files_stay(tmp_path, monkeypatch, capsys, name, message):
    monkeypatch.chdir(folder(tmp_path))
    for mine in ("f.json", "f"):
        (tmp_path / mine).write_text("[1, 2]")
    before = names(tmp_path)
    assert main(LINES[name]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert any(part in said for part in message.split("|")), said
    assert names(tmp_path) == before
    assert (tmp_path / "f.json").read_text() == (tmp_path / "f").read_text() == "[1, 2]"


def test_a_study_leaves_what_is_not_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    (tmp_path / "f/notes.txt").write_text("mine")
    (tmp_path / "f/study.json").write_text('{"version": "of another program"}')
    assert main(LINES["study --out"]) == 2
    assert "f/study.json: version" in capsys.readouterr().err
    assert (tmp_path / "f/notes.txt").read_text() == "mine"
    assert "another program" in (tmp_path / "f/study.json").read_text()
    (tmp_path / "best.csv").write_text("some,other,table\n1,2,3\n")
    assert main([*STUDY, "--best", "best.csv", "--update-best"]) == 2
    assert "best.csv" in capsys.readouterr().err
    assert (tmp_path / "best.csv").read_text() == "some,other,table\n1,2,3\n"
    with pytest.raises(ks.InputError, match="best"):
        BestKnown.read(tmp_path / "best.csv")
