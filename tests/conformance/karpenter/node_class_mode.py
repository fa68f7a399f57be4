"""What Karpenter's provider for AWS makes of an EC2NodeClass (conformance/KARPENTER_AWS.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from moorage import Quantity
from moorage.autoscalers import InstanceType, Offering
from moorage.kube import EC2NodeClass, decode_object
from tests.conformance.compare import differences
from tests.conformance.vectors import MalformedError
from tests.doors.autoscalers import (
    Ec2Type,
    Market,
    NodeClass,
    ProviderOptions,
    catalogue,
    instance_types,
    price_list,
)
from tests.doors.kube import decode

Json = dict[str, Any]

QUESTION = {
    *("name", "family", "seed", "region", "zones", "ec2NodeClass", "instanceTypes", "describeInstanceTypes"),
    *("usageClasses", "instanceTypeZones", "spotPrices", "unavailable", "reservationCounts", "options"),
}
OPTIONS = {"vmMemoryOverheadPercent", "reservedENIs", "awsFeatureGates"}


def is_node_class(vector: Json) -> bool:
    """Whether a line asks what the provider makes of an EC2NodeClass."""
    return vector.keys() == {"question", "result"}


def check(vector: Json, shown: int) -> Iterator[str]:
    """What is wrong with a vector."""
    question = vector["question"]
    if unknown := question.keys() - QUESTION:
        raise MalformedError(f"unknown fields in the question: {', '.join(sorted(unknown))}")
    made = types_of(question, question["ec2NodeClass"], question.get("options", {}))
    produced = {one.name: compared(type_shown(one)) for one in made}
    expected = {one["name"]: compared(one) for one in vector["result"]["instanceTypes"]}
    yield from islice(differences(expected, produced), shown)


def types_of(given: Json, node_class: Json, options: Json) -> list[InstanceType]:
    """The types under a node class, in order of their names."""
    if unknown := options.keys() - OPTIONS:
        raise MalformedError(f"unknown options: {', '.join(sorted(unknown))}")
    read = decode_object(node_class)
    assert isinstance(read, EC2NodeClass)
    found = instance_types(
        sorted(kinds_of(given), key=lambda one: one.instance_type),
        catalogue().tables,
        NodeClass.of(read),
        market_of(given),
        ProviderOptions(
            options.get("vmMemoryOverheadPercent", 0.075),
            options.get("reservedENIs", 0),
            options.get("awsFeatureGates", {}).get("NodeClassCEL", False),
        ),
    )
    return list(found)


def kinds_of(given: Json) -> list[Ec2Type]:
    if "describeInstanceTypes" in given:
        return [decode(one, Ec2Type) for one in given["describeInstanceTypes"]]
    classes = given.get("usageClasses") or {}
    every = {one.instance_type: one for one in catalogue().types}
    return [
        every[name]
        if name not in classes
        else Ec2Type(
            **{field: getattr(every[name], field) for field in Ec2Type.__struct_fields__}
            | {"supported_usage_classes": tuple(classes[name])}
        )
        for name in given["instanceTypes"]
    ]


def market_of(given: Json) -> Market:
    return Market(
        given["region"],
        tuple(given["zones"]),
        price_list(given["region"]).prices,
        given.get("spotPrices"),
        given.get("instanceTypeZones") or {},
        frozenset(
            (one["instanceType"], one["zone"], one["capacityType"]) for one in given.get("unavailable") or ()
        ),
        given.get("reservationCounts") or {},
    )


def type_shown(one: InstanceType) -> Json:
    """A type in the form of vectors."""
    names = ("kubeReserved", "systemReserved", "evictionThreshold")
    return {
        "name": one.name,
        "requirements": {each.key: sorted(each.values) for each in one.requirements},
        "capacity": texts(one.capacity),
        "overhead": {name: texts(amounts) for name, amounts in zip(names, one.overhead, strict=True)},
        "allocatable": texts(one.allocatable({})),
        "offerings": [offering_shown(each) for each in one.offerings],
    }


def texts(amounts: Mapping[str, Quantity]) -> Json:
    return {name: str(amount) for name, amount in amounts.items()}


def offering_shown(one: Offering) -> Json:
    labels = {each.key: each.values[0] for each in one.requirements if each.values}
    found: Json = {
        "zone": one.zone,
        "capacityType": one.capacity_type,
        "price": one.price,
        "available": one.available,
        "zoneID": labels.get("topology.k8s.aws/zone-id", ""),
    }
    if one.reservation_id:
        found |= {
            "reservationID": one.reservation_id,
            "reservationCapacity": one.reservation_capacity,
            "reservationType": labels["karpenter.k8s.aws/capacity-reservation-type"],
            "interruptible": labels["karpenter.k8s.aws/capacity-reservation-interruptible"],
        }
    return {key: value for key, value in found.items() if value or key in ("price", "available")}


def compared(one: Json) -> Json:
    """A type with amounts as numbers of 10**-9, and prices to 12 digits."""

    def numbers(amounts: Json) -> Json:
        return {name: Quantity(amount).nanos() for name, amount in amounts.items()}

    def priced(offering: Json) -> Json:
        kept = {key: value for key, value in offering.items() if value or key in ("price", "available")}
        return kept | {"price": float(f"{offering['price']:.12g}")}

    offerings = [priced(each) for each in one["offerings"]]
    return one | {
        "capacity": numbers(one["capacity"]),
        "allocatable": numbers(one["allocatable"]),
        "overhead": {name: numbers(amounts) for name, amounts in one["overhead"].items()},
        "offerings": sorted(
            offerings, key=lambda each: (each["zone"], each["capacityType"], each.get("reservationID", ""))
        ),
    }
