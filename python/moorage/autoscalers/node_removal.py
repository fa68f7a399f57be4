"""Whether an autoscaler would remove a node, now or later, why not, and which changes would free it, each
tried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import inf
from typing import Any, Literal, Protocol

from msgspec import UNSET, UnsetType, structs

from moorage.cluster import ChangingScheduler, PodScheduler
from moorage.cluster.helpful_changes import (
    HelpfulChange,
    Kind,
    ObjectEdit,
    WhatIf,
    edited,
    gone,
    of_settings,
    tried_text,
    write,
)
from moorage.cluster.requirements import changed_field
from moorage.document import Document
from moorage.errors import InputError, first_of, no_node
from moorage.grouped import grouped
from moorage.kube import Node, NodePool, Object, Pod, PodDisruptionBudget
from moorage.kube.go_texts import timestamp
from moorage.kube.model.autoscaling import Budget
from moorage.kube.model.event import NodeEvent
from moorage.kube.strict_documents import parse_moment
from moorage.kube.workloads.disruption import BudgetSelectors
from moorage.notes import as_sentence

from .autoscaler_protocol import AutoscalerSettings
from .cluster_autoscaler.drain_rules import SAFE_TO_EVICT
from .cluster_autoscaler.flags import Memory
from .cluster_autoscaler.scale_down_pass import DISABLED, ScaleDownResult
from .consolidation_rounds import ConsolidationRounds
from .group_scaler import GroupScaler
from .group_settings import GroupSettings, ScaleDown
from .hourly_cost import HourlyCost
from .karpenter.cluster_view import KINDS, ClusterObjects, ClusterView
from .karpenter.disrupt import DisruptionPass, why_stays
from .karpenter.disruption_candidates import (
    consolidatable_at,
    expires_at,
    next_change,
    outside_windows,
)
from .karpenter.disruption_moves import Command
from .karpenter.existing_nodes import StateNode
from .karpenter.karpenter_options import KarpenterOptions
from .karpenter.node_repair import UNHEALTHY, repair_of
from .karpenter.pod_validation import DO_NOT_DISRUPT, protected_until
from .karpenter.provisioning import check_type
from .launched_nodes import assume_claims
from .providers.instance_type import POOL
from .scale_up_answer import CLUSTER_AUTOSCALER, KARPENTER, chosen_text, saved_text, versions, with_version
from .scaling_rounds import left_pods

# ---- when Karpenter first removes a node that stays now, if nothing but the time changes -------------------

MOST_MOMENTS, MOST_CHANGES = 8, 6
"""So many moments are tried at most, and so many of them are those at which budgets change."""


def moments(view: ClusterView, state: StateNode) -> list[float]:
    """Return when what keeps a node may be over, in order (seconds since 1970): consolidateAfter,
    annotations of pods with a duration, and schedules of budgets."""
    now, times = view.situation.now, set[float]()
    pool = next((pool for pool in view.objects.list(NodePool) if pool.name == state.labels.get(POOL)), None)
    if pool is not None and state.claim is not None:
        times.add(consolidatable_at(pool, state))
        moment = now
        for _ in range(MOST_CHANGES):
            moment = next_change(pool, moment)
            times.add(moment)
            if moment == inf:
                break
    if state.node is not None:
        times |= {protected_until(pod) for pod in view.pods_of.get(state.node.name, ())}
    return sorted(each for each in times if now < each < inf)[:MOST_MOMENTS]


# ---- whether Karpenter would remove a node now, why not, and which changes would free it, each tried -------

_MOST_CHANGES = 6
_MOST_PODS = 30
_MOST_SHOWN = 5
_POD, _BUDGETS = re.compile(r"\(Pod=(.+)\)$"), re.compile(r"=\[(.+)\]\)$")
_NEEDED = ("Can't replace", "Can't remove", "SpotToSpotConsolidation requires")


class NodeFate(Document, frozen=True, kw_only=True):
    """The answer of ``moorage explain node/NAME``."""

    api_version: Literal["explain.moorage.dev/v1"] = "explain.moorage.dev/v1"
    kind: Literal["NodeFate"] = "NodeFate"
    node: str
    karpenter_version: str | None
    """Null for a node of a node group."""
    cluster_autoscaler_version: str | None
    """Null for a node of a NodePool."""
    decision: str
    """What is done with the node: delete, replace or terminate-first; empty if it stays."""
    reason: str
    """For what: Empty, Drifted, Underutilized or Unhealthy; empty if it stays."""
    saved: float | None
    """Per hour, at most; null without prices."""
    message: str
    """Why the node stays, in the autoscaler's words where it has some."""
    changes: tuple[str, ...]
    """What would free it, all together; empty if nothing was found."""
    freed: str
    """What would be done with it then."""
    goes_at: str | None
    """When the node goes if nothing but the time changes; null if that is not known."""
    expires: str | None
    """When the node expires, whatever budgets say; null for never."""
    moves: dict[str, tuple[str, ...]]
    """By node, the pods that Karpenter expects there if the node goes."""
    saved_at_least: float | UnsetType = UNSET
    """Where saved is a bound, as a spot price is not known, or the provider chooses: the least, per hour."""
    events: tuple[NodeEvent, ...] = ()
    """That the input has, the newest first."""


