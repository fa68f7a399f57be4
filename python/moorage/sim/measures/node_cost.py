"""What the nodes of a history cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from moorage.errors import InputError
from moorage.objects import Node
from moorage.sim.replay import History
from moorage.tables import Table

from .measurement import Measurement, means, measure

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
HOUR = 3600


@measure("cost")
def cost(
    history: History,
    prices: Mapping[str, float],
    label: str = INSTANCE_TYPE,
    default: float | None = None,
) -> Measurement:
    """Add up what the nodes cost while they are there.

    Parameters
    ----------
    prices : mapping of str to float
        Price of a node per hour, by the value of its label.
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
    for value, price in [*prices.items(), ("default", default or 0)]:
        if isinstance(price, bool) or not isinstance(price, int | float) or not price >= 0:
            raise InputError(f"must be a price of at least 0, not {price!r}", path=f"prices.{value}")

    def price_of(node: Node) -> float:
        value = node.metadata.labels.get(label, "")
        price = prices.get(value, default)
        if price is None:
            raise InputError(f'node {node.name}: no price for {label}="{value}"', path="prices")
        return price

    _, (times, _, rate) = history.node_levels(price_of)
    spent = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(times)) / HOUR])[: len(times)]
    total = float(spent[-1] + rate[-1] * (history.end - times[-1]) / HOUR) if len(times) else 0.0
    table = Table({"time": times, "cost_per_hour": rate, "cost": spent})
    return Measurement({"cost": total, "cost_per_hour": means(table, history.end)["cost_per_hour"]}, table)
