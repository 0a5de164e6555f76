"""Options for times and days."""

from __future__ import annotations

import re
import time
from datetime import date, datetime, timedelta
from typing import Any

import click

from tooltap.cli.common.options import UNITS

_AGE = re.compile(r"([0-9]{1,9})([smhdw])")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


NAMED_DAYS = {"today": 0, "yesterday": 1}
"""Name of a local day -> how many days ago it was."""


class Moment(click.ParamType[int]):
    """Option type for a time: a duration ago (`90s`, `10m`, `2h`, `1d`, `1w`), `today`, `yesterday`, or a local date
    (`2026-11-24`, `2026-11-24T09:30`). Converts it to milliseconds since the epoch. `is_end`: the time after the last
    one that is wanted, so a day without a time is included."""

    name = "moment"

    def __init__(self, *, is_end: bool = False) -> None:
        self._is_end = is_end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if (match := _AGE.fullmatch(value)) is not None:
            return max(int((time.time() - int(match[1]) * UNITS[match[2]]) * 1_000), 0)
        try:
            if value in NAMED_DAYS or _DATE.fullmatch(value):
                return beginning_of(_day(value) + timedelta(days=self._is_end))
            return max(int(datetime.fromisoformat(value).timestamp() * 1_000), 0)
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is not an age such as 2h or 1d, nor a day such as today or 2026-11-24", param, ctx)


class Day(click.ParamType[int]):
    """Option type for a local day: a date, `today`, `yesterday`, or an age in days (`7d`). Converts it to the
    milliseconds since the epoch at which it begins, or at which it ends (`is_end`)."""

    name = "day"

    def __init__(self, *, is_end: bool = False) -> None:
        self._is_end = is_end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            if re.fullmatch(r"[0-9]{1,5}d", value):
                day = date.today() - timedelta(days=int(value[:-1]))
            else:
                day = _day(value)
            begins = beginning_of(day)
            return beginning_of(day + timedelta(days=1)) if self._is_end else begins
        except (ValueError, OverflowError, OSError):
            self.fail("expected a day such as today or 2026-11-24, or an age in days such as 7d", param, ctx)


def _day(value: str) -> date:
    """Raises `ValueError`."""
    if value in NAMED_DAYS:
        return date.today() - timedelta(days=NAMED_DAYS[value])
    return date.fromisoformat(value)


SECOND, MINUTE = "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"


def local_time(milliseconds: Any, form: str) -> str:
    """Return a time of the user's clock in a form of `strftime`; empty if it is not known, or out of range."""
    if not isinstance(milliseconds, int):
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1_000).strftime(form)
    except (ValueError, OverflowError, OSError):
        return ""


def brief_time(milliseconds: Any) -> str:
    """Return a time in at most 11 columns: this year's without the year, and an earlier one as its day."""
    this_year = local_time(milliseconds, "%Y") == str(date.today().year)
    return local_time(milliseconds, "%m-%d %H:%M" if this_year else "%Y-%m-%d")


def beginning_of(day: date) -> int:
    """Return the milliseconds since the epoch at which a local day begins. Raises `ValueError`, `OverflowError`,
    `OSError` for one that is not within the clock's range or before the epoch."""
    begins = int(datetime(day.year, day.month, day.day).timestamp() * 1_000)
    if begins < -_DAY_MS:
        raise ValueError(day)
    return max(begins, 0)


_DAY_MS = 86_400_000
