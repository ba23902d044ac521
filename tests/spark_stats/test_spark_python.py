"""Where the workers' Python is not ours: a session of one's own, in an environment that is not activated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyshift.models.errors import InputError
from keyshift.spark_stats import Operator, Topology, collect, session

SCRIPT = """
from pyspark.sql import SparkSession
from keyshift.spark_stats import Operator, Topology, collect, collect_keys
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
topology = Topology([Operator("a", key="k"), Operator("b", key="k % 3")], [("a", "b")])
log = spark.range(100).selectExpr("id % 10 as k")
with collect(log, topology, key_groups=4, hash="flink") as stats:
    print("sum", stats.workload(nodes=2).load.sum())
print("pairs", len(collect_keys(log, topology, "a").heavy_traffic()[0]))
spark.stop()
"""
SYSTEM = "/usr/bin/python3"
BARE = (
    Path(SYSTEM).exists()
    and subprocess.run([SYSTEM, "-c", "import pyarrow"], capture_output=True, check=False).returncode
)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(not BARE, reason="the system's Python is missing, or has pyarrow")
@pytest.mark.parametrize("named", [False, True], ids=["found on the path", "named"])
def test_a_script_in_an_environment_that_is_not_activated_works(named):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "VIRTUAL_ENV"))}
    environment = {**kept, "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"}
    if named:
        environment["PYSPARK_PYTHON"] = SYSTEM
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["sum", "200.0", "pairs", "10"]


@pytest.mark.slow
@pytest.mark.spark
def test_java_is_silent_at_the_shell(tmp_path):
    """Where keyshift starts Spark itself, there is nothing on the shell but what keyshift says."""
    (tmp_path / "log.csv").write_text("k\n" + "\n".join(map(str, range(100))))
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k}]\n")
    line = [sys.executable, "-m", "keyshift", "stats", "log.csv", "--topology", "t.yaml", "--out", "out", "--json"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["windows"] == 1


def test_a_frame_of_spark_connect_is_refused():
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(InputError, match="Spark Connect, which is not supported"):
        collect(frame, Topology([Operator("a", key="k")]))


class Context:
    """What `workers_python` needs of a session."""

    def __init__(self, master, python):
        self.master, self.pythonExec, self.sparkContext = master, python, self


def test_only_a_local_master_gets_the_drivers_python():
    for master, python, expected in (
        ("local[2]", "no-such-python", sys.executable),
        ("local[2]", sys.executable, sys.executable),
        ("spark://there:7077", "no-such-python", "no-such-python"),
    ):
        context = Context(master, python)
        with session.workers_python(context):
            assert context.pythonExec == expected
        assert context.pythonExec == python
