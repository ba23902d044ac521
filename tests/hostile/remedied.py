"""Remedies, typed in as they are printed: the truth must find an answer there, and none just before a proven one."""

from __future__ import annotations

import copy
import random
import re
import time
import traceback
from typing import Any

import keyshift as ks

LIMITS = (
    "max_migrations", "max_migration_cost", "max_state_moved", "max_load_distance", "upper", "lower", "theta_max",
    "max_table_size", "tau", "choices",
)  # fmt: skip
PRINTED = re.compile(r": (\S+) is enough")
SECONDS = 2.0


def asked(problem: str, seed: int, index: int) -> bool:
    """Whether remedies are asked about an instance; few have none."""
    return random.Random(f"{seed}/{problem}/{index}/remedies").random() < 0.3


def run(problem: Any, spec: dict[str, Any], truth_of: Any, seed: int) -> dict[str, Any]:
    """The verdict on all remedies of an instance."""
    began, found = time.perf_counter(), []
    made: dict[str, Any] = {"method": "remedies", "status": "none", "found": found}
    try:
        remedies = ks.remedies(problem, time_limit=SECONDS, seed=seed)
    except ks.InputError as error:
        made["status"], said = "refused", str(error)[:300]
        found.append(("refused", said))
    except Exception as error:
        said = traceback.format_exc().strip().splitlines()
        made["status"] = "traceback"
        found.append(("traceback", f"{type(error).__name__}: {error}"[:300]))
        made["at"] = [line.strip() for line in said if 'File "' in line][-1][-120:]
    else:
        made["status"] = "feasible" if remedies else "optimal"
        found += [wrong for remedy in remedies for wrong in _judged(remedy, spec, truth_of)]
    made["seconds"] = round(time.perf_counter() - began, 4)
    return made


def _judged(remedy: Any, spec: dict[str, Any], truth_of: Any) -> list[tuple[str, str]]:
    """What is wrong with a remedy of a plain limit, or of a resource's capacities."""
    name, _, resource = remedy.limit.partition(".")
    if remedy.beside:
        other, _, value = remedy.beside.partition(" = ")
        spec = _at(spec, other, "", int(value))
    if remedy.drops or (name not in LIMITS and name != "resource_capacity"):
        return []
    if remedy.value is None:
        if not remedy.proven or name == "resource_capacity":
            return []
        ends = {"lower": 0.0}.get(name, 1e30 if isinstance(remedy.now, float) and name not in COUNTED else 10**6)
        if name in ("choices", "upper"):
            return []
        truth = truth_of(_at(spec, name, resource, ends))
        return [("false remedy", f"{remedy}: yet {truth.example} keeps all else")] if truth.strict is not None else []
    printed = PRINTED.search(str(remedy))
    assert printed is not None, str(remedy)
    typed = printed.group(1)
    found = []
    if truth_of(_at(spec, name, resource, _number(name, typed))).loose is None:
        found.append(("false remedy", f"{remedy}: typed in, there is no answer"))
    if remedy.proven and (before := _before(name, remedy)) is not None:
        truth = truth_of(_at(spec, name, resource, before))
        if truth.strict is not None:
            found.append(("false remedy", f"{remedy}: {before!r} is enough, by {truth.example}"))
    return found


COUNTED = ("max_migrations", "max_table_size", "choices")


def _number(name: str, typed: str) -> Any:
    return int(typed) if name in COUNTED else typed if name == "tau" else float(typed)


def _before(name: str, remedy: Any) -> Any:
    """A little less of a change than a proven remedy: one less, or a hundred-thousandth."""
    if name in COUNTED:
        return int(remedy.value) - 1 if remedy.value - 1 >= max(remedy.now, 0) else None
    if remedy.value == remedy.now:
        return None
    nearer = remedy.value + (remedy.now - remedy.value) * 1e-4
    if abs(nearer - remedy.value) < 1e-5 * abs(remedy.value):
        nearer = remedy.value * (1 + 1e-5) if remedy.down else remedy.value * (1 - 1e-5)
        if (nearer - remedy.now) * (remedy.value - remedy.now) <= 0:
            return None
    return str(nearer) if name == "tau" else nearer


def _at(spec: dict[str, Any], name: str, resource: str, value: Any) -> dict[str, Any]:
    """The instance with a limit of another value."""
    made = copy.deepcopy(spec)
    if name == "resource_capacity":
        rooms = made["options"][name]
        room = rooms[resource]
        rooms[resource] = [x * value for x in room] if isinstance(room, list) else room * value
    else:
        made["options"][name] = value
    return made
