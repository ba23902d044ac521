"""Spark's failures in one sentence: what went wrong, and what to do, instead of a Java trace of three hundred lines."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from keyshift.models.errors import InputError

_KNOWN = (
    (r"keyshift\.models\.errors\.\w+: ([^\n]+)", "{0}"),
    (r"No space left on device", "the disk is full: free some room, or set spark.local.dir and --out to other disks"),
    (r"in java\.library\.path|UnsatisfiedLinkError", "{room}"),
    (r"File too large", "{room}"),
    (r"No module named '(\w+)'", "the Python on Spark's workers has no {0}: set PYSPARK_PYTHON to one that has"),
    (r"Cannot run program \"([^\"]+)\"", "Spark's workers cannot run {0}: set PYSPARK_PYTHON to a Python they have"),
    (r"PYTHON_VERSION_MISMATCH", "the Python on Spark's workers has another version: set PYSPARK_PYTHON to this one"),
    (r"Illegal Parquet type: INT64 \(TIMESTAMP\(NANOS", "a Parquet file has timestamps in nanoseconds"),
    (r"Failed to find (?:the )?data source: (\w+)", "Spark has no reader of {0}: give it the package that has one, "
     "such as --conf spark.jars.packages=org.apache.spark:spark-avro_2.13:VERSION"),
    (r"\[DIVIDE_BY_ZERO[^\]]*\]", "an expression divides by zero on some row: write try_divide, or filter such rows"),
    (r"\[CAST_INVALID_INPUT\] (The value '[^\n]*' of the type \"STRING\" cannot be cast to \"\w+\")",
     "an expression fails on some row: {0} (the columns of CSV are texts unless a schema gives their types)"),
    (r"\[(?:CAST_\w+|ARITHMETIC_OVERFLOW)[^\]]*\] ([^\n]+?)(?: (?:Use|To return|If necessary)|SQLSTATE|\n|$)",
     "an expression fails on some row: {0}"),
    (r"(\S+) is not a Parquet file", "{0} is not a Parquet file, or is damaged"),
    (r"Encountered error while reading file (\S+?)\.? ", "the file {0} cannot be read: it is damaged, or of another kind"),
    (r"(?:OverflowError: |ValueError: |\[USER_RAISED_EXCEPTION\] )([^\n]+?)(?: SQLSTATE|\n|$)", "{0}"),
    (r"java\.lang\.OutOfMemoryError", "Spark ran out of memory: give it more, such as spark.driver.memory=4g"),
    (r"Permission denied", "permission denied: a folder cannot be read or written"),
    (r"Read-only file system", "the disk is read-only"),
    (r"JAVA_GATEWAY_EXITED", "Java ended before Spark had started: its settings (--conf, JAVA_HOME) may not fit"),
    (r"stopped SparkContext|SparkContext was shut down", "Spark has ended: the master or the session went away"),
)  # fmt: skip
"""Phrases in Spark's messages and their meaning; the first that matches is reported."""


SMALL = 2**24
"""Bytes: with fewer free, a temporary folder is full for Spark."""


class SparkError(InputError):
    """A failure in Spark itself: Java has said more about it, in its log."""


@contextmanager
def in_one_sentence(source: str = "") -> Iterator[None]:
    """Raise what Spark raises as an `InputError` of one sentence; `SparkError` unless our own functions or a `source` refused."""
    begun = f"cannot read {source}: " if source else ""
    try:
        with quiet():
            yield
    except (PySparkException, Py4JError) as error:
        kind = InputError if source or re.search(_KNOWN[0][0], str(error)) else SparkError
        raise kind(begun + sentence(error)) from None
    except ValueError as error:
        if not source or isinstance(error, InputError):
            raise
        raise InputError(begun + str(error)) from None
    except OSError as error:
        if error.errno is None:
            raise
        raise InputError(f"{error.filename or 'a file'}: {error.strerror}") from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark from logging an exception, trace and all, that is about to be told in one sentence."""
    # A plain logger of such a name, made before PySpark asks for its own, would break what PySpark says of every mistake.
    loggers = [PySparkLogger.getLogger(name) for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def sentence(error: Exception) -> str:
    """Return the sentence for an exception of Spark's."""
    words = str(error)
    for pattern, told in _KNOWN:
        if found := re.search(pattern, words):
            return told.format(*found.groups(), room=_room() if told == "{room}" else "") + _fragment(words)
    return "Spark failed: " + first_line(error)


def _room() -> str:
    """Why Java could not unpack its libraries, or write at all: what is known of the place, in a sentence."""
    import resource

    places = {tempfile.gettempdir(), "/tmp"}
    there = [place for place in sorted(places) if Path(place).exists()]
    full = next((place for place in there if shutil.disk_usage(place).free < SMALL), None)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if full is not None:
        room = "no room for Spark's temporary files (TMPDIR, spark.local.dir: other places)"
        return f"the disk is full: {full} has {room}"
    if limit != resource.RLIM_INFINITY:
        return f"no file may be larger than {limit:,} bytes here (ulimit -f), which Spark's temporary files are"
    return "Java could not unpack a library of Spark's: the temporary folder is full, or mounted noexec"


def first_line(error: Exception) -> str:
    """Return the first sentence of one of Spark's long messages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    causes = [line for line in lines if re.match(r"(Caused by: |: )?[\w.$]+(Exception|Error): ", line)]
    said = causes[-1] if causes and lines[0].startswith("An error occurred while calling") else lines[0]
    return re.sub(r"^(Caused by: |: )?[\w.$]+(Exception|Error): ", "", said.split(" SQLSTATE:")[0])[:500]


def _fragment(words: str) -> str:
    """The expression that Spark blames, where it names one."""
    found = re.search(r"== SQL[^\n]*==\n([^\n]+)\n", words)
    return f" (in {found[1].strip()})" if found else ""
