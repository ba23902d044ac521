"""A small sample of the net; `make hostile` casts it wide."""

from __future__ import annotations

import dataclasses
import itertools
import random
from fractions import Fraction

import pytest

import keyshift as ks
from hostile import exact, ruled, runner, solving, summary
from hostile.judge import HARD, judge
from hostile.solving import MODULES, Instance, plan_of, spec_of
from keyshift.catalogue import FORMULATIONS

SAMPLE = {  # by what a solve costs: the sample has to earn its seconds
    "key-group-allocation": 2, "collocated-allocation": 2, "mclb": 2, "movement-within-limits": 12, "replicated-allocation": 6, "key-splitting": 5,
    "key-placement": 6, "mixed-routing": 4, "interval-migration": 6, "migration-sequence": 6, "migration-policy": 2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    """Nothing is rehearsed for clocks that the sample does not look at."""
    monkeypatch.setattr(solving, "_rehearse", lambda problem: None)


def test_every_formulation_is_in_the_net():
    assert set(MODULES) == set(FORMULATIONS) == set(SAMPLE)


@pytest.mark.parametrize("name", MODULES)
def test_options_that_are_tried_exist(name):
    known = {m.name: m.options for m in FORMULATIONS[name].methods}
    assert {(m, o) for m, pool in MODULES[name].OPTIONS.items() for o in pool if o not in known[m]} == set()


@pytest.mark.parametrize("name", MODULES)
def test_no_wrong_word(name):
    found = []
    for index in range(SAMPLE[name]):
        instance = Instance.numbered(name, 20, index)
        for run in instance.runs:
            wrong = [f for f in instance.run(run)["found"] if f[0] in HARD and f[0] != "overrun"]  # no timed asserts
            found += [(index, run["method"], *f) for f in wrong]
    assert found == []


OPENED = [
    ("key-group-allocation", 6, 15), ("key-group-allocation", 6, 172), ("key-splitting", 6, 163), ("key-placement", 6, 85),
    ("collocated-allocation", 6, 105), ("mclb", 5, 59), ("mclb", 6, 149), ("mclb", 8, 26), ("mclb", 9, 9), ("mclb", 9, 25),
    ("mclb", 9, 39), ("mclb", 51, 565), ("mclb", 62, 797), ("mixed-routing", 5, 39), *((name, 12, index) for name in MODULES for index in range(2)),
]  # fmt: skip
"""Instances of which opened models were once wrong, or refused with a traceback, and two of each problem that were not."""


@pytest.mark.parametrize(("name", "seed", "index"), OPENED)
def test_opened_models_agree_with_the_truth(name, seed, index):
    """Bounds, relaxed ones too, stay below the optimum, optima are, and nothing that has an answer is infeasible."""
    instance = Instance.numbered(name, seed, index)
    truth, problem = instance.truth, instance.module.build(instance.spec)
    rounding = Fraction(1, 10**9) * max(truth.unit, truth.best or 0)
    whole = [about for about in FORMULATIONS[name].statements if about.exact]
    for about, strengthened in itertools.product(whole, (False, True)):
        try:
            model = ks.model(problem, about.kind, strengthened=strengthened)
            solutions = [model.solve(time_limit=20)] + ([model.relax().solve()] if about.language != "cp-sat" else [])
        except ks.InputError:
            continue  # numbers that a solver refuses
        for s in solutions:
            if truth.best is None:
                assert s.assignment is None, about.kind
                continue
            assert s.status != "infeasible" or truth.strict is None, about.kind
            assert s.bound is None or Fraction(s.bound) <= truth.best + rounding, about.kind
        if truth.best is not None and solutions[0].status == "optimal":
            limit = truth.best + Fraction(3, 10**6) * max(truth.scale, truth.best)
            assert Fraction(solutions[0].objective) <= limit, about.kind


def test_a_folder_of_the_net_may_hold_refusals_too(tmp_path):
    (tmp_path / "refusals.jsonl").write_text('{"case": "no such file"}\n')
    assert summary.read(tmp_path) == []


@pytest.mark.parametrize("name", MODULES)
def test_the_library_values_an_assignment_as_the_truth_does(name):
    """The two share no code, so that they agree is worth something."""
    seen = 0
    for index in range(30):
        spec = spec_of(name, 21, index)
        truth, problem = MODULES[name].Truth(spec), MODULES[name].build(spec)
        truth.find()
        if truth.example is None:
            continue
        report = ks.check(problem, list(truth.example))
        assert report.feasible, (index, report)
        assert abs(Fraction(report.objective) - truth.best) <= Fraction(1, 10**11) * max(truth.unit, truth.best)
        seen += 1
    assert seen > 3 or name in ("interval-migration", "migration-sequence", "migration-policy")


def test_the_same_seed_draws_the_same_instance():
    assert spec_of("mclb", 3, 4) == spec_of("mclb", 3, 4)
    assert spec_of("mclb", 3, 4) != spec_of("mclb", 3, 5)


def _solved(**changes):
    instance = Instance.numbered("key-group-allocation", 22, 0)
    truth = instance.truth
    problem = ks.KeyGroupAllocation(ks.Workload(load=[3, 1, 1], state=[1, 1, 1], current=[0, 0, 0], nodes=2))
    truth = type(truth)({"workload": {"load": [3, 1, 1], "state": [1, 1, 1], "current": [0, 0, 0], "nodes": 2},
                         "options": {}})  # fmt: skip
    truth.find()
    right = ks.solve(problem, "flux", rounds=5)
    solution = dataclasses.replace(right, **changes)
    return {kind for kind, _ in judge(truth, problem, solution, "exact", partial=False, limit=1.0, seconds=0.1)}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"bound": 0.6, "status": "feasible"}, "unsafe bound"),
        ({"status": "infeasible", "assignment": None, "objective": None}, "false infeasible"),
        ({"assignment": (0, 0, 0), "objective": 2.5, "bound": 2.5, "status": "optimal"}, "wrong optimum"),
        ({"objective": 0.25}, "wrong value"),
        ({"status": "feasible", "termination": "optimal"}, "optimal when not"),
        ({"status": "feasible", "termination": "completed"}, "unproven"),
        ({"termination": "time_limit"}, "false limit"),
        ({"status": "none", "assignment": None, "objective": None, "termination": "completed"}, "none found"),
    ],
)
def test_the_judge_catches_every_kind_of_wrong_word(changes, kind):
    assert kind in _solved(**changes)


