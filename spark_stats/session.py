"""A Spark session: the caller's, or one of our own on this machine."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyshift.models.base.disk import descriptors_to
from keyshift.models.errors import InputError, MissingDependencyError, needing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEAST_JAVA = 17
INSTALL = "install it (Debian, Ubuntu: apt install openjdk-17-jre-headless) or point JAVA_HOME at it"

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # the lines it would name are ours, not the caller's
}
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java for a job of seconds: what it compiles, it compiles once and lightly."""
LONG = "-XX:+UseParallelGC"
"""Java for a longer one: throughput counts, not how long it pauses."""
SMALL_LOG = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark for a log of seconds: plans that are made once, and no code of their own to compile for each of them. The job runs in one
thread, and so in one Python, since each more takes longer to start than such a log to count."""
TRUSTED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Spark's own classes, some ten thousand, are not verified one by one."""
RARELY = "-XX:CompileThresholdScaling=4 -XX:-UsePerfData"
"""Most of what a start runs, it runs a few hundred times: less than compiling it takes."""

ARCHIVED = "-XX:+IgnoreUnrecognizedVMOptions -Xshare:auto -XX:SharedArchiveFile="
"""Classes as another Java has read them, as `class_archive` says where. One that does not fit is passed over by Java."""

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
}
"""On this machine; a task's share of the log is a quarter of Spark's own, so that what it counts stays in memory."""


@contextmanager
def local_session(
    name: str = "keyshift", *, master: str | None = None, conf: Mapping[str, str] | None = None, brief: bool = False
) -> Iterator[SparkSession]:
    """Use the active Spark session, or start one that ends with the ``with`` block.

    Parameters
    ----------
    name : str
        The application's name.
    master : str, optional
        Spark master, such as ``spark://host:7077``; default ``local[*]``, or ``local[1]`` where `brief`. An active
        session is used as it is; then no other master may be given.
    conf : mapping of str to str, optional
        Further Spark settings; they replace the defaults of this function (UTC, no web page, no progress on the
        console).
    brief : bool, default False
        Whether the session is for a small log: Spark and Java then spend less time on optimising their own code.

    Raises
    ------
    MissingDependencyError
        No PySpark; no Java, or one older than 17.
    InputError
        For a master that Spark does not know, that does not answer, or that is given with an active session; for Spark
        Connect.
    """
    refuse_connect(master)
    with needing("pyspark", "PySpark is not installed: pip install '.[spark]' in a checkout of keyshift"):
        from pyspark.sql import SparkSession
    active = SparkSession.getActiveSession()
    if active is not None:
        if master is not None and master != active.conf.get("spark.master"):
            raise InputError(f"master = {master!r}: a session on {active.conf.get('spark.master')!r} is active already")
        for key, value in (conf or {}).items():
            active.conf.set(key, value)
        yield active
        return
    master = master or ("local[1]" if brief else "local[*]")
    check_master(master)
    archive = class_archive(check_java())
    classes = f"{ARCHIVED}{archive}" if archive.exists() and not re.search(r"[\s\"'\\]", str(archive)) else ""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run whichever python3 comes first
    # Of the first Java, which only says how to start the second.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _one_collector(BRIEF))
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from keyshift.spark_stats.failures import in_one_sentence

    with _log_file() as file:
        java = f"-Dkeyshift.log={file} -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
        kind = f"{BRIEF} -Xmn256m" if brief else LONG  # of a brief job garbage is collected once, if at all
        said = {"spark.driver.extraJavaOptions": f"{java} {_one_collector(kind)} {TRUSTED} {RARELY} {classes}".strip()}
        own = {**_QUIET, **said, **(SMALL_LOG if brief else {}), **(_LOCAL if master.startswith("local") else {})}
        settings = {**own, **(conf or {})}
        builder = SparkSession.builder.master(master).appName(name).config(map=settings)
        sys.stdout.flush()
        # Java warns before it has a log, and may outlive us.
        with in_one_sentence(), descriptors_to(file, 1, 2), _no_java_left():
            session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


