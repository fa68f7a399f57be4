"""Measures of pods: how long they wait, how many are evicted, how evenly they are spread."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.errors import InputError
from moorage.kube import parse_selector
from moorage.kube.model.node import ZONE
from moorage.kube.strict_documents import parse_duration
from moorage.table import Table

from ..replay import History
from ..replay.recorder import End
from ..replay.usage_over_time import at_times, over_time
from .measurement import Measurement, means, measure

PERCENTS = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}


@measure("summary")
def summary(history: History) -> dict[str, float]:
    """Return the numbers of the replay (`History.summary`).

    Returns
    -------
    dict of str to float
        Times in seconds, counts, and percentiles of waiting times in seconds.
    """
    return history.summary()


@measure("pending")
def pending(history: History, every: str | float = "1h") -> Measurement:
    """Measure how long pods waited between their creation and their binding.

    Parameters
    ----------
    every : str or float, optional
        Length of the windows of time: seconds, or a text such as "1h".

    Returns
    -------
    Measurement
        Of the pods that were bound in each window, which begins at ``time``: their number ``placed``, and
        percentiles of their waits ``pending_p50``, …, ``pending_max`` in seconds (the least wait that so
        many per cent of the pods do not exceed; NaN without pods). The numbers are for all placed pods.

    Raises
    ------
    InputError
        `every` is no duration, or 0.
    """
    width = parse_duration(every)
    if not width:
        raise InputError("must be more than 0 seconds", path="every")
    pods = history.pod_columns
    is_bound = np.isfinite(pods["bound"])
    bound, waits = pods["bound"][is_bound], (pods["bound"] - pods["created"])[is_bound]
    windows = math.floor(history.end / width) + 1
    order = np.lexsort((waits, bound // width))
    window, waits = (bound // width)[order], waits[order]
    edges = np.searchsorted(window, np.arange(windows + 1))
    parts = [waits[first:last] for first, last in pairwise(edges)]
    columns: dict[str, Any] = {"time": width * np.arange(windows), "placed": np.diff(edges)}
    numbers: dict[str, float] = {}
    waits = np.sort(waits)
    for name, percent in PERCENTS.items():
        columns[f"pending_{name}"] = np.array([_percentile(part, percent) for part in parts])
        if len(waits):
            numbers[f"pending_{name}"] = _percentile(waits, percent)
    return Measurement(numbers, Table(columns))


def _percentile(ascending: npt.NDArray[np.float64], percent: int) -> float:
    """Return the least value that so many per cent of the values do not exceed; NaN without values."""
    if not len(ascending):
        return math.nan
    return float(ascending[max(math.ceil(percent * len(ascending) / 100) - 1, 0)])


@measure("evictions")
def evictions(history: History) -> Measurement:
    """Count the pods that were evicted.

    Returns
    -------
    Measurement
        How many until ``time``: ``evictions`` for pods of higher priority, ``node_evictions`` because a node
        left, was drained or tainted. The numbers are those at the end, and ``evictions_per_hour``.
    """
    pods = history.pod_columns
    causes = {"evictions": End.EVICTED, "node_evictions": End.NODE}
    ends = {name: np.sort(pods["ended"][pods["cause"] == cause]) for name, cause in causes.items()}
    times = np.unique(np.concatenate([[0.0], *ends.values()]))
    columns = {name: np.searchsorted(found, times, "right") for name, found in ends.items()}
    numbers = {name: float(len(found)) for name, found in ends.items()}
    hours = history.end / 3600
    numbers["evictions_per_hour"] = numbers["evictions"] / hours if hours else 0.0
    return Measurement(numbers, Table({"time": times} | columns))


@measure("spread")
def spread(history: History, key: str = ZONE, selector: str = "") -> Measurement:
    """Measure how unevenly pods are spread over the domains of a topology.

    Parameters
    ----------
    key : str, optional
        The label of nodes whose values are the domains. Nodes without it are left out.
    selector : str, optional
        Which pods count, by their labels; by default all.

    Returns
    -------
    Measurement
        ``spread_skew``: the greatest minus the least number of pods in one domain, over the domains that have
        nodes at that time (PodTopologySpread's skew, without its rules for eligible nodes). The numbers are
        its mean over time and ``spread_skew_max``.

    Raises
    ------
    InputError
        The selector cannot be read.
    """
    try:
        matcher = parse_selector(selector)
    except ValueError as error:
        raise InputError(str(error), path="selector") from None
    chosen = np.array([matcher.matches(pod.metadata.labels) for pod in history.templates] or [False])
    domains, pods = history.pod_levels(chosen[history.pod_columns["template"]].astype(np.int64), key)
    _, nodes = history.node_levels(lambda node: 1, key)
    times, domain, count, there = over_time(pods, nodes)
    moments = np.unique(times)
    most, least = np.full(len(moments), -1, np.int64), np.full(len(moments), np.iinfo(np.int64).max)
    for at, name in enumerate(domains):
        mine = domain == at
        if name:
            levels = (at_times(times[mine], part[mine], moments) for part in (count, there))
            number, nodes_there = levels
            most = np.where(nodes_there > 0, np.maximum(most, number), most)
            least = np.where(nodes_there > 0, np.minimum(least, number), least)
    table = Table({"time": moments, "spread_skew": np.maximum(most - least, 0)})
    greatest = float(max(table.columns["spread_skew"], default=0))
    return Measurement(means(table, history.end) | {"spread_skew_max": greatest}, table)
