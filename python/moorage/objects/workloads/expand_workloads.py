"""Expands workloads: creates the pods that kube-controller-manager would still create."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace as replace_fields
from functools import cached_property
from itertools import islice

from msgspec.structs import replace

from moorage._core.base.selectors import find_intolerable_taint, pod_matches_node_selector
from moorage.errors import InputError
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.meta import LabelSelector, Object, ObjectMeta, OwnerReference
from moorage.objects.model.node import Node
from moorage.objects.model.pod import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    PodStatus,
    Toleration,
    Volume,
)
from moorage.objects.model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from moorage.objects.model.workload import (
    MAX_PODS,
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    StatefulSet,
)
from moorage.objects.read.object_defaults import NOT_READY, UNREACHABLE

from .naming import Names, stable_uid, template_hash
from .ownership import FINISHED, HASH_LABEL, PodIndex, is_active, refers_to

_POD_PENDING = PodStatus(phase="Pending")
_CLAIM_PENDING = PersistentVolumeClaimStatus(phase="Pending")
_REVISION = "deployment.kubernetes.io/revision"
_PRESSURES = tuple(
    f"node.kubernetes.io/{name}"
    for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
_NETWORK = "node.kubernetes.io/network-unavailable"
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_NAME_FIELD = "metadata.name"
_INDEX = "batch.kubernetes.io/job-completion-index"
_DONE = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


def expand_workloads(cluster: Cluster) -> Cluster:
    """Add the missing pods of the listed workloads.

    A listed pod belongs to a workload if its controller reference names the workload (kind, name, and UID
    where both have one); a pod without controller is adopted by the first workload whose selector matches it.
    Pods that succeeded, failed or are being deleted do not count, with the exceptions below. Missing pods are
    created as the controllers of Kubernetes v1.36 do it:

    - **ReplicaSet, ReplicationController:** `replicas` pods, named with a random-looking suffix.
    - **Deployment:** its ReplicaSets, if any are listed, are what is expanded; the newest one makes up for
      replicas that they lack in all. Otherwise one is made, named after the hash of the template, or found
      again from the pods that name it.
    - **StatefulSet:** one pod per ordinal whose name is free (a pod being deleted still occupies its name),
      with a volume per claim template, and the claims that are not listed.
    - **DaemonSet:** one pod per node that it should run on, pinned to it; see `_expand_daemon_set`.
    - **Job:** up to `parallelism` pods at once, as long as completions are missing; see `_expand_job`.

    A workload that is being deleted creates nothing. New pods carry labels, annotations and spec of the
    template, a controller reference, and the workload's creation timestamp.

    Parameters
    ----------
    cluster : Cluster
        Valid objects with defaults.

    Returns
    -------
    Cluster
        The same objects, with the new pods after the listed ones, and new ReplicaSets and claims among the
        others.

    Raises
    ------
    InputError
        If workloads request more pods than `MAX_PODS` in all.
    """
    expansion = Expansion(cluster)
    replica_sets = _ReplicaSets(expansion)

    def present(obj: Object) -> list[Pod]:
        return [pod for pod in expansion.index.owned(obj) if is_active(pod)]

    for obj in cluster.others:
        if obj.metadata.deletion_timestamp is not None:
            continue
        if isinstance(obj, Deployment):
            replica_sets.expand_deployment(obj)
        elif isinstance(obj, ReplicaSet):
            spec = replace(obj.spec, replicas=replica_sets.replicas(obj))
            _expand_replicas(expansion, obj, spec, present(obj))
        elif isinstance(obj, ReplicationController):
            selector = LabelSelector(match_labels=obj.spec.selector or {})
            template = obj.spec.template or PodTemplateSpec()
            spec = ReplicaSetSpec(replicas=obj.spec.replicas, selector=selector, template=template)
            _expand_replicas(expansion, obj, spec, present(obj))
        elif isinstance(obj, StatefulSet):
            _expand_stateful_set(expansion, obj)
        elif isinstance(obj, DaemonSet):
            _expand_daemon_set(expansion, obj, cluster.nodes)
        elif isinstance(obj, Job):
            _expand_job(expansion, obj)
    pods = cluster.pods + expansion.pods
    claims = [*expansion.claims, *ephemeral_claims(pods)]
    listed = {obj.key for obj in cluster.others if isinstance(obj, PersistentVolumeClaim)}
    first = {claim.key: claim for claim in reversed(claims)}  # of two with one name the first is kept
    new = [claim for claim in claims if claim.key not in listed and claim is first[claim.key]]
    return replace_fields(cluster, pods=pods, others=[*cluster.others, *replica_sets.created, *new])


def controller_reference(owner: Object) -> tuple[OwnerReference, ...]:
    """Return the owner references of an object controlled by `owner`.

    Parameters
    ----------
    owner : Object
        The controller.

    Returns
    -------
    tuple of OwnerReference
    """
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return (reference,)


class Expansion:
    """The state of one run of `expand_workloads`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pods: list[Pod] = []
        self.claims: list[PersistentVolumeClaim] = []

    @cached_property
    def index(self) -> PodIndex:
        """The listed pods."""
        return PodIndex(self.cluster.pods + self.cluster.finished)

    @cached_property
    def names(self) -> Names:
        """The names of the listed pods, and of new ones."""
        names = Names()
        for pod in self.cluster.pods:
            names.take("Pod", pod.namespace, pod.name)
        return names

    def count(self, owner: Object, missing: int, path: str = "spec.replicas") -> range:
        """Check the number of new pods before the first one is made.

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
        if len(self.pods) + missing > MAX_PODS:
            message = f"{missing} pods to create would make more than {MAX_PODS} in all"
            raise InputError(message, obj=f"{owner.kind} {owner.key}", path=path)
        return range(missing)


class PodMaker:
    """Makes the pods of one workload from its template."""

    def __init__(self, expansion: Expansion, owner: Object, template: PodTemplateSpec) -> None:
        self._expansion = expansion
        self._owner = owner
        self._references = controller_reference(owner)
        self._template = template

    def make(
        self,
        *,
        name: str = "",
        base: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        spec: PodSpec | None = None,
    ) -> None:
        """Make one pod with the name `name`, or with a generated name that starts with `base`.

        A pod whose `name` is taken is not made.

        Parameters
        ----------
        name : str
            Name of the pod; "" generates one.
        base : str
            Prefix of a generated name.
        labels, annotations : dict of str to str, optional
            Added to those of the template.
        spec : PodSpec, optional
            Replaces that of the template.
        """
        expansion, namespace, own = self._expansion, self._owner.namespace, self._template.metadata
        if not name:
            name = expansion.names.generate("Pod", namespace, base)
        elif not expansion.names.take("Pod", namespace, name):
            return
        meta = ObjectMeta(
            name=name,
            generate_name=base,
            namespace=namespace,
            uid=stable_uid("Pod", namespace, name),
            creation_timestamp=self._owner.metadata.creation_timestamp,
            labels=own.labels | labels if labels else own.labels,
            annotations=own.annotations | annotations if annotations else own.annotations,
            owner_references=self._references,
        )
        expansion.pods.append(Pod(metadata=meta, spec=spec or self._template.spec, status=_POD_PENDING))


# ---- replicas ----------------------------------------------------------------------------------------------


def _expand_replicas(expansion: Expansion, obj: Object, spec: ReplicaSetSpec, present: list[Pod]) -> None:
    adopted = expansion.index.adopt(obj.namespace, spec.selector)
    missing = (spec.replicas or 0) - len(present) - len(adopted)
    maker = PodMaker(expansion, obj, spec.template)
    for _ in expansion.count(obj, missing):
        maker.make(base=f"{obj.name}-")


def _expand_stateful_set(expansion: Expansion, obj: StatefulSet) -> None:
    expansion.index.adopt(obj.namespace, obj.spec.selector)
    maker = PodMaker(expansion, obj, obj.spec.template)
    revision = f"{obj.name}-{template_hash(obj.spec.template)}"
    start = obj.spec.ordinals.start if obj.spec.ordinals else 0
    for i in expansion.count(obj, obj.spec.replicas or 0):
        ordinal = start + i
        name = f"{obj.name}-{ordinal}"
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            "controller-revision-hash": revision,
        }
        maker.make(name=name, labels=labels, spec=_with_claims(obj, ordinal))
        expansion.claims += [
            _new_claim(obj, _claim_name(template, obj, ordinal), _labelled(template, obj))
            for template in obj.spec.volume_claim_templates
        ]


def _with_claims(obj: StatefulSet, ordinal: int) -> PodSpec:
    """The template's spec with a volume per claim template, which replaces a volume of that name."""
    spec = obj.spec.template.spec
    claims = {
        claim.metadata.name: _claim_name(claim, obj, ordinal) for claim in obj.spec.volume_claim_templates
    }
    if not claims:
        return spec
    volumes = tuple(
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
        for name, claim in claims.items()
    )
    return replace(spec, volumes=volumes + tuple(item for item in spec.volumes if item.name not in claims))


