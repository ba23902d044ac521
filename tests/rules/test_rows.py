"""The rows that annealed searches keep in step, against the forms themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rule_rows import rule_rows
from rules.drawn import RARE
from rules.test_rules import PROBLEMS, drawn

from keyshift.models import Budget, Workload
from keyshift.models.routing import MixedRouting
from keyshift.models.routing.compact import Choices
from keyshift.models.rules.lowered import MoveBudget
from keyshift.models.rules.ruled import MergedItems
from keyshift.rules import Moves, Together
from keyshift.solvers.routing.statement import by_cpsat, by_highs
from keyshift.solvers.rows import giving_way, row_at, shift, sum_rows


def ruled(kind, seed):
    plain, problem = drawn(kind, 9000 + seed)
    rng = np.random.default_rng(seed)
    return replace(problem, rules=[*problem.rules, *(rare(rng, plain.workload) for rare in RARE)])


@pytest.mark.parametrize("kind", PROBLEMS)
def test_rows_stay_those_of_the_assignment_and_are_full_where_the_forms_are(kind):
    for seed in range(25):
        problem = ruled(kind, seed)
        low, rng = replace(problem.lowered, merged=()), np.random.default_rng(seed)
        rows = rule_rows(low, problem.places)
        place = rng.integers(0, problem.places, low.current.size)
        place = np.where(rng.random(place.size) < 0.5, low.current, place)
        held, fresh = np.zeros(rows.most.size), np.zeros(rows.most.size)
        total, _ = sum_rows(held, place, rows)
        for _ in range(15):
            k, target = int(rng.integers(place.size)), int(rng.integers(problem.places))
            total += shift(held, k, int(place[k]), target, rows)[0]
            place[k] = target
            assert total == pytest.approx(sum_rows(fresh, place, rows)[0], abs=1e-9)
            np.testing.assert_allclose(held, fresh, atol=1e-9)
            elsewhere = (
                low.closed is not None and (low.closed[np.arange(place.size), place] & (place != low.current)).any()
            )
            if not elsewhere:  # to which no search goes
                assert (total > 1e-9) == (low.excess(place) > 0)


def test_who_makes_room_is_in_the_row_and_goes_where_the_other_comes_from():
    rng = np.array([12345], dtype=np.uint64)
    back, asked = 0, 0
    for seed in range(60):
        problem = ruled("allocation", 500 + seed)
        low = replace(problem.lowered, merged=())
        rows, draws = rule_rows(low, problem.places), np.random.default_rng(seed)
        place = draws.integers(0, problem.places, low.current.size)
        held = np.zeros(rows.most.size)
        sum_rows(held, place, rows)
        for _ in range(20):
            k, target = int(draws.integers(place.size)), int(draws.integers(problem.places))
            other, to = giving_way(rng, k, target, held, place, rows)
            if other < 0:
                continue
            full = {
                (f, row_at(f, k, target, rows))
                for f in range(len(rows.kind))
                if k in rows.members[rows.begins[f] : rows.begins[f + 1]]
            }
            those = [f for f, row in full if row >= 0 and row_at(f, other, int(place[other]), rows) == row]
            assert other != k
            assert those
            if all(rows.moves[f] for f in those):
                assert to == low.current[other]
            elif not any(rows.moves[f] for f in those):
                asked += 1
                back += to == place[k]
    assert asked > 50
    assert back > 0.6 * asked


def test_items_expand_to_where_their_members_go():
    for seed in range(40):
        problem = drawn("collocation", seed)[1]
        items, rng = MergedItems.of(problem.lowered), np.random.default_rng(seed)
        nodes = rng.integers(0, problem.places, items.current.size)
        made = items.expanded(nodes)
        assert all(np.unique(made[one]).size == 1 for one in problem.lowered.merged)
        assert (items.contracted(made) == nodes).all()


@pytest.mark.parametrize("kind", ["allocation", "mclb"])
def test_items_pay_for_what_their_members_do_also_where_these_are_apart_today(kind):
    apart = less = 0
    for seed in range(60):
        plain, problem = drawn(kind, 500 + seed)
        w, rng = plain.workload, np.random.default_rng(seed)
        few = rng.permutation(w.key_groups)[: int(rng.integers(2, 5))].tolist()
        into = rng.permutation(w.nodes)[:2].tolist()
        rules = [*problem.rules, Together(few), Moves(2), Moves(1, into=into), Moves(1, out_of=[0], into=into)]
        low = replace(plain, rules=rules).lowered
        items = MergedItems.of(low)
        extra = [(w.state, float(w.state.sum()) / 2)]
        made = items.forms(np.ones((w.key_groups, w.nodes), dtype=bool), extra)
        budgets = [
            *low.budgets,
            MoveBudget(np.arange(w.key_groups), w.state, np.ones(w.nodes, dtype=bool), extra[0][1]),
        ]
        rows = rule_rows(replace(made, closed=None, rooms=()), w.nodes)
        apart += int(items.apart.any())
        for _ in range(10):
            nodes = rng.integers(0, w.nodes, items.current.size)
            for own, one in zip(budgets, made.budgets, strict=True):
                left = own.most - own.spent(items.expanded(nodes), low.current)
                assert one.most - one.spent(nodes, made.current) == pytest.approx(left)
                less += int(one.less is not None)
            broken = sum_rows(np.zeros(rows.most.size), nodes, rows)[0] > 1e-6
            assert broken == any(one.excess(nodes, made.current) > 1e-6 for one in made.budgets)
    assert apart > 20
    assert less > 100


@pytest.mark.parametrize("solver", [by_highs, by_cpsat])
def test_what_is_fixed_against_a_rule_is_infeasible_and_nothing_worse(solver):
    w = Workload(load=[3, 2, 1, 1], state=[1, 1, 1, 1], current=[0, 0, 1, 1], home=[0, 0, 1, 1], nodes=2)
    problem = MixedRouting(w, 1.0, rules=["pinned 0", "apart key_groups=1,2", "moves 1"])
    whole = Choices.all(problem)
    open_to = np.array([[False, True], [True, True], [True, True], [True, True]])  # key 0 is fixed elsewhere
    fixed = Choices.of(problem, whole.keys, *np.nonzero(open_to))
    assert solver(fixed, Budget(10), None, np.inf).termination == "infeasible"
    open_to[0] = [True, False]
    found = solver(Choices.of(problem, whole.keys, *np.nonzero(open_to)), Budget(10), None, np.inf)
    assert found.assignment.tolist() == [0, 0, 1, 1]
