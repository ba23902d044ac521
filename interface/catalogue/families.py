"""The families of instances: every paper's generator, the real streams, and hard instances of our own."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from keyshift.catalogue.method import no_rules, read_option
from keyshift.models import InputError, Problem
from keyshift.models.base.guards import check_option, whole
from keyshift.models.base.lazily import NamesCode, lazily, load
from keyshift.models.rules.rule import Rule

with lazily():
    from keyshift.generators import (
        allocation,
        hard,
        intervals,
        mclb,
        real,
        routing,
        splitting,
    )


@dataclass(frozen=True)
class Family(NamesCode):
    """A generator of instances of one problem.

    Attributes
    ----------
    name : str
    problem : str
        The problem it poses, by the name it has on the shell.
    code : str
        ``"module:function"``; called as ``function(seed=..., **parameters)``, it returns a `Problem`.
    grid : mapping of str to tuple
        Parameters of which `family` draws every value where none is given.
    """

    name: str
    problem: str
    code: Any
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def function(self) -> Callable[..., Problem]:
        """The generator itself, imported on first use."""
        return load(self.code)

    @property
    def summary(self) -> str:
        """What it draws in one sentence, the first of the generator's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def source(self) -> str:
        """Where it is from, as the docstring says; the names in brackets are those of docs/papers.md."""
        found = re.search(r"^Source: (.*)\.$", inspect.getdoc(self.function) or "", re.MULTILINE)
        return "" if found is None else found[1]

    @property
    def parameters(self) -> dict[str, Any]:
        """The generator's parameters with their defaults, the seed left out."""
        return {p.name: p.default for p in inspect.signature(self.function).parameters.values() if p.name != "seed"}


_BY_PROBLEM: Mapping[str, tuple[Any, ...]] = {
    "key-group-allocation": (
        allocation.madsen_allocation, allocation.madsen_windows, allocation.madsen_scale_in, real.flights_allocation,
        allocation.replicas_allocation, hard.hard_allocation,
    ),
    "collocated-allocation": (
        allocation.madsen_collocation, allocation.madsen_patterns, allocation.madsen_collocation_windows,
        allocation.madsen_collocation_racks, hard.hard_collocation,
    ),
    "mclb": (mclb.guo_mclb, real.words_mclb, hard.hard_mclb),
    "movement-within-limits": (mclb.guo_movement, hard.hard_movement),
    "replicated-allocation": (allocation.zipf_replicas, hard.hard_replicas),
    "key-splitting": (
        splitting.nasir_splitting, real.words_splitting, real.edits_splitting, hard.hard_splitting,
    ),
    "key-placement": (splitting.nasir_placement, real.words_placement, hard.hard_placement),
    "mixed-routing": (
        routing.fang_routing, routing.flights_routing, routing.words_routing, routing.hard_routing,
    ),
    "interval-migration": (intervals.ding_step, hard.hard_step),
    "migration-sequence": (intervals.ding_sequence, hard.hard_sequence),
    "migration-policy": (intervals.ding_policy, hard.hard_policy),
}  # fmt: skip
_KINDS_OF_TASKS = {"kind": ("ties", "giant", "two-scales", "boundary")}
_KINDS = {"kind": (*_KINDS_OF_TASKS["kind"], "draining")}
_GRIDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "madsen-patterns": {"pattern": ("one-to-one", "partial-merge", "partial-partitioning", "full")},
    **dict.fromkeys(("hard-step", "hard-sequence", "hard-policy"), _KINDS_OF_TASKS),
}


def _families() -> Iterator[Family]:
    """Every generator as a family; the hard ones draw all their kinds."""
    for problem, codes in _BY_PROBLEM.items():
        for code in codes:
            name = code.name.replace("_", "-")
            yield Family(name, problem, code, _GRIDS.get(name, _KINDS if name.startswith("hard-") else {}))


FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _families()})
"""Every family, by its name."""

GENERATORS: Mapping[str, Any] = MappingProxyType({"allocation": allocation.synthetic_workload})
"""Functions that make a plain `Workload`, by name; their parameters are the options of ``keyshift generate``."""


# families and family: the instances that a study is about --------------------------------------------------------------


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
        The generator's own. A list means every value in it, so that ``nodes=[20, 40], varies=[0.2, 0.4]`` draws
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
    count = whole("count", count, least=1, most=1_000_000, optional=False)
    first = whole("seed", seed, least=0, optional=False)
    choices, seeds = _choices(drawn, parameters), range(first, first + count)
    return Draw((_instance(drawn, choice, seed, rules) for choice in choices for seed in seeds), len(choices) * count)


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
    given = {key: None if text == "None" else read_option(drawn.function, key, text) for key, _, text in pairs}
    return name, int(seed), given


def family_of(instance: str) -> str | None:
    """The family in an instance's name; without one, the text before its "/", or None."""
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
    """Instances, made one by one; `operator.length_hint` tells how many are to come."""

    def __init__(self, made: Iterable[tuple[str, Problem]], to_come: int) -> None:
        self._made, self._to_come = iter(made), to_come

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
        raise InputError(no_rules(made, made.name))
    return name, replace(made, rules=[*made.rules, *rules])
