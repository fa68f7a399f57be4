"""The pods that the controllers of workloads create next."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from ..model.meta import LabelSelector, Object, ObjectMeta
from ..model.node import REGION, ZONE, Node
from ..model.pod import POD_GATED, POD_PENDING, Pod, PodSpec, UnreadFields
from ..model.storage import PersistentVolumeClaim
from ..model.workload import (
    CloneSet,
    ControllerRevision,
    DaemonSet,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from ..read.object_defaults import merge_label_keys
from .daemon_pods import daemon_tolerations, node_of, pinned_spec, should_run
from .job_state import (
    FAILURES,
    INDEX,
    TRACKING,
    JobState,
    failures_by_index,
    is_left_to_others,
    is_over,
    job_labels,
    missing_pods,
    pending_indexes,
    state_of,
)
from .ownership import HASH_LABEL, controller_reference, is_active, is_healthy, refers_to
from .revisions import (
    REVISION_LABEL,
    Revisioned,
    is_inferred,
    latest_revision,
    mark_of,
    recognized,
    template_of,
)
from .stateful_pods import (
    Revisions,
    by_ordinal,
    claims_of,
    missing_ordinals,
    ordinals,
    revision_for,
    with_claims,
)

_BEFORE_ALL = "0001-01-01T00:00:00Z"  # the creation time of what comes before all that waits


class PodControl(Protocol):
    """What controllers know about pods, and where they create them; by default, of a workload without any."""

    def active(self, owner: Object) -> int:
        """Return the number of active pods that an object controls."""
        return 0

    def owned(self, owner: Object) -> list[Pod]:
        """Return the pods that an object controls, in any state."""
        return []

    def adopt(self, owner: Object, selector: LabelSelector | None) -> list[Pod]:
        """Adopt the active pods without a controller that match a selector, and return them.

        Parameters
        ----------
        selector : LabelSelector or None
            None adopts no pods.
        """
        return []

    def daemon_nodes(self, owner: DaemonSet) -> Container[str]:
        """Return the nodes that have, or will have, a pod of a DaemonSet that has not finished."""
        return ()

    def count(self, owner: Object, missing: int, path: str = "spec.replicas") -> range:
        """Return the numbers of new pods; raise InputError if there would be more than `MAX_PODS`.

        Parameters
        ----------
        missing : int
            Number of pods to create; negative numbers count as 0.
        path : str
            Path of the field with the number, for errors.
        """
        return range(missing)

    def create(self, owner: Object, pod: Pod, count: int = 1) -> None:
        """Create equal pods; those without a name get names from their `generateName`. Nothing happens if the
        name is taken.
        """

    def is_new(self, node: Node) -> bool:
        """Whether a node has come since the cluster was read."""
        return False

    def create_claim(self, owner: Object, claim: PersistentVolumeClaim) -> None:
        """Create a claim, unless it exists."""

    def revisions(self, owner: Object) -> list[ControllerRevision]:
        """Return the revisions that an object controls."""
        return []

    def write_revision(self, owner: Object, revision: ControllerRevision) -> ControllerRevision:
        """Create a revision, or update one that has a UID, and return it."""
        return revision


def create_missing(control: PodControl, obj: Object, nodes: Iterable[Node]) -> None:
    """Create the missing pods of a workload; of an object of another kind nothing.

    Parameters
    ----------
    obj : Object
        With defaults. One that is being deleted creates nothing.
    nodes : iterable of Node
        On which a DaemonSet may run.

    Raises
    ------
    InputError
        There would be more than `MAX_PODS` pods.
    """
    if obj.metadata.deletion_timestamp is not None:
        return
    if isinstance(obj, CloneSet):
        mark = mark_of(obj, written_revision(control, obj))
        _create_replicas(control, obj, obj.spec.selector, obj.spec.template, {REVISION_LABEL: mark})
    elif isinstance(obj, ReplicaSet):
        _create_replicas(control, obj, obj.spec.selector, obj.spec.template, {})
    elif isinstance(obj, ReplicationController):
        selector, template = LabelSelector(match_labels=obj.spec.selector or {}), obj.spec.template
        _create_replicas(control, obj, selector, template or PodTemplateSpec(), {})
    elif isinstance(obj, StatefulSet):
        # those that are created before another pod is bound or deleted
        pods = by_ordinal(obj, [*control.owned(obj), *control.adopt(obj, obj.spec.selector)])
        revisions = current_and_update(control, obj)
        create_claims(control, obj, [ordinal for ordinal in ordinals(obj) if ordinal in pods])
        create_ordinals(control, obj, missing_ordinals(obj, pods, is_healthy), revisions)
    elif isinstance(obj, DaemonSet):
        _create_daemons(control, obj, nodes)
    elif isinstance(obj, Job) and not (is_left_to_others(obj) or is_over(obj)):
        own = [*control.owned(obj), *control.adopt(obj, obj.spec.selector)]
        create_job_pods(control, obj, own, state_of(obj, own))


def new_pod(
    owner: Object,
    template: PodTemplateSpec,
    *,
    name: str = "",
    base: str = "",
    marks: tuple[dict[str, str], dict[str, str]] = ({}, {}),
    spec: PodSpec | None = None,
) -> Pod:
    """Return a pod of a workload as its controller creates it: without UID and creation time.

    Parameters
    ----------
    name : str
        Name of the pod; "" if it is generated.
    base : str
        Prefix of a generated name.
    marks : (dict of str to str, dict of str to str)
        Labels and annotations in addition to those of the template.
    spec : PodSpec, optional
        Replaces that of the template.
    """
    labels, annotations = marks
    own = template.metadata
    meta = ObjectMeta(
        name=name,
        generate_name=base,
        namespace=owner.namespace,
        labels=own.labels | labels if labels else own.labels,
        annotations=own.annotations | annotations if annotations else own.annotations,
        owner_references=controller_reference(owner),
    )
    spec = merge_label_keys(spec or template.spec, meta.labels)
    status = POD_GATED if spec.scheduling_gates else POD_PENDING
    unread = None if is_inferred(template) else UnreadFields(template.unread)
    return Pod(metadata=meta, spec=spec, status=status, unread=unread)


def _create_replicas(
    control: PodControl,
    obj: ReplicaSet | ReplicationController,
    selector: LabelSelector | None,
    template: PodTemplateSpec,
    labels: dict[str, str],
) -> None:
    missing = (obj.spec.replicas or 0) - control.active(obj) - len(control.adopt(obj, selector))
    if missing > 0:
        pod = new_pod(obj, template, base=f"{obj.name}-", marks=(labels, {}))
        control.create(obj, pod, len(control.count(obj, missing)))


def current_and_update(control: PodControl, obj: StatefulSet) -> Revisions:
    """Return the revisions of a StatefulSet, after its template has become the latest one."""
    update = written_revision(control, obj)
    named = (revision for revision in control.revisions(obj) if revision.name == obj.status.current_revision)
    return Revisions(next(named, update), update)


def written_revision(control: PodControl, obj: Revisioned) -> ControllerRevision:
    """Return the revision with the template of a workload, which becomes the latest one; where no file had
    its older revisions, they are recognised by their pods.
    """
    revisions = control.revisions(obj)
    latest, is_changed = latest_revision(obj, revisions)
    if not latest.metadata.uid:  # a new one, unless there are pods with this template
        templates = {
            mark_of(obj, revision): template_of(revision) or PodTemplateSpec() for revision in revisions
        }
        mark = recognized(obj.spec.template, REVISION_LABEL, templates, filter(is_active, control.owned(obj)))
        for revision in revisions:
            if mark and mark_of(obj, revision) == mark:
                latest = replace(revision, data=latest.data, revision=latest.revision)
    return control.write_revision(obj, latest) if is_changed else latest


def create_ordinals(
    control: PodControl, obj: StatefulSet, created: Sequence[int], revisions: Revisions
) -> None:
    """Create pods of a StatefulSet with their claims, unless another pod has their name."""
    for i in control.count(obj, len(created)):
        ordinal = created[i]
        name, revision = f"{obj.name}-{ordinal}", revision_for(obj, ordinal, revisions)
        template = template_of(revision) or obj.spec.template
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION_LABEL: mark_of(obj, revision),
        }
        spec = with_claims(obj, ordinal, template.spec)
        create_claims(control, obj, [ordinal])  # first: without its claims a pod is not created
        control.create(obj, new_pod(obj, template, name=name, marks=(labels, {}), spec=spec))


def create_claims(control: PodControl, obj: StatefulSet, of: Iterable[int]) -> None:
    """Create the claims of pods of a StatefulSet that do not exist."""
    for ordinal in of if obj.spec.volume_claim_templates else ():
        for claim in claims_of(obj, ordinal):
            control.create_claim(obj, claim)


def _create_daemons(control: PodControl, obj: DaemonSet, nodes: Iterable[Node]) -> None:
    """Create the missing pods of a DaemonSet in the order of the nodes.

    A node should run a pod if the template's node name, node selector and required node affinity match it and
    its NoSchedule and NoExecute taints are tolerated, by the template or by the tolerations of all daemon
    pods (kubernetes v1.36, NodeShouldRunDaemonPod, AddOrUpdateDaemonPodTolerations). Unschedulable nodes are
    included. A pod that is being deleted still occupies its node.
    """
    adopted = {node_of(pod.spec) for pod in control.adopt(obj, obj.spec.selector)}
    occupied, spec = control.daemon_nodes(obj), daemon_spec(obj)
    wanted = [
        node
        for node in nodes
        if not (node.name in occupied or node.name in adopted) and should_run(spec, node)
    ]
    create_daemons(
        control, obj, [node.name for node in wanted], {node.name for node in wanted if control.is_new(node)}
    )


def create_daemons(
    control: PodControl, obj: DaemonSet, nodes: Sequence[str], new: Container[str] = ()
) -> None:
    """Create a pod of a DaemonSet for each of some nodes.

    A new node is tainted as not ready at first, and only its daemon pods tolerate that. So they come before
    all pods that wait: they are older than any of them, whatever the age of their DaemonSet.
    """
    mark, spec = mark_of(obj, written_revision(control, obj)), daemon_spec(obj)
    for i in control.count(obj, len(nodes), "spec"):
        pinned, marks = pinned_spec(spec, nodes[i]), ({REVISION_LABEL: mark}, dict[str, str]())
        pod = new_pod(obj, obj.spec.template, base=f"{obj.name}-", marks=marks, spec=pinned)
        born = _BEFORE_ALL if nodes[i] in new else None
        control.create(obj, replace(pod, metadata=replace(pod.metadata, creation_timestamp=born)))


def daemon_spec(obj: DaemonSet) -> PodSpec:
    """Return the spec of the template of a DaemonSet, with the tolerations of daemon pods."""
    spec = obj.spec.template.spec
    return replace(spec, tolerations=daemon_tolerations(spec))


# ---- jobs --------------------------------------------------------------------------------------------------


def create_job_pods(
    control: PodControl, job: Job, pods: Iterable[Pod], state: JobState, waiting: Container[int] = ()
) -> None:
    """Create the pods that a Job lacks (kubernetes v1.36, manageJob).

    The pods of an indexed Job get the lowest indexes that are neither completed, failed for good nor active.

    Parameters
    ----------
    job : Job
        With defaults.
    pods : iterable of Pod
        Its pods, in any state.
    state : JobState
        What it has come to.
    waiting : container of int
        Indexes that get no pod yet.
    """
    missing, template = missing_pods(job, state), job.spec.template
    labels = job_labels(job.metadata.uid, job.name)
    if job.spec.completion_mode == "Indexed":
        chosen = [at for at in pending_indexes(job, state, missing) if at not in waiting]
        failures = failures_by_index(job, pods) if job.spec.backoff_limit_per_index is not None else None
        for i in control.count(job, len(chosen), "spec.parallelism"):
            mark = {INDEX: str(chosen[i])}
            known = {} if failures is None else {FAILURES: str(failures.get(chosen[i], 0))}
            base, marks = f"{job.name}-{chosen[i]}-", (labels | mark, mark | known)
            control.create(job, _tracked(new_pod(job, template, base=base, marks=marks)))
        return
    pod = _tracked(new_pod(job, template, base=f"{job.name}-", marks=(labels, {})))
    control.create(job, pod, len(control.count(job, missing, "spec.parallelism")))


def _tracked(pod: Pod) -> Pod:
    """Return a new pod with the finalizer that it keeps until the status of its Job counts it."""
    return replace(pod, metadata=replace(pod.metadata, finalizers=(TRACKING,)))


# ---- made of -----------------------------------------------------------------------------------------------
#
# Of which template a pod was made, and what its controller makes in its place.

MAKERS: tuple[type[Object], ...] = (ReplicaSet, ReplicationController, *Revisioned.__args__, Job)
SET_LATER = frozenset({REGION, ZONE})
"""Labels that a pod gets from its node when it is bound."""
BY_CONTROLLERS = SET_LATER | {
    *(HASH_LABEL, REVISION_LABEL, INDEX, "pod-template-generation", "rollouts-pod-template-hash"),
    *("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"),
    *job_labels("", ""),
}
"""Labels that no template gives a pod, and no webhook."""


class MadeOf:
    """Finds the templates of pods.

    Parameters
    ----------
    objects : iterable of Object
        With the controllers of pods (`MAKERS`), and the ControllerRevisions.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        objects = list(objects)
        self._owners = {(obj.kind, obj.key): obj for obj in objects if isinstance(obj, MAKERS)}
        self._revisions: dict[tuple[str, str, str], ControllerRevision] = {}
        for obj in objects:
            if isinstance(obj, ControllerRevision) and isinstance(owner := self._owner_of(obj), Revisioned):
                self._revisions[owner.kind, owner.key, mark_of(owner, obj)] = obj

    def pod_like(self, pod: Pod) -> Pod | None:
        """Return the pod that its controller makes in place of one, before admission.

        Returns
        -------
        Pod or None
            Of the same revision, without a name. None if the template is not known.
        """
        owner = self._owner_of(pod)
        template = None if owner is None else self._template(owner, pod)
        if owner is None or template is None:
            return None
        spec = template.spec
        if isinstance(owner, DaemonSet):
            of_template = replace(owner, spec=replace(owner.spec, template=template))
            spec = pinned_spec(daemon_spec(of_template), node_of(pod.spec))
        elif isinstance(owner, StatefulSet):
            for ordinal in by_ordinal(owner, [pod]):
                spec = with_claims(owner, ordinal, spec)
        given = BY_CONTROLLERS - SET_LATER
        labels = {name: value for name, value in pod.metadata.labels.items() if name in given}
        return new_pod(owner, template, marks=(labels, {}), spec=spec)

    def _owner_of(self, obj: Object) -> Object | None:
        reference = obj.metadata.controller()
        if reference is None:
            return None
        owner = self._owners.get((reference.kind, f"{obj.namespace}/{reference.name}"))
        return owner if owner is not None and refers_to(reference, owner) else None

    def _template(self, owner: Object, pod: Pod) -> PodTemplateSpec | None:
        mark = pod.metadata.labels.get(REVISION_LABEL)
        if isinstance(owner, Revisioned) and mark is not None:
            revision = self._revisions.get((owner.kind, owner.key, mark))
            return None if revision is None else template_of(revision)
        assert isinstance(owner, ReplicaSet | ReplicationController | Revisioned | Job)
        return owner.spec.template
