"""Times as commands print them."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from tooltap.cli.common.moments import MINUTE, Day, Moment, brief_time, local_time

YEAR = date.today().year


def milliseconds(when: datetime) -> int:
    return int(when.timestamp() * 1_000)


def test_year_is_named_unless_it_is_this_one() -> None:
    assert brief_time(milliseconds(datetime(YEAR, 1, 1, 0, 5))) == "01-01 00:05"
    assert brief_time(milliseconds(datetime(YEAR - 1, 12, 31, 23, 59))) == f"{YEAR - 1}-12-31"


@pytest.mark.parametrize("unknown", [None, "soon", 10**20])
def test_time_that_is_not_known(unknown: object) -> None:
    assert (local_time(unknown, MINUTE), brief_time(unknown)) == ("", "")


@pytest.mark.parametrize("kind", [Day, Moment])
def test_today_and_yesterday_are_local_days(kind: type[Day] | type[Moment]) -> None:
    midnight = datetime.combine(date.today(), datetime.min.time())
    assert kind().convert("today", None, None) == milliseconds(midnight)
    assert kind(is_end=True).convert("yesterday", None, None) == milliseconds(midnight)
    assert kind().convert("yesterday", None, None) == milliseconds(midnight - timedelta(days=1))
