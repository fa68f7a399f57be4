"""The pods for which nodes are looked for: those that have no place in the cluster as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from moorage.go_texts import SECOND, parse_duration
from moorage.objects import Pod
from moorage.objects.workloads.ages import seconds

from .equal_pods import KnownKinds, controller_uid, kind_of
from .flags import GPUS, Flags, Hints
from .group_templates import TEMPLATE_LABEL, is_daemon_pod
from .node_snapshot import Mask, NodeSnapshot

DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
YOUNG, YOUNG_WITH_GPU = 2.0, 30.0
_FINISHED = ("Succeeded", "Failed")


def is_expendable(pod: Pod, flags: Flags) -> bool:
    """Whether a pod counts as if it were not there; one without a priority never does."""
    priority = pod.spec.priority
    return priority is not None and priority < flags.expendable_pods_priority_cutoff


def waiting_pods(pods: Iterable[Pod], flags: Flags) -> list[Pod]:
    """Return the pods that the scheduler has found no node for, or that it need not look at."""
    known, new = [], []
    for pod in pods:
        spec, meta = pod.spec, pod.metadata
        if spec.node_name or meta.deletion_timestamp or pod.status.phase in _FINISHED:
            continue
        if pod.status.nominated_node_name:
            continue
        condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
        is_false = condition is not None and condition.status == "False"
        if condition is not None and is_false and condition.reason == "Unschedulable":
            known.append(pod)
        elif (spec.scheduler_name or "default-scheduler") in flags.bypassed_schedulers and (
            condition is None or (is_false and not condition.reason)
        ):
            new.append(pod)
    return known + new


def pods_without_place(snapshot: NodeSnapshot, pods: Sequence[Pod], flags: Flags, hints: Hints) -> list[Pod]:
    """Place waiting pods in the snapshot, the most important first; return those that fit nowhere."""
    left = [pod for pod in pods if not is_expendable(pod, flags)]
    left.sort(key=lambda pod: -(pod.spec.priority or 0))
    accepted = np.array([not node.spec.unschedulable for node in snapshot.nodes.values()], bool)
    placed = place_pods(snapshot, left, hints, accepted)
    return [pod for pod in left if pod.metadata.uid not in placed and not is_daemon_pod(pod)]


def place_pods(
    snapshot: NodeSnapshot,
    pods: Sequence[Pod],
    hints: Hints,
    accepted: Mask,
    until_failure: bool = False,
) -> dict[str, str]:
    """Place pods on accepted nodes: where they were placed last, else on the first that takes them.

    A pod that equals one that has failed is not tried.

    Parameters
    ----------
    hints : Hints
        Filled in.
    until_failure : bool
        Whether to end with the first pod that fits nowhere.

    Returns
    -------
    dict of str to str
        Node by UID.
    """
    failed, placed = KnownKinds(), dict[str, str]()
    allowed = {
        name for name, is_accepted in zip(snapshot.nodes, accepted.tolist(), strict=True) if is_accepted
    }
    for pod in pods:
        uid, owner, hint = pod.metadata.uid, controller_uid(pod), hints.get(pod.metadata.uid)
        kind = kind_of(pod) if owner is not None else b""
        name = hint if hint in allowed and snapshot.why_not(pod, hint) is None else None
        if name is None and (owner is None or failed.find(owner, kind) is None):
            name = snapshot.first_fit(pod, accepted)
            if name is None and owner is not None and not is_daemon_pod(pod):
                failed.add(owner, kind, 0)
        if name is not None:
            snapshot.place(pod, name)
            placed[uid] = name
            if TEMPLATE_LABEL not in snapshot.nodes[name].metadata.labels:  # those have other names next time
                hints.set(uid, name)
        elif until_failure:
            break
    return placed


def old_enough(pods: Iterable[Pod], flags: Flags, now: float) -> list[Pod]:
    """Return the pods that are older than the delay of the flags and their own."""
    return [pod for pod in pods if now - created(pod) > max(flags.new_pod_scale_up_delay, _delay(pod))]


def created(pod: Pod) -> float:
    """Return when a pod was created, in seconds since 1970."""
    return seconds(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0.0


def _delay(pod: Pod) -> float:
    text = pod.metadata.annotations.get(DELAY)
    if text is None:
        return 0.0
    try:
        return parse_duration(text) / SECOND
    except ValueError:
        return 0.0


def are_all_new(pods: Sequence[Pod], now: float) -> bool:
    """Whether more pods like these may come in a moment."""
    if min(map(created, pods)) + YOUNG > now:
        return True
    with_gpu = [created(pod) for pod in pods if _asks_gpu(pod)]
    return bool(with_gpu) and min(with_gpu) + YOUNG_WITH_GPU > now


def _asks_gpu(pod: Pod) -> bool:
    return any(name in one.resources.requests for one in pod.spec.containers for name in GPUS)
