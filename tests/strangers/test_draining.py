"""Nodes that drain: emptied first, with no move too many, against brute force; what they keep is said by name, and why."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from draws import draws
from instances import allocation

import keyshift as ks
from keyshift.cli import main
from keyshift.engines import redis
from keyshift.plans.explaining import explain
from keyshift.plans.targets import staying
from keyshift.rules import Never, Pinned, Together
from keyshift.solvers.tuning import StageSettings

DATA = Path(__file__).parent / "data" / "draining"
EMPTY_FIRST = ("draining_key_groups", "load_distance", "migrations")
ORDERS = [
    ("draining_load", "load_distance"),
    EMPTY_FIRST,
    ("draining_load", "draining_key_groups", "load_distance", "migrations"),
    ("draining_key_groups", "migrations", "load_distance"),
    ("load_distance", "draining_key_groups"),
    ("draining_key_groups",),
]


def least(problem: ks.KeyGroupAllocation) -> list[float]:
    """The least values of the priorities and then of what chooses among ties, by trying everything; empty if infeasible."""
    w, names = problem.workload, (*problem.stages, *problem.ties)
    tried = (np.array(one) for one in itertools.product(range(w.nodes), repeat=w.key_groups))
    ranks = [[problem.measured(name, one) for name in names] for one in tried if not problem.violations(one)]
    best = []
    for place, name in enumerate(names if ranks else ()):
        best.append(min(rank[place] for rank in ranks))
        ranks = [rank for rank in ranks if rank[place] <= best[place] + problem.tie(name, best[place])]
    return best


def drawn(rng: np.random.Generator) -> ks.KeyGroupAllocation:
    """An instance with something on a node that drains; some with a rule besides."""
    while True:
        problem = allocation.random_problem(rng, int(rng.integers(2, 6)), int(rng.integers(2, 4)))
        if problem.workload.draining[problem.workload.current].any():
            rule = [[], [], [Pinned([0])], [Never([0], [0])], [Together([0, 1])]][rng.integers(5)]
            return dataclasses.replace(problem, priorities=ORDERS[rng.integers(len(ORDERS))], rules=rule)


@draws(15, 500)
def test_every_method_empties_nodes_as_brute_force_does(count):
    rng = np.random.default_rng(9)
    for _ in range(count):
        problem = drawn(rng)
        best, names = least(problem), (*problem.stages, *problem.ties)
        assert problem.least(names[0]) <= (best[0] if best else np.inf)
        for method in ("milp", "highs", "cp-sat"):
            solution = ks.solve(problem, method, time_limit=60)
            assert solution.status == ("optimal" if best else "infeasible"), (problem, method, solution)
            for name, value in zip(names, best, strict=True) if best else ():
                reached = problem.measured(name, solution.assignment)
                assert abs(reached - value) <= 2 * problem.tie(name, value), (problem, method, name, reached, best)
        for method in ("flux", "potc", "drain-first"):
            brief = ks.solve(problem, method, time_limit=60, settings=[StageSettings(rounds=2)])
            if brief.assignment is not None:
                assert not problem.violations(brief.assignment)
                assert problem.measured(names[0], brief.assignment) >= best[0] - problem.tie(names[0], best[0])


@pytest.mark.parametrize("order", [("draining_load", "load_distance"), EMPTY_FIRST])
@pytest.mark.parametrize("method", ["milp", "highs", "cp-sat", "flux", "potc", "drain-first"])
def test_key_groups_without_load_leave_too_and_nothing_else_moves(order, method):
    w = ks.read_workload(DATA / "idle_on_draining.json")
    solution = ks.solve(ks.KeyGroupAllocation(w, priorities=order), method)
    assert not (solution.assignment == 2).any()
    assert solution.metrics["migrations"] == 3


def test_the_printed_model_stays_the_default():
    w = ks.read_workload(DATA / "idle_on_draining.json")
    assert ks.KeyGroupAllocation(w).stages == ("load_distance",)
    assert ks.KeyGroupAllocation(w).ties == ()
    assert "draining_key_groups" in (ks.KeyGroupAllocation.__doc__ or "")


def test_several_windows_are_drained_too():
    w = ks.Workload(
        load=[[1, 0, 2], [0, 0, 3]], state=[1, 1, 1], current=[0, 0, 1], nodes=3, draining=[True, False, False]
    )
    solution = ks.solve(ks.KeyGroupAllocation(w, windows=2, priorities=EMPTY_FIRST))
    assert solution.status == "optimal"
    assert solution.metrics["draining_key_groups"] == 0
    assert solution.metrics["migrations"] == 2


def test_where_limits_leave_something_what_can_leave_does_and_the_bound_says_so():
    rng = np.random.default_rng(1)
    current = np.repeat([0, 1, 2], 400)
    w = ks.Workload(load=rng.random(1200), state=np.ones(1200), current=current, nodes=3, draining=[True, False, False])
    problem = ks.KeyGroupAllocation(w, max_migrations=30, priorities="draining_load load_distance")
    heaviest = np.sort(w.last_load[:400])
    assert problem.least("draining_load") == pytest.approx(heaviest[:-30].sum())
    assert problem.least("draining_key_groups") == 370
    problem = dataclasses.replace(problem, max_migration_cost=12.5, priorities="draining_key_groups")
    assert problem.least("draining_key_groups") == 388
    solution = ks.solve(problem, time_limit=20)
    assert (solution.objective, solution.status) == (388, "optimal")


# On the shell, after an import --------------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    """Run a line in an empty folder; what it printed, its words parted by single blanks."""
    monkeypatch.chdir(tmp_path)

    def run(line: str, code: int = 0) -> str:
        assert main(shlex.split(line)) == code, capsys.readouterr()
        return " ".join(capsys.readouterr().out.split())

    return run


def leaders(plan: ks.Plan) -> list[str]:
    return [str(plan.made_for.node(i)) for i in plan.assignment]


F1 = f"import kafka --log-dirs {DATA}/f1-dirs.txt --assignment {DATA}/f1-now.txt --draining 1 --out"


@pytest.mark.parametrize("out", ["w", "w.json"])
def test_a_broker_that_drains_leads_nothing_after_the_plan(shell, out):
    assert "emptied first: 1." in shell(f"{F1} {out}")
    said = shell(f"plan {out} --out plan.json")
    assert "drains, but keeps" not in said
    assert "1" not in leaders(ks.read_plan("plan.json"))
    assert len(ks.read_plan("plan.json")) == 4
    shell("export plan.json --to kafka --out files")
    assert "## Notes" not in Path("files/STEPS.md").read_text()


def test_a_dead_broker_of_cruise_control_hands_its_leaders_on(shell):
    shell(f"import cruise-control --load {DATA}/f19-cc-load.json --partition-load {DATA}/f19-cc-part.json --out w")
    shell("plan w --out plan.json")
    assert "3" not in leaders(ks.read_plan("plan.json"))
    assert len(ks.read_plan("plan.json")) == 1
    assert "1 phase" in shell("plan w")


@pytest.mark.parametrize("rules", ["", "--rules w/rules.yaml"])
def test_a_replica_moves_to_the_empty_broker(shell, rules):
    files = f"--log-dirs {DATA}/f5-by-hand-dirs.txt --assignment {DATA}/f5-dead-now.json"
    shell(f"import kafka {files} --replicas --draining 3 --out w")
    shell(f"plan w {rules} --out plan.json")
    moves = ks.read_plan("plan.json").moves
    assert moves[["key", "source", "target"]].astype(str).to_numpy().tolist() == [["t-1/0", "3", "4"]]


def test_what_stays_is_said_by_name_everywhere(shell):
    shell(f"{F1} w")
    for line, reason in (
        ("--max-migrations 3", "one move more would exceed max_migrations 3"),
        (
            "--priorities load_distance",
            "does not ask for it; the priorities draining_key_groups,load_distance,migrations",
        ),
        ("--rule 'moves 3'", "Moves(at_most=3)"),
    ):
        said = "node 1 drains, but keeps key group t-"
        for command in ("solve", "explain", "plan --out plan.json --report plan.html"):
            name, _, rest = command.partition(" ")
            shown = shell(f"{name} w {line} {rest}")
            assert said in shown, (command, line)
            assert reason in shown, (command, line)
        assert said in shell("export plan.json --to kafka --out files")
        assert said in Path("files/STEPS.md").read_text()
        assert said in Path("plan.html").read_text()
        shutil.rmtree("files")
        assert said in shell(f"solve w {line} --json")
        assert said in shell(f"explain w {line} --json")


def test_an_import_in_which_nothing_drains_leaves_no_priorities_behind(shell):
    shell(f"{F1} w")
    assert Path("w/priorities.yaml").read_text().split() == [
        "-",
        EMPTY_FIRST[0],
        "-",
        EMPTY_FIRST[1],
        "-",
        EMPTY_FIRST[2],
    ]
    shell(F1.replace(" --draining 1", "") + " w")
    assert not Path("w/priorities.yaml").exists()


def test_a_file_of_priorities_that_is_none_is_refused_and_other_problems_are_asked_as_ever(shell, capsys):
    shell(f"{F1} w")
    assert "mclb" in shell("plan w -p mclb")
    Path("w/priorities.yaml").write_text("load_distance: 1\n")
    assert main(["solve", "w"]) == 2
    assert "there must be a list of measures" in " ".join(capsys.readouterr().err.split())


def test_the_printed_model_is_certified_modelled_and_traced(shell):
    shell(f"{F1} w")
    assert "proven" in shell("certify w --out c.json")
    assert "load distance" in shell("pareto w -p key-group-allocation --points 2")


def test_a_slot_that_stays_on_a_drained_master_is_named(tmp_path):
    w = ks.Workload(
        load=[9, 1, 1], state=[9, 1, 1], current=[0, 1, 1], nodes=3, draining=[False, True, False],
        keys=[f"{redis.LABEL}{s}" for s in (5, 77, 78)], node_names=["h:7000", "h:7001", "h:7002"],
    )  # fmt: skip
    problem = ks.KeyGroupAllocation(w, max_migrations=1, priorities=EMPTY_FIRST)
    plan = ks.plan(problem, ks.solve(problem))
    said = "node h:7001 drains, but keeps key group slot-7"
    assert any(note.startswith(said) for note in plan.notes)
    redis.write_slots(plan, tmp_path / "moves")
    assert said in (tmp_path / "moves" / "STEPS.md").read_text()
    again = ks.read_plan(plan.save(tmp_path / "plan.json") or tmp_path / "plan.json")
    assert again.notes == plan.notes


# Why ----------------------------------------------------------------------------------------------------------------------


def allocated(**options) -> ks.KeyGroupAllocation:
    w = ks.Workload(
        load=[3, 2, 0], state=[3, 2, 1], current=[0, 0, 1], nodes=3, draining=[True, False, False],
        resources={"memory": [4, 1, 1]}, node_names=["x", "y", "z"], keys=["a", "b", "c"],
    )  # fmt: skip
    return ks.KeyGroupAllocation(w, **options)


@pytest.mark.parametrize(
    ("options", "assignment", "said"),
    [
        ({}, [1, 2, 1], []),
        ({}, [0, 2, 1], ["keeps key group a: no limit is in the way, but the load distance does not ask for it"]),
        ({"priorities": EMPTY_FIRST}, [0, 2, 1], ["keeps key group a: no limit is in the way, but the search has not moved it"]),
        ({"max_migrations": 0}, [0, 0, 1], ["keeps 2 key groups, a, b: one move more would exceed max_migrations 0"]),
        ({"max_migration_cost": 2}, [0, 2, 1], ["keeps key group a: one move more would exceed max_migration_cost 2"]),
        ({"resource_capacity": {"memory": 3}}, [0, 2, 1], ["keeps key group a: no node takes it: on node y"]),
        ({"rules": [Pinned(["a"])]}, [0, 2, 1], ["keeps key group a: no node takes it: Pinned"]),
    ],
)  # fmt: skip
def test_the_reason_is_the_limit_or_that_nothing_asks_for_it(options, assignment, said):
    problem = allocated(**options)
    found = staying(problem, np.array(assignment))
    assert len(found) == len(said)
    for sentence, part in zip(found, said, strict=True):
        assert sentence.startswith("node x drains, but ")
        assert part in sentence


def test_an_earlier_priority_is_a_reason():
    w = ks.Workload(
        load=[1, 4, 4, 4], state=np.ones(4), current=[0, 1, 2, 3], nodes=4, draining=[True, False, False, False]
    )
    problem = ks.KeyGroupAllocation(w, priorities=("load_distance", "draining_load"))
    solution = ks.solve(problem)
    assert solution.metrics["draining_key_groups"] == 1
    (said,) = staying(problem, solution.assignment)
    assert (
        said
        == "node 0 drains, but keeps key group 0: the load distance, which comes before in the priorities, would rise"
    )


def test_many_key_groups_are_named_and_counted():
    p = 150
    w = ks.Workload(load=np.arange(p), state=np.ones(p), current=np.zeros(p, int), nodes=2, draining=[True, False])
    first, rest = staying(ks.KeyGroupAllocation(w, max_migrations=0), w.current)
    assert first.startswith("node 0 drains, but keeps 100 key groups, 149, 148, ")
    assert "and 80 more: one move more" in first
    assert "50 key groups" in rest


def test_explain_has_what_stays():
    found = explain(allocated(max_migrations=1, priorities=EMPTY_FIRST), marginals=False)
    assert found.stays == staying(found.problem, found.solution.assignment)
    assert found.stays[0] in str(found)
    assert found.as_record()["stays"] == list(found.stays)
