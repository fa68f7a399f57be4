"""What a failed pod means for its Job: it counts, is ignored, or fails its index or the whole Job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moorage.kube.model.pod import ContainerStatus, Pod
from moorage.kube.model.workload import Job, PodFailurePolicyOnExitCodes, PodFailurePolicyRule

COUNT, IGNORE, FAIL_INDEX, FAIL_JOB = "Count", "Ignore", "FailIndex", "FailJob"


class Failure(NamedTuple):
    """What a failed pod means: an action of its policy, and for FailJob why the Job fails."""

    action: str
    message: str = ""


_COUNTS = Failure(COUNT)


def failure_of(job: Job, pod: Pod) -> Failure:
    """Return what a failed pod means by the first rule of the failure policy that matches it.

    Returns
    -------
    Failure
        It counts where no rule matches, or there is no policy.
    """
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        why = _match(rule, pod)
        if why:
            text = f"{why} matching {rule.action} rule at index {index}" if rule.action == FAIL_JOB else ""
            return Failure(rule.action, text)
    return _COUNTS


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return what of a pod matches a rule; "" for nothing."""
    status = pod.status
    if rule.on_exit_codes is not None:
        for one in (*status.container_statuses, *status.init_container_statuses):
            code = _exit_code(one)
            if _has_code(rule.on_exit_codes, one.name, code):
                return f"Container {one.name} for pod {pod.key} failed with exit code {code}"
        return ""
    wanted = {(one.type, one.status) for one in rule.on_pod_conditions}
    types = [one.type for one in status.conditions if (one.type, one.status) in wanted]
    return f"Pod {pod.key} has condition {types[0]}" if types else ""


def _exit_code(status: ContainerStatus) -> int:
    """Return the exit code of a container; 0 for one that has not ended."""
    terminated = status.state.terminated if status.state is not None else None
    return 0 if terminated is None else terminated.exit_code


def _has_code(wanted: PodFailurePolicyOnExitCodes, container: str, code: int) -> bool:
    """Whether a container has ended as a rule asks."""
    if not code or wanted.container_name not in (None, container):
        return False
    return (code in wanted.values) == (wanted.operator == "In")


def restarts(pods: Iterable[Pod]) -> int:
    """Return how often the containers of pods that have not finished were restarted."""
    return sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