def _one_collector(options: str) -> str:
    """Options of Java, less ours about the collection of garbage where the caller's environment names one: two would end Java."""
    named = " ".join(os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"))
    return re.sub(r"-XX:.Use\w+GC", "", options) if re.search(r"-XX:.Use\w+GC", named) else options


@contextmanager
def _no_java_left() -> Iterator[None]:
    """End the Java that starts within the block, if the block is left by Ctrl-C, which does not reach it."""
    from pyspark import SparkContext, java_gateway

    started: list[subprocess.Popen[bytes]] = []
    before = java_gateway.Popen

    class Noted(subprocess.Popen):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            started.append(self)
            super().__init__(*arguments, **options)

    java_gateway.Popen = Noted
    try:
        yield
    except KeyboardInterrupt:
        for process in started:
            process.kill()  # asked to end while Spark starts, it may wait for itself
            process.wait()
        # Another may start, should anyone ask for a session again.
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        raise
    finally:
        java_gateway.Popen = before


@contextmanager
def _log_file() -> Iterator[Path]:
    """A file for what Java says; it stays if Spark fails, and the error says where."""
    from keyshift.spark_stats.failures import SparkError

    file = Path(tempfile.gettempdir()) / f"keyshift-spark-{os.getpid()}-{uuid.uuid4().hex[:6]}.log"
    try:
        yield file
    except SparkError as error:
        if file.exists() and file.stat().st_size:
            raise SparkError(f"{error} (Spark's own words: {file})") from None
        raise
    except (InputError, KeyboardInterrupt):  # of ours: Java has nothing to say about it
        file.unlink(missing_ok=True)
        raise
    else:
        file.unlink(missing_ok=True)


@contextmanager
def work_of(spark: SparkSession) -> Iterator[dict[str, int]]:
    """What Spark did within the block, once it is over: its stages and tasks, rows read (also of what it keeps), bytes."""
    context: Any = spark.sparkContext
    store, gateway = context._jsc.sc().statusStore(), context._gateway
    none = gateway.new_array(gateway.jvm.double, 0)
    before = store.stageList(None, False, False, none, None).size()
    found: dict[str, int] = {}
    yield found
    context._jsc.sc().listenerBus().waitUntilEmpty()
    stages = store.stageList(None, False, False, none, None)  # the newest first
    new = [stages.apply(i) for i in range(max(0, stages.size() - before))]
    found["stages"] = len(new)
    sums = {"tasks": "numCompleteTasks", "rows_read": "inputRecords", "bytes_shuffled": "shuffleWriteBytes"}
    for name, of_stage in (sums | {"bytes_spilled": "diskBytesSpilled"}).items():
        found[name] = sum(getattr(stage, of_stage)() for stage in new)


KEPT = {"optimizer.canChangeCachedPlanOutputPartitioning": "true", "inMemoryColumnarStorage.compressed": "false"}
NEEDED = ("numpy", "pandas", "pyarrow")
"""Packages that Python on the workers must have: our functions travel with the job, these do not."""


@contextmanager
def workers_python(spark: SparkSession) -> Iterator[None]:
    """A context in which Spark's workers run a Python with the packages that our functions need.

    In a session that the caller started, Spark's workers run the ``python3`` of the PATH unless PYSPARK_PYTHON says
    otherwise: in a virtual environment that is not activated, the system's. On this machine (a local master) the Python
    of the driver does instead, where the other lacks a package or is another version; on a cluster nothing is known
    here, and a failure says what to set.
    """
    context: Any = spark.sparkContext
    before = context.pythonExec
    if not str(context.master).startswith("local") or _fit(before):
        yield
        return
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """Change settings of Spark SQL, named without ``spark.sql.``, until the block ends."""
    before = {name: spark.conf.get(f"spark.sql.{name}", None) for name in values}
    for name, value in values.items():
        spark.conf.set(f"spark.sql.{name}", value)
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(f"spark.sql.{name}")
            else:
                spark.conf.set(f"spark.sql.{name}", known)


def persisted(frame: DataFrame) -> DataFrame:
    """Keep a frame in as many partitions as adaptive execution finds right: else Spark keeps all 200 of a small table.

    It is not compressed: numbers of nearly as many key groups as tuples would cost more time than they give room.
    """
    with settings(frame.sparkSession, **KEPT):
        return frame.persist()


@lru_cache(maxsize=8)
def _fit(python: str) -> bool:
    """Whether a Python of this machine has the packages, and is of the driver's version."""
    path = shutil.which(python)
    if path is not None and Path(path).absolute() == Path(sys.executable).absolute():
        return True
    asked = f"import sys, {', '.join(NEEDED)}; print('%d.%d' % sys.version_info[:2])"
    try:
        told = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.returncode == 0 and told.stdout.strip() == ".".join(map(str, sys.version_info[:2]))


def refuse_connect(master: str | None = None) -> None:
    """Refuse Spark Connect in one sentence: there is no Java at hand to count and check with."""
    if (master or "").startswith("sc://") or os.environ.get("SPARK_REMOTE"):
        raise InputError(
            "Spark Connect (sc://, SPARK_REMOTE) is not supported: give a master such as local[*] or spark://host:7077"
        )


def refuse_connect_frame(frame: object) -> None:
    """Refuse a DataFrame of Spark Connect."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        said = "the log is a DataFrame of Spark Connect, which is not supported: read it in a classic session"
        raise InputError(said)


def check_master(master: str) -> None:
    """Refuse a master that is not Spark's, and a Spark cluster that does not answer."""
    if not re.fullmatch(r"local(\[[\d*, ]+\])?|local-cluster\[[\d, ]+\]|spark://\S+|yarn|k8s://\S+", master):
        said = f"master = {master!r} is not a Spark master: local[*], spark://host:port, yarn, k8s://..."
        raise InputError(said)
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host or address, int(port or 7077)), timeout=5):
                return
        except (OSError, ValueError):
            continue
    raise InputError(f"master = {master!r}: no Spark master answers there")


def class_archive(java: str) -> Path:
    """Where the classes are kept that a Java, as it calls itself, loads for Spark: beside this file, or in NUMBA_CACHE_DIR.

    `keyshift warm-up` puts them there.
    """
    import pyspark

    known = hashlib.sha256(f"{java} {pyspark.__version__} {pyspark.__file__}".encode()).hexdigest()[:16]
    folder = os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).with_name("__pycache__")
    return Path(folder).absolute() / f"spark-{known}.jsa"


def check_java() -> str:
    """Refuse a missing or old Java in one sentence; returns Java's name of itself."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"there is none in JAVA_HOME = {home}" if home else "none is on the PATH"
        raise MissingDependencyError(f"Spark needs Java {LEAST_JAVA} or newer and {where}: {INSTALL}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)(?:\.(\d+))?', told.stderr + told.stdout)
    if version is None:
        raise MissingDependencyError(f"Spark needs Java {LEAST_JAVA} or newer, and {java} does not tell its version")
    number = int(version[2] or 0) if version[1] == "1" else int(version[1])  # "1.8.0" was Java 8
    if number < LEAST_JAVA:
        raise MissingDependencyError(f"Spark needs Java {LEAST_JAVA} or newer, and {java} is Java {number}: {INSTALL}")
    return told.stderr + told.stdout
