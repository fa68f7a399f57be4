"""The third step of preemption: victims leave, and the nominations of pods that must stand back.

kube-scheduler v1.36, framework/preemption/executor.go. Upstream does it in a thread of its own while the pod
is kept out of the queue (`IsPodRunningPreemption`); here it is done when it returns, in upstream's order, and
a victim that cannot be deleted fails the cycle.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import lru_cache, partial

from msgspec.structs import replace

from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.plugin.interface import NominatingInfo
from moorage.framework.plugin.status import Status, as_status
from moorage.framework.runtime.preempt_handle import PreemptHandle
from moorage.objects.model.meta import Condition, with_condition
from moorage.objects.model.pod import Pod
from moorage.objects.model.pod_group import PodGroup
from moorage.store import ApiError, NotFoundError, patch_pod_status

from .eligibility import BY_SCHEDULER, DISRUPTION_TARGET
from .importance import priority_of
from .pick import Candidate

logger = logging.getLogger("moorage.preemption")


def prepare_candidate(
    handle: PreemptHandle, candidate: Candidate, pod: Pod, plugin_name: str
) -> Status | None:
    """Clear the nominations of pods of lower priority to the node, then let the victims go, in their order.

    Victims that are terminating already are left alone. Where one cannot be deleted, the rest stay, and the
    answer is an Error.
    """
    for nominated in lower_priority_nominated_pods(handle, pod, candidate.name):
        try:
            clear_nominated_node_name(handle.handle, nominated)
        except ApiError as error:
            logger.error("Cannot clear 'NominatedNodeName' field: %s", error)  # not worth failing for
    for victim in candidate.victims.pods:
        if victim.metadata.deletion_timestamp is not None:
            continue
        try:
            preempt_pod(handle.handle, candidate.name, pod, victim, plugin_name)
        except ApiError as error:
            logger.error("Tried to preempt pod %s for %s: %s", victim.key, pod.key, error)
            return as_status(error)
    return None


def lower_priority_nominated_pods(handle: PreemptHandle, pod: Pod, node_name: str) -> list[Pod]:
    """The pods of lower priority that are nominated to a node."""
    nominated = handle.nominated_pods_for_node(node_name)
    return [other for other in nominated if priority_of(other) < priority_of(pod)]


def clear_nominated_node_name(handle: FrameworkHandle, pod: Pod) -> None:
    """End a nomination, in memory and in the pod's status."""
    handle.nominator.add_nominated_pod(pod, NominatingInfo())
    if handle.postponed is not None:
        handle.postponed.append(partial(clear_nominated_node_name, handle, pod))
        return
    try:
        current = handle.client.get(Pod, pod.name, pod.namespace)
    except NotFoundError:
        return
    if current.metadata.uid == pod.metadata.uid and current.status.nominated_node_name:
        patch_pod_status(handle.client, current, replace(current.status, nominated_node_name=""))


def preempt_pod(
    handle: FrameworkHandle, node_name: str, preemptor: Pod | PodGroup, victim: Pod, plugin_name: str
) -> None:
    """Let one victim go, for a pod or a group.

    One that waits on Permit is failed, and one in PreBind is cancelled: it stays, and is tried again soon.
    All others get the condition DisruptionTarget and are deleted. A pod that only the cache knows, since the
    scheduler was asked about it without a store, is taken out of the cache.
    """
    if handle.postponed is not None:
        handle.postponed.append(partial(_preempt_late, handle, node_name, preemptor, victim, plugin_name))
        return
    note = f"Preempted by {preemptor.kind.lower()} {preemptor.metadata.uid} on node {node_name}"
    if _fail_in_memory(handle, victim, plugin_name):
        note += " (in kube-scheduler memory)."
    elif not _delete(handle, preemptor, victim):
        return
    else:
        for told in handle.on_eviction:
            told(victim, victim.spec.node_name or node_name, preemptor)
    handle.recorder.event(victim, "Normal", "Preempted", "Preempting", note)


def _preempt_late(
    handle: FrameworkHandle, node_name: str, preemptor: Pod | PodGroup, victim: Pod, plugin_name: str
) -> None:
    try:
        preempt_pod(handle, node_name, preemptor, victim, plugin_name)
    except ApiError as error:
        logger.error("Tried to preempt pod %s for %s: %s", victim.key, preemptor.key, error)


def _fail_in_memory(handle: FrameworkHandle, victim: Pod, plugin_name: str) -> bool:
    uid = victim.metadata.uid
    if (waiting := handle.get_waiting_pod(uid)) is not None:
        return waiting.preempt(plugin_name, "preempted")
    binding = handle.get_pod_in_pre_bind(uid)
    return binding is not None and binding.cancel_pod(f"preempted by {plugin_name}")


def _delete(handle: FrameworkHandle, preemptor: Pod | PodGroup, victim: Pod) -> bool:
    """Delete a pod; false where somebody else was faster."""
    try:
        current = handle.client.get(Pod, victim.name, victim.namespace)
    except NotFoundError:
        return _remove_from_cache(handle, victim)
    if current.metadata.uid != victim.metadata.uid:
        return _remove_from_cache(handle, victim)
    try:
        condition = disruption_target(handle, preemptor)
        conditions = with_condition(current.status.conditions, condition)
        patch_pod_status(handle.client, current, replace(current.status, conditions=conditions))
        handle.client.delete(Pod, victim.name, victim.namespace)
    except NotFoundError:
        return False
    return True


def disruption_target(handle: FrameworkHandle, preemptor: Pod | PodGroup) -> Condition:
    """The condition of a victim."""
    name = preemptor.spec.scheduler_name if isinstance(preemptor, Pod) else ""
    if not name and handle.framework is not None:
        name = handle.framework.profile.scheduler_name
    return _disruption_target(name, preemptor.kind)


@lru_cache
def _disruption_target(scheduler_name: str, kind: str) -> Condition:
    message = f"{scheduler_name}: preempting to accommodate a higher priority {kind.lower()}"
    return Condition(type=DISRUPTION_TARGET, status="True", reason=BY_SCHEDULER, message=message)


def _remove_from_cache(handle: FrameworkHandle, pod: Pod) -> bool:
    """Whether the cache alone knew the pod; it does no longer. One that was reported has been deleted by
    somebody else, and leaves the cache when that is reported."""
    if handle.informers is not None:
        with suppress(NotFoundError):
            handle.informers.informer(Pod).lister.by_namespace(pod.namespace).get(pod.name)
            return False
    with handle.cache.lock:
        handle.cache.discard_pod(handle.cache.get_pod(pod))
    return True
