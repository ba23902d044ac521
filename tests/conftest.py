"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest
from hypothesis import settings

from keyshift.models import answer

settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci")
os.environ.setdefault("MPLBACKEND", "agg")
os.environ.pop("COLUMNS", None)  # tables fold their heads in a narrow window: tests read them as a pipe does
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with Ctrl-C ignored
answer.PATIENCE = 60.0  # on a busy machine the gap must not come before a proof that is near
os.environ["KEYSHIFT_TRACEBACK"] = "1"  # a defect must not pass as a sentence
gc.disable()  # until all is collected


def pytest_collection_modifyitems(items):
    """What asks for a session is deselected by `-m "not spark"`, too; it comes first, so that one process has the only session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


def pytest_collection_finish():
    """Tests and modules stay to the end: looking for garbage among them, again and again, took a twentieth of the run."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture
def without_subsets(monkeypatch):
    """Small instances go to the other parts of a method: subsets prove them before any of these begins."""
    monkeypatch.setattr("keyshift.solvers.allocation.subsets.SubsetProgram.suits", lambda *_: False)
    monkeypatch.setattr("keyshift.solvers.collocation.sets.CollocationSets.tabled", lambda *_: False)


@pytest.fixture(scope="session")
def spark(request):
    """One small local Spark session for all tests. The first run keeps the classes that its Java has read: half of a start."""
    from pyspark.sql import SparkSession

    from keyshift.spark_stats.session import ARCHIVED, BRIEF, check_java, class_archive

    kept = request.config.rootpath / ".pytest_cache" / class_archive(check_java()).name
    kept.parent.mkdir(exist_ok=True)
    made = kept.with_suffix(".part")
    classes = f"{ARCHIVED}{kept}" if kept.exists() else f"-Xlog:cds=error -XX:ArchiveClassesAtExit={made}"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    session = (
        SparkSession.builder.master("local[1]")  # one Python, but two parts of everything
        .config("spark.default.parallelism", "2")
        .appName("keyshift tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.codegen.wholeStage", "false")  # on small logs compiling takes longer than running
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")  # it asks Java back at every column
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"{BRIEF} -XX:ReservedCodeCacheSize=200m {classes}")
        .getOrCreate()
    )
    yield session
    java = session.sparkContext._gateway.proc
    session.stop()
    if not kept.exists():
        java.stdin.close()
        java.wait()  # it writes them down as it ends
        if made.exists():
            made.replace(kept)
