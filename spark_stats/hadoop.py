"""Directories of statistics on Hadoop's file systems - HDFS, object stores, viewfs - by the Hadoop that Spark brings.

`HadoopPath` has those methods of `pathlib.Path` that writing statistics calls, so that one code writes to both. What
such file systems lack is a lock that ends with its process: two runs into one directory at once both count, and the
last one wins where they hold the same window; folders that a killed job left stay.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyshift.models.errors import InputError
from keyshift.spark_stats.failures import in_one_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_remote(path: str | Path) -> bool:
    """Whether a path is a URL of another file system than this machine's own."""
    return isinstance(path, str) and "://" in path and not path.startswith("file:")


def place(path: str | Path | HadoopPath, spark: SparkSession) -> Path | HadoopPath:
    """The directory of a path or URL; a local one as an absolute path, since Spark may run in another folder."""
    if isinstance(path, HadoopPath):
        return path
    if is_remote(path):
        return HadoopPath(str(path), spark)
    return Path(str(path).removeprefix("file:")).absolute()


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
        self.url, self._spark, self._jvm = url.rstrip("/"), spark, session._jvm
        self._conf = session._jsparkSession.sessionState().newHadoopConf()
        self._path = self._jvm.org.apache.hadoop.fs.Path(self.url)
        self._files = self._path.getFileSystem(self._conf)

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
        scratch = self._jvm.org.apache.hadoop.fs.Path(f"{self.url}.part")
        stream = self._files.create(scratch, True)
        stream.write(bytearray(text.encode(encoding)))
        stream.close()
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path.toUri(), self._conf)
        rename: Any = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._spark.sparkContext._gateway.new_array(rename, 1)  # type: ignore[union-attr]
        options[0] = rename.OVERWRITE
        context.rename(scratch, self._path, options)

    def copy_to(self, target: Path) -> None:
        """Copy the file or directory to this machine."""
        self._files.copyToLocalFile(
            False, self._path, self._jvm.org.apache.hadoop.fs.Path(str(target.absolute())), True
        )

    def remove_tree(self) -> None:
        """Delete the directory with all that is in it."""
        self._files.delete(self._path, True)


def local_copy(file: HadoopPath) -> tempfile.TemporaryDirectory[str]:
    """A folder here that holds a copy of one file, until the block ends."""
    folder = tempfile.TemporaryDirectory()
    file.copy_to(Path(folder.name) / file.name)
    return folder
