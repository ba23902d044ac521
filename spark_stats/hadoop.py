"""Directories of statistics on Hadoop's file systems - HDFS, object stores, viewfs - by the Hadoop that Spark brings.

`HadoopPath` has those methods of `pathlib.Path` that writing statistics calls, so that one code writes to both. A path without
a scheme lies where Spark's ``fs.defaultFS`` says. Such file systems lack a lock that ends with its process: a writer keeps a
small file fresh instead, and one that has not been for two minutes is of a job that was killed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from keyshift.models.base.disk import only_writer, write_text
from keyshift.models.errors import InputError, refusing
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.statistics_files import MANIFEST


def is_remote(path: str | Path) -> bool:
    """Whether a path is a URL of another file system than this machine's own."""
    return isinstance(path, str) and "://" in path and not path.startswith("file:")


def place(path: str | Path | HadoopPath, spark: SparkSession) -> Path | HadoopPath:
    """The directory of a path or URL; a local one as an absolute path, since Spark may run in another folder.

    Without a scheme it is one of the file system that Spark's ``fs.defaultFS`` names; a `Path` is always a folder here.
    """
    if isinstance(path, HadoopPath):
        return path
    session: Any = spark
    default = str(session._jsparkSession.sessionState().newHadoopConf().get("fs.defaultFS"))
    if is_remote(path) or (isinstance(path, str) and not path.startswith("file:") and not default.startswith("file:")):
        return HadoopPath(str(path), spark)
    return Path(str(path).removeprefix("file:")).absolute()


def url_of(path: Path | HadoopPath) -> str:
    """What Spark calls a path, whatever file system it takes for its own."""
    return f"file:{path}" if isinstance(path, Path) else str(path)


def fetch(spark: SparkSession, source: str, directory: str | Path) -> Path:
    """Copy a directory of statistics from a Hadoop file system to a new one here, for `keyshift.read_workload`."""
    target = Path(directory)
    if target.exists():
        raise InputError(f"{target} is there already: name a new directory")
    with in_one_sentence():
        HadoopPath(source, spark).copy_to(target)
    return target


class HadoopPath:
    """A path on a file system of Hadoop's; errors are Java's, see `keyshift.spark_stats.failures`."""

    def __init__(self, url: str, spark: SparkSession) -> None:
        session: Any = spark
        self._spark, self._jvm = spark, session._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()
        self._path = self._jvm.org.apache.hadoop.fs.Path(url)
        self._files = self._path.getFileSystem(self._conf)
        self._path = self._files.makeQualified(self._path)
        self.url = str(self._path.toString()).rstrip("/")

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(f"{self.url}/{name}", self._spark)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.url.rsplit("/", 1)[-1]

    def exists(self) -> bool:
        """Whether there is a file or directory."""
        return bool(self._files.exists(self._path))

    def is_dir(self) -> bool:
        """Whether there is a directory."""
        return self.exists() and bool(self._files.getFileStatus(self._path).isDirectory())

    def is_symlink(self) -> bool:
        """No file system of Hadoop's follows links."""
        return False

    def iterdir(self) -> Iterator[HadoopPath]:
        """The entries of the directory."""
        for status in self._files.listStatus(self._path):
            yield self / status.getPath().getName()

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the directory, and those above it."""
        self._files.mkdirs(self._path)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write a file; replaces one that is there in one step."""
        if self._files.hasPathCapability(self._path, "fs.capability.outputstream.abortable"):
            self.create(text, overwrite=True)  # an object store, where a file is there once it has been closed
            return
        scratch = HadoopPath(f"{self.url}.part", self._spark)
        scratch.create(text, overwrite=True)
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path.toUri(), self._conf)
        rename: Any = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._spark.sparkContext._gateway.new_array(rename, 1)  # type: ignore[union-attr]
        options[0] = rename.OVERWRITE
        context.rename(scratch._path, self._path, options)

    def create(self, text: str, *, overwrite: bool) -> None:
        """Write a file that others may see before it is whole."""
        stream = self._files.create(self._path, overwrite)
        stream.write(bytearray(text.encode("utf-8")))
        stream.close()

    def age(self) -> float:
        """Seconds since the file was written; 0 where there is none."""
        try:
            return time.time() - self._files.getFileStatus(self._path).getModificationTime() / 1000
        except Py4JError:
            return 0.0

    def copy_to(self, target: Path) -> None:
        """Copy the file or directory to this machine."""
        self._files.copyToLocalFile(
            False, self._path, self._jvm.org.apache.hadoop.fs.Path(str(target.absolute())), True
        )

    def remove_tree(self) -> None:
        """Delete the directory with all that is in it, or the file."""
        self._files.delete(self._path, True)

    unlink = remove_tree