def _labelled(template: PersistentVolumeClaimTemplate, obj: StatefulSet) -> PersistentVolumeClaimTemplate:
    """Metadata of a claim, with the labels by which the StatefulSet selects."""
    selected = obj.spec.selector.match_labels if obj.spec.selector else {}
    meta = template.metadata
    return replace(template, metadata=replace(meta, labels=meta.labels | selected))


def _claim_name(template: PersistentVolumeClaimTemplate, obj: StatefulSet, ordinal: int) -> str:
    return f"{template.metadata.name}-{obj.name}-{ordinal}"


def _age(replica_set: ReplicaSet) -> tuple[int, str, str]:
    """Sort key of a Deployment's ReplicaSets, the newest last."""
    revision = replica_set.metadata.annotations.get(_REVISION, "")
    number = int(revision) if revision.isdecimal() and len(revision) < 20 else 0
    return number, replica_set.metadata.creation_timestamp or "", replica_set.name


class _ReplicaSets:
    """ReplicaSets of Deployments: listed ones, those inferred from pods, and new ones."""

    def __init__(self, expansion: Expansion) -> None:
        self.created: list[Object] = []
        self._expansion = expansion
        self._listed: defaultdict[str, list[ReplicaSet]] = defaultdict(list)
        self._extra: dict[str, int] = {}
        others = expansion.cluster.others
        deployments = {obj.key: obj for obj in others if isinstance(obj, Deployment)}
        for obj in others:
            if isinstance(obj, ReplicaSet):
                reference = obj.metadata.controller()
                deployment = deployments.get(f"{obj.namespace}/{reference.name}") if reference else None
                if deployment is not None and refers_to(reference, deployment):
                    self._listed[deployment.key].append(obj)
        for key, listed in self._listed.items():
            spec, meta = deployments[key].spec, deployments[key].metadata
            lacking = (spec.replicas or 0) - sum(item.spec.replicas or 0 for item in listed)
            if lacking > 0 and meta.deletion_timestamp is None:
                self._extra[max(listed, key=_age).key] = lacking

    def replicas(self, replica_set: ReplicaSet) -> int:
        return (replica_set.spec.replicas or 0) + self._extra.get(replica_set.key, 0)

    def expand_deployment(self, deployment: Deployment) -> None:
        if deployment.key in self._listed:
            return
        present = self._expansion.index.of_template(deployment.namespace, deployment.name)
        replica_set = _replica_set(deployment, present)
        self.created.append(replica_set)
        spec = replace(deployment.spec, template=replica_set.spec.template)
        _expand_replicas(self._expansion, replica_set, spec, present)


