"""Many instances, in child processes that can be ended: a method that hangs or dies costs its own run, no other.

Records go to ``DIR/PROBLEM.jsonl``, one line an instance; what is there already is not run again.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds beyond the time limit after which a silent run counts as hung: the machine may be busy."""
WARMING = 600.0
"""Seconds for a child to import and compile."""
REFRESH = 1500
"""Instances after which a child makes way for a new one: what leaks has an end."""


def serve(pipe: Connection, problem: str, seed: int) -> None:
    """The child: solve what the parent names, and tell of every run before it begins."""
    from hostile.solving import Instance, code_of

    pipe.send(("ready", code_of(problem)))
    while True:
        index, first = pipe.recv()
        instance = Instance.numbered(problem, seed, index)
        pipe.send(("plan", (instance.spec, instance.runs)))
        for run in instance.runs[first:]:
            pipe.send(("verdict", instance.run(run)))


class Child:
    """A child process and what it is doing."""

    def __init__(self, problem: str, seed: int) -> None:
        context = mp.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, problem, seed), daemon=True)
        self.process.start()
        theirs.close()
        self.served = 0
        self.code = self.hear(WARMING)
        if self.code is None:
            raise RuntimeError(f"a child for {problem} does not come up")

    def hear(self, seconds: float) -> Any:
        """What it says next; None where it stays silent for so long, or dies."""
        try:
            return self.pipe.recv()[1] or True if self.pipe.poll(seconds) else None
        except (EOFError, ConnectionError):
            return None

    def end(self) -> None:
        """End it, this one alone."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Lane:
    """The instances of one problem, one after the other."""

    def __init__(self, problem: str, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self.child: Child | None = None

    def close(self) -> None:
        """End the child."""
        if self.child is not None:
            self.child.end()
        self.child = None

    def _ask(self, index: int, first: int) -> tuple[Child, Any]:
        if self.child is not None and self.child.served >= REFRESH:
            self.close()
        self.child = self.child or Child(self.problem, self.seed)
        self.child.served += 1
        self.child.pipe.send((index, first))
        return self.child, self.child.hear(PATIENCE)

    def solve(self, index: int) -> dict[str, Any]:
        """All runs of one instance; after a hang or a crash the next child goes on with the next method."""
        verdicts: list[dict[str, Any]] = []
        while True:
            child, plan = self._ask(index, len(verdicts))
            if plan is None:
                raise RuntimeError(f"{self.problem} {self.seed}/{index}: the oracle itself hangs or dies")
            spec, runs = plan
            while len(verdicts) < len(runs):
                run = runs[len(verdicts)]
                verdict = child.hear(2 * run["limit"] + PATIENCE)  # twice: what was late is run again
                if verdict is None:
                    verdicts.append(self._lost(run, child))
                    break
                verdicts.append(verdict)
            else:
                break
            if len(verdicts) == len(runs):
                break
        from hostile.solving import record

        return record(spec, self.seed, index, child.code, runs, verdicts)

    def _lost(self, run: dict[str, Any], child: Child) -> dict[str, Any]:
        kind = "hang" if child.process.is_alive() else "crash"
        child.process.join(0 if kind == "hang" else 5)
        said = f"silent {PATIENCE:g} s after its limit" if kind == "hang" else f"exit code {child.process.exitcode}"
        self.close()
        return {"method": run["method"], "status": kind, "found": [(kind, said)]}


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file of records; a last one that was cut short is dropped."""
    if not path.is_file():
        return
    with path.open("r+", encoding="utf-8") as file:
        good = 0
        while line := file.readline():
            if not line.endswith("\n"):
                file.seek(good)
                file.truncate()
                return
            good = file.tell()
            yield json.loads(line)


def forget(path: Path, wrong: Callable[[dict[str, Any]], bool]) -> int:
    """Take the records that went wrong off a file, so that they are run again; returns how many."""
    every = list(records(path))
    kept = [r for r in every if not wrong(r)]
    beside = path.with_suffix(".new")
    beside.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept), encoding="utf-8")
    beside.replace(path)
    return len(every) - len(kept)


def run(
    out: Path, problems: Iterable[str], seed: int, count: int, *, until: float | None = None,
    tell: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Solve instances 0..count-1 of every problem that are not on file yet, a stretch of each in turn."""
    out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + until if until is not None else None
    waiting: dict[str, list[int]] = {}
    for problem in problems:
        known = {r["index"] for r in records(out / f"{problem}.jsonl") if r["seed"] == seed}
        waiting[problem] = [i for i in range(count) if i not in known]
    stretch = 1000
    while any(waiting.values()):
        for problem, left in waiting.items():
            todo, waiting[problem] = left[:stretch], left[stretch:]
            if todo and not _stretch(out / f"{problem}.jsonl", problem, seed, todo, ends):
                return
            if todo:
                tell(f"{problem}: {len(waiting[problem])} to go")


def _stretch(path: Path, problem: str, seed: int, indices: list[int], ends: float | None) -> bool:
    """Some instances of one problem, each on file as soon as it is solved; False when time is up."""
    lane = Lane(problem, seed)
    try:
        with path.open("a", encoding="utf-8") as file:
            for index in indices:
                if ends is not None and time.monotonic() > ends:
                    return False
                file.write(json.dumps(lane.solve(index), ensure_ascii=False) + "\n")
                file.flush()
    finally:
        lane.close()
    return True
