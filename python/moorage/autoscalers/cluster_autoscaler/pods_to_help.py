"""The pods for which nodes are looked for: those that have no place in the cluster as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import compress, groupby
from typing import Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.state.pod_spec import encode
from moorage.kube import Pod
from moorage.kube.go_texts import SECOND, parse_duration
from moorage.kube.model.cluster import seconds
from moorage.kube.model.meta import condition_of
from moorage.kube.workloads.ownership import FINISHED

from .flags import GPUS, Flags, PlacementHints
from .group_states import TEMPLATE_LABEL, is_daemon_pod
from .node_snapshot import Mask, NodeSnapshot, Plain

# ---- which pods cluster-autoscaler takes for equal: those of one controller with equal labels and specs ----

T = TypeVar("T")
MOST_KINDS = 10
"""Different pods of a controller that are told apart."""


class PodClass(Struct):
    """Pods that are placed alike: equal ones of a controller, or equal ones without, each of which is a class
    of its own upstream.

    Attributes
    ----------
    are_single : bool
        Whether they have no controller.
    rejected : dict of str to list of str
        Groups whose new node does not take the first pod: the plugin and its reasons, sorted.
    takers : list of str
        Groups whose new node takes it.
    """

    pods: list[Pod]
    are_single: bool = False
    rejected: dict[str, list[str]] = msgspec.field(default_factory=dict)
    takers: list[str] = msgspec.field(default_factory=list)


def _kind_of(pod: Pod) -> bytes:
    """Return a value that equal pods of a controller share."""
    spec = pod.spec
    volumes = tuple(volume for volume in spec.volumes if getattr(volume, "projected", None) is None)
    return encode((sorted(pod.metadata.labels.items()), replace(spec, volumes=volumes)))


class KnownKinds(Generic[T]):
    """What is known of equal pods of controllers, up to some kinds for each controller."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[bytes, T]] = {}

    def find(self, pod: Pod) -> T | None:
        """Return what was added of a pod that equals this one."""
        owner = pod.metadata.controller()
        return None if owner is None else self._by_kind.get(owner.uid, {}).get(_kind_of(pod))

    def add(self, pod: Pod, value: T) -> None:
        """Add what is known of a pod, if it has a controller with not too many kinds."""
        owner = pod.metadata.controller()
        if owner is not None and len(kinds := self._by_kind.setdefault(owner.uid, {})) < MOST_KINDS:
            kinds[_kind_of(pod)] = value


def pod_classes(snapshot: NodeSnapshot, pods: Iterable[Pod]) -> list[PodClass]:
    """Return the classes of pods, by their first pods."""
    out, kinds, singles = list[PodClass](), KnownKinds[PodClass](), dict[Plain, PodClass]()
    for pod in pods:
        plain = snapshot.plain(pod) if pod.metadata.controller() is None else None
        known = kinds.find(pod) if plain is None else singles.get(plain)
        if known is not None:
            known.pods.append(pod)
            continue
        out.append(PodClass([pod], pod.metadata.controller() is None))
        if plain is None:
            kinds.add(pod, out[-1])
        else:
            singles[plain] = out[-1]
    return out


# ---- pods to help ------------------------------------------------------------------------------------------

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
        condition = condition_of(pod.status.conditions, "PodScheduled")
        is_false = condition is not None and condition.status == "False"
        if condition is not None and is_false and condition.reason == "Unschedulable":
            known.append(pod)
        elif (spec.scheduler_name or "default-scheduler") in flags.bypassed_schedulers and (
            condition is None or (is_false and not condition.reason)
        ):
            new.append(pod)
    return known + new


def pods_without_place(
    snapshot: NodeSnapshot, pods: Sequence[Pod], flags: Flags, hints: PlacementHints
) -> list[Pod]:
    """Place waiting pods in the snapshot, the most important first; return those that fit nowhere."""
    left = [pod for pod in pods if not is_expendable(pod, flags)]
    left.sort(key=lambda pod: -(pod.spec.priority or 0))
    accepted = np.array([not node.spec.unschedulable for node in snapshot.nodes.values()], bool)
    nodes = place_pods(snapshot, left, hints, accepted)
    return [pod for pod, node in zip(left, nodes, strict=True) if not (node or is_daemon_pod(pod))]


