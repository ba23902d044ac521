"""Streams of every kind, the hash functions, and what is measured of an assignment."""

from __future__ import annotations

import tempfile

import mmh3
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keyshift as ks
from keyshift.models.splitting import Stream
from keyshift.models.splitting.hashing import candidates, murmur_texts
from keyshift.models.splitting.stream import CHUNK, as_keys

# Hashing ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2**31])
@pytest.mark.parametrize("workers", [37, 2**31 - 1])
def test_candidates_are_the_halves_of_the_reference_in_turn(seed, workers):
    keys = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, 500)
    keys[:4] = [0, -1, 2**63 - 1, -(2**63)]
    found = candidates(keys, workers, 5, seed)
    for k, chosen in zip(keys, found, strict=True):
        eight = int(k).to_bytes(8, "little", signed=True)
        halves = [h for j in range(3) for h in mmh3.hash64(eight, (seed + j) % 2**32, signed=False)]
        assert chosen.tolist() == [(h >> 32) * workers >> 32 for h in halves[:5]]


@pytest.mark.parametrize("seed", [0, 7])
def test_murmur_of_bytes_equals_the_reference(seed):
    rng = np.random.default_rng(seed)
    texts = [rng.integers(0, 256, n).astype(np.uint8).tobytes() for n in range(70)]
    data, offsets = np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)])
    expected = [mmh3.hash64(text, seed, signed=False) for text in texts]
    np.testing.assert_array_equal(murmur_texts(data, offsets, seed), np.array(expected, dtype=np.uint64))


def test_candidates_are_spread_evenly_and_independently():
    found = candidates(np.arange(100_000), 10, 2)
    table = np.bincount(found[:, 0] * 10 + found[:, 1], minlength=100)
    assert ((table - 1000) ** 2 / 1000).sum() < 150  # chi-square, 99 degrees of freedom: 150 is beyond 99.9 %


# Streams ----------------------------------------------------------------------------------------------------------------


def whole(stream):
    return np.concatenate(list(stream.chunks()))


def test_all_kinds_of_streams_are_the_same_stream(tmp_path):
    keys = np.random.default_rng(0).integers(-50, 50, CHUNK + 1000)
    pq.write_table(pa.table({"key": keys, "other": keys}), tmp_path / "keys.parquet", row_group_size=5000)
    pq.write_table(pa.table({"key": keys}), tmp_path / "one.parquet")
    parts = np.array_split(keys, 7)
    streams = {
        "array": Stream.of(keys),
        "small integers": Stream.of(keys.astype(np.int16)),
        "floats": Stream.of(keys.astype(float)),
        "objects": Stream.of(keys.astype(object)),
        "series": Stream.of(pd.Series(keys)),
        "list": Stream.of(keys.tolist()),
        "list of arrays": Stream.of(parts),
        "function": Stream.of(lambda: iter(parts)),
        "iterator": Stream.of(iter(parts)),
        "generator of lists": Stream.of(part.tolist() for part in parts),
        "parquet": Stream.of(tmp_path / "keys.parquet", "key"),
        "parquet of one column": Stream.of(str(tmp_path / "one.parquet")),
    }
    for name, stream in streams.items():
        assert stream.messages == keys.size, name
        np.testing.assert_array_equal(whole(stream), keys, name)
        np.testing.assert_array_equal(whole(stream), keys, f"{name}, again")
        assert max(part.size for part in stream.chunks()) <= CHUNK
        assert stream.in_memory == (name in list(streams)[:6])
    assert Stream.of(streams["array"]) is streams["array"]
    assert repr(streams["iterator"]) == "Stream(263,144 messages, read by chunks)"
    np.testing.assert_array_equal(as_keys(np.array([2**64 - 1], dtype=np.uint64)), [-1])


