"""Malformed command lines: every parameter of every problem, method and command, with texts that cannot be meant."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import keyshift as ks
from hostile.refusals import Case
from keyshift.catalogue import FORMULATIONS

NEVER = {
    "open list": "[[[", "alias": "*a", "python": "!!python/object/apply:os.system [id]", "5000 digits": "9" * 5000,
    "bomb": "[&a [x, x], &b [*a, *a, *a, *a, *a, *a, *a, *a], " + ", ".join(
        f"&{chr(c + 1)} [{', '.join([f'*{chr(c)}'] * 9)}]" for c in range(ord("b"), ord("k"))) + "]",
    "deep": "[" * 1000 + "]" * 1000, "date": "2020-01-01", "object": "{a: 1}", "key twice": "{a: 1, a: 2}",
}  # fmt: skip
"""Nothing takes these, but a parameter that is a text."""

WRONG = {
    "int": {"half": "1.5", "word": "abc", "list": "[1, 2]", "minus": "-7", "true": "true", "infinity": ".inf", "nan": ".nan",
            "30 digits": "1" * 30, "quoted": "'3'", "power": "1e400", "hexadecimal": "0xzz"},
    "float": {"word": "abc", "list": "[1, 2]", "true": "true", "nan": ".nan", "quoted": "'3'", "infinity": ".inf", "minus": "-7"},
    "bool": {"word": "nonsense", "half": "1.5", "seven": "7", "list": "[true]", "null": "null"},
    "Literal": {"word": "nonsense", "half": "1.5", "list": "[a]", "true": "true"},
    "Mapping[str": {"number": "-1", "word": "abc", "list": "[1]", "text in it": "{memory: x}", "deeper": "{memory: [1, [2]]}",
                    "key": "{[1]: 2}", "minus": "{memory: -3}", "stranger": "{disk: 2}", "nan": "{memory: .nan}"},
    "Sequence": {"word": "abc", "zero": "0", "minus": "[2, -1]", "half": "[1.5]", "mixed": "4,x", "empty": "[]", "true": "true"},
    "Transitions": {"number": "3", "empty": "{}", "no row": "{2: 3}", "half": "{2: {2: 0.5}}", "word": "{a: {2: 1}}",
                    "text": "{2: {2: x}}", "minus": "{2: {2: -1}}", "no such row": "{2: {3: 1}}", "list": "[1]", "word alone": "abc"},
    "workers": {"word": "abc", "minus": "-3", "zero": "0", "half": "1.5", "zero speed": "[0, 1]", "text": "[a]", "nan": "[.nan]"},
    "tuple": {"number": "3", "word": "abc", "short": "[1]", "text": "[a, b]", "minus": "[-1, 2]"},
}  # fmt: skip
"""By what an annotation says; a key stands for every annotation that contains it."""

SIGNED = {"theta", "beta"}
"""Parameters that may be negative."""

GIVEN = {
    "movement-within-limits": ["--lower=0.5", "--upper=1.5"], "interval-migration": ["--nodes-after=2", "--tau=1"],
    "migration-sequence": ["--node-counts=[2]", "--tau=1"],
    "migration-policy": ["--transitions={2: {2: 1}}", "--tau=1", "--discount=0.5"],
}  # fmt: skip
"""What the problem needs beside the parameter that is wrong."""


def workload() -> ks.Workload:
    return ks.Workload(
        load=[4, 3, 2, 1], state=[3, 1, 4, 1], current=[0, 0, 1, 1], nodes=2, traffic=[[0, 1, 0, 2]] * 4, home=[0, 1, 0, 1],
        resources={"memory": [1, 2, 3, 1]},
    )  # fmt: skip


def place(folder: Path) -> None:
    """The files that the lines name."""
    ks.write_workload(workload(), folder / "w.json")
    pq.write_table(pa.table({"key": ["a", "b", "a", "c"]}), folder / "s.parquet")
    (folder / "a.json").write_text("[0, 0, 1, 1]")


def line(words: list[str], folder: Path) -> list[str]:
    place(folder)
    return words


def case(kind: str, name: str, words: list[str], expect: str = "refused") -> Case:
    return Case(f"line: {kind}", name, partial(line, words), expect)


def file_of(problem: str) -> str:
    return "s.parquet" if problem in ("key-splitting", "key-placement") else "w.json"


@lru_cache
def _annotations(function: Any) -> dict[str, str]:
    return {name: str(p.annotation) for name, p in inspect.signature(function).parameters.items()}


def wrong_for(name: str, annotation: str) -> Iterator[tuple[str, str, str]]:
    """(what, text, expectation) for a parameter."""
    kinds = {
        "Whole": "int",
        "Count": "int",
        "Threads": "int",
        "NonNegative": "float",
        "Positive": "float",
        "Finite": "float",
    }
    for word, kind in kinds.items():
        annotation = annotation.replace(word, kind)
    if name == "workers":
        annotation = "workers"
    takes_text = annotation in ("str", "str | None") or "Any" in annotation or "| str" in annotation
    for what, text in NEVER.items():
        yield what, text, "anything said" if takes_text else "refused"
    starts = sorted((key for key in WRONG if annotation.startswith(key)), key=len)
    for what, text in WRONG[starts[-1]].items() if starts else ():
        fine = (what == "minus" and name in SIGNED) or (what == "quoted" and "Fraction" in annotation)
        yield what, text, "anything said" if fine else "refused"


def problem_parameters() -> Iterator[Case]:
    for problem, formulation in FORMULATIONS.items():
        known = list(_annotations(formulation.problem_class).items())[1:]
        given = GIVEN.get(problem, [])
        default = formulation.methods[-1].name
        for name, annotation in known:
            flag = "--" + name.replace("_", "-")
            rest = [g for g in given if not g.startswith(flag + "=")]
            for what, text, expect in wrong_for(name, annotation):
                words = ["solve", file_of(problem), "-p", problem, "-m", default, *rest, f"{flag}={text}"]
                yield case("problem's parameter", f"{problem} {name} {what}", words, expect)
            words = ["solve", file_of(problem), "-p", problem, *given]
            if any(g.startswith(flag + "=") for g in given):
                yield case("parameter missing", f"{problem} {name}", ["solve", file_of(problem), "-p", problem, *rest])
            else:
                good = {"int": "1", "float": "1", "bool": "true"}.get(annotation.split(" ")[0])
                if good:
                    yield case("parameter twice", f"{problem} {name}", [*words, flag, good, flag, good])
        for stranger in (
            "--max-moves=3",
            "please",
            "-x",
            "--workload=w.json",
            "--=3",
            "---alpha=1",
            "--alpha\u0000=2",
        ):
            words = ["solve", file_of(problem), "-p", problem, "-m", default, *given, stranger]
            yield case("unknown parameter", f"{problem} {stranger!r}", words)


def method_options() -> Iterator[Case]:
    for problem, formulation in FORMULATIONS.items():
        given = GIVEN.get(problem, [])
        for method in formulation.methods:
            start = ["solve", file_of(problem), "-p", problem, *given, "-m", method.name, "--set"]
            annotations = _annotations(method.function)
            for name in method.options:
                for what, text, expect in wrong_for(name, annotations[name]):
                    yield case(
                        "method's option", f"{problem} {method.name} {name} {what}", [*start, f"{name}={text}"], expect
                    )
                yield case(
                    "option twice", f"{problem} {method.name} {name}", [*start, f"{name}=1", "--set", f"{name}=1"]
                )
            for odd in ("speed=9", "speed", "=3", "", "problem=1", "budget=1", "seed=2", "start=[0]", "__class__=1"):
                yield case("unknown option", f"{problem} {method.name} {odd!r}", [*start, odd])


def shared_options() -> Iterator[Case]:
    """The options that Typer reads."""
    bad_whole = ["abc", "1.5", "-7", "1" * 30, "", "nan", "true", "[1]", "1e3", "0x1f"]
    bad_real = ["abc", "-1", "nan", "inf", "-inf", "", "1e999", "[1]", "true"]
    commands: dict[str, list[str]] = {
        "solve": ["solve", "w.json", "-m", "flux"], "compare": ["compare", "w.json", "-m", "flux"],
        "pareto": ["pareto", "w.json", "--points", "2"],
        "replay": ["replay", "w.json", "-p", "key-group-allocation", "-m", "flux"],
    }  # fmt: skip
    for command, words in commands.items():
        for text in bad_whole:
            yield case("shared option", f"{command} seed {text!r}", [*words, "--seed", text])
        for text in bad_real:
            fine = text in ("inf", "1e999")  # for ever
            words_with = [*words, f"--time-limit={text}"]
            yield case(
                "shared option", f"{command} time-limit {text!r}", words_with, "anything said" if fine else "refused"
            )
        for odd in ("sudoku", "", "key group allocation", "../mclb", "1"):
            yield case("unknown problem", f"{command} {odd!r}", [*words, "-p", odd])
            yield case(
                "unknown method",
                f"{command} {odd!r}",
                [*words, "-m", odd] if command != "pareto" else [*words, "--method", odd],
            )
        for path in (
            "nowhere",
            "nowhere.json",
            "",
            ".",
            "/",
            "/dev/null",
            "/dev/zero",
            "/proc/self/mem",
            "a\u0000b",
            "x" * 5000,
            "s.parquet",
            "a.json",
        ):
            yield case("unreadable file", f"{command} {path[:20]!r}", [words[0], path, *words[2:]])
        yield case("no file", command, [words[0]])
        yield case("option without value", command, [*words, "--seed"])
    numbers = {
        "points": ["-1", "1", "100000", "1" * 30, "x", "1.5"],
        "workers": ["0", "-1", "100000", "x", "1.5", "1" * 30],
    }
    for name, texts in numbers.items():
        for text in texts:
            yield case("pareto", f"{name} {text}", ["pareto", "w.json", f"--{name}", text])
    for problem in sorted(set(FORMULATIONS) - {"key-splitting", "key-placement"}):
        trades = FORMULATIONS[problem].trades
        line = ["pareto", "w.json", "-p", problem, *GIVEN.get(problem, [])]
        yield case("pareto", f"of {problem}", [*line, "--against", "beauty"] if trades else line)
    for out in ("/dev/null/x", "/proc/x", "nowhere/f.json", "/", ".", "w.json", "\u0000"):
        yield case("output", f"pareto checkpoint {out!r}", ["pareto", "w.json", "--points", "2", "--checkpoint", out])
        if out != "nowhere/f.json":
            yield case("output", f"replay out {out!r}", [*commands["replay"], "--out", out])
        if out != "w.json":  # a workload that keyshift wrote is replaced
            words = ["generate", "allocation", out, "--nodes", "2", "--key-groups", "4"]
            yield case("output", f"generate {out!r}", words)
        yield case("output", f"plot {out!r}", ["compare", "w.json", "-m", "flux", "--plot", out])


def replays() -> Iterator[Case]:
    start = ["replay", "w.json", "-p", "key-group-allocation", "-m", "flux"]
    whole, real = ["abc", "1.5", "-1", "1" * 30], ["abc", "-1", "nan", "inf"]
    for name, texts in {"periods": whole, "memory": whole, "nodes": [*whole, "0", "3"]}.items():
        for text in texts:
            yield case("replay", f"{name} {text}", [*start, f"--{name}", text])
    for name in ("horizon", "every", "counts-ahead"):
        for text in (*whole, "0"):
            yield case("replay", f"{name} {text}", [*start, f"--{name}", text, "--node-counts", "2"])
    for name, texts in {
        "forecast": [
            "abc",
            "mean:0",
            "mean:" + "1" * 30,
            "ewma:nan",
            "ewma:0",
            "seasonal:-1",
            "quantile:2",
            "last:1",
            "mean:1:1",
        ],
        "capacity": ["load", "load=abc", "load=nan", "disk=1", "load=0"],
        "node-counts": ["abc", "0", "1,,2", "-1", ""],
        "resource": ["abc", ""],
    }.items():
        for text in texts:
            yield case("replay", f"{name} {text}", [*start, f"--{name}={text}"])
    for name in ("serialisation", "deserialisation", "remote-share", "node-load", "min-gain", "hysteresis"):
        for text in real:
            yield case("replay", f"{name} {text}", [*start, f"--{name}", text])
    yield case("replay", "method twice", [*start, "-m", "flux"])
    yield case("replay", "share and cost", [*start, "--remote-share", "0.5", "--serialisation", "1"])
    for problem in ("key-splitting", "mclb", "migration-policy", "interval-migration"):
        yield case("replay", problem, ["replay", "w.json", "-p", problem], "anything said")


def other_commands() -> Iterator[Case]:
    for name, annotation in _annotations(
        ks.allocation_workload if hasattr(ks, "allocation_workload") else _generator()
    ).items():
        for what, text, expect in wrong_for(name, annotation):
            rest = [f"--{n}={v}" for n, v in (("nodes", 2), ("key-groups", 4)) if n.replace("-", "_") != name]
            words = ["generate", "allocation", "g", *rest, f"--{name.replace('_', '-')}={text}"]
            yield case("generate", f"{name} {what}", words, expect)
    for words in (["generate"], ["generate", "chaos", "g"], ["generate", "allocation"], ["generate", "allocation", "g"],
                  ["rebalance"], ["solve", "--"], ["check"], ["check", "w.json"], ["check", "w.json", "-a"], ["methods", "x"],
                  ["methods", "-p", "x"], ["--nothing"], ["solve", "w.json", "--json=3"], ["check", "w.json", "-a", "w.json"],
                  ["check", "a.json", "-a", "a.json"], ["solve", "w.json", "-m"], ["demo", "--time-limit", "x"]):  # fmt: skip
        yield case("other", " ".join(words), words)
    for a, b in itertools.product(["w.json", "s.parquet", "nowhere"], ["nowhere", "s.parquet", ".", "/dev/zero", ""]):
        yield case("check", f"{a} {b!r}", ["check", a, "-a", b])


def _generator() -> Any:
    from keyshift.catalogue.families import GENERATORS
    from keyshift.models.base.lazily import load

    return load(GENERATORS["allocation"])


def cases() -> Iterator[Case]:
    """All of them."""
    for part in (problem_parameters, method_options, shared_options, replays, other_commands):
        yield from part()
