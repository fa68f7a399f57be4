"""What nodes cost per hour, whichever command asks, and what that rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from moorage.kube import Node, ObjectMeta
from moorage.kube.model.node import REGION
from moorage.notes import RoutineNote, as_sentence
from moorage.store import ObjectClient

from .group_settings import NodeGroup, group_finder
from .hourly_cost import HourlyCost
from .providers import azure, gcp
from .providers.aws.ec2_answers import DATE, price_list
from .providers.instance_type import MADE_HERE, POOL
from .providers.pool_types import PoolTypes, Types, stored_types
from .providers.prices import SPOT_UNKNOWN, bought_as, prices_by
from .providers.type_sources import AWS, AZURE, GCP, REGION_OF, TypeSources

if TYPE_CHECKING:
    from .karpenter.disruption_moves import Command
    from .karpenter.existing_nodes import StateNode


class NodePrices:
    """What nodes cost per hour.

    A node costs what its node group does; else what its type is offered at, in the zone and of the capacity
    type of the node; else what AWS lists. Spot at an unknown price costs at most as much as on demand.

    Attributes
    ----------
    known : PoolTypes
        The types of pools.
    coming : dict of str to HourlyCost
        By name, of nodes in whose place others may come.
    """

    def __init__(self, known: PoolTypes, groups: Sequence[NodeGroup] = ()) -> None:
        self.known, self._group_of = known, group_finder(groups)
        self._of_groups = {group.name: group.price for group in groups if group.price is not None}
        self._offered = dict[str, Callable[[Node], HourlyCost]]()
        self.coming: dict[str, HourlyCost] = {}

    def of(self, node: Node) -> HourlyCost:
        """Return the price of a node."""
        return self.coming.get(node.name) or self._priced(node)[0]

    def of_state(self, state: StateNode) -> HourlyCost:
        """Return the price of a node as Karpenter knows it, which may not have joined yet."""
        metadata = state.claim.metadata if state.claim is not None else ObjectMeta()
        return self.of(state.node or Node(metadata=metadata))

    def saved(self, command: Command) -> HourlyCost:
        """Return what a command saves, at least and at most."""
        gone = HourlyCost.total(self.of_state(candidate.state) for candidate in command.candidates)
        launched = [each.launched for each in command.replacements]
        come = HourlyCost.total(HourlyCost() if each is None else each.cost for each in launched)
        is_known = gone.is_known and come.is_known
        return HourlyCost(gone.least - come.most, gone.most - come.least) if is_known else HourlyCost()

    def about(self, nodes: Iterable[Node]) -> str:
        """Say what the prices of nodes rest on, besides files of types and of groups."""
        priced = [self._priced(node) for node in nodes]
        texts = [text for _, text in priced if text != self.known.own_prices]
        texts += [SPOT_UNKNOWN for price, _ in priced if price.shown[1] is not UNSET]
        texts += [text for _, text in priced]
        return "; ".join(filter(None, dict.fromkeys(texts)))

    def notes(self, nodes: Iterable[Node]) -> list[str]:
        """Return the same as a note, if there is anything to say."""
        about = self.about(nodes)
        text = about.replace("prices that", "prices are those that", 1)
        return [RoutineNote(as_sentence(text), about)] if about else []

    def _priced(self, node: Node) -> tuple[HourlyCost, str]:
        """The price of a node, and what it rests on."""
        if self._of_groups and (own := self._of_groups.get(self._group_of(node) or "")) is not None:
            return HourlyCost(own, own), ""
        (name, zone, capacity_type), sources = bought_as(node), self.known.sources
        pool = node.metadata.labels.get(POOL, "")
        if pool not in self._offered:
            types = self.known.by_pool.get(pool)
            self._offered[pool] = prices_by(self.known.every() if types is None else types)
        price = self._offered[pool](node)
        if sources is None:
            return price, ""
        given = sources.price(name, zone, capacity_type)
        if given is not None and (not price.is_known or price.most == given):
            return HourlyCost(given, given), self.known.own_prices
        cost, text = list_price(node, sources)
        if not price.is_known:
            price = cost
        return price, text if price.most == cost.most and price.is_known else ""


def list_price(node: Node, sources: TypeSources) -> tuple[HourlyCost, str]:
    """Return what a provider lists for a node in its region, else in that of the option, and what that list
    is. A copy of a node does not say of which provider it is, as a region does."""
    (name, zone, capacity_type), labels = bought_as(node), node.metadata.labels
    scheme = "" if node.spec.provider_id.startswith(MADE_HERE) else node.spec.provider_id.partition(":")[0]
    owner = _SCHEMES.get(scheme)
    place = labels.get(REGION) or zone
    regions = [(provider, REGION_OF[provider](place)) for provider in _LISTS]
    for provider, region in [*regions, (sources.provider, sources.region)]:
        if not region or owner not in ("", provider):
            continue
        if (listed := _LISTS[provider](region, name, capacity_type)) is not None:
            return listed
    return HourlyCost(), ""


def _of_aws(region: str, name: str, capacity_type: str) -> tuple[HourlyCost, str] | None:
    listed = price_list(region)
    amount = listed.prices.get(name)
    where = f" in {listed.region}" if listed.region != region else ""
    yuan = ", in yuan, also where $ stands" if listed.currency != "USD" else ""
    text = f"prices that AWS lists on demand{where} ({DATE}{yuan})"
    return None if amount is None else (_bound(amount, capacity_type), text)


def _of_azure(region: str, name: str, capacity_type: str) -> tuple[HourlyCost, str] | None:
    is_listed = name.startswith("Standard_") and region in azure.catalogue().prices
    amount = azure.prices_of(region).get(name) if is_listed else None
    text = f"prices that Azure lists on demand ({azure.DATE})"
    return None if amount is None else (_bound(amount, capacity_type), text)


def _of_gcp(region: str, name: str, capacity_type: str) -> tuple[HourlyCost, str] | None:
    amounts = gcp.prices_of(region).get(name)
    text = f"prices that GCP lists ({gcp.DATE})"
    return None if amounts is None else (HourlyCost(*[amounts[capacity_type == "spot"]] * 2), text)


def _bound(amount: float, capacity_type: str) -> HourlyCost:
    """Spot at an unknown price costs at most what it does on demand."""
    return HourlyCost(0.0 if capacity_type == "spot" else amount, amount)


_LISTS = {AWS: _of_aws, GCP: _of_gcp, AZURE: _of_azure}
"""What the price list of each provider has of a type, and what it is; None if it lacks the type."""
_SCHEMES = {"": "", "aws": AWS, "gce": GCP, "azure": AZURE}
"""Providers by how the IDs of their nodes begin."""


def stored_prices(types: Types | None, client: ObjectClient, groups: Sequence[NodeGroup] = ()) -> NodePrices:
    """Return the prices of nodes by a store, types as for `Questions.provision`, and node groups."""
    return NodePrices(stored_types(types, client), groups)
