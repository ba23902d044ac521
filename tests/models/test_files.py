"""Files: schemas in step with the docs, nothing that is not ours replaced, nothing half-written, nothing that grows."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.models.base.disk import (
    only_writer,
    parse_json,
    read_archive,
    read_bytes,
    write_archive,
    write_file,
    write_text,
)
from keyshift.models.base.yaml_text import parse_yaml

DOCS = Path(__file__).parents[2] / "docs"


def workload(seed: int = 0) -> ks.Workload:
    rng = np.random.default_rng(seed)
    return ks.Workload(
        load=rng.random((2, 5)), state=rng.random(5), current=rng.integers(0, 2, 5), nodes=2, traffic=rng.random((5, 5))
    )


def write_schemas():
    spec = importlib.util.spec_from_file_location("write_schemas", DOCS / "write_schemas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KINDS = write_schemas().FILES


def test_the_schemas_in_the_docs_are_those_that_read():
    module = write_schemas()
    page = (DOCS / "files.md").read_text()
    for name, kind in module.FILES.items():
        file = f"_static/schemas/{name}.schema.json"
        assert (DOCS / file).read_text() == module.schema(kind), "run python docs/write_schemas.py"
        assert f"| {kind.newest}: [" in next(line for line in page.splitlines() if file in line)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_refuses_by_the_same_envelope(name, tmp_path):
    kind = KINDS[name]
    stamp = {"format": kind.kind, "version": kind.newest}
    for content, said in (
        ([], "must hold one JSON object, not \\[\\]"),
        ({**stamp, "version": kind.newest + 1}, f"has another format than {kind.kind} {kind.newest}"),
        ({**stamp, "version": True}, "version = True"),
        ({**stamp, "format": "keyshift-cake"}, "format = 'keyshift-cake'"),
        (stamp, "lacks the field"),
    ):
        (tmp_path / "f.json").write_text(json.dumps(content))
        with pytest.raises(ks.InputError, match=said):
            kind.read(tmp_path / "f.json")
    with pytest.raises(ks.InputError, match="at most 1 are read"):
        kind.read(tmp_path / "f.json", most=1)


def test_the_front_door_loads_no_schema_library():
    code = "import keyshift, sys; print([m for m in ('pydantic', 'pyarrow', 'yaml', 'pandas') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_files_of_version_01_are_read(tmp_path):
    w = workload()
    old = {
        "keyshift_workload": 1,
        "load": w.load.tolist(),
        "state": w.state.tolist(),
        "current": w.current.tolist(),
        "nodes": 2,
    }
    (tmp_path / "w.json").write_text(json.dumps(old))
    np.testing.assert_array_equal(ks.read_workload(tmp_path / "w.json").load, w.load)
    ks.write_workload(w, tmp_path / "w")
    (tmp_path / "w/workload.json").write_text('{"keyshift_workload": 1, "key_groups": 5, "nodes": 2, "windows": 2}')
    again = ks.read_workload(tmp_path / "w")
    np.testing.assert_array_equal(again.load, w.load)
    assert (again.traffic != w.traffic).nnz == 0
    (tmp_path / "w/traffic.parquet").unlink()
    (tmp_path / "w/traffic.parquet").symlink_to("nowhere")  # a dangling link is not an absence
    with pytest.raises(ks.InputError, match=r"traffic\.parquet is missing"):
        ks.read_workload(tmp_path / "w")


@pytest.mark.parametrize("table", ["load", "traffic"])
def test_a_table_that_is_gone_or_exchanged_is_never_zero(tmp_path, table):
    for name, seed in (("a", 0), ("b", 1)):
        ks.write_workload(workload(seed), tmp_path / name)
    (tmp_path / f"b/{table}.parquet").replace(tmp_path / f"a/{table}.parquet")
    with pytest.raises(ks.InputError, match=r"sums to .* was changed or damaged"):
        ks.read_workload(tmp_path / "a")
    (tmp_path / f"a/{table}.parquet").unlink()
    with pytest.raises(ks.InputError, match=f"{table}.parquet is missing"):
        ks.read_workload(tmp_path / "a")


def test_somebody_elses_json_is_not_overwritten(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"mine": 1}')
    with pytest.raises(ks.InputError, match="is not a workload that keyshift wrote: it is not overwritten"):
        ks.write_workload(workload(), file)
    assert file.read_text() == '{"mine": 1}'
    ks.write_workload(workload(), file, overwrite=True)
    ks.write_workload(workload(1), file)
    np.testing.assert_array_equal(ks.read_workload(file).load, workload(1).load)


def test_notes_in_a_workloads_directory_stay(tmp_path):
    ks.write_workload(workload(), tmp_path / "w")
    (tmp_path / "w/notes.txt").write_text("mine")
    (tmp_path / "w/drafts").mkdir()
    (tmp_path / "w/drafts/load.parquet").write_text("mine too")
    ks.write_workload(workload(1), tmp_path / "w")
    np.testing.assert_array_equal(ks.read_workload(tmp_path / "w").load, workload(1).load)
    assert (tmp_path / "w/notes.txt").read_text() == "mine"
    assert (tmp_path / "w/drafts/load.parquet").read_text() == "mine too"
    assert len(list((tmp_path / "w").glob("*.parquet"))) == 4
    (tmp_path / "w/workload.json").write_text('{"name": "somebody else\'s"}')
    with pytest.raises(ks.InputError, match="has another format"):
        ks.write_workload(workload(), tmp_path / "w")


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path):
    file = tmp_path / "f"
    texts = [str(i) * 200_000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_text(file, text), texts))
    assert file.read_text() in texts
    assert [f.name for f in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("of", ["folder", "file"])
def test_a_second_writer_is_refused(tmp_path, of):
    lock = tmp_path if of == "folder" else tmp_path / ".f.lock"
    refused = pytest.raises(ks.InputError, match="f is being written by another run")
    with only_writer(lock, "f"), refused, only_writer(lock, "f"):
        pass
    with only_writer(lock, "f"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    file = write_text(tmp_path / "f", "old")
    with pytest.raises(ZeroDivisionError):
        write_file(file, lambda stream: stream.write(b"new") / 0)
    with pytest.raises(ks.InputError, match="cannot be written"):
        write_text(tmp_path / "no" / "f", "new")
    assert file.read_text() == "old"
    assert [f.name for f in tmp_path.iterdir()] == ["f"]


FULL = """
import resource, signal, sys
import numpy as np
import keyshift as ks
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
w = ks.Workload(load=np.ones((20, 4000)), state=np.ones(4000), current=np.zeros(4000, int), nodes=2)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
from keyshift.cli import main
try:
    ks.write_workload(w, sys.argv[1])
