"""A stream of keys in arrival order, read chunk by chunk: from memory, from Parquet, or from an iterator."""

from __future__ import annotations

import io
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from keyshift.models.base.disk import expect_regular, opened
from keyshift.models.base.guards import frozen
from keyshift.models.base.tables import unpacked_bytes
from keyshift.models.errors import InputError, refusing
from keyshift.models.splitting.hashing import murmur_texts
from keyshift.models.workload import IntArray

CHUNK = 1 << 18
"""Messages handled at a time: enough to hide the cost of a call, few enough to stay in the processor's cache."""

PIECE = 2**20
"""Characters of a text file that are read at a time; no line is longer."""
MOST_PAGE = 2**28
"""Bytes of one page of Parquet, which is unpacked whole; writers make pages of a million."""


class Stream:
    """Keys in arrival order. `chunks` reads them from the start, as often as one likes.

    A key is an integer of 64 bits. A text is known by its 64-bit Murmur hash (first half, seed 0), so that no
    dictionary of texts has to be kept: among n different texts two are confounded with a chance below n^2 / 2^65.

    Attributes
    ----------
    messages : int
        Length, m > 0.
    in_memory : bool
        Whether the keys are one array. If not, an assignment of its messages belongs on disk as well.

    Notes
    -----
    An iterator can be read only once, so its keys go to a temporary file of 8 bytes a message as they come, and
    are read from there; the file is deleted with the stream.
    """

    def __init__(self, read: Callable[[], Iterator[IntArray]], messages: int, in_memory: bool) -> None:
        self._read = read
        self.messages = messages
        self.in_memory = in_memory

    def __repr__(self) -> str:
        return f"Stream({self.messages:,} messages{'' if self.in_memory else ', read by chunks'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Stream.of, (np.concatenate(list(self.chunks())),)  # the way it is read may not pickle; its keys do

    def chunks(self) -> Iterator[IntArray]:
        """The keys from the first to the last, at most `CHUNK` at a time."""
        for part in self._read():
            for begin in range(0, part.size, CHUNK):
                yield part[begin : begin + CHUNK]

    @classmethod
    def of(cls, given: Any, column: str | None = None) -> Stream:
        """Read what a caller hands over as a stream.

        Parameters
        ----------
        given : Stream, array_like, path, callable or iterable
            An array of integers or of strings; the path of a Parquet file (or folder of files); a function without
            arguments that returns an iterable of arrays; a list of arrays; or an iterator of arrays.
        column : str, optional
            The Parquet column that holds the keys; not needed if there is only one.

        Raises
        ------
        InputError
            For keys that are neither whole numbers nor texts, with the first of them, and for an empty stream.
        """
        if isinstance(given, Stream):
            return given
        if isinstance(given, str | Path):
            return _from_parquet(Path(given), column)
        if column is not None:
            raise InputError(f"column = {column!r} is for a stream in a Parquet file, not for a {type(given).__name__}")
        if callable(given):
            return _replayable(given)
        if isinstance(given, Iterator):
            return _spooled(given)
        if isinstance(given, list | tuple) and given and isinstance(given[0], np.ndarray | list | tuple):
            return _replayable(lambda: given)
        keys = as_keys(given)
        if keys.size == 0:
            raise InputError("stream is empty")
        return cls(lambda: iter((keys,)), keys.size, in_memory=True)


def as_keys(given: Any, offset: int = 0) -> IntArray:
    """Integer keys from integers or texts, read-only, shape (messages,); `offset` is where they begin in the stream."""
    array = np.asarray(given)
    if array.dtype.kind in "US" and not isinstance(given, np.ndarray):
        array = np.array(given, dtype=object)  # NumPy would have turned the numbers among texts into texts
    if array.ndim != 1:
        raise InputError(f"stream has {array.ndim} dimensions, expected 1: one key for each message")
    if array.size == 0:
        return frozen(np.zeros(0, dtype=np.int64))
    if array.dtype.kind == "i":
        return frozen(np.array(array, dtype=np.int64))
    if array.dtype.kind == "u":
        return frozen(np.array(array, dtype=np.uint64).view(np.int64))
    if array.dtype.kind in "USO":
        return _hashed_texts(array, offset)
    if array.dtype.kind == "f":
        wrong = ~np.isfinite(array) | (array != np.floor(array)) | (np.abs(array) > 2.0**53)
        if not wrong.any():
            return frozen(array.astype(np.int64))
        at = int(np.argmax(wrong))
        raise InputError(f"stream[{offset + at}] = {array[at]:g} is not a key: keys are whole numbers or texts")
    raise InputError(f"stream[{offset}] = {array[0]!r} is not a key: keys are whole numbers or texts")


def _hashed_texts(array: np.ndarray, offset: int) -> IntArray:
    """The first half of the Murmur hash of each text's UTF-8 bytes."""
    laid_out = _end_to_end(array)
    if laid_out is not None:
        return _hashed(*laid_out)
    if isinstance(array[0], int | np.integer):
        return _integers_of_objects(array, offset)
    wrong = [at for at, text in enumerate(array.tolist()) if not isinstance(text, type(array[0]))]
    at = wrong[0] if wrong and isinstance(array[0], str | bytes) else 0
    raise InputError(f"stream[{offset + at}] = {array[at]!r} is not a key: keys are all whole numbers or all texts")


def _hashed(data: np.ndarray, offsets: IntArray) -> IntArray:
    return frozen(murmur_texts(data, offsets)[:, 0].copy().view(np.int64))


