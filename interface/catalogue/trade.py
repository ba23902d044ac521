"""The catalogue's entry of two objectives that pull against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keyshift.models.lazily import NamesCode


@dataclass(frozen=True)
class Trade(NamesCode):
    """A second objective beside a problem's own, and the limit by which it is held.

    Attributes
    ----------
    name : str
        As `pareto` and the shell take it, such as ``"migrations"``.
    metric : str
        The metric that measures it.
    limit : str
        The problem's parameter that bounds it: the epsilon-constraint method tightens this one.
    label : str
        For axes and tables, with the unit.
    whole : bool
        Whether only whole numbers occur.
    offset : float
        The limit that a metric's value stands for is the value less so much: a tolerance of 0.2 is a largest load of 1.2
        times the mean.
    least : int, optional
        Where every setting of the parameter is tried, from this one up, since it bounds no metric by itself.
    code : str
        ``"module:function"`` that traces the front, where a problem has an algorithm of its own.
    """

    name: str
    metric: str
    limit: str
    label: str
    whole: bool = False
    offset: float = 0.0
    least: int | None = None
    code: Any = ""
