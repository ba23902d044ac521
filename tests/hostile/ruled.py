"""Rules on hostile instances, and the truth about them by the rules' names alone."""

from __future__ import annotations

import copy
import random
from collections import Counter
from fractions import Fraction
from typing import Any

from hostile import exact as e

TAKE_RULES = ("key-group-allocation", "collocated-allocation", "movement-within-limits", "mclb", "mixed-routing")


def added(spec: dict[str, Any], seed: int, index: int, share: float = 0.2) -> dict[str, Any]:
    """The instance, now and then with one to four rules; drawn by a generator of its own, so that the rest stays as it was."""
    rng = random.Random(f"{seed}/{spec['problem']}/{index}/rules")
    if spec["problem"] not in TAKE_RULES or rng.random() >= share:
        return spec
    made = copy.deepcopy(spec)
    p, n = len(made["workload"]["current"]), e.node_number(made["workload"])
    made["options"]["rules"] = [_rule(rng, p, n) for _ in range(rng.randint(1, 4))]
    return made


def _rule(rng: random.Random, p: int, n: int) -> dict[str, Any]:
    few, some = (sorted(rng.sample(range(size), rng.randint(1, size))) for size in (p, n))
    return rng.choice(
        [
            {"rule": "pinned", "key_groups": few[:2]},
            {"rule": "only", "key_groups": few[:3], "nodes": some},
            {"rule": "never", "key_groups": few, "nodes": some[:1]},
            {"rule": "together", "key_groups": few[:3]},
            {"rule": "apart", "key_groups": few[:3]},
            {"rule": "near", "nodes": some, "at_least": rng.randint(0, 2), "key_groups": few},
            {"rule": "count", "at_most": rng.randint(0, p), "nodes": some},
            {"rule": "moves", "at_most": rng.randint(0, 2), "key_groups": few, "out_of": some},
            {"rule": "use", "resource": "state", "at_most": rng.choice([0.0, 1.0, 1e9, 1e13])},
        ]
    )


def known(truth: e.Truth, spec: dict[str, Any]) -> e.Truth:
    """The truth, under the instance's rules too."""
    if not (rules := spec["options"].get("rules")):
        return truth
    without, w = truth.broken, spec["workload"]

    def broken(a: e.Assignment, slack: Fraction) -> str | None:
        first = without(a, slack)
        return first or next((rule["rule"] for rule in rules if not _keeps(rule, a, w, slack)), None)

    truth.broken = broken  # type: ignore[method-assign]
    return truth


def _keeps(rule: dict[str, Any], a: e.Assignment, w: dict[str, Any], slack: Fraction) -> bool:
    """Whether an assignment keeps a rule, as it is documented."""
    ids, nodes, current = rule.get("key_groups", range(len(a))), rule.get("nodes"), w["current"]
    match rule["rule"]:
        case "pinned":
            return all(a[k] == current[k] for k in ids)
        case "only":
            return all(a[k] in nodes for k in ids)
        case "never":
            return not any(a[k] in nodes for k in ids)
        case "together":
            return len({a[k] for k in ids}) < 2
        case "apart":
            return len({a[k] for k in ids}) == len(ids)
        case "near":
            return sum(a[k] in nodes for k in ids) >= rule["at_least"]
        case "count":
            return all(Counter(a)[i] <= rule["at_most"] for i in nodes)
        case "moves":
            return sum(a[k] != current[k] and current[k] in rule["out_of"] for k in ids) <= rule["at_most"]
    held: Counter[int] = Counter()
    for k, s in enumerate(e.fractions(w["state"])):
        held[a[k]] += s
    return all(x <= Fraction(rule["at_most"]) * (1 + slack) for x in held.values())