def test_streams_on_disk_are_problems_for_the_shell(tmp_path):
    words = ["the", "cat", "the", ""]
    (tmp_path / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    pq.write_table(pa.table({"word": words, "n": range(4)}), tmp_path / "words.parquet")
    text = ks.KeySplitting.from_path(tmp_path / "words.txt", workers=3)
    parquet = ks.KeyPlacement.from_path(tmp_path / "words.parquet", workers=3, column="word")
    np.testing.assert_array_equal(whole(text.stream), whole(Stream.of(words)))
    np.testing.assert_array_equal(whole(parquet.stream), whole(Stream.of(words)))
    with pytest.raises(ks.InputError, match="no such file"):
        ks.KeySplitting.from_path(tmp_path / "none.txt")
    from keyshift.cli import main

    line = [
        "solve",
        str(tmp_path / "words.parquet"),
        "--problem",
        "key-splitting",
        "--column",
        "word",
        "--method",
        "pkg",
    ]
    assert main(line) == 0


def test_two_readers_of_a_spooled_stream_do_not_disturb_each_other():
    stream = Stream.of(iter([np.arange(CHUNK), np.arange(CHUNK, 2 * CHUNK)]))
    for first, second in zip(stream.chunks(), stream.chunks(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_text_is_known_by_its_hash(tmp_path):
    words = ["the", "cat", "", "the", "Čapek"]
    expected = [mmh3.hash64(word.encode(), 0, signed=True)[0] for word in words]
    np.testing.assert_array_equal(whole(Stream.of(words)), expected)
    np.testing.assert_array_equal(whole(Stream.of(np.array(words, dtype=object))), expected)
    np.testing.assert_array_equal(whole(Stream.of(np.array(words))), expected)
    np.testing.assert_array_equal(whole(Stream.of(np.array([w.encode() for w in words]))), expected)
    np.testing.assert_array_equal(whole(Stream.of([w.encode() for w in words])), expected)
    odd = [b"\xff\xfe", b"\x00a", b""]  # no UTF-8
    np.testing.assert_array_equal(whole(Stream.of(odd)), [mmh3.hash64(b, 0, signed=True)[0] for b in odd])
    np.testing.assert_array_equal(whole(Stream.of(iter([words[:2], words[2:]]))), expected)
    pq.write_table(pa.table({"word": words}), tmp_path / "words.parquet")
    np.testing.assert_array_equal(whole(Stream.of(tmp_path / "words.parquet")), expected)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string())])
@pytest.mark.parametrize("dictionary", [True, False])
def test_texts_of_a_parquet_file_are_their_hashes_however_they_are_kept(tmp_path, kind, dictionary):
    words = [f"word-{k % 97}" for k in range(5_000)]
    table = pa.table({"word": pa.array(words).cast(kind)})
    pq.write_table(table, tmp_path / "words.parquet", row_group_size=1_000, use_dictionary=dictionary)
    read = Stream.of(tmp_path / "words.parquet")
    assert read.messages == 5_000
    for _ in range(2):
        np.testing.assert_array_equal(whole(read), whole(Stream.of(words)))
    with_hole = pa.table({"word": pa.array([*words, None]).cast(kind)})
    pq.write_table(with_hole, tmp_path / "hole.parquet", use_dictionary=dictionary)
    with pytest.raises(ks.InputError, match="1 empty keys"):
        Stream.of(tmp_path / "hole.parquet")


