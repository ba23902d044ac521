"""PyFlink jobs, run by the environment of this folder. Each line of a pipe is a job; its id is printed once it is submitted."""

import json
import sys
import time
import uuid
from pathlib import Path

import flink_partitioner
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import FlatMapFunction, KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

ARREARS = 0.001
"""Nobody sleeps for less: short delays are slept off several at once."""
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])


class Emit(MapFunction):
    """The i-th word of the stream and when it is due; each source sends its part at its share of the rate."""

    def __init__(self, path, gap):
        self.path, self.gap, self.begin = path, gap, None

    def open(self, context):
        self.words = json.loads(Path(self.path).read_text())

    def map(self, i):
        now = time.time()
        self.begin = self.begin or (i, now)
        due = self.begin[1] + (i - self.begin[0]) * self.gap
        if due - now > ARREARS:
            time.sleep(due - now)
        return self.words[i], due


class Work(FlatMapFunction):
    """Counts words, and sleeps over each, which costs no core; hands its counts on every `period` seconds, if ever."""

    def __init__(self, delay, period, folder):
        self.delay, self.period, self.folder = delay, period, folder
        self.counts, self.held, self.sent, self.latencies = {}, 0, 0, []
        self.free = self.first = self.flushed = 0.0

    def flat_map(self, record):
        word, due = record
        now = time.time()
        self.first, self.flushed = self.first or due, self.flushed or now
        self.free = max(self.free, now) + self.delay
        if self.free - now > ARREARS:
            time.sleep(self.free - now)
        self.counts[word] = self.counts.get(word, 0) + 1
        self.latencies.append(max(time.time(), self.free) - due)
        if self.period and now - self.flushed >= self.period:
            yield from self.counts.items()
            self.sent += len(self.counts)
            self.held, self.counts, self.flushed = max(self.held, len(self.counts)), {}, now

    def close(self):
        note = {"held": max(self.held, len(self.counts)), "sent": self.sent, "latencies": self.latencies, "first": self.first,
                "last": self.free, "counts": self.counts}  # fmt: skip
        (Path(self.folder) / f"{uuid.uuid4()}.json").write_text(json.dumps(note))


class Add(FlatMapFunction):
    """The aggregator: the sum of the partial counts."""

    def __init__(self):
        self.sums = {}

    def flat_map(self, counted):
        self.sums[counted[0]] = self.sums.get(counted[0], 0) + counted[1]
        return ()


class Send(FlatMapFunction):
    """Every key once with the size of its state; then nothing, until the job is stopped."""

    def __init__(self, sizes):
        self.sizes = list(sizes.items())

    def flat_map(self, i):
        if i < len(self.sizes):
            yield self.sizes[i]
        else:
            time.sleep(0.02)


class Keep(KeyedProcessFunction):
    """Keeps a state of the given size for each key, with the subtask that wrote it; notes what it writes and finds."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, context):
        self.state = context.get_state(ValueStateDescriptor("payload", Types.STRING()))
        # of the embedded interpreter's context, which in 2.3 asks for its number by a name that is gone
        self.number = context._runtime_context.getTaskInfo().getIndexOfThisSubtask()
        self.notes = (Path(self.folder) / str(self.number)).open("w", buffering=1)  # it is not told when it closes

    def process_element(self, keyed, context):
        found = self.state.value()
        if found is None:
            self.state.update(f"{self.number}:".ljust(keyed[1], "x"))
        print(
            "new" if found is None else found.split(":")[0], keyed[1] if found is None else len(found), file=self.notes
        )
        return ()


def routed(env, job):
    """Sources, a custom partitioner, workers; aggregators, where the workers hand on."""
    sources = job["sources"]
    numbers = NumberSequenceSource(0, job["count"] - 1)
    words = (
        env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        .set_parallelism(sources)
        .map(Emit(job["words"], sources / job["rate"]), Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
        .set_parallelism(sources)
    )
    rule = flink_partitioner.pyflink(flink_partitioner.Routing.load(job["routing"]))
    worked = (
        words.partition_custom(rule, lambda record: record[0])
        .flat_map(Work(job["delay"], job.get("period"), job["folder"]), COUNTED)
        .name("work")
        .set_parallelism(job["workers"])
    )
    if job.get("period"):
        by_hash = flink_partitioner.pyflink(flink_partitioner.Routing("hash"))
        added = worked.partition_custom(by_hash, lambda counted: counted[0]).flat_map(Add(), COUNTED)
        added.name("add").set_parallelism(job["aggregators"])


def kept(env, job):
    """A keyed operator with state, at a parallelism."""
    sizes = json.loads(Path(job["sizes"]).read_text())
    numbers = env.from_source(
        NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    # a name of its own: the source begins anew, only the kept state is restored
    sent = numbers.uid(uuid.uuid4().hex).flat_map(Send(sizes), COUNTED)
    keys = sent.key_by(lambda record: record[0], Types.STRING())
    keys.process(Keep(job["folder"]), Types.INT()).name("keep").uid("keep").set_parallelism(job["workers"]).set_max_parallelism(
        job["max_parallelism"]
    )  # fmt: skip


def main():
    with Path(sys.argv[1]).open() as pipe:
        for line in pipe:
            job = json.loads(line)
            options = Configuration()
            options.set_string("python.execution-mode", "thread")
            if job.get("savepoint"):
                options.set_string("execution.state-recovery.path", job["savepoint"])
                options.set_string("execution.state-recovery.ignore-unclaimed-state", "true")
            env = StreamExecutionEnvironment.get_execution_environment(options)
            env.set_parallelism(1)
            (kept if "sizes" in job else routed)(env, job)
            print("submitted", env.execute_async(job["name"]).get_job_id(), flush=True)


if __name__ == "__main__":
    main()
