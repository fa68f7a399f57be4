"""The third step of preemption: the eviction of the victims, and the end of nominations of lower priority.

kube-scheduler v1.36, framework/preemption/executor.go. Upstream evicts in a thread of its own while the pod
is kept out of the queue (``IsPodRunningPreemption``), and so does a live scheduler (`RunningPreemptions`).
Elsewhere the eviction is complete when the function returns, in upstream's order, and a victim that cannot be
deleted fails the cycle.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from contextlib import suppress
from functools import lru_cache

from msgspec.structs import replace

from moorage._core.preempt.bound_pods import held_of, not_terminating, selected
from moorage.kube import AnyGroup, Pod
from moorage.kube.go_texts import timestamp
from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.pod import disruption_condition
from moorage.store import ApiError, ConflictError, NotFoundError, ObjectStore, find_object, patch_pod_status

from ..framework import Framework, FrameworkHandle, NominatingInfo
from .eviction_units import BY_SCHEDULER, priority_of
from .running_preemptions import RunningPreemptions

# ---- actuation ---------------------------------------------------------------------------------------------

logger = logging.getLogger("moorage.preemption")


def make_room(
    handle: FrameworkHandle, node_name: str, pod: Pod, victims: Sequence[Pod], plugin_name: str
) -> None:
    """Clear the nominations of pods of lower priority to a node, then evict its victims in their order.

    Victims that are terminating already are skipped. If one cannot be deleted, the rest is not evicted.

    Parameters
    ----------
    plugin_name : str
        Rejects victims that wait on Permit.

    Raises
    ------
    ApiError
        A victim could not be deleted.
    """
    end_nominations_below(handle, node_name, pod)
    evict_victims(handle, node_name, pod, not_terminating(victims), plugin_name)


def end_nominations_below(handle: FrameworkHandle, node_name: str, pod: Pod) -> None:
    """Clear the nominations of pods of lower priority to the node of a preemptor."""
    priority = priority_of(pod)
    nominations = handle.nominator.nominated_pods_for_node(node_name)
    for nominated in [other for other in nominations if priority_of(other) < priority]:
        clear_nominated_node_name(handle, nominated)


def clear_nominated_node_name(handle: FrameworkHandle, pod: Pod) -> None:
    """End the nomination of a pod, in the nominator and in the pod's status."""

    def clear() -> None:
        current = find_object(handle.client, Pod, pod.name, pod.namespace)
        if current is None or current.metadata.uid != pod.metadata.uid:
            return
        if current.status.nominated_node_name:
            patch_pod_status(handle.client, current, replace(current.status, nominated_node_name=""))

    handle.nominator.add_nominated_pod(pod, NominatingInfo())
    handle.writes.submit("pod_status_patch", pod, clear)


def evict_victims(
    handle: FrameworkHandle,
    node_name: str,
    preemptor: Pod | AnyGroup,
    victims: Sequence[Pod],
    plugin_name: str,
) -> None:
    """Evict victims in their order.

    A victim that waits on Permit is rejected, and one in PreBind is cancelled; such pods are not deleted. Any
    other victim gets the condition DisruptionTarget and is deleted. A pod that the cache alone knows, since
    the scheduler works without a store, is removed from the cache.

    Parameters
    ----------
    node_name : str
        The node, for the events.
    plugin_name : str
        Rejects victims that wait on Permit.

    Raises
    ------
    ApiError
        The client refused a write. The rest of the victims is not evicted.
    """
    if handle.writes.is_beside:
        _evict_beside(handle, node_name, preemptor, victims, plugin_name)
        return
    # A store of this process evicts them in one write, unless policies may refuse each of them, as any other
    # client may.
    store = handle.client if isinstance(handle.client, ObjectStore) else None
    is_one_write = store is not None and (store.server is None or not store.server.decides)
    if store is not None:
        store.denied.pop(preemptor.full_name, None)
    batches = [victims] if is_one_write else [(victim,) for victim in victims]
    for batch in batches:
        rejected = fail_in_memory(handle, batch, plugin_name)
        others = batch
        if rejected:
            others = selected(batch, [victim.metadata.uid not in rejected for victim in batch])
        try:
            gone = selected(others, _delete(handle, store, preemptor, others))
        except ApiError as error:
            if store is not None:
                store.denied[preemptor.full_name] = str(error)
            raise
        for callback in handle.on_eviction if gone else ():
            callback(gone, node_name, preemptor)
        if gone is not batch:
            evicted = rejected.union(victim.metadata.uid for victim in gone)
            gone = selected(batch, [victim.metadata.uid in evicted for victim in batch])
        record_evictions(handle, node_name, preemptor, gone, rejected)


