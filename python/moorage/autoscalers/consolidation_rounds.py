"""Karpenter removes nodes, command by command, and kube-scheduler places their pods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import isfinite
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Meta, UnsetType, field

from moorage._core.provision.host_table import RESOURCES
from moorage.cluster import ChangingScheduler
from moorage.cluster.cluster_changes import empty_nodes
from moorage.document import Amount, Count, Document
from moorage.errors import InputError, first_of, number_of
from moorage.kube import NodePool, Pod
from moorage.kube.go_texts import timestamp
from moorage.kube.strict_documents import parse_moment
from moorage.notes import as_sentence
from moorage.table import Table, Tabular

from .autoscaler_protocol import AutoscalerSettings
from .hourly_cost import HourlyCost, sum_text
from .karpenter.cluster_view import ClusterView
from .karpenter.disrupt import DisruptionPass, Method, MethodResult, StayingNode, staying
from .karpenter.disruption_candidates import consolidate_after, outside_windows, young_nodes
from .karpenter.disruption_moves import Command
from .karpenter.karpenter_options import VERSION
from .karpenter.pod_validation import is_reschedulable
from .karpenter.provisioning import room_kept
from .launched_nodes import assume_claims, remove_claims
from .node_prices import stored_prices
from .pool_scaler import PoolScaler
from .providers.instance_type import refuse_unoffered
from .providers.prices import NodesPrice, foreign_zones
from .scale_up_answer import (
    NewNode,
    UnplacedPod,
    chosen_text,
    kinds_of,
    saved_text,
)
from .scaling_rounds import grow, left_pods

# ---- the least that nodes could cost on which pods fit, whatever the packing -------------------------------

LEFT_OUT = (
    "requirements, topologies, daemons, limits and whole nodes are left out; each resource is bought where "
    "it is cheapest"
)
"""What the bound does not take into account."""
_MIXES = 2.0 ** np.linspace(-16, 16, 129)


def least_price(view: ClusterView, pods: Sequence[Pod]) -> float | None:
    """A price per hour below which pods cannot run on nodes of the pools; None without prices, or where a
    spot price is not known.

    Amounts of resources, with any weights, cost at least what the type costs that has the most of them for
    its price. The best of some weights of one resource, and of two, is taken.
    """
    have, prices = [], []
    for template in view.templates[0]:
        offers = view.finisher.offers(template.columns, template.requirements)
        if any(each.is_bound for launchable in offers.launchable for each in launchable):
            return None
        for known, price in zip(template.columns.types, offers.prices.tolist(), strict=True):
            if isfinite(price) and price > 0:
                have.append([float(known.groups[0][0].get(name, 0)) for name in RESOURCES])
                prices.append(price)
    if not have:
        return None
    requests = np.zeros(len(RESOURCES))
    for pod in pods:
        amounts = view.book.shape(pod).amounts
        requests += [float(amounts.get(name, 0)) for name in RESOURCES]
    scale = np.maximum(np.max(have, axis=0), 1.0)
    per_price, requests = np.array(have) / scale / np.array(prices)[:, None], requests / scale
    best = max(float(requests[at] / max(per_price[:, at].max(), 1e-300)) for at in range(len(RESOURCES)))
    for each, other in combinations(range(len(RESOURCES)), 2):
        bought = (per_price[:, [each]] + per_price[:, [other]] * _MIXES).max(axis=0)
        best = max(best, float(((requests[each] + requests[other] * _MIXES) / bought).max()))
    return best


# ---- consolidation rounds ----------------------------------------------------------------------------------

_BETWEEN = 600.0
"""Seconds between commands, besides the longest consolidateAfter."""


class RemovalStep(Document, frozen=True):
    """A command, and what came of it."""

    reason: Annotated[str, Meta(extra_json_schema={"enum": ["Empty", "Drifted", "Underutilized"]})]
    decision: Annotated[str, Meta(extra_json_schema={"enum": ["delete", "replace", "terminate-first"]})]
    nodes: tuple[str, ...]
    replacements: tuple[NewNode, ...]
    """Nodes in place of those that go."""
    saved: float | None
    """Per hour, at most; null without prices."""
    moved: Count
    """Pods that were evicted."""
    kept: dict[str, str]
    """Pods that cannot be evicted, and why: their nodes stay."""
    lost: tuple[str, ...]
    """Pods that no controller makes again."""
    waiting: tuple[UnplacedPod, ...]
    """Pods that have no node afterwards and had one before."""
    extra: tuple[NewNode, ...]
    """Nodes that come because kube-scheduler places pods otherwise than planned."""
    placed: dict[str, str]
    """By key of a pod, the node that it has got."""
    saved_at_least: float | UnsetType = UNSET
    """Where saved is a bound, as a spot price is not known, or the provider chooses: the least, per hour."""


class Draw(Document, frozen=True):
    """How it ends with another seed: the nodes, and how many pods wait that had a node."""

    seed: int
    after: NodesPrice
    waiting: Count


class ConsolidationDocument(Document, frozen=True, kw_only=True):
    """The answer of ``moorage plan consolidate``."""

    api_version: Literal["plan.moorage.dev/v1"] = "plan.moorage.dev/v1"
    kind: Literal["Consolidation"] = "Consolidation"
    karpenter_version: str
    seed: int
    before: NodesPrice
    after: NodesPrice
    least: Amount | None = field(name="leastPricePerHour")
    """The least that any packing of the pods could cost; null without prices, or where a spot price is not
    known."""
    complete: bool
    """Whether nothing more would happen."""
    young: tuple[str, ...] = field(name="youngNodes")
    """Where nothing goes at once: the nodes on which pods came or went less than consolidateAfter ago."""
    begins: str | None
    """When consolidateAfter is over for all of them, and the steps begin; null where they begin at once."""
    ignoring: tuple[str, ...] = field(name="goneWithoutPreferences")
    """Where nothing more happens: the nodes that would go next if Karpenter ignored preferred terms of
    pods."""
    steps: list[RemovalStep]
    stays: tuple[StayingNode, ...]
    """The nodes that are left, and why."""
    draws: tuple[Draw, ...]
    """How it ends with each seed that was tried."""


@dataclass(frozen=True, repr=False)
class Consolidation(Tabular):
    """Which nodes go, in which order, and what becomes of their pods.

    Attributes
    ----------
    steps : tuple of RemovalStep
    before, after : NodesPrice
        The nodes of NodePools.
    least : float or None
        Per hour, the least that any packing of their pods could cost; None without prices, or where a spot
        price is not known.
    stays : tuple of StayingNode
        The nodes that are left, and why.
    complete : bool
        Whether nothing more would happen.
    notes : tuple of str
        What was assumed.
    draws : tuple of Draw
        With all seeds that were tried.
    young : tuple of str
        Where nothing goes at once: the nodes on which pods came or went less than consolidateAfter ago.
    begins : str
        When that is over for all of them, and the steps begin; "" where they begin at once.
    settings : str
        What it rests on besides Karpenter's defaults.
    ignoring : tuple of str
        The nodes that would go next if preferred terms of pods were ignored.
    """

    steps: tuple[RemovalStep, ...]
    before: NodesPrice
    after: NodesPrice
    least: float | None
    stays: tuple[StayingNode, ...]
    complete: bool
    notes: tuple[str, ...]
    seed: int = 0
    karpenter_version: str = VERSION
    draws: tuple[Draw, ...] = ()
    young: tuple[str, ...] = ()
    begins: str = ""
    settings: str = ""
    ignoring: tuple[str, ...] = ()

    @property
    def waiting(self) -> tuple[UnplacedPod, ...]:
        """Pods that wait after a command and had a node before."""
        return tuple(chain.from_iterable(step.waiting for step in self.steps))

    def headline(self) -> str:
        """Return how many nodes go, what that saves, and how many pods move and wait."""
        gone = sum(len(step.nodes) for step in self.steps)
        moved = sum(step.moved for step in self.steps)
        commands = number_of(len(self.steps), "command", "commands")
        first = f"Karpenter {self.karpenter_version}{self.settings}: "
        if self.young:
            young = number_of(len(self.young), "node", "nodes")
            first += f"nothing goes now, as pods of {young} came or went less than consolidateAfter ago; "
            first += f"from {self.begins} on: "
        return (
            f"{first}{commands}, {number_of(gone, 'node goes', 'nodes go')}; "
            f"{self.before} before, {self.after} after; {number_of(moved, 'pod moves', 'pods move')}, "
            f"{number_of(len(self.waiting), 'waits', 'wait')}"
        )

    def remarks(self) -> list[str]:
        """Return the bound, and what becomes of pods that wait, stay, or are lost."""
        return [*self._remarks()]

    def _remarks(self) -> Iterator[str]:
        if self.least is not None:
            yield f"no packing of these pods costs less than {sum_text(self.least)} $/h ({LEFT_OUT})"
        new = chain.from_iterable((*step.replacements, *step.extra) for step in self.steps)
        yield from filter(None, [chosen_text(new)])
        if self.ignoring:
            yield (
                f"with --preference-policy Ignore {first_of(self.ignoring, 3)} would go, too: "
                "preferred terms of pods count as required (Karpenter's PREFERENCE_POLICY)"
            )
        for waiting in self.waiting[:5]:
            yield f"{waiting.pod} waits: {waiting.reason}"
        for number, step in enumerate(self.steps, 1):
            if step.extra:
                nodes = number_of(len(step.extra), "more node comes", "more nodes come")
                yield f"after command {number} {nodes}: kube-scheduler places pods otherwise than planned"
            for pod, why in [*step.kept.items()][:2]:
                yield f"command {number} does not end: {pod} cannot be evicted ({why})"
            if step.lost:
                pods = number_of(len(step.lost), "pod is", "pods are")
                yield f"after command {number} {pods} gone: no controller makes {step.lost[0]} again"
        if not self.complete:
            yield "more would follow"
        if len(self.draws) > 1:
            prices = [draw.after.price for draw in self.draws]
            waits = sum(draw.waiting > 0 for draw in self.draws)
            of = f"of {len(self.draws)} draws"
            bound = "at most " * any(draw.after.least is not UNSET for draw in self.draws)
            prices_text = f"{bound}{sum_text(min(prices))} to {sum_text(max(prices))} $/h after"
            yield f"{of}: {prices_text}; in {waits} a pod waits"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each command: why, what goes, what comes, savings, pods moved and waiting."""
        steps = self.steps[:limit]
        return Table(
            {
                "reason": [step.reason for step in steps],
                "decision": [step.decision for step in steps],
                "nodes": [" ".join(step.nodes) for step in steps],
                "comes": [kinds_of((*step.replacements, *step.extra)) for step in steps],
                "saved": _saved(steps),
                "moved": np.array([step.moved for step in steps], np.int64),
                "waiting": np.array([len(step.waiting) for step in steps], np.int64),
            }
        )

    def document(self) -> ConsolidationDocument:
        """Return the answer of ``moorage plan consolidate``."""
        return ConsolidationDocument.from_object(self, begins=self.begins or None)


