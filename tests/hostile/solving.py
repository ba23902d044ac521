"""One instance through every method that applies, each with options drawn by the instance's own seed."""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import keyshift as ks
from hostile import drained, remedied, ruled, tuned
from hostile.judge import judge
from keyshift.catalogue import FORMULATIONS

_FILES = [file for file in Path(__file__).parent.glob("*.py") if "\nNAME = " in file.read_text()]
_BY_NAME: dict[str, ModuleType] = {m.NAME: m for m in (import_module(f"hostile.{file.stem}") for file in _FILES)}
MODULES = {name: _BY_NAME[name] for name in FORMULATIONS if name in _BY_NAME}
"""What draws the instances of each problem: a module that has its `NAME` and `draw`."""
LIMIT = 10.0
SHORT_LIMITS = (0.0, 0.01, 0.1, 0.5)
Verdict = dict[str, Any]


def spec_of(problem: str, seed: int, index: int) -> dict[str, Any]:
    """The instance of that number, as plain data: the same on every machine."""
    spec = MODULES[problem].draw(random.Random(f"{seed}/{problem}/{index}"))
    plain: dict[str, Any] = json.loads(json.dumps(spec))  # what a record holds is what was solved
    return plain


def plan_of(spec: dict[str, Any], seed: int, index: int) -> list[dict[str, Any]]:
    """What is run on an instance: every method, with its options, limit and seed."""
    module = MODULES[spec["problem"]]
    runs = []
    for method in FORMULATIONS[spec["problem"]].methods:
        if spec["options"].get("rules") and not method.rules:
            continue
        rng = random.Random(f"{seed}/{spec['problem']}/{index}/{method.name}")
        pool = {k: v for k, v in module.OPTIONS.get(method.name, {}).items() if k in method.options}
        options = {k: rng.choice(v) for k, v in pool.items() if rng.random() < 0.3} if rng.random() < 0.4 else {}
        limit = rng.choice(SHORT_LIMITS) if rng.random() < 0.08 else LIMIT
        run = {"method": method.name, "options": options, "limit": limit, "seed": rng.randrange(4)}
        if method.takes_start and rng.random() < 0.3:
            run["start"] = rng.choice(("example", "first", "poorest"))
        apart = random.Random(f"{seed}/{spec['problem']}/{index}/{method.name}/settings")
        if apart.random() < 0.1:
            run["settings"] = tuned.drawn(apart)
        runs.append(run)
    if remedied.asked(spec["problem"], seed, index):
        runs.append({"method": "remedies", "options": {}, "limit": remedied.SECONDS, "seed": index % 4})
    return runs


_RULES = [
    {"rule": "count", "at_most": 2, "nodes": [0]}, {"rule": "near", "nodes": [1], "at_least": 1, "key_groups": [0, 1]},
]  # fmt: skip
_STREAM = {"stream": [1, 2, 2, 3], "workers": 2, "weights": [3.0, 1.0, 2.0, 1.0]}
_MILD: dict[str, dict[str, Any]] = {
    "movement-within-limits": {"lower": 0.0, "upper": 5.0},
    "replicated-allocation": {"copies": 4},
    "key-splitting": _STREAM,
    "key-placement": _STREAM,
    "interval-migration": {"nodes_after": 3, "tau": 1},
    "migration-sequence": {"node_counts": [3, 2], "tau": 1},
    "migration-policy": {"transitions": [[2, [[3, 1.0]]], [3, [[2, 1.0]]]], "tau": 1, "discount": 0.5},
}


@cache
def _rehearse(problem: str) -> None:
    """Import and compile what the methods need, on an instance that hurts nobody, before any clock runs."""
    w = {
        "load": [3.0, 1.0, 2.0], "state": [1.0, 2.0, 3.0], "current": [0, 0, 1], "nodes": 2, "home": [0, 1, 1],
        "traffic": [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]],
    }  # fmt: skip
    options = {"max_state_moved": None} if problem == "mclb" else _MILD.get(problem, {})
    ruled_too = [{}, {"rules": _RULES}] if problem in ruled.TAKE_RULES else [{}]
    for rules in ruled_too:
        mild = MODULES[problem].build({"problem": problem, "workload": w, "options": {**options, **rules}})
        for method in ks.methods(mild):
            method.compile_ahead()
            ks.solve(mild, method.name, time_limit=5.0)


