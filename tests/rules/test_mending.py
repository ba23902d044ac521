"""Rules that are broken today, as the first priority and by `repair`: repaired as far as the limits allow, none gets worse."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from draws import rest_slow
from rules.drawn import draw_rule, hosts, members, workload

import keyshift as ks
from keyshift import rules

OWN = {"allocation": "load_distance", "collocation": "remote_traffic", "routing": "state_moved"}


def drawn(kind, seed):
    """A problem without rules, and random ones, at least one of which is broken now where that comes soon."""
    rng = np.random.default_rng([sum(map(ord, kind)), seed])
    w = workload(rng, traffic=kind == "collocation", home=kind == "routing")
    few = {} if rng.random() < 0.3 else {"max_migrations": int(rng.integers(0, 4))}
    if kind == "allocation" and rng.random() < 0.3:
        few["max_migration_cost"] = float(rng.integers(1, 9))
    plain = {
        "allocation": lambda: ks.KeyGroupAllocation(w, **few),
        "collocation": lambda: ks.CollocatedAllocation(w, max_load_distance=[None, 150.0][int(rng.integers(2))], **few),
        "routing": lambda: ks.MixedRouting(w, float(rng.choice([0.5, 2.0]))),
    }[kind]()
    for _ in range(20):
        chosen = [draw_rule(rng, w) for _ in range(int(rng.integers(1, 5)))]
        if amounts(chosen, w, w.current)[0]:
            break
    return plain, chosen


def amounts(chosen, w, place):
    """What a placement breaks by the rules' names: in all, and by what must not get worse; whom rules keep together."""
    place, parts, closed, joined = [int(i) for i in place], {}, set(), []
    for number, rule in enumerate(chosen):
        ids, by, name = members(w, getattr(rule, "key_groups", None)), getattr(rule, "by", None), rule.name
        sets = [ids] if by is None else [[k for k in ids if w.groups[by][k] == v] for v in sorted(set(w.groups[by]))]
        domain = getattr(rule, "domain", "node")
        label = list(range(w.nodes)) if domain == "node" else list(w.domains[domain])
        if name == "together":
            joined += [set(one) for one in sets if len(one) > 1]
        if name in ("pinned", "only", "never"):
            for k in ids:
                named = [int(w.current[k])] if name == "pinned" else hosts(w, rule.nodes)
                closed |= {(k, i) for i in range(w.nodes) if (i in named) == (name == "never")}
        for s, one in enumerate(sets):
            held = Counter(label[place[k]] for k in one)
            for d in sorted(set(label), key=str):
                if name == "apart":
                    parts[number, s, d] = max(0, held[d] - 1)
                if name == "spread":
                    live = any(label[i] == d and not w.draining[i] for i in range(w.nodes))
                    least, most = rule.at_least or 0, len(one) if rule.at_most is None else rule.at_most
                    parts[number, s, d, "most"] = max(
                        0, held[d] - most
                    )  # a least and a most are two things to get worse
                    parts[number, s, d, "least"] = max(0, least - held[d] if live else 0)
                if name == "use":
                    use = w.last_load if rule.resource == "load" else w.resources[rule.resource]
                    most = rule.at_most.get(str(d), np.inf) if isinstance(rule.at_most, dict) else rule.at_most
                    total = sum(use[k] for k in one if label[place[k]] == d)
                    over = total - most if total > most * (1 + 1e-9) else 0.0
                    parts[number, s, d] = over / (max(use) or 1.0)
        if name == "count":
            held = Counter(place)
            for i in hosts(w, rule.nodes):
                spared = rule.nodes is None and w.draining[i]
                most = w.key_groups if rule.at_most is None else rule.at_most
                parts[number, i, "most"] = max(0, held[i] - most)
                parts[number, i, "least"] = max(0, 0 if spared else (rule.at_least or 0) - held[i])
    joined = groups_of(joined)
    for one in joined:
        closed |= {(k, i) for k in one for other in one for i in range(w.nodes) if (other, i) in closed}
    apart = sum(len(one) - max(Counter(place[k] for k in one).values()) for one in joined)
    shut = {(k, i) for k, i in enumerate(place) if (k, i) in closed}
    return sum(parts.values()) + apart + len(shut), parts, shut, joined


def groups_of(sets):
    """Sets that share a member are one."""
    found = []
    for one in sets:
        meeting = [other for other in found if other & one]
        found = [other for other in found if not other & one] + [one.union(*meeting)]
    return found


def no_worse(chosen, w, place):
    """Whether nothing that is broken today is broken more, and the moves that rules allow are kept."""
    _, now, shut_now, joined = amounts(chosen, w, w.current)
    _, then, shut, _ = amounts(chosen, w, place)
    together = all(
        place[k] == place[other] for one in joined for k in one for other in one if w.current[k] == w.current[other]
    )
    moves = all(
        sum(
            place[k] != w.current[k] and w.current[k] in hosts(w, rule.out_of) and place[k] in hosts(w, rule.into)
            for k in members(w, rule.key_groups)
        )
        <= rule.at_most
        for rule in chosen
        if rule.name == "moves"
    )
    return together and moves and shut <= shut_now and all(then[at] <= now[at] + 1e-9 for at in then)


def best_mended(plain, chosen):
    """The least that rules are broken by, and the least objective then."""
    best = best_repaired(plain, chosen, lambda place: 0.0)
    return None if best is None else best[1:]