def _saved(steps: Sequence[RemovalStep]) -> npt.NDArray[Any] | list[str]:
    """A column of numbers; of texts if one is not known, or is a bound."""
    if all(step.saved is not None and step.saved_at_least is UNSET for step in steps):
        return np.array([step.saved for step in steps], np.float64).round(4)
    return [saved_text(HourlyCost.of(step.saved_at_least, step.saved)) or "unknown" for step in steps]


def with_draws(
    scheduler: ChangingScheduler, autoscaling: AutoscalerSettings, count: int, **how: Any
) -> Consolidation:
    """Consolidate with several seeds; the answer is that of the first."""
    consolidations = [
        consolidate(scheduler, replace(autoscaling, seed=autoscaling.seed + at), **how) for at in range(count)
    ]
    draws = tuple([Draw(each.seed, each.after, len(each.waiting)) for each in consolidations])
    return replace(consolidations[0], draws=draws)


NO_POOL = "there is no NodePool, so Karpenter leaves all nodes alone"


def consolidate(
    scheduler: ChangingScheduler, autoscaling: AutoscalerSettings, once: bool = False, at: str | None = None
) -> Consolidation:
    """Let Karpenter remove nodes until nothing more happens; see `Questions.consolidate`."""
    begin = None if at is None else parse_moment(at, "at")
    if not scheduler.client.list(NodePool)[0]:
        raise InputError(NO_POOL, source="cluster")
    with scheduler.transaction():
        notes = tuple(assume_claims(scheduler))
        rounds = ConsolidationRounds(scheduler, autoscaling, begin)
        first = rounds.view()
        before = rounds.price(first)
        nodes = [state.node for state in first.states if state.node is not None]
        notes += (*rounds.notes, *map(as_sentence, room_kept(first)))
        notes += tuple(rounds.prices.notes(nodes))
        shortages = autoscaling.options.unavailable if autoscaling.options is not None else ()
        refuse_unoffered(shortages, chain.from_iterable(first.situation.types.values()))
        notes += tuple(foreign_zones(nodes, chain.from_iterable(first.situation.types.values())))
        results, over = rounds.results(), young_nodes(rounds.view())
        if results[-1].command is not None:
            over = {}
        elif over:
            rounds.karpenter.now = max(over.values())
            results = rounds.results()
        most = 2 * before.nodes + 10  # where nodes come and go without an end
        while (command := results[-1].command) is not None and len(rounds.steps) < most:
            if results[-1].is_late:
                last = results[-1]
                notes += (
                    f"Command {len(rounds.steps) + 1} and its saving are not certain: Karpenter would look "
                    f"for it for some {last.seconds:.0f} s, and ends after {last.method.longest:.0f} s with "
                    "what it has.",
                )
            method, moment = results[-1].method, rounds.karpenter.now or 0.0
            pools = {each.pool.name: each.pool for each in command.candidates}.values()
            notes += tuple(
                text for text in outside_windows(pools, method.reason, moment) if text not in notes
            )
            rounds.take(method, command)
            if once:
                break
            results = rounds.results()
        view = rounds.view()
        running = [
            pod for state in view.states if state.node for pod in view.pods_of.get(state.node.name, ())
        ]
        return Consolidation(
            tuple(rounds.steps),
            before,
            rounds.price(view),
            least_price(view, [*filter(is_reschedulable, running)]),
            staying(view),
            results[-1].command is None,
            notes,
            autoscaling.seed,
            young=tuple(over),
            begins=timestamp(math.ceil(max(over.values()))) if over else "",
            settings=view.options.text,
            ignoring=_gone_without_preferences(view) if results[-1].command is None else (),
        )


