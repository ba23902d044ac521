"""A phase of a plan: moves that may run at the same time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """Moves that may run at the same time; the next phase begins when the last of them has ended.

    Attributes
    ----------
    number : int
        From 0.
    moves : tuple of int
        Rows of `Plan.moves`.
    start, end : float
        Seconds from the start of the plan.
    bound : float
        No schedule of these moves is shorter, in seconds.
    load_distance : float
        After the phase, in units of load.
    """

    number: int
    moves: tuple[int, ...]
    start: float
    end: float
    bound: float
    load_distance: float

    @property
    def seconds(self) -> float:
        """How long the phase takes."""
        return self.end - self.start
