"""Workload expansion: the pods that kube-controller-manager would still create."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace as replace_fields

from msgspec.structs import replace

from moorage.objects.model.cluster import Cluster
from moorage.objects.model.meta import LabelSelector, Object, ObjectMeta, OwnerReference
from moorage.objects.model.pod import (
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    Volume,
)
from moorage.objects.model.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from moorage.objects.model.workload import (
    DaemonSet,
    Deployment,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    StatefulSet,
)

from .daemon_set import expand_daemon_set
from .expansion import Expansion, PodMaker, controller_reference
from .job import expand_job
from .naming import stable_uid, template_hash
from .ownership import HASH_LABEL, is_active, refers_to

_PENDING = PersistentVolumeClaimStatus(phase="Pending")
_REVISION = "deployment.kubernetes.io/revision"


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
    - **DaemonSet:** one pod per node that it should run on, pinned to it; see `expand_daemon_set`.
    - **Job:** up to `parallelism` pods at once, as long as completions are missing; see `expand_job`.

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
        If a workload asks for more pods than `MAX_PODS` in all.
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
            spec = obj.spec
            _expand_replicas(
                expansion, obj, replica_sets.replicas(obj), present(obj), spec.selector, spec.template
            )
        elif isinstance(obj, ReplicationController):
            selector = LabelSelector(match_labels=obj.spec.selector or {})
            template = obj.spec.template or PodTemplateSpec()
            _expand_replicas(expansion, obj, obj.spec.replicas or 0, present(obj), selector, template)
        elif isinstance(obj, StatefulSet):
            _expand_stateful_set(expansion, obj)
        elif isinstance(obj, DaemonSet):
            expand_daemon_set(expansion, obj, cluster.nodes)
        elif isinstance(obj, Job):
            expand_job(expansion, obj)
    pods = cluster.pods + expansion.pods
    claims = [*expansion.claims, *ephemeral_claims(pods)]
    listed = {obj.key for obj in cluster.others if isinstance(obj, PersistentVolumeClaim)}
    first = {claim.key: claim for claim in reversed(claims)}  # of two of one name, the second is refused
    new = [claim for claim in claims if claim.key not in listed and claim is first[claim.key]]
    return replace_fields(cluster, pods=pods, others=[*cluster.others, *replica_sets.created, *new])


def _expand_replicas(
    expansion: Expansion,
    obj: Object,
    replicas: int,
    present: list[Pod],
    selector: LabelSelector | None,
    template: PodTemplateSpec,
) -> None:
    missing = replicas - len(present) - len(expansion.index.adopt(obj.namespace, selector))
    maker = PodMaker(expansion, obj, template)
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
            _new_claim(obj, _claim_name(template, obj, ordinal), _labelled(template, obj), template.spec)
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


def _labelled(template: PersistentVolumeClaimTemplate, obj: StatefulSet) -> ObjectMeta:
    """Metadata of a claim, with the labels that the StatefulSet selects by."""
    selected = obj.spec.selector.match_labels if obj.spec.selector else {}
    return replace(template.metadata, labels=template.metadata.labels | selected)


def _claim_name(template: PersistentVolumeClaimTemplate, obj: StatefulSet, ordinal: int) -> str:
    return f"{template.metadata.name}-{obj.name}-{ordinal}"


def _new_claim(
    maker: Object,
    name: str,
    template: ObjectMeta,
    spec: PersistentVolumeClaimSpec,
    owners: tuple[OwnerReference, ...] = (),
) -> PersistentVolumeClaim:
    """Make an unbound claim in the namespace of the object that requests it."""
    meta = ObjectMeta(
        name=name,
        namespace=maker.namespace,
        uid=stable_uid("PersistentVolumeClaim", maker.namespace, name),
        creation_timestamp=maker.metadata.creation_timestamp,
        labels=template.labels,
        annotations=template.annotations,
        owner_references=owners,
    )
    return PersistentVolumeClaim(metadata=meta, spec=spec, status=_PENDING)


def ephemeral_claims(pods: Iterable[Pod]) -> list[PersistentVolumeClaim]:
    """Make the claims of ephemeral volumes, each owned by its pod (kube-controller-manager v1.36, ephemeral
    volume controller).

    Parameters
    ----------
    pods : iterable of Pod

    Returns
    -------
    list of PersistentVolumeClaim
        In the order of pods and volumes; existing claims are not left out.
    """
    made = []
    for pod in pods:
        for volume in pod.spec.volumes:
            template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
            if template is not None and pod.metadata.deletion_timestamp is None:
                name = f"{pod.name}-{volume.name}"
                owners = controller_reference(pod)
                made.append(_new_claim(pod, name, template.metadata, template.spec, owners))
    return made


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
        self._listed: defaultdict[tuple[str, str], list[ReplicaSet]] = defaultdict(list)
        self._extra: dict[str, int] = {}
        deployments = {}
        for obj in expansion.cluster.others:
            if isinstance(obj, Deployment):
                deployments[obj.namespace, obj.name] = obj
        for obj in expansion.cluster.others:
            if isinstance(obj, ReplicaSet):
                reference = obj.metadata.controller()
                deployment = deployments.get((obj.namespace, reference.name)) if reference else None
                if deployment is not None and refers_to(reference, deployment):
                    self._listed[deployment.namespace, deployment.name].append(obj)
        for key, replica_sets in self._listed.items():
            self._add_missing_replicas(deployments[key], replica_sets)

    def _add_missing_replicas(self, deployment: Deployment, replica_sets: list[ReplicaSet]) -> None:
        lacking = (deployment.spec.replicas or 0) - sum(item.spec.replicas or 0 for item in replica_sets)
        if lacking > 0 and deployment.metadata.deletion_timestamp is None:
            self._extra[max(replica_sets, key=_age).key] = lacking

    def replicas(self, replica_set: ReplicaSet) -> int:
        return (replica_set.spec.replicas or 0) + self._extra.get(replica_set.key, 0)

    def expand_deployment(self, deployment: Deployment) -> None:
        if (deployment.namespace, deployment.name) in self._listed:
            return
        present = self._expansion.index.of_template(deployment.namespace, deployment.name)
        replica_set = _replica_set(deployment, present)
        self.created.append(replica_set)
        _expand_replicas(
            self._expansion,
            replica_set,
            deployment.spec.replicas or 0,
            present,
            deployment.spec.selector,
            replica_set.spec.template,
        )


def _replica_set(deployment: Deployment, pods: list[Pod]) -> ReplicaSet:
    """The ReplicaSet that controls the newest pod of a Deployment, else a new one."""
    template = deployment.spec.template
    newest = max(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name), default=None)
    known = newest.metadata.controller() if newest else None
    suffix = known.name.removeprefix(f"{deployment.name}-") if known else template_hash(template)
    name = f"{deployment.name}-{suffix}"
    labels = template.metadata.labels | {HASH_LABEL: suffix}
    selector = deployment.spec.selector or LabelSelector()
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name,
            namespace=deployment.namespace,
            uid=(known.uid if known else "") or stable_uid("ReplicaSet", deployment.namespace, name),
            labels=labels,
            creation_timestamp=deployment.metadata.creation_timestamp,
            owner_references=controller_reference(deployment),
        ),
        spec=ReplicaSetSpec(
            replicas=deployment.spec.replicas,
            selector=replace(selector, match_labels=selector.match_labels | {HASH_LABEL: suffix}),
            template=replace(template, metadata=replace(template.metadata, labels=labels)),
        ),
    )
