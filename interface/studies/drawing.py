"""families and family: the instances that a study is about."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keyshift.catalogue.families import FAMILIES, Family
from keyshift.catalogue.options import check_option, read_option
from keyshift.models import InputError, Problem
from keyshift.models.guards import whole
from keyshift.models.rules.rule import Rule

MOST_INSTANCES = 1_000_000
_NAME = re.compile(r"([\w-]+)(?:\((.*)\))?/(\d+)")
"""An instance's name: a family, parameters where some were given, a seed."""


def families(problem: str | None = None) -> list[Family]:
    """List the families of instances that can be drawn.

    Parameters
    ----------
    problem : str, optional
        Only those of one problem, such as ``"key-group-allocation"``.

    Returns
    -------
    list of Family
        Each with its name, problem, summary, source and parameters.
    """
    return [f for f in FAMILIES.values() if problem is None or f.problem == problem]


def family(name: str, *, count: int = 1, seed: int = 0, rules: Sequence[Rule] = (), **parameters: Any) -> Draw:
    """Draw instances of a family.

    Parameters
    ----------
    name : str
        One of `families`; or the name of an instance that was drawn before, which draws that one again.
    count : int, default 1
        Instances for each choice of parameters: of the seeds ``seed``, ``seed + 1``, ...
    seed : int, default 0
        The first seed. The same name, parameters and seed give the same instance on any machine.
    rules : sequence of rules
        Added to those of every instance (`keyshift.rules`).
    **parameters
        The generator's own. A list stands for every value in it, so that ``nodes=[20, 40], varies=[0.2, 0.4]`` draws
        four choices.

    Returns
    -------
    Draw
        An iterator of pairs: a name that says how the instance was drawn, such as
        ``"madsen-allocation(nodes=40)/3"``, and the problem.

    Raises
    ------
    InputError
        For an unknown family or parameter, before anything is drawn; for rules that a problem does not take.
    """
    if _NAME.fullmatch(name):
        if parameters or count != 1 or seed != 0:
            raise InputError(f"{name} is one instance: it takes no parameters, no count and no seed")
        name, seed, parameters = _said(name)
    drawn = find_family(name)
    count = whole("count", count, least=1, most=MOST_INSTANCES, optional=False)
    first = whole("seed", seed, least=0, optional=False)
    return Draw(drawn, _choices(drawn, parameters), range(first, first + count), rules)


def find_family(name: str) -> Family:
    """The family of that name; `InputError` lists them all."""
    if name not in FAMILIES:
        raise InputError(f"there is no family {name!r:.60}; choose one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def is_instance(name: str) -> bool:
    """Whether a name is that of an instance, such as ``"hard-step(kind=ties)/3"``, not of a family."""
    return _NAME.fullmatch(name) is not None


def _said(instance: str) -> tuple[str, int, dict[str, Any]]:
    """Family, seed and parameters that an instance's name says."""
    found = _NAME.fullmatch(instance)
    assert found is not None
    name, said, seed = found.groups()
    drawn = find_family(name)
    pairs = [pair.partition("=") for pair in (said or "").split(",") if pair]
    for parameter, _, _ in pairs:
        if parameter not in drawn.parameters:
            raise InputError(f"{instance}: family {name!r} has no parameter {parameter!r}")
    return (
        name,
        int(seed),
        {key: None if text == "None" else read_option(drawn.function, key, text) for key, _, text in pairs},
    )


def family_of(instance: str) -> str | None:
    """The family that a name says its instance was drawn from; else what stands before its "/"; None where there is none."""
    head = instance.partition("(")[0].partition("/")[0]
    return head if head in FAMILIES else instance.rpartition("/")[0] or None


def _choices(drawn: Family, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the parameters' values, each checked by its annotation."""
    known = drawn.parameters
    for name in given:
        if name not in known:
            raise InputError(f"family {drawn.name!r} has no parameter {name!r}; it has {', '.join(known)}")
    lists = {
        **{name: list(values) for name, values in drawn.grid.items()},
        **{name: value if isinstance(value, list) else [value] for name, value in given.items()},
    }
    checked = {name: [check_option(drawn.function, name, v) for v in values] for name, values in lists.items()}
    return [dict(zip(checked, values, strict=True)) for values in itertools.product(*checked.values())]


class Draw(Iterator[tuple[str, Problem]]):
    """Instances, drawn one by one; `operator.length_hint` tells how many are to come."""

    def __init__(self, drawn: Family, choices: list[dict[str, Any]], seeds: range, rules: Sequence[Rule] = ()) -> None:
        self._to_come = len(choices) * len(seeds)
        self._made = (_instance(drawn, choice, seed, rules) for choice in choices for seed in seeds)

    def __next__(self) -> tuple[str, Problem]:
        made = next(self._made)
        self._to_come -= 1
        return made

    def __length_hint__(self) -> int:
        return self._to_come


def _instance(drawn: Family, choice: dict[str, Any], seed: int, rules: Sequence[Rule]) -> tuple[str, Problem]:
    said = ",".join(f"{name}={value}" for name, value in choice.items())
    name = f"{drawn.name}({said})/{seed}" if said else f"{drawn.name}/{seed}"
    made: Any = drawn.function(seed=seed, **choice)
    if not rules:
        return name, made
    if not hasattr(made, "rules"):
        raise InputError(f"{made.name} takes no rules")
    return name, replace(made, rules=[*made.rules, *rules])
