"""What each provider launches for a claim: the type, whether spot or on demand, and where."""

from __future__ import annotations

from moorage.autoscalers.karpenter.new_nodes_result import (
    FinishedClaim,
    Launched,
    Ranking,
    by_price,
    cheapest,
)

from . import azure, gcp
from .aws import ec2_instance_types, fleet
from .instance_type import InstanceType, Offering
from .known_labels import REGIONAL_ZONE


def launched(finished: FinishedClaim) -> Launched | None:
    """Return what the provider of a claim launches."""
    group = finished.claim.template.pool.spec.template.spec.node_class_ref.group
    return _LAUNCHERS.get(group, cheapest)(finished)


def launched_by_azure(finished: FinishedClaim) -> Launched | None:
    """Return the cheapest; at equal prices spot, and any zone before none.

    Rules: karpenter-provider-azure 352646f5, pkg/providers/allocationstrategy.
    """

    def rank(kind: InstanceType, each: Offering, _: Offering) -> Ranking:
        price, size = by_price(kind, each.price)
        return price, each.capacity_type != "spot", each.zone == REGIONAL_ZONE, size, kind.name

    return finished.first(rank, _DRAWS)


def launched_by_gcp(finished: FinishedClaim) -> Launched | None:
    """Return spot wherever a type is offered so, whatever that costs: of the type whose cheapest offering
    costs least. Of spot the cheapest zone is taken, and on demand any.

    Rules: karpenter-provider-gcp 417f047b, pkg/providers/instance.
    """

    def rank(kind: InstanceType, each: Offering, best: Offering) -> Ranking:
        is_spot = each.capacity_type == "spot"
        of_zone = (each.price, each.zone) if is_spot else ()
        return not is_spot, by_price(kind, best.price), kind.name, of_zone

    return finished.first(rank, _DRAWS)


_DRAWS = "Karpenter draws one of"
_LAUNCHERS = {
    ec2_instance_types.DOMAIN: fleet.launched,
    ec2_instance_types.AUTO_MODE_DOMAIN: fleet.launched,  # it is Karpenter, as far as one sees
    azure.GROUP: launched_by_azure,
    gcp.GROUP: launched_by_gcp,
}
"""By the API group of node classes."""