@dataclass(frozen=True)
class RemovalVerdict:
    """What becomes of a node if its autoscaler looks at it alone; see `NodeFate`.

    Attributes
    ----------
    then : str
        What is done with it at `goes_at`; "" if that is not known.
    kinds : frozenset of str
        The kinds of changes that were tried.
    """

    node: str
    decision: str
    reason: str
    saved: float | None
    message: str
    changes: tuple[str, ...] = ()
    freed: str = ""
    notes: tuple[str, ...] = ()
    moves: dict[str, tuple[str, ...]] = field(default_factory=dict)
    autoscaler: str = KARPENTER
    goes_at: str = ""
    then: str = ""
    expires: str = ""
    kinds: frozenset[Kind] = frozenset()
    saved_at_least: float | UnsetType = UNSET

    def lines(self) -> Iterator[str]:
        """Yield the verdict, and what would change it."""
        if self.decision:
            who = with_version(self.autoscaler)
            verdict = f"{who} would {self.decision} node {self.node} ({self.reason})"
            saved = saved_text(HourlyCost.of(self.saved_at_least, self.saved), " $/h")
            saved = f"{saved} less" if saved else "the price is unknown"
            yield f"{verdict} if it is looked at alone: {saved}"
            for node, pods in self.moves.items():
                yield f"{node} would take {first_of(pods, _MOST_SHOWN)}"
            return
        yield f"{with_version(self.autoscaler)} leaves node {self.node}: {self.message}"
        if self.goes_at:
            yield f"not now, but from {self.goes_at} on it would {self.then} it, if nothing else changes"
        if self.expires:
            yield f"the node expires at {self.expires}, whatever budgets say"
        for change in self.changes:
            yield f"would help{' together' if len(self.changes) > 1 else ''}: {change}"
        if self.changes:
            yield f"then it would {self.freed} the node"
        else:
            yield f"nothing frees it{tried_text(self.kinds)}"

    def document(self, events: tuple[NodeEvent, ...] = ()) -> NodeFate:
        """Return the answer of ``moorage explain node/NAME``."""
        times = {"goes_at": self.goes_at or None, "expires": self.expires or None}
        return NodeFate.from_object(self, **versions([self.autoscaler]), **times, events=events)


def removal_verdict(
    scheduler: ChangingScheduler, autoscaling: AutoscalerSettings, name: str, at: str | None = None
) -> RemovalVerdict | None:
    """Say what becomes of a node (at a time as for `Questions.consolidate`), None for one of no NodePool;
    nothing is changed."""
    with scheduler.transaction():
        notes = tuple(assume_claims(scheduler))
        rounds = ConsolidationRounds(scheduler, autoscaling, None if at is None else parse_moment(at, "at"))
        view = rounds.view()
    state = next((state for state in view.states if state.node is not None and state.node.name == name), None)
    if state is None or state.claim is None:
        return None
    if (repair := repair_of(view, state)) and repair.is_due:
        notes += (as_sentence(repair.text),)
        verdict = RemovalVerdict(name, "delete", UNHEALTHY, None, "", notes=notes)
        return replace(verdict, moves={})
    done = _command(view, state.name)
    if done is not None:
        reason, command = done
        saved, least = rounds.prices.saved(command).shown
        launched = [each for claim in command.new_claims() if (each := claim.launched) is not None]
        notes += tuple(map(as_sentence, filter(None, [chosen_text(launched)])))
        pools = {each.pool.name: each.pool for each in command.candidates}.values()
        notes += tuple(outside_windows(pools, reason, view.situation.now))
        verdict = RemovalVerdict(name, command.decision, reason, saved, "", notes=notes, saved_at_least=least)
        return replace(verdict, moves=_moves(command))
    stay, removal = why_stays(view, name).message, _Removal(view, name)
    changes, _ = freed(removal, stay, _MOST_CHANGES)
    with removal.changed(_edits(changes)) as after:
        then = _command(after, name) if changes else None
    texts, kinds = tuple([change.text for change in changes]), frozenset(removal.kinds)
    verdict = RemovalVerdict(
        name, "", "", 0.0, stay, texts, then[1].decision if then else "", notes, kinds=kinds
    )
    if math.isfinite(expires := expires_at(state.claim)):
        verdict = replace(verdict, expires=timestamp(math.floor(expires)))
    for moment in moments(view, state):
        if (later := _command(view.at(moment), state.name)) is not None:
            return replace(verdict, goes_at=timestamp(math.ceil(moment)), then=later[1].decision)
    return verdict