def best_repaired(plain, chosen, over):
    """The least that a limit is exceeded by, the least that rules are broken by then, and the least objective then."""
    w, best = plain.workload, None
    for place in product(range(w.nodes), repeat=w.key_groups):
        if no_worse(chosen, w, place):
            report = plain.check(place)
            if report.feasible:
                rank = (over(place), round(amounts(chosen, w, place)[0], 9), report.objective)
                best = rank if best is None or rank < best else best
    return best


def against_oracle(kind, seed, methods=None):
    plain, chosen = drawn(kind, seed)
    problem = replace(plain, rules=chosen, priorities=("broken_rules", OWN[kind]))
    best = best_mended(plain, chosen)
    for method in ks.methods(problem):
        if method.kind == "relaxation" or (methods is not None and method.name not in methods):
            continue
        answer = ks.solve(problem, method.name, time_limit=10)
        said = f"{kind} {seed} {method.name} {[str(rule) for rule in chosen]}: {answer} {answer.priorities} for {best}"
        if best is None:
            assert answer.assignment is None, said
            continue
        for stage, value in zip(answer.priorities, best, strict=False):
            assert stage.bound is None or stage.bound <= value + problem.tie(stage.measure, value) or stage.given, said
        if answer.assignment is not None:
            broken = amounts(chosen, problem.workload, answer.assignment)[0]
            assert no_worse(chosen, problem.workload, answer.assignment), said
            assert problem.measured("broken_rules", answer.assignment) == pytest.approx(broken), said
            assert (broken, answer.metrics[OWN[kind]]) >= (best[0] - 1e-6, 0.0), said
        if method.kind == "exact":
            assert answer.assignment is not None, said
            assert broken == pytest.approx(best[0], abs=2e-6), said
            assert answer.metrics[OWN[kind]] == pytest.approx(best[1], rel=1e-6, abs=1e-6), said


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("seed", rest_slow(1, range(2)))
def test_broken_rules_are_mended_first_as_far_as_limits_allow(kind, seed):
    against_oracle(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OWN)
def test_broken_rules_are_mended_on_three_hundred_instances(kind):
    for seed in range(100, 200):
        against_oracle(kind, seed)


def repaired_like_the_best(kind, seed):
    plain, chosen = drawn(kind, seed)
    problem = replace(plain, rules=chosen)
    best = best_mended(plain, chosen)
    answer = ks.repair(problem, time_limit=20)
    if kind == "routing":  # the imbalance first: it need not be within theta_max, but it grows no further
        now = max(plain.theta_max, plain.theta(plain.workload.current))

        def over(place):
            return round(max(0.0, plain.theta(np.array(place)) - plain.theta_max), 9)

        least, *best = best_repaired(replace(plain, theta_max=now), chosen, over)
        assert over(answer.assignment) == pytest.approx(least, abs=1e-6), (kind, seed)
    assert (answer.assignment is None) == (best is None), (kind, seed)
    if best is not None:
        assert no_worse(chosen, problem.workload, answer.assignment), (kind, seed)
        assert amounts(chosen, problem.workload, answer.assignment)[0] == pytest.approx(best[0], abs=2e-6), (kind, seed)
        assert answer.metrics[OWN[kind]] == pytest.approx(best[1], rel=1e-6, abs=1e-6), (kind, seed)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("allocation", 2), ("allocation", 6), ("collocation", 2), ("collocation", 12), ("routing", 20)],
)
def test_repair_mends_rules_as_far_as_limits_allow(kind, seed):
    repaired_like_the_best(kind, seed)


def replicas(size):
    """Partitions of two replicas, some of which share a rack now."""
    rng = np.random.default_rng(size)
    load = np.repeat(rng.integers(1, 20, size).astype(float), 2)
    groups = {"partition": [f"p{k // 2}" for k in range(2 * size)]}
    current = rng.integers(0, 12, 2 * size)
    return ks.Workload(
        load=load,
        state=load,
        current=current,
        nodes=12,
        groups=groups,
        domains={"rack": [f"r{i % 3}" for i in range(12)]},
    )


@pytest.mark.slow
def test_a_large_placement_is_mended_as_far_as_migrations_allow():
    w = replicas(100)
    rule = rules.Apart(by="partition", domain="rack")
    now = len(rule.violations(ks.KeyGroupAllocation(w), w.current))
    answer = ks.solve(
        ks.KeyGroupAllocation(w, max_migrations=10, rules=[rule], priorities=("broken_rules", "load_distance")),
        time_limit=2,
    )
    assert now > 10
    assert answer.priorities[0].value == now - 10
    every = ks.solve(
        ks.KeyGroupAllocation(w, max_migrations=80, rules=[rule], priorities=("broken_rules", "load_distance")),
        time_limit=2,
    )
    assert every.priorities[0].value == 0
    assert every.priorities[0].proven
    assert every.metrics["load_distance"] < answer.metrics["load_distance"]


def test_broken_rules_come_first_or_not_at_all():
    w = replicas(3)
    with pytest.raises(ks.InputError, match="broken_rules must come first"):
        ks.KeyGroupAllocation(w, priorities=("migrations", "broken_rules"))
    with pytest.raises(ks.InputError, match="mclb has no parameter 'priorities'"):
        ks.MCLB.from_path("nowhere", priorities="broken_rules")
