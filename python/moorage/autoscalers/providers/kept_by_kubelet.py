"""What a machine keeps from its pods: providers differ in the numbers alone.

Rules: what Karpenter's providers compute of a type, see the module of each. On AWS memory is kept by the
number of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, inf

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.lazy import NamedTuple

MIB, GIB = 1 << 20, 1 << 30


class ShareRanges(NamedTuple):
    """A sum of shares of an amount, each of a range up to an end.

    Attributes
    ----------
    unit : int
        In how many units of the sum one of the amount is counted.
    cuts_each : bool
        Whether each share is cut to whole units, not the sum.
    """

    ranges: tuple[tuple[float, float], ...]
    unit: int = 1
    cuts_each: bool = True

    def of(self, amount: float) -> int:
        """Return the sum."""
        start, parts = 0.0, list[float]()
        for end, share in self.ranges:
            if start <= amount:
                parts.append((min(amount, end) - start) * share)
            start = end
        return sum(map(int, parts)) if self.cuts_each else int(self.unit * sum(parts))


class Kept(NamedTuple):
    """What is kept of the machines of a provider.

    Attributes
    ----------
    cpu, memory : ShareRanges
        By the kubelet: millicores and MiB.
    system, eviction : mapping of str to Quantity
        By the system and for the threshold of evictions.
    unseen : float
        The share of the memory sold that nodes never see.
    pods : int
        How many a node takes if nothing says otherwise.
    """

    cpu: ShareRanges
    memory: ShareRanges
    system: Mapping[str, Quantity]
    eviction: Mapping[str, Quantity]
    unseen: float
    pods: int


class KubeletSettings(msgspec.Struct, frozen=True, rename="camel"):
    """What node classes say of the kubelet; texts that are no quantities are expressions of CEL."""

    max_pods: int | str | None = None
    pods_per_core: int | None = None
    system_reserved: dict[str, str | int | float] = {}
    kube_reserved: dict[str, str | int | float] = {}
    eviction_hard: dict[str, str] = {}

    def evicted(
        self, memory: int, storage: int, part: Callable[[float, float], float]
    ) -> dict[str, Quantity]:
        """Return the thresholds of evictions that are set: amounts, or percentages of what there is, of which
        `part` makes amounts."""
        amounts = {}
        signals = ("memory.available", "memory", memory), ("nodefs.available", "ephemeral-storage", storage)
        for signal, resource, capacity in signals:
            if (text := self.eviction_hard.get(signal)) is not None:
                share = ceil(part(float(capacity), float(text[:-1]))) if text.endswith("%") else text
                amounts[resource] = Quantity(str(share))
        return amounts


_CPU = ShareRanges(((1000, 0.06), (2000, 0.01), (4000, 0.005), (inf, 0.0025)))
AWS = Kept(_CPU, ShareRanges(((inf, 11),)), {}, {"memory": Quantity("100Mi")}, 0.075, 110)
GCP = Kept(
    _CPU,
    ShareRanges(((4096, 0.25), (8192, 0.2), (16384, 0.1), (131072, 0.06), (inf, 0.02))),
    {"cpu": Quantity("100m")},
    {"memory": Quantity("100Mi")},
    0.07,
    110,
)
AZURE = Kept(
    ShareRanges(((1, 0.06), (2, 0.04), (4, 0.02), (inf, 0.01)), 1000, False),
    ShareRanges(((4, 0.25), (8, 0.2), (16, 0.1), (128, 0.06), (inf, 0.02)), 1024, False),
    {},
    {"memory": Quantity("750Mi")},
    0.075,
    250,
)
