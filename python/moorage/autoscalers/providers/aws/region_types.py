"""The types of pools with EC2NodeClasses or of EKS Auto Mode, and what they rest on: region, zones, prices,
node classes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

import msgspec
from msgspec import structs

from moorage.errors import InputError, examples, located, number_of
from moorage.grouped import grouped
from moorage.kube import EC2NodeClass, Node, NodePool
from moorage.kube.model.autoscaling import NodeClass as AutoModeClass
from moorage.kube.model.autoscaling import ProviderNodeClass
from moorage.kube.model.meta import ObjectMeta
from moorage.lazy import NamedTuple

from ..instance_type import (
    CAPACITY_TYPE,
    POOL,
    RESERVED,
    ZONE,
    InstanceType,
    ShownSizes,
    ShownTypes,
    shown_types,
)
from ..known_labels import CORE, ZONE_ID
from ..type_sources import AWS, TypeSources, region_among
from .ec2_answers import DATE, Ec2Answers, catalogue, price_list, region_of
from .ec2_instance_types import (
    AUTO_MODE_DOMAIN,
    DOMAIN,
    Market,
    auto_mode_spec,
    instance_types,
    of_auto_mode,
)
from .node_capacity import memory_sold
from .node_class import NodeClass

USUAL_SPEC = {"amiSelectorTerms": [{"alias": "al2023@latest"}]}
"""Of an EC2NodeClass that is not in the input."""
_ASSUMED = "abc"
"""Letters of the zones that are taken where nothing names one."""


class AwsTypes(NamedTuple):
    """Types by pool, and what they rest on."""

    by_pool: Mapping[str, Sequence[InstanceType]]
    source: str
    region: str


def has_node_class(pool: NodePool) -> bool:
    """Whether a pool's nodes are those of Karpenter's provider for AWS, or of EKS Auto Mode."""
    return pool.spec.template.spec.node_class_ref.group in (DOMAIN, AUTO_MODE_DOMAIN)


def aws_types(
    sources: TypeSources,
    pools: Sequence[NodePool],
    node_classes: Iterable[ProviderNodeClass],
    nodes: Sequence[Node],
    volume_zones: frozenset[str],
) -> AwsTypes:
    """Return the types of pools with EC2NodeClasses. Volumes in some zones show where the cluster is.

    Raises
    ------
    InputError
        The region is not known, or a node class is not as it should be.
    """
    of_aws = [each for each in node_classes if isinstance(each, EC2NodeClass | AutoModeClass)]
    given = {(each.api_version.partition("/")[0], each.name): NodeClass.of(each) for each in of_aws}
    there = ({node.metadata.labels.get(ZONE, "") for node in nodes} - {""}) | volume_zones
    subnets = {zone for each in given.values() for zone in each.zone_ids}
    own = subnets or there | asked_zones(pools)
    own = own if sources.region else own | sources.answers.places
    region = region_among(AWS, sources.region, own, pools[0].name)
    others = sorted({*map(region_of, sources.answers.places)} - {region})
    if others:
        raise InputError(f"the files of --instance-types are of {others[0]}, and the region is {region}")
    notes, references = list[str](), ((pool.spec.template.spec.node_class_ref, pool) for pool in pools)
    by_class = grouped(((reference.group, reference.name), pool) for reference, pool in references)
    classes, estimates, of_zones = {}, dict[str, list[str]](), dict[tuple[str, str], list[str]]()
    for key, of_class in by_class.items():
        group, name = key
        kind = "EC2NodeClass" if group == DOMAIN else "NodeClass"
        node_class = given.get(key) or NodeClass.of(
            EC2NodeClass(metadata=ObjectMeta(name=name), spec=USUAL_SPEC)
        )
        if group != DOMAIN:
            disk = node_class.spec.ephemeral_storage.size
            with located(obj=f"NodeClass {name}", path="spec.ephemeralStorage.size"):
                node_class = structs.replace(node_class, spec=auto_mode_spec(disk))
            estimates.setdefault(disk, []).append(name)
        elif key not in given:
            notes.append(
                f"EC2NodeClass {name} is not in the input: AL2023 with its usual disk and kubelet is assumed"
            )
        node_class = node_class.with_reservations(sources.answers.reservations or ())
        notes += _reservation_notes(node_class, of_class, sources.answers)
        if not node_class.zone_ids:
            zones, why = _zones(sources, region, there | asked_zones(of_class), nodes)
            node_class = node_class.within(zones)
            of_zones.setdefault((kind, f"{why}: {examples(sorted(zones), 6)}"), []).append(name)
        classes[key] = node_class
    notes += [
        f"NodeClass {examples(names, 3)} of EKS Auto Mode, whose rules are not public: nodes are estimated "
        f"as those of Bottlerocket with {disk} of storage"
        for disk, names in estimates.items()
    ]
    notes += [f"zones of {kind} {examples(names, 3)}, {text}" for (kind, text), names in of_zones.items()]
    if any(each.family.build for each in classes.values()):
        notes.append("list prices are those of Linux, as Karpenter has them: Windows costs its licence more")
    every = {each for each in there if region_of(each) == region}
    every |= {zone for each in classes.values() for zone in each.zone_ids} | sources.answers.places - {region}
    by_pool = dict[str, Sequence[InstanceType]]()
    place = replace(sources, region=region, zones=tuple(sorted(every)))
    for key, of_class in by_class.items():
        names = {pool.name for pool in of_class}
        shown = shown_types([node for node in nodes if node.metadata.labels.get(POOL) in names])
        types = _types(msgspec.json.encode(classes[key]), place, shown, key[0] == AUTO_MODE_DOMAIN)
        by_pool |= dict.fromkeys(names, types)
    notes += _unpriced(by_pool, sources)
    return AwsTypes(by_pool, _source(region, sources.answers, notes), region)


def _reservation_notes(
    node_class: NodeClass, pools: Iterable[NodePool], answers: Ec2Answers
) -> Iterator[str]:
    """Yield what is not known of the reservations of a node class."""
    if not any(_allows(pool, RESERVED) for pool in pools):
        return
    counted = {reservation.id for reservation in answers.reservations or ()}
    there = [each.id for each in node_class.status.capacity_reservations]
    unknown = [name for name in there if name not in counted]
    if unknown:
        names = f"{examples(unknown, 3)} of EC2NodeClass {node_class.name}"
        yield f"free instances of {names} not known: taken to be full"
    elif not there and node_class.spec.capacity_reservation_selector_terms and answers.reservations is None:
        yield f"reservations that EC2NodeClass {node_class.name} selects are not in the input: none counts"


def allows_spot(pool: NodePool) -> bool:
    """Whether nodes of a pool may be spot."""
    return _allows(pool, "spot")


def _allows(pool: NodePool, capacity_type: str) -> bool:
    of_kinds = [
        requirement
        for requirement in pool.spec.template.spec.requirements or ()
        if requirement.key == CAPACITY_TYPE
    ]
    return all((capacity_type in each.values) == (each.operator == "In") for each in of_kinds)


def asked_zones(pools: Iterable[NodePool]) -> set[str]:
    """Return the zones that pools require by name."""
    required = [pool.spec.template.spec.requirements or () for pool in pools]
    return CORE.values_of(ZONE, chain.from_iterable(required))


def _zones(
    sources: TypeSources, region: str, named: set[str], nodes: Sequence[Node]
) -> tuple[Mapping[str, str], str]:
    """The zones of a node class without subnets, with their IDs where nodes show them, and why these."""
    zone_ids = sources.answers.zone_ids
    if sources.zones:
        zones, why = {*sources.zones}, "given"
    elif zone_ids:
        zones, why = {*zone_ids}, "of the subnets given"
    else:
        zones, why = {*named}, "of nodes, volumes and pools"
    zones = {zone for zone in zones if region_of(zone) == region}
    if not zones:
        zones, why = sources.answers.places - {region}, "of files"
    if not zones:
        zones, why = {f"{region}{letter}" for letter in _ASSUMED}, "assumed"
    ids = {node.metadata.labels.get(ZONE, ""): node.metadata.labels.get(ZONE_ID, "") for node in nodes}
    ids |= zone_ids
    return {zone: ids.get(zone, "") for zone in sorted(zones)}, why


@lru_cache(64)
def _types(
    node_class: bytes, place: TypeSources, shown: ShownTypes, is_auto: bool
) -> tuple[InstanceType, ...]:
    """The types under a node class in the region and the zones of a place. Karpenter believes of memory what
    nodes of a type have shown."""
    of_nodes = {name: (dict(capacity), dict(left)) for name, capacity, left in shown}
    overhead = place.flags.vm_memory_overhead
    kinds = list[InstanceType]()
    for kind, sold in _listed(node_class, place):
        if kind.name in of_nodes:
            capacity, left = of_nodes[kind.name]
            estimated = kind.capacity["memory"]
            sizes = ShownSizes(capacity, left, estimated.value(), 0 if is_auto else sold, overhead)
            believed = {**kind.capacity, "memory": capacity.get("memory", estimated)}
            kind = replace(kind, capacity=believed, shown=sizes)
        kinds.append(kind)
    return tuple(of_auto_mode(kinds) if is_auto else kinds)


@lru_cache(64)
def _listed(node_class: bytes, place: TypeSources) -> list[tuple[InstanceType, int]]:
    """The same before a node is there, with the memory in bytes that is sold as theirs."""
    region, zones, answers, every = place.region, place.zones, place.answers, catalogue()
    types, sold = answers.types or every.types, answers.zones_of
    by_type = dict[str, Collection[str]]()
    if sold is not None:
        by_type = {kind.instance_type: sold.get(kind.instance_type, ()) for kind in types}
        by_type = {name: zones if region in places else places for name, places in by_type.items()}
        if all(region not in places for places in sold.values()):
            zones = tuple(sorted(set().union(*sold.values())))
    market = Market(
        region,
        zones,
        price_list(region).prices,
        answers.spot_prices,
        by_type,
        free_reserved={each.id: each.available_instance_count for each in answers.reservations or ()},
        own_prices=place.prices,
    )
    read = msgspec.json.decode(node_class, type=NodeClass)
    memory_of = {kind.instance_type: memory_sold(kind) for kind in types}
    return [
        (kind, memory_of[kind.name])
        for kind in instance_types(types, every.tables, read, market, place.flags)
    ]


def _unpriced(by_pool: Mapping[str, Sequence[InstanceType]], sources: TypeSources) -> Iterator[str]:
    """Yield which types of files have no price, so that Karpenter cannot launch them."""
    every = dict.fromkeys(chain.from_iterable(by_pool.values())) if sources.answers.types else ()
    names = sorted({each.name for each in every if not any(offering.price for offering in each.offerings)})
    if names:
        yield f"no price is known of {examples(names, 3)}: not available"


def _source(region: str, answers: Ec2Answers, notes: Sequence[str]) -> str:
    prices, count = price_list(region), len(answers.types)
    types = f"{number_of(count, 'type', 'types')} of files" if count else DATE
    is_own = prices.region == region
    of_prices = f"prices of {prices.region}" if count or not is_own else ""
    of_prices += f", {DATE}" if count else ""
    where = "all zones" if is_own else region
    sold = f"all types taken to be sold in {where}" if answers.zones_of is None else ""
    currency = "all prices in yuan, also where $ stands" if prices.currency != "USD" else ""
    return "; ".join(filter(None, [f"{AWS} {region}, {types}", of_prices, sold, currency, *notes]))
