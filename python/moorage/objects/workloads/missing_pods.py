"""The pods that the controllers of workloads create next: while a cluster is read, and in a store."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from msgspec.structs import replace

from moorage.objects.model.meta import LabelSelector, Object, ObjectMeta
from moorage.objects.model.node import Node
from moorage.objects.model.other_workloads import CloneSet
from moorage.objects.model.pod import Pod, PodSpec, PodStatus
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.model.workload import (
    MAX_PODS,
    ControllerRevision,
    DaemonSet,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

from .daemon_pods import daemon_tolerations, node_of, pinned_spec, should_run
from .ownership import FINISHED, controller_reference, is_active, is_healthy
from .pod_claims import claims_of, with_claims
from .revisions import REVISION_LABEL, Revisioned, latest_revision, mark_of, template_of
from .stateful_pods import Revisions, by_ordinal, next_step, ordinals, revision_for

_POD_PENDING = PodStatus(phase="Pending")
_INDEX = "batch.kubernetes.io/job-completion-index"
_DONE = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
_JOB_CONTROLLER = "kubernetes.io/job-controller"
_UNCOUNTED = "batch.kubernetes.io/job-tracking"
"""Finalizer of the pods of a Job that its status does not count yet."""


class PodControl(Protocol):
    """What controllers know about pods, and where they create them."""

    def active(self, owner: Object) -> int:
        """Return the number of active pods that an object controls.

        Parameters
        ----------
        owner : Object
        """

    def owned(self, owner: Object) -> list[Pod]:
        """Return the pods that an object controls, in any state.

        Parameters
        ----------
        owner : Object
        """

    def adopt(self, owner: Object, selector: LabelSelector | None) -> list[Pod]:
        """Adopt the active pods without a controller that match a selector, and return them.

        Parameters
        ----------
        owner : Object
        selector : LabelSelector or None
            None adopts no pods.
        """

    def daemon_nodes(self, owner: DaemonSet) -> Container[str]:
        """Return the nodes that have, or will have, a pod of a DaemonSet that has not finished.

        Parameters
        ----------
        owner : DaemonSet
        """

    def count(self, owner: Object, missing: int, path: str = "spec.replicas") -> range:
        """Return the numbers of new pods; raise InputError if there would be more than `MAX_PODS`.

        Parameters
        ----------
        owner : Object
        missing : int
            Number of pods to create; negative numbers count as 0.
        path : str
            Path of the field with the number, for errors.
        """

    def create(self, owner: Object, pod: Pod) -> None:
        """Create a pod; one without a name gets a name from its `generateName`. Nothing happens if the name
        is taken.

        Parameters
        ----------
        owner : Object
        pod : Pod
        """

    def create_claim(self, owner: Object, claim: PersistentVolumeClaim) -> None:
        """Create a claim, unless it exists.

        Parameters
        ----------
        owner : Object
        claim : PersistentVolumeClaim
        """

    def revisions(self, owner: Object) -> list[ControllerRevision]:
        """Return the revisions that an object controls.

        Parameters
        ----------
        owner : Object
        """

    def write_revision(self, owner: Object, revision: ControllerRevision) -> ControllerRevision:
        """Create a revision, or update one that has a UID, and return it.

        Parameters
        ----------
        owner : Object
        revision : ControllerRevision
        """


def create_missing(control: PodControl, obj: Object, nodes: Iterable[Node]) -> None:
    """Create the missing pods of a workload; of an object of another kind nothing.

    Parameters
    ----------
    control : PodControl
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
        _create_ordinals(control, obj)
    elif isinstance(obj, DaemonSet):
        _create_daemons(control, obj, nodes)
    elif isinstance(obj, Job):
        _create_job_pods(control, obj)


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
    owner : Object
        The workload.
    template : PodTemplateSpec
    name : str
        Name of the pod; "" if it is generated.
    base : str
        Prefix of a generated name.
    marks : (dict of str to str, dict of str to str)
        Labels and annotations in addition to those of the template.
    spec : PodSpec, optional
        Replaces that of the template.

    Returns
    -------
    Pod
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
    return Pod(metadata=meta, spec=spec or template.spec, status=_POD_PENDING)


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
        for _ in control.count(obj, missing):
            control.create(obj, pod)


