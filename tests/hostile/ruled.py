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
    n = e.node_number(made["workload"])
    if rng.random() < 0.5:  # numbers that are other nodes' positions, or texts
        made["workload"]["node_names"] = rng.sample(
            [*range(2 * n), *(f"0{i}" for i in range(n)), "1_2", "[::1]:7001"], n
        )
    keys, nodes = _names(made["workload"])
    made["options"]["rules"] = [_rule(rng, keys, nodes) for _ in range(rng.randint(1, 4))]
    return made


def _names(w: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """What key groups and nodes are called: their names, or where they have none their positions."""
    keys, nodes = w.get("keys"), w.get("node_names")
    return list(range(len(w["current"])) if keys is None else keys), list(
        range(e.node_number(w)) if nodes is None else nodes
    )


def _rule(rng: random.Random, keys: list[Any], nodes: list[Any]) -> dict[str, Any]:
    return rng.choice(_draws(rng, keys, nodes))


def _draws(rng: random.Random, keys: list[Any], nodes: list[Any]) -> list[dict[str, Any]]:
    """A draw of each rule there is."""
    p = len(keys)
    few, some = (
        [names[at] for at in sorted(rng.sample(range(len(names)), rng.randint(1, len(names))))]
        for names in (keys, nodes)
    )
    return [
        {"rule": "pinned", "key_groups": few[:2]},
        {"rule": "only", "key_groups": few[:3], "nodes": some},
        {"rule": "never", "key_groups": few, "nodes": some[:1]},
        {"rule": "together", "key_groups": few[:3]},
        {"rule": "apart", "key_groups": few[:3]},
        {"rule": "near", "nodes": some, "at_least": rng.randint(0, 2), "key_groups": few},
        {"rule": "count", "at_most": rng.randint(0, p), "nodes": some},
        {"rule": "moves", "at_most": rng.randint(0, 2), "key_groups": few, "out_of": some},
        {"rule": "use", "resource": "state", "at_most": rng.choice([0.0, 1.0, 1e9, 1e13])},
        {"rule": "spread", "key_groups": few, "at_least": rng.randint(0, 1), "at_most": rng.randint(1, p)},
        {"rule": "even", "key_groups": few, "slack": rng.randint(0, 2)},
    ]


def known(truth: e.Truth, spec: dict[str, Any]) -> e.Truth:
    """The truth, under the instance's rules too."""
    if not (rules := spec["options"].get("rules")):
        return truth
    without, w = truth.broken, spec["workload"]
    n, kept = e.node_number(w), e.kept_nodes(w)
    kept += range(n, getattr(truth, "after", 0) + n - len(kept))  # least movement may name new nodes

    def broken(a: e.Assignment, slack: Fraction) -> str | None:
        first = without(a, slack)
        return first or next((rule["rule"] for rule in rules if not _keeps(rule, a, w, kept, slack)), None)

    truth.broken = broken  # type: ignore[method-assign]
    return truth


def _keeps(rule: dict[str, Any], a: e.Assignment, w: dict[str, Any], kept: list[int], slack: Fraction) -> bool:
    """Whether an assignment keeps a rule, as it is documented."""
    key_at, node_at = ({str(name): at for at, name in enumerate(names)} for names in _names(w))
    ids = [key_at[str(name)] for name in rule.get("key_groups", _names(w)[0])]
    nodes, out_of = ([node_at[str(name)] for name in rule.get(field, ())] for field in ("nodes", "out_of"))
    current, held = w["current"], Counter(a[k] for k in ids)
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
        case "spread":
            return max(held.values()) <= rule["at_most"] and all(held[i] >= rule["at_least"] for i in kept)
        case "even":
            return all(abs(held[i] - Fraction(len(ids), len(kept))) < 1 + rule["slack"] for i in kept)
        case "moves":
            return sum(a[k] != current[k] and current[k] in out_of for k in ids) <= rule["at_most"]
    state: Counter[int] = Counter()
    for k, s in enumerate(e.fractions(w["state"])):
        state[a[k]] += s
    return all(x <= Fraction(rule["at_most"]) * (1 + slack) for x in state.values())
