"""Runs of CronJobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from itertools import count

from moorage.kube.model.meta import Object, ObjectMeta
from moorage.kube.model.workload import CronJob, Job

from ..ownership import controller_reference
from .job_state import verdict_of

RUN = "-next"
"""What the name of a run adds to that of its CronJob; in a cluster a time follows it."""


def runs_under_way(objects: Iterable[Object]) -> dict[str, list[Job]]:
    """Return the Jobs of CronJobs that have not finished, by ``namespace/name`` of the CronJob."""
    found: defaultdict[str, list[Job]] = defaultdict(list)
    for job in objects:
        if not isinstance(job, Job) or job.status.completion_time is not None or verdict_of(job) is not None:
            continue
        owner = job.metadata.controller()
        if owner is not None and owner.kind == "CronJob":
            found[f"{job.namespace}/{owner.name}"].append(job)
    return found


def due(objects: Iterable[Object]) -> Iterator[CronJob]:
    """Yield the CronJobs that run at their times and have no run under way.

    Parameters
    ----------
    objects : iterable of Object
        With the Jobs.
    """
    listed = list(objects)
    busy = runs_under_way(listed)
    for one in listed:
        if isinstance(one, CronJob) and not one.spec.suspend and one.key not in busy:
            yield one


def next_run(cron_job: CronJob, taken: Container[str] = ()) -> Job:
    """Return the Job that a CronJob creates next.

    Parameters
    ----------
    taken : container of str, optional
        By ``namespace/name`` the Jobs that there are; their names are followed by a number.

    Returns
    -------
    Job
        Without defaults.
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
