"""Build sdist and wheel twice, byte for byte alike; install the wheel in an empty environment, and run what the README prints.

``python .ci/dist.py OUT`` in a checkout whose changes are committed: only what git knows gets into the sdist, and the commit's time is the time of every file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).parents[1]


def run(*line: str | Path, cwd: Path = HERE, **changed: str) -> str:
    """Run a line, and return what it prints."""
    done = subprocess.run(
        [str(word) for word in line],
        cwd=cwd,
        env={**os.environ, **changed},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def built(folder: Path, time: int) -> list[Path]:
    """Both files, from the commit alone."""
    source, made = folder / "source", folder / "dist"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=HERE, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(source, filter="data")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", made, source, SOURCE_DATE_EPOCH=str(time))
    (sdist,), (wheel,) = made.glob("*.tar.gz"), made.glob("*.whl")
    settle(sdist, time)
    return [sdist, wheel]


def settle(sdist: Path, time: int) -> None:
    """Pack it anew: files in order, of nobody, at one time; setuptools writes down when and by whom it was run."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname, member.pax_headers = (
                time,
                0,
                0,
                "",
                "",
                {},
            )
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    sdist.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=time))


def tried(wheel: Path, folder: Path) -> None:
    """The README's block, a certificate and its check, in an environment with nothing but the wheel."""
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    run(binaries / "python", "-m", "pip", "install", "--quiet", "--constraint", HERE / "constraints.txt", wheel)
    readme = (HERE / "README.md").read_text()
    code, said = re.findall(r"^```(?:python|text)\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[:2]
    (folder / "readme.py").write_text(code + '\nassert ks.certify(s, "c.json").complete\n')
    seconds = re.compile(r"\d+\.\d+ s\)")
    printed = run(binaries / "python", "-I", "readme.py", cwd=folder)
    if seconds.sub("T", printed) != seconds.sub("T", said):
        sys.exit(f"the README's block prints\n{printed}instead of\n{said}")
    print(run(binaries / "keyshift", "verify", "c.json", cwd=folder), end="")


def main(out: Path) -> None:
    """Build, compare, look inside, try."""
    time = int(run("git", "log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as name:
        once, again = (built(Path(name, place), time) for place in ("once", "again"))
        for one, other in zip(once, again, strict=True):
            if one.read_bytes() != other.read_bytes():
                sys.exit(f"{one.name} is not the same twice")
        inside = zipfile.ZipFile(once[1]).namelist()
        if strangers := [file for file in inside if not re.match(r"keyshift(-[\d.]+\.dist-info)?/", file)]:
            sys.exit(f"the wheel has files outside the package: {strangers[:5]}")
        tried(once[1], Path(name))
        out.mkdir(parents=True, exist_ok=True)
        for file in once:
            (out / file.name).write_bytes(file.read_bytes())
            print(hashlib.sha256(file.read_bytes()).hexdigest(), file.name, f"{file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