def place_pods(
    snapshot: NodeSnapshot,
    pods: Sequence[Pod],
    hints: PlacementHints,
    accepted: Mask,
    until_failure: bool = False,
) -> list[str]:
    """Place pods on accepted nodes: where they were placed last, else on the first that takes them.

    A pod that equals one that has failed is not tried.

    Parameters
    ----------
    until_failure : bool
        Whether to end before the first pod that fits nowhere.

    Returns
    -------
    list of str
        The node of each pod; "" for none.
    """
    failed, full, out = KnownKinds[bool](), set[Plain | None](), list[str]()
    rooms: dict[Plain, Mask] = {}
    usable = set(compress(snapshot.nodes, accepted.tolist()))

    def fits_again(pod: Pod) -> bool:
        hint = hints.get(pod.metadata.uid)
        return hint is not None and hint in usable and snapshot.fits(pod, hint)

    for plain, group in groupby(pods, snapshot.plain):
        run, at = list(group), 0
        while at < len(run):
            pod, end, nodes = run[at], at + 1, list[str]()
            if plain in full:
                end = len(run)
            elif fits_again(pod):
                nodes = [str(hints.get(pod.metadata.uid))]
                snapshot.place(pod, nodes[0])
            elif plain is not None and plain.is_alone:
                # Those after it that fit where they were now may not do so later.
                end = next((each for each in range(end, len(run)) if fits_again(run[each])), len(run))
                nodes = snapshot.place_equal(run[at:end], accepted, rooms)
                if len(nodes) < end - at:
                    full.add(plain)
            elif not failed.find(pod):
                nodes = snapshot.place_equal([pod], accepted, rooms)
                if not nodes and not is_daemon_pod(pod):
                    failed.add(pod, True)
            _note(snapshot, run[at:], nodes, hints)
            if until_failure and len(nodes) < end - at:
                return out + nodes
            out += nodes + [""] * (end - at - len(nodes))
            at = end
    return out


def _note(snapshot: NodeSnapshot, pods: Sequence[Pod], nodes: Sequence[str], hints: PlacementHints) -> None:
    """Note where pods were placed; template nodes have other names next time."""
    for pod, name in zip(pods, nodes, strict=False):
        if TEMPLATE_LABEL not in snapshot.nodes[name].metadata.labels:
            hints.set(pod.metadata.uid, name)


def old_enough(pods: Iterable[Pod], flags: Flags, now: float, any_age: bool) -> list[Pod]:
    """Return the pods that are older than the delay of the flags and their own; with `any_age` those without
    a delay too, however young they are."""

    def is_old(pod: Pod) -> bool:
        delay = scale_up_delay(pod, flags)
        return (any_age and not delay) or now - created(pod) > delay

    return list(filter(is_old, pods))


def created(pod: Pod) -> float:
    """Return when a pod was created, in seconds since 1970."""
    return seconds(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0.0


def scale_up_delay(pod: Pod, flags: Flags) -> float:
    """Return how old a pod has to be: the longer of the flag's time and its own, if that can be read."""
    text, own = pod.metadata.annotations.get(DELAY), 0.0
    if text:
        with suppress(ValueError):
            own = parse_duration(text) / SECOND
    return max(flags.new_pod_scale_up_delay, own)


def are_all_new(pods: Sequence[Pod], now: float) -> bool:
    """Whether more pods like these may come in a moment."""
    if min(map(created, pods)) + YOUNG > now:
        return True
    with_gpu = [
        created(pod)
        for pod in pods
        if any(name in container.resources.requests for container in pod.spec.containers for name in GPUS)
    ]
    return bool(with_gpu) and min(with_gpu) + YOUNG_WITH_GPU > now
