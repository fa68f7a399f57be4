"""NodeOverlays: other prices and more resources for the instance types that they select.

Rules: Karpenter v1.15.0, pkg/controllers/nodeoverlay, and AdjustedPrice of pkg/cloudprovider/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

import msgspec
from msgspec import Struct

from moorage._core.base.quantity import Quantity, parse
from moorage.errors import number_of
from moorage.kube import NodeOverlay, NodePool

from ..karpenter.claims.catalogue import Catalogue
from ..karpenter.claims.type_columns import KnownType
from ..karpenter.karpenter_options import KarpenterOptions
from ..karpenter.pods.pod_validation import requirement_problems
from ..karpenter.requirements.requirement_set import RequirementSet
from ..providers.registrations import Registration
from .instance_type import InstanceType, Offering
from .labels import POOL


def overlaid(
    by_pool: Mapping[str, Sequence[InstanceType]],
    pools: Iterable[NodePool],
    overlays: Iterable[NodeOverlay],
    known: Registration,
) -> tuple[dict[str, Sequence[InstanceType]], list[str]]:
    """Return types by pool with what overlays change, and what each overlay comes to.

    Of overlays that change the same thing that with the larger weight counts. Of equal weights it is the last
    name, and the other one changes nothing at all.
    """
    catalogue, notes = Catalogue(KarpenterOptions(provider=known)), list[str]()
    vocabulary = catalogue.vocabulary
    changed: dict[str, list[_OverlaidType]] = {}
    for pool in pools:
        labels = vocabulary.of_labels({POOL: pool.name, **pool.spec.template.metadata.labels})
        of_pool = catalogue.known(by_pool.get(pool.name, ()))
        changed[pool.name] = [_OverlaidType(one, labels.meet(one.requirements)) for one in of_pool]
    by_name = sorted(overlays, key=lambda one: one.name, reverse=True)
    for overlay in sorted(by_name, key=lambda one: -(one.spec.weight or 0)):
        wanted = overlay.spec.requirements or ()
        required = vocabulary.of_terms(wanted)
        every = chain.from_iterable(changed.values())
        chosen = [(one, offered) for one in every if (offered := one.chosen(required))]
        problems = [text for one in wanted for text in requirement_problems(one, known)]
        if any(one.conflicts(overlay, offered) for one, offered in chosen):
            problems.append("another one of equal weight changes the same")
        if problems or not chosen:
            why = "; ".join(problems) or "no type of a NodePool meets its requirements"
            notes.append(f"NodeOverlay {overlay.name} changes nothing: {why}")
            continue
        for one, offered in chosen:
            one.take(overlay, offered)
        count = len({one.known.name for one, _ in chosen})
        notes.append(
            f"NodeOverlay {overlay.name} changes {number_of(count, 'instance type', 'instance types')}"
        )
    return {pool: [one.result() for one in types] for pool, types in changed.items()}, notes


class _OverlaidType(Struct, eq=False):
    """A type of a pool, and what overlays change.

    Attributes
    ----------
    requirements : RequirementSet
        Those of the type and the pool.
    prices : dict
        By the requirements of offerings, the first price that was set, and the least weight that set one.
    capacity : dict of str to Quantity
    last : (int, set of str)
        Weight and resources of the overlay that was the last to set resources.
    """

    known: KnownType
    requirements: RequirementSet
    prices: dict[RequirementSet, tuple[str, int]] = msgspec.field(default_factory=dict)
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    last: tuple[int, frozenset[str]] = (0, frozenset())

    def chosen(self, required: RequirementSet) -> list[RequirementSet]:
        """The offerings that meet requirements."""
        if self.requirements.refusal(required, undefined=False):
            return []
        every = [one.requirements for one in self.known.offerings]
        return [one for one in every if not required.refusal(one, undefined=True)]

    def conflicts(self, overlay: NodeOverlay, offered: Iterable[RequirementSet]) -> bool:
        """Whether an overlay of equal weight has changed the same."""
        weight, (least, resources) = overlay.spec.weight or 0, self.last
        has_price = _price(overlay) and any(self.prices.get(one, ("", -1))[1] == weight for one in offered)
        return bool(has_price) or (least == weight and not resources.isdisjoint(overlay.spec.capacity))

    def take(self, overlay: NodeOverlay, offered: Iterable[RequirementSet]) -> None:
        weight, price = overlay.spec.weight or 0, _price(overlay)
        if price:
            for one in offered:
                self.prices[one] = self.prices.get(one, (price, 0))[0], weight
        if overlay.spec.capacity:
            more = {name: parse(raw) for name, raw in overlay.spec.capacity.items()}
            self.capacity, self.last = more | self.capacity, (weight, frozenset(more))

    def result(self) -> InstanceType:
        """The type as it is then."""
        if not (self.prices or self.capacity):
            return self.known.type
        prices = [self.prices.get(one.requirements, ("", 0))[0] for one in self.known.offerings]
        return _with_changes(self.known.type, tuple(prices), tuple(self.capacity.items()))


@lru_cache(4096)
def _with_changes(
    kind: InstanceType, prices: tuple[str, ...], capacity: tuple[tuple[str, Quantity], ...]
) -> InstanceType:
    """A type with other prices of its offerings ("" for no change) and more resources. It is the same object
    in each pass, as catalogues know types by identity."""
    offerings = [
        _priced(one, change) if change else one for one, change in zip(kind.offerings, prices, strict=True)
    ]
    return replace(kind, capacity={**kind.capacity, **dict(capacity)}, offerings=tuple(offerings))


def _price(overlay: NodeOverlay) -> str:
    return overlay.spec.price or overlay.spec.price_adjustment or ""


def _priced(offering: Offering, change: str) -> Offering:
    """An offering at another price, or at one that is higher or lower by an amount or by a share."""
    if not change.startswith(("+", "-")):
        return replace(offering, price=float(change), is_bound=False)
    share = change.endswith("%")
    amount = float(change.removesuffix("%"))
    price = offering.price * (1 + amount / 100) if share else offering.price + amount
    return replace(offering, price=max(price, 0.0))