def current_and_update(control: PodControl, obj: StatefulSet) -> Revisions:
    """Return the revisions of a StatefulSet, after its template has become the latest one.

    Parameters
    ----------
    control : PodControl
    obj : StatefulSet

    Returns
    -------
    Revisions
    """
    update = written_revision(control, obj)
    named = (one for one in control.revisions(obj) if one.name == obj.status.current_revision)
    return Revisions(next(named, update), update)


def written_revision(control: PodControl, obj: Revisioned) -> ControllerRevision:
    """Return the revision with the template of a workload, which becomes the latest one.

    Parameters
    ----------
    control : PodControl
    obj : StatefulSet, DaemonSet or CloneSet

    Returns
    -------
    ControllerRevision
    """
    latest, is_changed = latest_revision(obj, control.revisions(obj))
    return control.write_revision(obj, latest) if is_changed else latest


def _create_ordinals(control: PodControl, obj: StatefulSet) -> None:
    """Create the pods that a StatefulSet creates before another pod is bound or deleted."""
    pods = by_ordinal(obj, [*control.owned(obj), *control.adopt(obj, obj.spec.selector)])
    revisions = current_and_update(control, obj)
    create_claims(control, obj, [ordinal for ordinal in ordinals(obj) if ordinal in pods])
    create_ordinals(control, obj, next_step(obj, pods, revisions, is_healthy).created, revisions)


def create_ordinals(
    control: PodControl, obj: StatefulSet, created: Sequence[int], revisions: Revisions
) -> None:
    """Create pods of a StatefulSet with their claims, unless another pod has their name.

    Parameters
    ----------
    control : PodControl
    obj : StatefulSet
    created : sequence of int
        Their ordinals.
    revisions : Revisions
    """
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
        control.create(obj, new_pod(obj, template, name=name, marks=(labels, {}), spec=spec))
    create_claims(control, obj, created)


def create_claims(control: PodControl, obj: StatefulSet, of: Iterable[int]) -> None:
    """Create the claims of pods of a StatefulSet that do not exist.

    Parameters
    ----------
    control : PodControl
    obj : StatefulSet
    of : iterable of int
        Ordinals of the pods.
    """
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
    create_daemons(
        control,
        obj,
        [
            node.name
            for node in nodes
            if not (node.name in occupied or node.name in adopted) and should_run(spec, node)
        ],
    )


def create_daemons(control: PodControl, obj: DaemonSet, nodes: Sequence[str]) -> None:
    """Create a pod of a DaemonSet for each of some nodes.

    Parameters
    ----------
    control : PodControl
    obj : DaemonSet
    nodes : sequence of str
    """
    mark, spec = mark_of(obj, written_revision(control, obj)), daemon_spec(obj)
    for i in control.count(obj, len(nodes), "spec"):
        pinned, marks = pinned_spec(spec, nodes[i]), ({REVISION_LABEL: mark}, dict[str, str]())
        control.create(obj, new_pod(obj, obj.spec.template, base=f"{obj.name}-", marks=marks, spec=pinned))


def daemon_spec(obj: DaemonSet) -> PodSpec:
    """Return the spec of the template of a DaemonSet, with the tolerations of daemon pods.

    Parameters
    ----------
    obj : DaemonSet

    Returns
    -------
    PodSpec
    """
    spec = obj.spec.template.spec
    return replace(spec, tolerations=daemon_tolerations(spec))


# ---- jobs --------------------------------------------------------------------------------------------------