def _evict_beside(
    handle: FrameworkHandle,
    node_name: str,
    preemptor: Pod | AnyGroup,
    victims: Sequence[Pod],
    plugin_name: str,
) -> None:
    """Have threads evict victims; the preemptor is held back meanwhile."""
    rejected = fail_in_memory(handle, victims, plugin_name)
    of_memory = [victim for victim in victims if victim.metadata.uid in rejected]
    record_evictions(handle, node_name, preemptor, of_memory, rejected)
    others = [victim for victim in victims if victim.metadata.uid not in rejected]
    for callback in handle.on_eviction if others else ():
        callback(others, node_name, preemptor)
    condition = disruption_target(handle, preemptor)

    def evict(victim: Pod) -> None:
        if _delete_by_client(handle, victim, preemptor, condition):
            record_evictions(handle, node_name, preemptor, [victim])

    handle.shared(RunningPreemptions).begin(preemptor, others, evict)


def record_evictions(
    handle: FrameworkHandle,
    node_name: str,
    preemptor: Pod | AnyGroup,
    victims: Sequence[Pod],
    rejected: Container[str] = (),
) -> None:
    """Record the events of victims.

    Parameters
    ----------
    rejected : container of str
        The UIDs of those that waited on Permit or were in PreBind.
    """
    note = f"Preempted by {preemptor.kind.lower()} {preemptor.metadata.uid} on node {node_name}"
    if not rejected:
        handle.recorder.event_of_each(victims, "Normal", "Preempted", "Preempting", note)
        return
    for victim in victims:
        how = " (in kube-scheduler memory)." if victim.metadata.uid in rejected else ""
        handle.recorder.event(victim, "Normal", "Preempted", "Preempting", note + how)


def fail_in_memory(handle: FrameworkHandle, victims: Sequence[Pod], plugin_name: str) -> set[str]:
    """Reject the victims that wait on Permit, and cancel those in PreBind.

    Parameters
    ----------
    plugin_name : str
        Rejects victims that wait on Permit.

    Returns
    -------
    set of str
        The UIDs of these pods, which must not be deleted.
    """
    failed: set[str] = set()
    if handle.waiting_pods or handle.pods_in_pre_bind:
        for victim in victims:
            uid = victim.metadata.uid
            if (waiting := handle.waiting_pods.get(uid)) is not None:
                is_failed = waiting.preempt(plugin_name, "preempted")
            else:
                binding = handle.pods_in_pre_bind.get(uid)
                is_failed = binding is not None and binding.cancel_pod(f"preempted by {plugin_name}")
            if is_failed:
                failed.add(uid)
    return failed


def _delete(
    handle: FrameworkHandle, store: ObjectStore | None, preemptor: Pod | AnyGroup, victims: Sequence[Pod]
) -> list[bool]:
    """Delete victims in the store; return for each whether it was deleted here and not by another client."""
    condition = disruption_target(handle, preemptor)
    if store is not None:
        deleted = store.evict(held_of(victims), condition)
        return [
            is_deleted or _remove_from_cache(handle, victims[at]) for at, is_deleted in enumerate(deleted)
        ]
    return [_delete_by_client(handle, victim, preemptor, condition) for victim in victims]


def _delete_by_client(
    handle: FrameworkHandle, victim: Pod, preemptor: Pod | AnyGroup, condition: Condition
) -> bool:
    """Delete a victim at an API server, after adding a condition; return whether it was deleted here."""
    client, since = handle.client, timestamp(int(handle.now()))
    conditions = with_condition(victim.status.conditions, replace(condition, last_transition_time=since))
    is_known = False
    try:
        patch_pod_status(client, victim, replace(victim.status, conditions=conditions))
        is_known = True
        client.delete(Pod, victim.name, victim.namespace)
    except (NotFoundError, ConflictError):  # the latter for another UID
        return not is_known and _remove_from_cache(handle, victim)
    except ApiError as error:
        logger.error("Tried to preempt pod %s for %s: %s", victim.key, preemptor.key, error)
        raise
    return True


def disruption_target(handle: FrameworkHandle, preemptor: Pod | AnyGroup) -> Condition:
    """Return the condition DisruptionTarget of the victims of a preemptor."""
    name = preemptor.spec.scheduler_name if isinstance(preemptor, Pod) else ""
    if not name and handle.framework is not None:
        framework: Framework = handle.framework
        name = framework.profile.scheduler_name
    return _disruption_target(name, preemptor.kind)


@lru_cache
def _disruption_target(scheduler_name: str, kind: str) -> Condition:
    """Return the condition DisruptionTarget of a victim, for the scheduler name and the kind of the
    preemptor."""
    message = f"{scheduler_name}: preempting to accommodate a higher priority {kind.lower()}"
    return disruption_condition(BY_SCHEDULER, message)


def _remove_from_cache(handle: FrameworkHandle, pod: Pod) -> bool:
    """Remove a pod that only the cache has; return whether it was removed.

    A pod that informers have was deleted by another client. The event of that deletion removes it.
    """
    if handle.informers is not None:
        with suppress(NotFoundError):
            handle.informers.lister(Pod).by_namespace(pod.namespace).get(pod.name)
            return False
    with handle.cache.lock:
        if not handle.cache.state.has_pod(pod):
            return False
        handle.cache.discard_pod(handle.cache.get_pod(pod))
    return True
