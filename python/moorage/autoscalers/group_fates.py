"""Whether cluster-autoscaler would remove a node of a group, why not, and which changes would free it, each
tried by a loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import structs

from moorage.cluster import PodScheduler
from moorage.kube import Node, Pod, PodDisruptionBudget
from moorage.kube.strict_documents import parse_moment
from moorage.kube.workloads.disruption import BudgetSelectors

from .cluster_autoscaler import ClusterAutoscaler, Memory, ScaleDownResult
from .cluster_autoscaler.drain_rules import SAFE_TO_EVICT
from .cluster_autoscaler.scale_down_pass import DISABLED
from .group_settings import GroupSettings, ScaleDown, flags_of, groups_of
from .node_fates import Freeing, NodeFate, annotated, budget_allows, freed, moved_or_ended, without_annotation
from .scale_up_answer import CLUSTER_AUTOSCALER
from .scalers import GroupScaler, Growth
from .scaling_rounds import left_pods

_MOST_CHANGES, _MOST_PODS = 20, 30
_AT_MINIMUM = "NodeGroupMinSizeReached"
_ENDS = ("ControllerNotFound", "MinReplicasReached")
"""Rules that come before the annotation by which a pod may go."""


def group_node_fate(
    scheduler: PodScheduler, growth: Growth, name: str, at: str | None = None
) -> NodeFate | None:
    """Say what becomes of a node of a group once it was unneeded for long enough (at a time as for
    `Scheduler.consolidate`); None for a node of none. Nothing is changed."""
    if (settings := growth.groups) is None:
        return None
    scaler = GroupScaler(scheduler, growth, settings)
    group = scaler.group_of().get(name)
    if group is None:
        return None
    with scheduler.transaction():
        waiting = left_pods(scheduler, scheduler.run())
        now = None if at is None else parse_moment(at, "at")
        found = _Fate(scheduler, scaler, name, group, now)
        why, moves = found.decide(settings)
        changes, later = freed(why, found.why_with, found.proposals, _MOST_CHANGES)
    note = f"While nodes come for pods that wait ({len(waiting)}), no node is removed."
    return NodeFate(
        name,
        "" if why else "delete",
        "" if why else "Underutilized" if moves else "Empty",
        scaler.price(scaler.groups[group], scheduler.client.get(Node, name)),
        f"{why}; without that {later}" if later else why,
        tuple([one.text for one in changes]),
        "delete" if changes else "",
        (note,) if waiting else (),
        moves,
        CLUSTER_AUTOSCALER,
    )


class _Fate:
    """Loops about one node."""

    def __init__(
        self, scheduler: PodScheduler, scaler: GroupScaler, name: str, group: str, at: float | None
    ) -> None:
        self._scheduler, self._settings, self._name, self._group = scheduler, scaler.settings, name, group
        self._size = scaler.sizes()[group]
        self._now = scaler.now() if at is None else at

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
        if self._name in down.unplaced:
            pod, refusals = down.unplaced[self._name]
            where = "; ".join(f"{node}: {text}" for node, text in refusals.items())
            return f"{why}: {pod.key} fits on no other node" + f" ({where})" * bool(where)
        if why == "NotUnderutilized":
            found = down.utilization[self._name]
            return f"{why}: {100 * found.share:.1f} % of its {found.resource} is requested"
        return why

    @contextmanager
    def _changed(self, changes: Iterable[Freeing]) -> Iterator[GroupSettings]:
        """The settings, and meanwhile the cluster, with changes."""
        client, settings = self._scheduler.client, self._settings
        with self._scheduler.transaction():
            for one in changes:
                if one.about is None:
                    settings = one.change(settings)
                    continue
                kind, key = one.about
                name = key.split("/")[::-1]
                new = one.change(client.get(kind, *name))
                if new is None:
                    client.delete(kind, *name)
                else:
                    client.update(new)
            self._scheduler.sync()
            yield settings

    def why_with(self, changes: Iterable[Freeing]) -> str:
        """Why the node stays after changes, "" if it goes."""
        with self._changed(changes) as settings:
            return self.decide(settings)[0]

    def proposals(self, changes: Iterable[Freeing], why: str) -> list[Freeing]:
        """Changes against what keeps the node after changes."""
        with self._changed(changes) as settings:
            return [*self._proposals(settings, why)]

    def _proposals(self, settings: GroupSettings, why: str) -> Iterator[Freeing]:
        reason, _, text = why.partition(": ")
        client, down = self._scheduler.client, settings.scale_down or ScaleDown()
        if reason == _AT_MINIMUM:
            least = self._size - 1
            yield Freeing(
                f"lower minSize of node group {self._group} to {least}",
                lambda current: _with_group(current, self._group, min_size=least),
            )
        elif reason == "ScaleDownDisabledAnnotation":
            yield without_annotation(DISABLED, "the node", (Node, self._name))
        elif reason == "NotUnderutilized":
            ignoring = {**settings.flags, "ignoreDaemonSetsUtilization": True}
            if not self.decide(structs.replace(settings, flags=ignoring))[0].startswith(reason):
                yield Freeing(
                    "set the flag ignoreDaemonSetsUtilization",
                    lambda current: structs.replace(current, flags=ignoring),
                )
            share = math.ceil(float(text.partition(" ")[0])) / 100
            if share <= 1:
                raised = structs.replace(down, utilization_threshold=share)
                yield Freeing(
                    f"raise utilizationThreshold from {down.utilization_threshold:g} to {share:g}",
                    lambda current: structs.replace(
                        _with_group(current, self._group, options={}), scale_down=raised
                    ),
                )
        elif reason == "BlockedByPod":
            rule, _, key = text.rstrip(")").partition(" (")
            pod = client.get(Pod, *key.split("/")[::-1])
            yield from self._for_pod(rule, pod)
        else:
            listed: list[Pod] = client.list(Pod)[0]
            own = [one for one in listed if one.spec.node_name == self._name]
            yield from (moved_or_ended(one.key) for one in own[:_MOST_PODS])

    def _for_pod(self, rule: str, pod: Pod) -> Iterator[Freeing]:
        if rule == "NotEnoughPdb":
            budgets: list[PodDisruptionBudget] = self._scheduler.client.list(PodDisruptionBudget)[0]
            for one in BudgetSelectors(budgets).of(pod):
                if not one.status.disruptions_allowed:
                    yield budget_allows(one.key)
        if rule not in _ENDS:
            text = f'annotate pod {pod.key} with {SAFE_TO_EVICT}: "true"'
            yield Freeing(text, annotated(SAFE_TO_EVICT, "true"), (Pod, pod.key))
        yield moved_or_ended(pod.key)


def _with_group(settings: GroupSettings, name: str, **fields: Any) -> GroupSettings:
    groups = [structs.replace(one, **fields) if one.name == name else one for one in settings.node_groups]
    return structs.replace(settings, node_groups=groups)