def _create_job_pods(control: PodControl, job: Job) -> None:
    """Make the missing pods of a Job (kubernetes v1.36, Job controller).

    A Job that is suspended, complete, failed or managed by another controller starts no pods. Otherwise
    `parallelism` pods should be active, but not more than completions are missing; without `completions`, no
    pod is started after the first success. The number of successes is the larger of that in the status and
    that of the listed pods. The pods of an indexed Job get the lowest indexes that are neither completed,
    permanently failed nor active. With the replacement policy Failed, pods that are being deleted count as
    active.
    """
    if is_left_to_others(job) or job.spec.suspend or job.status.completion_time is not None:
        return
    if any(item.type in _DONE and item.status == "True" for item in job.status.conditions):
        return
    owned = control.owned(job)
    if exceeds_backoff_limit(job, owned):
        return
    adopted = control.adopt(job, job.spec.selector)
    is_counted = _is_unfinished if job.spec.pod_replacement_policy == "Failed" else is_active
    active = [pod for pod in owned if is_counted(pod)] + adopted
    succeeded = [pod for pod in owned if pod.status.phase == "Succeeded"]
    uid = job.metadata.uid
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": job.name,
        "controller-uid": uid,
        "job-name": job.name,
    }
    missing = (job.spec.parallelism or 0) - len(active)
    if job.spec.completion_mode == "Indexed":
        indexes = list(islice(_pending_indexes(job, active, succeeded), min(max(missing, 0), MAX_PODS + 1)))
        for i in control.count(job, len(indexes), "spec.parallelism"):
            mark = {_INDEX: str(indexes[i])}
            base, marks = f"{job.name}-{indexes[i]}-", (labels | mark, mark)
            control.create(job, new_pod(job, job.spec.template, base=base, marks=marks))
        return
    missing = min(missing, _uncompleted(job, len(succeeded)) - len(active))
    pod = new_pod(job, job.spec.template, base=f"{job.name}-", marks=(labels, {}))
    for _ in control.count(job, missing, "spec.parallelism"):
        control.create(job, pod)


def is_left_to_others(job: Job) -> bool:
    """Whether the Job controller leaves a Job to another controller, which ``managedBy`` names.

    Parameters
    ----------
    job : Job

    Returns
    -------
    bool
    """
    return job.spec.managed_by not in (None, _JOB_CONTROLLER)


def exceeds_backoff_limit(job: Job, pods: Iterable[Pod]) -> bool:
    """Whether more pods of a Job have failed than ``backoffLimit`` allows.

    With a pod failure policy, which may ignore failures, only those in the status count.

    Parameters
    ----------
    job : Job
        With defaults.
    pods : iterable of Pod
        Its pods, in any state.

    Returns
    -------
    bool
    """
    counted, failed = job.status.failed, list[Pod]()
    if job.spec.pod_failure_policy is None:
        failed = [pod for pod in pods if _has_failed(pod, job)]
    uncounted = sum(_UNCOUNTED in pod.metadata.finalizers for pod in failed)
    limit = job.spec.backoff_limit
    return limit is not None and max(len(failed), counted + uncounted) > limit


def _has_failed(pod: Pod, job: Job) -> bool:
    """Whether a pod has failed; one that is deleted before it ends has, unless its phase is waited for."""
    is_lost = _is_unfinished(pod) and not is_active(pod)
    return pod.status.phase == "Failed" or (is_lost and job.spec.pod_replacement_policy != "Failed")


def _is_unfinished(pod: Pod) -> bool:
    return pod.status.phase not in FINISHED


def _uncompleted(job: Job, listed: int) -> int:
    """Number of pods that still have to succeed; a Job without completions ends with its first success."""
    succeeded = max(job.status.succeeded, listed)
    if job.spec.completions is None:
        return 0 if succeeded else job.spec.parallelism or 0
    return job.spec.completions - succeeded


def _pending_indexes(job: Job, active: list[Pod], succeeded: list[Pod]) -> Iterator[int]:
    """Indexes without a pod in ascending order; completed ones may be long ranges."""
    done = _ranges(job.status.completed_indexes) + _ranges(job.status.failed_indexes or "")
    for pod in active + succeeded:
        index = pod.metadata.annotations.get(_INDEX, "")
        if index.isdecimal():
            done.append((int(index), int(index)))
    pending = 0
    for low, high in sorted(done):
        yield from range(pending, min(low, job.spec.completions or 0))
        pending = max(pending, high + 1)
    yield from range(pending, job.spec.completions or 0)


def _ranges(text: str) -> list[tuple[int, int]]:
    """Parse ranges like ``1,3-5``."""
    pairs = [item.partition("-") for item in text.split(",") if item]
    return [(int(low), int(high or low)) for low, _, high in pairs]
