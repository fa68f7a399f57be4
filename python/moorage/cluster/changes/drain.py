"""Drains nodes as ``kubectl drain`` does, and cordons them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from moorage.engine.plugins.node_affinity_and_taints import UNSCHEDULABLE
from moorage.kube import Node, Pod
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import ApiError, NotFoundError, ObjectClient, evict_pod

from .change import DAEMON, MIRROR, Change, full_name

_TAINT = UNSCHEDULABLE.key, UNSCHEDULABLE.effect
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
NO_CONTROLLER = "no controller would replace it"
LOCAL_DATA = "has local data (emptyDir)"
LASTING = frozenset({NO_CONTROLLER, LOCAL_DATA, DAEMON, MIRROR})
"""Reasons to stay that time does not change; budgets may allow an eviction later."""


def stays(pod: Pod) -> bool:
    """Whether a pod goes with its node: it is of a DaemonSet, or static."""
    owner = pod.metadata.controller()
    return MIRROR_ANNOTATION in pod.metadata.annotations or (owner is not None and owner.kind == "DaemonSet")


def mark_unschedulable(client: ObjectClient, nodes: Iterable[Node], value: bool) -> tuple[str, ...]:
    """Cordon or uncordon nodes. The taint of a cordoned node comes and goes with it, as the node lifecycle
    controller has it (kubernetes v1.36, node_lifecycle_controller.go doNoScheduleTaintingPass).

    Parameters
    ----------
    value : bool
        True to cordon.

    Returns
    -------
    tuple of str
        The nodes that changed.
    """
    changed = []
    for node in nodes:
        if node.spec.unschedulable != value:
            client.update(with_cordon(node, value))
            changed.append(full_name(node))
    return tuple(changed)


def with_cordon(node: Node, value: bool) -> Node:
    """Return a node cordoned or uncordoned; see `mark_unschedulable`.

    Parameters
    ----------
    value : bool
        True to cordon.
    """
    kept = [taint for taint in node.spec.taints if (taint.key, taint.effect) != _TAINT]
    taints = (*kept, UNSCHEDULABLE) if value else tuple(kept)
    return replace(node, spec=replace(node.spec, unschedulable=value, taints=taints))


def evict_pods(
    client: ObjectClient,
    pods: Iterable[Pod],
    why_not: Callable[[Pod], str],
    grace_of: Callable[[Pod], int | None],
    respect_budgets: bool = True,
) -> Change:
    """Evict pods. One that has a grace period, as its node does not report, is being deleted then, and stays.

    Parameters
    ----------
    why_not : callable
        Returns why a pod stays; "" if it is evicted.
    grace_of : callable
        Returns the grace period of a pod; None for what the server chooses.
    respect_budgets : bool
        Whether a pod whose disruption budget allows no disruption stays.
    """
    deleted, kept = [], {}
    for pod in pods:
        why = why_not(pod)
        if not why:
            try:
                if respect_budgets:
                    evict_pod(client, pod, grace_of(pod))
                else:
                    client.delete(Pod, pod.name, pod.namespace, grace_period_seconds=grace_of(pod))
            except NotFoundError:  # a replica without an object
                why = NO_CONTROLLER
            except ApiError as error:
                why = str(error)
        if why:
            kept[full_name(pod)] = why
        else:
            deleted.append(full_name(pod))
    return Change(deleted=tuple(deleted), kept=kept)


def reason_to_stay(pod: Pod, force: bool = False, delete_local_data: bool = True) -> str:
    """Return why ``kubectl drain --ignore-daemonsets`` leaves a pod on its node.

    Parameters
    ----------
    force : bool
        Whether a pod without a controller is evicted.
    delete_local_data : bool
        Whether a pod with an emptyDir volume is evicted.

    Returns
    -------
    str
        "" if it is evicted.
    """
    owner = pod.metadata.controller()
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        return MIRROR
    if pod.status.phase in FINISHED:
        return ""
    if owner is not None and owner.kind == "DaemonSet":
        return DAEMON
    if owner is None and not force:
        return NO_CONTROLLER
    if not delete_local_data and any(volume.empty_dir is not None for volume in pod.spec.volumes):
        return LOCAL_DATA
    return ""
