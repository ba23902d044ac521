"""A PyFlink job, run by the environment of this folder: a fixed stream, routed by a rule, at workers that sleep over each record."""

import argparse
import json
import os
import time
from pathlib import Path

import flink_partitioner
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


class Emit(MapFunction):
    """The i-th word of the stream, and when it was sent."""

    def __init__(self, path):
        self.path = path

    def open(self, context: RuntimeContext):
        self.words = json.loads(Path(self.path).read_text())

    def map(self, i):
        return self.words[i], time.time()


class Work(MapFunction):
    """Sleeps, which costs no core; notes how long each record was on its way."""

    def __init__(self, delay, folder):
        self.delay, self.folder, self.latencies, self.keys = delay, folder, [], {}
        self.first = self.last = None

    def open(self, context: RuntimeContext):
        self.number = context.get_index_of_this_subtask()

    def map(self, record):
        word, sent = record
        if self.delay:
            time.sleep(self.delay)
        now = time.time()
        self.keys[word] = self.keys.get(word, 0) + 1
        self.latencies.append(now - sent)
        self.first, self.last = self.first or sent, now
        return 0

    def close(self):
        note = {"subtask": self.number, "keys": len(self.keys), "records": len(self.latencies), "latencies": self.latencies,
                "first": self.first, "last": self.last}  # fmt: skip
        (Path(self.folder) / f"worker-{self.number}-{os.getpid()}.json").write_text(json.dumps(note))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--words")
    parser.add_argument("--count", type=int)
    parser.add_argument("--routing")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--delay", type=float)
    parser.add_argument("--folder")
    given = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_source(
        NumberSequenceSource(0, given.count - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    words = numbers.map(Emit(given.words), Types.TUPLE([Types.STRING(), Types.DOUBLE()])).name("words")
    rule = flink_partitioner.Routing.load(given.routing)
    routed = words.partition_custom(flink_partitioner.pyflink(rule), lambda record: record[0])
    worked = routed.map(Work(given.delay, given.folder), Types.INT()).set_parallelism(given.workers).name("work")
    worked.filter(lambda _: False).set_parallelism(given.workers).print().set_parallelism(given.workers)
    env.execute("routed")


if __name__ == "__main__":
    main()
