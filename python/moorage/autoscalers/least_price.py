"""The least that nodes could cost on which pods fit, whatever the packing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import isfinite

import numpy as np

from moorage.kube import Pod

from .karpenter.cluster_view import ClusterView
from .karpenter.host_table import RESOURCES

LEFT_OUT = (
    "requirements, topologies, daemons, limits and whole nodes are left out; each resource is bought where "
    "it is cheapest"
)
"""What the bound does not take into account."""
_MIXES = 2.0 ** np.linspace(-16, 16, 129)


def least_price(view: ClusterView, pods: Sequence[Pod]) -> float | None:
    """A price per hour below which pods cannot run on nodes of the pools; None without prices.

    Amounts of resources, with any weights, cost at least what the type costs that has the most of them for
    its price. The best of some weights of one resource, and of two, is taken.
    """
    have, prices = [], []
    for template in view.templates[0]:
        offered = view.finisher.offers(template.columns, template.requirements).prices.tolist()
        for known, price in zip(template.columns.types, offered, strict=True):
            if isfinite(price) and price > 0:
                have.append([float(known.groups[0][0].get(name, 0)) for name in RESOURCES])
                prices.append(price)
    if not have:
        return None
    asked = np.zeros(len(RESOURCES))
    for pod in pods:
        amounts = view.book.shape(pod).amounts
        asked += [float(amounts.get(name, 0)) for name in RESOURCES]
    scale = np.maximum(np.max(have, axis=0), 1.0)
    per_price, asked = np.array(have) / scale / np.array(prices)[:, None], asked / scale
    best = max(float(asked[at] / max(per_price[:, at].max(), 1e-300)) for at in range(len(RESOURCES)))
    for one, other in combinations(range(len(RESOURCES)), 2):
        bought = (per_price[:, [one]] + per_price[:, [other]] * _MIXES).max(axis=0)
        best = max(best, float(((asked[one] + asked[other] * _MIXES) / bought).max()))
    return best
