"""study: the same rows from any number of processes, from Spark, and after a kill; whatever a solve does is a row."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from misbehaving import DyingAllocation, EndlessAllocation, GreedyAllocation, RaisingAllocation

import keyshift as ks
from keyshift.cli import main
from keyshift.models import InputError
from keyshift.studies.tasks import GuardedPool

TIMES = ["seconds", "wall"]
SOME = ["flux", "potc", "ssm", "storm", "redist", "llfd", "min-table", "off-greedy", "greedy-d", "mixed"]


def instances():
    yield from ks.family("madsen-allocation", nodes=[4, 5], key_groups=20, count=2)
    yield from ks.family("hard-step", tasks=12, nodes=3, nodes_after=4)
    yield from ks.family("hard-routing", keys=20, nodes=3)


def rows(study):
    return study.to_frame().drop(columns=TIMES).to_json(orient="records", double_precision=15)


@pytest.fixture(scope="module")
def by_one(tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "study"
    return out, ks.study(instances(), SOME, seeds=(0, 1), time_limit=20, out=out)


def test_two_processes_give_the_rows_of_one_and_a_second_run_solves_nothing(by_one):
    out, one = by_one
    frame = one.to_frame()
    assert len(frame) == frame["method"].value_counts().sum()
    assert frame["status"].ne("failed").all()
    assert rows(ks.study(instances(), SOME, seeds=(0, 1), time_limit=20, workers=2)) == rows(one)
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*.json")}
    seen = []
    again = ks.study(instances(), SOME, seeds=(0, 1), time_limit=20, out=out, watch=seen.append)
    assert rows(again) == rows(one)
    assert seen == []
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*.json")} == before
    assert one.contradictions() == []


def test_lost_results_are_made_anew_and_other_settings_are_refused(by_one, tmp_path):
    out, one = by_one
    lost = sorted(out.glob("results/*.json"))[::3]
    for file in lost:
        file.unlink()
    seen = []
    known = list(instances())
    assert rows(ks.study(known, SOME, seeds=(0, 1), time_limit=20, out=out, watch=seen.append)) == rows(one)
    assert len(seen) - len(lost) in (0, 1)
    assert seen[-1].done == seen[-1].expected == len(one.rows)
    assert seen[0].left is not None
    assert seen[-1].left == 0
    with pytest.raises(InputError, match="other settings"):
        ks.study(instances(), SOME, time_limit=21, out=out)
    next(out.glob("results/*.json")).write_text("[")
    with pytest.raises(InputError, match="is not JSON"):
        ks.study(instances(), SOME, seeds=(0, 1), time_limit=20, out=out)


def test_the_last_word_counts_known_results_that_follow_the_last_solve(monkeypatch, tmp_path):
    steps = list(ks.family("hard-step", tasks=12, nodes=3, nodes_after=4))
    one = ks.study(steps, ["ssm", "storm"], out=tmp_path)
    lost = next(file for file in tmp_path.glob("results/*.json") if json.loads(file.read_text())["method"] == "ssm")
    lost.unlink()
    monkeypatch.setattr(GuardedPool, "run", lambda pool, tasks: ((task, task.run()) for task in tasks))
    seen = []
    assert rows(ks.study(steps, ["ssm", "storm"], out=tmp_path, watch=seen.append)) == rows(one)
    assert len(seen) == 2
    assert seen[-1].done == seen[-1].expected == len(one.rows)


def test_a_crash_a_loop_and_a_glutton_are_rows_and_the_rest_is_there():
    ((_, fine),) = ks.family("madsen-allocation", nodes=4, key_groups=20)
    w = fine.workload
    made = {
        "fine": fine, "dies": DyingAllocation(w), "loops": EndlessAllocation(w), "greedy": GreedyAllocation(w),
        "raises": RaisingAllocation(w), "fine too": ks.KeyGroupAllocation(w, max_migrations=2),
    }  # fmt: skip
    done = ks.study(made, ["flux"], time_limit=0.5, patience=6, memory=8, workers=2)
    frame = done.to_frame().set_index("instance")
    assert frame.loc[["fine", "fine too"], "status"].tolist() == ["feasible", "feasible"]
    ended = frame.loc[["dies", "loops", "greedy", "raises"], ["status", "termination"]]
    assert ended["status"].tolist() == ["failed"] * 4
    assert ended["termination"].tolist() == ["crash", "killed", "memory", "crash"]
    assert "ZeroDivisionError: of all things" in frame.loc["raises", "message"]
    assert "exit code 11" in frame.loc["dies", "message"]
    assert done.summary()["failed"].sum() == 4


def test_the_shell_draws_solves_and_reports(tmp_path, capsys):
    page, table = tmp_path / "study.html", tmp_path / "best.csv"
    line = ["study", "madsen-allocation", "ding-step", "--nodes", "4,5", "--key-groups", "20", "-m", "flux", "-m", "ssm",
            "--report", str(page), "--best", str(table), "--update-best", "--json"]  # fmt: skip
    assert main(line) == 0
    said = json.loads(capsys.readouterr().out)
    assert {s["instance"] for s in said["solves"]} == {
        "madsen-allocation(nodes=4,key_groups=20)/0", "madsen-allocation(nodes=5,key_groups=20)/0",
        "ding-step(nodes=4)/0", "ding-step(nodes=5)/0",
    }  # fmt: skip
    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert "<script src" not in text
    assert "madsen-allocation" in text
    assert len(text) < 3_000_000
    assert len(table.read_text().splitlines()) == 5
    assert main(["study", "madsen-allocation", "--nodes", "x"]) == 2
    assert main(["study", "nobody"]) == 2
    assert main(["study", "madsen-allocation", "--update-best"]) == 2
    assert main(["families", "hard-step"]) == 0
    assert "--tasks 48" in capsys.readouterr().out


@pytest.mark.parametrize("family", ["hard-routing", "ding-sequence", "guo-movement"])
def test_what_is_generated_is_solved_by_the_line_that_is_printed(family, tmp_path, capsys):
    import shlex

    from keyshift.catalogue.families import FAMILIES

    out = tmp_path / "w"
    assert main(["generate", family, str(out), "--seed", "3", "--json"]) == 0
    line = shlex.split(json.loads(capsys.readouterr().out)["solve"])
    assert line[:2] == ["keyshift", "solve"]
    assert line[4] == FAMILIES[family].problem
    drawn = FAMILIES[family].function(seed=3)
    heuristic = [m.name for m in ks.methods(drawn) if m.kind == "heuristic"][-1]  # a published one: it takes no time
    main([*line[1:], "-m", heuristic, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["objective"] == ks.solve(drawn, heuristic).objective


def test_an_answer_that_breaks_rules_keeps_its_measures():
    (row,) = ks.study(ks.family("madsen-collocation", nodes=3, key_groups=12, max_migrations=1), ["cola"]).rows
    assert row["status"] == "none"
    assert row["violations"] > 0
    assert row["metrics"]["migrations"] > 1


KILLED = """
import sys, keyshift as ks
ks.study(ks.family("madsen-allocation", nodes=[4, 5, 6], key_groups=24, count=4), ["flux", "potc", "drain-first"],
         effort=0.1, out=sys.argv[1])
