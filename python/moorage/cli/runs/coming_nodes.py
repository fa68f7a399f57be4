"""Nodes that come during a run of a command, because the input has NodePools."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from moorage.autoscaling import Growth, InstanceType, ScaleUp
from moorage.autoscaling.karpenter import VERSION
from moorage.autoscaling.node_prices import price_of_nodes
from moorage.autoscaling.pool_refusals import pool_refusals
from moorage.autoscaling.scaling_rounds import KARPENTER, grow, make_ahead, price_text, scale_up
from moorage.changes.cluster_changes import drain
from moorage.errors import examples, number_of
from moorage.facade import Scheduler
from moorage.objects import Node, Pod
from moorage.planning.new_nodes.node_demand import Asked, admitted_pods, asked_pods
from moorage.scheduler import PodScheduler, ScheduleResult

MOST_REFUSALS = 3
"""Of how many pods that are refused in different ways it is tried what would help."""


FIRST_ROUNDS, MOST_REPLICAS = 64, 4096
"""For how many rounds of replicas nodes come first, and for how many replicas at most."""


class ComingNodes(NamedTuple):
    """With what nodes come.

    Attributes
    ----------
    draws : int
        With how many seeds Karpenter is asked.
    source : str
        Where the instance types are from.
    types : sequence of InstanceType or None
        Those of a file.
    """

    growth: Growth
    draws: int
    source: str
    types: Sequence[InstanceType] | None

    def grow(self, scheduler: Scheduler, result: ScheduleResult, run: Callable[[], ScheduleResult]) -> Grown:
        """Make nodes for the pods that a run has left, and run again."""
        waited = 0
        for at in range(1, self.draws):
            drawn = scale_up(scheduler, replace(self.growth, seed=self.growth.seed + at))
            waited += bool(drawn.waiting)
        nodes: list[Node] = scheduler.client.list(Node)[0]
        before = None if self.types is None else price_of_nodes(nodes, self.types)
        up = grow(scheduler, self.growth, result, run)
        return Grown(up, self, waited + bool(up.waiting), before, len(nodes))


def ahead_of_replicas(
    scheduler: Scheduler, coming: ComingNodes, shares: Sequence[tuple[Pod, int]], most: int | None
) -> list[str]:
    """Let pending pods have their nodes, and make those that would come for replicas of pods, for twice as
    many each time, until one waits; tell which."""
    before = scale_up(scheduler, coming.growth, keep=True)
    rounds = most if most is not None else FIRST_ROUNDS
    while True:
        wanted = [(pod, share * rounds) for pod, share in shares]

        def create(trial: PodScheduler, wanted: Asked = wanted) -> None:
            for pod in admitted_pods(trial, asked_pods(wanted))[0]:
                trial.client.create(pod)

        with scheduler.transaction():
            up = make_ahead(scheduler, coming.growth, create)
        replicas = sum(count for _, count in wanted)
        if up.waiting or most is not None or replicas >= MOST_REPLICAS:
            break
        rounds *= 2
    up = make_ahead(scheduler, coming.growth, create)
    stops = up.waiting[0].reason if up.waiting else f"they were made for {replicas} pods (see --max-limit)"
    told = replace(up, nodes=before.nodes + up.nodes)
    return [*_made_ahead(told, coming), f"No more nodes come: {stops}."]


def ahead_of_drain(scheduler: Scheduler, coming: ComingNodes, nodes: Sequence[str]) -> list[str]:
    """Make the nodes that would come if nodes were drained at once; tell which."""
    up = make_ahead(
        scheduler, coming.growth, lambda trial: drain(trial, nodes, lambda pod: "", respect_budgets=False)
    )
    return _made_ahead(up, coming)


def _made_ahead(up: ScaleUp, coming: ComingNodes) -> list[str]:
    nodes = number_of(len(up.nodes), "new node comes", "new nodes come")
    kinds = f" ({up.kinds()})" if up.nodes else ""
    return [f"{KARPENTER} {VERSION}, {coming.source}: first {nodes}{kinds}, {price_text(up.price)}."]


class Grown(NamedTuple):
    """The nodes that came in a run, and what they cost.

    Attributes
    ----------
    waited : int
        In how many draws a pod waits.
    before : (float, int) or None
        What the nodes before cost, and how many of them have no price.
    nodes : int
        How many there were before.
    """

    up: ScaleUp
    coming: ComingNodes
    waited: int
    before: tuple[float, int] | None
    nodes: int

    @property
    def reasons(self) -> dict[str, str]:
        """Who refuses each pod that waits, and why."""
        return {one.pod: one.reason for one in self.up.waiting}

    def text(self) -> str:
        """Return which nodes come, at what price."""
        nodes = number_of(len(self.up.nodes), "new node", "new nodes")
        if not self.up.nodes:
            return "no new node"
        seen = "" if self.coming.types is not None else f"; {self.coming.source}"
        return f"{nodes} ({self.up.kinds()}{seen}): {price_text(self.up.price)}"

    def lines(self) -> Iterator[str]:
        """Yield who decides with which types, prices before and after, and where the engines disagree."""
        yield f"{KARPENTER} {VERSION}, {self.coming.source}{self._prices()}"
        yield from self.up.late_lines()
        if self.coming.draws > 1:
            yield f"draws: in {self.waited} of {self.coming.draws} a pod waits"
        if self.up.waiting and self.coming.types is None:
            for pool in self.up.pools:
                yield f"NodePool {pool} has no instance types: give them with --instance-types FILE"

    def _prices(self) -> str:
        if self.before is None or self.up.price is None:
            return ""
        price, unknown = self.before
        without = f", without {number_of(unknown, 'node', 'nodes')} of unknown price" if unknown else ""
        after = self.nodes + len(self.up.nodes)
        return (
            f"; {number_of(self.nodes, 'node', 'nodes')} at {price:.2f} $/h before, {after} at "
            f"{price + self.up.price:.2f} $/h after{without}"
        )

    @property
    def source(self) -> str:
        """Who makes the nodes, with which types, in a sentence."""
        return f"{KARPENTER} {VERSION} makes the new nodes, with {self.coming.source}."

    def fate(self, pod: str) -> str:
        """Return which new node a pod gets, or who refuses it; "" for a pod that needs none."""
        if why := self.reasons.get(pod, ""):
            return f"{pod}: {why} ({KARPENTER} {VERSION}, {self.coming.source})"
        node = next((one for one in self.up.nodes if one.name == self.up.placed.get(pod)), None)
        if node is None:
            return ""
        return f"{pod}: {KARPENTER} {VERSION} makes {node.name} ({node.kind}), where it runs"

    def refusals(self, scheduler: Scheduler, pods: Collection[str]) -> Iterator[str]:
        """Yield why no pool makes a node for pods, and what would help, pods that are refused alike once."""
        alike: dict[str, list[str]] = {}
        for one in self.up.waiting:
            if one.pod in pods and one.karpenter:
                alike.setdefault(one.karpenter, []).append(one.pod)
        for names in [*alike.values()][:MOST_REFUSALS]:
            yield f"Why no node comes for {examples(names, 1)}, and what would help, each tried alone:"
            for refusal in pool_refusals(scheduler, self.coming.growth, names[0]):
                yield from refusal.lines()

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON value."""
        prices = None if self.before is None else {"before": self.before[0], "unknown": self.before[1]}
        return self.up.to_dict() | {
            "types": self.coming.source,
            "prices": prices,
            "draws": self.coming.draws,
            "drawsThatWait": self.waited,
        }
