"""Whose a directory is: one writer at a time, and nothing deleted that keyshift did not make.

A directory of statistics holds a file ``.keyshift`` from the first moment on. It says that the directory is
keyshift's, and it is the lock: whoever writes holds it, and the system lets go of it when a process ends, however it
ends. Folders that may be deleted again - a run, what is pending of a stream - hold a file of that name of their own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from keyshift.models.errors import InputError
from keyshift.models.files.statistics import MANIFEST
from keyshift.spark_stats.hadoop import HadoopPath

MARK = ".keyshift"
_WORDS = "keyshift made this folder, and may delete it when it writes here again\n"
_held: dict[Path, int] = {}
"""Directories that this process holds, and how many times."""


@contextmanager
def claim(target: Path | HadoopPath) -> Iterator[None]:
    """Be the only writer of a directory of statistics until the block ends; makes the directory if it is not there.

    On Hadoop's file systems, which have no locks, the directory is only marked as ours.

    Raises
    ------
    InputError
        The directory holds something else, cannot be written to, or another process is writing.
    """
    if isinstance(target, HadoopPath):
        if _ours(target):
            (target / MARK).write_text(_WORDS)
        yield
        return
    place = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow a link that may be exchanged
    if place in _held:
        _held[place] += 1
        try:
            yield
        finally:
            _held[place] -= 1
        return
    try:
        fresh = _ours(target)
        lock = _lock(target)
    except OSError as error:
        raise InputError(f"cannot write to {target}: {error.strerror}") from None
    _held[place] = 1
    try:
        yield
    finally:
        del _held[place]
        _release(target, lock, fresh)


def _ours(target: Path | HadoopPath) -> bool:
    """Make the directory where there is none; refuse one that is not ours. Returns whether it was made now."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file, not a directory of statistics")
    fresh = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    if not (target / MANIFEST).exists() and not (target / MARK).exists() and any(target.iterdir()):
        raise InputError(f"{target} exists and holds no statistics: it is not written to")
    return fresh


def _lock(target: Path) -> TextIO:
    while True:
        lock = (target / MARK).open("a+", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise InputError(f"{target} is being written to by another run of keyshift: wait for its end") from None
        try:
            if os.fstat(lock.fileno()).st_ino == (target / MARK).stat().st_ino:
                break
        except FileNotFoundError:
            pass
        lock.close()  # the file that we hold was removed by the run before: take the new one
    if lock.tell() == 0:
        lock.write(_WORDS)
        lock.flush()
    return lock


def _release(target: Path, lock: TextIO, fresh: bool) -> None:
    """Let go of a directory; one that was made in vain goes again."""
    if fresh and [entry.name for entry in target.iterdir()] == [MARK]:
        (target / MARK).unlink()
        target.rmdir()
    lock.close()


def make(folder: Path | HadoopPath) -> None:
    """Make a folder that may be deleted again."""
    folder.mkdir(parents=True)
    (folder / MARK).write_text(_WORDS, encoding="utf-8")


def remove(folder: Path | HadoopPath, *, known: bool = False) -> bool:
    """Delete a folder if it is ours by its mark, or `known` to be; says whether it is gone."""
    if folder.is_symlink() or not folder.is_dir():
        return not folder.exists()
    if known or (folder / MARK).exists() or not any(folder.iterdir()):
        if isinstance(folder, HadoopPath):
            folder.remove_tree()
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