def _replica_set(deployment: Deployment, pods: list[Pod]) -> ReplicaSet:
    """The ReplicaSet that controls the newest pod of a Deployment, else a new one."""
    template = deployment.spec.template
    newest = max(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name), default=None)
    owner = newest.metadata.controller() if newest else None
    suffix = owner.name.removeprefix(f"{deployment.name}-") if owner else template_hash(template)
    name = f"{deployment.name}-{suffix}"
    labels = template.metadata.labels | {HASH_LABEL: suffix}
    selector = deployment.spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name,
            namespace=deployment.namespace,
            uid=(owner.uid if owner else "") or stable_uid("ReplicaSet", deployment.namespace, name),
            labels=labels,
            creation_timestamp=deployment.metadata.creation_timestamp,
            owner_references=controller_reference(deployment),
        ),
        spec=replace(
            deployment.spec,
            selector=replace(selector, match_labels=selector.match_labels | {HASH_LABEL: suffix}),
            template=replace(template, metadata=replace(template.metadata, labels=labels)),
        ),
    )


# ---- daemon sets -------------------------------------------------------------------------------------------


def _expand_daemon_set(expansion: Expansion, obj: DaemonSet, nodes: Iterable[Node]) -> None:
    """Make the missing pods of a DaemonSet in the order of the nodes.

    A node should run a pod if the template's node name, node selector and required node affinity match it and
    its NoSchedule and NoExecute taints are tolerated, by the template or by the tolerations of all daemon
    pods (kubernetes v1.36, NodeShouldRunDaemonPod, AddOrUpdateDaemonPodTolerations). The new pod requires the
    node by ``matchFields``, in place of the template's required node affinity
    (ReplaceDaemonSetPodNodeNameNodeAffinity). Unschedulable nodes are included. A pod that is being deleted
    still occupies its node.

    Parameters
    ----------
    expansion : Expansion
    obj : DaemonSet
    nodes : iterable of Node

    Raises
    ------
    InputError
        There would be more than `MAX_PODS` pods.
    """
    present = expansion.index.owned(obj) + expansion.index.adopt(obj.namespace, obj.spec.selector)
    occupied = {_node_of(pod.spec) for pod in present if pod.status.phase not in FINISHED}
    spec = obj.spec.template.spec
    spec = replace(spec, tolerations=daemon_tolerations(spec))
    maker = PodMaker(expansion, obj, obj.spec.template)
    labels = {"controller-revision-hash": template_hash(obj.spec.template)}
    missing = [node.name for node in nodes if node.name not in occupied and _should_run(spec, node)]
    for i in expansion.count(obj, len(missing), "spec"):
        maker.make(base=f"{obj.name}-", labels=labels, spec=_pinned_spec(spec, missing[i]))


