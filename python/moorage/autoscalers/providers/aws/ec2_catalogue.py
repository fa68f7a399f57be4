"""The catalogue of EC2's instance types, with prices on demand; ``catalogue/README.md`` has its source."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import field

from .ec2_types import Ec2Type, ProviderTables

DATE = "2026-08"
"""When the catalogue was made."""
_DEFAULT_REGION, _YUAN = "us-east-1", "cn-north-1"


class Ec2Catalogue(msgspec.Struct, frozen=True):
    """All types, the provider's tables by type, and prices on demand by region and type."""

    types: tuple[Ec2Type, ...] = field(name="InstanceTypes")
    tables: dict[str, ProviderTables]
    prices: dict[str, dict[str, float]]


class PriceList(NamedTuple):
    """Prices on demand per hour by type, the region of which they are, and their currency."""

    prices: Mapping[str, float]
    region: str
    currency: str


@cache
def catalogue() -> Ec2Catalogue:
    """Return the catalogue; it is read once."""
    file = Path(__file__).parent / "catalogue" / "ec2_catalogue.json.gz"
    return msgspec.json.decode(gzip.decompress(file.read_bytes()), type=Ec2Catalogue)


def price_list(region: str) -> PriceList:
    """Return prices as the provider has them before its first update: those of us-east-1 in most regions.

    In China, where spot prices are in yuan, it is those of cn-north-1: currencies are never added.
    """
    tables = catalogue().prices
    usual = _YUAN if region.startswith("cn-") else _DEFAULT_REGION
    priced = region if region in tables else usual
    return PriceList(tables[priced], priced, "CNY" if priced == _YUAN else "USD")
