"""Which pods become ready: those that start, but none of a template that never is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from contextlib import suppress

from msgspec.structs import replace

from ..model.meta import Condition, Object, with_condition
from ..model.pod import ContainerState, Pod
from ..model.workload import Deployment
from .ages import seconds
from .ownership import HASH_LABEL, is_active, is_healthy
from .revisions import Mark, template_mark

STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
_IS_COMPLETE = "NewReplicaSetAvailable"
_PROGRESS_DEADLINE = 600
"""Seconds (kubernetes v1.36, SetDefaults_Deployment)."""
_NOT_READY = Condition(type="Ready", status="False", reason="ContainersNotReady")


def is_starting(pod: Pod) -> bool:
    """Whether a pod is reported not to be ready as its kubelet is about to start it, and has met no error."""
    status = pod.status
    if status.phase != "Pending" or not pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
        return False
    if not any(one.type == "Ready" and one.status != "True" for one in status.conditions):
        return False
    states = (one.state for one in (*status.container_statuses, *status.init_container_statuses))
    reasons = {one.waiting.reason for one in states if one is not None and one.waiting is not None}
    return reasons <= STARTING


def progressing(objects: Iterable[Object], now: float) -> set[str]:
    """Return the Deployments whose controller reports that a rollout goes on and is not late.

    Parameters
    ----------
    objects : iterable of Object
        The others are ignored.
    now : float
        When they were read, in seconds since 1970.

    Returns
    -------
    set of str
        As ``namespace/name``.
    """
    return {one.key for one in objects if isinstance(one, Deployment) and _progresses(one, now)}


def _progresses(deployment: Deployment, now: float) -> bool:
    limit = deployment.spec.progress_deadline_seconds
    for one in deployment.status.conditions:
        if one.type == "Progressing" and one.status == "True" and one.reason != _IS_COMPLETE:
            with suppress(ValueError):  # times of conditions are not validated
                since = now - seconds(one.last_update_time or "")
                return since <= (_PROGRESS_DEADLINE if limit is None else limit)
    return False


def is_coming(pod: Pod, rollouts: Container[str]) -> bool:
    """Whether a pod that is not ready becomes so: its kubelet is starting it, or its containers run for the
    first time in a rollout that goes on.

    Parameters
    ----------
    rollouts : container of str
        See `progressing`.
    """
    if is_starting(pod):
        return True
    owner, suffix = pod.metadata.controller(), f"-{pod.metadata.labels.get(HASH_LABEL)}"
    if owner is None or f"{pod.namespace}/{owner.name.removesuffix(suffix)}" not in rollouts:
        return False
    states = pod.status.container_statuses
    runs = all(one.restart_count == 0 and one.state == ContainerState() for one in states)
    return bool(states) and runs and pod.status.phase == "Running" and is_active(pod)


def unready_templates(pods: Iterable[Pod], rollouts: Container[str]) -> dict[Mark, int]:
    """Return the templates whose bound pods are all reported not to be ready, and how many these are.

    Their new pods are not taken as ready either: what keeps those from it is not known.

    Parameters
    ----------
    rollouts : container of str
        See `progressing`.

    Returns
    -------
    dict of (str, str, str, str) to int
        By `template_mark`.
    """
    sick: Counter[Mark] = Counter()
    well: set[Mark] = set()
    for pod in pods:
        mark = template_mark(pod) if pod.status.conditions and pod.spec.node_name and is_active(pod) else None
        if mark is None:
            continue
        if is_healthy(pod) or is_coming(pod, rollouts):
            well.add(mark)
        else:
            sick[mark] += 1
    return {mark: number for mark, number in sick.items() if mark not in well}


def with_readiness(pod: Pod, unready: Container[Mark]) -> Pod:
    """Return a new pod as one that will not be ready, if its template is known not to.

    Parameters
    ----------
    unready : container of (str, str, str, str)
        See `unready_templates`.
    """
    if template_mark(pod) not in unready:
        return pod
    conditions = with_condition(pod.status.conditions, _NOT_READY)
    return replace(pod, status=replace(pod.status, conditions=conditions))


def as_starting(pod: Pod) -> Pod:
    """Return a pod as its kubelet reports one that it has not started yet (`is_starting`)."""
    conditions = with_condition(pod.status.conditions, _NOT_READY)
    status = replace(pod.status, phase="Pending", conditions=conditions)
    return replace(pod, metadata=replace(pod.metadata, resource_version=""), status=status)
