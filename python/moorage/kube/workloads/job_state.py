"""What the Job controller decides (kubernetes v1.36, pkg/controller/job), and runs of CronJobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count, islice

from moorage.lazy import NamedTuple

from ..model.meta import Condition, Object, ObjectMeta, whole_number
from ..model.pod import Pod
from ..model.workload import MAX_PODS, CronJob, Job, PodFailurePolicyRule
from .ownership import FINISHED, controller_reference, is_active

# ---- failure policy ----------------------------------------------------------------------------------------
#
# What a failed pod means for its Job: it counts, is ignored, or fails its index or the whole Job.

COUNT, IGNORE, FAIL_INDEX, FAIL_JOB = "Count", "Ignore", "FailIndex", "FailJob"


class PodFailure(NamedTuple):
    """What a failed pod means: an action of its policy, and for FailJob why the Job fails."""

    action: str
    message: str = ""


_COUNTS = PodFailure(COUNT)


def failure_of(job: Job, pod: Pod) -> PodFailure:
    """Return what a failed pod means by the first rule of the failure policy that matches it.

    Returns
    -------
    PodFailure
        It counts where no rule matches, or there is no policy.
    """
    policy = job.spec.pod_failure_policy
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        why = _match(rule, pod)
        if why:
            text = f"{why} matching {rule.action} rule at index {index}" if rule.action == FAIL_JOB else ""
            return PodFailure(rule.action, text)
    return _COUNTS


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return what of a pod matches a rule; "" for nothing."""
    status = pod.status
    codes = rule.on_exit_codes
    if codes is not None:
        for container in (*status.container_statuses, *status.init_container_statuses):
            terminated = container.state.terminated if container.state is not None else None
            code = 0 if terminated is None else terminated.exit_code
            is_named = codes.container_name in (None, container.name)
            if code and is_named and (code in codes.values) == (codes.operator == "In"):
                return f"Container {container.name} for pod {pod.key} failed with exit code {code}"
        return ""
    wanted = {(condition.type, condition.status) for condition in rule.on_pod_conditions}
    types = [
        condition.type for condition in status.conditions if (condition.type, condition.status) in wanted
    ]
    return f"Pod {pod.key} has condition {types[0]}" if types else ""


def job_labels(uid: str, name: str) -> dict[str, str]:
    """Return the labels of the pods of a Job: its UID and name, each with and without a prefix."""
    own = {"controller-uid": uid, "job-name": name}
    return {f"batch.kubernetes.io/{label}": text for label, text in own.items()} | own


def restarts(pods: Iterable[Pod]) -> int:
    """Return how often the containers of pods that have not finished were restarted."""
    return sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )


# ---- indexes -----------------------------------------------------------------------------------------------
#
# Indexes of the pods of indexed Jobs, and lists of them such as ``1,3-5``.

INDEX = "batch.kubernetes.io/job-completion-index"
OF_JOB = "batch.kubernetes.io/controller-uid"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of a pod of a Job with a limit per index: how many pods of its index had failed before it."""

Ranges = list[tuple[int, int]]
"""First and last index of each range."""


def index_of(job: Job, pod: Pod) -> int | None:
    """Return the index of a pod; None if it has none below the completions of its Job."""
    index = _number_in(pod, INDEX)
    return index if index is not None and index < (job.spec.completions or 0) else None


def failures_before(pod: Pod) -> int:
    """Return how many pods of the index of a pod had failed before it."""
    return _number_in(pod, FAILURES) or 0


def _number_in(pod: Pod, annotation: str) -> int | None:
    """Return the number in an annotation; None without one."""
    return whole_number(pod.metadata.annotations.get(annotation, ""), 64)


def parse_indexes(text: str, end: int) -> Ranges:
    """Return the ranges of a list of indexes, as far as they are below `end`.

    Parameters
    ----------
    text : str
        Such as ``1,3-5``.
    """
    pairs = [item.partition("-") for item in text.split(",") if item]
    ranges = [(int(low), min(int(high or low), end - 1)) for low, _, high in pairs]
    return merged_ranges((low, high) for low, high in ranges if low <= high)


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges in ascending order, those that touch or overlap as one."""
    ranges_merged: Ranges = []
    for low, high in sorted(ranges):
        if ranges_merged and low <= ranges_merged[-1][1] + 1:
            ranges_merged[-1] = ranges_merged[-1][0], max(ranges_merged[-1][1], high)
        else:
            ranges_merged.append((low, high))
    return ranges_merged