def test_an_assignment_that_breaks_a_rule_is_caught():
    spec = spec_of("mixed-routing", 22, 0)
    truth = MODULES["mixed-routing"].Truth(spec)
    nodes = exact.node_number(spec["workload"])
    assert truth.broken((nodes + 1,) * len(spec["workload"]["current"]), exact.LOOSE) == "draining"


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    solved = []

    class Lane:
        def __init__(self, problem, seed):
            self.problem, self.seed = problem, seed

        def solve(self, index):
            solved.append(index)
            return {"problem": self.problem, "seed": self.seed, "index": index, "runs": []}

        def close(self):
            pass

    monkeypatch.setattr(runner, "Lane", Lane)
    runner.run(tmp_path, ["mclb"], 0, 3, tell=lambda _: None)
    with (tmp_path / "mclb.jsonl").open("a") as file:
        file.write('{"problem": "mclb", "se')  # killed while it wrote
    runner.run(tmp_path, ["mclb"], 0, 5, tell=lambda _: None)
    assert solved == [0, 1, 2, 3, 4]
    assert "5 instances" in summary.table(summary.read(tmp_path))


def test_murmur_is_the_published_one():
    from hostile.splitting import murmur

    assert murmur(b"", 0) == (0, 0)
    assert f"{murmur(b'hello', 0)[0]:016x}" == "cbd8a7b341bd9b02"
    rng = random.Random(0)
    assert len({murmur(rng.randbytes(n), 1) for n in range(40)}) == 40


@pytest.mark.parametrize("method", ["milp", "cp-sat", "elb"])
def test_what_the_check_admits_is_not_called_infeasible(method):
    """The slack of a load limit is a share of the upper one: a node without load keeps a lower one of a hair."""
    w = ks.Workload(load=[0.0, 0.0], state=[3.0, 2.0], current=[0, 1], nodes=2)
    problem = ks.MovementWithinLimits(w, lower=1e-10, upper=1.0, nodes_after=1)
    assert ks.check(problem, [0, 0]).feasible
    solution = ks.solve(problem, method)
    assert solution.status != "infeasible"
    assert method == "elb" or solution.objective == 2.0


@pytest.mark.parametrize("name", ruled.TAKE_RULES)
def test_no_wrong_word_under_rules(name):
    found = []
    for index in range(3):
        spec = ruled.added(spec_of(name, 23, index), 23, index, share=1.0)
        instance = Instance(spec, plan_of(spec, 23, index))
        for run in instance.runs:
            found += [
                (index, run["method"], *f) for f in instance.run(run)["found"] if f[0] in HARD and f[0] != "overrun"
            ]
    assert found == []
