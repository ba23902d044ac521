"""Writing a file whole or not at all, and keeping two runs from writing to one place."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from keyshift.models.errors import InputError

try:
    import fcntl
except ImportError:  # Windows knows no advisory locks of this kind
    fcntl = None  # type: ignore[assignment]


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
    """Raise `InputError` where a file plainly cannot be written: asked before the work, not after it."""
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


def reason(error: BaseException) -> str:
    """The words of the operating system, or of a library, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = str(error).strip().splitlines()
    return said[0][:200] if said else type(error).__name__


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, where they are missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made a folder ({reason(error)})") from None


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
            lock.unlink(missing_ok=True)  # while it is still held: nobody can hold a file that has no name
        os.close(handle)


def _locked(lock: Path, of: str) -> int:
    flags = os.O_RDONLY if lock.is_dir() else os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    while True:
        try:
            handle = os.open(lock, flags, 0o644)
        except OSError as error:
            raise InputError(f"{of} cannot be written ({reason(error)})") from None
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