@cache
def code_of(problem: str) -> str:
    """Which code answers a problem: a short hash of the models, solvers and heuristics that its methods load."""
    _rehearse(problem)
    floors = ("keyshift.models", "keyshift.solvers", "keyshift.heuristics")
    loaded = [m for name, m in sorted(sys.modules.items()) if name.startswith(floors) and getattr(m, "__file__", None)]
    return hashlib.sha256(b"".join(Path(str(m.__file__)).read_bytes() for m in loaded)).hexdigest()[:8]


class Instance:
    """One instance: its problem, the truth about it, and its runs one by one."""

    def __init__(self, spec: dict[str, Any], runs: list[dict[str, Any]]) -> None:
        _rehearse(spec["problem"])
        self.spec, self.runs = spec, runs
        self.module = MODULES[spec["problem"]]
        self.truth = self.truth_of(spec)
        self.kinds = {m.name: m.kind for m in FORMULATIONS[spec["problem"]].methods}

    @classmethod
    def numbered(cls, problem: str, seed: int, index: int) -> Instance:
        """The instance of that number."""
        spec = ruled.added(spec_of(problem, seed, index), seed, index)
        spec = drained.added(spec, seed, index)
        return cls(spec, plan_of(spec, seed, index))

    def truth_of(self, spec: dict[str, Any]) -> Any:
        """What is true of it, or of the same with another limit."""
        truth = drained.known(ruled.known(self.module.Truth(spec), spec), spec)
        truth.find()
        return truth

    def run(self, run: dict[str, Any]) -> Verdict:
        """Solve once, twice if it was late: on a busy machine only what is late again counts."""
        verdict = self._once(run)
        if any(kind == "overrun" for kind, _ in verdict["found"]):
            verdict = self._once(run)
        return verdict

    def _once(self, run: dict[str, Any]) -> Verdict:
        made: Verdict = {"method": run["method"], "status": "none", "found": []}
        began = time.perf_counter()
        try:
            problem = self.module.build(self.spec)  # anew: nothing that one method leaves behind helps the next
            if run["method"] == "remedies":
                return remedied.run(problem, self.spec, self.truth_of, run["seed"])
            start = getattr(self.truth, run.get("start", ""), None)
            given: dict[str, Any] = {"start": list(start)} if start else {}
            given["settings"] = tuned.settings(run.get("settings", {}))
            began = time.perf_counter()
            solution = ks.solve(
                problem, run["method"], time_limit=run["limit"], seed=run["seed"], **given, **run["options"]
            )
        except ks.InputError as error:
            made |= {"status": "refused", "found": [("refused", str(error)[:300])]}
        except Exception as error:
            said = traceback.format_exc().strip().splitlines()
            made |= {"status": "traceback", "found": [("traceback", f"{type(error).__name__}: {error}"[:300])]}
            made["at"] = [line.strip() for line in said if 'File "' in line][-1][-120:]
        else:
            seconds = time.perf_counter() - began
            refuses = getattr(self.module, "beyond", None)  # sizes at which a method's docstring says it gives up
            partial = bool(self.module.PARTIAL & set(run["options"])) or bool(refuses and refuses(self.spec, run))
            partial = partial or "settings" in run
            made["status"] = solution.status
            made["found"] = judge(
                self.truth, problem, solution, self.kinds[run["method"]],
                partial=partial, limit=run["limit"], seconds=seconds,
            )  # fmt: skip
            made["found"] += drained.second(self.truth, self.spec, solution)
        made["seconds"] = round(time.perf_counter() - began, 4)
        return made


def record(
    spec: dict[str, Any], seed: int, index: int, code: str, runs: list[dict[str, Any]], verdicts: list[Verdict]
) -> dict[str, Any]:
    """What is kept of an instance: its runs' verdicts, and the instance itself where something was found."""
    kept: dict[str, Any] = {"problem": spec["problem"], "seed": seed, "index": index, "code": code, "runs": []}
    for run, verdict in zip(runs, verdicts, strict=True):
        kept["runs"].append({**verdict, "run": run} if verdict["found"] else verdict)
    if any(verdict["found"] for verdict in verdicts):
        kept["spec"] = spec
    return kept