class RemovalWhatIf(WhatIf[Any], Protocol):
    """The world of a node that may go."""

    def why(self, world: Any) -> str:
        """Return what keeps the node; "" if it goes."""
        ...

    def proposals(self, world: Any, why: str) -> Iterator[HelpfulChange]:
        """Yield changes against what keeps the node, the smallest first."""
        ...


def freed(removal: RemovalWhatIf, why: str, most: int) -> tuple[list[HelpfulChange], str]:
    """Find changes that free a node together, none of which can be left out: each takes away what keeps it
    after those before. None if none do, and what keeps it in the end.
    """

    def why_with(changes: Iterable[HelpfulChange]) -> str:
        with removal.changed(_edits(changes)) as world:
            return removal.why(world)

    chosen: list[HelpfulChange] = []
    while why and len(chosen) < most:
        with removal.changed(_edits(chosen)) as world:
            proposals = [*removal.proposals(world, why)]
        for proposal in proposals:
            removal.kinds.add(proposal.kind)
            later = why_with([*chosen, proposal])
            if later != why:
                chosen, why = [*chosen, proposal], later
                break
        else:
            break
    if why:
        return [], why if chosen else ""
    if len(chosen) == 1:
        return chosen, ""
    return [change for change in chosen if why_with(each for each in chosen if each is not change)], ""


def _edits(changes: Iterable[HelpfulChange]) -> list[ObjectEdit]:
    return [edit for change in changes for edit in change.edits]


def _moves(command: Command) -> dict[str, tuple[str, ...]]:
    nodes = dict(command.moves)
    for number, claim in enumerate(command.new_claims(), 1):
        kind = f" ({claim.launched.instance_type})" if claim.launched is not None else ""
        nodes[f"new node {number}{kind}"] = claim.pods
    return nodes


def _command(view: ClusterView, name: str) -> tuple[str, Command] | None:
    """What is done with the node alone, and for which reason."""
    result = DisruptionPass(view).results(name)[-1]
    return (result.method.reason, result.command) if result.command is not None else None


class _Removal:
    """What Karpenter does with a node."""

    def __init__(self, view: ClusterView, name: str) -> None:
        self._view, self._name, self.kinds = view, name, set[Kind]()

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[ClusterView]:
        """Return the cluster with changes."""
        view, options = self._view, self._view.options
        for edit in edits:
            options = edit.change(options) if edit.about is None else options
        objects = edited({kind: view.objects.list(kind) for kind in KINDS}, edits)
        yield ClusterView(
            ClusterObjects(chain.from_iterable(objects.values())), view.situation, options, earlier=view
        )

    def why(self, world: ClusterView) -> str:
        """Return what keeps the node; "" if it goes."""
        return "" if _command(world, self._name) is not None else why_stays(world, self._name).message

    def proposals(self, world: ClusterView, why: str) -> Iterator[HelpfulChange]:
        """Yield changes that a message suggests, the smallest first."""
        return _proposals(world, self._name, why)


# ---- what could help ---------------------------------------------------------------------------------------


def annotated(key: str, value: str | None) -> Callable[[Any], Object]:
    """Return a change of an annotation (None takes it away)."""

    def change(notes: dict[str, str]) -> dict[str, str]:
        others = {name: text for name, text in notes.items() if name != key}
        return others if value is None else others | {key: value}

    return partial(changed_field, path="metadata.annotations", change=change)


def _with_disruption(**fields: Any) -> Callable[[Any], Object]:
    return partial(changed_field, path="spec.disruption", change=lambda its: structs.replace(its, **fields))


