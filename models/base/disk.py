"""Files on disk: every one is read here, bounded in size, and written here, whole or not at all.

Nothing else in the package opens a file to read it (a test holds it): what is no regular file would hang, what is larger than
memory would fill it. Two runs are kept from writing to one place.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import json
import math
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.errors import InputError, reason, refusing

try:
    import fcntl as fcntl  # kernel_cache takes it from here
except ImportError:  # Windows has no advisory locks of this kind
    fcntl = None  # type: ignore[assignment]

MOST_JSON = 128 * 2**20
"""Bytes of the largest JSON file that is read; larger data belong into Parquet tables."""

MOST_HELD = 384 * 2**20
"""Bytes that a JSON text may take once it is lists and objects: a list of nothing is 2 bytes there and 64 here."""

MOST_NUMBERS = 2**25
"""Rows of one table, or numbers of one matrix, that are read unless the caller allows more."""

MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
"""What texts begin with that are not UTF-8."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_LONE = re.compile(r"\\u[dD][89a-fA-F]")


def opened(file: str | Path) -> BinaryIO:
    """A regular file, open for reading; `InputError` for anything else, and never a wait for a pipe's other end."""
    try:
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise InputError(f"{file} does not exist") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise InputError(f"{file} cannot be read ({reason(error)})") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{file} is not a regular file")
    return os.fdopen(handle, "rb")


def size_of(file: str | Path) -> int:
    """Bytes of a regular file; `InputError` for anything else."""
    with opened(file) as stream:
        return os.fstat(stream.fileno()).st_size


def expect_regular(place: Path) -> None:
    """Refuse pipes and devices, also inside a folder: a library that opens files itself would wait for ever."""
    for path in [place, *place.rglob("*")]:
        if path.exists() and not (path.is_dir() or path.is_file()):
            raise InputError(f"{path} is not a regular file")


