"""A Spark session of our own for the shell and the demo; nothing starts one at import."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from keyshift.models.errors import MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = 17
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
}


def require_spark() -> None:
    """Raise `MissingDependencyError`, in one sentence, unless PySpark and a Java it can run on are there."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingDependencyError("PySpark is not installed: pip install 'keyshift[spark]'") from None
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    try:
        said = subprocess.run([java or "java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        said = ""
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < JAVA:
        has = f"this is Java {found[1]}" if found else "none was found"
        raise MissingDependencyError(
            f"Spark needs Java {JAVA} or newer, and {has}: install it "
            "(Debian, Ubuntu: apt install openjdk-17-jre-headless) or point JAVA_HOME at it"
        )


@contextmanager
def local_session(
    name: str, master: str = "local[*]", options: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Use the session that is active, or start one and stop it afterwards.

    Parameters
    ----------
    name : str
        The application's name.
    master : str, default "local[*]"
    options : mapping of str to str, optional
        Spark's own configuration, over our quiet defaults.

    Raises
    ------
    MissingDependencyError
        When PySpark or Java is missing.
    """
    require_spark()
    from pyspark.sql import SparkSession

    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if (active := SparkSession.getActiveSession()) is not None:
        yield active
        return
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**_DEFAULTS, **(options or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
