"""What other requests save: pods that no longer wait, nodes that can go, and what these cost."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Literal

from msgspec import field

from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
from moorage.autoscalers.consolidation_rounds import consolidate
from moorage.autoscalers.hourly_cost import sum_text
from moorage.autoscalers.providers.prices import NodesPrice
from moorage.document import Count, Document
from moorage.errors import number_of
from moorage.kube import Node
from moorage.kube.model.autoscaling import KarpenterSettings

from .node_emptying import most_emptied
from .nodes.paid_room import node_prices
from .runs.new_node_settings import NewNodeSettings, has_pools
from .runs.simulation import Simulation

MOST_NODES = 200
"""In how many nodes without a NodePool it is tried which can be emptied: that takes as long as to plan it."""


class SavedByRequests(Document, frozen=True, kw_only=True):
    """What a change of requests saves."""

    pods: Count = field(name="podsNoLongerWaiting")
    newly: Count = field(name="podsNewlyWaiting")
    by: Literal["consolidation", "drains"]
    """Karpenter, as plan consolidate plays it; without NodePools the nodes that plan drain finds to empty."""
    before: NodesPrice | None
    """The nodes that are left by it with the requests as they are, or that can be emptied; null if it was not
    tried, as there are many nodes."""
    after: NodesPrice | None
    """The same with the other requests."""

    @property
    def text(self) -> str:
        """The answer in one line."""
        waits = (self.pods, "no longer wait"), (self.newly, "newly wait")
        pods = ", ".join([number_of(n, f"pod {how}s", f"pods {how}") for n, how in waits if n])
        opening = f"with the other requests {pods}{'; ' * bool(pods)}"
        if self.before is None or self.after is None:
            return f"{opening}plan drain --count N finds nodes that can go"
        if self.by == "consolidation":
            fewer, price = self.before.nodes - self.after.nodes, self.before.price - self.after.price
            nodes = f"plan consolidate leaves {self.after}, and {self.before} with the present requests"
        else:
            fewer, price = self.after.nodes - self.before.nodes, self.after.price - self.before.price
            nodes = (
                f"plan drain finds {self.after} to empty, and {self.before.nodes} with the present requests"
            )
        changes = []
        if fewer:
            changes.append(f"{number_of(abs(fewer), 'node', 'nodes')} {'fewer' if fewer > 0 else 'more'}")
        if not (self.before.unknown or self.after.unknown) and abs(price) >= 0.005:
            changes.append(f"{sum_text(abs(price))} $/h {'less' if price > 0 else 'more'}")
        return f"{opening}{nodes}: {', '.join(changes) or 'nothing saved'}"


def saved_by_requests(before: Simulation, after: Simulation, nodes: NewNodeSettings) -> SavedByRequests:
    """Return what a change of requests saves.

    Parameters
    ----------
    before, after : Simulation
        The runs without and with the change.
    """
    waits = [
        Counter(pod.workload for pod in chain.from_iterable(run.lacking.values())) for run in (before, after)
    ]
    has_karpenter = has_pools(after.cluster)
    prices: list[NodesPrice | None] = [None, None]
    if has_karpenter or len(after.scheduler.table.names) <= MOST_NODES:
        prices = [(_consolidated if has_karpenter else _emptied)(run, nodes) for run in (before, after)]
    by: Literal["consolidation", "drains"] = "consolidation" if has_karpenter else "drains"
    fewer, more = (waits[0] - waits[1]).total(), (waits[1] - waits[0]).total()
    return SavedByRequests(pods=fewer, newly=more, by=by, before=prices[0], after=prices[1])


def _consolidated(run: Simulation, nodes: NewNodeSettings) -> NodesPrice:
    flags = nodes.karpenter_options(run.scheduler.client.list(KarpenterSettings)[0])
    return consolidate(run.scheduler, AutoscalerSettings(nodes.types(), flags)).after


def _emptied(run: Simulation, settings: NewNodeSettings) -> NodesPrice:
    client, plan = run.scheduler.client, most_emptied(run.scheduler)
    groups = settings.groups(client.list(Node)[0], ())
    priced = groups.settings.node_groups if groups is not None else ()
    nodes = [client.get(Node, name) for name in plan.nodes]
    price_of, _ = node_prices(client, settings.types(), priced, nodes)
    return NodesPrice.of(map(price_of, nodes))
