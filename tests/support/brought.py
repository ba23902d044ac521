"""What slow tests bring along: jars of Maven Central, and an environment with another PySpark. Both stay in the cache of pytest."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".pytest_cache" / "brought"
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>brought</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""


def jars(*coordinates: str, without: tuple[str, ...] = (), alone: bool = False) -> list[Path]:
    """The jars of "group:name:version" each, with all that they need, less the groups of `without`; or `alone`."""
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not installed")
    asked = "\n".join(("", str(alone), *coordinates, *without))
    folder = CACHE / hashlib.sha256(asked.encode()).hexdigest()[:16]
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        left_out = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>"
            for group in (("*",) if alone else without)
        )
        wanted = ""
        for group, name, version in (named.split(":") for named in coordinates):
            wanted += (
                f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
            )
            wanted += f"<exclusions>{left_out}</exclusions></dependency>"
        (folder / "pom.xml").write_text(POM.format(wanted))
        copied = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        subprocess.run(["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), *copied], check=True, timeout=1500)
        (folder / "ready").touch()
    return sorted(folder.glob("*.jar"))


def python_with(*packages: str) -> Path:
    """The Python of an environment that has these packages, and of everything else what this one has."""
    folder = CACHE / hashlib.sha256("\n".join((sys.version, *sys.path, *packages)).encode()).hexdigest()[:16]
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=300)
        here = [path for path in sys.path if path.endswith("site-packages")]
        (own,) = folder.glob("lib/python*/site-packages")
        (own / "behind.pth").write_text(f"import site; list(map(site.addsitedir, {here!r}))\n")
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True, timeout=1500)
        (folder / "ready").touch()
    return python


def environment() -> dict[str, str]:
    """Variables for another Python: without those that a session of this process has set."""
    names = ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_HOME", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in names}