def daemon_tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    """Return the tolerations of a daemon pod: the template's, and those added by the controller.

    Parameters
    ----------
    spec : PodSpec
        Pod spec of the template.

    Returns
    -------
    tuple of Toleration
    """
    added = [Toleration(key=key, operator="Exists", effect="NoExecute") for key in (NOT_READY, UNREACHABLE)]
    keys = (*_PRESSURES, _NETWORK) if spec.host_network else _PRESSURES
    added += [Toleration(key=key, operator="Exists", effect="NoSchedule") for key in keys]
    same = {(item.key, item.operator, item.effect, item.value) for item in added}
    own = [
        item for item in spec.tolerations if (item.key, item.operator, item.effect, item.value) not in same
    ]
    return (*own, *added)


def _should_run(spec: PodSpec, node: Node) -> bool:
    return (
        spec.node_name in ("", node.name)
        and pod_matches_node_selector(spec, node)
        and find_intolerable_taint(node.spec.taints, spec.tolerations, _REPELLING) is None
    )


def _pinned_spec(spec: PodSpec, node: str) -> PodSpec:
    requirement = NodeSelectorRequirement(key=_NAME_FIELD, operator="In", values=(node,))
    term = NodeSelectorTerm(match_fields=(requirement,))
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    required = NodeSelector(node_selector_terms=(term,))
    node_affinity = replace(node_affinity, required=required)
    return replace(spec, affinity=replace(affinity, node_affinity=node_affinity))