def test_bad_streams_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "two.parquet")
    pq.write_table(pa.table({"a": pa.array([1, None, 3])}), tmp_path / "holes.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    for given, column, says in [
        ([], None, "stream is empty"),
        (iter([]), None, "stream is empty"),
        (lambda: [], None, "stream is empty"),
        ([[1, 2], [3.5]], None, r"stream\[2\] = 3.5"),
        ([1.0, np.nan], None, r"stream\[1\] = nan"),
        ([1, 2, "three", None], None, r"stream\[2\] = 'three'"),
        (["one", 2], None, r"stream\[1\] = 2"),
        (np.array(["a", None], dtype=object), None, r"stream\[1\] = None"),
        (np.array(["a", 3], dtype=object), None, r"stream\[1\] = 3"),
        (np.array([3, "a"], dtype=object), None, r"stream\[1\] = 'a'"),
        ([True, False], None, r"stream\[0\] = "),
        (np.zeros((2, 2)), None, "2 dimensions"),
        ([1, 2], "key", "column = 'key' is for a stream in a Parquet file"),
        (tmp_path / "none.parquet", None, "no such file"),
        (tmp_path / "text.parquet", None, "cannot be read as Parquet"),
        (tmp_path / "two.parquet", None, "has the columns a, b"),
        (tmp_path / "two.parquet", "c", "has only a, b"),
        (tmp_path / "holes.parquet", None, "1 empty keys"),
    ]:
        with pytest.raises(ks.InputError, match=says):
            Stream.of(given, column)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 0}, "workers = 0"),
        ({"workers": [1.0, -1.0]}, r"workers\[1\] = -1"),
        ({"workers": [1.0, 0.0]}, r"workers\[1\] = 0"),
        ({"choices": 0}, "choices = 0"),
        ({"choices": 5000}, "choices = 5000"),
        ({"sources": 1.5}, "sources = 1.5"),
        ({"feed": "any"}, "feed = 'any'"),
        ({"weights": [1, 2]}, "weights has 2 entries, expected 3"),
        ({"weights": [1, -2, 1]}, r"weights\[1\] = -2"),
        ({"source_keys": [1, 2, 3]}, "feed = 'shuffle'"),
        ({"source_keys": [1, 2], "feed": "key"}, "source_keys has 2 entries"),
        ({"hash_seed": 2**32}, "hash_seed"),
        ({"aggregation_period": 0}, "aggregation_period = 0"),
    ],
)
def test_bad_problems_are_refused(options, says):
    with pytest.raises(ks.InputError, match=says):
        ks.KeySplitting([1, 2, 3], **options)


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ([0, 1], r"shape \(2,\)"),
        ([0, 1, 9], r"assignment\[2\] = 9"),
        ([0, -1, 1], r"assignment\[1\] = -1"),
        ([0, 0.5, 1], r"assignment\[1\] = 0.5"),
        ([0, np.nan, 1], r"assignment\[1\] = nan"),
        (["a", "b", "c"], "worker numbers"),
    ],
)
def test_bad_assignments_are_refused(assignment, says):
    with pytest.raises(ks.InputError, match=says):
        ks.check(ks.KeySplitting([1, 2, 3], workers=2), assignment)


def test_each_rule_alone():
    hashed = candidates(np.array([1, 2]), 50, 2)
    problem = ks.KeySplitting([1, 2, 1], workers=50)
    sent = [hashed[0, 0], hashed[1, 1], hashed[0, 1]]
    assert ks.check(problem, sent).feasible
    assert ks.check(problem, np.array(sent, dtype=float)).feasible
    stranger = int(np.setdiff1d(np.arange(50), hashed)[0])
    report = ks.check(problem, [hashed[0, 0], stranger, stranger])
    assert [v.rule for v in report.violations] == ["candidates"]
    assert (report.violations[0].where, report.violations[0].amount) == (1, 2)
    placed = ks.KeyPlacement([1, 2, 1], workers=50)
    report = ks.check(placed, sent)
    assert [v.rule for v in report.violations] == ["one_place"]
    assert (report.violations[0].where, report.violations[0].amount) == (2, 1)
    assert ks.check(placed, [sent[0], sent[1], sent[0]]).feasible


def test_a_stream_by_chunks_gets_the_answers_of_the_array():
    keys = np.random.default_rng(1).integers(0, 500, CHUNK + 5000)
    array = ks.KeySplitting(keys, workers=9, sources=2, aggregation_period=1000)
    chunks = ks.KeySplitting(iter(np.array_split(keys, 3)), workers=9, sources=2, aggregation_period=1000)
    for method in ("pkg", "flow", "off-greedy", "shuffle"):
        one, other = ks.solve(array, method), ks.solve(chunks, method)
        np.testing.assert_array_equal(one.assignment, other.assignment)
        assert one.metrics == other.metrics
        assert isinstance(other.assignment, np.memmap)
        assert not isinstance(one.assignment, np.memmap)
    assert not ks.solve(chunks, "pkg").assignment.flags.writeable
    assert ks.check(chunks, np.array(one.assignment)).objective == one.objective


def test_memory_does_not_grow_with_the_stream():
    """Sources that decide side by side need more at once or less; of forty chunks fewer than three are there."""
    import tracemalloc

    chunk = np.random.default_rng(0).integers(0, 1000, CHUNK)
    p = ks.Partitioner("pkg", 100, sources=4)
    p.feed(chunk)
    tracemalloc.start()
    for _ in range(40):
        p.feed(chunk)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert highest < 3 * chunk.nbytes


# What is measured -------------------------------------------------------------------------------------------------------


# The chooser ------------------------------------------------------------------------------------------------------------


# Real keys --------------------------------------------------------------------------------------------------------------


def test_temporary_files_go_away(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    problem = ks.KeySplitting(iter([np.arange(100)]), workers=3)
    ks.solve(problem, "pkg")
    assert list(tmp_path.iterdir()) == []  # unlinked while open
