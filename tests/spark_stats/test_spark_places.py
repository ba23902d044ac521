"""Every verb on HDFS as the default file system, on S3, and on a cluster of two workers: all of an output in one place."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
from brought import environment, jars, python_with
from lake_log import SCHEMA, SUPPORT, TOPOLOGY, check, line, rows_of_log, run, write_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def log(tmp_path):
    """A folder with the log as files, and its rows."""
    rows = list(rows_of_log())
    folder = tmp_path / "log"
    folder.mkdir()
    write_files(folder, rows)
    (folder / "t.yaml").write_text(TOPOLOGY)
    return folder, rows


@contextmanager
def started(line, folder, ready):
    """A server until the block ends; gives what `ready` gives once it gives something."""
    with (folder / "server.log").open("wb") as said:
        server = subprocess.Popen(line, stdout=said, stderr=said, cwd=folder, env=environment())
    try:
        for _ in range(600):
            if found := ready():
                break
            assert server.poll() is None, (folder / "server.log").read_text()[-3000:]
            time.sleep(0.5)
        assert found, (folder / "server.log").read_text()[-3000:]
        yield found
    finally:
        server.kill()
        server.wait()


def verbs(settings, log, where, tmp_path):
    """Every verb of `remote_verbs` in an empty folder, in which nothing is to be left."""
    folder, rows = log
    (tmp_path / "here").mkdir()
    told = subprocess.run(
        [sys.executable, str(SUPPORT / "remote_verbs.py"), json.dumps(settings), str(folder), where],
        capture_output=True, text=True, check=False, timeout=1200, env=environment(), cwd=tmp_path / "here",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads(told.stdout.splitlines()[-1])
    assert [code for code, *_ in found["answers"]] == [0] * 6 + [2] * 2, found["answers"]
    for name in ("batch", "csv", "json", "stream"):
        check(folder, name, rows)
    second, others = (" ".join(answer[2].split()) for answer in found["answers"][-2:])
    assert "is being written by another run" in second
    assert "holds no statistics: it is not written to" in others
    assert list((tmp_path / "here").iterdir()) == []  # tables and manifest lie together
    return [re.sub("[0-9a-f-]{36}|[0-9a-f]{12}", "*", file) for file in found["files"]]


def test_hdfs_is_the_default_file_system(log, tmp_path):
    further = (
        "org.junit.jupiter:junit-jupiter-api:5.11.4",
        "org.mockito:mockito-core:4.11.0",
    )  # the cluster is Hadoop's own test
    needed = jars("org.apache.hadoop:hadoop-minicluster:3.5.0", *further)
    details = tmp_path / "hdfs" / "details.json"
    details.parent.mkdir()
    line = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", f"-Dtest.build.data={tmp_path}/hdfs/data",
            "-cp", ":".join(map(str, needed)), "org.apache.hadoop.test.MiniDFSClusterManager",
            "-format", "-writeDetails", str(details)]  # fmt: skip

    def port():
        text = details.read_text() if details.exists() else ""
        return text.endswith("}") and json.loads(text)["namenode_port"]

    with started(line, details.parent, port) as number:
        settings = {"spark.hadoop.fs.defaultFS": f"hdfs://127.0.0.1:{number}"}
        files = verbs(settings, log, "/lake", tmp_path)
    assert {file.partition("/lake/")[0] for file in files} == {f"hdfs://127.0.0.1:{number}"}
    kept = {file.partition("/lake/")[2] for file in files}
    assert {"batch/statistics.json", "batch/transitions.json", "stream/statistics.json", "stream/runs-*.json"} <= kept
    assert not [file for file in kept if "writer" in file or file.endswith(".part")]


def test_s3_by_its_address(log, tmp_path):
    python = python_with("moto[server,s3]")
    needed = jars("org.apache.hadoop:hadoop-aws:3.5.0", without=("org.apache.hadoop",))
    (tmp_path / "s3").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    address = f"http://127.0.0.1:{number}"

    def bucket():
        try:
            return (
                urllib.request.urlopen(urllib.request.Request(f"{address}/lake", method="PUT"), timeout=60).status
                == 200
            )
        except OSError:
            return False

    with started([str(python), "-m", "moto.server", "-p", str(number)], tmp_path / "s3", bucket):
        settings = {
            "spark.driver.extraClassPath": ":".join(map(str, needed)),
            "spark.hadoop.fs.s3a.endpoint": address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "any",
            "spark.hadoop.fs.s3a.secret.key": "any",
        }
        files = verbs(settings, log, "s3a://lake/of", tmp_path)
    assert {file.partition("/of/")[0] for file in files} == {"s3a://lake"}
    kept = {file.partition("/of/")[2] for file in files}
    assert {"batch/statistics.json", "batch/transitions.json", "stream/statistics.json", "stream/runs-*.json"} <= kept
    assert not [file for file in kept if "writer" in file or file.endswith(".part")]


def test_a_cluster_of_two_workers(log):
    folder, rows = log
    sources = {"batch": [folder / "in", "--keys", "user", "--keys", "item"], "stream": [folder / "in", "--stream"],
               "kafka": [folder / "in", "--hash", "kafka"], "csv": [folder / "log.csv", "--schema", SCHEMA]}  # fmt: skip
    lines = [line(folder, name, *source) for name, source in sources.items()]
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.ui.enabled": "false"}
    run(sys.executable, settings, lines, folder)
    for name in ("batch", "stream", "csv"):
        check(folder, name, rows)
