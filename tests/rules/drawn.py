"""Random rules on tiny instances, and an oracle that knows the rules by their names alone."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np

import keyshift as ks
from keyshift import rules

RACKS = ("r1", "r2")


def workload(rng, *, windows=1, traffic=False, home=False):
    p, n = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    load = rng.integers(0, 9, (windows, p)).astype(float) + (rng.random() < 0.5) * rng.random((windows, p))
    made = {
        "state": rng.integers(0, 5, p) + (rng.random() < 0.3) * rng.random(p),
        "resources": {"disk": rng.integers(0, 6, p) * 1.0},
        "groups": {"topic": rng.choice(["a", "b"], p).tolist(), "partition": rng.integers(0, 3, p).tolist()},
        "domains": {"rack": rng.choice(RACKS, n).tolist()},
    }
    if traffic:
        made["traffic"] = np.triu(rng.integers(0, 5, (p, p)) * (rng.random((p, p)) < 0.5), 1)
    if home:
        made["home"] = rng.integers(0, n, p)
    draining = np.arange(n) == (n - 1 if rng.random() < 0.2 else -1)
    return ks.Workload(load=load, current=rng.integers(0, n, p), nodes=n, draining=draining, **made)


def some(rng, size):
    """Some numbers below a size, one at least."""
    return sorted(rng.choice(size, int(rng.integers(1, size + 1)), replace=False).tolist())


def draw_rule(rng, w):
    p, n, racks = w.key_groups, w.nodes, sorted(set(w.domains["rack"]))
    domain = str(rng.choice(["node", "rack"]))
    few = some(rng, p)[: int(rng.integers(1, 4))]
    topic = {"topic": str(rng.choice(sorted(set(w.groups["topic"]))))}
    return [
        lambda: rules.Pinned(few),
        lambda: rules.Only(few, some(rng, n)),
        lambda: rules.Never(topic, {"rack": str(rng.choice(racks))}) if rng.random() < 0.3 else rules.Never(few, some(rng, n)[:1]),
        lambda: rules.Together(few) if rng.random() < 0.7 else rules.Together(by="partition"),
        lambda: rules.Apart(few, domain) if rng.random() < 0.6 else rules.Apart(by="partition", domain=domain),
        lambda: rules.Spread(topic, domain, at_least=int(rng.integers(0, 2)), at_most=int(rng.integers(1, 5))),
        lambda: rules.Count(int(rng.integers(1, p + 1)), int(rng.integers(0, 2))),
        lambda: rules.Count(at_most=int(rng.integers(0, 4)), nodes=some(rng, n)),
        lambda: rules.Use("disk", float(rng.integers(4, 20)), domain),
        lambda: rules.Use("load", {str(rng.choice(racks)): float(rng.integers(5, 30))}, "rack"),
        lambda: rules.Moves(int(rng.integers(0, 4))),
        lambda: rules.Moves(int(rng.integers(0, 2)), topic, out_of=some(rng, n), into=some(rng, n)),
    ][int(rng.integers(12))]()  # fmt: skip


def draw_near(rng, w):
    near = some(rng, w.nodes) if rng.random() < 0.5 else {"rack": str(rng.choice(sorted(set(w.domains["rack"]))))}
    return rules.Near(near, [None, "topic", "partition"][int(rng.integers(3))], int(rng.integers(0, 3)))


def draw_even(rng, w):
    return rules.Even(
        [None, "topic", "partition"][int(rng.integers(3))], str(rng.choice(["node", "rack"])), int(rng.integers(0, 3))
    )


RARE = (draw_near, draw_even)
"""Rules that are drawn beside those of `draw_rule`."""


def members(w, chosen):
    """The key groups that a selection means; as `keyshift.rules` documents it."""
    if chosen is None:
        return list(range(w.key_groups))
    if isinstance(chosen, dict):
        return [k for k in range(w.key_groups) if all(w.groups[c][k] == v for c, v in chosen.items())]
    return [chosen] if isinstance(chosen, int) else list(chosen)


def hosts(w, chosen):
    """The nodes that a selection means."""
    if chosen is None:
        return list(range(w.nodes))
    if isinstance(chosen, dict):
        return [i for i in range(w.nodes) if all(w.domains[c][i] == v for c, v in chosen.items())]
    return [chosen] if isinstance(chosen, int) else list(chosen)


def keeps(rule, w, place):
    """Whether an assignment keeps a rule, from its documentation alone."""
    ids = members(w, getattr(rule, "key_groups", None))
    by = getattr(rule, "by", None)
    sets = [ids] if by is None else [[k for k in ids if w.groups[by][k] == v] for v in set(w.groups[by])]
    domain = getattr(rule, "domain", "node")
    label = list(range(w.nodes)) if domain == "node" else list(w.domains[domain])
    live = {label[i] for i in range(w.nodes) if not w.draining[i]}
    now = w.current.tolist()
    if rule.name == "pinned":
        return all(place[k] == now[k] for k in ids)
    if rule.name == "only":
        return all(place[k] in hosts(w, rule.nodes) for k in ids)
    if rule.name == "never":
        return not any(place[k] in hosts(w, rule.nodes) for k in ids)
    if rule.name == "together":
        return all(len({place[k] for k in one}) <= 1 for one in sets)
    if rule.name == "apart":
        return all(len({label[place[k]] for k in one}) == len(one) for one in sets)
    if rule.name == "spread":
        held = [Counter(label[place[k]] for k in one) for one in sets]
        most = len(ids) if rule.at_most is None else rule.at_most
        return all(c[d] <= most for c in held for d in c) and all(
            c[d] >= (rule.at_least or 0) for c in held for d in live
        )
    if rule.name == "near":
        return all(sum(place[k] in hosts(w, rule.nodes) for k in one) >= rule.at_least for one in sets)
    if rule.name == "even":
        alive = Counter(label[i] for i in range(w.nodes) if not w.draining[i])
        share = {d: nodes / sum(alive.values()) for d, nodes in alive.items()}
        held = [(len(one), Counter(label[place[k]] for k in one)) for one in sets]
        return all(abs(c[d] - size * part) < 1 + rule.slack - 1e-9 for size, c in held for d, part in share.items())
    if rule.name == "count":
        held = Counter(place)
        most = len(place) if rule.at_most is None else rule.at_most
        spared = {i for i in range(w.nodes) if rule.nodes is None and w.draining[i]}
        return all(held[i] <= most and (held[i] >= (rule.at_least or 0) or i in spared) for i in hosts(w, rule.nodes))
    if rule.name == "use":
        use = w.last_load if rule.resource == "load" else w.resources[rule.resource]
        limits = rule.at_most if isinstance(rule.at_most, dict) else dict.fromkeys(label, rule.at_most)
        return all(sum(use[k] for k in ids if label[place[k]] == d) <= m * (1 + 1e-9) for d, m in limits.items())
    out, into = hosts(w, rule.out_of), hosts(w, rule.into)
    return sum(place[k] != now[k] and now[k] in out and place[k] in into for k in ids) <= rule.at_most


def those_that_keep(problem, plain):
    """All assignments that keep the rules by name, and the limits of the same problem without rules, whose check is trusted."""
    w = problem.workload
    for place in product(range(problem.places), repeat=w.key_groups):
        if all(keeps(rule, w, place) for rule in problem.rules):
            report = plain.check(place)
            if report.feasible:
                yield np.array(place), report.objective


def best_of(problem, plain):
    """The least objective over all assignments that keep the rules, None where there is none."""
    return min((value for _, value in those_that_keep(problem, plain)), default=None)


def best_rank(problem, plain):
    """The least values of the priorities, one after another."""
    return min((plain.rank(place) for place, _ in those_that_keep(problem, plain)), default=None)
