"""What ``--instance-types`` names: a provider, or files, each recognised by its content."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, located, shorten
from moorage.kube import NodeSelectorRequirement
from moorage.kube.admission.validate_object import check_labels
from moorage.kube.apiserver.decode import decode
from moorage.kube.model.meta import quantity
from moorage.kube.read.files import read_text, source_name

from .aws.ec2_answers import ec2_answers, refuse_other_formats
from .azure import VM_SIZE_FIELD, read_sizes
from .gcp import MACHINE_TYPE_FIELD, read_machine_types
from .instance_type import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    RESERVED,
    ZONE,
    InstanceType,
    ListedTypes,
    Offering,
    requirements,
)
from .pool_types import Types
from .prices import NO_PRICES, is_price_list, read_prices
from .type_sources import AWS, TypeSources, names_provider

# ---- reads instance types from a file, in the format of Karpenter's kwok provider, as JSON or YAML ---------

RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
_ARCHITECTURES = {"x86_64": "amd64", "i386": "386"}
"""Names of machines in such files, and the values of the label."""
_KUBELET = {"cpu": Quantity("100m"), "memory": Quantity("10Mi")}
"""What the provider keeps of each node."""
_PODS = Quantity("110")
_SIZE = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)")
_KWOK = "karpenter.kwok.sh/instance-"


class _Offering(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    price: Annotated[float, msgspec.Meta(ge=0)] = msgspec.field(name="Price")
    requirements: tuple[NodeSelectorRequirement, ...] = msgspec.field(name="Requirements")
    available: bool = msgspec.field(default=True, name="Available")
    reservation_capacity: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(
        default=0, name="ReservationCapacity"
    )


class _Type(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str
    offerings: tuple[_Offering, ...]
    architecture: str
    operating_systems: tuple[str, ...]
    resources: dict[str, str | int | float]
    labels: dict[str, str] = {}


def read_instance_types(file: str | Path) -> list[InstanceType]:
    """Read instance types.

    Parameters
    ----------
    file : str or Path
        A list of types with ``name``, ``architecture``, ``operatingSystems``, ``resources``, ``offerings``;
        these have ``Price`` and ``Requirements`` for zone and capacity type. JSON or YAML, also compressed.

    Raises
    ------
    InputError
        The file cannot be read, or a type is not as it should be; the message names type, offering and field.
    """
    source = source_name(str(file))
    with located(source=source):
        return decode_types(parse_value(read_text(str(file)), source))


def decode_types(value: Any) -> list[InstanceType]:
    """Read instance types from the value of a file; see `read_instance_types`."""
    if value == []:
        raise InputError("the list has no instance type")
    if not isinstance(value, list):
        raise InputError(
            "expected a list of instance types, as Karpenter's kwok provider has them, or as az vm list-skus "
            "or gcloud compute machine-types list print them"
        )
    if isinstance(value[0], str | list) or (isinstance(value[0], dict) and "InstanceType" in value[0]):
        raise InputError("output with --query or --format lacks fields: give all that the command prints")
    kinds: list[InstanceType] = []
    names: set[tuple[str, str, frozenset[str]]] = set()
    for at, each in enumerate(value):
        name = each.get("name") if isinstance(each, dict) else None
        about = f"instance type {shorten(name)}" if isinstance(name, str) and name else ""
        with located(obj=about, path="" if about else f"[{at}]"):
            kind = _instance_type(each)
            key = kind.name, each["architecture"], frozenset(each["operatingSystems"])
            if key in names:
                raise InputError("it is there twice, with the same architecture and operating systems")
            names.add(key)
            kinds.append(kind)
    return kinds


def parse_value(text: str, source: str) -> Any:
    """Return the value of a text in JSON or YAML."""
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # a list in YAML's form, or an error that the reader of YAML locates
    from moorage.kube.read.documents import read_first  # few need it, and it imports PyYAML

    return read_first(text, source)[0]


def _instance_type(value: Any) -> InstanceType:
    given = decode(value, _Type)
    if not given.name:
        raise InputError("required", path="name")
    if not given.offerings:
        raise InputError("at least one offering is required", path="offerings")
    if not given.operating_systems:
        raise InputError("at least one is required", path="operatingSystems")
    for resource, amount in given.resources.items():
        with located(path=f"resources.{resource}"):
            quantity(amount)
    with located(path="labels"):
        check_labels(given.labels)
        for key in (ZONE, CAPACITY_TYPE, RESERVATION):
            if key in given.labels:
                raise InputError(f"{key} is a requirement of offerings, not a label of the type")
    for resource in ("cpu", "memory"):
        if resource not in given.resources:
            raise InputError("required", path=f"resources.{resource}")
    offerings = []
    for at, offering in enumerate(given.offerings):
        with located(path=f"offerings[{at}]"):
            offerings.append(_offering(offering))
    capacity = {"pods": _PODS} | {name: Quantity(amount) for name, amount in given.resources.items()}
    return InstanceType(given.name, capacity, tuple(offerings), _labels(given, capacity), (_KUBELET,))


def _labels(given: _Type, capacity: Mapping[str, Quantity]) -> tuple[NodeSelectorRequirement, ...]:
    architecture = _ARCHITECTURES.get(given.architecture, given.architecture)
    own = given.labels or _kwok_labels(given.name, capacity)
    system = {"kubernetes.io/arch": (architecture,), "kubernetes.io/os": given.operating_systems}
    return requirements({**system, **{key: (value,) for key, value in own.items()}})


def _kwok_labels(name: str, capacity: Mapping[str, Quantity]) -> dict[str, str]:
    """The labels that the kwok provider makes of a type's name and resources."""
    cpu, size = str(capacity["cpu"]), _SIZE.fullmatch(name)
    parts = re.split("[.-]", name, maxsplit=1)
    return {
        f"{_KWOK}size": size[1] if size else cpu,
        f"{_KWOK}family": parts[0] if len(parts) > 1 else name[0],
        f"{_KWOK}cpu": cpu,
        f"{_KWOK}memory": str(capacity["memory"]),
    }


