"""Whose a directory is: one writer, nothing of others deleted, nothing left behind; and failures in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.models import InputError
from keyshift.spark_stats import failures, hadoop, output, session, sources
from keyshift.spark_stats.hadoop import MARK, claim

TOPOLOGY = "operators: [{name: a, key: k}]\n"
HOLD = "import sys; from pathlib import Path; from keyshift.spark_stats.hadoop import claim\n" \
       "with claim(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"  # fmt: skip


def run(tmp_path, *options, out="out", log=None):
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    line = ["stats", log or tmp_path, "--topology", tmp_path / "t.yaml", "-o", tmp_path / out, "--format", "json"]
    return main([str(part) for part in [*line, *options]])


def test_a_second_writer_is_refused_before_spark_starts_and_a_killed_one_holds_nothing(tmp_path, capsys):
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "out")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert first.stdout.readline() == b"held\n"
    assert run(tmp_path) == 2
    assert "is being written by another run" in " ".join(capsys.readouterr().err.split())
    first.kill()
    first.communicate()
    with claim(tmp_path / "out"), claim(tmp_path / "out"):  # the same process may ask twice
        assert (tmp_path / "out" / MARK).exists()
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == [MARK]


@pytest.mark.parametrize("folder", ["runs", "pending", "checkpoint"])
def test_a_directory_of_the_users_own_is_not_written_to(tmp_path, capsys, folder):
    (tmp_path / "out" / folder / "mine").mkdir(parents=True)
    (tmp_path / "out" / folder / "mine" / "letter.txt").write_text("dear")
    assert run(tmp_path) == 2
    assert "holds no statistics: it is not written to" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "out" / folder / "mine" / "letter.txt").read_text() == "dear"
    assert not (tmp_path / "out" / MARK).exists()


def test_only_marked_folders_are_deleted(tmp_path):
    with claim(tmp_path / "out"):
        for name in ("old", "left"):
            hadoop.make(tmp_path / "out" / "runs" / name)
        for name in ("mine",):
            (tmp_path / "out" / "runs" / name).mkdir()
            (tmp_path / "out" / "runs" / name / "notes.txt").write_text("dear")
        (tmp_path / "out" / "runs" / "link").symlink_to(tmp_path)
        kind = {"keyshift_statistics": 1, "topology": {"operators": [{"name": "a", "key": "k", "windows": 1}], "edges": []},
                "length": 0, "origin": 0, "key_groups": 1, "hash": "xxhash64"}  # fmt: skip
        runs = {"old": {"windows": [0], "refused": []}}
        (tmp_path / "out" / "statistics.json").write_text(json.dumps({**kind, "runs": runs}))
        output.clear(tmp_path / "out")
    assert {entry.name for entry in (tmp_path / "out" / "runs").iterdir()} == {"old", "mine", "link"}
    assert (tmp_path / "t.yaml").parent.exists()


def test_a_directory_made_in_vain_goes_again(tmp_path):
    with pytest.raises(ks.InputError, match="no Spark master answers"), claim(tmp_path / "out"):
        session.check_master("spark://127.0.0.1:1")
    assert not (tmp_path / "out").exists()


def test_a_directory_that_cannot_be_written_to_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(tmp_path, out="file") == 2
    assert "is a file, not a directory" in capsys.readouterr().err
    assert run(tmp_path, out="file/below") == 2
    assert "cannot write to" in capsys.readouterr().err


WRONG = {
    "no nodes": (["--nodes", "0"], "--nodes = 0"),
    "no key groups": (["--key-groups", "0"], "--key-groups = 0"),
    "a bad master": (["--master", "nonsense"], "is not a Spark master"),
    "a master that is not there": (["--master", "spark://127.0.0.1:1"], "no Spark master answers"),
    "Spark Connect": (["--master", "sc://localhost:15002"], "Spark Connect (sc://, SPARK_REMOTE) is not supported"),
    "a stream without a time": (["--stream"], "--stream needs --time and --window"),
    "a bad setting": (["--conf", "x"], "write it as name=value"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_what_can_be_refused_is_refused_before_spark_starts(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.setattr("keyshift.spark_stats.session.check_java", lambda: pytest.fail("Spark is about to start"))
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    assert run(tmp_path, *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_log_that_is_not_there_is_refused_before_spark_starts(tmp_path, capsys):
    assert run(tmp_path, log=tmp_path / "nowhere") == 2
    assert "there is no such file or folder" in " ".join(capsys.readouterr().err.split())


def test_a_manifest_that_leads_out_of_its_folder_is_refused(tmp_path):
    kind = {"keyshift_statistics": 1, "topology": {"operators": [{"name": "a", "key": "k", "windows": 1}], "edges": []},
            "length": 0, "origin": 0, "key_groups": 1, "hash": "xxhash64"}  # fmt: skip
    manifest = {**kind, "runs": {"../../mine": {"windows": [0], "refused": []}}, "rejected": {}}
    (tmp_path / "statistics.json").write_text(json.dumps(manifest))
    with pytest.raises(ks.InputError, match="mine"):
        output.open_manifest(tmp_path, kind)


def test_billions_of_aliases_are_refused_at_once(tmp_path, capsys):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    (tmp_path / "t.yaml").write_text("\n".join([*lines, "operators: *a11"]))
    assert main(["stats", str(tmp_path), "--topology", str(tmp_path / "t.yaml"), "-o", str(tmp_path / "out")]) == 2
    assert "stands for more than 200,000 values" in " ".join(capsys.readouterr().err.split())


WORDS = {
    "java.io.IOException: No space left on device\n\tat java.base/x": "the disk is full",
    "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted\nCaused by: "
    "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`\n"
    "== SQL (line 1, position 1) ==\nc / 0\n^^^^^": "divides by zero on some row: write try_divide, or filter such rows (in c / 0)",
    "file:/a/b.parquet is not a Parquet file. Expected magic number": "file:/a/b.parquet is not a Parquet file, or is damaged",
    "ModuleNotFoundError: No module named 'pyarrow'": "the Python on Spark's workers has no pyarrow: set PYSPARK_PYTHON",
    "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' of the type \"STRING\" cannot be cast "
    'to "BIGINT" because it is malformed. Correct the value': "an expression fails on some row: The value 'x'",
    "An error occurred while calling None.x.\n: java.lang.IllegalStateException: odd\n\tat a\n\tat b": "Spark failed: odd",
}


@pytest.mark.parametrize(("words", "told"), WORDS.items())
def test_what_spark_says_becomes_one_sentence(words, told):
    said = failures.sentence(RuntimeError(words))
    assert told in said
    assert "\n" not in said


def test_a_log_of_a_few_megabytes_is_small(tmp_path, monkeypatch):
    folder = tmp_path / "day=1"
    folder.mkdir()
    (folder / "a.csv").write_bytes(b"x" * 600)
    (folder / "b.csv").write_bytes(b"x" * 600)
    (folder / "_big").write_bytes(b"x" * 5000)  # Spark passes over it
    monkeypatch.setattr(sources, "SMALL", 1000)
    assert sources.is_small(str(folder / "a.csv"))
    assert not sources.is_small(str(folder))
    assert not sources.is_small(str(tmp_path / "*"))
    assert not sources.is_small("hdfs://somewhere/a.csv")
    monkeypatch.setattr(sources, "SMALL", 1200)
    assert sources.is_small(str(tmp_path))


@pytest.mark.parametrize(("error", "told"), [(InputError, "no"), (failures.SparkError, "no (Spark's own words: ")])
def test_java_is_quoted_where_spark_failed(error, told):
    places = []

    def fail():
        with session._log_file() as place:
            places.append(place)
            place.write_text("a trace")
            raise error("no")

    with pytest.raises(error) as caught:
        fail()
    assert str(caught.value).startswith(told)
    assert places[0].exists() == (error is not InputError)
    places[0].unlink(missing_ok=True)