def _gone_without_preferences(view: ClusterView) -> tuple[str, ...]:
    """The nodes of the next command if Karpenter ignored preferences; none if nothing changes."""
    if view.options.ignores_preferences:
        return ()
    ignoring = view.with_options(replace(view.options, ignores_preferences=True))
    command = DisruptionPass(ignoring).results()[-1].command
    return tuple(command.going.values()) if command is not None else ()


class ConsolidationRounds:
    """The commands so far; the clock goes on with each."""

    def __init__(
        self, scheduler: ChangingScheduler, autoscaling: AutoscalerSettings, at: float | None
    ) -> None:
        self._scheduler, self._autoscaling = scheduler, autoscaling
        self.karpenter = PoolScaler(scheduler, autoscaling)
        self._left = left_pods(scheduler, scheduler.run())
        question = self.karpenter.question([*self._left])
        self.karpenter.now = question.situation.now if at is None else at
        self.prices = stored_prices(autoscaling.types, scheduler.client)
        self.notes = [as_sentence(text) for text in (question.source, *question.notes) if text]
        self.steps: list[RemovalStep] = []

    def price(self, view: ClusterView) -> NodesPrice:
        """What the nodes of NodePools cost."""
        return NodesPrice.of(
            map(self.prices.of_state, [each for each in view.states if each.claim is not None])
        )

    def view(self) -> ClusterView:
        """The cluster as Karpenter sees it now."""
        return self.karpenter.question([*self._left]).view()

    def results(self) -> list[MethodResult]:
        """The methods of a pass, up to the first that acts."""
        return DisruptionPass(self.view()).results()

    def take(self, method: Method, command: Command) -> None:
        """Do what a command says, and place the pods."""
        scheduler, karpenter, going = self._scheduler, self.karpenter, command.going
        saved, saved_at_least = self.prices.saved(command).shown
        names = [*going.values()]
        there = {pod.key: pod for candidate in command.candidates for pod in candidate.pods}
        before = self._places()
        new_nodes, _ = karpenter.make(command.new_claims(), len(self.steps) + 1)
        stay = empty_nodes(scheduler.change, names, force=True).kept
        kept = {name.removeprefix("Pod "): why for name, why in stay.items()}
        stuck = {there[key].spec.node_name for key in kept if key in there}
        remove_claims(scheduler, {claim: node for claim, node in going.items() if node not in stuck})
        karpenter.marked |= stuck
        result = scheduler.run()
        now_left = left_pods(scheduler, result)
        pending = scheduler.pods.pending
        stayed = {key: why for key, why in self._left.items() if key in pending}
        new = {key: why for key, why in now_left.items() if key not in stayed}
        extra: tuple[NewNode, ...] = ()
        waiting: tuple[UnplacedPod, ...] = ()
        if new:
            up = grow(scheduler, self._autoscaling, result, scheduler.run, [karpenter])
            extra, waiting = up.nodes, tuple([pod for pod in up.waiting if pod.pod in new])
        self.prices.coming |= {node.name: node.cost for node in (*new_nodes.values(), *extra)}
        self._left = stayed | {each.pod: each.scheduler for each in waiting}
        lost = tuple(
            [key for key, pod in there.items() if pod.metadata.controller() is None and key not in kept]
        )
        self.steps.append(
            RemovalStep(
                method.reason,
                command.decision,
                tuple(names),
                tuple(new_nodes.values()),
                saved,
                len(there) - len(kept),
                kept,
                lost,
                waiting,
                extra,
                {key: node for key, node in self._places().items() if before.get(key) != node},
                saved_at_least,
            )
        )
        pools: list[NodePool] = scheduler.client.list(NodePool)[0]
        assert karpenter.now is not None
        karpenter.now += _BETWEEN + max([consolidate_after(pool) or 0.0 for pool in pools], default=0.0)

    def _places(self) -> dict[str, str]:
        """By key, the nodes of pods."""
        pods: list[Pod] = self._scheduler.client.list(Pod)[0]
        return {pod.key: pod.spec.node_name for pod in pods if pod.spec.node_name}
