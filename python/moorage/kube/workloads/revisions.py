"""Revisions of StatefulSets and DaemonSets: the templates that they have and had (kubernetes v1.36)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..model.meta import ObjectMeta
from ..model.other_workloads import CloneSet
from ..model.pod import Pod
from ..model.workload import ControllerRevision, DaemonSet, PodTemplateSpec, StatefulSet
from .deployment_rollout import comparable
from .naming import template_hash
from .ownership import HASH_LABEL, controller_reference

Revisioned = StatefulSet | DaemonSet | CloneSet
REVISION_LABEL = "controller-revision-hash"
Mark = tuple[str, str, str, str]
"""A template: namespace, kind and name of the controller of its pods, and the hash in their labels."""


def template_of(revision: ControllerRevision) -> PodTemplateSpec | None:
    """Return the template of a revision; None if it is that of another controller.

    Parameters
    ----------
    revision : ControllerRevision
        With defaults.
    """
    template = revision.data["spec"]["template"] if revision.data else None
    return template if isinstance(template, PodTemplateSpec) else None


def mark_of(owner: Revisioned, revision: ControllerRevision) -> str:
    """Return the label ``controller-revision-hash`` of the pods of a revision.

    Returns
    -------
    str
        The name of the revision; of a DaemonSet the hash in it.
    """
    if not isinstance(owner, DaemonSet):
        return revision.name
    return revision.metadata.labels.get(REVISION_LABEL) or revision.name.removeprefix(f"{owner.name}-")


def is_updated(pod: Pod, mark: str) -> bool:
    """Whether a pod has a revision; one without the label, as in manifests, has every revision.

    Parameters
    ----------
    mark : str
        See `mark_of`.
    """
    return pod.metadata.labels.get(REVISION_LABEL, mark) == mark


def update_revision(owner: Revisioned, revisions: Iterable[ControllerRevision]) -> ControllerRevision | None:
    """Return the latest revision with the template of a workload, or None.

    Parameters
    ----------
    revisions : iterable of ControllerRevision
        Of this workload.
    """
    wanted = None
    for one in sorted(revisions, key=lambda one: -one.revision):
        template = template_of(one)
        if template is None:
            continue
        if template is owner.spec.template or template == owner.spec.template:
            return one
        wanted = wanted or comparable(owner.spec.template)
        if comparable(template) == wanted:
            return one
    return None


def make_revision(
    owner: Revisioned, template: PodTemplateSpec, number: int, suffix: str = ""
) -> ControllerRevision:
    """Return a revision of a workload for a template.

    Parameters
    ----------
    suffix : str, optional
        The hash in its name; by default that of the template.

    Returns
    -------
    ControllerRevision
        Without UID and creation time.
    """
    suffix = suffix or template_hash(template)
    meta = ObjectMeta(
        name=f"{owner.name}-{suffix}",
        namespace=owner.namespace,
        labels=template.metadata.labels | {REVISION_LABEL: suffix},
        owner_references=controller_reference(owner),
    )
    return ControllerRevision(metadata=meta, data={"spec": {"template": template}}, revision=number)


def latest_revision(
    owner: Revisioned, revisions: Iterable[ControllerRevision]
) -> tuple[ControllerRevision, bool]:
    """Return the revision with the template of a workload as the latest one, and whether it is to be written.

    Parameters
    ----------
    revisions : iterable of ControllerRevision
        Of this workload.

    Returns
    -------
    revision : ControllerRevision
        A new one has no UID.
    """
    listed = list(revisions)
    found = update_revision(owner, listed)
    last = max((one.revision for one in listed if one is not found), default=0)
    if found is None:
        return make_revision(owner, owner.spec.template, last + 1), True
    if found.revision <= last:
        return replace(found, revision=last + 1), True
    return found, False


def template_mark(pod: Pod) -> Mark | None:
    """Return the template of a pod; None for a pod without one."""
    labels, owner = pod.metadata.labels, pod.metadata.controller()
    mark = labels.get(REVISION_LABEL) or labels.get(HASH_LABEL)
    return None if mark is None or owner is None else (pod.namespace, owner.kind, owner.name, mark)
