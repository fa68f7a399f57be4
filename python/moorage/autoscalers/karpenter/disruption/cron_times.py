"""Times of a cron schedule, in UTC, as github.com/robfig/cron/v3 reads them (ParseStandard)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf

from moorage.kube.apiserver.job_rules import parse_schedule


def next_hit(schedule: str, after: float, until: float) -> float:
    """The first time of a schedule after one and until another moment (seconds since 1970); infinite if there
    is none.

    Raises
    ------
    ValueError
        The schedule is malformed.
    """
    fields = parse_schedule(schedule)
    if not fields:
        raise ValueError(f"no times of day: {schedule}")
    minutes, hours, days, months, weekdays = fields
    first = int(after) // 60 * 60 + 60
    last = int(until) // 60 * 60
    day = datetime.fromtimestamp(first, UTC).replace(hour=0, minute=0)
    while day.timestamp() <= last:
        in_month, in_week = day.day in days.values, day.isoweekday() % 7 in weekdays.values
        both = in_month and in_week if days.is_any or weekdays.is_any else in_month or in_week
        if both and day.month in months.values:
            start = int(day.timestamp())
            times = (start + hour * 3600 + minute * 60 for hour in hours.values for minute in minutes.values)
            if hits := [time for time in times if first <= time <= last]:
                return float(min(hits))
        day += timedelta(days=1)
    return inf