def _proposals(view: ClusterView, name: str, message: str) -> Iterator[HelpfulChange]:
    """Changes that a message suggests, the smallest first."""
    state = next(state for state in view.states if state.node is not None and state.node.name == name)
    assert state.node is not None
    pool = state.labels.get(POOL, "")
    of_pool = partial(ObjectEdit, NodePool, pool)
    if message.startswith("Disruption is blocked through"):
        yield without_annotation(DO_NOT_DISRUPT, "the node", (Node, name))
    elif match := _POD.search(message):
        yield without_annotation(DO_NOT_DISRUPT, f"pod {match[1]}", (Pod, match[1]))
    elif match := _BUDGETS.search(message):
        first, *others = match[1].split()
        if others:
            edit = ObjectEdit(PodDisruptionBudget, others[0], gone)
            yield HelpfulChange(Kind.BUDGET, f"delete PodDisruptionBudget {others[0]}", (edit,))
        yield budget_allows(first)
    elif "consolidation disabled" in message or "consolidateAfter" in message:
        is_never = "consolidation disabled" in message
        text = f"consolidateAfter of NodePool {pool} is {'' if is_never else 'over, or '}0s"
        yield HelpfulChange(Kind.POOL, text, (of_pool(_with_disruption(consolidate_after="0s")),))
    elif "policy" in message:
        policy = "WhenEmptyOrUnderutilized"
        text = f"consolidationPolicy of NodePool {pool} is {policy}"
        edit = of_pool(_with_disruption(consolidation_policy=policy))
        yield HelpfulChange(Kind.POOL, text, (edit,))
    elif message.startswith("SpotToSpotConsolidation is disabled"):
        edit = of_settings(partial(replace, spot_to_spot=True))
        yield HelpfulChange(Kind.SETTING, "the feature gate SpotToSpotConsolidation is on", (edit,))
    elif message.startswith("Karpenter removes only empty nodes"):
        ready = partial(changed_field, path="status.conditions", change=lambda its: ())
        yield HelpfulChange(Kind.POOL, f"NodePool {pool} is ready", (of_pool(ready),))
    elif message.startswith("the budgets of NodePool"):
        text = f"the budgets of NodePool {pool} allow a node"
        edit = of_pool(_with_disruption(budgets=(Budget(nodes="100%"),)))
        yield HelpfulChange(Kind.POOL, text, (edit,))
    elif message.startswith(("Not all pods would schedule", *_NEEDED)):
        if not view.options.ignores_preferences:
            text = (
                "--preference-policy Ignore (Karpenter's PREFERENCE_POLICY), as preferred terms of pods count"
            )
            edit = of_settings(partial(replace, ignores_preferences=True))
            yield HelpfulChange(Kind.SETTING, f"{text} as required", (edit,))
        for pod in view.pods_of.get(state.node.name, [])[:_MOST_PODS]:
            if message.startswith(_NEEDED) or f"{pod.key} => " in message:
                yield moved_or_ended(pod.key)


def without_annotation(key: str, owner: str, about: tuple[type[Object], str]) -> HelpfulChange:
    """An object loses an annotation."""
    edit = ObjectEdit(*about, annotated(key, None))
    return HelpfulChange(Kind.ANNOTATION, f"remove the annotation {key} of {owner}", (edit,))


def budget_allows(budget: str) -> HelpfulChange:
    """A budget no longer keeps a node."""
    text = f"PodDisruptionBudget {budget} allows a disruption (more replicas, or another limit)"
    allowing = partial(structs.replace, disruptions_allowed=1)
    edit = ObjectEdit(PodDisruptionBudget, budget, partial(changed_field, path="status", change=allowing))
    return HelpfulChange(Kind.BUDGET, text, (edit,))


def moved_or_ended(pod: str) -> HelpfulChange:
    """A pod no longer keeps its node."""
    return HelpfulChange(Kind.MOVE, f"pod {pod} moves elsewhere, or ends", (ObjectEdit(Pod, pod, gone),))


# ---- nodes of groups ---------------------------------------------------------------------------------------
# Whether cluster-autoscaler would remove a node of a group, why not, and which changes would free it, each
# tried by a loop.

_MOST_CHANGES_OF_A_GROUP, _MOST_PODS_OF_A_GROUP = 20, 30
_AT_MINIMUM, _WHOLE = "NodeGroupMinSizeReached", "AtomicScaleDownFailed"
_ENDS = ("ControllerNotFound", "MinReplicasReached")
"""Rules that come before the annotation by which a pod may go."""


