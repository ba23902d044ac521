"""What is printed is true: remedies that suffice, proofs that prove, numbers that differ and are seen to differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import keyshift as ks
from keyshift.models import Problem
from keyshift.models.base.figures import apart, enough, float_above
from keyshift.rules import Count, Even, Never
from keyshift.solvers import highs
from keyshift.solvers.checked import within_bounds

DATA = Path(__file__).parent / "data" / "models"


# Values that a solver hands back ----------------------------------------------------------------------------------------


def test_a_remedy_of_mixed_routing_survives_values_outside_their_bounds():
    """HiGHS 1.13 ends at its limit of nodes with 2 and -1 for two binary variables."""
    c, home = [2, 7, 7, 3, 3], [1, 1, 0, 1, 0]
    workload = ks.Workload(load=c, state=c, current=home, home=home, nodes=2)
    found = ks.remedies(ks.MixedRouting(workload, theta_max=0, max_table_size=1))
    assert [remedy.limit for remedy in found] == ["theta_max", "max_table_size", "nodes"]
    assert found[0].value == pytest.approx(1 / 11)
    assert found[0].proven


def test_values_are_held_against_their_bounds():
    assert within_bounds([2, -1], [0, 0], [1, 1], True) is None
    assert within_bounds([np.nan], [0], [1]) is None
    assert within_bounds([0.5], [0], [1], True) is None
    assert within_bounds([1 + 1e-9, -1e-9], [0, 0], [1, 1], True).tolist() == [1, 0]
    assert within_bounds([0.5, 7], [0, -np.inf], [1, np.inf], [False, True]).tolist() == [0.5, 7]


@pytest.mark.parametrize("kind", ["pyomo", "cp-sat"])
def test_values_that_are_no_solution_are_refused(kind):
    workload = ks.Workload(load=[2, 7, 7], state=[1, 2, 3], current=[1, 1, 0], home=[1, 1, 0], nodes=2)
    model = ks.model(ks.MixedRouting(workload, theta_max=0.5), kind)
    names = list(model.names())
    for values in ({names[0]: 2, names[1]: -1}, dict.fromkeys(names, float("nan"))):
        with pytest.raises(ks.InputError):
            model.assignment(values)


@pytest.mark.parametrize("kind", ["pyomo", "mathopt"])
@pytest.mark.parametrize("solver", ["glop", "pdlp"])
def test_a_solver_without_whole_variables_is_refused_in_a_sentence(kind, solver):
    problem = ks.MCLB(ks.Workload(load=[2, 7, 7, 3], state=[1, 2, 3, 4], current=[0, 1, 0, 1], nodes=2))
    with pytest.raises(ks.InputError, match=f"{solver} does not take this model: it has whole variables"):
        ks.model(problem, kind).solve(solver)


def test_the_printed_cpsat_model_has_the_limits_of_its_rows():
    """A list of OR-Tools answers 0 at the place -1: every right-hand side was 0."""
    problem = ks.KeyGroupAllocation(
        ks.Workload(load=[2, 7, 7, 3, 3], state=[1] * 5, current=[1, 1, 0, 1, 0], nodes=2), max_migrations=2
    )
    printed = ks.model(problem, "cp-sat").algebra()
    assert "<= -3" in printed
    assert "- upper <= 22" in printed
    assert "(10 of x): 0 or 1" in printed
    assert "d: whole, between 0 and 45" in printed


# Indices of many key groups ---------------------------------------------------------------------------------------------


def test_a_sequence_of_many_key_groups():
    p = 70_000
    draw = np.random.default_rng(1)
    load, state = draw.integers(1, 10, (2, p)).astype(float)
    workload = ks.Workload(load=load, state=state, current=np.arange(p) * 4 // p, nodes=4)
    solution = ks.solve(ks.MigrationSequence(workload, node_counts=[5, 3, 5, 4], tau=0.5), time_limit=20)
    assert solution.status in ("feasible", "optimal")
    assert solution.bound <= solution.objective


# Remedies, typed in ------------------------------------------------------------------------------------------------------


def typed_in(remedy):
    """The number that a remedy prints as enough."""
    return remedy.split(": ")[1].split(" is enough")[0]


def test_the_remedy_for_nine_chunks_works_when_it_is_typed_in():
    """1/17 is enough: 0.0588235, rounded to the nearest, is not."""
    problem = ks.IntervalMigration(ks.read_workload(DATA / "chunks9.json"), nodes_after=3, tau=0)
    remedy = ks.remedies(problem)[0]
    assert str(remedy) == "tau (now 0): 0.0588236 is enough, and nothing below 0.0588235 is"
    for tau in (remedy.value, typed_in(str(remedy))):
        assert ks.solve(replace(problem, tau=tau)).status == "optimal"
    assert ks.solve(replace(problem, tau="0.0588235")).status == "infeasible"


@pytest.mark.parametrize(
    ("load", "nodes"), [([1, 1, 1, 1], 3), ([2, 2, 3], 2), ([1, 6, 2, 3, 4, 1, 7, 6, 4], 4), ([5, 4, 7], 2)]
)
def test_every_tau_works_when_it_is_typed_in(load, nodes):
    problem = ks.IntervalMigration(ks.Workload(load=load, state=load, current=[0] * len(load), nodes=1), nodes, tau=0)
    remedy = ks.remedies(problem)[0]
    for tau in (remedy.value, typed_in(str(remedy))):
        assert ks.solve(replace(problem, tau=tau)).status == "optimal"


def test_limits_of_thirds_work_when_they_are_typed_in():
    """Two of three key groups have to move: 2/3 of state, which is more than 0.66666 and less than 0.66667."""
    workload = ks.Workload(load=[1, 1, 1], state=[1 / 3] * 3, current=[0, 0, 0], nodes=3)
    problem = ks.KeyGroupAllocation(workload, max_migration_cost=0.1)
    cost = next(remedy for remedy in ks.remedies(problem, target=0.0) if remedy.limit == "max_migration_cost")
    assert typed_in(str(cost)) == "0.666667"
    assert ks.solve(replace(problem, max_migration_cost=float(typed_in(str(cost))))).objective == 0


def test_numbers_are_rounded_to_the_side_on_which_they_suffice():
    assert enough(1 / 3, "up") == "0.333334"
    assert enough(100 / 3, "down") == "33.3333"
    assert enough(100 / 3, "up") == "33.3334"
    assert enough(0.1, "up") == enough(0.1, "down") == "0.1"
    assert enough(1234567.25, "up") == "1234568"
    assert enough(3.0000000001e-13, "up") == "3.00001e-13"
    draw = np.random.default_rng(0)
    for value in (10.0 ** draw.uniform(-14, 17, 400)).tolist():
        assert Fraction(enough(value, "down")) <= Fraction(repr(value)) <= Fraction(enough(value, "up"))
        assert Fraction(repr(float_above(Fraction(value) / 3))) >= Fraction(value) / 3


def test_numbers_of_a_message_that_differ_are_seen_to_differ():
    assert apart(2.0000001, 2) == ["2.0000001", "2"]
    workload = ks.Workload(load=[1e6 + 0.4, 1], state=[1, 1], current=[0, 0], nodes=2)
    problem = ks.KeyGroupAllocation(workload, resource_capacity={"load": [1e6 + 0.2, 1e6 + 0.2]})
    (conflict, *_) = problem.conflicts()
    assert "1000000.4 of load" in conflict
    assert "more than 1000000.2" in conflict


# "optimal" is a proof ----------------------------------------------------------------------------------------------------


def least_distance(load):
    """The least difference of either of two nodes from the mean, over all subsets."""
    sums = {0}
    for number in load:
        sums |= {total + number for total in sums}
    return min(abs(2 * total - sum(load)) for total in sums) / 2


def test_whole_loads_of_nine_digits_are_told_apart():
    """Least distance 438, by enumeration; within a millionth of the mean, 6,450, everything was optimal."""
    workload = ks.read_workload(DATA / "partition23.json")
    problem, best = ks.KeyGroupAllocation(workload), 438.0
    assert problem.tolerance < 1
    assert least_distance(workload.last_load[:16].astype(int).tolist()) > best
    for method in ("cp-sat", "highs", "milp"):
        solution = ks.solve(problem, method, gap=0, time_limit=2)
        assert solution.status != "optimal" or solution.objective == best
        assert (solution.bound or 0.0) <= best


@pytest.mark.parametrize("capacity", [[1, 1], [3, 3], [1, 2]])
@pytest.mark.parametrize("method", ["cp-sat", "milp", "highs"])
def test_optimal_means_the_least_whole_distance(method, capacity):
    draw = np.random.default_rng(7)
    load = draw.integers(10**8, 10**9, 9)
    workload = ks.Workload(load=load, state=[1] * 9, current=[0] * 9, nodes=capacity)
    problem = ks.KeyGroupAllocation(workload)
    best = min(problem.objective(np.array(a)) for a in product(range(2), repeat=9))
    solution = ks.solve(problem, method, gap=0, time_limit=20)
    assert solution.status != "optimal" or solution.objective == pytest.approx(best, rel=1e-15, abs=1e-6)
    assert method != "milp" or solution.status == "optimal"


def test_every_formulation_tells_whole_objectives_apart():
    load = [123456789, 987654321, 555555555, 192837463]
    w = ks.Workload(load=load, state=load, current=[0, 0, 1, 1], home=[0, 0, 1, 1], nodes=2)
    for problem in (
        ks.KeyGroupAllocation(w), ks.KeyGroupAllocation(w, priorities=("state_moved",)),
        ks.KeyGroupAllocation(w, priorities=("draining_load", "load_distance")),
        ks.MovementWithinLimits(w, 1e8, 2e9), ks.MixedRouting(w, theta_max=1.0),
        ks.IntervalMigration(w, 2, tau=1), ks.MigrationSequence(w, node_counts=[1, 2], tau=1), ks.MCLB(w),
    ):  # fmt: skip
        assert problem.tolerance_of(float(sum(load))) < 1, problem.name
        assert problem.tolerance < 1, problem.name


# Fewest moves ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [Count(at_most=35, at_least=35), Count(at_least=35), Even()])
@pytest.mark.parametrize("priorities", [("migrations",), ("broken_rules", "migrations")])
def test_the_fewest_moves_of_many_pairs_are_proven(rule, priorities):
    """60 brokers, six of them new, 2,100 replicas: 35 on each takes 6 * 35 moves."""
    workload = ks.Workload(load=[1] * 2100, state=[1] * 2100, current=np.arange(2100) % 54, nodes=60)
    solution = ks.solve(ks.KeyGroupAllocation(workload, rules=[rule], priorities=priorities), time_limit=60)
    assert solution.status == "optimal"
    assert solution.metrics["migrations"] == 210
    assert solution.priorities[-1].bound == 210


def test_of_16384_slots_on_one_node_the_fewest_moves_are_proven():
    """Five nodes, 3,276 or 3,277 slots each: 13,107 leave."""
    workload = ks.Workload(load=np.ones(16_384), state=np.ones(16_384), current=np.zeros(16_384, dtype=int), nodes=5)
    problem = ks.KeyGroupAllocation(workload, priorities=("load_distance", "migrations"))
    solution = ks.solve(problem, effort=5.0)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(0.8)
    assert solution.metrics["migrations"] == solution.priorities[-1].bound == 13_107


def test_of_16384_slots_on_one_node_as_many_leave_as_a_rule_asks_for():
    """Nothing keeps the rule at first: at most 2,731 on each of six nodes, so that 13,653 leave."""
    workload = ks.Workload(load=np.ones(16_384), state=np.ones(16_384), current=np.zeros(16_384, dtype=int), nodes=6)
    problem = ks.KeyGroupAllocation(workload, rules=[Count(at_most=2731)], priorities=("migrations",))
    solution = ks.solve(problem, effort=5.0)
    assert solution.status == "optimal"
    assert solution.metrics["migrations"] == 13_653


def test_sums_of_what_is_too_much_prove_no_more_than_brute_force():
    from keyshift.solvers.least_moved import least_moved

    draw = np.random.default_rng(3)
    for _ in range(60):
        p, n = int(draw.integers(2, 6)), int(draw.integers(2, 4))
        workload = ks.Workload(
            load=draw.integers(0, 5, p), state=draw.integers(1, 6, p), current=draw.integers(0, n, p),
            nodes=draw.integers(1, 3, n), draining=np.arange(n) >= n - (draw.random() < 0.3),
            groups={"topic": draw.integers(0, 2, p).tolist()},
        )  # fmt: skip
        drawn = [Count(at_most=int(draw.integers(1, p + 1))), Even(by="topic", slack=int(draw.integers(0, 2)))]
        problem = ks.KeyGroupAllocation(workload, rules=[rule for rule in drawn if draw.random() < 0.7])
        able = [np.array(a) for a in product(range(n), repeat=p) if not problem.violations(np.array(a))]
        for measure in ("migrations", "state_moved"):
            least = min((problem.measured(measure, a) for a in able), default=np.inf)
            assert least_moved(problem, measure, {}) <= least
            for far in {problem.objective(a) for a in able}:
                near = [a for a in able if problem.objective(a) <= far]
                least = min(problem.measured(measure, a) for a in near)
                assert least_moved(problem, measure, {"load_distance": far}) <= least


# Sentences that say what is so ---------------------------------------------------------------------------------------------


def test_repair_of_an_mclb_keeps_its_rules():
    workload = ks.Workload(load=[2, 7, 7, 3], state=[1, 2, 3, 4], current=[0, 1, 0, 1], nodes=2)
    solution = ks.repair(ks.MCLB(workload, rules=[Never([0], [0])]))
    assert solution.status == "optimal"
    assert solution.assignment[0] == 1
    nowhere = ks.repair(ks.MCLB(workload, rules=[Never([0], [0, 1])]))
    assert nowhere.status == "infeasible"
    assert "mclb keeps all rules or has no answer" in nowhere.message
    with pytest.raises(ks.InputError, match="do not depend on where key groups run"):
        ks.repair(ks.MCLB(workload))


def test_the_solver_that_ran_is_named():
    class Another(highs.Highs):
        name = "another"

    workload = ks.Workload(load=[2, 7, 7, 3], state=[1, 2, 3, 4], current=[0, 1, 0, 1], nodes=2)
    with highs.solved_by(Another()):
        model = ks.model(ks.KeyGroupAllocation(workload), "pyomo")
        assert "another" in model.solve("highs").method
        apart_from_it = ks.solve(ks.MovementWithinLimits(workload, 9.4, 9.6), "milp")
    assert "HiGHS" not in apart_from_it.message


@dataclass(frozen=True, eq=False)
class Heaviest(Problem):
    """A problem of one's own: the load of the heaviest node counts."""

    name: ClassVar[str] = "heaviest"
    objective_name: ClassVar[str] = "heaviest load"
    scale: ClassVar[float] = 1.0

    workload: ks.Workload

    def canonical(self, assignment):
        return np.array(assignment, dtype=np.int64)

    def violations(self, assignment):
        return []

    def objective(self, assignment):
        return float(np.bincount(assignment, self.workload.last_load, self.workload.nodes).max())

    def metrics(self, assignment):
        return {}


