"""What a Parquet file unpacks to is counted page by page: a footer that says less is a lie, and is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import keyshift as ks
from keyshift.files.workload import TABLES
from keyshift.models.base import tables
from keyshift.models.base.tables import read_table, unpacked_bytes
from keyshift.models.splitting import stream

WRITERS = [
    {"compression": compression, "data_page_version": version, "row_group_size": rows, "use_dictionary": words}
    for compression in ("none", "snappy", "zstd")
    for version in ("1.0", "2.0")
    for rows, words in ((500, True), (10**6, False))
]


@pytest.mark.parametrize("options", WRITERS, ids=lambda o: "-".join(map(str, o.values())))
def test_honest_pages_unpack_to_what_the_footer_says(tmp_path, options):
    numbers = np.random.default_rng(0).random(3000)
    table = pa.table(
        {
            "number": numbers,
            "key": [f"k{i % 300}" for i in range(3000)],
            "hole": pa.array([None if i % 3 else i for i in range(3000)]),
            "list": [[1, 2]] * 3000,
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", write_page_checksum=True, **options)
    about = pq.read_metadata(tmp_path / "t.parquet")
    declared = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    assert 0.9 * declared <= sum(unpacked_bytes(tmp_path / "t.parquet")) <= declared


def lying(file, size):
    """A table of one key group with a very long key, whose footer says that it unpacks to 100 bytes."""
    table = pa.table({"key_group": [0], "state": [1.0], "current": [0], "key": ["x" * size]})
    pq.write_table(table, file, compression="zstd", use_dictionary=False, write_statistics=False, store_schema=False)
    group, body = pq.read_metadata(file).row_group(0), file.read_bytes()
    length = int.from_bytes(body[-8:-4], "little")
    footer = body[-8 - length : -8]
    for true in {group.total_byte_size, group.column(3).total_uncompressed_size}:
        assert varint(true) in footer
        footer = footer.replace(varint(true), varint(100, len(varint(true))))
    file.write_bytes(body[: -8 - length] + footer + body[-8:])
    assert pq.read_metadata(file).row_group(0).total_byte_size == 100


def varint(number, length=None):
    """A number as Thrift writes it; of a given length, with zeros at its end."""
    folded, made = 2 * number, []
    while folded or not made or len(made) < (length or 0):
        made.append(folded & 127 | 128)
        folded >>= 7
    return bytes([*made[:-1], made[-1] & 127])


def test_a_footer_that_lies_is_refused_before_a_page_is_unpacked(tmp_path, monkeypatch):
    file = tmp_path / "key_groups.parquet"
    lying(file, 3_000_000)
    assert file.stat().st_size < 2000
    monkeypatch.setattr(tables, "UNSUSPICIOUS", 2**20)
    monkeypatch.setattr(pq, "read_table", None)
    with pytest.raises(ks.InputError, match="declares 100 bytes, but unpacks to 3,000,"):
        read_table(file, TABLES["key_groups"])


def test_a_stream_with_a_page_of_gigabytes_is_refused(tmp_path, monkeypatch):
    lying(tmp_path / "s.parquet", 3_000_000)
    monkeypatch.setattr(stream, "MOST_PAGE", 2**20)
    with pytest.raises(ks.InputError, match="has a page of 3,000,"):
        ks.KeySplitting(str(tmp_path / "s.parquet"), workers=2, column="key")


@pytest.mark.parametrize("seed", range(3))
def test_damaged_footers_are_refused_not_crashed_on(tmp_path, seed):
    rng, file = np.random.default_rng(seed), tmp_path / "t.parquet"
    pq.write_table(pa.table({"key": ["a", "b"] * 50, "number": np.arange(100.0)}), file)
    body = file.read_bytes()
    refused = 0
    for _ in range(300):
        damaged = bytearray(body)
        damaged[int(rng.integers(4, len(body)))] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(damaged))
        try:
            assert min(unpacked_bytes(file), default=0) >= 0
        except ValueError:
            refused += 1
    assert 0 < refused < 300
