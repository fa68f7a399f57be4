"""Arrival times and lifetimes of pods, drawn from the distributions that workload models use.

Numbers are those of numpy's RandomState, whose streams are the same in all versions of numpy.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from moorage.errors import InputError

DAY = 86400.0
Times = npt.NDArray[np.float64]
_MOST = 100_000_000


def poisson(rate: float, until: float, *, start: float = 0.0, seed: int = 0) -> Times:
    """Draw the arrivals of a Poisson process.

    Parameters
    ----------
    rate : float
        Arrivals per second.
    until : float
        Seconds; all arrivals are before it.
    start : float, optional
        Seconds.

    Returns
    -------
    (n,) float64 array
        Ascending, in seconds.

    Raises
    ------
    InputError
        The rate is not positive, or there would be more than 10^8 arrivals.
    """
    _check(rate, start, until)
    random = np.random.RandomState(seed)
    number = random.poisson(rate * (until - start))
    return np.sort(random.uniform(start, until, number))


def bursts(
    size: int, every: float, until: float, *, start: float = 0.0, spread: float = 0.0, seed: int = 0
) -> Times:
    """Draw bursts of arrivals at regular times.

    Parameters
    ----------
    size : int
        Arrivals in a burst.
    every : float
        Seconds between the starts of two bursts.
    until : float
        Seconds; all bursts start before it.
    start : float, optional
        Start of the first burst, in seconds.
    spread : float, optional
        Seconds over which the arrivals of a burst are distributed evenly at random; 0 for one instant.

    Returns
    -------
    (n,) float64 array
        Ascending, in seconds.

    Raises
    ------
    InputError
        A number is out of range, or there would be more than 10^8 arrivals.
    """
    if size < 0 or spread < 0 or not every > 0:
        raise InputError("size and spread must not be negative, and every must be positive", obj="bursts")
    _check(max(size, 1) / every, start, until)
    starts = np.repeat(np.arange(start, until, every), size)
    return np.sort(starts + np.random.RandomState(seed).uniform(0, spread, len(starts)))


def diurnal(  # noqa: PLR0913
    rate: float,
    until: float,
    *,
    amplitude: float = 0.5,
    peak: float = 14 * 3600.0,
    period: float = DAY,
    start: float = 0.0,
    seed: int = 0,
) -> Times:
    """Draw arrivals whose rate follows a cosine over the day.

    The rate at t is ``rate * (1 + amplitude * cos(2 pi (t - peak) / period))``. The process is a Poisson
    process of the highest rate, thinned (Lewis and Shedler, 1979).

    Parameters
    ----------
    rate : float
        Mean arrivals per second.
    until : float
        Seconds.
    amplitude : float, optional
        0 to 1.
    peak : float, optional
        Seconds after the start of the period.
    period : float, optional
        Seconds.
    start : float, optional
        Seconds.

    Returns
    -------
    (n,) float64 array
        Ascending, in seconds.

    Raises
    ------
    InputError
        A number is out of range, or there would be more than 10^8 arrivals.
    """
    if not (0 <= amplitude <= 1 and period > 0):
        raise InputError("amplitude must be between 0 and 1, and period positive", obj="diurnal")
    most = rate * (1 + amplitude)
    times = poisson(most, until, start=start, seed=seed)
    now = rate * (1 + amplitude * np.cos(2 * math.pi * (times - peak) / period))
    kept = np.random.RandomState([seed, 1]).uniform(0, most, len(times)) < now
    return times[kept]


def exponential(mean: float, count: int, *, seed: int = 0) -> Times:
    """Draw exponential lifetimes.

    Parameters
    ----------
    mean : float
        Seconds.

    Returns
    -------
    (count,) float64 array
        Seconds.

    Raises
    ------
    InputError
        The mean or the count is negative.
    """
    if mean < 0 or count < 0:
        raise InputError("mean and count must not be negative", obj="exponential")
    # Another stream than that of the arrivals with the same seed.
    return np.random.RandomState([seed, 2]).exponential(mean, count)


def lognormal(median: float, sigma: float, count: int, *, seed: int = 0) -> Times:
    """Draw log-normal lifetimes, which have the long tail of batch jobs.

    Parameters
    ----------
    median : float
        Seconds.
    sigma : float
        Standard deviation of the logarithm, a number without a unit.

    Returns
    -------
    (count,) float64 array
        Seconds.

    Raises
    ------
    InputError
        The median is not positive, or sigma or the count is negative.
    """
    if not median > 0 or sigma < 0 or count < 0:
        raise InputError("median must be positive, sigma and count must not be negative", obj="lognormal")
    return np.random.RandomState([seed, 3]).lognormal(math.log(median), sigma, count)


def _check(rate: float, start: float, until: float) -> None:
    if not (rate > 0 and start >= 0 and math.isfinite(until)):
        raise InputError("the rate must be positive, start at least 0, and until finite", obj="arrivals")
    if rate * max(0.0, until - start) > _MOST:
        raise InputError(f"more than {_MOST} arrivals", obj="arrivals")
    if until < start:
        raise InputError("must not be before the start", obj="arrivals", path="until")