def read_bytes(file: str | Path, most: int) -> bytes:
    """A file of bounded size."""
    with opened(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise InputError(f"{file} has {size:,} bytes; at most {most:,} are read")
        with refusing(f"{file} cannot be read ({{reason}})", OSError):
            found = stream.read(size + 1)
    if len(found) > size:
        raise InputError(f"{file} grows while it is read")
    return found


def read_text(file: str | Path, most: int) -> str:
    """A text file of bounded size: UTF-8, or UTF-16 as some shells write what a tool prints; a byte order mark is no text."""
    content = read_bytes(file, most)
    coding = next((name for mark, name in MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        return content.decode(coding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text: byte {error.start} is not {coding.upper()}") from None


# JSON -----------------------------------------------------------------------------------------------------------


def read_json(file: str | Path, most: int = MOST_JSON) -> Any:
    """Any JSON value of a file of bounded size; a field that is named twice is refused."""
    return parse_json(read_text(file, most), str(file))


def parse_json(text: str, of: str) -> Any:
    """Any JSON value of a text, whose texts are all of whole characters."""
    expect_holdable(text, of)
    try:
        content = json.loads(text, object_pairs_hook=_once)
        if _LONE.search(text):
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except RecursionError:
        raise InputError(f"{of} is not readable JSON: it is nested too deeply") from None
    except UnicodeEncodeError as error:
        said = ascii(error.object[error.start])
        raise InputError(f"{of} holds {said}, which is only half of a character") from None
    except InputError as error:
        raise InputError(f"{of} {error}") from None
    except ValueError as error:
        raise InputError(f"{of} is not JSON ({reason(error)})") from None


def expect_holdable(text: str, of: str) -> None:
    """Refuse a text whose lists, objects, texts and numbers would not fit into memory, by counting what begins them."""
    if len(text) < 2**20:
        return
    sizes = {",": 32, "[": 64, "{": 240, '"': 24}
    held = 2 * len(text) + sum(size * text.count(sign) for sign, size in sizes.items())
    if held > MOST_HELD:
        said = f"{of} would take {held / 2**20:,.0f} MiB of memory; at most {MOST_HELD / 2**20:,.0f} are allowed"
        raise InputError(said)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise InputError(f"names the field {shown(twice)} twice in one object")
    return made


def digest(content: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its fields: by which a file that must not be edited is verified."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_arrays(arrays: Iterable[ArrayLike], text: str = "") -> str:
    """SHA-256 of the shapes and numbers of arrays, however they are stored, and of a text."""
    made = hashlib.sha256()
    for each in arrays:
        array = np.asarray(each)
        made.update(f"{array.shape}{array.dtype.kind}".encode())
        made.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    made.update(text.encode())
    return made.hexdigest()


def shown(value: Any) -> str:
    """A value for a message, cut short where it is long."""
    if isinstance(value, dict):
        return "an object" if len(value) > 3 else _cut(repr(value))
    if isinstance(value, list):
        return f"a list of {len(value)}" if len(value) > 6 else _cut(repr(value))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**40:
        return f"a whole number of {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        return _cut(repr(value))
    except (RecursionError, ValueError):
        return f"a {type(value).__name__}"


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


# Arrays ---------------------------------------------------------------------------------------------------------


def read_scenarios(path: str | Path) -> np.ndarray:
    """Read scenarios of loads: a row a scenario, a column a key group.

    Parameters
    ----------
    path : path
        A .csv has numbers alone, no header; a .json is a list of lists; a .npy is an array.

    Returns
    -------
    ndarray, shape (k, p)

    Raises
    ------
    InputError
        If there is no such file, or it holds anything but a table of numbers.
    """
    readers = {".csv": _csv, ".json": lambda file: np.array(read_json(file)), ".npy": _npy}
    read = readers.get(Path(path).suffix)
    if read is None:
        raise InputError(f"{path}: scenarios are a .csv, .json or .npy file")
    with refusing(f"{path}: not a table of numbers: {{reason}}", ValueError, TypeError, OverflowError):
        made = np.atleast_2d(read(path))
    if made.ndim != 2 or made.size == 0 or made.dtype.kind not in "iuf":
        raise InputError(f"{path}: not a table of numbers, with a row for each scenario")
    return made.astype(np.float64)


def _csv(file: str | Path) -> np.ndarray:
    text = read_text(file, MOST_JSON)
    if text.isspace() or not text:
        raise InputError(f"{file}: not a table of numbers: it is empty")
    with suppress(ValueError):
        return np.loadtxt(io.StringIO(text), delimiter=",", comments=None, ndmin=2)
    rows = [(at, line.split(",")) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    for at, row in rows:  # NumPy says the row without empty ones, from 0
        with refusing(f"{file}, line {at}: not a row of numbers: {{reason}}", ValueError):
            np.array(row, dtype=np.float64)
        if len(row) != len(rows[0][1]):
            raise InputError(f"{file}, line {at} has {len(row)} numbers, line {rows[0][0]} has {len(rows[0][1])}")
    raise InputError(f"{file}: not a table of numbers")


def _npy(file: str | Path) -> np.ndarray:
    data = read_bytes(file, 8 * MOST_NUMBERS + 2**16)
    made = _array(io.BytesIO(data), str(file), columns_first=True)
    if made.size > MOST_NUMBERS:
        raise InputError(f"{file} has {made.size:,} numbers; at most {MOST_NUMBERS:,} are read")
    return made


def write_archive(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays to one uncompressed file, in one step; the same arrays give the same bytes."""
    write_file(path, lambda out: np.savez(out, allow_pickle=False, **arrays))  # type: ignore[arg-type]


def read_archive(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays of an uncompressed archive; no code is run, and no more is allocated than it holds.

    Raises
    ------
    InputError
        If it is not an archive, is compressed or torn, or declares an array of another size than it holds.
    """
    held = size_of(path)
    damaged = refusing(f"{path} is not an archive of arrays ({{reason}})", Exception)  # a flipped bit: of eleven kinds
    with damaged, opened(path) as source, zipfile.ZipFile(source) as archive:
        members = archive.infolist()
        if len(members) > 100_000 or sum(member.file_size for member in members) > held:
            raise InputError(f"{path} declares more than its {held:,} bytes hold")
        return {member.filename.removesuffix(".npy"): _member(path, archive, member) for member in members}


def _member(path: str | Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
        raise InputError(f"{path}: {member.filename!r:.60} is not an array, or compressed")
    with archive.open(member) as stream:
        return _array(stream, f"{path}: {member.filename!r:.60}")


def _array(stream: Any, of: str, columns_first: bool = False) -> np.ndarray:
    """One array; its header is compared with what there is before anything is allocated."""
    with refusing(f"{of} is not an array ({{reason}})", Exception):  # a Python literal: its reader raises nine kinds
        version = np.lib.format.read_magic(stream)
        if version not in _HEADERS:
            raise InputError(f"{of} has an unknown format")
        shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.hasobject or dtype.kind not in "biufU" or (fortran and len(shape) > 1 and not columns_first):
        raise InputError(f"{of} holds {dtype}{', columns first' if fortran else ''}")
    data = stream.read()
    size = dtype.itemsize * math.prod(shape)
    if size != len(data) or any(length < 0 for length in shape):
        raise InputError(f"{of} declares shape {shape!r:.60} but holds {len(data):,} bytes")
    if not size:
        return np.empty(shape, dtype=dtype)
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")


# Writing ---------------------------------------------------------------------------------------------------------------


def write_file(file: str | Path, fill: Callable[[BinaryIO], object]) -> Path:
    """Let `fill` write a file of another name beside the target, then put it in the target's place in one step.

    Parameters
    ----------
    file : str or Path
    fill : callable
        Gets an open binary file.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        With the operating system's reason - a full disk, a folder without permission; what was there before stays.
    """

    def filled(scratch: Path) -> None:
        with scratch.open("wb") as stream:
            fill(stream)

    return write_by_name(file, filled, ".part")


def write_by_name(file: str | Path, fill: Callable[[Path], object], suffix: str = "") -> Path:
    """Like `write_file`, for libraries that open a file themselves.

    Parameters
    ----------
    file : str or Path
    fill : callable
        Gets the path of an empty file.
    suffix : str, optional
        The end of that file's name; default: that of the target.
    """
    target = Path(file)
    scratch: Path | None = None
    try:
        beside = target.absolute().parent
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", suffix=suffix or target.suffix, dir=beside)
        os.close(handle)
        scratch = Path(name)
        fill(scratch)
        _flush(scratch)
        scratch.chmod(_mode(target))
        scratch.replace(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({reason(error)})") from None
    finally:
        if scratch is not None:
            scratch.unlink(missing_ok=True)
    return target


def write_folder(target: Path, fill: Callable[[Path], object]) -> None:
    """Like `write_file`, for a folder that does not exist yet, or is empty; `fill` gets the path of an empty folder."""
    scratch: Path | None = None
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
        fill(scratch)
        scratch.chmod(0o755)
        scratch.replace(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written ({reason(error)})") from None
    except InputError as error:
        raise InputError(str(error).replace(str(scratch), str(target))) from None
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _flush(file: Path) -> None:
    """Wait until a file is on the disk."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def expect_place(file: str | Path) -> Path:
    """Raise `InputError` before the work if a file cannot be written there."""
    target = Path(file)
    folder = target.absolute().parent
    if target.is_dir():
        raise InputError(f"{target} cannot be written ({os.strerror(errno.EISDIR)})")
    if not folder.is_dir():
        raise InputError(f"{target} cannot be written (there is no folder {folder})")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{target} cannot be written ({os.strerror(errno.EACCES)})")
    return target


def write_text(file: str | Path, text: str) -> Path:
    """Write a UTF-8 text file in one step; see `write_file`."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{file} cannot be written: {text[error.start]!a} is only half of a character") from None
    return write_file(file, lambda stream: stream.write(content))


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, where they are missing."""
    with refusing(f"{folder} cannot be made a folder ({{reason}})", OSError):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def only_writer(lock: Path, of: str) -> Iterator[None]:
    """Hold a lock for as long as the block runs; a killed process lets go of it.

    Parameters
    ----------
    lock : Path
        A folder that exists, or a file that is made for the purpose and removed at the end.
    of : str
        What is written to, for the message.

    Raises
    ------
    InputError
        If another process, or another part of this one, holds it.
    """
    if fcntl is None:
        yield
        return
    handle = _locked(lock, of)
    try:
        yield
    finally:
        if not lock.is_dir():
            lock.unlink(missing_ok=True)  # while it is still locked: a file without a name cannot be locked
        os.close(handle)


def _locked(lock: Path, of: str) -> int:
    flags = os.O_RDONLY if lock.is_dir() else os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    while True:
        with refusing(f"{of} cannot be written ({{reason}})", OSError):
            handle = os.open(lock, flags, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.exists() and os.path.samestat(os.fstat(handle), lock.stat()):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise InputError(f"{of} is being written by another run: let it end, or choose another place") from None
        except OSError:  # a file system without locks
            return handle
        os.close(handle)  # removed by the one who held it: take the new one


@contextmanager
def descriptors_to(file: str | Path, *numbers: int) -> Iterator[None]:
    """Let these file descriptors of the process, 1 and 2 say, write to the end of a file for as long as the block runs."""
    before = [os.dup(number) for number in numbers]
    try:
        with Path(file).open("ab") as log:
            for number in numbers:
                os.dup2(log.fileno(), number)
        yield
    finally:
        for number, kept in zip(numbers, before, strict=True):
            os.dup2(kept, number)
            os.close(kept)


def _mode(target: Path) -> int:
    """The rights of the file that is replaced, or those that the user's mask gives to a new one."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
