"""Tables as people have them: a CSV with any usual names, a Parquet file, a data frame."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.models.base.frames import USUAL

BROKERS = 'partition_id,CPU (%),size_bytes,broker_id,zone\n007,3,10,10,"a, b"\n7,2,20,2,"a, b"\n08,1.5,5,9,c\n'


@pytest.fixture
def file(tmp_path):
    def made(text, name="instance.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return made


def test_columns_are_found_and_names_stay_names(file):
    w = ks.read_workload(file(BROKERS))
    assert w.keys == ("007", "7", "08")
    assert [str(w.node(i)) for i in range(w.nodes)] == ["2", "9", "10"]
    assert w.last_load.tolist() == [3, 2, 1.5]
    assert w.state.tolist() == [10, 20, 5]
    assert w.units == {"state": "bytes"}
    assert [str(w.node(i)) for i in w.current] == ["10", "2", "9"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("load", ["load", "Weight", "cpu_percent", "msg.rate", "bytesInRate", "Load [tuples/s]"])
@pytest.mark.parametrize("node", ["node", "currentNode", "worker id", "Host"])
def test_usual_names_in_any_writing(file, separator, load, node):
    rows = [["key_group", load, "state size", node], ["0", "3", "1", "0"], ["1", "4", "2", "39"]]
    rows.append([""] * 4)
    w = ks.read_workload(file("\r\n".join(separator.join(row) for row in rows)), nodes=40)
    assert (w.nodes, w.current.tolist(), w.last_load.tolist(), w.state.tolist()) == (40, [0, 39], [3, 4], [1, 2])


def test_topics_windows_and_labels(file):
    text = "topic,partition,load_10,load_2,size,leader,rack\nt,0,1,2,3,1,z\nt,1,2,2,3,10,z\nu,0,9,2,3,2,y\n"
    w = ks.read_workload(file(text), domains=["rack"], groups=["topic"])
    assert w.keys == ("t-0", "t-1", "u-0")
    assert w.load.tolist() == [[2, 2, 2], [1, 2, 9]]
    assert w.domains["rack"] == ("z", "y", "z")
    assert ks.read_workload(file(text), last=1).load.tolist() == [[1, 2, 9]]


@pytest.mark.parametrize(
    ("text", "named", "sentence"),
    [
        ("key,cpu,rate,state,node\na,1,2,3,0\n", {}, "columns 'cpu' and 'rate' may both be the load: name it by load="),
        ("key,cpu,node\na,1,0\n", {}, "no column has a usual name of state.* or a number"),
        ("key,cpu,state\na,1,0\n", {}, "no column has a usual name of node"),
        ("key,cpu,state,node\na,1_0,3,0\n", {}, "column 'cpu', line 2: '1_0' is not a number"),
        ("key,cpu,state,node\na,,3,0\n", {}, "column 'cpu' has no value in line 2"),
        ("key,cpu,cpu,node\na,1,3,0\n", {}, "has two columns 'cpu'"),
        ("key,cpu,state,node\na,1,3\n", {}, "line 2 has 3 cells, line 1 names 4 columns"),
        ("\ufeffsep=,\nkey,cpu,state,node\na,1,3,0\n\n,,,\nb,1,3\n", {}, "line 6 has 3 cells, line 2 names 4 columns"),
        ("key,cpu,state,node\n\n# from 8 to 9\na,1,3,0\nb,x,3,0\n", {}, "column 'cpu', line 5: 'x' is not a number"),
        ('key,cpu,state,node\n"a\nb",1,3,0\nb,,3,0\n', {}, "column 'cpu' has no value in line 4"),
        ("key,cpu,state,node\na,1,3,0\n\nb,-1,3,0\n", {}, r"load\[0, 1\] = -1 must not be negative \(line 4\)"),
        ("key,cpu,state,node\na,1,3,0\n\na,1,3,0\n", {}, r"keys\[1\] = 'a' is a duplicate of keys\[0\] \(line 4\)"),
        ("key,cpu,state,node\na,1,3,0\n\nb,1,3,7\n", {"nodes": [0]}, "column 'node', line 4: node '7' is not known"),
        ('key,cpu,state,node\n"a,1,3,0\n', {}, r"not a readable table \(line 2: unexpected end of data\)"),
        (
            'key,cpu,state,node\na,"3,5",1,0\n',
            {},
            "column 'cpu', line 2: '3,5' has a comma: decimal commas are read where",
        ),
        ("key\tcpu\tstate\tnode\na\t3,5\t1\t0\n", {}, "column 'cpu', line 2: '3,5' has a comma"),
        (
            "key;cpu;state;node\na;1.234,5;1;0\n",
            {},
            "line 2: '1.234,5': some numbers of this file have commas and some",
        ),
        ("key;cpu;state;node\na;3,5;1;0\nb;2;1.5;0\n", {}, "column 'state', line 3: '1.5': some numbers"),
        ("key;cpu;state;node\na;1,234,567;1;0\n", {}, "line 2: '1,234,567' is not a number"),
        (
            "key,cpu,state,node\na,1,3,0\n#b,2,3,1\n",
            {},
            "line 3 begins with # and has a cell for each column: delete it",
        ),
        ("\n", {}, "begins with an empty line"),
        ("key,cpu,state,node\na,1,3,b7\n", {"nodes": 2}, "the table names 1 node, not 2: give the names of all"),
        ("key,cpu,state,node\na,1,3,07\n", {"nodes": ["7"]}, "node '07' is not known; there is '7'"),
        ("key,cpu,state,node\na,1,3,0\n", {"load": "weight"}, "no column 'weight'"),
    ],
)
def test_what_is_wrong_is_one_sentence(file, text, named, sentence):
    with pytest.raises(ks.InputError, match=sentence) as said:
        ks.read_workload(file(text), **named)
    assert str(said.value).startswith(str(file(text)))
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("text", "keys", "loads"),
    [
        (
            "sep=;\r\nkey;cpu;state;node\r\na;3,5;1;0\r\n1,5;-0;0,25;1\r\n",
            ("a", "1,5"),
            [3.5, 0],
        ),  # a name stays a name
        ('"sep=|"\nkey|cpu|state|node\na|3.5|1|0\nb|2|1|0\n', ("a", "b"), [3.5, 2]),
        ("key;cpu;state;node\n1,5;3.5;1;0\n", ("1,5",), [3.5]),
        ("# by hand; 3\n\n# more, 4\nkey,cpu,state,node\n# between\na,1,3,0\n", ("a",), [1]),
        ("#key,cpu,state,node\na,1,3,0\n", ("a",), [1]),
        ("# made by hand\n# key,cpu,state,node\na,1,3,0\n", ("a",), [1]),
        ("key,cpu,state,node\n#a,1,3,0\n#b,2,3,1\n", ("#a", "#b"), [1, 2]),
        ('key,cpu,state,node\na,1,3,0\n"#b",2,3,1\n', ("a", "#b"), [1, 2]),
    ],
)
def test_decimal_commas_separators_and_comments(file, text, keys, loads):
    w = ks.read_workload(file(text))
    assert (w.keys, w.last_load.tolist()) == (keys, loads)


def test_any_frame_and_parquet_say_the_same(file, tmp_path):
    frame = pd.read_csv(file(BROKERS), dtype={"partition_id": str})
    frame.to_parquet(tmp_path / "t.parquet")
    whole, read = ks.Workload.from_frame(frame), ks.read_workload(tmp_path / "t.parquet")
    assert whole.keys == read.keys == ("007", "7", "08")
    assert np.array_equal(whole.current, read.current)
    again = ks.Workload.from_frame(whole.to_frame())
    assert (again.keys, again.current.tolist()) == (whole.keys, whole.current.tolist())
    with pytest.raises(ks.InputError, match=r"write Workload\.from_frame\(table\)"):
        ks.Workload(frame)
    with pytest.raises(ks.InputError, match="write each by its name, such as load="):
        ks.Workload([1, 2], [1, 1], [0, 0], 2)


@pytest.mark.parametrize("line", ["solve", "compare", "plan", "explain", "remedies", "model", "certify"])
def test_every_command_takes_a_table(file, line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a certificate is written where one is
    words = {"plan": ["--max-migrations", "1"], "remedies": ["--max-migrations", "0"], "compare": ["--time-limit", "1"]}
    assert main([line, str(file(BROKERS)), "--nodes", "2,9,10,11", *words.get(line, []), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out) is not None


def test_options_name_columns_and_import_says_which(file, tmp_path, capsys):
    text = BROKERS.replace("CPU (%)", "x")
    assert main(["solve", str(file(text))]) == 2
    assert "name it by --load, one of" in capsys.readouterr().err
    assert main(["solve", str(file(BROKERS.replace('10,"a', 'b1,"a'))), "--nodes", "4"]) == 2
    assert "give the names of all, as --nodes 2,9,b1,..." in capsys.readouterr().err
    out = tmp_path / "w"
    assert (
        main(
            [
                "import",
                "table",
                str(file(text)),
                "--load",
                "x",
                "--state",
                "1",
                "--key",
                "partition_id",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "load from x" in said
    assert "Not read: size_bytes, zone." in said
    assert ks.read_workload(out).state.tolist() == [1, 1, 1]
    assert main(["solve", str(out), "--load", "x"]) == 2
    assert main(["import", "table", str(out), "--out", str(tmp_path / "v")]) == 2


def test_no_word_means_two_roles():
    words = [word for some in USUAL.values() for word in some]
    assert len(words) == len(set(words))
