"""Which pods become ready: those that start, but none of a template that never is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable
from contextlib import suppress

from msgspec.structs import replace

from ..model.cluster import seconds
from ..model.meta import Condition, Object, with_condition
from ..model.pod import ContainerState, Pod
from ..model.workload import Deployment
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
    if not any(condition.type == "Ready" and condition.status != "True" for condition in status.conditions):
        return False
    states = (container.state for container in (*status.container_statuses, *status.init_container_statuses))
    reasons = {state.waiting.reason for state in states if state is not None and state.waiting is not None}
    return reasons <= STARTING


def progressing(objects: Iterable[Object], now: float) -> set[str]:
    """Return the Deployments whose controller reports that a rollout goes on and is not late.

    Parameters
    ----------
    now : float
        When they were read, in seconds since 1970.

    Returns
    -------
    set of str
        As ``namespace/name``.
    """
    return {
        deployment.key
        for deployment in objects
        if isinstance(deployment, Deployment) and _progresses(deployment, now)
    }


def _progresses(deployment: Deployment, now: float) -> bool:
    limit = deployment.spec.progress_deadline_seconds
    for condition in deployment.status.conditions:
        if (
            condition.type == "Progressing"
            and condition.status == "True"
            and condition.reason != _IS_COMPLETE
        ):
            with suppress(ValueError):  # times of conditions are not validated
                since = now - seconds(condition.last_update_time or "")
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
    runs = all(container.restart_count == 0 and container.state == ContainerState() for container in states)
    return bool(states) and runs and pod.status.phase == "Running" and is_active(pod)


def started(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are on a node, and on which its kubelet has reported."""
    return [pod for pod in pods if pod.spec.node_name and pod.status.conditions and is_active(pod)]


def unready(pods: Iterable[Pod]) -> list[Pod]:
    """Return those of `started` that are not healthy, which few are."""
    return started(pod for pod in pods if pod.status.conditions and not is_healthy(pod))


def unready_templates(pods: Collection[Pod], rollouts: Container[str]) -> dict[Mark, int]:
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
    sick = [pod for pod in unready(pods) if not is_coming(pod, rollouts)]
    marks = Counter(mark for pod in sick if (mark := template_mark(pod)) is not None)
    if not marks:
        return {}
    reported = started(pods)
    well = {template_mark(pod) for pod in reported if is_healthy(pod) or is_coming(pod, rollouts)}
    return {mark: number for mark, number in marks.items() if mark not in well}


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
