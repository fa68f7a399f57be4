"""Whether cluster-autoscaler would remove a node of a group, why not, and which changes would free it, each
tried by a loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from msgspec import structs

from moorage.objects import Node, Object, Pod, PodDisruptionBudget
from moorage.objects.time_spans import parse_moment
from moorage.objects.workloads.ages import newest, seconds
from moorage.objects.workloads.disruption import BudgetSelectors
from moorage.scheduler import PodScheduler

from .cluster_autoscaler import ClusterAutoscaler, Memory, ScaleDownResult
from .cluster_autoscaler.drain_rules import SAFE_TO_EVICT
from .cluster_autoscaler.scale_down_pass import DISABLED
from .group_settings import GroupSettings, ScaleDown, flags_of, group_by_node, groups_of
from .node_fates import NodeFate, budget_allows, moved_or_ended
from .scale_up_answer import CLUSTER_AUTOSCALER
from .scalers import GroupScaler, Growth
from .scaling_rounds import left_pods

_MOST_CHANGES, _MOST_PODS = 20, 30
_AT_MINIMUM = "NodeGroupMinSizeReached"
_ENDS = ("ControllerNotFound", "MinReplicasReached")
"""Rules that come before the annotation by which a pod may go."""


class Freeing(NamedTuple):
    """A change, in words: of the settings, or of an object (None if it goes)."""

    text: str
    change: Callable[[Any], Any]
    about: Object | None = None


def group_node_fate(
    scheduler: PodScheduler, growth: Growth, name: str, at: str | None = None
) -> NodeFate | None:
    """Say what becomes of a node of a group once it was unneeded for long enough (at a time as for
    `Scheduler.consolidate`); None for a node of none. Nothing is changed."""
    settings, nodes = growth.groups, scheduler.client.list(Node)[0]
    group = group_by_node(settings.node_groups, nodes).get(name) if settings is not None else None
    if settings is None or group is None:
        return None
    with scheduler.transaction():
        waiting = left_pods(scheduler, scheduler.run())
        now = None if at is None else parse_moment(at, "at")
        found = _Fate(scheduler, settings, name, group, now)
        why, moves = found.decide(settings)
        changes, later = found.freed(settings, why) if why else ([], "")
    scaler = GroupScaler(scheduler, growth, settings)
    (node,) = (one for one in nodes if one.name == name)
    note = f"While nodes come for pods that wait ({len(waiting)}), no node is removed."
    return NodeFate(
        name,
        "" if why else "delete",
        "" if why else "Underutilized" if moves else "Empty",
        scaler.price(scaler.groups[group], node),
        f"{why}; without that {later}" if later else why,
        tuple(changes),
        "delete" if changes else "",
        (note,) if waiting else (),
        moves,
        CLUSTER_AUTOSCALER,
    )


class _Fate:
    """Loops about one node."""

    def __init__(
        self, scheduler: PodScheduler, settings: GroupSettings, name: str, group: str, at: float | None
    ) -> None:
        self._scheduler, self._name, self._group = scheduler, name, group
        nodes: list[Node] = scheduler.client.list(Node)[0]
        self._size = list(group_by_node(settings.node_groups, nodes).values()).count(group)
        stored: list[Pod] = scheduler.client.list(Pod)[0]
        youngest = newest(chain[Object](nodes, stored))
        self._now = at if at is not None else seconds(youngest) if youngest else 0.0

    def _loop(self, settings: GroupSettings) -> tuple[ScaleDownResult, Memory]:
        """A loop in which this node alone is looked at, and was unneeded for long enough."""
        down = settings.scale_down or ScaleDown()
        flags = flags_of(structs.replace(settings, scale_down=down))
        memory = Memory(targets={self._group: self._size}, unneeded={self._name: -math.inf})
        groups = [one for one in groups_of(settings) if one.name == self._group]
        player = ClusterAutoscaler(groups, flags, memory, False)
        return player.run_once(self._scheduler, {self._name: self._group}, self._now, []).down, memory

    def decide(self, settings: GroupSettings) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Why the node stays, "" if it goes; and by node the pods that move there."""
        down, memory = self._loop(settings)
        if self._name not in down.deleted:
            return self._why(down), {}
        moves: dict[str, list[str]] = {}
        for pod in down.deleted[self._name]:
            moves.setdefault(memory.move_hints.get(pod.metadata.uid) or "", []).append(pod.key)
        return "", {node: tuple(pods) for node, pods in moves.items() if node}

    def _why(self, down: ScaleDownResult) -> str:
        if not down.candidates:
            return f"{_AT_MINIMUM}: node group {self._group} has its minimum of {self._size}"
        why = down.reasons.get(self._name, "no node with pods may leave (maxDrainParallelism)")
        if self._name in down.blockers:
            pod, rule = down.blockers[self._name]
            return f"{why}: {rule} ({pod.key})"
        if why == "NotUnderutilized":
            found = down.utilization[self._name]
            return f"{why}: {100 * found.share:.1f} % of its {found.resource} is requested"
        return why

    def freed(self, settings: GroupSettings, why: str) -> tuple[list[str], str]:
        """Changes that free the node together: each takes away what keeps it then. None if none do, and what
        keeps it in the end."""
        texts: list[str] = []
        while why and len(texts) < _MOST_CHANGES:
            for one in self._proposals(settings, why):
                with self._scheduler.transaction() as transaction:
                    tried = self._changed(settings, one)
                    later, _ = self.decide(tried)
                    if later == why:
                        continue
                    transaction.commit()
                texts, settings, why = [*texts, one.text], tried, later
                break
            else:
                return [], why if texts else ""
        return ([], why) if why else (texts, "")

    def _changed(self, settings: GroupSettings, one: Freeing) -> GroupSettings:
        if one.about is None:
            changed: GroupSettings = one.change(settings)
            return changed
        client, new = self._scheduler.client, one.change(one.about)
        if new is None:
            client.delete(type(one.about), one.about.name, one.about.namespace)
        else:
            client.update(new)
        self._scheduler.sync()
        return settings

    def _proposals(self, settings: GroupSettings, why: str) -> Iterator[Freeing]:
        """Changes against what keeps the node."""
        reason, _, text = why.partition(": ")
        client, down = self._scheduler.client, settings.scale_down or ScaleDown()
        if reason == _AT_MINIMUM:
            least = self._size - 1
            yield Freeing(
                f"lower minSize of node group {self._group} to {least}",
                lambda its: _with_group(its, self._group, min_size=least),
            )
        elif reason == "ScaleDownDisabledAnnotation":
            node = client.get(Node, self._name)
            yield Freeing(f"remove the annotation {DISABLED} of the node", _annotated(DISABLED, None), node)
        elif reason == "NotUnderutilized":
            share = math.ceil(float(text.partition(" ")[0])) / 100
            if share <= 1:
                raised = structs.replace(down, utilization_threshold=share)
                yield Freeing(
                    f"raise utilizationThreshold from {down.utilization_threshold:g} to {share:g}",
                    lambda its: structs.replace(_with_group(its, self._group, options={}), scale_down=raised),
                )
        elif reason == "BlockedByPod":
            rule, _, key = text.rstrip(")").partition(" (")
            pod = client.get(Pod, *key.split("/")[::-1])
            yield from self._for_pod(rule, pod)
        else:
            listed: list[Pod] = client.list(Pod)[0]
            own = [one for one in listed if one.spec.node_name == self._name]
            yield from (_ending(one) for one in own[:_MOST_PODS])

    def _for_pod(self, rule: str, pod: Pod) -> Iterator[Freeing]:
        if rule == "NotEnoughPdb":
            budgets: list[PodDisruptionBudget] = self._scheduler.client.list(PodDisruptionBudget)[0]
            for one in BudgetSelectors(budgets).of(pod):
                status = structs.replace(one.status, disruptions_allowed=1)
                if not one.status.disruptions_allowed:
                    text = budget_allows(one.key)
                    yield Freeing(text, partial(structs.replace, status=status), one)
        if rule not in _ENDS:
            text = f'annotate pod {pod.key} with {SAFE_TO_EVICT}: "true"'
            yield Freeing(text, _annotated(SAFE_TO_EVICT, "true"), pod)
        yield _ending(pod)


def _ending(pod: Pod) -> Freeing:
    return Freeing(moved_or_ended(pod.key), lambda its: None, pod)


def _with_group(settings: GroupSettings, name: str, **fields: Any) -> GroupSettings:
    groups = [structs.replace(one, **fields) if one.name == name else one for one in settings.node_groups]
    return structs.replace(settings, node_groups=groups)


def _annotated(key: str, value: str | None) -> Callable[[Any], Any]:
    def change(one: Any) -> Any:
        notes = {name: text for name, text in one.metadata.annotations.items() if name != key}
        notes |= {} if value is None else {key: value}
        return structs.replace(one, metadata=structs.replace(one.metadata, annotations=notes))

    return change
