"""Durations in Go's notation, as upstream's texts print them."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """Go's ``time.Duration.String``: 0 is ``0s``, 1.5 is ``1.5s``, 900 is ``15m0s``; to the nanosecond."""
    nanoseconds = round(seconds * 1_000_000_000)
    sign, left = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if left == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if left < 1_000 * size:
            return f"{sign}{_decimal(left, size)}{unit}"
    minutes, left = divmod(left, 60_000_000_000)
    text = f"{_decimal(left, 1_000_000_000)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
    return sign + text


def _decimal(value: int, one: int) -> str:
    """`value` / `one` without trailing zeros; `one` is a power of ten."""
    whole, rest = divmod(value, one)
    digits = str(rest).rjust(len(str(one)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
