"""What a Job has come to, from its status and its pods, and how many pods it wants (syncJob, manageJob)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from moorage.kube.model.meta import Condition
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import MAX_PODS, Job
from moorage.kube.workloads.jobs import indexes

from ..ownership import FINISHED, is_active
from .failure_policy import FAIL_INDEX, FAIL_JOB, IGNORE, failure_of, restarts
from .indexes import Ranges, failures_before, index_of

TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer of the pods of a Job that its status does not count yet."""
_JOB_CONTROLLER = "kubernetes.io/job-controller"
COMPLETE, FAILED = "Complete", "Failed"
SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"


class JobState(NamedTuple):
    """What a Job has come to.

    Attributes
    ----------
    active : list of Pod
    terminating : list of Pod
        Those that are being deleted and have not finished.
    succeeded, failed : int
        Numbers of pods, of an indexed Job the former of indexes; ignored failures do not count.
    completed, broken : list of (int, int)
        The indexes that have succeeded, and that have failed for good.
    new_failures : int
        Number of pods whose failure the status does not have yet, ignored ones included.
    verdict : Condition or None
        FailureTarget or SuccessCriteriaMet: the Job ends, and its pods go.
    """

    active: list[Pod]
    terminating: list[Pod]
    succeeded: int
    failed: int
    completed: Ranges
    broken: Ranges
    new_failures: int
    verdict: Condition | None


def is_left_to_others(job: Job) -> bool:
    """Whether the Job controller leaves a Job to another controller, which ``managedBy`` names."""
    return job.spec.managed_by not in (None, _JOB_CONTROLLER)


def is_over(job: Job) -> bool:
    """Whether a Job is complete or has failed, and its pods have gone."""
    return job.status.completion_time is not None or bool({COMPLETE, FAILED} & _types(job))


def verdict_of(job: Job) -> Condition | None:
    """Return the condition of a Job that tells that it has failed or is about to; None without one."""
    told = [one for one in job.status.conditions if one.type in (FAILURE, FAILED) and one.status == "True"]
    return told[-1] if told else None


def replaces_failed_only(job: Job) -> bool:
    """Whether a Job replaces pods that are being deleted only once they have failed."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether a pod has failed; one that is deleted before it ends has, unless the Job waits for its phase or
    has let it go without counting it.
    """
    meta = pod.metadata
    is_going = meta.deletion_timestamp is not None and TRACKING in meta.finalizers
    is_lost = is_going and pod.status.phase != "Succeeded"
    return pod.status.phase == "Failed" or (is_lost and not replaces_failed_only(job))


def awaits_count(job: Job, pod: Pod) -> bool:
    """Whether the status of a Job has still to count a failed pod; pods whose failure its policy ignores are
    never counted.
    """
    return TRACKING in pod.metadata.finalizers and failure_of(job, pod).action != IGNORE


def state_of(job: Job, pods: Sequence[Pod]) -> JobState:
    """Return what a Job has come to.

    A pod with the finalizer is one that the status does not count yet. Files may have finished pods without
    it that the status does not count either: of both numbers the larger one counts.

    Parameters
    ----------
    job : Job
        With defaults.
    pods : sequence of Pod
        Its pods, in any state.
    """
    is_indexed = job.spec.completion_mode == "Indexed"
    valid = [pod for pod in pods if not is_indexed or index_of(job, pod) is not None]
    done = [pod for pod in valid if pod.status.phase == "Succeeded"]
    lost = [pod for pod in valid if has_failed(job, pod)]
    counted = [pod for pod in lost if failure_of(job, pod).action != IGNORE]
    completed, broken = Ranges(), Ranges()
    succeeded = _number(job.status.succeeded, done, len(done))
    if is_indexed:
        completed = _completed(job, done)
        succeeded, broken = indexes.total(completed), _broken(job, lost)
    state = JobState(
        active=list(filter(is_active, pods)),
        terminating=[pod for pod in pods if pod.status.phase not in FINISHED and not is_active(pod)],
        succeeded=succeeded,
        failed=_number(job.status.failed, counted, 0 if job.spec.pod_failure_policy else len(counted)),
        completed=completed,
        broken=broken,
        new_failures=sum(TRACKING in pod.metadata.finalizers for pod in lost),
        verdict=None,
    )
    return state._replace(verdict=_verdict(job, pods, state, lost))


def wanted_pods(job: Job, state: JobState) -> int:
    """Return how many pods of a Job should be active; a Job without completions starts none after its first
    success.
    """
    if job.spec.suspend or state.verdict is not None:
        return 0
    parallelism = job.spec.parallelism or 0
    if job.spec.completions is None:
        return len(state.active) if state.succeeded else parallelism
    return max(0, min(parallelism, job.spec.completions - state.succeeded))


def missing_pods(job: Job, state: JobState) -> int:
    """Return how many pods a Job lacks, those that it waits for until others have ended left out."""
    missing = max(0, wanted_pods(job, state) - len(_occupying(job, state)))
    return len(pending_indexes(job, state, missing)) if job.spec.completion_mode == "Indexed" else missing


