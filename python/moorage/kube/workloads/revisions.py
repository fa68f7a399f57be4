"""Revisions of StatefulSets and DaemonSets: the templates that they have and had (kubernetes v1.36)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ..model.meta import ObjectMeta
from ..model.pod import Pod, PodSpec
from ..model.workload import CloneSet, ControllerRevision, DaemonSet, PodTemplateSpec, StatefulSet
from ..read.object_defaults import missing_tolerations
from .daemon_pods import node_of
from .deployment_rollout import comparable
from .ownership import HASH_LABEL, controller_reference, template_hash

Revisioned = StatefulSet | DaemonSet | CloneSet
REVISION_LABEL = "controller-revision-hash"
HISTORY_LIMIT = 10  # where a workload has no default
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
    """Return the latest revision with the template of a workload, or None."""
    wanted = None
    for revision in sorted(revisions, key=lambda revision: -revision.revision):
        template = template_of(revision)
        if template is None:
            continue
        if template is owner.spec.template or template == owner.spec.template:
            return revision
        wanted = wanted or comparable(owner.spec.template)
        if comparable(template) == wanted:
            return revision
    return None


def forgotten_revisions(
    owner: StatefulSet | DaemonSet,
    revisions: Iterable[ControllerRevision],
    pods: Callable[[], Iterable[Pod]],
    kept: Collection[str],
) -> list[ControllerRevision]:
    """Return the oldest revisions, beyond the limit of the history, that no pod has. A DaemonSet's limit
    counts those of pods as well (kubernetes v1.36, stateful_set_control.go truncateHistory; daemon/update.go
    cleanupHistory).

    Parameters
    ----------
    pods : callable
        Returns all pods of the workload, in any state; called if there may be too many revisions.
    kept : collection of str
        Names of the revisions that are in use in any case.
    """
    limit = HISTORY_LIMIT if owner.spec.revision_history_limit is None else owner.spec.revision_history_limit
    old = sorted(
        (each for each in revisions if each.name not in kept), key=lambda each: (each.revision, each.name)
    )
    if len(old) <= limit:
        return []
    live = {pod.metadata.labels.get(REVISION_LABEL) for pod in pods()}
    idle = [each for each in old if mark_of(owner, each) not in live]
    return idle[: max(0, (len(old) if isinstance(owner, DaemonSet) else len(idle)) - limit)]


def make_revision(
    owner: Revisioned, template: PodTemplateSpec, number: int, suffix: str = ""
) -> ControllerRevision:
    """Return a revision of a workload for a template, without UID and creation time.

    Parameters
    ----------
    suffix : str, optional
        The hash in its name; by default that of the template.
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

    Returns
    -------
    revision : ControllerRevision
        A new one has no UID.
    """
    listed = list(revisions)
    latest = update_revision(owner, listed)
    last = max((revision.revision for revision in listed if revision is not latest), default=0)
    if latest is None:
        return make_revision(owner, owner.spec.template, last + 1), True
    if latest.revision <= last:
        return replace(latest, revision=last + 1), True
    return latest, False


def template_mark(pod: Pod) -> Mark | None:
    """Return the template of a pod; None for a pod without one."""
    labels, owner = pod.metadata.labels, pod.metadata.controller()
    mark = labels.get(REVISION_LABEL) or labels.get(HASH_LABEL)
    return None if mark is None or owner is None else (pod.namespace, owner.kind, owner.name, mark)


# ---- inferred templates ------------------------------------------------------------------------------------
#
# Which templates the pods of a workload had, where a file has the pods and no ReplicaSets or revisions.

_OF_EVERY_POD = frozenset(missing_tolerations(()))


def infer_templates(
    pods: Mapping[str, Iterable[Pod]], label: str, template: PodTemplateSpec, known: str | None = None
) -> dict[str, PodTemplateSpec]:
    """Return the template of the pods with each hash, the oldest first.

    Parameters
    ----------
    pods : mapping of str to iterable of Pod
        At least one by hash.
    label : str
        The label that has the hash.
    template : PodTemplateSpec
        The template that the workload had when the pods were read.
    known : str or None
        The hash of this template, which pods need not have; None where nothing tells it. Then it is that of
        the pods that show the template best, of several the newest.

    Returns
    -------
    dict of str to PodTemplateSpec
        Pods of other hashes have the template that they show.
    """
    newest = {suffix: max(each, key=by_creation) for suffix, each in pods.items()}
    templates: dict[str, PodTemplateSpec] = {}
    for suffix, pod in sorted(newest.items(), key=lambda item: by_creation(item[1])):
        templates[suffix] = _shown(pod, label, suffix)
    if known is None:
        best = _closest(newest, template)
        known = max(best, key=lambda suffix: by_creation(newest[suffix]), default="")
    if known in templates:
        templates[known] = template
    return templates


def recognized(
    template: PodTemplateSpec, label: str, templates: Mapping[str, PodTemplateSpec], pods: Iterable[Pod]
) -> str:
    """Return the hash of the pods that show a template best, if their own template was inferred.

    So a workload goes back to a template of which it has pods, although no file has that template. Fields
    that no struct of a pod has, such as environment variables, do not count.

    Parameters
    ----------
    template : PodTemplateSpec
        One that the workload has now.
    label : str
        The label that has the hash.
    templates : mapping of str to PodTemplateSpec
        By hash, those of which the workload may have pods.

    Returns
    -------
    str
        "" if no pods show it, or those of a known template do so as well.
    """
    if not any(label in revision.metadata.annotations for revision in templates.values()):
        return ""
    newest: dict[str, Pod] = {}
    for pod in sorted(pods, key=by_creation):
        if (suffix := pod.metadata.labels.get(label, "")) in templates:
            newest[suffix] = pod
    best = _closest(newest, template)
    is_inferred = best and all(label in templates[suffix].metadata.annotations for suffix in best)
    return max(best, key=lambda suffix: by_creation(newest[suffix])) if is_inferred else ""


def is_inferred(template: PodTemplateSpec) -> bool:
    """Whether a template was inferred from pods, so that not all of its fields are known."""
    return not template.metadata.annotations.keys().isdisjoint((REVISION_LABEL, HASH_LABEL))


def _shown(pod: Pod, label: str, suffix: str) -> PodTemplateSpec:
    # Other hashes are those of other templates, also if they differ in fields that are not read.
    annotations = pod.metadata.annotations | {label: suffix}
    meta = ObjectMeta(labels=pod.metadata.labels, annotations=annotations)
    return PodTemplateSpec(metadata=meta, spec=replace(pod.spec, node_name=""))


def by_creation(pod: Pod) -> tuple[str, str]:
    """Return the sort key of pods, the oldest first."""
    return pod.metadata.creation_timestamp or "", pod.name


# ---- what pods show of a template --------------------------------------------------------------------------


def _closest(pods: Mapping[str, Pod], template: PodTemplateSpec) -> list[str]:
    """Return the hashes of those pods that have all of a template and the least besides."""
    more: dict[str, int] = {}
    for suffix, pod in pods.items():
        is_pinned = bool(node_of(replace(pod.spec, node_name="")))
        its, wanted = (_visible(item.metadata, item.spec, is_pinned) for item in (pod, template))
        if (number := _additions(its, wanted)) is not None:
            more[suffix] = number
    least = min(more.values(), default=0)
    return [suffix for suffix, number in more.items() if number == least]


def _visible(meta: ObjectMeta, spec: PodSpec, is_pinned: bool) -> Any:
    """Return as a JSON value what a template and its pods have in common: without what every pod gets, and
    what it loses. In a pod that is pinned to its node this stands in place of the node affinity that the
    template requires."""
    tolerations = tuple([toleration for toleration in spec.tolerations if toleration not in _OF_EVERY_POD])
    spec = replace(spec, tolerations=tolerations, priority=None, preemption_policy=None)
    spec = replace(spec, node_name="", scheduling_gates=())
    if is_pinned and spec.affinity is not None and spec.affinity.node_affinity is not None:
        others = replace(spec.affinity.node_affinity, required=None)
        spec = replace(spec, affinity=replace(spec.affinity, node_affinity=others))
    return comparable([meta.labels, meta.annotations, spec])


def _additions(its: Any, wanted: Any) -> int | None:
    """Return how many values an object has besides those of another one; None if it lacks one of these."""
    if isinstance(wanted, dict):
        its = its if isinstance(its, dict) else {}
        pairs = [(its.get(key), wanted.get(key)) for key in {**wanted, **its}]
    elif isinstance(wanted, list):
        pairs = _pairs(its if isinstance(its, list) else [], wanted)
    elif _is_empty(wanted):
        return _size(its)
    else:
        return 0 if its == wanted else None
    total = 0
    for its_own, wanted_value in pairs:
        number = _additions(its_own, wanted_value)
        if number is None:
            return None
        total += number
    return total


def _pairs(its: list[Any], wanted: list[Any]) -> list[tuple[Any, Any]]:
    """Return the items of a list with the items that they are to have all of, by name where they have one."""
    left, pairs = list(its), []
    for wanted_value in wanted:
        name = wanted_value.get("name") if isinstance(wanted_value, dict) else None
        at = next(
            (
                at
                for at, item in enumerate(left)
                if (
                    item.get("name") == name
                    if name and isinstance(item, dict)
                    else _additions(item, wanted_value) is not None
                )
            ),
            None,
        )
        pairs.append((None if at is None else left.pop(at), wanted_value))
    return pairs + [(item, None) for item in left]


def _is_empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | dict | list) and not value)


def _size(value: Any) -> int:
    """Return the number of values in a JSON value."""
    if isinstance(value, dict | list):
        return sum(map(_size, value.values() if isinstance(value, dict) else value))
    return int(not _is_empty(value))
