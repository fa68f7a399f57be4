"""What ``--instance-types`` names: a provider, or files, each recognised by its content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from moorage.errors import InputError, located
from moorage.kube.read.files import read_text, source_name

from ..providers.aws.ec2_answers import ec2_answers, refuse_other_formats
from ..providers.aws.region_types import AWS, TypeSources
from ..providers.azure import vm_sizes
from ..providers.gcp import machine_types
from ..providers.listed_types import ListedTypes
from .instance_type import InstanceType
from .own_prices import NO_PRICES, is_price_list, read_prices
from .pool_types import Types
from .read_types import decode_types, parse_value


def given_types(*names: str) -> Types:
    """Return the types of a provider, as it is written, and of files.

    Parameters
    ----------
    names : str
        ``aws``, ``aws:REGION`` or ``aws:ZONE,ZONE``; a list of types in the format of Karpenter's kwok
        provider; answers of ``aws ec2 describe-instance-types`` and its like; what ``az vm list-skus`` or
        ``gcloud compute machine-types list`` prints; a list of prices.

    Raises
    ------
    InputError
        A file cannot be read, is none of these, or contradicts another.
    """
    of_aws = [name for name in names if name == AWS or name.startswith(f"{AWS}:")]
    pages, lists = list[tuple[str, Any]](), list[list[InstanceType] | ListedTypes]()
    prices = NO_PRICES
    for name in [name for name in names if name not in of_aws]:
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
    if len(lists) > 1 or len(of_aws) > 1 or (lists and (of_aws or pages)):
        raise InputError("--instance-types: give one list of types, or one region of AWS with answers of EC2")
    if lists:
        found = lists[0]
        used = prices.used_on(found.types if isinstance(found, ListedTypes) else found)
        if isinstance(found, ListedTypes):
            priced, source = prices.put_on(found.types), f"{found.source}{used}"
            return replace(found, types=priced, source=source, is_priced=prices is not NO_PRICES)
        return prices.put_on(found)
    sources = TypeSources.of(of_aws[0]) if of_aws else TypeSources()
    if pages:
        sources = replace(sources, answers=ec2_answers(pages))
    return replace(sources, prices=prices) if pages or prices.by_offering else of_aws[0]


def _list(value: Any) -> list[InstanceType] | ListedTypes:
    """Read a list by what its first item has."""
    first = value[0] if isinstance(value, list) and value else None
    for field, read in _LISTS.items():
        if isinstance(first, dict) and field in first:
            return read(value)
    return decode_types(value)


_LISTS = {
    vm_sizes.KIND_FIELD: vm_sizes.read_sizes,
    machine_types.KIND_FIELD: machine_types.read_machine_types,
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
