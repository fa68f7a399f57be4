"""Job expansion: the pods that a Job would still start."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import Job

from .expansion import Expansion, PodMaker
from .ownership import is_active

_INDEX = "batch.kubernetes.io/job-completion-index"
_DONE = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


def expand_job(expansion: Expansion, job: Job) -> None:
    """Make the missing pods of a Job (kubernetes v1.36, Job controller).

    A Job that is suspended, complete or failed starts nothing. Otherwise `parallelism` pods should be
    active, but not more than completions are missing; without `completions`, none is started after the
    first success. Successes are those of the status, or those listed if they are more. The pods of an
    indexed Job get the lowest indexes that are neither completed, failed for good nor active.

    Parameters
    ----------
    expansion : Expansion
    job : Job

    Raises
    ------
    InputError
        There would be more than `MAX_PODS` pods.
    """
    if job.spec.suspend or job.status.completion_time is not None:
        return
    if any(item.type in _DONE and item.status == "True" for item in job.status.conditions):
        return
    owned = expansion.index.owned(job)
    active = [pod for pod in owned if is_active(pod)] + expansion.index.adopt(
        job.namespace, job.spec.selector
    )
    succeeded = [pod for pod in owned if pod.status.phase == "Succeeded"]
    uid = job.metadata.uid
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": job.name,
        "controller-uid": uid,
        "job-name": job.name,
    }
    maker = PodMaker(expansion, job, job.spec.template)
    missing = (job.spec.parallelism or 0) - len(active)
    if job.spec.completion_mode == "Indexed":
        indexes = list(islice(_pending_indexes(job, active, succeeded), max(missing, 0)))
        for i in expansion.count(job, len(indexes), "spec.parallelism"):
            index = str(indexes[i])
            maker.make(
                base=f"{job.name}-{index}-", labels=labels | {_INDEX: index}, annotations={_INDEX: index}
            )
        return
    missing = min(missing, _uncompleted(job, len(succeeded)) - len(active))
    for _ in expansion.count(job, missing, "spec.parallelism"):
        maker.make(base=f"{job.name}-", labels=labels)


def _uncompleted(job: Job, listed: int) -> int:
    """Number of pods that still have to succeed; a Job without completions ends with its first success."""
    succeeded = max(job.status.succeeded, listed)
    if job.spec.completions is None:
        return 0 if succeeded else job.spec.parallelism or 0
    return job.spec.completions - succeeded


def _pending_indexes(job: Job, active: list[Pod], succeeded: list[Pod]) -> Iterator[int]:
    """Indexes without a pod, ascending; completed ones may be long ranges."""
    done = _ranges(job.status.completed_indexes) + _ranges(job.status.failed_indexes or "")
    for pod in active + succeeded:
        index = pod.metadata.annotations.get(_INDEX, "")
        if index.isdecimal():
            done.append((int(index), int(index)))
    pending = 0
    for low, high in sorted(done):
        yield from range(pending, min(low, job.spec.completions or 0))
        pending = max(pending, high + 1)
    yield from range(pending, job.spec.completions or 0)


def _ranges(text: str) -> list[tuple[int, int]]:
    """Parse ranges like ``1,3-5``."""
    pairs = [item.partition("-") for item in text.split(",") if item]
    return [(int(low), int(high or low)) for low, _, high in pairs]