def indexes_text(ranges: Ranges) -> str:
    """Return ranges as a list of indexes: two that follow one another are named singly."""
    parts = [
        str(low) if low == high else f"{low},{high}" if high == low + 1 else f"{low}-{high}"
        for low, high in ranges
    ]
    return ",".join(parts)


def count_indexes(ranges: Ranges) -> int:
    """Return the number of indexes in ranges."""
    return sum(high - low + 1 for low, high in ranges)


def count_common_indexes(some: Ranges, others: Ranges) -> int:
    """Return the number of indexes that two lists of ranges share."""
    pairs = ((max(a, c), min(b, d)) for a, b in some for c, d in others)
    return sum(high - low + 1 for low, high in pairs if low <= high)


def free_indexes(ranges: Iterable[tuple[int, int]], end: int) -> Iterator[int]:
    """Yield the indexes below `end` that are in none of some ranges, in ascending order."""
    pending = 0
    for low, high in merged_ranges(ranges):
        yield from range(pending, min(low, end))
        pending = max(pending, high + 1)
    yield from range(pending, end)


# ---- job state ---------------------------------------------------------------------------------------------
#
# What a Job has come to, from its status and its pods, and how many pods it wants (syncJob, manageJob).

TRACKING = "batch.kubernetes.io/job-tracking"
"""Finalizer of the pods of a Job that its status does not count yet."""
_JOB_CONTROLLER = "kubernetes.io/job-controller"
COMPLETE, FAILED = "Complete", "Failed"
SUCCESS, FAILURE = "SuccessCriteriaMet", "FailureTarget"


