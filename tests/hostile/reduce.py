"""Make a failing instance small: fewer key groups, fewer options, rounder numbers, as long as it fails alike."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from hostile.solving import Instance

Spec = dict[str, Any]


def reduced(spec: Spec, run: dict[str, Any], kind: str, seconds: float = 20.0) -> Spec:
    """A smaller instance on which the same run fails in the same class; the given one where none is found."""
    ends = time.monotonic() + seconds

    def fails(candidate: Spec) -> bool:
        try:
            verdict = Instance(candidate, [run]).run(run)
        except Exception:  # no instance any more: the problem, or the truth, refuses it
            return False
        return any(found == kind for found, _ in verdict["found"])

    return _smaller(spec, fails, ends)


def _smaller(spec: Spec, fails: Callable[[Spec], bool], ends: float) -> Spec:
    again = True
    while again:
        again = False
        for candidate in _steps(spec):
            if time.monotonic() > ends:
                return spec
            if candidate != spec and fails(candidate):
                spec, again = candidate, True
                break
    return spec


def _steps(spec: Spec) -> Iterator[Spec]:
    """What might be left out or made rounder, the largest steps first."""
    yield from _fewer(spec)
    for name in [*spec["options"]]:
        if name not in ("tau", "nodes_after", "node_counts", "lower", "upper", "stream", "workers", "transitions"):
            made = copy.deepcopy(spec)
            del made["options"][name]
            yield made
    for name in ("draining", "keys", "resources"):
        if spec.get("workload", {}).get(name) is not None:
            made = copy.deepcopy(spec)
            del made["workload"][name]
            yield made
    for path, value in _figures(spec):
        for rounder in (0.0, 1.0, float(f"{value:.0e}"), float(round(value))):
            if rounder != value and len(repr(rounder)) <= len(repr(value)):
                made = copy.deepcopy(spec)
                _put(made, path, rounder)
                yield made


def _fewer(spec: Spec) -> Iterator[Spec]:
    """One key group, or one message, less."""
    w, o = spec.get("workload"), spec["options"]
    for k in range(len(w["current"]) if w else len(o["stream"])):
        made = copy.deepcopy(spec)
        if w is None:
            for name in ("stream", "weights"):
                if made["options"].get(name) is not None:
                    del made["options"][name][k]
        else:
            _without(made["workload"], k)
            for row in made["options"].get("scenarios") or []:
                del row[k]
        yield made


def _without(w: dict[str, Any], k: int) -> None:
    lists = [w[name] for name in ("state", "current", "home", "keys") if w.get(name) is not None]
    lists += (w.get("resources") or {}).values()
    matrices = w.get("traffic") or []
    for matrix in matrices if matrices and isinstance(matrices[0][0], list) else [matrices]:
        lists += [matrix, *matrix] if matrix else []
    lists += w["load"] if isinstance(w["load"][0], list) else [w["load"]]
    for values in lists:
        del values[k]


def _figures(spec: Spec) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Every float of an instance, and where it stands."""

    def walk(part: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], float]]:
        if isinstance(part, float):
            yield path, part
        elif isinstance(part, dict | list):
            for at, inner in part.items() if isinstance(part, dict) else enumerate(part):
                yield from walk(inner, (*path, at))

    yield from walk({k: v for k, v in spec.items() if k != "problem"}, ())


def _put(spec: Spec, path: tuple[Any, ...], value: float) -> None:
    part: Any = spec
    for at in path[:-1]:
        part = part[at]
    part[path[-1]] = value


def code(spec: Spec, run: dict[str, Any]) -> str:
    """The instance as a line of Python for a reader to paste."""
    classes = {
        "key-group-allocation": "KeyGroupAllocation", "collocated-allocation": "CollocatedAllocation", "mclb": "MCLB",
        "movement-within-limits": "MovementWithinLimits", "key-splitting": "KeySplitting",
        "key-placement": "KeyPlacement", "mixed-routing": "MixedRouting", "interval-migration": "IntervalMigration",
        "migration-sequence": "MigrationSequence", "migration-policy": "MigrationPolicy",
    }  # fmt: skip
    o = dict(spec["options"])
    if "transitions" in o:
        o["transitions"] = {n: dict(map(tuple, row)) for n, row in o["transitions"]}
    given = [f"{k}={v!r}" for k, v in o.items()]
    if "workload" in spec:
        inner = ", ".join(f"{k}={v!r}" for k, v in spec["workload"].items() if v is not None)
        given = [f"ks.Workload({inner})", *given]
    more = "".join(f", {k}={v!r}" for k, v in run["options"].items())
    limit = "" if run["limit"] == 10.0 else f", time_limit={run['limit']}"
    return f'ks.solve(ks.{classes[spec["problem"]]}({", ".join(given)}), "{run["method"]}"{limit}{more})'
