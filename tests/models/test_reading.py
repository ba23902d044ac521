"""The one door for files: nothing that hangs, nothing that fills the memory, no half characters; and no other door."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.generators.mclb import read_counts
from keyshift.models.base.disk import parse_json, read_scenarios, write_text
from keyshift.models.base.yaml_text import parse_yaml
from keyshift.models.splitting.stream import PIECE, lines_of
from keyshift.studies.tables import BestKnown

ROOT = Path(__file__).parents[2]
DOORS = {"models/base/disk.py", "models/base/tables.py", "models/base/yaml_text.py"}
ALONE = {
    "interface/certificates/verify.py",
    "interface/engines/flink_partitioner.py",
    "interface/exercises/submission.py",
}
"""Programs that stand alone, without the package."""
READERS = {"read_text", "read_bytes", "load", "loads", "loadtxt", "genfromtxt", "fromfile", "read_csv", "read_json",
           "read_parquet", "read_pickle", "ParquetFile", "read_table", "read_metadata", "read_schema", "safe_load"}  # fmt: skip
CALLS = re.compile(rf"\b(?:open|{'|'.join(sorted(READERS))})\(")
"""What a text has in it that is worth parsing."""
LIBRARIES = {"json", "np", "numpy", "pd", "pandas", "pq", "yaml", "zipfile", "gzip", "Path", "path", "file"}


def reads_elsewhere(call: ast.Call) -> bool:
    """Whether a call opens a file to read it, by itself or through a library."""
    name = ast.unparse(call.func)
    head, _, last = name.rpartition(".")
    if (last == "open" and not head.startswith(("os", "memory", "store", "archive", "urllib"))) or name == "gzip.open":
        given = [*call.args[not head :], *(k.value for k in call.keywords if k.arg == "mode")]
        modes = [a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        return not modes or "r" in modes[0] or modes[0] in ("b", "t")
    if call.args and ast.unparse(call.args[0]).startswith("io.StringIO("):
        return False  # a text that is held already
    return last in READERS and (head.split(".")[0] in LIBRARIES or last in ("read_text", "read_bytes")) and head != ""


def test_no_file_is_opened_but_through_the_door():
    found = []
    for floor in ("models", "solvers", "heuristics", "spark_stats", "interface"):
        for path in sorted((ROOT / floor).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            text = path.read_text()
            if name in DOORS | ALONE or not CALLS.search(text):
                continue
            calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            found += [f"{name}:{call.lineno} {ast.unparse(call.func)}" for call in calls if reads_elsewhere(call)]
    assert [line for line in found if line.split(":")[0] not in SIZED] == []
    assert {line.split(":")[0] for line in found} == SIZED


SIZED = {"spark_stats/sources.py", "interface/files/table.py", "interface/report/drawings.py"}
"""The first two ask `size_of` before pyarrow opens a file by its name; the other reads scripts that come with the package."""


@pytest.mark.parametrize(
    "text", ["open(f)", "open(f, 'rb')", "path.open()", "path.open(encoding='utf-8')", "np.load(f)", "json.load(f)", "pd.read_csv(f)",
             "pq.ParquetFile(f)", "yaml.load(f, L)", "path.read_text()", "gzip.open(f, 'rt')", "file.parent.read_bytes()"],
)  # fmt: skip
def test_another_door_is_noticed(text):
    assert CALLS.search(text)
    assert reads_elsewhere(ast.parse(text).body[0].value)
    assert not any(
        reads_elsewhere(ast.parse(t).body[0].value) for t in ("f.open('wb')", "open(f, 'a')", "read_text(f, 3)")
    )


def place_workload(folder: Path, **more: object) -> str:
    content = {"load": [1, 2, 3, 4], "state": [1, 1, 1, 1], "current": [0, 0, 1, 1], "nodes": 2, **more}
    (folder / "w.json").write_text(json.dumps(content))
    return str(folder / "w.json")


def refused(line: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says, in one line, with exit code 2."""
    assert main(line) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("keyshift: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize("thing", ["pipe", "zero", "folder", "nowhere"])
@pytest.mark.parametrize("suffix", [".csv", ".json", ".npy"])
def test_scenarios_are_regular_files(tmp_path, capsys, suffix, thing):
    file = tmp_path / f"s{suffix}"
    {"pipe": os.mkfifo, "zero": lambda f: f.symlink_to("/dev/zero"), "folder": Path.mkdir, "nowhere": lambda f: None}[
        thing
    ](file)
    said = refused(["solve", place_workload(tmp_path), "--scenarios", str(file), "--over", "max"], capsys)
    assert "regular file" in said or "does not exist" in said or "directory" in said


def test_a_flipped_bit_in_an_array_is_one_sentence(tmp_path):
    np.save(tmp_path / "s.npy", np.arange(8.0).reshape(2, 4))
    good = (tmp_path / "s.npy").read_bytes()
    np.save(tmp_path / "t.npy", np.asfortranarray(np.arange(8.0).reshape(2, 4)))
    assert (read_scenarios(tmp_path / "t.npy") == np.arange(8.0).reshape(2, 4)).all()
    other = 0
    for bit in range(0, 128 * 8, 3):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "s.npy").write_bytes(flipped)
        try:
            read_scenarios(tmp_path / "s.npy")
        except ks.InputError:
            other += 1
    assert other > 200