"""


@pytest.mark.slow
def test_a_study_that_is_killed_goes_on_where_it_stopped(tmp_path):
    whole = tmp_path / "whole"
    subprocess.run([sys.executable, "-c", KILLED, str(whole)], check=True)
    names = sorted(f.name for f in (whole / "results").iterdir())
    part = tmp_path / "part"
    for least in (3, 15):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(part)], start_new_session=True)
        while len(list(part.glob("results/*.json"))) < least and process.poll() is None:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, "-c", KILLED, str(part)], check=True)
    assert sorted(f.name for f in (part / "results").iterdir() if f.suffix == ".json") == names
    for name in names:
        first, second = (json.loads(Path(folder, "results", name).read_text()) for folder in (whole, part))
        for row in (first, second):
            row.pop("seconds"), row.pop("wall")
        assert first == second


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_the_same_rows(by_one, spark):
    assert rows(ks.study(instances(), SOME, seeds=(0, 1), time_limit=20, spark=spark)) == rows(by_one[1])


def test_instances_of_ones_own_have_groups(monkeypatch):
    monkeypatch.setattr(GuardedPool, "run", lambda pool, tasks: ((task, task.run()) for task in tasks))
    ((_, one), (_, two)) = ks.family("madsen-allocation", nodes=4, key_groups=20, count=2)
    named = ks.study({"shop/monday": one, "shop/tuesday": two, "alone": one}, ["flux"])
    assert named.to_frame()["family"].tolist() == ["shop", "shop", "key-group-allocation"]
    assert named.summary()["solves"].tolist() == [2, 1]
    assert ks.study({"a": one, "b": two}, ["flux"], family="mine").summary()["solves"].tolist() == [2]
    given = ks.study({"a": one, "b": two}, ["flux"], family={"a": "x", "b": "y"})
    assert given.to_frame()["family"].tolist() == ["x", "y"]
    with pytest.raises(InputError, match="family has no entry for the instance 'b'"):
        ks.study({"a": one, "b": two}, ["flux"], family={"a": "x"})


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ([len, "flux"], "is a function: register it"),
        ({"mine": len}, "a mapping gives the methods of each problem, and no problem is called 'mine'"),
        (["potk"], "no problem has a method 'potk'"),
    ],
)
def test_functions_and_words_that_are_no_method(methods, said):
    with pytest.raises(InputError, match=said):
        ks.study(instances(), methods)
