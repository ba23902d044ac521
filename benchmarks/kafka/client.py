"""A client of a real Kafka, run by the environment of this folder: an idempotent producer with acks=all, and a consumer group.

``client.py SERVERS fill`` sends what the lines of its input say: topic, partition, messages and bytes of each. ``client.py SERVERS
TOPIC`` writes numbers to the topic and reads them, until its input ends. Each line of the input is answered by what was sent,
acknowledged and read so far; the last answer follows when everything was read that was acknowledged, or when patience ends.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

PATIENT = 600_000
A_SECOND = 300


def producer(servers: str) -> Producer:
    return Producer({
        "bootstrap.servers": servers, "enable.idempotence": True, "acks": "all", "linger.ms": 20,
        "delivery.timeout.ms": PATIENT, "topic.metadata.refresh.interval.ms": 5_000, "log_level": 0,
    })  # fmt: skip


def fill(servers: str) -> None:
    """Send what the input says, and count what was acknowledged."""
    sending, done = producer(servers), Counter()  # type: ignore[var-annotated]
    for line in sys.stdin:
        topic, partition, messages, size = line.split()
        for number in range(int(messages)):
            text = f"{number:08}".ljust(int(size), "x")
            while True:
                try:
                    sending.produce(
                        topic, text, partition=int(partition), on_delivery=lambda e, _: done.update([e is None])
                    )
                    break
                except BufferError:
                    sending.poll(0.1)
            sending.poll(0)
    sending.flush(PATIENT / 1000)
    print(json.dumps({"acknowledged": done[True], "failed": done[False]}), flush=True)


class Client:
    """Writes numbers and reads them. What was read is kept with the position, so that a rebalance of the group reads nothing twice."""

    def __init__(self, servers: str, topic: str) -> None:
        self.topic, self.sending = topic, producer(servers)
        self.sent, self.acknowledged, self.failed = 0, set[int](), list[str]()
        self.read, self.positions, self.again = Counter[int](), dict[int, int](), 0
        self.errors = Counter[str]()
        self.reading = Consumer({
            "bootstrap.servers": servers, "group.id": "readers", "enable.auto.commit": False, "session.timeout.ms": 10_000,
            "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 5_000, "log_level": 0,
        })  # fmt: skip
        self.writes, self.reads = threading.Event(), threading.Event()

    def delivered(self, number: int, error: KafkaError | None) -> None:
        if error is None:
            self.acknowledged.add(number)
        else:
            self.failed.append(str(error))

    def write(self) -> None:
        """Write until told otherwise, so many a second."""
        begun = time.monotonic()
        while not self.writes.is_set():
            while self.sent < A_SECOND * (time.monotonic() - begun):
                number = self.sent
                self.sending.produce(
                    self.topic,
                    str(number),
                    key=str(number % 97),
                    on_delivery=lambda e, _, n=number: self.delivered(n, e),
                )
                self.sent += 1
            self.sending.poll(0.05)
        self.sending.flush(PATIENT / 1000)

    def placed(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Go on where this reader has come to, whatever the group committed."""
        for p in partitions:
            p.offset = self.positions.get(p.partition, OFFSET_BEGINNING)
        consumer.assign(partitions)

    def follow(self) -> None:
        """Read until told otherwise."""
        self.reading.subscribe([self.topic], on_assign=self.placed)
        count = 0
        while not self.reads.is_set():
            message = self.reading.poll(0.2)
            if message is None:
                continue
            if message.error():
                self.errors[message.error().name()] += 1
                continue
            if message.offset() < self.positions.get(message.partition(), 0):
                self.again += 1
                continue
            self.positions[message.partition()] = message.offset() + 1
            self.read[int(message.value())] += 1
            count += 1
            if count % 200 == 0:
                self.reading.commit(asynchronous=True)
        self.reading.close()

    def said(self) -> str:
        read = self.read.copy()  # the other thread goes on
        missing = len(self.acknowledged.copy() - set(read))
        twice = sum(count - 1 for count in read.values())
        return json.dumps({
            "sent": self.sent, "acknowledged": len(self.acknowledged), "failed": len(self.failed), "read": len(read),
            "missing": missing, "twice": twice, "why": sorted(set(self.failed))[:3], "errors": dict(self.errors),
        })  # fmt: skip

    def run(self) -> None:
        threads = [threading.Thread(target=each, daemon=True) for each in (self.write, self.follow)]
        for thread in threads:
            thread.start()
        for _ in sys.stdin:
            print(self.said(), flush=True)
        self.writes.set()
        threads[0].join()
        end = time.monotonic() + PATIENT / 1000
        while self.acknowledged - set(self.read.copy()) and time.monotonic() < end:
            time.sleep(0.2)
        time.sleep(1)  # what comes twice may come late
        self.reads.set()
        threads[1].join()
        print(self.said(), flush=True)


if __name__ == "__main__":
    fill(sys.argv[1]) if sys.argv[2] == "fill" else Client(*sys.argv[1:3]).run()