def test_the_worth_of_a_move_of_a_problem_of_ones_own_is_in_its_objective():
    workload = ks.Workload(load=[2, 7, 7, 3], state=[1, 2, 3, 4], current=[0, 0, 0, 1], nodes=2)
    plan = ks.plan(Heaviest(workload), [0, 1, 0, 1])
    assert plan.measure == "heaviest load"
    assert plan.moves["gain"].tolist() == [16 - 10]


def test_a_remedy_knows_how_far_the_smallest_node_can_be_from_the_mean():
    """All that there is stands on a node of a thousandth of the capacity, and may not move: 679,055 % from the mean."""
    w = ks.Workload(load=[0.4], state=[1], current=[0], nodes=[0.001, 6.79], traffic=[[0.0]])
    problem = ks.CollocatedAllocation(w, max_load_distance=100.0, rules=[ks.rules.Pinned([0])])
    (remedy,) = [each for each in ks.remedies(problem) if each.limit == "max_load_distance"]
    assert remedy.value == pytest.approx(100 * 6.79 / 0.001, rel=1e-4)
    assert ks.solve(replace(problem, max_load_distance=remedy.value)).status == "optimal"


def test_a_remedy_says_what_has_to_be_given_beside_it():
    """Two nodes of at most 3; of at most 9 the printed formula makes one node, which the first window overloads."""
    w = ks.Workload(load=[[9, 8], [1, 1]], state=[1, 1], current=[0, 1], nodes=2)
    problem = ks.MovementWithinLimits(w, lower=0, upper=2, windows="all")
    upper = next(each for each in ks.remedies(problem) if each.limit == "upper")
    assert upper.beside == f"nodes_after = {problem.nodes_after}" == "nodes_after = 2"
    assert "with nodes_after = 2): 9 is enough" in str(upper)
    typed = {name: int(value) for name, _, value in [upper.beside.partition(" = ")]}
    assert ks.solve(ks.MovementWithinLimits(w, lower=0, upper=9, windows="all", **typed)).status == "optimal"
    assert ks.solve(ks.MovementWithinLimits(w, lower=0, upper=9, windows="all")).status == "infeasible"  # on one node


def test_a_remedy_passes_the_check_at_its_own_value():
    """Where loads are 1e9 times apart the check of the lower limit allows more, the higher the upper one is."""
    load = [[6, 5, 1, 4], [0.7, 2, 0, 1.1], [3e-9, 9e-9, 6e-9, 0]]
    w = ks.Workload(load=load, state=[1, 1, 1, 1], current=[0, 1, 0, 1], nodes=2)
    given = {"lower": 8.9e-9, "nodes_after": 4, "windows": "all"}
    problem = ks.MovementWithinLimits(w, upper=9e-9, **given)
    upper = next(each for each in ks.remedies(problem, time_limit=10) if each.limit == "upper")
    assert upper.value is not None
    assert ks.solve(ks.MovementWithinLimits(w, upper=float(upper.enough), **given)).assignment is not None
