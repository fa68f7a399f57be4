"""Workloads of kinds that scheduling does not know: their replicas, which are not simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from moorage.errors import InputError, located, shorten
from moorage.objects.model.cluster import UnsimulatedWorkload
from moorage.objects.model.meta import Object, ObjectMeta, Struct
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import Job, JobSpec
from moorage.objects.validate.validate_object import validate
from moorage.objects.workloads.ownership import is_active

from .decode import Document, decode
from .object_defaults import default_namespace

_EXAMPLES = 5


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None


class _Workload(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


def read_workload(document: Document, kind: str) -> UnsimulatedWorkload | None:
    """Read the replicas of an object of an unknown kind.

    Parameters
    ----------
    document : dict or bytes
        The object as a JSON value, or its JSON text.
    kind : str
        Its kind.

    Returns
    -------
    UnsimulatedWorkload or None
        None for an object without a number of replicas.
    """
    try:
        found = decode(document, _Workload)
    except InputError:
        return None
    if found.spec.replicas is None:
        return None
    return UnsimulatedWorkload(kind, found.metadata.namespace, found.metadata.name, found.spec.replicas)


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


def without_pods(
    workloads: Iterable[UnsimulatedWorkload], objects: Iterable[Object], namespace: str
) -> list[UnsimulatedWorkload]:
    """Return the workloads that lack pods, each with the number of replicas that are no listed pod.

    Parameters
    ----------
    workloads : iterable of UnsimulatedWorkload
        Of two with one name the later counts.
    objects : iterable of Object
        All objects that were read. What a workload controls counts for it: a pod that has not finished once,
        a ReplicaSet or StatefulSet as often as it has replicas.
    namespace : str
        That of objects that name none.

    Returns
    -------
    list of UnsimulatedWorkload
    """
    found: dict[tuple[str, str, str], UnsimulatedWorkload] = {}
    for one in workloads:
        one = one._replace(namespace=one.namespace or namespace)
        found[one[:3]] = one
    counts = Counter[tuple[str, str, str]]()
    for obj in objects if found else ():
        owner = obj.metadata.controller()
        if owner is not None:
            key = owner.kind, obj.namespace or (default_namespace(obj) and namespace), owner.name
            counts[key] += _replicas(obj) if key in found else 0
    lacking = (one._replace(replicas=one.replicas - counts[key]) for key, one in found.items())
    return [one for one in lacking if one.replicas > 0]


def _replicas(obj: Object) -> int:
    if isinstance(obj, Pod):
        return int(is_active(obj))
    replicas: int | None = getattr(getattr(obj, "spec", None), "replicas", None)
    return replicas or 0


def warning(workloads: list[UnsimulatedWorkload]) -> str:
    """Return the warning about workloads that are not simulated.

    Parameters
    ----------
    workloads : list of UnsimulatedWorkload
        At least one.

    Returns
    -------
    str
    """
    shown = [
        shorten(f"{one.kind} {one.name}: {one.replicas} replicas not simulated")
        for one in workloads[:_EXAMPLES]
    ]
    return ", ".join(shown + ["…"] * (len(workloads) > _EXAMPLES)) + "."
