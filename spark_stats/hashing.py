"""The hash functions of stream engines, over arrays of keys, in NumPy.

Shipped to executors with the job: plain NumPy and PyArrow. Texts are hashed as their engine
does: Java's `String.hashCode` by UTF-16 units, Kafka's murmur2 by UTF-8 bytes. Whole numbers (bigint) are Java's
`Long`, shorter ones (int, smallint, tinyint) its `Integer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyshift.models.base.arrow import pa

UInt32 = NDArray[np.uint32]
Int32 = NDArray[np.int32]
U = np.uint32


def java_hash_code(keys: pa.Array) -> Int32:
    """``key.hashCode()``: for a text ``s[0] * 31**(n-1) + ... + s[n-1]``, for a Long ``(int) (v ^ v >>> 32)``."""
    if pa.types.is_integer(keys.type):
        values = keys.to_numpy(zero_copy_only=False)
        if values.dtype == np.int64:
            bits = values.view(np.uint64)
            return (bits ^ (bits >> np.uint64(32))).astype(np.uint32).view(np.int32)
        return values.astype(np.int32)
    units, starts, lengths = _units(keys)
    hashed = np.zeros(len(keys), dtype=U)
    for position, rows in _by_position(lengths):
        hashed[rows] = hashed[rows] * U(31) + units[starts[rows] + position]
    return hashed.view(np.int32)


def flink_key_group(keys: pa.Array, count: int) -> Int32:
    """Flink's key group: ``MathUtils.murmurHash(key.hashCode()) % maxParallelism``.

    Source: Apache Flink, `KeyGroupRangeAssignment.assignToKeyGroup`. With the Java API's keys (a text, an Integer, a
    Long): composite keys hash otherwise.
    """
    return (flink_murmur(java_hash_code(keys)) % count).astype(np.int32)


def flink_murmur(codes: Int32) -> Int32:
    """Flink's `MathUtils.murmurHash(int)`: MurmurHash3 of one 32-bit number with seed 0, made non-negative."""
    h = codes.view(U) * U(0xCC9E2D51)
    h = _rotl(h, 15) * U(0x1B873593)
    h = _rotl(h, 13) * U(5) + U(0xE6546B64)
    h = _mix(h ^ U(4))
    signed = h.view(np.int32).astype(np.int64)
    magnitude = np.abs(signed)
    return np.where(magnitude == 2**31, 0, magnitude).astype(np.int32)


def kafka_partition(keys: pa.Array, count: int) -> Int32:
    """Kafka's default partitioner: ``toPositive(murmur2(serialised key)) % partitions``.

    Source: Apache Kafka, `BuiltInPartitioner.partitionForKey`. A text is serialised as UTF-8, a Long as 8 bytes and an
    Integer as 4, most significant first.
    """
    return ((kafka_murmur2(keys) & 0x7FFFFFFF) % count).astype(np.int32)


def kafka_murmur2(keys: pa.Array) -> Int32:
    """Kafka's `Utils.murmur2`: the 32-bit MurmurHash2 with seed 0x9747b28c."""
    data, starts, lengths = _bytes(keys)
    m = U(0x5BD1E995)
    h = U(0x9747B28C) ^ lengths.astype(U)
    for position, rows in _by_position(lengths // 4):
        at = starts[rows] + 4 * position
        k = data[at] | data[at + 1] << U(8) | data[at + 2] << U(16) | data[at + 3] << U(24)
        k *= m
        k = (k ^ (k >> U(24))) * m
        h[rows] = h[rows] * m ^ k
    tail = starts + lengths // 4 * 4
    for rest in (3, 2, 1):
        rows = np.flatnonzero(lengths % 4 >= rest)
        h[rows] ^= data[tail[rows] + rest - 1] << U(8 * (rest - 1))
    rows = np.flatnonzero(lengths % 4)
    h[rows] *= m
    h = (h ^ (h >> U(13))) * m
    return (h ^ (h >> U(15))).view(np.int32)


def storm_task(keys: pa.Array, count: int) -> Int32:
    """Storm's fields grouping on one field: ``floorMod(Arrays.deepHashCode([key]), tasks)``.

    Source: Apache Storm, `TupleUtils.chooseTaskIndex`. The deep hash code of one element is ``31 + key.hashCode()``.
    """
    code = java_hash_code(keys).view(U) + U(31)
    return np.mod(code.view(np.int32), count).astype(np.int32)


def java_modulo(keys: pa.Array, count: int) -> Int32:
    """``floorMod(key.hashCode(), count)``: what a hand-written Java partitioner does, and Spark's `HashPartitioner`."""
    return np.mod(java_hash_code(keys), count).astype(np.int32)


FUNCTIONS: dict[str, Callable[[pa.Array, int], Int32]] = {
    "flink": flink_key_group,
    "kafka": kafka_partition,
    "storm": storm_task,
    "java": java_modulo,
}


def _rotl(x: UInt32, r: int) -> UInt32:
    return (x << U(r)) | (x >> U(32 - r))


def _mix(h: UInt32) -> UInt32:
    h = (h ^ (h >> U(16))) * U(0x85EBCA6B)
    h = (h ^ (h >> U(13))) * U(0xC2B2AE35)
    return h ^ (h >> U(16))


def _by_position(lengths: NDArray[np.int64]) -> Any:
    """For each position the rows that are longer: all rows take their next step at once."""
    rows = np.arange(len(lengths))
    for position in range(int(lengths.max(initial=0))):
        rows = rows[lengths[rows] > position]
        yield position, rows


def _bytes(keys: pa.Array) -> tuple[UInt32, NDArray[np.int64], NDArray[np.int64]]:
    """The bytes of all keys one after the other, and where each key starts and how long it is."""
    if pa.types.is_integer(keys.type):
        values = keys.to_numpy(zero_copy_only=False)
        wide = values.astype(">i8" if values.dtype == np.int64 else ">i4")
        size, n = wide.dtype.itemsize, len(values)
        return np.frombuffer(wide.tobytes(), np.uint8).astype(U), np.arange(n) * size, np.full(n, size)
    text = keys.cast(pa.large_binary())
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int64)[text.offset : text.offset + len(text) + 1]
    content = text.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    return data.astype(U), offsets[:-1], np.diff(offsets)


def _units(keys: pa.Array) -> tuple[UInt32, NDArray[np.int64], NDArray[np.int64]]:
    """The UTF-16 units of all texts, and where each text starts and how many it has."""
    data, starts, lengths = _bytes(keys)
    if not len(data) or data.max() < 128:  # ASCII: a byte is a unit
        return data, starts, lengths
    encoded = [text.encode("utf-16-le") for text in keys.to_pylist()]
    sizes = np.array([len(e) // 2 for e in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), "<u2").astype(U), np.cumsum(sizes) - sizes, sizes
