"""A stream from Kafka's brokers to a plan for each window: python kafka_stream.py SETTINGS FOLDER SERVERS FIRST END.

FOLDER is the one of `lake_log`. Lines FIRST to END of its JSON log are sent to the topic, and the stream reads what it has not read.
What is printed last, as JSON, is each window that closed with the status of its plan.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lake_log import GROUPS, SCHEMA, START

import keyshift as ks
from keyshift.spark_stats import StatsStream, Topology, local_session


def streamed(settings, folder, servers, first, end):
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()[first:end]
    (folder / "part.txt").write_text("\n".join([*lines, "no JSON"] if first == 0 else lines), encoding="utf-8")
    plans = []

    def replan(workload):
        problem = plans[-1][1].problem.after(plans[-1][1], workload) if plans else ks.KeyGroupAllocation(workload)
        plans.append(((workload.window_start - START).total_seconds(), ks.solve(problem, seed=0, time_limit=10)))

    brokers = {"kafka.bootstrap.servers": servers}
    with local_session("tests", master="local[2]", conf=settings) as spark:
        spark.read.text(str(folder / "part.txt")).write.format("kafka").options(**brokers, topic="clicks").save()
        read = spark.readStream.format("kafka").options(**brokers, subscribe="clicks", startingOffsets="earliest")
        events = read.load().selectExpr(f"from_json(cast(value as string), '{SCHEMA}') as v").select("v.*")
        stream = StatsStream(
            events, Topology.from_yaml(folder / "t.yaml"), folder / "statistics" / "kafka", time="ts", window="1 hour",
            key_groups=GROUPS, nodes=3, on_window=replan,
        )  # fmt: skip
        stream.start().awaitTermination()
        if end is None:
            stream.finish()
    return [(seconds / 3600, answer.status, answer.assignment is not None) for seconds, answer in plans]


if __name__ == "__main__":
    first, end = (int(sys.argv[4]), int(sys.argv[5]) if sys.argv[5] != "end" else None)
    print(json.dumps(streamed(json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], first, end)))
