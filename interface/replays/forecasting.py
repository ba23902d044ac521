"""Forecasts: what the next window is expected to bring, from the windows that have been seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from keyshift.models import InputError, Workload
from keyshift.models.base.guards import non_negative, real, whole
from keyshift.models.errors import refusing
from keyshift.models.workload import FloatArray

MOST_WINDOWS = 100_000
"""The most windows that a forecast may use: a larger number is a slip."""
_NUMBERS: dict[str, tuple[str, ...]] = {
    "last": (),
    "mean": ("windows",),
    "ewma": ("weight",),
    "seasonal": ("season", "windows"),
    "quantile": ("level", "windows"),
}
"""The meaning of the numbers behind a rule's name: ``"seasonal:24:4"``."""

LoadForecast: TypeAlias = Callable[[FloatArray], Any]
"""From the loads seen, shape (windows, key groups), oldest first, to those expected: (key groups,) or a row a window."""


@dataclass(frozen=True)
class Forecast:
    """How `replay` expects the next window's loads, resources and traffic.

    Parameters
    ----------
    rule : {"last", "mean", "ewma", "seasonal", "quantile"} or callable
        The last window; the mean of the last `windows`; the exponentially weighted mean; the mean of the windows whole
        seasons ago; a quantile of each key group's last `windows` loads (of traffic, their mean). Or a function from
        loads, shape (windows, key groups), oldest first, to the loads expected: shape (key groups,), or a row for
        each of the next windows; resources and traffic are then those of the last window.
    windows : int, optional
        How many windows it looks at: 4; for "seasonal", seasons: 1; for a function, 100 at most.
    weight : float, default 0.3
        "ewma": the weight of the newest window; the first window seen begins with all of it.
    season : int, default 24
        "seasonal": windows in a season. During the first season the last window is the forecast.
    level : float, default 0.9
        "quantile".

    Raises
    ------
    InputError
        Names the field and the value that are wrong.

    Notes
    -----
    A forecast can be written as text, for example on the shell: ``"mean:8"``, ``"ewma:0.5"``, ``"seasonal:24"``,
    ``"seasonal:24:4"``, ``"quantile:0.9:8"``. State is never forecast: a move transfers the state of the last window.

    Examples
    --------
    >>> Forecast.read("seasonal:168:4")
    Forecast(rule='seasonal', windows=4, weight=0.3, season=168, level=0.9)
    """

    rule: str | LoadForecast = "last"
    windows: int | None = None
    weight: float = 0.3
    season: int = 24
    level: float = 0.9

    def __post_init__(self) -> None:
        if not callable(self.rule) and self.rule not in _NUMBERS:
            raise InputError(f"forecast = {self.rule!r}: choose one of {', '.join(_NUMBERS)}, or give a function")
        # Windows that a function of the user's gets, at most, unless it asks for another number.
        usual = 100 if callable(self.rule) else {"mean": 4, "quantile": 4}.get(self.rule, 1)
        given = whole("forecast windows", self.windows, least=1, most=MOST_WINDOWS)
        object.__setattr__(self, "windows", usual if given is None else given)
        whole("forecast season", self.season, least=1, most=MOST_WINDOWS, optional=False)
        for name in ("weight", "level"):
            share = real(f"forecast {name}", getattr(self, name), optional=False, above=name == "weight")
            if share > 1:
                raise InputError(f"forecast {name} = {share:g} must be at most 1")

    @classmethod
    def read(cls, given: str | LoadForecast | Forecast) -> Forecast:
        """Make a forecast from text or from a function; a `Forecast` is returned as it is."""
        if isinstance(given, Forecast):
            return given
        if not isinstance(given, str):
            return cls(given)
        rule, *numbers = given.split(":")
        names = _NUMBERS.get(rule, ())
        if len(numbers) > len(names):
            raise InputError(f"forecast = {given!r}: {rule} takes {' and '.join(names) or 'no number'}")
        with refusing(f"forecast = {given!r}: numbers follow the colons: {', '.join(names)}", ValueError):
            read = {
                name: float(text) if name in ("weight", "level") else int(text)
                for name, text in zip(names, numbers, strict=False)
            }
        return cls(rule, **read)  # type: ignore[arg-type]

    def __str__(self) -> str:
        if callable(self.rule):
            home = getattr(self.rule, "__module__", "")
            return f"{home}.{getattr(self.rule, '__qualname__', self.rule)}:{self.windows}"
        return ":".join([self.rule, *(str(getattr(self, name)) for name in _NUMBERS.get(self.rule, ()))])


