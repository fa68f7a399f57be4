"""Which instance types pools have: those given, those of their provider, or those that nodes show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from moorage.autoscaling.providers.aws.region_types import AWS, Asked, aws_types, has_node_class
from moorage.autoscaling.providers.registrations import Registration, registration_of
from moorage.errors import InputError, number_of
from moorage.objects import EC2NodeClass, Node, NodePool, Object

from .instance_type import InstanceType
from .labels import POOL
from .read_types import read_instance_types
from .seen_types import seen_types

Types = Sequence[InstanceType] | Mapping[str, Sequence[InstanceType]] | str
"""Instance types: of all pools, or by pool; or a provider, such as ``aws`` or ``aws:us-east-1``."""


class PoolTypes(NamedTuple):
    """Types by pool.

    Attributes
    ----------
    source : str
        What types of a provider rest on, or where they were seen; "" for those that are given.
    is_priced : bool
        Whether they have prices.
    provider : Registration
        What is known of their labels.
    """

    by_pool: Mapping[str, Sequence[InstanceType]]
    source: str
    is_priced: bool
    provider: Registration

    def every(self) -> list[InstanceType]:
        """Return the types of all pools, each once."""
        return [*dict.fromkeys(chain.from_iterable(self.by_pool.values()))]


def given_types(text: str) -> Types:
    """Return what an option names: a provider as it is written, or the types of a file."""
    return text if text == AWS or text.startswith(f"{AWS}:") else read_instance_types(text)


def pool_types(
    types: Types | None,
    pools: Sequence[NodePool],
    node_classes: Iterable[EC2NodeClass],
    nodes: Sequence[Node],
) -> PoolTypes:
    """Return the types of pools.

    Parameters
    ----------
    types : sequence, mapping, str or None
        By default pools with an EC2NodeClass have the types of AWS, and others those that their nodes show.

    Raises
    ------
    InputError
        A pool of the mapping is not there, or the region of AWS is not known.
    """
    provider = registration_of(pools)
    if types is not None and not isinstance(types, str):
        by_pool = types if isinstance(types, Mapping) else {pool.name: types for pool in pools}
        names = {pool.name for pool in pools}
        for name in by_pool:
            if name not in names:
                raise InputError(f"types: there is no NodePool {name}")
        return PoolTypes(by_pool, "", True, provider | _named(by_pool))
    asked = Asked.of(types) if types is not None else Asked()
    of_aws = [pool for pool in pools if has_node_class(pool)]
    if types is not None and not of_aws:
        raise InputError(f"no NodePool has an EC2NodeClass, so there are no types of {types}")
    there = {pool.name for pool in pools}
    seen = {name: of for name, of in seen_types(nodes).items() if name in there}
    if not of_aws:
        provider |= _named(seen)
        of_pools = sum(node.metadata.labels.get(POOL) in there for node in nodes)
        return PoolTypes(seen, f"types as seen on {number_of(of_pools, 'node', 'nodes')}", False, provider)
    found = aws_types(asked, of_aws, node_classes, nodes)
    others = {name: of for name, of in seen.items() if name not in found.by_pool}
    return PoolTypes({**others, **found.by_pool}, f"types: {found.source}", True, provider | _named(others))


def types_of_objects(types: Types | None, nodes: Sequence[Node], objects: Iterable[Object]) -> PoolTypes:
    """Return the types of the pools among some objects; see `pool_types`."""
    every = list(objects)
    pools = [one for one in every if isinstance(one, NodePool)]
    return pool_types(types, pools, [one for one in every if isinstance(one, EC2NodeClass)], nodes)


def _named(types: Mapping[str, Sequence[InstanceType]]) -> Registration:
    """The labels that types and their offerings name: their provider knows them."""
    every = dict.fromkeys(chain.from_iterable(types.values()))
    return Registration(
        frozenset(
            requirement.key
            for one in every
            for requirements in (one.requirements, *{each.requirements for each in one.offerings})
            for requirement in requirements
        )
    )
