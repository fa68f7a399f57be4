"""Durations as Go prints them."""

from __future__ import annotations

NANOSECOND_LIMIT = 2**63
UNITS = ((10**6, "ms"), (10**3, "µs"), (1, "ns"))


def format_duration(seconds: float) -> str:
    """Seconds as Go's ``time.Duration`` prints them: ``15m0s``, ``1.5s``, ``100ms``, ``0s``, ``-2s``.

    Rounded to nanoseconds. What is beyond ±2⁶³ nanoseconds prints as the longest duration that Go has.
    """
    limited = max(-NANOSECOND_LIMIT, min(NANOSECOND_LIMIT - 1, seconds * 1e9))
    return format_nanoseconds(round(limited))


def format_nanoseconds(nanoseconds: int) -> str:
    """The same of nanoseconds."""
    sign, left = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if left == 0:
        return "0s"
    if left < 10**9:
        unit, suffix = next(pair for pair in UNITS if left >= pair[0])
        return sign + _decimal(left, unit) + suffix
    minutes, left = divmod(left, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{whole}{_decimal(left, 10**9)}s"


def _decimal(amount: int, unit: int) -> str:
    """`amount` in units of `unit`, a power of ten, with as many decimals as it takes."""
    whole, rest = divmod(amount, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0") if rest else str(whole)