@contextmanager
def local_copy(file: Path | HadoopPath) -> Iterator[Path]:
    """A folder here that has a file, or a copy of it until the block ends."""
    if isinstance(file, Path):
        yield file.parent
        return
    with tempfile.TemporaryDirectory() as folder:
        file.copy_to(Path(folder) / file.name)
        yield Path(folder)


# Whose a directory is: one writer at a time, and nothing deleted that keyshift did not make.
#
# A directory of statistics holds a file ``.keyshift`` from the first moment on: it says that the directory is keyshift's.
# A writer locks the directory, and the system lets go of it when a process ends, however it ends. Folders that may be
# deleted again - a run, what is pending of a stream - hold a file of that name of their own.

MARK = ".keyshift"
_WORDS = "keyshift made this folder, and may delete it when it writes here again\n"
FRESH, STALE = 30, 120
"""Seconds after which a writer to one of Hadoop's file systems says that it is still there, and after which it is gone."""
_held: set[Path | str] = set()
"""Directories that this process holds."""


@contextmanager
def claim(target: Path | HadoopPath) -> Iterator[None]:
    """Be the only writer of a directory of statistics until the block ends; makes the directory if it is not there.

    Raises
    ------
    InputError
        The directory holds something else, cannot be written to, or another process is writing.
    """
    if isinstance(target, HadoopPath):
        with nullcontext() if target.url in _held else _only_writer(target):
            yield
        return
    place = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow a link that may be exchanged
    if place in _held:
        yield
        return
    with refusing(f"cannot write to {target}: {{reason}}", OSError):
        fresh = _ours(target)
    with only_writer(target, str(target)):
        write_text(target / MARK, _WORDS)
        _held.add(place)
        try:
            yield
        finally:
            _held.remove(place)
            if fresh and [entry.name for entry in target.iterdir()] == [MARK]:  # it was made in vain
                (target / MARK).unlink()
                target.rmdir()


@contextmanager
def _only_writer(target: HadoopPath) -> Iterator[None]:
    """Be the only writer of a directory of Hadoop's, by a file that is made anew while the block runs."""
    if _ours(target):
        (target / MARK).write_text(_WORDS)
    lock, token, done = target / f"{MARK}-writer", uuid.uuid4().hex, threading.Event()
    if lock.age() > STALE:
        lock.remove_tree()
    try:
        lock.create(token, overwrite=False)
    except Py4JError as error:
        if not lock.exists():
            raise
        said = f"{target} is being written by another run, or was until it was killed less than {STALE} s ago"
        raise InputError(said) from error

    def stay() -> None:
        while not done.wait(FRESH):
            lock.create(token, overwrite=True)

    keeper = threading.Thread(target=stay, daemon=True)
    keeper.start()
    _held.add(target.url)
    try:
        yield
    finally:
        _held.discard(target.url)
        done.set()
        keeper.join()
        lock.remove_tree()


def _ours(target: Path | HadoopPath) -> bool:
    """Make the directory where there is none; refuse one that is not ours. Returns whether it was made now."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file, not a directory of statistics")
    fresh = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    if not (target / MANIFEST).exists() and not (target / MARK).exists() and any(target.iterdir()):
        raise InputError(f"{target} exists and holds no statistics: it is not written to")
    return fresh


def make(folder: Path | HadoopPath) -> Path | HadoopPath:
    """Make a folder that may be deleted again, in place of one that a killed job left; one that is another's is refused."""
    if not remove(folder):
        raise InputError(f"{folder} was not made by keyshift: it is not written to")
    folder.mkdir(parents=True)
    (folder / MARK).write_text(_WORDS, encoding="utf-8")
    return folder


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