def group_removal_verdict(
    scheduler: PodScheduler, autoscaling: AutoscalerSettings, name: str, at: str | None = None
) -> RemovalVerdict | None:
    """Say what becomes of a node of a group once it was unneeded for long enough (at a time as for
    `Questions.consolidate`); None for a node of none. Nothing is changed."""
    scaler = GroupScaler(scheduler, autoscaling)
    settings, group = scaler.settings, scaler.group_of().get(name)
    if group is None:
        return None
    with scheduler.transaction():
        waiting = left_pods(scheduler, scheduler.run())
        now = None if at is None else parse_moment(at, "at")
        trial = _GroupTrial(scheduler, scaler, name, group, now)
        why, moves = trial.decide(settings)
        changes, later = freed(trial, why, _MOST_CHANGES_OF_A_GROUP)
    note = f"While nodes come for pods that wait ({len(waiting)}), no node is removed."
    price, least = scaler.price(scaler.groups[group], scheduler.client.get(Node, name)).shown
    return RemovalVerdict(
        name,
        "" if why else "delete",
        "" if why else "Underutilized" if moves else "Empty",
        price,
        f"{why}; without that {later}" if later else why,
        tuple([change.text for change in changes]),
        "delete" if changes else "",
        (note,) if waiting else (),
        moves,
        CLUSTER_AUTOSCALER,
        kinds=frozenset(trial.kinds),
        saved_at_least=least,
    )


def explain_node(
    scheduler: ChangingScheduler, autoscaling: AutoscalerSettings, name: str, at: str | None = None
) -> RemovalVerdict | None:
    """Say what its autoscaler does with a node; None where none has it. See `Questions.explain_node`."""
    check_type("options", autoscaling.options, KarpenterOptions)
    known = [node.name for node in scheduler.client.list(Node)[0]]
    if name not in known:
        raise InputError(no_node(name, known))
    verdict = group_removal_verdict(scheduler, autoscaling, name, at)
    if verdict is None and scheduler.client.list(NodePool)[0]:
        return removal_verdict(scheduler, autoscaling, name, at)
    return verdict