def _offering(given: _Offering) -> Offering:
    if not math.isfinite(given.price):
        raise InputError(f"must be a number, not {given.price}", path="Price")
    others = []
    named: dict[str, str] = {}
    for at, requirement in enumerate(given.requirements):
        if requirement.key not in (ZONE, CAPACITY_TYPE, RESERVATION):
            with located(path=f"Requirements[{at}]"):
                _check(requirement)
            others.append(requirement)
            continue
        if requirement.operator != "In" or len(requirement.values) != 1:
            raise InputError(
                f"{requirement.key} needs the operator In and one value", path=f"Requirements[{at}]"
            )
        named[requirement.key] = requirement.values[0]
    for key in (ZONE, CAPACITY_TYPE):
        if not named.get(key):
            raise InputError(f"a requirement for {key} is required", path="Requirements")
    kind = named[CAPACITY_TYPE]
    if kind not in CAPACITY_TYPES:
        text = f'{CAPACITY_TYPE} must be one of {", ".join(CAPACITY_TYPES)}, not "{shorten(kind)}"'
        raise InputError(text, path="Requirements")
    reservation = named.get(RESERVATION, "")
    if (kind == RESERVED) != bool(reservation):
        text = f"{RESERVATION} is required for reserved capacity, and for no other"
        raise InputError(text, path="Requirements")
    return Offering(
        named[ZONE],
        kind,
        given.price,
        given.available,
        reservation,
        given.reservation_capacity,
        tuple(others),
    )


def _check(requirement: NodeSelectorRequirement) -> None:
    if requirement.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        raise InputError(
            f'must be In, NotIn, Exists or DoesNotExist, not "{requirement.operator}"', path="operator"
        )
    if not requirement.key:
        raise InputError("required", path="key")


# ---- type files --------------------------------------------------------------------------------------------


def given_types(*names: str) -> Types:
    """Return the types of a provider, as it is written, and of files.

    Parameters
    ----------
    names : str
        ``aws``, ``aws:REGION`` or ``aws:ZONE,ZONE``, and ``gcp`` and ``azure`` likewise; a list of types in
        the format of Karpenter's kwok provider; answers of ``aws ec2 describe-instance-types`` and its like;
        what ``az vm list-skus`` or ``gcloud compute machine-types list`` prints; a list of prices.

    Raises
    ------
    InputError
        A file cannot be read, is none of these, or contradicts another.
    """
    providers = [name for name in names if names_provider(name)]
    pages, lists = list[tuple[str, Any]](), list[list[InstanceType] | ListedTypes]()
    prices = NO_PRICES
    for name in [name for name in names if name not in providers]:
        source, text = source_name(name), read_text(name)
        with located(source=source):
            if is_price_list(text):
                if prices.by_offering:
                    raise InputError("there is another list of prices: give one")
                prices = read_prices(text, source)
                continue
            refuse_other_formats(text)
            for value in _values(text, source):
                if isinstance(value, dict):
                    pages.append((source, value))
                else:
                    lists.append(_list(value))
    sources = TypeSources.of(providers[0]) if providers else TypeSources()
    is_other = bool(pages) and sources.provider not in ("", AWS)
    if len(lists) > 1 or len(providers) > 1 or (lists and (providers or pages)) or is_other:
        raise InputError(
            "--instance-types: give one list of types, or one region of a provider; with AWS, answers of EC2"
        )
    if lists:
        given = lists[0]
        if isinstance(given, ListedTypes):
            source = "; ".join(filter(None, [given.source, prices.used_on(given.types)]))
            return replace(given.at(prices.put_on), source=source)
        prices.used_on(given)
        return prices.put_on(given)
    if pages:
        sources = replace(sources, answers=ec2_answers(pages))
    return replace(sources, prices=prices) if pages or prices.by_offering else providers[0]


def _list(value: Any) -> list[InstanceType] | ListedTypes:
    """Read a list by what its first item has."""
    first = value[0] if isinstance(value, list) and value else None
    for field, read in _LISTS.items():
        if isinstance(first, dict) and field in first:
            return read(value)
    return decode_types(value)


def _refuse_reservations(value: Any) -> NoReturn:
    raise InputError(
        "reservations of Compute Engine: Karpenter's provider for GCP asks for none, and a machine that "
        "matches an open one runs in it without being asked: leave the list out, and give the price of what "
        "is paid already in a list of prices"
    )


_LISTS = {
    VM_SIZE_FIELD: read_sizes,
    MACHINE_TYPE_FIELD: read_machine_types,
    "specificReservation": _refuse_reservations,
}
"""Readers of what the commands of providers print, by a field that each item has."""


def _values(text: str, source: str) -> Iterator[Any]:
    """Yield the values of a file: of JSON all objects one after another, as pages are printed."""
    if not text.lstrip().startswith("{"):
        yield parse_value(text, source)
        return
    rest = text.strip()
    while rest:
        try:
            value, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError) as error:
            raise InputError(f"not valid JSON: {error}") from None
        yield value
        rest = rest[end:].lstrip()
