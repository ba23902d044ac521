"""No topology runs code: what is refused, before Spark starts and again by Spark's own reading, and what is taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.spark_stats import Operator, Topology, collect, expressions
from keyshift.spark_stats.acceptance import Log

ROOT = Path(__file__).resolve()
while not (ROOT / "pyproject.toml").exists():
    ROOT = ROOT.parent

HOSTILE = {
    "reflection": "reflect('java.lang.System', 'getenv', 'HOME')",
    "java method": "java_method('java.lang.Runtime', 'getRuntime')",
    "try reflection": "try_reflect('java.lang.System', 'load', '/tmp/x.so')",
    "capitals": "REFLECT('java.lang.System', 'getenv', 'HOME')",
    "back quotes": "`reflect`('java.lang.System', 'getenv', 'HOME')",
    "blanks": "reflect \n ('java.lang.System', 'getenv', 'HOME')",
    "a comment between": "reflect/**/('java.lang.System', 'getenv', 'HOME')",
    "a comment that hides a quote": "1 -- \\\n'\n + reflect('java.lang.System', 'getenv', 'HOME')",
    "a raw text that hides a quote": "concat(r'\\', reflect('java.lang.System', 'getenv', 'HOME'), r'\\')",
    "a dollar quote": "concat($$'$$, reflect('java.lang.System', 'getenv', 'HOME'), $$'$$)",
    "qualified": "system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "an identifier clause": "IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv', 'HOME')",
    "nested": "upper(concat('a', reflect('java.lang.System', 'getenv', 'HOME')))",
    "in a lambda": "transform(array(1), x -> reflect('java.lang.System', 'getenv', 'HOME'))",
    "in a condition": "CASE WHEN reflect('java.lang.System', 'getenv', 'HOME') = 'a' THEN 1 END",
    "a file": "(SELECT first(value) FROM text.`/etc/passwd`)",
    "a file without SELECT": "(FROM text.`/etc/passwd`)",
    "a file, long s": "(\u017fELECT first(value) FROM text.`/etc/passwd`)",
    "a table": "(TABLE secrets)",
    "values": "(VALUES (1))",
    "exists": "EXISTS (SELECT 1 FROM csv.`/etc/passwd`)",
    "in a query": "key IN (SELECT value FROM text.`/etc/passwd`)",
    "from in a trim": "trim((FROM text.`/etc/passwd`) FROM key)",
    "a script": "(SELECT TRANSFORM(key) USING 'sh' AS (a) FROM log)",
    "the environment": "'${env:HOME}'",
    "a system property": "concat('${system:user.home}', key)",
    "xml": "xpath_string('<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>', 'a')",
    "the name of the file": "input_file_name()",
    "protobuf": "from_protobuf(key, 'Message', '/etc/passwd')",
    "avro": "from_avro(key, '{}')",
    "a user's function": "my_python_udf(key)",
    "an aggregate": "sum(key)",
    "any": "any(key)",
    "a window": "row_number() OVER (ORDER BY key)",
    "many rows": "explode(array(1, 2))",
    "chance": "rand()",
    "a clock": "current_timestamp()",
    "a clock without parentheses": "current_date",
    "who": "current_user",
    "a bomb": "repeat('a', 2000000000)",
    "too long": "1" + " + 1" * 5000,
    "an open quote": "concat('a, b)",
    "a number called": "1.reflect('a')",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("part", ["key", "filter"])
def test_a_topology_that_could_run_code_is_refused_when_it_is_read(text, part):
    operator = {"name": "a", "key": "k", part: text}
    with pytest.raises(ks.InputError, match=f"operator 'a': {part} = .*(is refused|cannot be read)"):
        Topology.from_dict({"operators": [operator]})
    assert Topology([Operator(**operator)], trust=True).names == ("a",)


def test_no_file_can_ask_for_trust(tmp_path, capsys):
    (tmp_path / "t.yaml").write_text("trust: true\noperators: [{name: a, key: \"reflect('a', 'b')\"}]\n")
    assert main(["stats", str(tmp_path), "--topology", str(tmp_path / "t.yaml"), "-o", str(tmp_path / "out")]) == 2
    assert "a topology has operators and edges, not 'trust'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "option", [["--time", HOSTILE["reflection"]], ["--schema", "a string DEFAULT reflect('a', 'b')"]]
)
def test_neither_time_nor_schema_runs_code(tmp_path, capsys, option):
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: k}]\n")
    line = ["stats", str(tmp_path), "--topology", str(tmp_path / "t.yaml"), "-o", str(tmp_path / "out")]
    assert main([*line, "--format", "json", *option]) == 2
    assert "is refused" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_every_expression_of_docs_tests_and_benchmarks_is_taken():
    """Whatever stands as key=, filter=, cost=, state=, bytes= or time= of an operator in this repository."""
    found = set()
    for folder in ("docs", "tests", "benchmarks", "interface", "README.md"):
        place = ROOT / folder
        for file in [place] if place.is_file() else [f for end in ("*.md", "*.py") for f in place.rglob(end)]:
            if file.name == Path(__file__).name:
                continue
            text = file.read_text(encoding="utf-8")
            for call in re.finditer(r"Operator\((.*?)\)\s*(?:,|\]|$)", text, re.DOTALL):
                found |= set(re.findall(r"\b(?:key|filter|cost|state|bytes)=\"([^\"{}]+)\"", call[1]))
    assert len(found) > 15
    shown_refused = {"reflect('java.lang.System', 'getenv', 'HOME')"}  # the lesson shows what happens to it
    for text in sorted(found - shown_refused):
        expressions.check_text("key", text)


GOOD = [
    "extract(year FROM ts)", "trim(BOTH ' ' FROM name)", "cast(x AS decimal(10, 2))", "x::int", "a.b.c", "m['k']",
    "CASE WHEN x > 0 THEN (x) ELSE (0) END", "x IN (1, 2)", "`select`", "`odd name`", "concat('it''s', \"x\", 'a\\'b')",
    "try_divide(c, 0)", "r'\\d'", "x BETWEEN 1 AND (2)", "NOT (x = 1)", "date_trunc('hour', ts)", "filter(a, v -> v > 1)[0]",
    "get_json_object(body, '$.user')", "interval '1' day + ts", "timestamp '2015-09-11 00:00:00'", "-x", "1e3", "name LIKE 'a%'",
]  # fmt: skip


def test_what_people_write_is_taken():
    for text in GOOD:
        expressions.check_text("key", text)


@pytest.mark.spark
def test_sparks_own_reading_refuses_the_same(spark, monkeypatch):
    """The second and third check alone: as if the scanner had been fooled."""
    monkeypatch.setattr("keyshift.spark_stats.acceptance.check_text", lambda what, text: None)
    log = Log(spark.range(1).selectExpr("cast(id as string) as key", "'x' as my_key"))
    substituted = {
        "the environment",
        "a system property",
    }  # Spark puts the value in before it reads: the scanner's task
    taken = {"too long", "a bomb"} | substituted
    assert {name for name, text in HOSTILE.items() if _passes(log, text)} <= taken
    spark.udf.register("lower", lambda text: "mine", "string")
    try:  # a function of the session under the name of a built-in one: refused, or not the one that is called
        assert not _passes(log, "lower(my_key)") or log.frame.selectExpr("lower(my_key)").collect()[0][0] == "x"
    finally:
        spark.sql("DROP TEMPORARY FUNCTION lower")
    assert not _passes(log, "user")  # no such column: it would be the session's user


def _passes(log, text):
    try:
        log.column("key", text)
    except ks.InputError:
        return False
    return True


@pytest.mark.spark
def test_trust_is_for_python_alone(spark):
    events = spark.range(3).selectExpr("id as key")
    operator = Operator("a", key="reflect('java.lang.String', 'valueOf', key)")
    with collect(events, Topology([operator], trust=True)) as stats:
        assert stats.workload(nodes=1).load.sum() == 3


GROWING = {
    "lpad": "lpad(key, 2000000000, 'x')",
    "rpad by a column": "rpad(key, n, 'x')",
    "format_number": "format_number(n, 2000000000)",
    "nested replace": "replace(" * 4 + "key" + f", 'a', '{'a' * 80}')" * 4,
    "replace by itself": "replace(" * 4 + "key" + ", 'a', key)" * 4,
    "nested hex": "hex(" * 30 + "key" + ")" * 30,
    "nested regexp": "regexp_replace(" * 9 + "key" + ", 'a|b', '0123456789')" * 9,
}
FINE = ["lpad(key, 12, '0')", "format_number(n, 2)", "replace(replace(replace(key, 'a', ''), '-', '_'), ' ', '')", "hex(key)",
        "upper(regexp_replace(key, '[^a-z]+', '-'))", "concat(key, ':', rpad(lower(key), 20, ' '))"]  # fmt: skip


def test_what_is_nested_beyond_reason_is_refused_without_spark():
    with pytest.raises(ks.InputError, match="nested more than 100 deep"):
        expressions.check_text("key", "hex(" * 101 + "k" + ")" * 101)


@pytest.mark.spark
def test_a_few_letters_do_not_fill_the_memory(spark):
    log = Log(spark.range(1).selectExpr("cast(id as string) as key", "cast(id as int) as n"))
    for text in GROWING.values():
        with pytest.raises(ks.InputError, match="fill the memory"):
            log.column("key", text)
    for text in FINE:
        log.column("key", text)


@pytest.mark.spark
def test_no_variable_of_the_session_is_read(spark):
    spark.sql("DECLARE OR REPLACE VARIABLE hidden STRING DEFAULT 'secret'")
    try:
        log = Log(spark.range(1).selectExpr("cast(id as string) as key"))
        for text in ("session.hidden", "hidden", "system.session.hidden", "concat(key, session.hidden)"):
            with pytest.raises(ks.InputError, match=r"has no column|needs more than one row"):
                log.column("key", text)
        fields = Log(spark.range(1).selectExpr("named_struct('hidden', 'x') as session"))
        fields.column("key", "session.hidden")
    finally:
        spark.sql("DROP TEMPORARY VARIABLE hidden")
