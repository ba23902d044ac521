"""Hash functions and placements against published and hand-computed values; no Spark session but in the last test."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spark_frames import frame

from keyshift.models import InputError
from keyshift.models.placement import placement
from keyshift.spark_stats import Operator, Topology, collect, hashing
from keyshift.spark_stats.key_groups import KeyGroups

MURMUR2 = {  # Apache Kafka, UtilsTest.testMurmur2, and three lengths of digits that other clients publish
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
    "1": -1993445489,
    "12": 126087238,
    "12345": -1188365604,
}
texts = st.lists(st.text(max_size=12).filter(lambda t: t.isprintable()), min_size=1, max_size=20)


def test_kafka_murmur2_against_published_values():
    np.testing.assert_array_equal(hashing.kafka_murmur2(pa.array(MURMUR2)), list(MURMUR2.values()))
    groups = hashing.kafka_partition(pa.array(["21", "foobar"]), 10)
    np.testing.assert_array_equal(groups, [(-973932308 & 0x7FFFFFFF) % 10, (-790332482 & 0x7FFFFFFF) % 10])
    # A Long is its eight bytes, most significant first: "12345678" is 0x3132333435363738.
    number, text = pa.array([0x3132333435363738]), pa.array(["12345678"])
    assert hashing.kafka_murmur2(number) == hashing.kafka_murmur2(text)


def test_java_hash_code_by_hand():
    # "hello": ((((104*31 + 101)*31 + 108)*31 + 108)*31 + 111) = 99162322; "Aa" and "BB" collide: 65*31 + 97 = 66*31 + 66.
    np.testing.assert_array_equal(
        hashing.java_hash_code(pa.array(["hello", "Aa", "BB", ""])), [99162322, 2112, 2112, 0]
    )
    # A Long folds its halves: 2**32 + 5 -> 1 ^ 5 = 4; -1 -> all ones ^ all ones = 0. An Integer is its own.
    np.testing.assert_array_equal(hashing.java_hash_code(pa.array([2**32 + 5, -1])), [4, 0])
    np.testing.assert_array_equal(hashing.java_hash_code(pa.array([7, -1], pa.int32())), [7, -1])
    assert hashing.storm_task(pa.array(["hello"]), 7)[0] == (31 + 99162322) % 7
    assert hashing.java_modulo(pa.array([-3], pa.int32()), 7)[0] == 4


@given(texts)
def test_java_hash_code_of_any_text(keys):
    def by_definition(text):
        h = 0
        units = text.encode("utf-16-le")
        for i in range(0, len(units), 2):
            h = (31 * h + int.from_bytes(units[i : i + 2], "little")) % 2**32
        return h - 2**32 if h >= 2**31 else h

    np.testing.assert_array_equal(hashing.java_hash_code(pa.array(keys, pa.string())), [by_definition(t) for t in keys])


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=30))
def test_flink_murmur_is_murmur3_of_four_bytes(codes):
    mmh3 = pytest.importorskip("mmh3")
    expected = [abs(mmh3.hash(code.to_bytes(4, "little", signed=True), 0)) for code in codes]
    got = hashing.flink_murmur(np.array(codes, dtype=np.int32))
    np.testing.assert_array_equal(got, [0 if e == 2**31 else e for e in expected])
    keys = pa.array(codes, pa.int32())
    np.testing.assert_array_equal(hashing.flink_key_group(keys, 128), np.asarray(got) % 128)


def test_placements():
    np.testing.assert_array_equal(placement("ranges", 10, 4), [0, 0, 0, 1, 1, 2, 2, 2, 3, 3])  # floor(k * 4 / 10)
    np.testing.assert_array_equal(placement("modulo", 5, 3), [0, 1, 2, 0, 1])
    before, after = placement("consistent", 1000, 9), placement("consistent", 1000, 10)
    moved = before != after
    assert (after[moved] == 9).all()  # only the new node takes something over
    assert 0 < moved.sum() < 250
    with pytest.raises(InputError, match="placement = 'best' is unknown"):
        placement("best", 5, 3)


@pytest.mark.spark
def test_hashes_in_spark(spark):
    log = frame(spark, [("foobar", 2**60 + 1), (None, 3), ("é", None)], "key string, id bigint")
    topology = Topology([Operator("text", key="key"), Operator("number", key="id")])
    for name in ("flink", "kafka"):
        rows = collect(log, topology, key_groups=50, hash=name).load.collect()
        function = hashing.FUNCTIONS[name]
        expected = {("text", g) for g in function(pa.array(["foobar", "é"]), 50)}
        expected |= {("number", g) for g in function(pa.array([2**60 + 1, 3]), 50)}
        assert {(row.operator, row.key_group) for row in rows} == expected
    with pytest.raises(InputError, match="takes keys that are texts or whole numbers, not double"):
        collect(log, Topology([Operator("x", key="id * 0.5D")]), hash="storm")
    with pytest.raises(InputError, match="hash = 'md5' is unknown"):
        KeyGroups(4, "md5")
