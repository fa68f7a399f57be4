"""What the types have in common that the command of a provider lists: ``az vm list-skus``, ``gcloud compute
machine-types list``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from moorage.errors import InputError, located, shorten
from moorage.kube.read.decode import decode

from ..instance_types.instance_type import InstanceType

CPU_SHARES = ((0, 1000, 0.06), (1000, 2000, 0.01), (2000, 4000, 0.005), (4000, 1 << 31, 0.0025))
"""What the kubelet keeps on AWS and GKE of each range of millicores."""
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ListedTypes:
    """Types of a region for the pools of one provider.

    Attributes
    ----------
    group : str
        The API group of the provider's node classes.
    source : str
        Of what the types are, and what is not known of them.
    is_priced : bool
    """

    group: str
    types: Sequence[InstanceType]
    source: str
    is_priced: bool = False


def whole_shares(amount: int, ranges: Iterable[tuple[int, int, float]]) -> int:
    """Return a sum of shares, each of a range of an amount and cut to whole units."""
    return sum(
        int(float(min(amount, end) - start) * share) for start, end, share in ranges if amount >= start
    )


def read_items(items: Sequence[object], kind: type[T], command: str) -> list[T]:
    """Decode the items of a list; an error names the command and the item.

    Raises
    ------
    InputError
        An item lacks a field, or a field has another type than the command prints.
    """
    found = []
    for at, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        about = f"{shorten(name)} " if isinstance(name, str) else ""
        with located(obj=about.strip(), path=f"[{at}]"):
            if not isinstance(item, dict):
                raise InputError(f"must be an object, as {command} prints it")
            found.append(decode(item, kind))
    return found


def only_region(regions: Iterable[str], hint: str) -> str:
    """Return the region that all items are of.

    Raises
    ------
    InputError
        They are of several: prices and zones differ.
    """
    names = sorted({*regions})
    if len(names) > 1:
        raise InputError(f"has types of {len(names)} regions, such as {names[0]} and {names[1]}: {hint}")
    return names[0]