def _end_to_end(array: np.ndarray) -> tuple[np.ndarray, IntArray] | None:
    """The bytes of many texts and where each begins, by pyarrow; None if they are not all texts, or all bytes."""
    if array.dtype.kind == "S":
        array = array.astype(object)  # pyarrow would take the padding for part of the text
    try:
        import pyarrow as pa
    except ImportError:
        return _end_to_end_slowly(array.tolist())
    for kind in (pa.large_string(), pa.large_binary()):
        try:
            texts = pa.array(array, type=kind, from_pandas=False)
        except (pa.ArrowException, TypeError, ValueError):
            continue
        return None if texts.null_count else _of_arrow(texts)
    return None


def _of_arrow(texts: Any) -> tuple[np.ndarray, IntArray]:
    """The bytes of a large array of Arrow's, and where each text begins."""
    _, offsets, data = texts.buffers()
    where = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, dtype=np.uint8) if data.size else np.zeros(1, dtype=np.uint8), where


def _end_to_end_slowly(texts: list[Any]) -> tuple[np.ndarray, IntArray] | None:
    """The same without pyarrow, which is an extra."""
    if not all(isinstance(text, str | bytes) for text in texts):
        return None
    try:
        parts = [text.encode() if isinstance(text, str) else text for text in texts]
    except UnicodeEncodeError:
        return None
    where = np.cumsum([0, *map(len, parts)])
    return np.frombuffer(b"".join(parts) or b"\0", dtype=np.uint8), where


def _integers_of_objects(array: np.ndarray, offset: int) -> IntArray:
    for at, value in enumerate(array.tolist()):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
            raise InputError(f"stream[{offset + at}] = {value!r} is not a key: keys are all whole numbers or all texts")
    return frozen(array.astype(np.int64))


def _from_parquet(path: Path, column: str | None) -> Stream:
    from keyshift.models.base.arrow import pa

    import pyarrow.dataset as ds  # isort: skip

    if not path.exists():
        raise InputError(f"stream = {str(path)!r}: there is no such file")
    expect_regular(path)
    with refusing(f"stream = {str(path)!r} cannot be read as Parquet ({{reason}})", OSError, ValueError):
        data = ds.dataset(path, format="parquet")
        names = data.schema.names
        largest = max((page for file in data.files for page in unpacked_bytes(Path(file))), default=0)
    if largest > MOST_PAGE:
        raise InputError(f"stream = {str(path)!r} has a page of {largest:,} bytes; at most {MOST_PAGE:,} are unpacked")
    if column is None and len(names) > 1:
        raise InputError(f"stream = {str(path)!r} has the columns {', '.join(names)}: name one as column=")
    name = names[0] if column is None else column
    if name not in names:
        raise InputError(f"column = {name!r}: {str(path)!r} has only {', '.join(names)}")

    kind = data.schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = any(is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))

    def read() -> Iterator[IntArray]:
        for batch in data.to_batches(columns=[name], batch_size=CHUNK):
            values = batch.column(0)
            if values.null_count:
                raise InputError(f"column {name!r} of {str(path)!r} holds {values.null_count} empty keys")
            values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            if texts:
                yield _hashed(*_of_arrow(values.cast(pa.large_binary())))
            else:
                yield values.to_numpy(zero_copy_only=False)

    return _replayable(read)


def _replayable(source: Callable[[], Iterable[Any]]) -> Stream:
    """A stream that can be read anew from its source; one pass over it validates and counts."""

    def read() -> Iterator[IntArray]:
        begin = 0
        for part in source():
            keys = as_keys(part, begin)
            begin += keys.size
            yield keys

    messages = sum(keys.size for keys in read())
    if messages == 0:
        raise InputError("stream is empty")
    return Stream(read, messages, in_memory=False)


def _spooled(source: Iterator[Any]) -> Stream:
    """A stream that can be read only once: its keys go to a temporary file."""
    file = tempfile.TemporaryFile(prefix="keyshift-")  # noqa: SIM115 - closed with the stream
    messages = 0
    for part in source:
        keys = as_keys(part, messages)
        file.write(keys.tobytes())
        messages += keys.size
    if messages == 0:
        file.close()
        raise InputError("stream is empty")
    file.flush()
    stream = Stream(lambda: _chunks_of_file(file, messages), messages, in_memory=False)
    weakref.finalize(stream, file.close)
    return stream


def _chunks_of_file(file: BinaryIO, messages: int) -> Iterator[IntArray]:
    for begin in range(0, messages, CHUNK):
        file.seek(8 * begin)  # every time: another reader may have moved on
        yield frozen(np.frombuffer(file.read(8 * min(CHUNK, messages - begin)), dtype=np.int64))


def lines_of(path: Path) -> Iterator[list[str]]:
    """The lines of a text file, without their ends, a chunk at a time."""
    rest = ""
    try:
        with io.TextIOWrapper(opened(path), encoding="utf-8") as file:
            while piece := file.read(PIECE):
                *lines, rest = (rest + piece).split("\n")
                if len(rest) > PIECE:
                    raise InputError(f"{path} has a line of more than {PIECE:,} characters")
                if lines:
                    yield lines
        if rest:
            yield [rest]
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text: byte {error.start} of a piece is not UTF-8") from None


def room_for_assignment(stream: Stream) -> np.ndarray:
    """An int32 array with one entry for each message: in memory with its stream, else in a temporary file."""
    if stream.in_memory:
        return np.empty(stream.messages, dtype=np.int32)
    with tempfile.TemporaryFile(prefix="keyshift-") as file:  # the mapping keeps the file alive
        return np.memmap(file, dtype=np.int32, mode="w+", shape=(stream.messages,))
