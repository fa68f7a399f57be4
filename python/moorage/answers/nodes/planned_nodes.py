"""New nodes for pods as autoscalers make them, and a cheaper way if one is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from moorage.autoscalers.hourly_cost import HourlyCost
from moorage.autoscalers.launched_nodes import promising_nodes
from moorage.autoscalers.pool_refusals import limited_amounts
from moorage.autoscalers.pool_scaler import PoolScaler
from moorage.autoscalers.providers.pool_types import Types
from moorage.autoscalers.scale_up_answer import KARPENTER
from moorage.autoscalers.scaling_rounds import scale_up
from moorage.errors import InputError, nearest_or_known
from moorage.kube import Node, NodePool, Pod, Quantity
from moorage.kube.model.node import HOSTNAME
from moorage.notes import RoutineNote

from ..asked_pods import pending_pods
from ..homeless_pods import refused_by_name
from ..new_nodes import AWAITS, NodesNeeded, admitted_pods, asked_pods, cheapest_way, shown_price
from ..node_emptying import FOUND, NOT_FOUND
from ..runs.coming_nodes import ComingNodes, ScaleUpReport, made_ahead
from ..scheduler import Scheduler
from .paid_room import node_prices


def planned_nodes(
    scheduler: Scheduler, coming: ComingNodes | None, pods: Sequence[tuple[Pod, int]]
) -> NodesNeeded:
    """Return which nodes come for the pending pods; or for other pods, once the pending ones have theirs.

    Raises
    ------
    InputError
        The input has neither NodePools nor node groups, or the API server refuses a pod.
    """
    if coming is None:
        there = nearest_or_known("", (node.name for node in scheduler.client.list(Node)[0]))
        raise InputError(f"name a node to copy, or give an input with NodePools, or node groups{there}")
    notes = list[str]()
    with scheduler.transaction():
        targets, skipped = pending_pods(scheduler)
        before = set[str]()
        if pods:
            if (first := scale_up(scheduler, coming.autoscaling, keep=True)).nodes:
                notes += made_ahead(first.nodes, coming)
            before = {pod.key for pod in pending_pods(scheduler)[0]}
            targets, refused = admitted_pods(scheduler, asked_pods(pods))
            for pod in targets:
                scheduler.client.create(pod)
            for each in refused.values():
                raise InputError(each.text, source="--pod")
        with scheduler.transaction():
            report = coming.grow(scheduler, scheduler.run(), scheduler.run)
            left = [pod.key for pod in pending_pods(scheduler)[0] if pod.key not in before]
            refused = refused_by_name(scheduler)
        nodes = report.up.nodes
        plan = NodesNeeded(
            NOT_FOUND if left else FOUND,
            dict(Counter(node.kind_name for node in nodes)),
            None,
            "",
            {key: report.reasons.get(key, AWAITS) for key in left},
            skipped=None if pods else skipped,
            prices={node.kind_name: node.price for node in nodes if node.price is not None},
            notes=(*notes, RoutineNote(report.source, "; ".join(coming.makers))),
            makers=tuple(coming.makers),
            in_words=report.text(),
            facts=tuple(report.lines()),
        )
        plan = plan if left or not nodes else _with_cheaper(scheduler, report, targets, plan)
        return plan.without(refused)


def _with_cheaper(
    scheduler: Scheduler, report: ScaleUpReport, pods: list[Pod], plan: NodesNeeded
) -> NodesNeeded:
    """Return a plan with a cheaper way of nodes that NodePools allow, if one is found. Where only bounds of
    prices are known, none is cheaper for certain."""
    cost = HourlyCost.total(node.cost for node in report.up.nodes)
    if not cost.is_known or cost.least < cost.most or KARPENTER not in report.coming.sources:
        return plan
    view = PoolScaler(scheduler, report.coming.autoscaling).question([]).view()
    allowed = {node.name: (node, each) for node, each in promising_nodes(view, pods)}
    prices = {name: each for name, (_, each) in allowed.items()}
    way = cheapest_way(scheduler, pods, {name: node for name, (node, _) in allowed.items()}, prices) or {}
    new = [allowed[name][0] for name, count in way.items() for _ in range(count)]
    own = [obj for obj in report.up.objects if isinstance(obj, Node)]
    is_cheaper = new and shown_price(sum(prices[node.name] for node in new)) < shown_price(cost.most)
    if not is_cheaper or not _are_within_limits(scheduler, new) or _spreads_less(pods, new, own):
        return replace(plan, cheapest=plan.counts)
    names = dict.fromkeys([*plan.counts, *(node.name for node in new)])
    counts, cheapest = ({name: each.get(name, 0) for name in names} for each in (plan.counts, way))
    prices |= plan.prices
    return replace(plan, counts=counts, cheapest=cheapest, prices={name: prices[name] for name in names})


def _are_within_limits(scheduler: Scheduler, new: Iterable[Node]) -> bool:
    """Whether the limits of NodePools allow new nodes."""
    there: list[Node] = [*scheduler.client.list(Node)[0], *new]
    return all(
        amount <= Quantity(pool.spec.limits[name])
        for pool in scheduler.client.list(NodePool)[0]
        for name, amount in limited_amounts(pool, there).items()
    )


def _spreads_less(pods: Iterable[Pod], new: Sequence[Node], others: Sequence[Node]) -> bool:
    """Whether new nodes have fewer domains than others of a topology over which pods are to spread:
    kube-scheduler counts no domain without a node."""

    def domains(nodes: Sequence[Node], key: str) -> int:
        return len(nodes if key == HOSTNAME else {node.metadata.labels.get(key) for node in nodes})

    keys = {spread.topology_key for pod in pods for spread in pod.spec.topology_spread_constraints}
    return any(domains(new, key) < domains(others, key) for key in keys)


def prices_of(
    scheduler: Scheduler, templates: Sequence[str | Node], types: Types | None
) -> tuple[dict[str, float], list[str]]:
    """Return what nodes of templates cost, at most, where that is known, and notes: what that rests on."""
    likes = dict[str, Node]()
    for template in templates:
        if isinstance(template, str):
            likes[template] = scheduler.client.get(Node, template.partition(",")[0])
        else:
            likes[template.name] = template
    price_of, notes = node_prices(scheduler.client, types, of=likes.values())
    prices = {name: price.most for name, like in likes.items() if (price := price_of(like)).is_known}
    return prices, notes
