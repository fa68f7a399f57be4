"""Expands workloads: creates the pods that kube-controller-manager would still create."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from dataclasses import replace as replace_fields
from functools import cached_property

from msgspec.structs import replace

from moorage.errors import InputError
from moorage.objects.model.cluster import Cluster
from moorage.objects.model.meta import LabelSelector, Object, ObjectMeta
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolumeClaim
from moorage.objects.model.workload import MAX_PODS, DaemonSet, Deployment, PodTemplateSpec, ReplicaSet

from .daemon_pods import node_of
from .deployment_rollout import comparable, next_step, replica_set
from .missing_pods import create_missing
from .naming import Names, stable_uid
from .ownership import FINISHED, HASH_LABEL, PodIndex, is_active, is_healthy, refers_to
from .pod_claims import ephemeral_claims


def expand_workloads(cluster: Cluster) -> Cluster:
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
      with a volume per claim template, and the claims that are not listed.
    - **DaemonSet:** one pod per node that it should run on, pinned to it.
    - **Job:** up to `parallelism` pods at once, as long as completions are missing.

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
    others = _with_replica_sets(expansion, cluster.others)
    for obj in others:
        create_missing(expansion, obj, cluster.nodes)
    pods = cluster.pods + expansion.pods
    claims = [*expansion.claims, *ephemeral_claims(pods)]
    listed = {obj.key for obj in others if isinstance(obj, PersistentVolumeClaim)}
    first = {claim.key: claim for claim in reversed(claims)}  # of two with one name the first is kept
    new = [claim for claim in claims if claim.key not in listed and claim is first[claim.key]]
    return replace_fields(cluster, pods=pods, others=[*others, *new])


class Expansion:
    """The pods of a cluster that is read, and the pods and claims that its workloads add (`PodControl`).

    Parameters
    ----------
    cluster : Cluster

    Attributes
    ----------
    pods : list of Pod
    claims : list of PersistentVolumeClaim
    """

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

    def active(self, owner: Object) -> int:
        """Return the number of active pods that an object controls.

        Parameters
        ----------
        owner : Object
        """
        return sum(map(is_active, self.index.owned(owner)))

    def owned(self, owner: Object) -> list[Pod]:
        """Return the pods that an object controls, in any state.

        Parameters
        ----------
        owner : Object
        """
        return self.index.owned(owner)

    def adopt(self, owner: Object, selector: LabelSelector | None) -> list[Pod]:
        """Adopt the active pods without a controller that match a selector; each pod is adopted once.

        Parameters
        ----------
        owner : Object
        selector : LabelSelector or None
            None adopts no pods.

        Returns
        -------
        list of Pod
        """
        return self.index.adopt(owner, selector)

    def daemon_nodes(self, owner: DaemonSet) -> Container[str]:
        """Return the nodes that have, or will have, a pod of a DaemonSet that has not finished.

        Parameters
        ----------
        owner : DaemonSet

        Returns
        -------
        set of str
        """
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
        """Add a pod with a UID, the creation time of its workload, and a name.

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
        uid, time = stable_uid("Pod", meta.namespace, name), owner.metadata.creation_timestamp
        meta = replace(meta, name=name, uid=uid, creation_timestamp=time)
        self.pods.append(replace(pod, metadata=meta))

    def create_claim(self, owner: Object, claim: PersistentVolumeClaim) -> None:
        """Add a claim.

        Parameters
        ----------
        owner : Object
        claim : PersistentVolumeClaim
        """
        self.claims.append(claim)


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

    Returns
    -------
    range

    Raises
    ------
    InputError
        There would be more than `MAX_PODS` pods.
    """
    if present + missing > MAX_PODS:
        message = f"{missing} pods to create would make more than {MAX_PODS} in all"
        raise InputError(message, obj=f"{owner.kind} {owner.key}", path=path)
    return range(missing)


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
            by_name[one.name] = one if one.name in by_name else _identified(deployment, one)
    return list(by_name.values())


def _identified(deployment: Deployment, made: ReplicaSet, uid: str = "") -> ReplicaSet:
    """Return a new ReplicaSet with a UID and the creation time of its Deployment."""
    uid = uid or stable_uid("ReplicaSet", made.namespace, made.name)
    meta = replace(made.metadata, uid=uid, creation_timestamp=deployment.metadata.creation_timestamp)
    return replace(made, metadata=meta)


def _inferred(expansion: Expansion, deployment: Deployment) -> list[ReplicaSet]:
    """Return the ReplicaSets that the pods of a Deployment name. The newest pod is taken to have its
    template, if containers, images and resources are the same; that of others is what their pods show."""
    pods: dict[str, list[Pod]] = {}
    for pod in expansion.index.of_template(deployment.namespace, deployment.name):
        pods.setdefault(pod.metadata.labels[HASH_LABEL], []).append(pod)
    newest = {suffix: max(each, key=_by_creation) for suffix, each in pods.items()}
    last, sets = max(newest.values(), key=_by_creation, default=None), []
    for suffix, pod in newest.items():
        owner, template = pod.metadata.controller(), deployment.spec.template
        if pod is not last or not _shows(pod, template):
            # Other hashes are those of other templates, also if they differ in fields that are not read.
            annotations = pod.metadata.annotations | {HASH_LABEL: suffix}
            meta = ObjectMeta(labels=pod.metadata.labels, annotations=annotations)
            template = PodTemplateSpec(metadata=meta, spec=replace(pod.spec, node_name=""))
        made = replica_set(deployment, suffix, template, len(pods[suffix]))
        sets.append(_identified(deployment, made, owner.uid if owner else ""))
    return sets


def _by_creation(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.name


def _shows(pod: Pod, template: PodTemplateSpec) -> bool:
    """Whether a pod has the containers of a template, as far as admission does not change them."""
    ours, its = (
        comparable([(each.name, each.image, each.resources) for each in spec.containers])
        for spec in (template.spec, pod.spec)
    )
    return bool(ours == its)
