"""Means and their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Quantiles 0.975 of Student's t distribution for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of
# Statistical Methods, 1.3.6.7.2), and of the normal distribution for more.
T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
NORMAL_975 = 1.960


class Spread(NamedTuple):
    """A mean over runs, and how certain it is.

    Attributes
    ----------
    runs : int
    mean, least, greatest : float
    margin : float
        Half the width of the 95 % confidence interval of the mean; NaN for one run.
    """

    runs: int
    mean: float
    least: float
    greatest: float
    margin: float


def spread(values: Sequence[float]) -> Spread:
    """Return the mean of values of independent runs with its 95 % confidence interval.

    Parameters
    ----------
    values : sequence of float
        At least one.

    Returns
    -------
    Spread
        The interval is the one of Student's t distribution.
    """
    array = np.asarray(values, dtype=np.float64)
    runs = len(array)
    margin = math.nan
    if runs > 1:
        quantile = T_975[runs - 2] if runs - 2 < len(T_975) else NORMAL_975
        margin = quantile * float(array.std(ddof=1)) / math.sqrt(runs)
    return Spread(runs, float(array.mean()), float(array.min()), float(array.max()), margin)
