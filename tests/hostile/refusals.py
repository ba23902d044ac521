"""Malformed files and command lines: each has to end in exit code 2 with one sentence, soon and in little memory.

A case makes its files in a folder of its own and names a command line, or a function of the library where no command
reads the file. `judge` runs it in this process and says what became of it; ``python -m hostile.refusals`` runs them all.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing as mp
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

SECONDS, BYTES = 2.0, 2**30
"""Processor time of a case, and memory of a process that runs them one after the other."""
HUNG = 60
"""Seconds by the clock after which a case is given up."""

Expect = str
"""refused: exit code 2. refused or harmless: or the same content as before. anything said: any code, but no traceback."""


@dataclass(frozen=True)
class Case:
    """One malformed input.

    Attributes
    ----------
    kind : str
        Its class, for the table.
    name : str
        What is wrong with it; with the kind, unique.
    make : callable
        Gets an empty folder, in which it makes the files; returns the command line, or a function to call.
    expect : str
    same : callable, optional
        For "refused or harmless": raises unless what is read is what was written.
    costly : bool
        Takes a second to make: left out of samples where its class has others.
    """

    kind: str
    name: str
    make: Callable[[Path], list[str] | Callable[[], Any]]
    expect: Expect = "refused"
    same: Callable[[Path], None] | None = None
    costly: bool = False


@dataclass
class Verdict:
    """What became of a case: fine, or what was wrong."""

    case: Case
    outcome: str
    said: str
    seconds: float
    wrong: list[str] = field(default_factory=list)


class Hang(BaseException):
    """Raised by the alarm; nothing catches it but `judge`."""


def _ring(signum: int, frame: object) -> None:
    raise Hang


def judge(case: Case, *, timed: bool = True) -> Verdict:
    """Run a case in a folder of its own.

    Parameters
    ----------
    case : Case
    timed : bool, default True
        Whether more than `SECONDS` is wrong; tests leave it out.
    """
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    out, err = io.StringIO(), io.StringIO()
    before, peak = Path.cwd(), _peak()
    alarm = signal.signal(signal.SIGALRM, _ring)
    try:
        todo = case.make(folder)
        os.chdir(folder)
        signal.alarm(HUNG)
        began = time.process_time()  # of this process alone: a busy machine makes nothing malformed
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            outcome, said = _run(todo)
        seconds = time.process_time() - began
        signal.alarm(0)
        wrong = _wrong(case, outcome, said or err.getvalue(), folder)
    except Hang:
        outcome, said, seconds, wrong = "hang", "", float(HUNG), ["hang"]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, alarm)
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
    if timed and seconds > SECONDS and "hang" not in wrong:
        wrong.append("slow")
    if _peak() > max(BYTES, peak):  # what this process needed before is not the case's
        wrong.append("memory")
    return Verdict(case, outcome, (said or err.getvalue()).strip(), seconds, wrong)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _run(todo: list[str] | Callable[[], Any]) -> tuple[str, str]:
    from keyshift.cli import main
    from keyshift.models import InputError

    try:
        if isinstance(todo, list):
            return str(main(todo)), ""
        todo()
    except InputError as error:
        return "2", f"keyshift: {error}"
    except Exception:
        return "traceback", traceback.format_exc()
    return "0", ""


def _wrong(case: Case, outcome: str, said: str, folder: Path) -> list[str]:
    if outcome in ("traceback", "3"):
        return ["traceback"]
    if outcome == "2":
        lines = said.strip().splitlines()
        return (
            []
            if len(lines) == 1 and lines[0].startswith("keyshift: ") and 12 < len(lines[0]) < 700
            else ["no sentence"]
        )
    if case.expect == "refused":
        return ["accepted"]
    if case.same is not None:
        try:
            case.same(folder)
        except AssertionError:
            return ["another content"]
    return []


def judged(numbers: list[int], count: int | None, seed: int, chosen: list[Case]) -> Iterator[Verdict]:
    """The verdicts of a child process; where a case ends the child, another one goes on with the next."""
    context = mp.get_context("spawn")
    left = list(numbers)
    while left:
        mine, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_serve, args=(theirs, left, count, seed))
        child.start()
        theirs.close()
        try:
            while left:
                outcome, said, seconds, wrong = mine.recv()
                yield Verdict(chosen[left.pop(0)], outcome, said, seconds, wrong)
        except EOFError:
            child.join()
            yield Verdict(chosen[left.pop(0)], "died", f"the process ended with {child.exitcode}", 0.0, ["died"])
        child.join()


def _serve(pipe: Any, numbers: list[int], count: int | None, seed: int) -> None:
    os.environ["KEYSHIFT_TRACEBACK"] = "1"
    chosen = list(cases()) if count is None else sample(count, seed)
    judge(Case("", "what compiles, before the clock", _good_stream))
    for number in numbers:
        verdict = judge(chosen[number])
        pipe.send((verdict.outcome, verdict.said, verdict.seconds, verdict.wrong))


def _good_stream(folder: Path) -> list[str]:
    (folder / "s.txt").write_text("a\nb\n")
    return ["solve", "s.txt", "-p", "key-splitting", "-m", "hash"]


@cache
def cases() -> tuple[Case, ...]:
    """Every case there is, in a fixed order."""
    from hostile import command_lines, engines, files, more_files

    return (*files.cases(), *more_files.cases(), *engines.cases(), *command_lines.cases())


def sample(count: int, seed: int) -> list[Case]:
    """Some of them, of every class at least one."""
    rng = random.Random(seed)
    everything = list(cases())
    rng.shuffle(everything)
    everything.sort(key=lambda case: case.costly)
    first = {case.kind: case for case in reversed(everything)}
    rest = [case for case in everything if first[case.kind] is not case]
    return [*first.values(), *rest][: max(count, len(first))]


def table(verdicts: Iterable[Verdict]) -> str:
    """How many of each class, and what was wrong."""
    rows: dict[str, Counter[str]] = {}
    longest: dict[str, float] = {}
    for v in verdicts:
        row = rows.setdefault(v.case.kind, Counter())
        row.update(["cases", "refused" if v.outcome == "2" else "harmless" if not v.wrong else "", *v.wrong])
        longest[v.case.kind] = max(longest.get(v.case.kind, 0.0), v.seconds)
    kinds = ("traceback", "accepted", "another content", "no sentence", "hang", "died", "slow", "memory")
    heads = ("cases", "refused", "harmless", *kinds)
    lines = [f"{'class':<44}" + "".join(f"{h:>10.10}" for h in heads) + f"{'longest s':>10}"]
    for kind, row in [*sorted(rows.items()), ("all", sum(rows.values(), Counter()))]:
        slowest = longest.get(kind, max(longest.values(), default=0.0))
        lines.append(f"{kind:<44.44}" + "".join(f"{row[h]:>10}" for h in heads) + f"{slowest:>10.2f}")
    return "\n".join(lines)


def _keep(out: Path, v: Verdict) -> None:
    """Write a verdict down as soon as it is there: a run that is ended goes on where it was."""
    out.mkdir(parents=True, exist_ok=True)
    row = {"kind": v.case.kind, "name": v.case.name, "outcome": v.outcome, "wrong": v.wrong, "said": v.said,
           "seconds": round(v.seconds, 3)}  # fmt: skip
    with (out / "refusals.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def _known(out: Path | None, chosen: list[Case], numbers: list[int]) -> Iterator[Verdict]:
    """The verdicts of earlier runs into the same folder."""
    if out is None or not (out / "refusals.jsonl").exists():
        return
    ours = {(chosen[n].kind, chosen[n].name): chosen[n] for n in numbers}
    for line in (out / "refusals.jsonl").read_text().splitlines():
        row = json.loads(line)
        case = ours.pop((row["kind"], row["name"]), None)
        if case is not None:
            yield Verdict(case, row["outcome"], row["said"], row["seconds"], row["wrong"])


def main(arguments: list[str] | None = None) -> int:
    """Run all cases, or some; exit code 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="hostile.refusals", description=__doc__)
    parser.add_argument("--count", type=int, help="a sample of this many; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help="only classes that contain this text")
    parser.add_argument("--out", type=Path, help="a folder for the table and what was said; goes on there")
    given = parser.parse_args(arguments)
    chosen = list(cases()) if given.count is None else sample(given.count, given.seed)
    numbers = [n for n, case in enumerate(chosen) if given.kind is None or given.kind in case.kind]
    verdicts = list(_known(given.out, chosen, numbers))
    known = {(v.case.kind, v.case.name) for v in verdicts}
    numbers = [n for n in numbers if (chosen[n].kind, chosen[n].name) not in known]
    for verdict in judged(numbers, given.count, given.seed, chosen):
        verdicts.append(verdict)
        if verdict.wrong:
            print(f"{verdict.case.kind}: {verdict.case.name}: {verdict.wrong} {verdict.said[-600:]}", flush=True)
        if given.out is not None:
            _keep(given.out, verdict)
    made = table(verdicts)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{made}\npeak memory of a process that ran them one after the other: {peak:,.0f} MiB")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "refusals.txt").write_text(made + "\n")
    return int(any(v.wrong for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