def pending_indexes(job: Job, state: JobState, most: int) -> list[int]:
    """Return the lowest indexes that are neither completed, failed nor active."""
    active = [(at, at) for pod in _occupying(job, state) if (at := index_of(job, pod)) is not None]
    left = indexes.gaps([*state.completed, *state.broken, *active], job.spec.completions or 0)
    return list(islice(left, min(most, MAX_PODS + 1)))


def _occupying(job: Job, state: JobState) -> list[Pod]:
    """Return the pods that are not replaced now."""
    return state.active + (state.terminating if replaces_failed_only(job) else [])


def failures_by_index(job: Job, pods: Iterable[Pod]) -> dict[int, int]:
    """Return how many pods of an index have failed, ignored failures left out.

    Parameters
    ----------
    pods : iterable of Pod
        Its pods, in any state.
    """
    found: dict[int, int] = {}
    for pod in pods:
        index = index_of(job, pod)
        if index is not None and has_failed(job, pod):
            number = failures_before(pod) + (failure_of(job, pod).action != IGNORE)
            found[index] = max(number, found.get(index, 0))
    return found


def misplaced(job: Job, active: Iterable[Pod]) -> list[Pod]:
    """Return the active pods of an indexed Job that have no index of it, or one that another pod has."""
    if job.spec.completion_mode != "Indexed":
        return []
    seen: set[int | None] = {None}
    found = []
    for pod in active:
        index = index_of(job, pod)
        if index in seen:
            found.append(pod)
        seen.add(index)
    return found


# ---- counts ------------------------------------------------------------------------------------------------


def _number(counted: int, pods: Iterable[Pod], least: int) -> int:
    return max(least, counted + sum(TRACKING in pod.metadata.finalizers for pod in pods))


def _completed(job: Job, done: Iterable[Pod]) -> Ranges:
    end = job.spec.completions or 0
    new = [(at, at) for pod in done if (at := index_of(job, pod)) is not None]
    return indexes.merged([*indexes.parse(job.status.completed_indexes, end), *new])


def _broken(job: Job, lost: Iterable[Pod]) -> Ranges:
    """Return the indexes that have failed for good: those of a Job with a limit per index."""
    end, limit = job.spec.completions or 0, job.spec.backoff_limit_per_index
    found = indexes.parse(job.status.failed_indexes or "", end)
    for pod in lost if limit is not None else ():
        action, index = failure_of(job, pod).action, index_of(job, pod)
        is_over_limit = action != IGNORE and failures_before(pod) + 1 > (limit or 0)
        if index is not None and (action == FAIL_INDEX or is_over_limit):
            found.append((index, index))
    return indexes.merged(found)


# ---- the end -----------------------------------------------------------------------------------------------


def _types(job: Job) -> set[str]:
    return {one.type for one in job.status.conditions if one.status == "True"}


def _verdict(job: Job, pods: Sequence[Pod], state: JobState, lost: Iterable[Pod]) -> Condition | None:
    """Return why a Job ends now, or has begun to end."""
    for one in job.status.conditions:
        if one.type in (SUCCESS, FAILURE) and one.status == "True":
            return one
    for pod in lost:
        failure = failure_of(job, pod)
        if failure.action == FAIL_JOB:
            return _condition(FAILURE, "PodFailurePolicy", failure.message)
    limit, spec = job.spec.backoff_limit, job.spec
    retries = restarts(pods) if spec.template.spec.restart_policy == "OnFailure" else 0
    if limit is not None and (state.failed > limit or retries >= max(1, limit)):
        text = "Job has reached the specified backoff limit"
        return _condition(FAILURE, "BackoffLimitExceeded", text)
    if spec.completion_mode == "Indexed" and (found := _verdict_of_indexes(job, state)) is not None:
        return found
    is_done = bool(state.succeeded) if spec.completions is None else state.succeeded >= spec.completions
    if is_done and not state.active:
        return _condition(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _verdict_of_indexes(job: Job, state: JobState) -> Condition | None:
    spec = job.spec
    broken = indexes.total(state.broken) if spec.backoff_limit_per_index is not None else 0
    if spec.max_failed_indexes is not None and broken > spec.max_failed_indexes:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return _condition(FAILURE, "MaxFailedIndexesExceeded", text)
    if broken and broken + state.succeeded >= (spec.completions or 0):
        return _condition(FAILURE, "FailedIndexes", "Job has failed indexes")
    for number, rule in enumerate(spec.success_policy.rules if spec.success_policy is not None else ()):
        asked = rule.succeeded_indexes
        wanted = [(0, (spec.completions or 0) - 1)]
        if asked is not None:
            wanted = indexes.parse(asked, spec.completions or 0)
        least = indexes.total(wanted) if rule.succeeded_count is None else rule.succeeded_count
        if indexes.common(wanted, state.completed) >= least:
            return _condition(SUCCESS, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _condition(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message)
