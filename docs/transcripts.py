"""Transcripts that stand in the source of a page: run them again, and write or compare what was said.

``python docs/transcripts.py --write`` (``make transcripts``) runs every block of ``console`` of the pages below, page by
page in a folder of its own, and puts what comes out under each line. Without ``--write`` it only says which pages no
longer hold. Seconds are not compared, nor how wide they make a table. What stands between ``<!-- generated: NAME WORDS -->``
and ``<!-- end -->`` is written by a function of that name, given the words.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import transcript_folders as folders

DOCS = Path(__file__).parent
README = "../README.md"
PAGES: dict[str, Callable[[], contextlib.AbstractContextManager[object] | None]] = {
    README: lambda: None,
    "benchmarks/allocation.md": lambda: None,
    "start.md": lambda: None,
    "shell.md": lambda: None,
    "log-to-plan.md": folders.clicks,
    "engines/kafka.md": folders.cluster,
    "engines/storm.md": folders.topology,
    "engines/index.md": folders.redis_cluster,
    **{f"problems/{page.name}": partial(folders.written_in, page) for page in sorted((DOCS / "problems").glob("*.md"))},
}
"""The pages, and what lies in the folder - or runs beside it - before the first line of each."""
WITH_SPARK = ("log-to-plan.md",)
WITH_REDIS = ("engines/index.md",)
BLOCK = re.compile(
    r"^(?P<fence>`{3,})(?P<kind>console|python transcript)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
GENERATED = re.compile(r"^<!-- generated: (\w+)( [\w -]+)? -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
COLUMNS = "120"


def masked(text: str) -> list[str]:
    """The lines without seconds, and without the spaces and rules that make a table as wide as they are."""
    text = re.sub(r"\b\d+\.\d\d(?= s\b|[ │)]*$)", "T", text, flags=re.MULTILINE)
    text = re.sub(r"^(seconds +)\S+$", "T", text, flags=re.MULTILINE)
    lines = (re.sub(r"\s+", " ", re.sub(r"[\u2500-\u257f-]{2,}", "-", line)).strip() for line in text.splitlines())
    return [line for line in lines if line not in ("", "-")]


def commands(block: str) -> Iterator[str]:
    """The lines of a block that begin with a prompt, with what continues them."""
    joined = re.sub(r"\\\n", "\\\\\n", block)
    for found in re.finditer(r"^\$ ((?:.*\\\n)*.*)$", joined, re.MULTILINE):
        yield found[1]


class Shell:
    """Runs the lines of a page one after another: keyshift in this process, everything else by the shell."""

    def __init__(self) -> None:
        self.code = 0

    def says(self, line: str) -> str:
        """The output of a line, its one sentence of error included."""
        plain = line.replace("\\\n", " ")
        if plain == "echo $?":
            code, self.code = self.code, 0
            return f"{code}\n"
        if self.code != 0:
            raise SystemExit(f"before `{line}` something failed: show its code by `echo $?`, or mend it")
        if not plain.startswith("keyshift "):
            done = subprocess.run(["bash", "-c", plain], capture_output=True, text=True, check=False)
            self.code = done.returncode
            return (done.stdout + done.stderr).rstrip("\n") + "\n"
        words, _, target = plain.partition(" > ")
        said = self._keyshift(shlex.split(words)[1:])
        if target:
            Path(target.strip()).write_text(said)
            return ""
        return said

    def _keyshift(self, words: list[str]) -> str:
        from keyshift.cli import main

        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            self.code = main(words)
        heard = [line for line in errors.getvalue().splitlines() if line.startswith("keyshift:")]
        return "\n".join([*(line.rstrip() for line in output.getvalue().splitlines()), *heard]).strip("\n") + "\n"


def rerun(page: str) -> str:
    """The page as it would read now."""
    text, shell, here = (DOCS / page).read_text(), Shell(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        os.chdir(folder)
        stack.callback(os.chdir, here)
        if (beside := PAGES[page]()) is not None:
            stack.enter_context(beside)

        def again(found: re.Match[str]) -> str:
            if found["kind"] == "console":
                said = "".join(f"$ {line}\n{shell.says(line)}" for line in commands(found["text"]))
                return f"{found['fence']}console\n{said}{found['fence']}"
            exec(compile(found["text"], page, "exec"), {})  # what a reader is told to run before the next line
            return found[0]

        text = text if page == README else BLOCK.sub(again, text)  # its lines install, and run in tests
    return GENERATED.sub(
        lambda f: (
            f"<!-- generated: {f[1]}{f[2] or ''} -->\n{getattr(folders, f[1])(*(f[2] or '').split())}\n<!-- end -->"
        ),
        text,
    )


def main(arguments: list[str]) -> int:
    """Write the pages, or say which no longer hold."""
    write, asked = "--write" in arguments, [a for a in arguments if a != "--write"]
    os.environ["COLUMNS"] = COLUMNS
    wrong = []
    for page in asked or PAGES:
        if page in WITH_REDIS and shutil.which("redis-server") is None:
            print(f"{page} needs redis-server: left as it is")
            continue
        now, was = rerun(page), (DOCS / page).read_text()
        if masked(now) == masked(was):
            continue
        wrong.append(page)
        if write:
            (DOCS / page).write_text(now)
        print(f"{page}: {'written anew' if write else 'no longer true; `make transcripts` writes it anew'}")
    return int(bool(wrong) and not write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