class JobState(NamedTuple):
    """What a Job has come to.

    Attributes
    ----------
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
    return job.status.completion_time is not None or any(
        condition.type in (COMPLETE, FAILED) and condition.status == "True"
        for condition in job.status.conditions
    )


def verdict_of(job: Job) -> Condition | None:
    """Return the condition of a Job that tells that it has failed or is about to; None without one."""
    verdicts = [
        condition
        for condition in job.status.conditions
        if condition.type in (FAILURE, FAILED) and condition.status == "True"
    ]
    return verdicts[-1] if verdicts else None


def why_no_more(job: Job, pod: Pod) -> str:
    """Return why a Job makes no other pod in place of one that has failed: it fails itself, or the index of
    the pod does; "" for neither."""
    if (verdict := verdict_of(job)) is not None:
        return f"Job {job.key} fails: {verdict.reason}, {verdict.message}"
    index, failed = index_of(job, pod), job.status.failed_indexes or ""
    if index is None or not count_common_indexes([(index, index)], parse_indexes(failed, index + 1)):
        return ""
    limit = job.spec.backoff_limit_per_index or 0
    is_over_limit = failures_before(pod) >= limit
    why = f"backoffLimitPerIndex is {limit}" if is_over_limit else f"a rule {FAIL_INDEX} of podFailurePolicy"
    return f"index {index} of Job {job.key} fails: {why}"


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
        succeeded, broken = count_indexes(completed), _broken(job, lost)
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
    left = free_indexes([*state.completed, *state.broken, *active], job.spec.completions or 0)
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
    failures: dict[int, int] = {}
    for pod in pods:
        index = index_of(job, pod)
        if index is not None and has_failed(job, pod):
            number = failures_before(pod) + (failure_of(job, pod).action != IGNORE)
            failures[index] = max(number, failures.get(index, 0))
    return failures


def misplaced(job: Job, active: Iterable[Pod]) -> list[Pod]:
    """Return the active pods of an indexed Job that have no index of it, or one that another pod has."""
    if job.spec.completion_mode != "Indexed":
        return []
    seen: set[int | None] = {None}
    pods_misplaced = []
    for pod in active:
        index = index_of(job, pod)
        if index in seen:
            pods_misplaced.append(pod)
        seen.add(index)
    return pods_misplaced


# ---- counts ------------------------------------------------------------------------------------------------


def _number(counted: int, pods: Iterable[Pod], least: int) -> int:
    return max(least, counted + sum(TRACKING in pod.metadata.finalizers for pod in pods))


def _completed(job: Job, done: Iterable[Pod]) -> Ranges:
    end = job.spec.completions or 0
    new = [(at, at) for pod in done if (at := index_of(job, pod)) is not None]
    return merged_ranges([*parse_indexes(job.status.completed_indexes, end), *new])


def _broken(job: Job, lost: Iterable[Pod]) -> Ranges:
    """Return the indexes that have failed for good: those of a Job with a limit per index."""
    end, limit = job.spec.completions or 0, job.spec.backoff_limit_per_index
    failed = parse_indexes(job.status.failed_indexes or "", end)
    for pod in lost if limit is not None else ():
        action, index = failure_of(job, pod).action, index_of(job, pod)
        is_over_limit = action != IGNORE and failures_before(pod) + 1 > (limit or 0)
        if index is not None and (action == FAIL_INDEX or is_over_limit):
            failed.append((index, index))
    return merged_ranges(failed)


# ---- the end -----------------------------------------------------------------------------------------------


def _verdict(job: Job, pods: Sequence[Pod], state: JobState, lost: Iterable[Pod]) -> Condition | None:
    """Return why a Job ends now, or has begun to end."""
    for condition in job.status.conditions:
        if condition.type in (SUCCESS, FAILURE) and condition.status == "True":
            return condition
    for pod in lost:
        failure = failure_of(job, pod)
        if failure.action == FAIL_JOB:
            return _condition(FAILURE, "PodFailurePolicy", failure.message)
    limit, spec = job.spec.backoff_limit, job.spec
    retries = restarts(pods) if spec.template.spec.restart_policy == "OnFailure" else 0
    if limit is not None and (state.failed > limit or retries >= max(1, limit)):
        text = "Job has reached the specified backoff limit"
        return _condition(FAILURE, "BackoffLimitExceeded", text)
    if spec.completion_mode == "Indexed" and (verdict := _verdict_of_indexes(job, state)) is not None:
        return verdict
    is_done = bool(state.succeeded) if spec.completions is None else state.succeeded >= spec.completions
    if is_done and not state.active:
        return _condition(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _verdict_of_indexes(job: Job, state: JobState) -> Condition | None:
    spec = job.spec
    broken = count_indexes(state.broken) if spec.backoff_limit_per_index is not None else 0
    if spec.max_failed_indexes is not None and broken > spec.max_failed_indexes:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return _condition(FAILURE, "MaxFailedIndexesExceeded", text)
    if broken and broken + state.succeeded >= (spec.completions or 0):
        return _condition(FAILURE, "FailedIndexes", "Job has failed indexes")
    for number, rule in enumerate(spec.success_policy.rules if spec.success_policy is not None else ()):
        listed = rule.succeeded_indexes
        wanted = [(0, (spec.completions or 0) - 1)]
        if listed is not None:
            wanted = parse_indexes(listed, spec.completions or 0)
        least = count_indexes(wanted) if rule.succeeded_count is None else rule.succeeded_count
        if count_common_indexes(wanted, state.completed) >= least:
            return _condition(SUCCESS, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _condition(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message)


# ---- cron runs ---------------------------------------------------------------------------------------------
#
# Runs of CronJobs.

RUN = "-next"
"""What the name of a run adds to that of its CronJob; in a cluster a time follows it."""


def runs_under_way(objects: Iterable[Object]) -> dict[str, list[Job]]:
    """Return the Jobs of CronJobs that have not finished, by ``namespace/name`` of the CronJob."""
    runs: defaultdict[str, list[Job]] = defaultdict(list)
    for job in objects:
        if not isinstance(job, Job) or job.status.completion_time is not None or verdict_of(job) is not None:
            continue
        owner = job.metadata.controller()
        if owner is not None and owner.kind == "CronJob":
            runs[f"{job.namespace}/{owner.name}"].append(job)
    return runs


def due(objects: Iterable[Object]) -> Iterator[CronJob]:
    """Yield the CronJobs that run at their times and have no run under way."""
    listed = list(objects)
    busy = runs_under_way(listed)
    for obj in listed:
        if isinstance(obj, CronJob) and not obj.spec.suspend and obj.key not in busy:
            yield obj


def next_run(cron_job: CronJob, taken: Container[str] = ()) -> Job:
    """Return the Job that a CronJob creates next, without defaults.

    Parameters
    ----------
    taken : container of str, optional
        By ``namespace/name`` the Jobs that there are; their names are followed by a number.
    """
    template, name = cron_job.spec.job_template, f"{cron_job.name}{RUN}"
    names = (f"{name}-{number}" if number > 1 else name for number in count(1))
    meta = ObjectMeta(
        name=next(name for name in names if f"{cron_job.namespace}/{name}" not in taken),
        namespace=cron_job.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=controller_reference(cron_job),
    )
    return Job(metadata=meta, spec=template.spec)
