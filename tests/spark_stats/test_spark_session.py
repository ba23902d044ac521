"""A session of our own: Ctrl-C leaves no Java behind, and a full disk is called that."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from brought import environment

from keyshift.cli import main
from keyshift.commands import model as methods
from keyshift.spark_stats import failures


def javas_of(session: int) -> list[int]:
    """Processes of that session that run Java."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if name == "java" and int(rest.split()[3]) == session:
            found.append(int(entry.name))
    return found


@pytest.mark.spark
@pytest.mark.parametrize("lives", [0.0, 1.5, pytest.param(0.5, marks=pytest.mark.slow)])
def test_ctrl_c_while_java_starts_leaves_none_behind(tmp_path, lives):
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k}]\n")
    (tmp_path / "log.json").write_text(json.dumps({"k": "u"}) + "\n")
    line = [sys.executable, "-m", "keyshift", "stats", "log.json", "--topology", "t.yaml", "-o", "out"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(line, cwd=tmp_path, **pipes, text=True, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not javas_of(child.pid) and time.monotonic() < until and child.poll() is None:
            time.sleep(0.02)
        time.sleep(lives)
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=30)  # a Java that held the output would hold us
        assert (child.returncode, err) == (1, "keyshift: interrupted\n")
        until = time.monotonic() + 10
        while javas_of(child.pid) and time.monotonic() < until:
            time.sleep(0.1)
        assert javas_of(child.pid) == []
    finally:
        child.kill()
        for process in javas_of(child.pid):
            os.kill(process, signal.SIGKILL)


def test_a_library_that_cannot_be_unpacked_is_a_disk_that_is_full(monkeypatch):
    words = "java.lang.UnsatisfiedLinkError: no snappyjava in java.library.path: /usr/lib"
    assert "temporary folder" in failures.sentence(Exception(words))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (61_440, 61_440))
    assert failures.sentence(Exception(words)).startswith("no file may be larger than 61,440 bytes")
    monkeypatch.setattr(failures, "SMALL", 2**60)
    assert failures.sentence(Exception(words)).startswith("the disk is full: ")
    assert failures.sentence(Exception("No space left on device")).startswith("the disk is full")


def test_what_a_log_needs_not_is_not_loaded():
    """A small log is counted sooner than these are imported."""
    code = (
        "import sys; import keyshift.commands.stats, keyshift.spark_stats.statistics; "
        "print([name for name in ('pandas', 'scipy', 'networkx', 'numba') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.spark
@pytest.mark.slow
def test_classes_that_a_warm_up_kept_are_loaded_and_a_broken_file_is_passed_over(tmp_path):
    """Both runs write the same; `keyshift warm-up` does not write twice."""
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k}]\n")
    (tmp_path / "log.json").write_text(json.dumps({"k": "u"}) + "\n")
    cache = tmp_path / "cache"
    ours = os.environ | {"NUMBA_CACHE_DIR": str(cache), "JAVA_TOOL_OPTIONS": "-Xlog:class+load:file=classes.txt"}

    def ran(*line: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "keyshift", *line],
            cwd=tmp_path,
            env=ours,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert "MB" in ran("warm-up", "stats")
    assert "before" in ran("warm-up", "stats")
    (archive,) = cache.glob("spark-*.jsa")
    ran("stats", "log.json", "--topology", "t.yaml", "-o", "kept")
    told = (tmp_path / "classes.txt").read_text()
    assert told.count("shared objects file (top)") > 3_000
    archive.chmod(0o600)
    archive.write_bytes(b"no archive")
    ran("stats", "log.json", "--topology", "t.yaml", "-o", "broken")
    assert "shared objects file (top)" not in (tmp_path / "classes.txt").read_text()
    assert len({len([*(tmp_path / out).rglob("*")]) for out in ("kept", "broken")}) == 1


@pytest.mark.spark
def test_the_short_job_of_a_warm_up_is_one_that_stats_runs(spark, tmp_path, monkeypatch):
    """In this session, which writes no classes down: they are made up."""
    kept = tmp_path / "cache"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kept))

    def run(line, *, cwd, **_):
        monkeypatch.chdir(cwd)
        *asked, setting, java = line[3:]
        assert setting == "--conf"
        assert main(asked) == 0
        Path(java.partition("ArchiveClassesAtExit=")[2]).write_bytes(b"classes")
        monkeypatch.chdir(tmp_path)
        return subprocess.CompletedProcess(line, 0)

    monkeypatch.setattr(methods, "subprocess", SimpleNamespace(run=run))
    assert "MB" in methods._note_classes()
    assert [file.read_bytes() for file in kept.glob("spark-*.jsa")] == [b"classes"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("brief", [True, False])
@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_the_collector_of_garbage_that_the_environment_names_is_the_only_one(brief, variable):
    code = f"from keyshift.spark_stats import local_session\nwith local_session(brief={brief}) as spark: print(spark.range(3).count())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment(), variable: "-XX:+UseG1GC"}, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