def _node_of(spec: PodSpec) -> str:
    """The node that a daemon pod has or requires (kubernetes v1.36, GetTargetNodeName)."""
    if spec.node_name or spec.affinity is None or spec.affinity.node_affinity is None:
        return spec.node_name
    required = spec.affinity.node_affinity.required
    for term in required.node_selector_terms if required else ():
        for requirement in term.match_fields:
            if requirement.key == _NAME_FIELD and requirement.operator == "In" and requirement.values:
                return requirement.values[0]
    return ""


# ---- jobs --------------------------------------------------------------------------------------------------


def _expand_job(expansion: Expansion, job: Job) -> None:
    """Make the missing pods of a Job (kubernetes v1.36, Job controller).

    A Job that is suspended, complete or failed starts no pods. Otherwise `parallelism` pods should be active,
    but not more than completions are missing; without `completions`, no pod is started after the first
    success. The number of successes is the larger of that in the status and that of the listed pods. The pods
    of an indexed Job get the lowest indexes that are neither completed, permanently failed nor active.

    Parameters
    ----------
    expansion : Expansion
    job : Job

    Raises
    ------
    InputError
        There would be more than `MAX_PODS` pods.
    """
    if job.spec.suspend or job.status.completion_time is not None:
        return
    if any(item.type in _DONE and item.status == "True" for item in job.status.conditions):
        return
    owned = expansion.index.owned(job)
    adopted = expansion.index.adopt(job.namespace, job.spec.selector)
    active = [pod for pod in owned if is_active(pod)] + adopted
    succeeded = [pod for pod in owned if pod.status.phase == "Succeeded"]
    uid = job.metadata.uid
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": job.name,
        "controller-uid": uid,
        "job-name": job.name,
    }
    maker = PodMaker(expansion, job, job.spec.template)
    missing = (job.spec.parallelism or 0) - len(active)
    if job.spec.completion_mode == "Indexed":
        indexes = list(islice(_pending_indexes(job, active, succeeded), max(missing, 0)))
        for i in expansion.count(job, len(indexes), "spec.parallelism"):
            mark = {_INDEX: str(indexes[i])}
            maker.make(base=f"{job.name}-{indexes[i]}-", labels=labels | mark, annotations=mark)
        return
    missing = min(missing, _uncompleted(job, len(succeeded)) - len(active))
    for _ in expansion.count(job, missing, "spec.parallelism"):
        maker.make(base=f"{job.name}-", labels=labels)


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


# ---- claims ------------------------------------------------------------------------------------------------


def _new_claim(
    maker: Object, name: str, template: PersistentVolumeClaimTemplate, owners: tuple[OwnerReference, ...] = ()
) -> PersistentVolumeClaim:
    """Make an unbound claim in the namespace of the object that requests it."""
    meta = ObjectMeta(
        name=name,
        namespace=maker.namespace,
        uid=stable_uid("PersistentVolumeClaim", maker.namespace, name),
        creation_timestamp=maker.metadata.creation_timestamp,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=owners,
    )
    return PersistentVolumeClaim(metadata=meta, spec=template.spec, status=_CLAIM_PENDING)


def ephemeral_claims(pods: Iterable[Pod]) -> list[PersistentVolumeClaim]:
    """Make the claims of ephemeral volumes, each owned by its pod.

    Source: kube-controller-manager v1.36, ephemeral volume controller.

    Parameters
    ----------
    pods : iterable of Pod
        Pods that may have ephemeral volumes.

    Returns
    -------
    list of PersistentVolumeClaim
        Claims in the order of pods and volumes, existing ones included.
    """
    claims = []
    for pod in pods:
        for volume in pod.spec.volumes:
            template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
            if template is not None and pod.metadata.deletion_timestamp is None:
                name = f"{pod.name}-{volume.name}"
                claims.append(_new_claim(pod, name, template, controller_reference(pod)))
    return claims
