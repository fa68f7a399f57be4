"""New nodes that pools could have, as templates for a plan: the types that promise the lowest price."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import NamedTuple

import msgspec
from msgspec import Struct

from moorage._core.base.resources import PodGates
from moorage.engine.framework.evidence import asked_by
from moorage.kube import Node, NodePool, Pod

from .instance_types.instance_type import Offering
from .instance_types.pool_types import PoolTypes
from .karpenter.claims.catalogue import Catalogue
from .karpenter.claims.claim_template import ClaimTemplate, claim_template, is_dynamic
from .karpenter.claims.type_columns import KnownType
from .karpenter.karpenter_options import KarpenterOptions
from .launched_nodes import launched_node

CHEAPEST, LARGE = 3, 2
"""How many types of a pool are tried: of all, and of those on which each of the pods fits."""


class PoolTemplates(Struct):
    """Templates of new nodes.

    Attributes
    ----------
    prices : dict of str to float
        By the name of a template; those that are known.
    types : int
        How many types the pools allow.
    tried : int
        How many of them have templates.
    """

    nodes: list[Node] = msgspec.field(default_factory=list)
    prices: dict[str, float] = msgspec.field(default_factory=dict)
    types: int = 0
    tried: int = 0


class _Demand(NamedTuple):
    """What pods request, by resource in units of 10**-9: together, each at least, and each at most."""

    total: Mapping[str, int]
    smallest: Mapping[str, int]
    largest: Mapping[str, int]


def pool_templates(
    pools: Iterable[NodePool],
    types: PoolTypes,
    pods: Iterable[Pod],
    gates: PodGates,
    options: KarpenterOptions,
) -> PoolTemplates:
    """Return nodes of each pool in each of its zones, of the types that promise the lowest price for pods.

    A type promises what all pods would cost if they filled its nodes without a gap.
    """
    found, demand = PoolTemplates(), _demand(pods, gates)
    for pool in filter(is_dynamic, pools):
        of_pool = types.by_pool.get(pool.name, ())
        catalogue = Catalogue(replace(options, provider=types.provider))
        template = claim_template(pool, catalogue, catalogue.known(of_pool), (), True)
        if isinstance(template, str):
            continue
        chosen = _chosen(template, demand)
        found.types += len(template.columns.types)
        found.tried += len(chosen)
        for kind in chosen:
            for offering in _by_zone(template, kind).values():
                parts = pool.name, kind.name, offering.capacity_type, offering.zone
                name = ".".join(filter(None, parts)).lower()
                found.nodes.append(launched_node(name, pool, kind.type, offering, {}, template.labels))
                if offering.price < inf:
                    found.prices[name] = round(offering.price, 6)
    return found


def _demand(pods: Iterable[Pod], gates: PodGates) -> _Demand:
    amounts = [{name: amount.nanos() for name, amount in asked_by(pod, gates).items()} for pod in pods]
    names = sorted({name for one in amounts for name in one})
    each = {name: [one.get(name, 0) for one in amounts] for name in names}
    return _Demand(
        {name: sum(of) for name, of in each.items()} | {"pods": len(amounts) * 10**9},
        {name: min(of) for name, of in each.items()},
        {name: max(of) for name, of in each.items()},
    )


def _chosen(template: ClaimTemplate, demand: _Demand) -> list[KnownType]:
    """The types of a template that promise the lowest price."""
    promised = []
    for at, kind in enumerate(template.columns.types):
        have = kind.groups[0][0]
        prices = [one.price for one in _by_zone(template, kind).values()]
        part = max((_part(asked, have.get(name, 0)) for name, asked in demand.total.items()), default=0.0)
        fits, fits_all = (
            all(amount <= have.get(name, 0) for name, amount in bound.items())
            for bound in (demand.smallest, demand.largest)
        )
        if prices and fits and part < inf:
            price = min(prices)
            promised.append((part * (price if price < inf else 1.0), at, fits_all, kind))
    promised.sort(key=lambda one: one[:2])
    promised = [*{one[3].name: one for one in reversed(promised)}.values()][::-1]  # one for each system, too
    large = [one for one in promised if one[2]][:LARGE]
    return [kind for _, _, _, kind in dict.fromkeys([*promised[:CHEAPEST], *large])]


def _part(asked: int, have: int) -> float:
    return 0.0 if not asked else asked / have if have > 0 else inf


def _by_zone(template: ClaimTemplate, kind: KnownType) -> dict[str, Offering]:
    """The cheapest offering of a type in each zone in which the pool could have it."""
    found: dict[str, Offering] = {}
    for zone, offering in _launchable(template, kind):
        if zone not in found or offering.price < found[zone].price:
            found[zone] = offering
    return found


def _launchable(template: ClaimTemplate, kind: KnownType) -> Iterator[tuple[str, Offering]]:
    for known in kind.offerings:
        if known.offering.is_launchable and not template.requirements.refusal(known.requirements, True):
            yield known.offering.zone, known.offering
