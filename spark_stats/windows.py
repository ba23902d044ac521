"""Tumbling windows: length, origin, and the number of the window in which an instant lies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from keyshift.models.errors import InputError

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_MICROSECONDS = {"microsecond": 1, "millisecond": 1000, **{unit: s * 1_000_000 for unit, s in _SECONDS.items()}}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Windows:
    """Tumbling windows [origin + i * length, origin + (i + 1) * length), i any whole number; in microseconds.

    `length` 0 means one window for the whole log, whatever its times.
    """

    length: int
    origin: int = 0

    @classmethod
    def of(cls, length: str | timedelta | None, origin: str | datetime | None = None) -> Windows:
        """Read a length such as "1 hour", "2 weeks" or a timedelta, and an origin (default 1970-01-01, UTC)."""
        return cls(0 if length is None else microseconds("window", length), _instant(origin))

    def index(self, time: Column | None) -> Column:
        """Return the number of the window in which a timestamp lies; null where the time is null."""
        if time is None or self.length == 0:
            return F.lit(0).cast("long")
        since = F.unix_micros(time) - F.lit(self.origin)
        return F.call_function("div", since - F.pmod(since, F.lit(self.length)), F.lit(self.length))

    def start(self, index: Column) -> Column:
        """Return the instant at which a window starts."""
        return F.timestamp_micros(index * F.lit(self.length) + F.lit(self.origin))

    def end(self, index: Column) -> Column:
        """Return the end of a window in microseconds since 1970."""
        return (index + 1) * F.lit(self.length) + F.lit(self.origin)

    def start_of(self, index: int) -> datetime:
        """Return the instant at which a window starts, in UTC."""
        return _EPOCH + timedelta(microseconds=index * self.length + self.origin)


def microseconds(what: str, length: str | timedelta) -> int:
    """Read a duration that is the same every time: weeks and shorter; months vary and are refused."""
    if isinstance(length, timedelta):
        total = round(length / timedelta(microseconds=1))
    else:
        match = re.fullmatch(r"\s*(\d+)?\s*([a-zA-Z]+?)s?\s*", str(length))
        unit = match[2].lower() if match else ""
        if match is None or unit not in _MICROSECONDS:
            units = ", ".join(f"{unit}s" for unit in _MICROSECONDS)
            raise InputError(f"{what} = {length!r} is not a length of time: give a number of {units}")
        total = int(match[1] or 1) * _MICROSECONDS[unit]
    if total <= 0:
        raise InputError(f"{what} = {length!r} must be above 0")
    return total


def _instant(origin: str | datetime | None) -> int:
    if origin is None:
        return 0
    try:
        instant = origin if isinstance(origin, datetime) else datetime.fromisoformat(origin)
    except (TypeError, ValueError):
        raise InputError(f"origin = {origin!r} is not a date or time (ISO 8601, such as 2013-01-01)") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return round((instant - _EPOCH) / timedelta(microseconds=1))
