"""What rules cost, and which of them must give: `explain` and `remedies` against brute force that knows rules by name."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from rules.drawn import best_of, keeps
from rules.test_rules import PROBLEMS, drawn

import keyshift as ks


def kept_by(rules, w, places):
    return [place for place in places if all(keeps(rule, w, place) for rule in rules)]


def held(rule, w, place):
    """What a domain uses at most, by name."""
    use = w.last_load if rule.resource == "load" else w.resources[rule.resource]
    label = list(range(w.nodes)) if rule.domain == "node" else list(w.domains[rule.domain])
    return max(sum(use[k] for k in range(w.key_groups) if label[place[k]] == d) for d in set(label))


def truth(limit, problem, places):
    """The least value of a limit of rules that leaves an assignment, None where none does."""
    w = problem.workload
    if limit.drops:
        return 0 if kept_by(limit.at(0).rules, w, places) else None
    if not limit.whole:  # of a Use
        place = next(p for p, rule in enumerate(problem.rules) if limit.name.endswith(str(rule)))
        others = kept_by([rule for other, rule in enumerate(problem.rules) if other != place], w, places)
        return min((held(problem.rules[place], w, one) for one in others), default=None)
    steps = range(limit.value, limit.ends - 1, -1) if limit.down else range(limit.value, limit.ends + 1)
    return next((value for value in steps if kept_by(limit.at(value).rules, w, places)), None)


def against_brute_force(kind, seed):
    """Whether the instance was one without any answer."""
    plain, problem = drawn(kind, seed)
    w = problem.workload
    places = [one for one in product(range(problem.places), repeat=w.key_groups) if plain.check(one).feasible]
    if kept_by(problem.rules, w, places):
        return False
    found = {remedy.limit: remedy for remedy in ks.remedies(problem, time_limit=60)}
    for limit in problem.limits:
        if not any(str(rule) in limit.name for rule in problem.rules):
            continue
        remedy, least = found[limit.name], truth(limit, problem, places)
        said = f"{kind} {seed} {[str(rule) for rule in problem.rules]}: {remedy!r} for {least}"
        assert remedy.proven, said
        if least is None:
            assert remedy.value is None, said
        else:
            assert remedy.value == pytest.approx(least, rel=3e-6, abs=1e-9), said
            assert kept_by(limit.at(remedy.value).rules, w, [remedy.solution.assignment.tolist()]), said
            assert ("there is an answer" if limit.drops else "enough") in str(remedy)
    return True


@pytest.mark.parametrize("kind", PROBLEMS)
def test_remedies_of_rules_are_those_of_brute_force(kind):
    first = 5005 if kind == "mclb" else 5000  # what its seeds before it ask takes ten times as long
    assert any(against_brute_force(kind, seed) for seed in range(first, 6000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROBLEMS)
def test_remedies_of_two_hundred_instances(kind):
    assert sum(against_brute_force(kind, seed) for seed in range(6000, 6160)) >= 40


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("least", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_the_price_of_a_rule_is_what_the_best_answer_without_it_gains(kind, least):
    """Of so many rules, and of one at least that costs something."""
    seen, looked_at = 0, 0
    first = 7003 if kind == "collocation" and least == 1 else 7000  # the first that tells takes three times as long
    for seed in range(first, 7000 + 100):
        if looked_at >= least and seen:
            break
        plain, problem = drawn(kind, seed)
        best = best_of(problem, plain)
        if best is None:
            continue
        answer = ks.solve(problem, gap=0, time_limit=20)
        explained = ks.explain(problem, answer, gap=0)
        for limit in problem.limits:
            if not limit.drops:
                continue
            price = next(m for m in explained.marginals if m.drops and m.limit == limit.name)
            less = best - best_of(limit.at(0), plain)
            tie = problem.tolerance_of(best) * 2 + 1e-9 * problem.scale
            assert price.at_least <= less + tie, (kind, seed, limit.name)
            assert price.at_most >= less - tie, (kind, seed, limit.name)
            assert abs(price.at_least - less) <= tie, (kind, seed, limit.name)
            seen += less > tie
            looked_at += 1
    assert seen


def test_many_rules_are_looked_at_together():
    w = ks.Workload(load=np.arange(30.0), state=np.ones(30), current=np.arange(30) % 3, nodes=3)
    problem = ks.KeyGroupAllocation(w, rules=[f"pinned {k}" for k in range(30)])
    whole = [limit for limit in problem.limits if limit.drops]
    assert len(whole) == 21
    assert whole[-1].name == "the other 10 rules"
    assert len(whole[-1].at(0).rules) == 20
    assert whole[-1].at(1).rules == problem.rules


def test_prices_and_remedies_are_said_in_words():
    w = ks.Workload(
        load=[5, 5, 1, 1], state=[1, 1, 1, 1], current=[0, 0, 1, 1], nodes=2, groups={"topic": ["a", "a", "b", "b"]}
    )
    explained = ks.explain(ks.KeyGroupAllocation(w, rules=["together topic=a", "count 3"]), gap=0)
    assert "Together(key_groups={'topic': 'a'}) costs 4" in str(explained)
    assert "Count(at_most=3) costs nothing" in str(explained)
    found = ks.remedies(ks.KeyGroupAllocation(w, rules=["together topic=a", "count 1"]))
    assert [str(remedy) for remedy in found] == [
        "at_most of Count(at_most=1) (now 1): 2 is enough, and no smaller change is",
        "without Together(key_groups={'topic': 'a'}): still no answer",
        "without Count(at_most=1): there is an answer",
        "nodes (now 2): no number up to 22 is enough",
    ]


def test_how_much_slack_of_an_even_share_is_enough():
    w = ks.Workload(
        load=[1] * 6, state=[1] * 6, current=[0, 0, 0, 0, 1, 2], nodes=3, groups={"topic": ["a"] * 5 + ["b"]}
    )
    problem = ks.KeyGroupAllocation(w, max_migrations=1, rules=["even topic"])
    found = {str(remedy.limit): remedy for remedy in ks.remedies(problem)}
    slack = found["slack of Even(by='topic')"]
    assert slack.value == 1
    assert slack.proven
    assert ks.check(problem, slack.solution.assignment).violations
