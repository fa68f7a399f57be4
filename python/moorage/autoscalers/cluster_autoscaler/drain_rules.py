"""Which pods keep their node: the rules of cluster-autoscaler, in order. The first that applies decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum

import msgspec
from msgspec import Struct

from moorage.kube import Pod, PodDisruptionBudget
from moorage.kube.model.cluster import seconds
from moorage.kube.model.meta import Object
from moorage.kube.workloads.disruption import BudgetSelectors

from .flags import Flags
from .group_states import is_daemon_pod, is_mirror_pod

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
REPLICATED_KINDS = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")
GRACE, EXTRA_GRACE = 30, 30.0


class RuleVerdict(Enum):
    """What a rule says of a pod."""

    SKIPPED = "skipped"
    MOVES = "moves"
    AWAITED = "awaited"
    BLOCKS = "blocks"


class Budgets:
    """The disruptions that budgets still allow."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        matches = list(budgets)
        self._selectors = BudgetSelectors(matches)
        self._left = {each.key: each.status.disruptions_allowed for each in matches}

    def of(self, pod: Pod) -> list[str]:
        """Return the keys of the budgets that select a pod."""
        return [each.key for each in self._selectors.of(pod)]

    def are_used_up(self, pod: Pod) -> bool:
        """Whether a budget allows no disruption of a pod."""
        return any(self._left[key] < 1 for key in self.of(pod))

    def are_exceeded(self, pods: Iterable[Pod]) -> bool:
        """Whether the budgets allow fewer disruptions than pods need."""
        needs = Counter(key for pod in pods for key in self.of(pod))
        return any(self._left[key] < need for key, need in needs.items())

    def take(self, pods: Iterable[Pod]) -> None:
        """Count the disruptions of pods."""
        for pod in pods:
            for key in self.of(pod):
                self._left[key] -= 1


class DrainContext(Struct, frozen=True):
    """What rules ask.

    Parameters
    ----------
    find : callable, optional
        Returns the object of a kind, a namespace and a name. Without it no rule asks for controllers.
    """

    flags: Flags
    now: float
    budgets: Budgets
    find: Callable[[str, str, str], Object | None] | None = None


class Rule(Struct, frozen=True):
    """A rule: its name in messages, what it says, and of which pods."""

    name: str
    outcome: RuleVerdict
    applies: Callable[[DrainContext, Pod], bool]


def is_long_terminating(pod: Pod, now: float) -> bool:
    """Whether a pod should have ended a while ago."""
    deleted, grace = pod.metadata.deletion_timestamp, pod.spec.termination_grace_period_seconds
    return bool(deleted) and seconds(str(deleted)) + (GRACE if grace is None else grace) + EXTRA_GRACE < now


def _controller(context: DrainContext, pod: Pod) -> tuple[bool, Object | None]:
    """Whether the controller of a pod is of a kind that is looked up, and the controller."""
    owner = pod.metadata.controller()
    if owner is None or context.find is None or not context.flags.skip_nodes_with_custom_controller_pods:
        return False, None
    if is_daemon_pod(pod) and owner.kind != "ReplicationController":
        known = owner.kind == "DaemonSet" and owner.api_version.startswith("apps/")
    elif owner.kind == "StatefulSet":
        known = owner.api_version.startswith("apps/")
    else:
        known = owner.kind in REPLICATED_KINDS
    return known, context.find(owner.kind, pod.namespace, owner.name) if known else None


def _has_no_controller_object(context: DrainContext, pod: Pod) -> bool:
    known, controller = _controller(context, pod)
    return known and controller is None


def _has_few_replicas(context: DrainContext, pod: Pod) -> bool:
    _, controller = _controller(context, pod)
    if controller is None or controller.kind not in ("ReplicaSet", "ReplicationController"):
        return False
    replicas: int | None = controller.spec.replicas  # type: ignore[attr-defined]
    return replicas is not None and replicas < context.flags.min_replica_count


def _is_terminal(context: DrainContext, pod: Pod) -> bool:
    phase, policy = pod.status.phase, pod.spec.restart_policy
    return phase == "Failed" or (phase == "Succeeded" and policy in ("Never", "OnFailure"))


