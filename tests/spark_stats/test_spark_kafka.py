"""Kafka's brokers as the source of a stream that is stopped and started again: a plan for each window, statistics equal to batch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from brought import environment, jars
from lake_log import HOURS, SUPPORT, TOPOLOGY, check, rows_of_log, write_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_stream_from_kafka_to_a_plan_for_each_window(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks" / "kafka"))
    needed = jars("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", without=("org.apache.spark", "org.scala-lang"))
    needed += jars("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0", alone=True)
    from cluster import SERVERS, running

    rows = list(rows_of_log())
    write_files(tmp_path, rows)
    (tmp_path / "t.yaml").write_text(TOPOLOGY)
    settings = {"spark.driver.extraClassPath": ":".join(map(str, needed))}
    plans = []
    with running() as brokers:
        brokers.tool("topics", "--create", "--topic", "clicks", "--partitions", 3, "--replication-factor", 2)
        for first, end in ((0, 150), (150, 260), (260, "end")):  # each time from the offsets where the last one ended
            given = [json.dumps(settings), str(tmp_path), SERVERS, str(first), str(end)]
            told = subprocess.run(
                [sys.executable, str(SUPPORT / "kafka_stream.py"), *given],
                capture_output=True, text=True, check=False, timeout=600, env=environment(),
            )  # fmt: skip
            assert told.returncode == 0, told.stderr[-3000:]
            plans += json.loads(told.stdout.splitlines()[-1])
    assert [hour for hour, *_ in plans] == list(range(HOURS))
    assert all(found for *_, found in plans)
    check(tmp_path, "kafka", rows, {"no time": 1})  # the message that is no JSON
