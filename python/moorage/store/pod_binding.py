"""The subresource ``pods/binding``: its checks, and the fields that it sets (kube-apiserver v1.36)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from moorage.objects import Pod
from moorage.objects.model.meta import Condition

from .errors import conflict, other_uid


def bound_parts(pod: Pod, current: Pod, node: str, now: str) -> dict[str, Any]:
    """Return the fields of a pod that a binding sets.

    Parameters
    ----------
    pod : Pod
        The pod of the request; its UID counts, where it has one.
    current : Pod
        The stored pod.
    node : str
        The node's name.
    now : str
        The transition time of the condition PodScheduled.

    Returns
    -------
    dict of str to object
        The new values of `spec` and `status`.

    Raises
    ------
    ConflictError
        The pod has another UID, is bound, gated or being deleted.
    """
    uid, meta, spec, status = pod.metadata.uid, current.metadata, current.spec, current.status
    if uid and uid != meta.uid:
        raise other_uid(pod, meta.uid)
    wrong = ""
    if meta.deletion_timestamp is not None:
        wrong = f"pod {meta.name} is being deleted, cannot be assigned to a host"
    elif spec.node_name:
        wrong = f'pod {meta.name} is already assigned to node "{spec.node_name}"'
    elif spec.scheduling_gates:
        wrong = f"pod {meta.name} has non-empty .spec.schedulingGates"
    if wrong:
        raise conflict("pods/binding", meta.name, wrong)
    conditions = _with_pod_scheduled(status.conditions, now)
    status = replace(status, nominated_node_name="", conditions=conditions)
    return {"spec": replace(spec, node_name=node), "status": status}


def _with_pod_scheduled(conditions: tuple[Condition, ...], now: str) -> tuple[Condition, ...]:
    """Return the conditions with PodScheduled=True. If it was true before, its transition time stays."""
    for index, condition in enumerate(conditions):
        if condition.type == "PodScheduled":
            time = condition.last_transition_time if condition.status == "True" else now
            return (*conditions[:index], _pod_scheduled(time), *conditions[index + 1 :])
    return (*conditions, _pod_scheduled(now))


@lru_cache
def _pod_scheduled(time: str | None) -> Condition:
    """Return the condition PodScheduled=True with a transition time."""
    return Condition(type="PodScheduled", status="True", last_transition_time=time)
