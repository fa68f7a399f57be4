"""Measures of pods and nodes: waiting, evictions, spread; and what nodes cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from moorage.autoscalers.hourly_cost import HourlyCost
from moorage.autoscalers.node_prices import NodePrices
from moorage.autoscalers.providers.instance_type import INSTANCE_TYPE, POOL
from moorage.autoscalers.providers.pool_types import types_of_objects
from moorage.autoscalers.providers.type_files import given_types
from moorage.errors import InputError
from moorage.kube import Node, Object, parse_selector
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
    columns = {name: np.searchsorted(ended, times, "right") for name, ended in ends.items()}
    numbers = {name: float(len(ended)) for name, ended in ends.items()}
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


# ---- node cost ---------------------------------------------------------------------------------------------

HOUR = 3600
REASONS = ("Empty", "Drifted", "Underutilized", "Expired")


@measure("cost")
def cost(
    history: History,
    prices: Mapping[str, float] | None = None,
    label: str = INSTANCE_TYPE,
    default: float | None = None,
) -> Measurement:
    """Add up what the nodes cost while they are there.

    Parameters
    ----------
    prices : mapping of str to float
        Price of a node per hour, by the value of its label. By default what is known of it, as for
        ``moorage nodes``: the price of its node group, or that of its instance type, of spot at most. Where
        Karpenter makes the nodes, those of no pool whose price is not known cost nothing then.
    default : float, optional
        Price of the other nodes; without it they are an error.

    Returns
    -------
    Measurement
        ``cost_per_hour``: the sum of the prices of the nodes; ``cost``: the integral of that until ``time``,
        in units of money. The numbers are the cost at the end, and the mean per hour; and
        ``cost_at_least``, where a spot price is not known.

    Raises
    ------
    InputError
        A node has no price, or a price is negative or no number.
    """
    for value, price in [*(prices or {}).items(), ("default", default or 0)]:
        if isinstance(price, bool) or not isinstance(price, int | float) or not price >= 0:
            raise InputError(f"must be a price of at least 0, not {price!r}", path=f"prices.{value}")
    known = node_prices(history).of if prices is None else None
    spec = history.timeline.autoscaler
    is_karpenter = spec is not None and spec.karpenter is not None

    def price_of(node: Node) -> HourlyCost:
        value = node.metadata.labels.get(label, "")
        if known is not None:
            if (of_node := known(node)).is_known:
                return of_node
            price = 0.0 if default is None and is_karpenter and POOL not in node.metadata.labels else default
        else:
            price = (prices or {}).get(value, default)
        if price is None:
            raise InputError(f'node {node.name}: no price for {label}="{value}"', path="prices")
        return HourlyCost(price, price)

    most, table = _spent(history, lambda node: price_of(node).most)
    least, _ = _spent(history, lambda node: price_of(node).least)
    numbers = {"cost": most, "cost_per_hour": means(table, history.end)["cost_per_hour"]}
    return Measurement(numbers | ({"cost_at_least": least} if least < most else {}), table)


def _spent(history: History, price_of: Callable[[Node], float]) -> tuple[float, Table]:
    """What nodes have cost in the end, and over time."""
    _, (times, _, rate) = history.node_levels(price_of)
    if len(times) and times[-1] < history.end:
        times, rate = np.append(times, history.end), np.append(rate, rate[-1])
    spent = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(times)) / HOUR])[: len(times)]
    total = float(spent[-1]) if len(times) else 0.0
    return total, Table({"time": times, "cost_per_hour": rate, "cost": spent})


def node_prices(history: History) -> NodePrices:
    """Return what the nodes of a replay cost, by the objects at its start, and those of its events."""
    timeline, spec = history.timeline, history.timeline.autoscaler
    names = spec.karpenter.type_names if spec is not None and spec.karpenter is not None else []
    created = [each for each in timeline.arguments if isinstance(each, Object)]
    types = types_of_objects(
        given_types(*names) if names else None,
        timeline.cluster.nodes,
        [*timeline.cluster.others, *created],
    )
    return NodePrices(types, spec.node_groups if spec is not None else ())


@measure("disruptions")
def disruptions(history: History) -> dict[str, float]:
    """Count the nodes that the autoscaler removed, and the pods that it evicted for that.

    Returns
    -------
    dict of str to float
        ``nodes_removed`` and ``pods_moved``, and each by reason, as ``nodes_removed_empty``; and
        ``pods_lost``, those among them that no controller makes again.
    """
    columns = history.disruptions().columns
    reasons = dict(zip(columns["node"], columns["reason"], strict=True))
    pods = history.pod_columns
    ended = np.flatnonzero(pods["cause"] == End.NODE)
    of_pods = [reasons.get(history.node_names[node], "") for node in pods["node"][ended].tolist()]
    totals = {"nodes_removed": Counter(reasons.values()), "pods_moved": Counter(of_pods)}
    numbers: dict[str, float] = {}
    for name, counts in totals.items():
        numbers[name] = float(sum(number for reason, number in counts.items() if reason))
        numbers |= {f"{name}_{reason.lower()}": float(counts[reason]) for reason in REASONS}
    templates = map(history.pod_template, ended[[bool(reason) for reason in of_pods]].tolist())
    lost = sum(template.metadata.controller() is None for template in templates)
    return numbers | {"pods_lost": float(lost)}
