"""The table of best known answers that is published: every objective by the check, every bound below it."""

from pathlib import Path

import pytest

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.catalogue.families import FAMILIES
from keyshift.studies.tables import BestKnown

TABLE = Path(__file__).parents[3] / "docs" / "benchmarks" / "best_known.csv"


@pytest.fixture(scope="module")
def known():
    return BestKnown.read(TABLE)


def test_there_are_four_hundred_instances_and_forty_of_every_problem(known):
    frame = known.to_frame()
    assert len(frame) >= 400
    assert frame["problem"].value_counts().reindex(list(FORMULATIONS), fill_value=0).min() >= 40
    assert frame["instance"].is_unique
    assert (frame["objective"].isna() | frame["objective_by"].ne("")).all()
    assert all(
        FAMILIES[family].problem == problem for problem, family in zip(frame["problem"], frame["family"], strict=True)
    )


def test_a_sample_of_the_answers_is_worth_what_the_table_says(known):
    ordered = sorted(known.entries.values(), key=lambda entry: entry.fingerprint)
    of_each = [[entry for entry in ordered if entry.problem == problem][:4] for problem in FORMULATIONS]
    entries = [entry for some in of_each for entry in some]
    assert min(map(len, of_each)) == 4
    assert [sentence for entry in entries for sentence in entry.wrong()] == []


@pytest.mark.slow
def test_every_answer_is_worth_what_the_table_says(known):
    assert known.wrong() == []


def test_what_is_wrong_in_a_table_is_said(tmp_path):
    table = tmp_path / "best.csv"
    drawn = ks.family("hard-step", kind="ties", count=2)
    assert ks.study(drawn, ["ssm"], best_known=table).update_best(table) == []
    assert BestKnown.read(table).wrong() == []
    lines = table.read_text().splitlines()
    cells = lines[1].split(",")
    worth = float(cells[4])
    for place, value, said in (
        (4, worth - 1, "the answer is worth"),
        (6, worth + 1, "is above the objective"),
        (3, "0" * 64, "draws another instance"),
    ):
        changed = [*cells[:place], str(value), *cells[place + 1 :]]
        table.write_text("\n".join([lines[0], ",".join(changed), *lines[2:]]) + "\n")
        assert any(said in sentence for sentence in BestKnown.read(table).wrong()), said
    table.write_text("\n".join(lines) + "\n")
    table.with_suffix(".answers.json").write_text("{}\n")
    assert all("no answer is kept" in sentence for sentence in BestKnown.read(table).wrong())
    table.with_suffix(".answers.json").write_text("[]\n")
    with pytest.raises(ks.InputError, match="one JSON object"):
        BestKnown.read(table)


def test_a_study_says_what_it_finds_better_than_the_table(tmp_path):
    table = tmp_path / "best.csv"
    drawn = list(ks.family("madsen-allocation", nodes=3, key_groups=12, count=2))
    ks.study(drawn, ["flux"], best_known=table).update_best(table)
    better = ks.study(drawn, ["milp"], effort=0.2, best_known=table)
    said = better.improvements()
    assert any("objective" in sentence and "(milp)" in sentence for sentence in said)
    assert better.update_best(table) == said
    assert ks.study(drawn, ["flux", "milp"], effort=0.2, best_known=table).improvements() == []