class _GroupTrial:
    """Loops about one node."""

    def __init__(
        self, scheduler: PodScheduler, scaler: GroupScaler, name: str, group: str, at: float | None
    ) -> None:
        self._scheduler, self._settings, self._name, self._group = scheduler, scaler.settings, name, group
        self._size, self.kinds = scaler.sizes()[group], set[Kind]()
        whole = scaler.groups[group].zero_or_max_node_scaling
        members = [node for node, own in scaler.group_of().items() if own == group]
        self._leaving, self._first = members if whole else [name], ""
        self._now = scaler.now() if at is None else at

    def _loop(self, settings: GroupSettings) -> tuple[ScaleDownResult, Memory]:
        """A loop in which this node alone is looked at, and was unneeded for long enough; with its group, if
        that goes as a whole."""
        own = [each for each in settings.node_groups if each.name == self._group]
        alone = structs.replace(settings, node_groups=own, scale_down=settings.scale_down or ScaleDown())
        unneeded = dict.fromkeys(self._leaving, -math.inf)
        memory = Memory(targets={self._group: self._size}, unneeded=unneeded)
        player = GroupScaler(self._scheduler, AutoscalerSettings(groups=alone)).player(memory, removes=True)
        groups = dict.fromkeys(self._leaving, self._group)
        return player.run_once(self._scheduler, groups, self._now, []).down, memory

    def decide(self, settings: GroupSettings) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Why the node stays, "" if it goes; and by node the pods that move there."""
        down, memory = self._loop(settings)
        if self._name not in down.deleted:
            return self._why(down), {}
        gone = down.deleted[self._name]
        moves = grouped((memory.move_hints.get(pod.metadata.uid) or "", pod.key) for pod in gone)
        return "", {node: tuple(pods) for node, pods in moves.items() if node}

    def _why(self, down: ScaleDownResult) -> str:
        stays = [node for node in self._leaving if down.reasons.get(node, _WHOLE) != _WHOLE]
        if stays and self._name not in stays:
            self._first = self._why_of(stays[0], down)
            return f"{_WHOLE}: node group {self._group} goes as a whole; node {stays[0]} stays: {self._first}"
        return self._why_of(self._name, down)

    def _why_of(self, name: str, down: ScaleDownResult) -> str:
        if not down.candidates:
            return f"{_AT_MINIMUM}: node group {self._group} has its minimum of {self._size}"
        why = down.reasons.get(name, "no node with pods may leave (maxDrainParallelism)")
        if name in down.blockers:
            pod, rule = down.blockers[name]
            return f"{why}: {rule} ({pod.key})"
        if name in down.unplaced:
            pod, refusals = down.unplaced[name]
            where = "; ".join(f"{node}: {text}" for node, text in refusals.items())
            return f"{why}: {pod.key} fits on no other node" + f" ({where})" * bool(where)
        if why == "NotUnderutilized":
            share = down.utilization[name]
            return f"{why}: {100 * share.share:.1f} % of its {share.resource} is requested"
        return why

    @contextmanager
    def changed(self, edits: Sequence[ObjectEdit]) -> Iterator[GroupSettings]:
        """Return the settings, and meanwhile have the cluster, with changes."""
        settings = self._settings
        with self._scheduler.transaction():
            for edit in edits:
                settings = edit.change(settings) if edit.about is None else settings
            write(self._scheduler.client, edits)
            self._scheduler.sync()
            yield settings

    def why(self, world: GroupSettings) -> str:
        """Return why the node stays, "" if it goes."""
        return self.decide(world)[0]

    def proposals(self, world: GroupSettings, why: str) -> Iterator[HelpfulChange]:
        """Yield changes against what keeps the node."""
        reason, _, text = why.partition(": ")
        if reason == _WHOLE:
            yield from self.proposals(world, self._first)
            return
        client, down = self._scheduler.client, world.scale_down or ScaleDown()
        if reason == _AT_MINIMUM:
            least = self._size - 1
            edit = of_settings(lambda current: _with_group(current, self._group, min_size=least))
            yield HelpfulChange(Kind.LIMIT, f"lower minSize of node group {self._group} to {least}", (edit,))
        elif reason == "ScaleDownDisabledAnnotation":
            yield without_annotation(DISABLED, "the node", (Node, self._name))
        elif reason == "NotUnderutilized":
            ignoring = {**world.flags, "ignoreDaemonSetsUtilization": True}
            if not self.decide(structs.replace(world, flags=ignoring))[0].startswith(reason):
                edit = of_settings(lambda current: structs.replace(current, flags=ignoring))
                yield HelpfulChange(Kind.SETTING, "set the flag ignoreDaemonSetsUtilization", (edit,))
            share = math.ceil(float(text.partition(" ")[0])) / 100
            if share <= 1:
                raised = structs.replace(down, utilization_threshold=share)
                text = f"raise utilizationThreshold from {down.utilization_threshold:g} to {share:g}"
                edit = of_settings(
                    lambda current: structs.replace(
                        _with_group(current, self._group, options={}), scale_down=raised
                    )
                )
                yield HelpfulChange(Kind.SETTING, text, (edit,))
        elif reason == "BlockedByPod":
            rule, _, key = text.rstrip(")").partition(" (")
            pod = client.get(Pod, *key.split("/")[::-1])
            yield from self._for_pod(rule, pod)
        else:
            listed: list[Pod] = client.list(Pod)[0]
            own = [each for each in listed if each.spec.node_name == self._name]
            yield from (moved_or_ended(each.key) for each in own[:_MOST_PODS_OF_A_GROUP])

    def _for_pod(self, rule: str, pod: Pod) -> Iterator[HelpfulChange]:
        if rule == "NotEnoughPdb":
            budgets: list[PodDisruptionBudget] = self._scheduler.client.list(PodDisruptionBudget)[0]
            for each in BudgetSelectors(budgets).of(pod):
                if not each.status.disruptions_allowed:
                    yield budget_allows(each.key)
        if rule not in _ENDS:
            text = f'annotate pod {pod.key} with {SAFE_TO_EVICT}: "true"'
            edit = ObjectEdit(Pod, pod.key, annotated(SAFE_TO_EVICT, "true"))
            yield HelpfulChange(Kind.ANNOTATION, text, (edit,))
        yield moved_or_ended(pod.key)


def _with_group(settings: GroupSettings, name: str, **fields: Any) -> GroupSettings:
    groups = [
        structs.replace(node_group, **fields) if node_group.name == name else node_group
        for node_group in settings.node_groups
    ]
    return structs.replace(settings, node_groups=groups)