def _annotated(value: str) -> Callable[[DrainContext, Pod], bool]:
    return lambda context, pod: pod.metadata.annotations.get(SAFE_TO_EVICT) == value


def _is_not_replicated(context: DrainContext, pod: Pod) -> bool:
    owner = pod.metadata.controller()
    known_only = context.flags.skip_nodes_with_custom_controller_pods
    return owner is None or (known_only and owner.kind not in REPLICATED_KINDS)


def _is_system_pod(context: DrainContext, pod: Pod) -> bool:
    of_system = pod.namespace == "kube-system" and context.flags.skip_nodes_with_system_pods
    return of_system and not context.budgets.of(pod)


def _is_old_system_pod(context: DrainContext, pod: Pod) -> bool:
    created = pod.metadata.creation_timestamp
    if not created or not _is_system_pod(context, pod):
        return False
    age = context.now - seconds(created)  # less than 0: it was there before the time of a replay began
    return age < 0 or age > context.flags.blocking_system_pod_disruption_timeout


def _has_local_storage(context: DrainContext, pod: Pod) -> bool:
    safe = pod.metadata.annotations.get(SAFE_VOLUMES, "").split(",")
    return context.flags.skip_nodes_with_local_storage and any(
        volume.name not in safe
        and (
            volume.host_path is not None
            or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")
        )
        for volume in pod.spec.volumes
    )


RULES = (
    Rule("Mirror", RuleVerdict.SKIPPED, lambda context, pod: is_mirror_pod(pod)),
    Rule("LongTerminating", RuleVerdict.SKIPPED, lambda context, pod: is_long_terminating(pod, context.now)),
    Rule("ControllerNotFound", RuleVerdict.BLOCKS, _has_no_controller_object),
    Rule("MinReplicasReached", RuleVerdict.BLOCKS, _has_few_replicas),
    Rule("DaemonSet", RuleVerdict.MOVES, lambda context, pod: is_daemon_pod(pod)),
    Rule("SafeToEvict", RuleVerdict.MOVES, _annotated("true")),
    Rule("Terminal", RuleVerdict.MOVES, _is_terminal),
    Rule("OnCompletion", RuleVerdict.AWAITED, _annotated("on-completion")),
    Rule("NotReplicated", RuleVerdict.BLOCKS, _is_not_replicated),
    Rule("OldSystemPod", RuleVerdict.MOVES, _is_old_system_pod),
    Rule("UnmovableKubeSystemPod", RuleVerdict.BLOCKS, _is_system_pod),
    Rule("NotSafeToEvictAnnotation", RuleVerdict.BLOCKS, _annotated("false")),
    Rule("LocalStorageRequested", RuleVerdict.BLOCKS, _has_local_storage),
    Rule("NotEnoughPdb", RuleVerdict.BLOCKS, lambda context, pod: context.budgets.are_used_up(pod)),
)
"""The name of a rule that blocks is upstream's reason. A pod to which none applies can be moved."""


class PodsToMove(Struct):
    """The pods of a node: those to move, those of DaemonSets, those that are waited for, and the first that
    keeps the node, with the name of the rule."""

    pods: list[Pod] = msgspec.field(default_factory=list)
    daemons: list[Pod] = msgspec.field(default_factory=list)
    awaited: list[Pod] = msgspec.field(default_factory=list)
    blocker: tuple[Pod, str] | None = None


def pods_to_move(context: DrainContext, pods: Iterable[Pod]) -> PodsToMove:
    """Ask the rules about the pods of a node, up to the first that blocks."""
    out = PodsToMove()
    for pod in pods:
        rule = next((rule for rule in RULES if rule.applies(context, pod)), None)
        if rule is None or rule.outcome is RuleVerdict.MOVES:
            (out.daemons if is_daemon_pod(pod) else out.pods).append(pod)
        elif rule.outcome is RuleVerdict.AWAITED:
            out.awaited.append(pod)
        elif rule.outcome is RuleVerdict.BLOCKS:
            out.blocker = pod, rule.name
            break
    return out
