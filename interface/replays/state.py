"""The state that `replay` keeps for every method from period to period: its cluster, its assignment, its past moves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from keyshift.models import Workload
from keyshift.models.placement import rehashed
from keyshift.models.workload import IntArray
from keyshift.replays.scaling import Scaling


@dataclass
class Cluster:
    """The nodes and the assignment of one method. Nodes have a name (a number never used again) and a position.

    Attributes
    ----------
    names, capacity, draining : list
        One entry for each node, by position.
    place : list of int
        Position of the node of each key group.
    left, left_at : list of int
        The name of the node that each key group left last, and the period of that; -1 when it never moved.
    start_load : float or None
        Load of the whole system at the start, before the first plan.
    """

    names: list[int]
    capacity: list[float]
    draining: list[bool]
    place: list[int]
    first_place: list[int]
    left: list[int]
    left_at: list[int]
    next_name: int
    start_load: float | None = None

    @classmethod
    def of(cls, workload: Workload) -> Cluster:
        """The cluster that a workload describes."""
        p, n = workload.key_groups, workload.nodes
        place = workload.current.tolist()
        return cls(
            list(range(n)), workload.capacity.tolist(), workload.draining.tolist(), place, place, [-1] * p, [-1] * p, n
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return asdict(self)

    def workload(self, statistics: Workload) -> Workload:
        """Put a period's statistics on the cluster."""
        return statistics.replace(
            nodes=np.array(self.capacity),
            draining=np.array(self.draining),
            current=np.array(self.place),
            home=self._home(statistics),
            domains={name: self._labels(labels) for name, labels in statistics.domains.items()},
        )

    def _labels(self, labels: tuple[str | int, ...]) -> list[str | int]:
        """The labels of the nodes at the positions they have now; a node that was added is in a domain of its own."""
        return [labels[name] if name < len(labels) else f"new {name}" for name in self.names]

    def _home(self, statistics: Workload) -> IntArray | None:
        """The nodes that the hash gives, at the positions they have now: it knows added nodes, and draining ones no more."""
        if statistics.home is None:
            return None
        position = {name: at for at, name in enumerate(self.names)}
        kept = [name for name, drains in zip(self.names, self.draining, strict=True) if not drains]
        return np.array([position[name] for name in rehashed(statistics.home, kept, statistics.nodes).tolist()])

    def terminate_empty(self) -> int:
        """Remove the draining nodes that hold nothing (Algorithm 1, lines 1-3); how many."""
        used = set(self.place)
        gone = [i for i, drains in enumerate(self.draining) if drains and i not in used]
        stay = [i for i in range(len(self.names)) if i not in set(gone)]
        position = {old: new for new, old in enumerate(stay)}
        self.names = [self.names[i] for i in stay]
        self.capacity = [self.capacity[i] for i in stay]
        self.draining = [self.draining[i] for i in stay]
        self.place = [position[i] for i in self.place]
        return len(gone)

    def scale(self, decision: Scaling) -> None:
        """Add nodes and mark others for removal."""
        for i in decision.drain:
            self.draining[i] = True
        for _ in range(decision.add):
            self.names.append(self.next_name)
            self.capacity.append(1.0)
            self.draining.append(False)
            self.next_name += 1

    def recut(self, assignment: IntArray, nodes_after: int, period: int, memory: int) -> int:
        """Apply a plan that may name new nodes, and keep `nodes_after`: empty nodes go, those that drain and the newest first."""
        self.scale(Scaling(add=max(0, int(assignment.max()) + 1 - len(self.names))))
        back = self.apply(assignment, period, memory)
        empty = sorted(set(range(len(self.names))) - set(self.place), key=lambda i: (self.draining[i], i))
        for i in empty[max(0, len(empty) - max(0, len(self.names) - nodes_after)) :]:
            self.draining[i] = True
        self.terminate_empty()
        self.scale(Scaling(add=max(0, nodes_after - len(self.names))))
        return back

    def apply(self, assignment: IntArray, period: int, memory: int) -> int:
        """Move the key groups; how many of the moves go straight back to the node left at most `memory` periods ago."""
        back = 0
        for k, target in enumerate(assignment.tolist()):
            source = self.place[k]
            if target == source:
                continue
            returns = self.left[k] == self.names[target] and period - self.left_at[k] <= memory
            back += int(returns)
            self.left[k], self.left_at[k] = self.names[source], period
            self.place[k] = target
        return back
