"""The pods for which nodes are looked for: those that have no place in the cluster as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, islice, takewhile

import numpy as np

from moorage.go_texts import SECOND, parse_duration
from moorage.objects import Pod
from moorage.objects.workloads.ages import seconds
from moorage.objects.workloads.ownership import FINISHED

from .equal_pods import KnownKinds, controller_uid, kind_of
from .flags import GPUS, Flags, Hints
from .group_templates import TEMPLATE_LABEL, is_daemon_pod
from .node_snapshot import Mask, NodeSnapshot

DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
YOUNG, YOUNG_WITH_GPU = 2.0, 30.0


def is_expendable(pod: Pod, flags: Flags) -> bool:
    """Whether a pod counts as if it were not there; one without a priority never does."""
    priority = pod.spec.priority
    return priority is not None and priority < flags.expendable_pods_priority_cutoff


def waiting_pods(pods: Iterable[Pod], flags: Flags) -> list[Pod]:
    """Return the pods that the scheduler has found no node for, or that it need not look at."""
    known, new = [], []
    for pod in pods:
        spec, meta = pod.spec, pod.metadata
        if spec.node_name or meta.deletion_timestamp or pod.status.phase in FINISHED:
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
    allowed = set(compress(snapshot.nodes, accepted.tolist()))
    at = 0
    while at < len(pods):
        pod, end = pods[at], _end_of_run(snapshot, pods, at, hints)
        owner, hint = controller_uid(pod), hints.get(pod.metadata.uid)
        kind = kind_of(pod) if owner is not None else b""
        names: list[str] = []
        if hint in allowed and snapshot.fits(pod, hint):
            snapshot.place(pod, hint)
            names = [hint]
        elif owner is None or failed.find(owner, kind) is None:
            names = snapshot.place_equal(pods[at:end], accepted)
            if len(names) < end - at and owner is not None and not is_daemon_pod(pod):
                failed.add(owner, kind, 0)
        _note(snapshot, pods[at:], names, hints, placed)
        if until_failure and len(names) < end - at:
            break
        at = end
    return placed


def _end_of_run(snapshot: NodeSnapshot, pods: Sequence[Pod], at: int, hints: Hints) -> int:
    """The end of the pods from one on that are alike in all that a placement asks."""
    pod, owner = pods[at], controller_uid(pods[at])
    if is_daemon_pod(pod) or hints.get(pod.metadata.uid) is not None:
        return at + 1

    def is_like(other: Pod) -> bool:
        equal = owner is None or (other.metadata.labels == pod.metadata.labels and other.spec == pod.spec)
        return controller_uid(other) == owner and hints.get(other.metadata.uid) is None and equal

    return at + snapshot.alike(takewhile(is_like, islice(pods, at, None)))


def _note(
    snapshot: NodeSnapshot,
    pods: Sequence[Pod],
    names: Sequence[str],
    hints: Hints,
    placed: dict[str, str],
) -> None:
    """Note where pods were placed; template nodes have other names next time."""
    for pod, name in zip(pods, names, strict=False):
        placed[pod.metadata.uid] = name
        if TEMPLATE_LABEL not in snapshot.nodes[name].metadata.labels:
            hints.set(pod.metadata.uid, name)


def old_enough(pods: Iterable[Pod], flags: Flags, now: float, any_age: bool) -> list[Pod]:
    """Return the pods that are older than the delay of the flags and their own; with `any_age` those without
    a delay too, however young they are."""
    delays = [(pod, scale_up_delay(pod, flags)) for pod in pods]
    return [pod for pod, delay in delays if now - created(pod) > delay or (any_age and not delay)]


def created(pod: Pod) -> float:
    """Return when a pod was created, in seconds since 1970."""
    return seconds(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0.0


def scale_up_delay(pod: Pod, flags: Flags) -> float:
    """Return how old a pod has to be: the longer of the flag's time and its own, if that can be read."""
    text = pod.metadata.annotations.get(DELAY, "0s")
    try:
        return max(flags.new_pod_scale_up_delay, parse_duration(text) / SECOND)
    except ValueError:
        return flags.new_pod_scale_up_delay


def are_all_new(pods: Sequence[Pod], now: float) -> bool:
    """Whether more pods like these may come in a moment."""
    if min(map(created, pods)) + YOUNG > now:
        return True
    with_gpu = [created(pod) for pod in pods if _asks_gpu(pod)]
    return bool(with_gpu) and min(with_gpu) + YOUNG_WITH_GPU > now


def _asks_gpu(pod: Pod) -> bool:
    return any(name in one.resources.requests for one in pod.spec.containers for name in GPUS)