except ks.InputError as error:
    print(error)
sys.exit(main(["generate", "allocation", sys.argv[1] + "-g", "--nodes", "9", "--key-groups", "9000"]))
"""


@pytest.mark.parametrize("name", ["w", "w.json"])
def test_a_full_disk_is_one_sentence_and_nothing_is_lost(tmp_path, name):
    ks.write_workload(workload(), tmp_path / name)
    before = sorted(f.name for f in tmp_path.rglob("*"))
    # -B: compiled modules would be cut off at the limit too, and stay broken for every run to come
    run = subprocess.run(
        [sys.executable, "-B", "-c", FULL, str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2, run.stderr
    assert "cannot be written (File too large)" in run.stdout
    assert "Traceback" not in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert sorted(f.name for f in tmp_path.rglob("*")) == before
    np.testing.assert_array_equal(ks.read_workload(tmp_path / name).load, workload().load)


def laughs(levels: int) -> str:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    return "\n".join(lines + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (laughs(9), "stands for more than 200,000 values"),
        ("[" * 500, "nested more than 50 deep"),
        ("{a: 1, a: 2}", "names 'a' twice"),
        ("x" * 2_000_000, "at most 1,048,576 are read"),
        ("!!python/object/apply:os.system [id]", "could not determine a constructor"),
        ("9" * 5000, "digits"),
    ],
)
def test_yaml_that_would_grow_or_run_is_refused(text, message):
    with pytest.raises(ks.InputError, match=message):
        parse_yaml(text, "it")


def test_yaml_reads_numbers_as_people_write_them():
    values = "[1e6, 1E-3, .5, 5., 010, 0x1f, -7, 1:30, 2024-01-01, true, off, null, '3', .inf, 1_000]"
    expected = [1e6, 1e-3, 0.5, 5.0, 10, 31, -7, "1:30", "2024-01-01", True, False, None, "3", np.inf, "1_000"]
    assert parse_yaml(values, "it") == expected
    assert parse_yaml("{a: &x [1, 2], b: *x}", "it") == {"a": [1, 2], "b": [1, 2]}  # an alias or two are fine


def test_json_names_a_field_once():
    with pytest.raises(ks.InputError, match="names the field 'a' twice"):
        parse_json('{"b": {"a": 1, "a": 2}}', "it")


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(ks.InputError, match="is not a regular file"):
            read_bytes(path, 10)


def test_an_archive_takes_no_more_memory_than_its_size(tmp_path):
    write_archive(tmp_path / "a.npz", {"x": np.arange(3), "y": np.array("text"), "z": np.empty((0, 2))})
    held = read_archive(tmp_path / "a.npz")
    assert held["x"].tolist() == [0, 1, 2]
    assert str(held["y"]) == "text"
    assert held["z"].shape == (0, 2)
    np.savez_compressed(tmp_path / "b.npz", x=np.zeros(10**7))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ks.InputError, match="declares more than its"):
        read_archive(tmp_path / "b.npz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000
