"""Runs of CronJobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moorage.objects.model.meta import Object, ObjectMeta
from moorage.objects.model.workload import CronJob, Job
from moorage.objects.workloads.ownership import controller_reference

from .job_state import verdict_of

RUN = "-next"
"""What the name of a run adds to that of its CronJob; in a cluster a time follows it."""


def due(objects: Iterable[Object]) -> Iterator[CronJob]:
    """Yield the CronJobs that run at their times and have no run under way.

    Parameters
    ----------
    objects : iterable of Object
        With the Jobs.
    """
    listed = list(objects)
    busy = {
        (job.namespace, owner.name)
        for job in listed
        if isinstance(job, Job) and (owner := job.metadata.controller()) is not None
        if owner.kind == "CronJob" and job.status.completion_time is None and verdict_of(job) is None
    }
    for one in listed:
        if isinstance(one, CronJob) and not one.spec.suspend and (one.namespace, one.name) not in busy:
            yield one


def next_run(cron_job: CronJob) -> Job:
    """Return the Job that a CronJob creates next.

    Parameters
    ----------
    cron_job : CronJob

    Returns
    -------
    Job
        Without defaults.
    """
    template = cron_job.spec.job_template
    meta = ObjectMeta(
        name=f"{cron_job.name}{RUN}",
        namespace=cron_job.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=controller_reference(cron_job),
    )
    return Job(metadata=meta, spec=template.spec)