@pytest.mark.parametrize(
    "text", ["1,2\n3", "a,b", "", "1,,2", "[[1,2],[3]]", '[["1"]]', "[[true]]", "[[" + "9" * 400 + "]]", "[[]]", "{}"]
)
def test_scenarios_are_tables_of_numbers(tmp_path, text):
    file = tmp_path / ("s.json" if text[:1] in "[{" and text else "s.csv")
    file.write_text(text)
    with pytest.raises(ks.InputError, match=r"(table|row) of numbers|line 2 has 1 numbers, line 1 has 2"):
        read_scenarios(file)


def test_a_list_of_nothing_is_refused_before_it_fills_the_memory():
    code = (
        "import resource, sys; from keyshift.models.base.disk import parse_json; import keyshift as ks\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for part in ('[],', '{},', '\"ab\",', '1,', '[[[]]],'):\n"
        "    try: parse_json('[' + part * (60_000_000 // len(part)) + '1]', 'x'); print('accepted', part)\n"
        "    except ks.InputError as error: assert 'MiB' in str(error), error\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(said) < 200  # the texts themselves; 1.7 GiB before


def test_a_hundred_megabytes_of_loads_are_still_read():
    text = "[" + ",".join(["123456.789012345"] * 60_000) + "]"
    assert len(parse_json(text, "x")) == 60_000
    parse_json(" " * 100_000_000 + "1", "x")


@pytest.mark.parametrize("name", ['"\\ud800"', '"a\\udc00b"', '"\\udc00\\ud800"'])
def test_half_a_character_is_refused_at_the_door(tmp_path, capsys, name):
    path = Path(place_workload(tmp_path))
    path.write_text(path.read_text()[:-1] + f', "keys": [{name}, "b", "c", "d"]}}')
    for line in (
        ["solve", str(path), "--all"],
        ["explain", str(path)],
        ["plan", str(path), "--report", str(tmp_path / "r.html")],
    ):
        assert "half of a character" in refused(line, capsys)
    assert parse_json('"\\ud83d\\ude00 \\\\ud800"', "x") == "\U0001f600 \\ud800"
    with pytest.raises(ks.InputError, match="half of a character"):
        ks.Workload(load=[1.0], state=[1.0], current=[0], nodes=1, keys=["\ud800"])
    with pytest.raises(ks.InputError, match="half of a character"):
        parse_yaml('a: "\\ud800"', "x")
    with pytest.raises(ks.InputError, match="half of a character"):
        write_text(tmp_path / "x", "\udfff")


def test_fractions_without_end_are_refused(tmp_path, capsys):
    w = ks.Workload(load=[1, 2, 3, 4], state=[1, 1, 1, 1], current=[0, 0, 1, 1], nodes=2)
    ks.solve(ks.IntervalMigration(w, 3, 1)).save(tmp_path / "s.json")
    content = json.loads((tmp_path / "s.json").read_text())
    content["problem"]["parameters"]["tau"] = {"fraction": "1e99999999"}
    (tmp_path / "s.json").write_text(json.dumps(content))
    with pytest.raises(ks.InputError, match="finite number"):
        ks.read_solution(tmp_path / "s.json")
    assert "finite number" in refused(["certify", str(tmp_path / "s.json")], capsys)
    assert "finite number" in refused(
        ["solve", place_workload(tmp_path), "-p", "interval-migration", "--nodes-after", "3", "--tau", "'1e99999999'"],
        capsys,
    )
    with pytest.raises(ks.InputError, match="finite number"):
        ks.IntervalMigration(w, 3, "1e99999999")
    assert ks.IntervalMigration(w, 3, "5/4").tau == 1.25


def test_the_other_readers_go_through_the_door(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.parquet")
    w = ks.Workload(load=[1, 2], state=[1, 1], current=[0, 1], nodes=2)
    for read in (
        lambda: BestKnown.read(tmp_path / "pipe.csv"),
        lambda: read_counts(tmp_path / "pipe.csv"),
        lambda: ks.KeySplitting(tmp_path / "pipe.parquet", workers=2),
        lambda: ks.KeySplitting(tmp_path, workers=2),
        lambda: ks.model(ks.KeyGroupAllocation(w, max_migrations=1)).read(tmp_path / "pipe.csv"),
    ):
        with pytest.raises(ks.InputError, match="regular file"):
            read()
    assert "regular file" in refused(["verify", str(tmp_path / "pipe.csv")], capsys)


def test_lines_of_any_length_below_a_limit(tmp_path):
    lines = ["a" * 5000, "", "b" * (PIECE - 3), "\u00e9" * 400_000, "end"]
    (tmp_path / "s.txt").write_text("\n".join(lines))
    assert [line for part in lines_of(tmp_path / "s.txt") for line in part] == lines
    (tmp_path / "s.txt").write_bytes(b"a" * 3 * PIECE)
    with pytest.raises(ks.InputError, match="a line of more than"):
        list(lines_of(tmp_path / "s.txt"))


def test_a_result_that_is_none_is_one_sentence(tmp_path):
    w = ks.Workload(load=[4, 2, 1], state=[1, 1, 1], current=[0, 0, 0], nodes=2)
    asked = {"a": ks.KeyGroupAllocation(w, max_migrations=1)}
    ks.study(asked, ["flux"], out=tmp_path)
    (result,) = (tmp_path / "results").iterdir()
    for text in ("{}", "[]", "null", "", '{"instance": 3}', "[" * 200_000, '{"objective": 1e999}'):
        result.write_text(text)
        with pytest.raises(ks.InputError, match="the study makes it anew"):
            ks.study(asked, ["flux"], out=tmp_path)


def test_a_best_known_answer_that_cannot_be_is_bad_input(tmp_path, capsys):
    line = ["study", "hard-step", "-m", "ssm", "--best", str(tmp_path / "best.csv")]
    assert main([*line, "--update-best"]) in (0, 1)
    capsys.readouterr()
    rows = (tmp_path / "best.csv").read_text().splitlines()
    cells = rows[1].split(",")
    assert rows[0].split(",")[6] == "bound"
    cells[6], cells[7] = "1e300", "somebody"
    (tmp_path / "best.csv").write_text("\n".join([rows[0], ",".join(cells)]) + "\n")
    assert "contradicts what was found" in refused(line, capsys)


def test_a_table_of_best_known_answers_is_read_line_by_line(tmp_path):
    heads = "problem,family,instance,fingerprint,objective,objective_by,bound,bound_by,version"
    file = tmp_path / "best.csv"
    for text, said in (("," * 4_000_000, "has two columns"), ("a,b", "must have the columns"), (f"{heads}\na,b,c,d,1,e,1,f,g,h", "line 2 has 10 cells"),
                       (f"{heads}\na,b,c,d,x,e,1,f,g", "line 2: objective of 'c'"), (f"{heads}\n\na,b,c,d,x,e,1,f,g", "line 3: objective"), (f"{heads}\na,b,c,d,1,e,inf,f,g", "no finite number"),
                       (f'{heads}\n"a', "not a readable table"), ("", "begins with an empty line")):  # fmt: skip
        file.write_text(text)
        with pytest.raises(ks.InputError, match=said):
            BestKnown.read(file)
    file.write_text(f"{heads}\na,b,c,d,1.5,e,,f,g\n")
    entry = BestKnown.read(file).of("d")
    assert (entry.objective, entry.bound) == (1.5, None)
