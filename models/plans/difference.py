"""Two plans side by side: which moves they share, and what each is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.figures import figure

if TYPE_CHECKING:
    import pandas as pd

    from keyshift.models.plans.plan import Plan


@dataclass(frozen=True, eq=False)
class PlanDifference:
    """The differences that `Plan.diff` finds.

    Attributes
    ----------
    moves : DataFrame
        One row for each key group that either plan moves: key_group, key, source, target (this plan's, None where it
        stays), other_target, load, state, change ("same", "only here", "only there", "other target").
    figures : dict of str to tuple of float
        Moves, state moved, seconds, peak load and load distance: this plan's and the other's.
    """

    moves: pd.DataFrame
    figures: dict[str, tuple[float, float]]

    def counts(self) -> dict[str, int]:
        """How many moves are of which kind."""
        kinds = ("same", "other target", "only here", "only there")
        return {kind: int((self.moves["change"] == kind).sum()) for kind in kinds}

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        lines = [f"{name}: {figure(here)} here, {figure(there)} there" for name, (here, there) in self.figures.items()]
        return "\n".join([f"moves: {kinds}", *lines])


def difference(one: Plan, other: Plan) -> PlanDifference:
    """Compare two plans for the same key groups and nodes.

    Raises
    ------
    InputError
        When they are about different key groups, or key groups start on different nodes.
    """
    import pandas as pd

    if one.assignment.size != other.assignment.size or one.made_for.keys != other.made_for.keys:
        raise InputError(f"the plans are about different key groups: {one.assignment.size} and {other.assignment.size}")
    elsewhere = np.flatnonzero(one.current != other.current)
    if elsewhere.size:
        raise InputError(
            f"the plans start differently: key group {one.made_for.key(int(elsewhere[0]))} is not on the same node"
        )
    made, rows = one.made_for, np.flatnonzero((one.assignment != one.current) | (other.assignment != one.current))

    def goes(plan: Plan, k: int) -> Any:
        return None if plan.assignment[k] == one.current[k] else plan.made_for.node(int(plan.assignment[k]))

    table = pd.DataFrame(
        {
            "key_group": rows,
            "key": [made.key(int(k)) for k in rows],
            "source": [made.node(int(one.current[k])) for k in rows],
            "target": [goes(one, int(k)) for k in rows],
            "other_target": [goes(other, int(k)) for k in rows],
            "load": made.load[rows],
            "state": made.state[rows],
            "change": [_change(one, other, int(k)) for k in rows],
        }
    )
    figures = {
        "moves": (float(len(one)), float(len(other))),
        "phases": (float(len(one.phases)), float(len(other.phases))),
        "state moved": (one.state_moved, other.state_moved),
        "seconds": (one.seconds, other.seconds),
        "peak load": (one.peak_load, other.peak_load),
        "load distance": (one.load_distance[1], other.load_distance[1]),
    }
    return PlanDifference(table, figures)


def _change(one: Plan, other: Plan, k: int) -> str:
    if one.assignment[k] == other.assignment[k]:
        return "same"
    if one.assignment[k] == one.current[k]:
        return "only there"
    return "only here" if other.assignment[k] == one.current[k] else "other target"
