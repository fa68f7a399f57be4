"""Creates, counts and deletes the pods of Jobs in a store (kubernetes v1.36, pkg/controller/job)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import inf

from msgspec.structs import replace

from moorage.kube.model.meta import Condition, with_condition
from moorage.kube.model.pod import Pod
from moorage.kube.model.workload import Job, JobStatus
from moorage.kube.workloads.job_state import (
    COMPLETE,
    FAILED,
    FAILURE,
    TRACKING,
    JobState,
    awaits_count,
    failures_before,
    has_failed,
    index_of,
    indexes_text,
    is_left_to_others,
    is_over,
    misplaced,
    missing_pods,
    pending_indexes,
    state_of,
    wanted_pods,
)
from moorage.kube.workloads.missing_pods import create_job_pods
from moorage.kube.workloads.ownership import FINISHED, is_active
from moorage.saved_fields import SavedFields
from moorage.store import NotFoundError
from moorage.store.protocol import overwrite

from .availability import Availability
from .store_control import StoreControl, first_to_go

BACKOFF, LONGEST_BACKOFF = 10.0, 600.0
"""Seconds from the first failure until a pod is replaced; each further one doubles them, up to the latter."""


class JobController(SavedFields):
    """Creates, counts and deletes the pods of Jobs.

    A pod that ends or is deleted keeps the finalizer batch.kubernetes.io/job-tracking until the status of the
    Job counts it. Pods that have not finished and lack it, as in files without finalizers, get it.

    Parameters
    ----------
    availability : Availability
        Knows the Jobs that wait for the end of a back-off.

    Attributes
    ----------
    has_started : bool
        Whether pods that have failed do so now, and not before the cluster was read.
    """

    fields = ("_failures", "has_started")

    def __init__(self, control: StoreControl, availability: Availability) -> None:
        self._control = control
        self._availability = availability
        self.has_started = False
        # By key of the Job, how many pods have failed since one has succeeded, and when the last one has.
        # With a limit per index it is by UID of a failed pod.
        self._failures: dict[str, tuple[int, float]] = {}

    def forget(self, key: str) -> None:
        """Forget the failures of a Job that is gone."""
        self._failures.pop(key, None)

    def reconcile(self, job: Job) -> None:
        """Bring the pods and the status of a Job to what it asks for.

        Raises
        ------
        RefusedError
            The API server refuses a pod.
        """
        self._availability.wait(job, True, inf)
        if is_left_to_others(job):
            return
        pods = self._control.owned(job)
        if is_over(job) or job.metadata.deletion_timestamp is not None:
            self.release(pods)
            return
        pods = self._tracked([*pods, *self._control.adopt(job, job.spec.selector)])
        state = state_of(job, pods)
        self._note_failures(job, pods, state)
        kept = _to_be_replaced(job, pods, state)
        self._count(job, pods, state, sum(awaits_count(job, pod) for pod in kept.values()))
        extra = misplaced(job, state.active)
        left = [pod for pod in state.active if pod not in extra]
        if (surplus := len(left) - wanted_pods(job, state)) > 0:
            extra += first_to_go(self._control, job, left, ())[:surplus]
        if state.verdict is not None:
            self._control.delete_all(state.active)
            self.release(pods)
        elif extra:
            self.release(extra)
            self._control.delete_all(extra)
        else:
            self._create(job, pods, state, kept)

    def release(self, pods: Iterable[Pod]) -> None:
        """Remove the finalizer of pods.

        Parameters
        ----------
        pods : iterable of Pod
            Their names and namespaces count.
        """
        for pod in pods:
            with suppress(NotFoundError):
                current = self._control.client.get(Pod, pod.name, pod.namespace)
                finalizers = current.metadata.finalizers
                if TRACKING in finalizers:
                    left = tuple(finalizer for finalizer in finalizers if finalizer != TRACKING)
                    overwrite(self._control.client, current, finalizers=left)

    def _tracked(self, pods: Iterable[Pod]) -> list[Pod]:
        """Give the finalizer to pods that are not counted yet and lack it; none that is going gets it."""
        tracked = []
        for pod in pods:
            if TRACKING not in pod.metadata.finalizers and is_active(pod):
                with suppress(NotFoundError):
                    pod = self._control.client.get(Pod, pod.name, pod.namespace)
                    if is_active(pod):
                        finalizers = (*pod.metadata.finalizers, TRACKING)
                        pod = overwrite(self._control.client, pod, finalizers=finalizers)
            tracked.append(pod)
        return tracked

    # ---- number of pods ------------------------------------------------------------------------------------

    def _create(self, job: Job, pods: Sequence[Pod], state: JobState, kept: dict[int, Pod]) -> None:
        """Let the pods go that are counted; create the missing ones, or wait until the back-off has ended."""
        counted = [pod for pod in pods if pod.status.phase == "Succeeded" or has_failed(job, pod)]
        self.release(pod for pod in counted if pod not in kept.values())
        waiting = {at: self._end_of_backoff(pod.metadata.uid) for at, pod in kept.items()}
        missing = missing_pods(job, state)
        if not missing:
            return
        now, due = self._availability.now(), self._end_of_backoff(job.key)
        waiting = {at: when for at, when in waiting.items() if when > now}
        if due <= now:
            create_job_pods(self._control, job, pods, state, waiting)
            if kept:
                self._availability.wait(job, False, now)  # in the next round those go that were kept
        if due > now or waiting:
            self._availability.wait(job, False, max(due, min(waiting.values(), default=due)))

    def _note_failures(self, job: Job, pods: Iterable[Pod], state: JobState) -> None:
        """Note that pods have failed now; a success ends the back-off. That of the files has ended."""
        now = self._availability.now()
        if not self.has_started:
            return
        if any(pod.status.phase == "Succeeded" and TRACKING in pod.metadata.finalizers for pod in pods):
            self._failures.pop(job.key, None)
        if job.spec.backoff_limit_per_index is not None:
            for pod in pods:
                if has_failed(job, pod):
                    self._failures.setdefault(pod.metadata.uid, (failures_before(pod) + 1, now))
        elif state.new_failures:
            known, _ = self._failures.get(job.key, (0, now))
            self._failures[job.key] = known + state.new_failures, now

    def _end_of_backoff(self, key: str) -> float:
        """Return the time from which pods may be created."""
        failures, since = self._failures.get(key, (0, -inf))
        return since + min(BACKOFF * 2.0 ** min(failures - 1, 10), LONGEST_BACKOFF) if failures else since

    # ---- status --------------------------------------------------------------------------------------------

    def _count(self, job: Job, pods: Sequence[Pod], state: JobState, later: int) -> None:
        """Write the numbers of pods that have ended, but for some that are counted later, and whether the Job
        ends."""
        status = replace(job.status, succeeded=state.succeeded, failed=state.failed - later)
        if job.spec.completion_mode == "Indexed":
            status = replace(status, completed_indexes=indexes_text(state.completed))
            if job.spec.backoff_limit_per_index is not None:
                status = replace(status, failed_indexes=indexes_text(state.broken))
        if state.verdict is not None:
            status = _ended(job, pods, state, state.verdict, status)
        if status != job.status:
            overwrite(self._control.client, replace(job, status=status))


def _to_be_replaced(job: Job, pods: Sequence[Pod], state: JobState) -> dict[int, Pod]:
    """Return by index the last failed pod of each index that gets another pod.

    The controller keeps this pod until the next one exists: the annotation of the next one says how many pods
    of the index have failed, and that number is only known from the last one.
    """
    if job.spec.backoff_limit_per_index is None or state.verdict is not None or job.spec.suspend:
        return {}
    pending = set(pending_indexes(job, state, len(pods) + len(state.active)))
    failed = ((index_of(job, pod), pod) for pod in pods if has_failed(job, pod))
    return {at: pod for at, pod in failed if at is not None and at in pending}


def _ended(
    job: Job, pods: Sequence[Pod], state: JobState, verdict: Condition, status: JobStatus
) -> JobStatus:
    """Return the status of a Job that ends: of one that fails, pods that have not ended count as failed; the
    last condition comes when all of them are gone."""
    conditions = with_condition(status.conditions, verdict)
    running = [pod for pod in pods if pod.status.phase not in FINISHED]
    if verdict.type == FAILURE:
        later = (pod for pod in running if TRACKING in pod.metadata.finalizers and not has_failed(job, pod))
        status = replace(status, failed=state.failed + sum(1 for _ in later))
    if not running:
        last = FAILED if verdict.type == FAILURE else COMPLETE
        conditions = with_condition(conditions, replace(verdict, type=last))
    return replace(status, conditions=conditions)
