"""Expands workloads: creates the pods that kube-controller-manager would still create."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace as replace_fields
from functools import cached_property
from itertools import chain
from math import inf
from typing import TypeVar

from msgspec.structs import replace

from moorage.errors import InputError, examples
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.meta import LabelSelector, Object
from moorage.objects.model.node import Node
from moorage.objects.model.other_workloads import CloneSet
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.model.workload import (
    MAX_PODS,
    ControllerRevision,
    DaemonSet,
    Deployment,
    PodTemplateSpec,
    ReplicaSet,
    StatefulSet,
    StatefulSetStatus,
)

from .ages import newest_timestamp, seconds
from .daemon_pods import node_of
from .daemon_rollout import DaemonRollout, is_rolled_out
from .deployment_rollout import next_step, replica_set
from .inferred_templates import by_creation, infer_templates, recognized
from .missing_pods import create_daemons, create_missing, written_revision
from .naming import Names, stable_uid
from .other_kinds import PARENTS, is_child, next_children
from .ownership import FINISHED, HASH_LABEL, PodIndex, is_active, is_healthy, refers_to
from .pod_claims import ephemeral_claims
from .readiness import progressing, unready_templates, with_readiness
from .revisions import REVISION_LABEL, Mark, Revisioned, make_revision, mark_of
from .stateful_pods import by_ordinal
from .top_controller import Workloads

Templated = Deployment | StatefulSet | DaemonSet | CloneSet
T = TypeVar("T", bound=Object)
NOTHING: Mapping[str, Object] = {}
_GUESSED = (
    "Which templates older pods have is guessed from these pods, as the input has no ControllerRevisions or "
    "ReplicaSets that tell it: {}."
)
_GENERATION, _GENERATION_LABEL = "deprecated.daemonset.template.generation", "pod-template-generation"
"""Annotation of a DaemonSet and label of its pods: the number of their template."""


def expand_workloads(cluster: Cluster, before: Mapping[str, Object] = NOTHING) -> Cluster:
    """Add the missing pods of the listed workloads.

    A listed pod belongs to a workload if its controller reference names the workload (kind, name, and UID
    where both have one); a pod without controller is adopted by the first workload whose selector matches it.
    Pods that succeeded, failed or are being deleted do not count, with the exceptions below. Missing pods are
    created as the controllers of Kubernetes v1.36 do it:

    - **ReplicaSet, ReplicationController:** `replicas` pods, named with a random-looking suffix.
    - **Deployment:** its ReplicaSets are created and scaled as far as no pod has to be deleted or bound
      first (`next_step`); the rest of a rollout takes place in a scheduler. Without listed ReplicaSets they
      are found again from the pods that name them.
    - **StatefulSet:** one pod per ordinal whose name is free (a pod being deleted still occupies its name),
      with a volume per claim template, and the claims that are not listed; unless the pod management policy
      is Parallel, up to the first that is not available. The rest is made in a scheduler.
    - **DaemonSet:** one pod per node that it should run on, pinned to it.
    - **Job:** up to `parallelism` pods at once, as long as completions are missing.

    A workload that is being deleted, or whose namespace is, creates nothing. New pods carry labels,
    annotations and spec of the template, and a controller reference. They are as young as the newest listed
    object. Workloads whose objects nobody has changed make theirs first, the oldest of them before the
    others; those that are new or changed follow in their order.

    Parameters
    ----------
    cluster : Cluster
        Valid objects with defaults.
    before : mapping of str to Object, optional
        By ``Kind namespace/name``, workloads as they were when the pods were read, where another file has
        changed them.

    Returns
    -------
    Cluster
        The same objects, with the new pods after the listed ones, and new ReplicaSets, revisions of templates
        and claims among the others.

    Raises
    ------
    InputError
        If workloads request more pods than `MAX_PODS` in all.
    """
    expansion = Expansion(cluster, before)
    going = {one.name for one in cluster.namespaces if one.metadata.deletion_timestamp is not None}
    idle = [obj for obj in cluster.others if obj.namespace in going]
    others = [obj for obj in cluster.others if obj.namespace not in going] if idle else cluster.others
    others = _with_replica_sets(expansion, _with_children(expansion, others))
    others = [_with_status(expansion, obj) for obj in others]
    for obj in _in_turn(others, before):
        create_missing(expansion, obj, cluster.nodes)
        if isinstance(obj, DaemonSet):
            _surge(expansion, obj)
    others = [*expansion.with_revisions(others), *idle]
    pods = cluster.pods + expansion.pods
    claims = [*expansion.claims, *ephemeral_claims(pods)]
    listed = {obj.key for obj in others if isinstance(obj, PersistentVolumeClaim)}
    first = {claim.key: claim for claim in reversed(claims)}  # of two with one name the first is kept
    new = [claim for claim in claims if claim.key not in listed and claim is first[claim.key]]
    told = [_GUESSED.format(examples(expansion.guesses, 3))] if expansion.guesses else []
    return replace_fields(cluster, pods=pods, others=[*others, *new], warnings=[*cluster.warnings, *told])


def _in_turn(others: list[Object], before: Mapping[str, Object]) -> list[Object]:
    """Return objects in the order in which they make their pods; what a workload controls has its turn."""
    turns: dict[tuple[str, str], tuple[float, int]] = {}
    for at, obj in enumerate(others):
        created = None if f"{obj.kind} {obj.key}" in before else obj.metadata.creation_timestamp
        turns[obj.kind, obj.key] = inf if created is None else seconds(created), at

    def turn(obj: Object) -> tuple[float, int]:
        owner = obj.metadata.controller()
        own = turns[obj.kind, obj.key]
        return own if owner is None else turns.get((owner.kind, f"{obj.namespace}/{owner.name}"), own)

    return sorted(others, key=turn)


def with_pods_in_turn(
    cluster: Cluster, made: int, objects: Iterable[Object], before: Mapping[str, Object]
) -> list[Pod]:
    """Return the pods of a cluster, single ones of manifests among those that workloads make: each where its
    manifest, or that of its workload, stands in the files.

    Parameters
    ----------
    cluster : Cluster
        After `expand_workloads`.
    made : int
        Index of the first pod that a workload makes.
    objects : iterable of Object
        In the order of the files.
    before : mapping of str to Object
        See `expand_workloads`.
    """
    listed, new = cluster.pods[:made], cluster.pods[made:]
    single = [pod for pod in listed if _has_turn(pod)]
    if not single or not new:
        return cluster.pods
    keys = (f"{one.kind} {one.key}" for one in objects if _has_turn(one) or f"{one.kind} {one.key}" in before)
    places = {key: place for place, key in enumerate(keys)}
    workloads = Workloads(cluster.others)

    def place(pod: Pod) -> int:
        """Where the files say it; -1 for a pod of a workload that nobody has changed."""
        namespace, kind, name, _ = workloads.of(pod)
        return places.get(f"{kind} {namespace}/{name}", -1)

    kept = [pod for pod in listed if not _has_turn(pod)]
    return [*kept, *sorted([*single, *new], key=place)]


def _has_turn(obj: Object) -> bool:
    """Whether an object is that of a manifest, and no pod that has a node."""
    return obj.metadata.creation_timestamp is None and not (isinstance(obj, Pod) and obj.spec.node_name)


class Expansion:
    """The pods of a cluster that is read, and the pods and claims that its workloads add (`PodControl`).

    Parameters
    ----------
    before : mapping of str to Object
        See `expand_workloads`.

    Attributes
    ----------
    pods : list of Pod
    claims : list of PersistentVolumeClaim
    guesses : list of str
        See `note_guess`.
    """

    def __init__(self, cluster: Cluster, before: Mapping[str, Object]) -> None:
        self.cluster = cluster
        self.pods: list[Pod] = []
        self.claims: list[PersistentVolumeClaim] = []
        self.guesses: list[str] = []
        self._before = before
        self._revisions: dict[str, list[ControllerRevision]] = {}

    @cached_property
    def index(self) -> PodIndex:
        """The listed pods."""
        return PodIndex(self.cluster.pods + self.cluster.finished)

    @cached_property
    def now(self) -> str | None:
        """The creation timestamp of what is made."""
        return newest_timestamp(self.cluster)

    @cached_property
    def unready(self) -> Mapping[Mark, int]:
        """The templates of whose listed pods none is ready (`unready_templates`)."""
        now = 0.0 if self.now is None else seconds(self.now)
        return unready_templates(self.cluster.pods, progressing(self.cluster.others, now))

    @cached_property
    def names(self) -> Names:
        """The names of the listed pods, and of new ones."""
        names = Names()
        for pod in self.cluster.pods:
            names.take("Pod", pod.namespace, pod.name)
        return names

    def active(self, owner: Object) -> int:
        """Return the number of active pods that an object controls."""
        return sum(map(is_active, self.index.owned(owner)))

    def owned(self, owner: Object) -> list[Pod]:
        """Return the pods that an object controls, in any state."""
        return self.index.owned(owner)

    def adopt(self, owner: Object, selector: LabelSelector | None) -> list[Pod]:
        """Adopt the active pods without a controller that match a selector; each pod is adopted once.

        Parameters
        ----------
        selector : LabelSelector or None
            None adopts no pods.
        """
        return self.index.adopt(owner, selector)

    def daemon_nodes(self, owner: DaemonSet) -> Container[str]:
        """Return the nodes that have, or will have, a pod of a DaemonSet that has not finished."""
        return {node_of(pod.spec) for pod in self.owned(owner) if pod.status.phase not in FINISHED}

    def count(self, owner: Object, missing: int, path: str = "spec.replicas") -> range:
        """Check the number of new pods before the first one is created.

        Parameters
        ----------
        owner : Object
            The workload.
        missing : int
            Number of pods to create; negative numbers count as 0.
        path : str
            Path of the field with the number, for errors.

        Returns
        -------
        range
            Numbers of the new pods.

        Raises
        ------
        InputError
            There would be more than `MAX_PODS` pods.
        """
        return counted(owner, len(self.pods), missing, path)

    def create(self, owner: Object, pod: Pod) -> None:
        """Add a pod with a UID, a creation time, and a name.

        Parameters
        ----------
        owner : Object
            The workload.
        pod : Pod
            Without a name it gets one that starts with its `generateName`. A pod whose name is taken is not
            added.
        """
        meta = pod.metadata
        name = meta.name or self.names.generate("Pod", meta.namespace, meta.generate_name)
        if meta.name and not self.names.take("Pod", meta.namespace, name):
            return
        uid = stable_uid("Pod", meta.namespace, name)
        meta = replace(meta, name=name, uid=uid, creation_timestamp=meta.creation_timestamp or self.now)
        self.pods.append(with_readiness(replace(pod, metadata=meta), self.unready))

    def is_new(self, node: Node) -> bool:
        """Whether a node is that of a manifest, in a cluster that has others."""
        return node.metadata.creation_timestamp is None and self.now is not None

    def create_claim(self, owner: Object, claim: PersistentVolumeClaim) -> None:
        """Add a claim."""
        self.claims.append(claim)

    def template_before(self, owner: Templated) -> PodTemplateSpec:
        """Return the template that a workload had when the pods were read."""
        before = self._before.get(f"{owner.kind} {owner.key}", owner)
        return before.spec.template if isinstance(before, Templated) else owner.spec.template

    # ---- revisions -----------------------------------------------------------------------------------------

    def revisions(self, owner: Object) -> list[ControllerRevision]:
        """Return the revisions that an object controls: listed ones, and those that its pods name."""
        key = f"{owner.kind} {owner.key}"
        if key not in self._revisions and isinstance(owner, Revisioned):
            listed = self._listed_revisions.get((owner.namespace, owner.kind, owner.name), ())
            found = [one for one in listed if refers_to(one.metadata.controller(), owner)]
            self._revisions[key] = found + self._inferred_revisions(owner, found)
        return self._revisions.get(key, [])

    @cached_property
    def _listed_revisions(self) -> Mapping[tuple[str, str, str], list[ControllerRevision]]:
        found: defaultdict[tuple[str, str, str], list[ControllerRevision]] = defaultdict(list)
        for obj in self.cluster.others:
            reference = obj.metadata.controller() if isinstance(obj, ControllerRevision) else None
            if isinstance(obj, ControllerRevision) and reference is not None:
                found[obj.namespace, reference.kind, reference.name].append(obj)
        return found

    def _inferred_revisions(
        self, owner: Revisioned, listed: list[ControllerRevision]
    ) -> list[ControllerRevision]:
        """Return the revisions that the pods of a workload name, and that are not listed."""
        pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in self.owned(owner):
            if is_active(pod) and REVISION_LABEL in pod.metadata.labels:
                pods[pod.metadata.labels[REVISION_LABEL]].append(pod)
        for one in listed:
            pods.pop(mark_of(owner, one), None)
        prefix = "" if isinstance(owner, DaemonSet) else f"{owner.name}-"
        known = self._known_mark(owner, pods)
        templates = infer_templates(pods, REVISION_LABEL, self.template_before(owner), known)
        self.note_guess(owner, REVISION_LABEL, templates, known is not None)
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
        before = self._before.get(f"{owner.kind} {owner.key}", owner)
        generation = before.metadata.annotations.get(_GENERATION)
        told = {mark: each[-1].metadata.labels.get(_GENERATION_LABEL) for mark, each in pods.items()}
        if generation is None or None in told.values():
            return None
        return next((mark for mark, label in told.items() if label == generation), "")

    def note_guess(
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
        is_inferred = any(label in one.metadata.annotations for one in templates.values())
        has_changed = owner.spec.template != self.template_before(owner)
        if is_inferred and (has_changed or not (is_known or len(templates) == 1)):
            self.guesses.append(f"{owner.kind} {owner.key}")

    def write_revision(self, owner: Object, revision: ControllerRevision) -> ControllerRevision:
        """Add a revision, or replace the one of its name.

        Returns
        -------
        ControllerRevision
            With a UID, and a creation time if it is new.
        """
        if not revision.metadata.uid:
            revision = _identified(revision, self.now)
        listed = self._revisions[f"{owner.kind} {owner.key}"]
        listed[:] = [one for one in listed if one.name != revision.name] + [revision]
        return revision

    def with_revisions(self, others: list[Object]) -> list[Object]:
        """Return objects with the revisions that were added and changed."""
        found = {one.key: one for listed in self._revisions.values() for one in listed}
        kept = [found.pop(obj.key, obj) if isinstance(obj, ControllerRevision) else obj for obj in others]
        return [*kept, *found.values()]


def counted(owner: Object, present: int, missing: int, path: str) -> range:
    """Return the numbers of the pods that a workload creates.

    Parameters
    ----------
    owner : Object
        The workload.
    present, missing : int
        Number of pods that were created, and that are to be created.
    path : str
        Path of the field with the number, for errors.

    Raises
    ------
    InputError
        There would be more than `MAX_PODS` pods.
    """
    if present + missing > MAX_PODS:
        message = f"{missing} pods to create would make more than {MAX_PODS} in all"
        raise InputError(message, obj=f"{owner.kind} {owner.key}", path=path)
    return range(missing)


# ---- workloads of other projects ---------------------------------------------------------------------------


def _with_children(expansion: Expansion, others: list[Object]) -> list[Object]:
    """Create and scale what controllers of other projects make; return all objects, new ones last."""
    found = {(obj.kind, obj.key): obj for obj in others}
    for obj in others if any(isinstance(obj, PARENTS) for obj in others) else ():
        if isinstance(obj, PARENTS) and obj.metadata.deletion_timestamp is None:
            for one in next_children(obj, [one for one in found.values() if is_child(obj, one)]) or ():
                found[one.kind, one.key] = one if one.metadata.uid else _identified(one, expansion.now)
    return list(found.values())


# ---- ReplicaSets of Deployments ----------------------------------------------------------------------------


def _with_replica_sets(expansion: Expansion, others: list[Object]) -> list[Object]:
    """Create and scale the ReplicaSets of the Deployments; return all objects, new ones after their
    Deployment."""
    deployments = {obj.key: obj for obj in others if isinstance(obj, Deployment)}
    sets: defaultdict[str, list[ReplicaSet]] = defaultdict(list)
    for obj in others if deployments else ():
        reference = obj.metadata.controller() if isinstance(obj, ReplicaSet) else None
        owner = deployments.get(f"{obj.namespace}/{reference.name}") if reference else None
        if isinstance(obj, ReplicaSet) and owner is not None and refers_to(reference, owner):
            sets[owner.key].append(obj)
    known = {obj.key for obj in others if isinstance(obj, ReplicaSet)}
    rolled: dict[str, ReplicaSet] = {}
    created: dict[str, list[ReplicaSet]] = {}
    for key, deployment in deployments.items():
        if deployment.metadata.deletion_timestamp is None:
            found = _rolled_forward(expansion, deployment, sets[key] or _inferred(expansion, deployment))
            rolled.update((one.key, one) for one in found if one.key in known)
            created[key] = [one for one in found if one.key not in known]
    result: list[Object] = []
    for obj in others:
        result.append(rolled.get(obj.key, obj) if isinstance(obj, ReplicaSet) else obj)
        result += created.get(obj.key, ()) if isinstance(obj, Deployment) else ()
    return result


def _rolled_forward(expansion: Expansion, deployment: Deployment, sets: list[ReplicaSet]) -> list[ReplicaSet]:
    """Take the steps of a rollout that only create pods; return the ReplicaSets."""
    by_name = {one.name: one for one in sets}
    available = {one.name: sum(map(is_healthy, expansion.owned(one))) for one in sets}
    while steps := next_step(deployment, list(by_name.values()), available, bool(sets)):
        before = {one.name: by_name[one.name].spec.replicas or 0 for one in steps if one.name in by_name}
        if any((one.spec.replicas or 0) < before.get(one.name, 0) for one in steps):
            break
        for one in steps:
            by_name[one.name] = one if one.name in by_name else _identified(one, expansion.now)
    return list(by_name.values())


def _identified(made: T, created: str | None, uid: str = "") -> T:
    """Return a new object of a workload with a UID and a creation time."""
    uid = uid or stable_uid(made.kind, made.namespace, made.name)
    return replace(made, metadata=replace(made.metadata, uid=uid, creation_timestamp=created))


def _inferred(expansion: Expansion, deployment: Deployment) -> list[ReplicaSet]:
    """Return the ReplicaSets that the pods of a Deployment name."""
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in expansion.index.of_template(deployment.namespace, deployment.name):
        pods[pod.metadata.labels[HASH_LABEL]].append(pod)
    sets = []
    templates = infer_templates(pods, HASH_LABEL, expansion.template_before(deployment))
    expansion.note_guess(deployment, HASH_LABEL, templates, False)
    wanted = deployment.spec.template
    if wanted != expansion.template_before(deployment):
        again = recognized(wanted, HASH_LABEL, templates, chain.from_iterable(pods.values()))
        templates |= {again: wanted} if again else {}
    for suffix, template in templates.items():
        owner = max(pods[suffix], key=by_creation).metadata.controller()
        made = replica_set(deployment, suffix, template, len(pods[suffix]))
        born = deployment.metadata.creation_timestamp
        sets.append(_identified(made, born, owner.uid if owner else ""))
    return sets


# ---- StatefulSets and DaemonSets ---------------------------------------------------------------------------


def _with_status(expansion: Expansion, obj: Object) -> Object:
    """Return a StatefulSet with the names of its revisions; any other object as it is. Where a file has no
    status, the pod of the lowest ordinal has the current revision."""
    if not isinstance(obj, StatefulSet) or obj.metadata.deletion_timestamp is not None:
        return obj
    names = {one.name for one in expansion.revisions(obj)}
    update = written_revision(expansion, obj).name
    pods = by_ordinal(obj, filter(is_active, expansion.owned(obj)))
    lowest = pods[min(pods)].metadata.labels.get(REVISION_LABEL, "") if pods else ""
    current = next((name for name in (obj.status.current_revision, lowest) if name in names), update)
    return replace(obj, status=StatefulSetStatus(current_revision=current, update_revision=update))


def _surge(expansion: Expansion, obj: DaemonSet) -> None:
    """Create the pods of a rolling update that run beside old ones."""
    if obj.metadata.deletion_timestamp is None:
        mark = mark_of(obj, written_revision(expansion, obj))
        pods = expansion.owned(obj)
        if not is_rolled_out(obj, mark, pods):
            rollout = DaemonRollout(obj, mark, expansion.cluster.nodes, pods)
            step = rollout.next_step(lambda pod: -inf if is_healthy(pod) else inf, 0.0)
            create_daemons(expansion, obj, step.nodes)
