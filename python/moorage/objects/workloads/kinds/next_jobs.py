"""CronJobs as the Jobs that they create next."""

from __future__ import annotations

from moorage.errors import located
from moorage.objects.model.meta import ObjectMeta, Struct
from moorage.objects.model.workload import Job, JobSpec
from moorage.objects.read.decode import Document, decode
from moorage.objects.validate.validate_object import validate


class _JobTemplate(Struct, frozen=True):
    spec: JobSpec = JobSpec()


class _CronJobSpec(Struct, frozen=True):
    job_template: _JobTemplate = _JobTemplate()


class _CronJob(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _CronJobSpec = _CronJobSpec()


def next_job(document: Document) -> Job:
    """Read a CronJob as the Job that it creates next, which has its name; the Job is checked.

    Parameters
    ----------
    document : dict or bytes
        The CronJob as a JSON value, or its JSON text.

    Returns
    -------
    Job

    Raises
    ------
    InputError
        A field has a wrong type, or the Job is invalid.
    """
    found = decode(document, _CronJob)
    meta = ObjectMeta(name=found.metadata.name, namespace=found.metadata.namespace)
    job = Job(metadata=meta, spec=found.spec.job_template.spec)
    with located(path="spec.jobTemplate"):
        validate(job)
    return job
