"""Families: the same name and seed give the same instance; every one can be solved; bad parameters are refused."""

import inspect
import re

import numpy as np
import pytest

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.catalogue.families import FAMILIES, family_of
from keyshift.files.problem import problem_fingerprint, problem_of, problem_record
from keyshift.models import InputError

SMALL = {
    "madsen-allocation": {"nodes": 4, "key_groups": 16},
    "replicas-allocation": {"nodes": 4, "key_groups": 12},
    "madsen-scale-in": {"nodes": 10, "key_groups": 40, "drain": 3},
    "madsen-collocation": {"nodes": 4, "key_groups": 16},
    "madsen-windows": {"nodes": 4, "key_groups": 16, "windows": 2},
    "madsen-collocation-windows": {"nodes": 4, "key_groups": 16, "windows": 2},
    "madsen-patterns": {"nodes": 4, "key_groups": 16, "fan": 2},
    "guo-mclb": {"windows": 3, "key_groups": 12, "nodes": 3},
    "fang-routing": {"keys": 3000},
    "nasir-splitting": {"messages": 500},
    "nasir-placement": {"messages": 200, "keys": 20},
}
OFFLINE = [name for name, f in FAMILIES.items() if ":" in f.code and not re.search("real:|flights_|words_", f.code)]


def draw(name, **more):
    return list(ks.family(name, **{**SMALL.get(name, {}), **more}))


@pytest.mark.parametrize("name", OFFLINE)
def test_every_instance_is_of_its_problem_and_not_impossible(name):
    for said, problem in draw(name, count=2):
        assert isinstance(problem, FORMULATIONS[FAMILIES[name].problem].problem_class)
        assert problem.conflicts() == []
        assert family_of(said) == name


def test_every_problem_has_a_family_of_the_papers_and_a_hard_one():
    for problem in FORMULATIONS:
        names = [f.name for f in ks.families(problem)]
        assert any(name.startswith("hard-") for name in names), problem
        assert any(not name.startswith("hard-") for name in names), problem


def test_parameters_in_a_list_are_drawn_in_every_combination():
    drawn = ks.family("madsen-allocation", nodes=[4, 6], key_groups=[24, 36], count=3)
    assert drawn.__length_hint__() == 12
    names = [name for name, _ in drawn]
    assert len(set(names)) == 12
    assert names[0] == "madsen-allocation(nodes=4,key_groups=24)/0"
    assert drawn.__length_hint__() == 0


def test_entries_agree_with_the_generators():
    for family in FAMILIES.values():
        assert "seed" in inspect.signature(family.function).parameters
        assert set(family.grid) <= set(family.parameters)
        assert family.function.__doc__


def test_the_fingerprint_survives_a_file_and_hears_every_change():
    ((_, problem),) = draw("madsen-collocation")
    again = problem_of(problem_record(problem))
    assert problem_fingerprint(again) == problem_fingerprint(problem)
    w = problem.workload
    for changed in (
        w.replace(load=w.load * (1 + 1e-15)),
        w.replace(state=w.state + 1),
        w.replace(traffic=2 * w.traffic),
    ):
        other = ks.CollocatedAllocation(changed, max_migrations=problem.max_migrations)
        assert problem_fingerprint(other) != problem_fingerprint(problem)
    assert problem_fingerprint(ks.CollocatedAllocation(w, max_migrations=1)) != problem_fingerprint(problem)


def test_a_limit_on_the_boundary_is_met_by_the_hidden_plan():
    for _, problem in ks.family("hard-movement", kind="boundary", count=2):
        loads = np.bincount(problem.workload.current, problem.workload.last_load)
        assert problem.upper <= loads.max() or problem.lower >= loads.min()
        assert ks.solve(problem, "milp", time_limit=20).status in ("optimal", "feasible")


@pytest.mark.parametrize("name", OFFLINE)
def test_the_name_of_an_instance_draws_it_again(name):
    first = draw(name, count=2)[-1]
    ((said, again),) = ks.family(first[0])
    assert said == first[0]
    assert problem_fingerprint(again) == problem_fingerprint(first[1])


def test_rules_are_added_to_every_instance():
    rule = ks.rules.Pinned([0, 1])
    for _, problem in ks.family("replicas-allocation", nodes=4, key_groups=12, count=2, rules=[rule]):
        assert [type(r).__name__ for r in problem.rules] == ["Apart", "Count", "Pinned"]
    with pytest.raises(InputError, match="takes no rules"):
        next(ks.family("hard-step", rules=[rule]))
