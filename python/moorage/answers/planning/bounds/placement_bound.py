"""Bound: how many pods, or how much weight, can be placed at most, by linear programming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct

from moorage.cluster import PodScheduler
from moorage.errors import InputError
from moorage.kube.model.pod import Pod
from moorage.table import Table, Tabular

from ..pending import pending_pods, without_evictions
from ..stored_pods import store_with_claims
from .linear_program import Floats, solve
from .relaxation import Constraints, Relaxation, constrain, relax

TOLERANCE = 1e-6


class Price(Struct, frozen=True):
    """What one more unit of a resource in a pool would add to the bound.

    Attributes
    ----------
    nodes : tuple of str
        The nodes of the pool: those that take the same kinds of pods.
    resource : str
    price : float
        Added weight per unit (millicore, byte, or one), as long as nothing else binds. Where a node has no
        room for one more whole pod, the weight of the pod over what it requests.
    """

    nodes: tuple[str, ...]
    resource: str
    price: float


@dataclass(frozen=True, repr=False)
class Bound(Tabular):
    """An upper bound of what can be placed, beside what the scheduler places.

    Attributes
    ----------
    pods : int
        Number of pods in question.
    bound : float
        Upper bound of the weight that can be placed without evictions; of the number, where each pod has
        weight 1.
    placed : float
        The weight that the scheduler places.
    prices : tuple of Price
        The resources that bind, by pool, the highest price for all free units first.
    relaxed : tuple of str
        What the bound does not take into account.
    skipped : dict of str to int
        Number of pending pods that were left out, as the scheduler does not schedule them now, by reason.
    """

    pods: int
    bound: float
    placed: float
    prices: tuple[Price, ...]
    relaxed: tuple[str, ...]
    skipped: dict[str, int]

    @property
    def gap(self) -> float:
        """How much more than the scheduler places could be placed at most, as a part of the bound."""
        return (self.bound - self.placed) / self.bound if self.bound else 0.0

    def headline(self) -> str:
        """Return bound, placed weight and gap in one line."""
        return f"at most {self.bound:g} of {self.pods} pods; placed: {self.placed:g}, gap: {self.gap:.1%}"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each resource that binds in a pool.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns resource, nodes (number), example (name of a node), price.
        """
        prices = self.prices[:limit]
        return Table(
            {
                "resource": [each.resource for each in prices],
                "nodes": np.array([len(each.nodes) for each in prices], dtype=np.int64),
                "example": [each.nodes[0] for each in prices],
                "price": np.array([each.price for each in prices], dtype=np.float64),
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the bound as a JSON value."""
        prices = [{"resource": p.resource, "price": p.price, "nodes": list(p.nodes)} for p in self.prices]
        numbers = {"pods": self.pods, "bound": self.bound, "placed": self.placed, "gap": self.gap}
        return numbers | {"prices": prices, "relaxed": list(self.relaxed), "skipped": self.skipped}


def bound(scheduler: PodScheduler, pods: Sequence[Pod] | None, weights: Sequence[float] | None) -> Bound:
    """Return an upper bound of what can be placed; see `Scheduler.bound`.

    Parameters
    ----------
    pods : sequence of Pod or None
        None for the pending pods.
    weights : sequence of float or None
        None for 1 each.
    """
    scheduler.sync()
    skipped: dict[str, int] = {}
    if pods is None:
        pods, skipped = pending_pods(scheduler)
    values = [1.0] * len(pods) if weights is None else [float(weight) for weight in weights]
    if len(values) != len(pods) or any(not 0 <= value < float("inf") for value in values):
        raise InputError("weights must be a number of at least 0 for each pod")
    with scheduler.transaction():
        pods = store_with_claims(scheduler, pods)
        relaxation = relax(scheduler, pods, values)
        constraints = constrain(relaxation)
        costs = np.array([relaxation.kinds[k].weight for k in constraints.kind], dtype=np.float64)
        found = solve(costs, constraints.upper, constraints.rows)
        assert found is not None  # nothing placed satisfies all rows
        top = min(found.objective + TOLERANCE, sum(values))
        result = scheduler.schedule_pods(without_evictions(pods))
        placed = float(np.array(values)[result.rows >= 0].sum()) if len(pods) else 0.0
    if all(value == int(value) for value in values):
        top = float(np.floor(top))
    prices = _prices(scheduler, relaxation, _prices_by_limit(relaxation, constraints, costs, found.prices))
    return Bound(len(pods), top, placed, prices, relaxation.relaxed, skipped)


def _prices_by_limit(
    relaxation: Relaxation, constraints: Constraints, costs: Floats, duals: Floats
) -> dict[tuple[int, str], float]:
    """Return the price of one unit by pool and resource: the dual price of its row, or what the number of
    whole pods that it limits costs, if that is more."""
    found: dict[tuple[int, str], float] = {}
    of_limits = duals[len(relaxation.kinds) :]
    for limit, price, scale in zip(constraints.limits, of_limits, constraints.scale, strict=True):
        if price > TOLERANCE:
            found[limit] = float(price / scale)
    rows, reduced = constraints.rows, costs.copy()
    np.subtract.at(reduced, rows.column, rows.value * duals[rows.row])
    for at in np.flatnonzero(reduced > TOLERANCE):
        resource, kind = constraints.scarce[at], relaxation.kinds[constraints.kind[at]]
        if resource:
            limit = int(constraints.pool[at]), resource
            found[limit] = max(found.get(limit, 0.0), float(reduced[at]) / kind.needs[resource])
    return found


def _prices(
    scheduler: PodScheduler, relaxation: Relaxation, by_limit: dict[tuple[int, str], float]
) -> tuple[Price, ...]:
    """Return the prices, the one for all free units first that is the highest."""
    found: list[tuple[float, Price]] = []
    for (pool, resource), price in by_limit.items():
        members = np.flatnonzero(relaxation.pool == pool)
        names = tuple(scheduler.cache.state.view.names_of(relaxation.rows[members]))
        worth = price * float(relaxation.free[resource][members].sum())
        found.append((worth, Price(names, resource, price)))
    found.sort(key=lambda each: (-each[0], each[1].resource, each[1].nodes))
    return tuple([price for _, price in found])