class Past:
    """The windows seen, as many as a forecast and its planners look at, so that memory stays flat.

    Parameters
    ----------
    forecast : Forecast
    rows : int
        The most windows that a planner's problem counts.
    """

    def __init__(self, forecast: Forecast, rows: int = 1) -> None:
        self.forecast = forecast
        self.step = forecast.season if forecast.rule == "seasonal" else 1
        reach = 1 if forecast.rule == "ewma" else int(forecast.windows or 1)
        self.windows: deque[Workload] = deque(maxlen=self.step * max(rows, reach))
        self.smooth: Workload | None = None

    def add(self, window: Workload) -> None:
        """A window has passed; where there are more, the last one counts."""
        self.windows.append(window)
        if self.forecast.rule == "ewma":
            a = self.forecast.weight
            pair = [window] if self.smooth is None else [self.smooth, window]
            self.smooth = _blend(pair, [1.0] if self.smooth is None else [1 - a, a])

    def sample(self, most: int, ahead: int = 1) -> list[Workload]:
        """The windows by which the rule judges the one that comes: the last ones, or those whole seasons back."""
        seen = len(self.windows)
        if self.step == 1 or seen < self.step:
            return list(self.windows)[-most if self.step == 1 else -1 :]
        first = (seen + ahead - 1) % self.step
        return list(self.windows)[first :: self.step][-most:]

    def expected(self, ahead: int = 1) -> Workload:
        """The window that is expected, `ahead` windows from the last one seen."""
        rule, last = self.forecast.rule, self.windows[-1]
        if callable(rule):
            return _asked(rule, list(self.windows)[-int(self.forecast.windows or 1) :], ahead)
        if rule == "ewma" and self.smooth is not None:
            return _on(last, self.smooth)
        sample = self.sample(int(self.forecast.windows or 1), ahead)
        if len(sample) == 1:
            return last if sample[0] is last else _on(last, sample[0])
        mean = _blend(sample, [1 / len(sample)] * len(sample))
        if rule != "quantile":
            return _on(last, mean)
        uses = {
            name: np.quantile([w.resources[name] for w in sample], self.forecast.level, axis=0)
            for name in mean.resources
        }
        load = np.quantile([w.last_load for w in sample], self.forecast.level, axis=0)
        return _on(last, mean.replace(load=load, resources=uses))


def _on(last: Workload, window: Workload) -> Workload:
    """The last window's state and nodes, with what else is expected."""
    return last.replace(load=window.last_load, resources=dict(window.resources), traffic=window.traffic)


def _blend(windows: Sequence[Workload], weights: Sequence[float]) -> Workload:
    """A weighted sum of loads, resources and traffic; the rest is the last one's."""
    last = windows[-1]
    if len({w.key_groups for w in windows}) > 1 or any(w.resources.keys() != last.resources.keys() for w in windows):
        raise InputError("the windows of a forecast must have the same key groups and the same resources")
    uses = {name: sum(a * w.resources[name] for a, w in zip(weights, windows, strict=True)) for name in last.resources}
    load = sum(a * w.last_load for a, w in zip(weights, windows, strict=True))
    parts = [a * w.traffic for a, w in zip(weights, windows, strict=True) if w.traffic is not None]
    total = sum(parts[1:], parts[0]) if len(parts) == len(windows) else last.traffic
    return last.replace(load=load, resources=uses, traffic=total)


def _asked(rule: LoadForecast, windows: Sequence[Workload], ahead: int) -> Workload:
    """The forecast of a function of the user's; its last row where it looks less far ahead."""
    last = windows[-1]
    said = rule(np.array([w.last_load for w in windows]))
    rows = non_negative("forecast", said, ndim=(1, 2), length=last.key_groups, of="key groups")
    return last.replace(load=rows[min(ahead, len(rows)) - 1])
