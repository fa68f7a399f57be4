"""Which nodes are not needed, which of them leave now, and why others stay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, islice

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, pod_requests
from moorage.grouped import grouped
from moorage.kube import Node, Pod
from moorage.kube.model.node import Taint
from moorage.lazy import NamedTuple

from .drain_rules import Budgets, DrainContext, is_long_terminating, pods_to_move
from .estimator import RemainingQuotas, capacity
from .flags import GPUS, Flags, ScaledGroup
from .group_states import TO_BE_DELETED, ClusterStates, is_daemon_pod, is_mirror_pod
from .node_snapshot import NodeSnapshot
from .pods_to_help import place_pods

# ---- how much of a node is requested -----------------------------------------------------------------------


class Utilization(NamedTuple):
    """The resource of which the greatest share is requested, and the share."""

    resource: str
    share: float


def utilization(node: Node, pods: Iterable[Pod], flags: Flags, now: float) -> Utilization | None:
    """Return the greater share of cpu and memory, or that of the GPUs of a node that has some; None where the
    node does not say how much it has."""
    counted = list(pods)
    gpu = next((name for name in GPUS if name in capacity(node)), None)
    if gpu is not None:
        return Utilization(gpu, _share(node, counted, gpu, flags, now) or 0.0)
    cpu, memory = (_share(node, counted, name, flags, now) for name in ("cpu", "memory"))
    if cpu is None or memory is None:
        return None
    return Utilization("cpu", cpu) if cpu > memory else Utilization("memory", memory)


def _share(node: Node, pods: Iterable[Pod], name: str, flags: Flags, now: float) -> float | None:
    has = Quantity(str(node.status.allocatable.get(name, "0"))).milli_value()
    if not has:
        return None
    used = ignored = 0
    for pod in pods:
        amount = pod_requests(pod).get(name, ZERO).milli_value()
        if (flags.ignore_daemon_sets_utilization and is_daemon_pod(pod)) or (
            flags.ignore_mirror_pods_utilization and is_mirror_pod(pod)
        ):
            ignored += amount
        elif not is_long_terminating(pod, now):
            used += amount
    return used / (has - ignored) if has != ignored else float("inf" if used else "nan")


class NodeLoad(NamedTuple):
    """What the pods of a node make of it.

    Attributes
    ----------
    order : (bool, bool)
        By which candidates are looked at: whether pods are to be moved, or else only awaited.
    """

    order: tuple[bool, bool]
    utilization: Utilization | None


def node_load(node: Node, pods: Sequence[Pod], flags: Flags, group: ScaledGroup, now: float) -> NodeLoad:
    """Return what the pods of a node make of it, whatever budgets and controllers say."""
    moves = pods_to_move(DrainContext(flags, now, Budgets(())), pods)
    is_empty = moves.blocker is None and not moves.pods
    order = not is_empty, is_empty and bool(moves.awaited)
    return NodeLoad(order, utilization(node, pods, group.flags(flags), now))


# ---- scale down pass ---------------------------------------------------------------------------------------

DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
MOST_REFUSALS = 3
"""On how many nodes it is noted why a pod that has no other place does not fit."""
DELETION_TIME = 300.0
"""Seconds after which a node that was to be deleted is looked at again."""


@dataclass
class RemovableNode:
    """A node that could leave, with the pods that move; a risky one takes more than its budgets allow."""

    node: str
    group: ScaledGroup
    pods: list[Pod]
    awaited: list[Pod]
    is_risky: bool = False


class ScaleDownResult(Struct):
    """What a loop finds about nodes to remove.

    Attributes
    ----------
    result : str
        NodeDeleteStarted, NoNodeDeleted, InCooldown, NoCandidates or NotTried.
    unneeded : list of str
        In the order in which they were found.
    reasons : dict of str to str
        Why a node stays, by upstream's name.
    blockers : dict of str to (Pod, str)
        The pod that keeps a node, and the name of the rule.
    unplaced : dict of str to (Pod, dict of str to str)
        The first pod of a node that fits on no other one, and which filter refuses it on some of them.
    deleted : dict of str to list of Pod
        Nodes that leave now, with the pods that are evicted.
    drained : set of str
        Those of them that have pods to be moved.
    is_cut : bool
        Whether nodes were left for the next loop.
    """

    result: str = "NotTried"
    candidates: list[str] = msgspec.field(default_factory=list)
    unneeded: list[str] = msgspec.field(default_factory=list)
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    blockers: dict[str, tuple[Pod, str]] = msgspec.field(default_factory=dict)
    utilization: dict[str, Utilization] = msgspec.field(default_factory=dict)
    unplaced: dict[str, tuple[Pod, dict[str, str]]] = msgspec.field(default_factory=dict)
    deleted: dict[str, list[Pod]] = msgspec.field(default_factory=dict)
    drained: set[str] = msgspec.field(default_factory=set)
    is_cut: bool = False


class ScaleDownPass(Struct):
    """One search for nodes that are not needed."""

    states: ClusterStates
    snapshot: NodeSnapshot
    context: DrainContext
    result: ScaleDownResult
    loads: dict[str, NodeLoad] = msgspec.field(default_factory=dict)

    def _group(self, node: str) -> ScaledGroup:
        return self.states.groups[self.states.group_of[node]]

    def run(self, hidden: Sequence[str], may_delete: bool) -> None:
        """Find unneeded nodes, and those that leave.

        Parameters
        ----------
        hidden : sequence of str
            Nodes that have not started yet.
        """
        memory, result = self.states.memory, self.result
        interval = self.states.now - memory.latest
        memory.interval = min(memory.interval, interval, self.states.flags.scale_down_unneeded_time or 1e-9)
        present = [node.name for node in self.states.nodes if node.name not in hidden]
        result.candidates = self._candidates(present)
        with self.snapshot.trial():
            removals = self._removals(set(present))
        memory.unneeded = {
            removal.node: memory.unneeded.get(removal.node, self.states.now) for removal in removals
        }
        memory.move_hints.end_loop()
        result.unneeded = [removal.node for removal in removals]
        flags = self.states.flags
        cools_down = (
            memory.added + flags.scale_down_delay_after_add > self.states.now
            or memory.deleted + flags.scale_down_delay_after_delete > self.states.now
        )
        if cools_down or not may_delete:
            result.result = "InCooldown"
        elif not result.candidates:
            result.result = "NoCandidates"
        else:
            self._delete(self._due(removals))
            result.result = "NodeDeleteStarted" if result.deleted else "NoNodeDeleted"
        if result.deleted:
            memory.deleted = self.states.now

    # ---- who is looked at ----------------------------------------------------------------------------------

    def _candidates(self, present: Sequence[str]) -> list[str]:
        """Nodes of groups above their minimum: empty ones first, then those that were unneeded before."""
        names = [
            name
            for name in present
            if name in self.states.group_of
            and self.states.target(self.states.group_of[name]) > self._group(name).min_size
        ]
        self.loads = {name: self._load(name) for name in names}
        unneeded = self.states.memory.unneeded
        return sorted(names, key=lambda name: (*self.loads[name].order, name not in unneeded))

    def _load(self, name: str) -> NodeLoad:
        node, pods, group = self.snapshot.nodes[name], self.snapshot.pods_of(name), self._group(name)
        flags, now = self.states.flags, self.states.now
        find = partial(node_load, node, pods, flags, group, now)
        # Time makes another of a pod that is terminating alone: a system pod, young or old, moves or blocks.
        if any(pod.metadata.deletion_timestamp is not None for pod in pods):
            return find()
        return self.states.memory.facts.kept(("load", name), (node, pods, group), find)

    def _ineligible(self, node: Node) -> str:
        """Why a node is not looked at; "" if it is."""
        flags = self._group(node.name).flags(self.states.flags)
        if node.name in self.states.memory.recheck:
            return "RecentlyUnremovable"
        marks = [taint.value for taint in node.spec.taints if taint.key == TO_BE_DELETED]
        if any(mark.isdigit() and self.states.now - int(mark) < DELETION_TIME for mark in marks):
            return "CurrentlyBeingDeleted"
        if node.metadata.annotations.get(DISABLED) == "true":
            return "ScaleDownDisabledAnnotation"
        share = self.loads[node.name].utilization
        if share is None:
            return "UnexpectedError"
        if not flags.scale_down_unready_enabled and not self.states.of[node.name].is_ready:
            return "ScaleDownUnreadyDisabled"
        self.result.utilization[node.name] = share
        gpu = share.resource not in ("cpu", "memory")
        most = flags.scale_down_gpu_utilization_threshold if gpu else flags.scale_down_utilization_threshold
        return "NotUnderutilized" if share.share > most else ""

    # ---- can its pods go -----------------------------------------------------------------------------------

    def _removals(self, destinations: set[str]) -> list[RemovableNode]:
        """The nodes that could leave, one after the other: what one has moved stays there for the next."""
        memory, result, out = self.states.memory, self.result, list[RemovableNode]()
        recheck = self.states.now + self.states.flags.unremovable_node_recheck_timeout
        memory.recheck = {
            name: until
            for name, until in memory.recheck.items()
            if name in self.snapshot.nodes and until > self.states.now
        }
        reasons = {name: self._ineligible(self.snapshot.nodes[name]) for name in result.candidates}
        result.reasons |= {name: why for name, why in reasons.items() if why}
        limit, atomic = self._limit(), 0
        for name in (name for name, why in reasons.items() if not why):
            if len(out) - atomic >= limit:
                result.is_cut = True
                break
            removal = self._removal(name, destinations)
            if removal is None:
                memory.recheck[name] = recheck
                continue
            removal.is_risky = self.context.budgets.are_exceeded(removal.pods)
            destinations.discard(name)
            self.context.budgets.take(removal.pods)
            atomic += removal.group.zero_or_max
            out.append(removal)
        return out

    def _limit(self) -> int:
        """How many unneeded nodes are of use: no more than could leave in the time that they have to wait."""
        most, flags = self.states.flags.max_scale_down_parallelism, self.states.flags
        span = max(flags.scale_down_unneeded_time, self.states.memory.interval)
        loops = math.floor(span / self.states.memory.interval) if self.states.memory.interval > 0 else 1 << 30
        return min(len(self.states.memory.unneeded) + 2 * most, most * loops + most)

    def _removal(self, name: str, destinations: set[str]) -> RemovableNode | None:
        """The removal of a node; None, with the reason noted, if it cannot leave."""
        to_move = pods_to_move(self.context, self.snapshot.pods_of(name))
        if to_move.blocker is not None:
            self.result.reasons[name], self.result.blockers[name] = "BlockedByPod", to_move.blocker
            return None
        with self.snapshot.trial() as kept:
            if self._moves(to_move.pods, name, destinations):
                kept.append(True)
                return RemovableNode(name, self._group(name), to_move.pods, to_move.awaited)
        self.result.reasons[name] = "NoPlaceToMovePods"
        return None

    def _moves(self, pods: Sequence[Pod], name: str, destinations: set[str]) -> bool:
        """Place pods on other nodes; their own, empty and tainted, still counts for spread, and goes then."""
        snapshot = self.snapshot
        node = snapshot.nodes[name]
        taint = Taint(TO_BE_DELETED, str(int(self.states.now)), "NoSchedule")
        snapshot.take_off(snapshot.pods_of(name))
        snapshot.replace(replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint))))
        accepted = [
            each != name and each in destinations and not node.spec.unschedulable
            for each, node in snapshot.nodes.items()
        ]
        moved = [replace(pod, spec=replace(pod.spec, node_name="")) for pod in pods]
        placed = place_pods(snapshot, moved, self.states.memory.move_hints, np.array(accepted, bool), True)
        if len(placed) < len(moved):
            self.result.unplaced[name] = moved[len(placed)], self._why_not(moved[len(placed)], accepted)
            return False
        snapshot.remove(name)
        return True

    def _why_not(self, pod: Pod, accepted: Sequence[bool]) -> dict[str, str]:
        """Which filter refuses a pod on the first few nodes that could take it, and why."""
        group_of = dict[str, str]()
        for name in islice(compress(self.snapshot.nodes, accepted), MOST_REFUSALS):
            if (status := self.snapshot.why_not(pod, name)) is not None:
                group_of[name] = f"{status.plugin}: {', '.join(status.reasons)}"
        return group_of

    # ---- who leaves now ------------------------------------------------------------------------------------

    def _due(self, removals: Sequence[RemovableNode]) -> list[RemovableNode]:
        """The nodes that have waited long enough, as far as limits allow: empty ones first."""
        sizes = Counter({name: self.states.target(name) for name in self.states.groups})
        quotas = RemainingQuotas.least(self.states.flags, self.snapshot.nodes.values(), self.states.group_of)
        ordered = sorted(removals, key=lambda removal: bool(removal.pods))
        due = [each for each in ordered if self._may_leave(each, sizes, quotas)]
        due.sort(key=lambda each: each.is_risky and bool(each.pods))
        due = self._without_partial_groups(due)
        self.result.reasons |= {each.node: "BlockedByOnCompletionPod" for each in due if each.awaited}
        return sorted([each for each in due if not each.awaited], key=lambda each: bool(each.pods))

    def _may_leave(self, removal: RemovableNode, sizes: Counter[str], quotas: RemainingQuotas) -> bool:
        name, group = removal.node, removal.group
        node, flags = self.snapshot.nodes[name], group.flags(self.states.flags)
        is_ready = self.states.of[name].is_ready
        wait = flags.scale_down_unneeded_time if is_ready else flags.scale_down_unready_time
        why = ""
        if node.metadata.annotations.get(DISABLED) == "true":
            why = "ScaleDownDisabledAnnotation"
        elif wait > 0 and not self.states.memory.unneeded[name] + wait < self.states.now:
            why = "NotUnneededLongEnough" if is_ready else "NotUnreadyLongEnough"
        elif sizes[group.name] <= group.min_size:
            why = "NodeGroupMinSizeReached"
        elif quotas.exceeded(node, group.name):
            why = "MinimalResourceLimitExceeded"
        if why:
            self.result.reasons[name] = why
            return False
        quotas.take(node, group.name, 1)
        sizes[group.name] -= 1
        return True

    def _without_partial_groups(self, due: list[RemovableNode]) -> list[RemovableNode]:
        """Groups that have no node or all leave as a whole; they come last."""
        single = [each for each in due if not each.group.zero_or_max]
        for nodes in _by_group(each for each in due if each.group.zero_or_max):
            if self._is_whole(nodes):
                single += nodes
            else:
                self.result.reasons |= {node.node: "AtomicScaleDownFailed" for node in nodes}
        return single

    def _is_whole(self, nodes: Sequence[RemovableNode]) -> bool:
        name = nodes[0].group.name
        return len(nodes) in (self.states.target(name), len(self.states.members[name]))

    def _delete(self, due: Sequence[RemovableNode]) -> None:
        """Have nodes leave: whole groups first, one in any case, then as many as may leave at once."""
        flags, may_exceed = self.states.flags, True
        left, drains = flags.max_scale_down_parallelism, flags.max_drain_parallelism
        whole = _by_group(each for each in due if each.group.zero_or_max)
        for has_empty in (True, False):
            for nodes in (nodes for nodes in whole if any(not node.pods for node in nodes) is has_empty):
                with_pods = sum(bool(node.pods) for node in nodes)
                room = left if has_empty else min(left, drains)
                is_spent = room == 0 or (with_pods > 0 and drains == 0) or not may_exceed
                if (room < len(nodes) or drains < with_pods) and is_spent:
                    break
                if self._is_whole(nodes):
                    self._leave(nodes)
                    left, drains, may_exceed = left - len(nodes), drains - with_pods, False
        single = [each for each in due if not each.group.zero_or_max]
        for has_pods, most in ((False, left), (True, drains)):
            ordered = chain.from_iterable(_by_group(each for each in single if bool(each.pods) is has_pods))
            leaving = list(ordered)[: max(0, min(left, most))]
            self._leave(leaving)
            left -= len(leaving)

    def _leave(self, removals: Sequence[RemovableNode]) -> None:
        for removal in removals:
            pods = self.snapshot.pods_of(removal.node) if removal.pods else []
            self.result.deleted[removal.node] = [
                pod for pod in pods if not (is_daemon_pod(pod) or is_mirror_pod(pod))
            ]
            if removal.pods:
                self.result.drained.add(removal.node)


def _by_group(removals: Iterable[RemovableNode]) -> list[list[RemovableNode]]:
    return list(grouped((removal.group.name, removal) for removal in removals).values())
