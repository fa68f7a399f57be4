"""What the nodes of a history cost, and why autoscalers removed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from moorage.autoscalers.karpenter.disruption_candidates import price_of as offered_price
from moorage.autoscalers.providers.instance_type import INSTANCE_TYPE, POOL, ListedTypes
from moorage.autoscalers.providers.type_files import given_types
from moorage.errors import InputError
from moorage.kube import Node
from moorage.table import Table

from ..replay import History
from ..replay.recorder import End
from .measurement import Measurement, means, measure

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
        Price of a node per hour, by the value of its label. By default the prices of Karpenter's instance
        types, where the timeline has them; nodes of no pool cost nothing then.
    default : float, optional
        Price of the other nodes; without it they are an error.

    Returns
    -------
    Measurement
        ``cost_per_hour``: the sum of the prices of the nodes; ``cost``: the integral of that until ``time``,
        in units of money. The numbers are the cost at the end, and the mean per hour.

    Raises
    ------
    InputError
        A node has no price, or a price is negative or no number.
    """
    of_offerings = _price_of_offerings(history) if prices is None else None
    given = prices or {}
    for value, price in [*given.items(), ("default", default or 0)]:
        if isinstance(price, bool) or not isinstance(price, int | float) or not price >= 0:
            raise InputError(f"must be a price of at least 0, not {price!r}", path=f"prices.{value}")

    def price_of(node: Node) -> float:
        value = node.metadata.labels.get(label, "")
        if of_offerings is None:
            price = given.get(value, default)
        elif POOL not in node.metadata.labels:
            price = default or 0.0
        else:
            price = of_offerings(node)
            price = default if price is None else price
        if price is None:
            raise InputError(f'node {node.name}: no price for {label}="{value}"', path="prices")
        return price

    _, (times, _, rate) = history.node_levels(price_of)
    if len(times) and times[-1] < history.end:
        times, rate = np.append(times, history.end), np.append(rate, rate[-1])
    spent = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(times)) / HOUR])[: len(times)]
    total = float(spent[-1]) if len(times) else 0.0
    table = Table({"time": times, "cost_per_hour": rate, "cost": spent})
    return Measurement({"cost": total, "cost_per_hour": means(table, history.end)["cost_per_hour"]}, table)


def _price_of_offerings(history: History) -> Callable[[Node], float | None]:
    """Return the prices of nodes as the file of Karpenter's instance types has them."""
    spec = history.timeline.autoscaler
    names = spec.karpenter.type_names if spec is not None and spec.karpenter is not None else []
    if not names:
        raise InputError("required where Karpenter has no file of instance types", path="prices")
    given = given_types(*names)
    if isinstance(given, ListedTypes) and given.is_priced:
        given = list(given.types)
    if not isinstance(given, list):
        raise InputError(f"required where Karpenter has the types of {', '.join(names)}", path="prices")
    types = {one.name: one for one in given}
    return lambda node: offered_price(types.get(node.metadata.labels.get(INSTANCE_TYPE, "")), node)


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
    found = {"nodes_removed": Counter(reasons.values()), "pods_moved": Counter(of_pods)}
    numbers: dict[str, float] = {}
    for name, counts in found.items():
        numbers[name] = float(sum(number for reason, number in counts.items() if reason))
        numbers |= {f"{name}_{reason.lower()}": float(counts[reason]) for reason in REASONS}
    templates = map(history.pod_template, ended[[bool(reason) for reason in of_pods]].tolist())
    lost = sum(one.metadata.controller() is None for one in templates)
    return numbers | {"pods_lost": float(lost)}
