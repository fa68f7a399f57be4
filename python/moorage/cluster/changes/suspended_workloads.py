"""Workloads of other projects that are suspended: which still are, and what they make when they run."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.kube import Object, Pod
from moorage.kube.model.cluster import Suspended
from moorage.kube.model.workload import Job, full_kind
from moorage.kube.workloads.ownership import is_active
from moorage.store import ObjectClient, find_object


def still_suspended(client: ObjectClient, workloads: Iterable[Suspended]) -> list[Suspended]:
    """Return the workloads of which nothing runs."""
    listed = [one for one in workloads if not one.is_job]
    if not listed:
        return []
    running: list[Object] = [pod for pod in client.list(Pod)[0] if is_active(pod)]
    running += [job for job in client.list(Job)[0] if not job.spec.suspend]
    owners = {
        (one.namespace, full_kind(owner.kind, owner.api_version), owner.name)
        for one in running
        if (owner := one.metadata.controller()) is not None
    }
    return [
        one
        for one in listed
        if (one.namespace, one.full_kind, one.name) not in owners
        and not any(_is_there(client, obj) for obj in one.objects)
    ]


def _is_there(client: ObjectClient, obj: Object) -> bool:
    """Whether a store has the object of a name; one without a name has an owner, which says it."""
    return bool(obj.name) and find_object(client, type(obj), obj.name, obj.namespace) is not None
