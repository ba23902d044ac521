"""Tumbling windows: length, origin, and the number of the window in which an instant lies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import reduce
from operator import and_
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyshift.models.errors import InputError, refusing
from keyshift.models.workload import Workload

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_MICROSECONDS = {"microsecond": 1, "millisecond": 1000, **{unit: s * 1_000_000 for unit, s in _SECONDS.items()}}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Windows:
    """Tumbling windows [origin + i * length, origin + (i + 1) * length), i any whole number; in microseconds.

    `length` 0 means one window for the whole log, whatever its times. With a `zone` they are cut by the clocks there, and
    `origin` is a time on them: a day may then have 23 or 25 hours. Rows `since` one instant and before another, `until`, count.
    """

    length: int
    origin: int = 0
    zone: str | None = None
    since: int | None = None
    until: int | None = None

    @classmethod
    def of(
        cls,
        length: str | timedelta | None,
        origin: str | datetime | None = None,
        zone: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> Windows:
        """Read a length such as "1 hour" or a timedelta; an origin (default 1970-01-01), a time zone (UTC), and the ends."""
        size = 0 if length is None else microseconds("window", length)
        place = _zone(zone)
        if place is not None and size % _MICROSECONDS["day"]:
            raise InputError(
                f"window = {length!r} in the time zone {zone!r}: where clocks go back an hour comes twice, so that only "
                "whole days and weeks can be cut by them; leave the time zone out"
            )
        start = _EPOCH if origin is None else _instant("origin", origin, place or UTC)
        clock = start.astimezone(place or UTC).replace(tzinfo=UTC)
        ends = {"since": since, "until": until}
        known = {n: _micros(_instant(n, end, place or UTC)) for n, end in ends.items() if end is not None}
        if len(known) == 2 and known["since"] >= known["until"]:
            raise InputError(f"since = {since!r} must be before until = {until!r}")
        return cls(size, 0 if origin is None else _micros(clock), zone, **known)

    def index(self, time: Column | None) -> Column:
        """Return the number of the window in which a timestamp lies; null where the time is null."""
        if time is None or self.length == 0:
            return F.lit(0).cast("long")
        clock = time if self.zone is None else F.from_utc_timestamp(time, self.zone)
        return floor_of(F.unix_micros(clock) - F.lit(self.origin), self.length)

    def inside(self, time: Column) -> Column:
        """Whether a timestamp is not left out."""
        ends = [time >= F.timestamp_micros(F.lit(self.since))] if self.since is not None else []
        ends += [time < F.timestamp_micros(F.lit(self.until))] if self.until is not None else []
        return reduce(and_, ends, F.lit(True))

    def start(self, index: Column) -> Column:
        """Return the instant at which a window starts."""
        clock = F.timestamp_micros(index * F.lit(self.length) + F.lit(self.origin))
        return clock if self.zone is None else F.to_utc_timestamp(clock, self.zone)

    def end(self, index: Column) -> Column:
        """Return the end of a window in microseconds since 1970."""
        return F.unix_micros(self.start(index + 1))

    def start_of(self, index: int) -> datetime:
        """Return the instant at which a window starts, in UTC."""
        clock = _EPOCH + timedelta(microseconds=index * self.length + self.origin)
        return clock if self.zone is None else clock.replace(tzinfo=ZoneInfo(self.zone)).astimezone(UTC)

    def begun(self, workload: Workload, index: int) -> Workload:
        """A workload of one window, which says when that begins; with one window for all of a log it does not."""
        if self.length:
            object.__setattr__(workload, "window_start", self.start_of(index))
        return workload

    def end_of(self, index: int) -> int:
        """Return the end of a window in microseconds since 1970."""
        return (index + 1) * self.length + self.origin if self.zone is None else _micros(self.start_of(index + 1))


def floor_of(number: Column, by: int) -> Column:
    """The whole quotient of a column of whole numbers, rounded down; Spark's own ``div`` rounds towards zero."""
    return F.call_function("div", number - F.pmod(number, F.lit(by)), F.lit(by))


def zone_of(events: DataFrame | Mapping[str, DataFrame], time_zone: str | None) -> str | None:
    """Spark's own time zone for "session"."""
    if time_zone != "session":
        return time_zone
    frame = next(iter(events.values())) if isinstance(events, Mapping) else events
    return frame.sparkSession.conf.get("spark.sql.session.timeZone")


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


def _zone(name: str | None) -> ZoneInfo | None:
    said = f"time_zone = {name!r} is not one of the IANA's, such as Europe/Berlin"
    with refusing(said, KeyError, OSError, ValueError):
        return None if name is None else ZoneInfo(name)


def _instant(what: str, text: str | datetime, zone: tzinfo) -> datetime:
    """Read an instant; without a time zone of its own it is on the clocks of `zone`."""
    said = f"{what} = {text!r} is not a date or time (ISO 8601, such as 2013-01-01)"
    with refusing(said, TypeError, ValueError):
        instant = text if isinstance(text, datetime) else datetime.fromisoformat(text)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=zone)


def _micros(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
