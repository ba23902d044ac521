"""Certificates of problems with rules: true by the rules' names, and no change of their forms makes anything false proven."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest
from hostile import forgery
from rules.drawn import best_of, keeps
from rules.test_rules import PROBLEMS, drawn

import keyshift as ks
from keyshift.certificates import verify


def certified(kind, seed):
    """An answer under rules, its certificate, and the truth about it; None where there is nothing to certify."""
    plain, problem = drawn(kind, seed)
    if getattr(problem, "several", False):
        return None
    answer = ks.solve(problem, time_limit=5)
    try:
        return problem, ks.certify(answer, time_limit=5), best_of(problem, plain)
    except ks.InputError:  # no proof, no assignment; or only by the rounding of floats
        return None


def true_by_names(kind, seeds, enough=None):
    records = []
    for seed in seeds:
        if len(records) == enough:
            break
        if (made := certified(kind, seed)) is None:
            continue
        problem, c, best = made
        assert (c.value is None) == (best is None), (kind, seed)
        if c.value is not None:
            assert float(c.value) == pytest.approx(best, rel=1e-8, abs=1e-8), (kind, seed)
            assert all(keeps(rule, problem.workload, c.record["assignment"]) for rule in problem.rules), (kind, seed)
            assert c.bound <= Fraction(best) + Fraction(1, 10**8) * (1 + Fraction(best)), (kind, seed)
        assert (verify.verified(c.record) if c.proven != "nothing" else "") or not c.complete
        records += [c.record] if c.proven != "nothing" and c.record["instance"].get("rules") else []
    return records


def none_is_false(records, rng, changes):
    """How many false claims were refused; none is accepted."""
    seen = Counter()
    for record in records:
        parts = [p for p in forgery.places(record) if p[:2] == ("instance", "rules")]
        for path in rng.sample(parts, min(changes, len(parts))):
            changed = forgery.forged(record, rng, path)
            try:
                accepted = bool(verify.verified(changed))
            except (verify.Refused, *verify.DAMAGED):
                accepted = False
            try:
                false = forgery.is_false(changed)
            except forgery.Undecided:
                continue
            seen[false] += 1
            assert not (false and accepted), (path, changed)
    return seen


@pytest.mark.parametrize("kind", PROBLEMS)
def test_certificates_hold_under_rules_and_no_forged_form_is_believed(kind):
    records = true_by_names(kind, range(4000, 4012), enough=2)
    assert records
    assert none_is_false(records, random.Random(3), 12)[True]


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROBLEMS)
def test_certificates_hold_under_rules_often(kind):
    records = true_by_names(kind, range(5000, 5060))
    assert none_is_false(records, random.Random(4), 200)[True] > 100


def test_the_checker_holds_every_form():
    w = ks.Workload(load=[3, 2, 1], state=[1, 1, 1], current=[0, 0, 1], nodes=2)
    rules = ["together 1,2", "never 0 1", "count at_least=1 at_most=2", "moves 1"]
    problem = ks.KeyGroupAllocation(w, rules=rules)
    c = ks.certify(ks.solve(problem))
    assert c.complete
    assert c.record["assignment"] == [0, 1, 1]
    for broken in ([0, 0, 1], [1, 0, 0], [0, 0, 0]):
        c.record["assignment"] = broken
        with pytest.raises(verify.Refused):
            verify.verified(c.record)
    c.record["assignment"] = [0, 1, 1]
    c.record["instance"]["rules"]["budgets"][0]["most"] = 0
    with pytest.raises(verify.Refused, match="more moves than a rule allows"):
        verify.verified(c.record)
