"""Which resource is balanced: the bottleneck, of which the cluster uses the greatest share ([Madsen2016], section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keyshift.models.errors import InputError
from keyshift.models.guards import real
from keyshift.models.workload import Workload

OWN = "load"
"""The name of the workload's own load among its resources."""


def bottleneck(workload: Workload, capacities: Mapping[str, float]) -> str:
    """The resource of whose capacity all key groups together use most; of equals the load, then the first by name.

    Parameters
    ----------
    workload : Workload
        The last window counts.
    capacities : mapping of str to float
        What a node of capacity 1 carries of each resource, "load" among them, > 0. With uses in percentage points of a node,
        as [Madsen2016] has them, all are 100.

    Raises
    ------
    InputError
        For a resource that the workload does not have.
    """
    uses = {OWN: workload.last_load, **workload.resources}
    if unknown := sorted(set(capacities) - set(uses)):
        raise InputError(f"capacities names {unknown[0]!r}; the workload has {', '.join(sorted(uses))}")
    shares = {name: float(uses[name].sum()) / limit for name, limit in capacities.items()}
    return min(shares, key=lambda name: (-shares[name], name != OWN, name))


@dataclass(frozen=True)
class Balanced:
    """The resource that a replay balances: one that is named, else the bottleneck by the capacities, else the load.

    Parameters
    ----------
    name : str, optional
    capacities : mapping of str to float, optional
        As for `bottleneck`.
    """

    name: str | None = None
    capacities: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, limit in self.capacities.items():
            real(f"capacities[{name!r}]", limit, optional=False, above=True)
        if self.capacities and OWN not in self.capacities:
            raise InputError("capacities must say what a node carries of 'load' as well: shares are what is compared")

    def resource(self, workload: Workload) -> str:
        """The name of the resource to balance in a window."""
        if self.name is None:
            return bottleneck(workload, self.capacities) if self.capacities else OWN
        if self.name != OWN and self.name not in workload.resources:
            known = ", ".join([OWN, *sorted(workload.resources)])
            raise InputError(f"resource = {self.name!r}: the workload has {known}")
        return self.name

    @staticmethod
    def on(workload: Workload, resource: str) -> Workload:
        """The workload with the use of a resource as its load; limits on resources stay what they are."""
        return workload if resource == OWN else workload.replace(load=workload.resources[resource])
