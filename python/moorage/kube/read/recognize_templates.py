"""What listed pods show of objects that a file lacks: templates of workloads, priority classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace as replace_fields
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from moorage.errors import examples, shorten
from moorage.notes import RoutineNote

from ..model.cluster import Cluster
from ..model.meta import Object, ObjectMeta, OwnerReference
from ..model.pod import PREEMPTS, Pod
from ..model.workload import (
    CloneSet,
    ControllerRevision,
    DaemonSet,
    Deployment,
    PodTemplateSpec,
    PriorityClass,
    ReplicaSet,
    StatefulSet,
)
from ..workloads.deployment_rollout import replica_set
from ..workloads.ownership import HASH_LABEL, PodIndex, is_active, refers_to, stable_uid
from ..workloads.revisions import (
    REVISION_LABEL,
    Revisioned,
    by_creation,
    infer_templates,
    make_revision,
    mark_of,
    recognized,
    update_revision,
)
from ..workloads.stateful_pods import by_ordinal

Templated = Deployment | StatefulSet | DaemonSet | CloneSet
T = TypeVar("T", bound=Object)
_GUESSED = (
    "Which templates older pods have is guessed from these pods, as the input has no ControllerRevisions or "
    "ReplicaSets that tell it: {}."
)
_GENERATION, _GENERATION_LABEL = "deprecated.daemonset.template.generation", "pod-template-generation"
"""Annotation of a DaemonSet and label of its pods: the number of their template."""


def recognize_templates(cluster: Cluster, before: Mapping[str, Object], pods: PodIndex) -> Cluster:
    """Return a cluster with the ReplicaSets and the revisions of templates that its pods name.

    Pods of a StatefulSet or DaemonSet of which none names a revision have the template that it had.

    Parameters
    ----------
    cluster : Cluster
        Valid objects with defaults.
    before : mapping of str to Object
        By ``Kind namespace/name``, workloads as they were when the pods were read, where another file has
        changed them.
    pods : PodIndex
        All pods, finished ones included.
    """
    recognition = _Recognition(cluster, before, pods)
    if marked := recognition.marked_pods():
        cluster = replace_fields(cluster, pods=[marked.get(pod.key, pod) for pod in cluster.pods])
        pods = PodIndex(cluster.pods + cluster.finished)
        recognition = _Recognition(cluster, before, pods, recognition.marks)
    others = recognition.with_revisions(recognition.with_replica_sets())
    guesses = recognition.guesses
    warnings = [_GUESSED.format(examples(guesses, 3))] if guesses else []
    cluster = replace_fields(cluster, others=others, warnings=[*cluster.warnings, *warnings])
    cluster.pods_by_owner = pods
    return cluster


class _Recognition:
    """The templates of the pods of a cluster that is read.

    Attributes
    ----------
    guesses : list of str
        See `_note_guess`.
    marks : dict of str to str
        By ``Kind namespace/name``, the marks that `marked_pods` has given.
    """

    def __init__(
        self,
        cluster: Cluster,
        before: Mapping[str, Object],
        pods: PodIndex,
        marks: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.cluster = cluster
        self.guesses: list[str] = []
        self.marks = dict(marks)
        self._before = before
        self._index = pods

    def _template_before(self, owner: Templated) -> PodTemplateSpec:
        """Return the template that a workload had when the pods were read."""
        before = self._before.get(owner.full_name, owner)
        return before.spec.template if isinstance(before, Templated) else owner.spec.template

    # ---- revisions -----------------------------------------------------------------------------------------

    def marked_pods(self) -> dict[str, Pod]:
        """Return with the mark of their template the pods of workloads of which none has one, by key."""
        marked = dict[str, Pod]()
        for obj in self.cluster.others:
            if isinstance(obj, Revisioned):
                pods = list(filter(is_active, self._index.owned(obj)))
                if pods and not any(REVISION_LABEL in pod.metadata.labels for pod in pods):
                    was = replace(obj, spec=replace(obj.spec, template=self._template_before(obj)))
                    revision = update_revision(was, self._revisions_of(obj))
                    mark = mark_of(obj, revision or make_revision(was, was.spec.template, 1))
                    self.marks[obj.full_name] = mark
                    for pod in pods:
                        labels = {**pod.metadata.labels, REVISION_LABEL: mark}
                        marked[pod.key] = replace(pod, metadata=replace(pod.metadata, labels=labels))
        return marked

    def _revisions_of(self, obj: Revisioned) -> list[ControllerRevision]:
        listed = self._listed_revisions.get((obj.namespace, obj.kind, obj.name), ())
        return [revision for revision in listed if refers_to(revision.metadata.controller(), obj)]

    def with_revisions(self, others: list[Object]) -> list[Object]:
        """Return objects with the revisions that pods name, and StatefulSets whose status names one of them:
        where a file has no status, the pod of the lowest ordinal has the current revision."""
        kept, all_inferred = list[Object](), list[ControllerRevision]()
        for obj in others:
            if isinstance(obj, Revisioned):
                revisions = self._revisions_of(obj)
                inferred = self._inferred_revisions(obj, revisions)
                all_inferred += inferred
                if isinstance(obj, StatefulSet):
                    names = {revision.name for revision in (*revisions, *inferred)}
                    pods = by_ordinal(obj, filter(is_active, self._index.owned(obj)))
                    lowest = pods[min(pods)].metadata.labels.get(REVISION_LABEL, "") if pods else ""
                    if obj.status.current_revision not in names and lowest in names:
                        obj = replace(obj, status=replace(obj.status, current_revision=lowest))
            kept.append(obj)
        return [*kept, *all_inferred]

    @cached_property
    def _listed_revisions(self) -> Mapping[tuple[str, str, str], list[ControllerRevision]]:
        revisions: defaultdict[tuple[str, str, str], list[ControllerRevision]] = defaultdict(list)
        for obj in self.cluster.others:
            reference = obj.metadata.controller() if isinstance(obj, ControllerRevision) else None
            if isinstance(obj, ControllerRevision) and reference is not None:
                revisions[obj.namespace, reference.kind, reference.name].append(obj)
        return revisions

    def _inferred_revisions(
        self, owner: Revisioned, listed: list[ControllerRevision]
    ) -> list[ControllerRevision]:
        """Return the revisions that the pods of a workload name, and that are not listed."""
        pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self._index.owned(owner):
            if is_active(pod) and REVISION_LABEL in pod.metadata.labels:
                pods[pod.metadata.labels[REVISION_LABEL]].append(pod)
        for revision in listed:
            pods.pop(mark_of(owner, revision), None)
        prefix = "" if isinstance(owner, DaemonSet) else f"{owner.name}-"
        known = self.marks.get(owner.full_name) or self._known_mark(owner, pods)
        templates = infer_templates(pods, REVISION_LABEL, self._template_before(owner), known)
        self._note_guess(owner, REVISION_LABEL, templates, known is not None)
        born = owner.metadata.creation_timestamp
        return [
            _identified(make_revision(owner, template, number, mark.removeprefix(prefix)), born)
            for number, (mark, template) in enumerate(templates.items(), 1)
        ]

    def _known_mark(self, owner: Revisioned, pods: Mapping[str, list[Pod]]) -> str | None:
        """Return the hash of the template that a workload had when its pods were read, which pods need not
        have; None if nothing tells it."""
        if not isinstance(owner, DaemonSet):
            return owner.status.update_revision or None
        before = self._before.get(owner.full_name, owner)
        generation = before.metadata.annotations.get(_GENERATION)
        generations = {mark: each[-1].metadata.labels.get(_GENERATION_LABEL) for mark, each in pods.items()}
        if generation is None or None in generations.values():
            return None
        return next((mark for mark, label in generations.items() if label == generation), "")

    def _note_guess(
        self, owner: Templated, label: str, templates: Mapping[str, PodTemplateSpec], is_known: bool
    ) -> None:
        """Note a workload if it depends on inferred templates which pods are replaced: where its own has
        changed, or nothing tells which of several it was.

        Parameters
        ----------
        templates : mapping of str to PodTemplateSpec
            See `infer_templates`.
        is_known : bool
            Whether something tells which pods have the template that it had.
        """
        is_inferred = any(label in template.metadata.annotations for template in templates.values())
        has_changed = owner.spec.template != self._template_before(owner)
        if is_inferred and (has_changed or not (is_known or len(templates) == 1)):
            self.guesses.append(owner.full_name)

    # ---- ReplicaSets of Deployments ------------------------------------------------------------------------

    def with_replica_sets(self) -> list[Object]:
        """Return the objects of the cluster, with the ReplicaSets that pods name of Deployments that control
        none; listed ones of their names are theirs."""
        others = self.cluster.others
        owners: defaultdict[tuple[str, str], list[OwnerReference]] = defaultdict(list)
        for obj in others:
            reference = obj.metadata.controller() if isinstance(obj, ReplicaSet) else None
            if reference is not None:
                owners[obj.namespace, reference.name].append(reference)
        named = {
            shown.key: shown
            for obj in others
            if isinstance(obj, Deployment)
            if not any(refers_to(reference, obj) for reference in owners.get((obj.namespace, obj.name), ()))
            for shown in self._replica_sets(obj)
        }
        listed = [named.pop(obj.key, obj) if isinstance(obj, ReplicaSet) else obj for obj in others]
        return [*listed, *named.values()]

    def _replica_sets(self, deployment: Deployment) -> list[ReplicaSet]:
        """Return the ReplicaSets that the pods of a Deployment name."""
        pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self._index.of_template(deployment.namespace, deployment.name):
            pods[pod.metadata.labels[HASH_LABEL]].append(pod)
        sets = []
        templates = infer_templates(pods, HASH_LABEL, self._template_before(deployment))
        self._note_guess(deployment, HASH_LABEL, templates, False)
        wanted = deployment.spec.template
        if wanted != self._template_before(deployment):
            again = recognized(wanted, HASH_LABEL, templates, chain.from_iterable(pods.values()))
            templates |= {again: wanted} if again else {}
        for suffix, template in templates.items():
            owner = max(pods[suffix], key=by_creation).metadata.controller()
            shown = replica_set(deployment, suffix, template, len(pods[suffix]))
            born = deployment.metadata.creation_timestamp
            sets.append(_identified(shown, born, owner.uid if owner else ""))
        return sets


def _identified(obj: T, created: str | None, uid: str = "") -> T:
    """Return a new object of a workload with a UID and a creation time."""
    uid = uid or stable_uid(obj.kind, obj.namespace, obj.name)
    return replace(obj, metadata=replace(obj.metadata, uid=uid, creation_timestamp=created))


# ---- shown classes -----------------------------------------------------------------------------------------
#
# Priority classes that are not in the input, as the listed pods show them.

_EXAMPLES = 10


def shown_classes(objects: Iterable[Object], known: Collection[str]) -> tuple[list[PriorityClass], list[str]]:
    """Find the priority classes that pods of an API server name and that are not listed.

    The admission plugin Priority has written value and preemption policy of the class into these pods, so a
    new pod of the class gets the same. If pods differ, because the class was made again with another value,
    the newest pod is right.

    Parameters
    ----------
    known : collection of str
        Names of the classes that need not be found.

    Returns
    -------
    list of PriorityClass
        In the order of their first pods.
    list of str
        Warnings.
    """
    newest: dict[str, dict[tuple[int, str], Pod]] = {}
    for obj in objects:
        if isinstance(obj, Pod) and obj.spec.priority_class_name and obj.spec.priority is not None:
            spec, meta = obj.spec, obj.metadata
            is_served = spec.node_name or meta.uid or meta.resource_version
            if is_served and spec.priority_class_name not in known:
                shown = newest.setdefault(spec.priority_class_name, {})
                values = obj.spec.priority, spec.preemption_policy or PREEMPTS
                if values not in shown or _created(shown[values]) < _created(obj):
                    shown[values] = obj
    classes_shown, names, warnings = list[PriorityClass](), list[str](), list[str]()
    for name, pods in newest.items():
        value, policy = chosen = max(pods, key=lambda values: _created(pods[values]))
        classes_shown.append(
            PriorityClass(metadata=ObjectMeta(name=name), value=value, preemption_policy=policy)
        )
        names.append(f"{shorten(name)} ({_text(*chosen)})")
        if len(pods) > 1:
            texts = examples([f"{_text(*fields)} by {pod.key}" for fields, pod in pods.items()], _EXAMPLES)
            text = f"Pods show different values of the PriorityClass {shorten(name)}: {texts}"
            warnings.append(f"{text}; that of the newest pod counts, {_text(*chosen)}.")
    if classes_shown:
        head = "PriorityClasses that are not in the input are taken from pods that have them"
        hint = "kubectl get priorityclass -o json lists them"
        warnings.append(RoutineNote(f"{head}: {examples(names, _EXAMPLES)}; {hint}."))
    return classes_shown, warnings


def _created(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""


def _text(value: int, policy: str | None) -> str:
    return str(value) if policy in (None, PREEMPTS) else f"{value}, {policy}"
