"""Workloads of other projects whose pods follow from a pod template."""

from __future__ import annotations

from typing import Annotated, Any

from moorage.errors import InputError

from .field_rules import between, labels
from .meta import Int32, Object, Struct
from .workload import MAX_PODS, PodTemplateSpec, Replicas, ReplicaSet, ReplicaSetSpec, WorkloadStatus


class RolloutSpec(ReplicaSetSpec, frozen=True):
    """Spec of a Rollout; with `workload_ref` its template is elsewhere."""

    workload_ref: dict[str, Any] | None = None


class Rollout(Object, frozen=True):
    """A Rollout of Argo Rollouts."""

    kind: str = "Rollout"
    api_version: str = "argoproj.io/v1alpha1"
    spec: RolloutSpec = RolloutSpec()


class DeploymentConfigSpec(Struct, frozen=True):
    """Spec of a DeploymentConfig."""

    replicas: Replicas = None
    selector: Annotated[dict[str, str] | None, labels] = None
    template: PodTemplateSpec | None = None


class DeploymentConfigStatus(Struct, frozen=True):
    """Status of a DeploymentConfig."""

    latest_version: Int32 = 0


class DeploymentConfig(Object, frozen=True):
    """A DeploymentConfig of OpenShift."""

    kind: str = "DeploymentConfig"
    api_version: str = "apps.openshift.io/v1"
    spec: DeploymentConfigSpec = DeploymentConfigSpec()
    status: DeploymentConfigStatus = DeploymentConfigStatus()


class CloneSetStatus(WorkloadStatus, frozen=True):
    """Status of a CloneSet: the name of the revision of its template."""

    update_revision: str = ""


class CloneSet(ReplicaSet, frozen=True):
    """A CloneSet of OpenKruise, which controls its pods as a ReplicaSet does."""

    kind: str = "CloneSet"
    api_version: str = "apps.kruise.io/v1alpha1"
    status: CloneSetStatus = CloneSetStatus()


class LeaderWorkerTemplate(Struct, frozen=True):
    """The pods of a group: a leader and `size - 1` workers; a leader without a template is as a worker."""

    leader_template: PodTemplateSpec | None = None
    worker_template: PodTemplateSpec = PodTemplateSpec()
    size: Annotated[Int32 | None, between(1)] = None


class LeaderWorkerSetSpec(Struct, frozen=True):
    """Spec of a LeaderWorkerSet: how many groups there are."""

    replicas: Replicas = None
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()

    def check(self) -> None:
        pods = (self.replicas or 0) * (self.leader_worker_template.size or 1)
        if pods > MAX_PODS:
            raise InputError(f"{pods} pods in all groups are more than {MAX_PODS}", path="replicas")


class LeaderWorkerSet(Object, frozen=True):
    """A LeaderWorkerSet."""

    kind: str = "LeaderWorkerSet"
    api_version: str = "leaderworkerset.x-k8s.io/v1"
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


class CustomObject(Object, frozen=True):
    """An object of a kind that scheduling does not read, from which pods may follow.

    It is in no cluster: reading ends with the pods that its operator makes (`objects.workloads.kinds`).

    Attributes
    ----------
    document : bytes
        The whole object, as JSON.
    wanted : int
        Number of pods that it asks for, as far as its fields tell.
    is_exact : bool
        Whether it gives this number; otherwise it has that many templates.
    ready : int
        Number of pods that its status calls ready.
    is_namespaced : bool
        False for a kind without namespaces.
    digest : str
        Hash of its spec.
    """

    document: bytes = b""
    wanted: int = 0
    is_exact: bool = True
    ready: int = 0
    is_namespaced: bool = True
    digest: str = ""

    @property
    def full_kind(self) -> str:
        """Kind and API group, as kubectl names them: ``Job.batch.volcano.sh``."""
        return full_kind(self.kind, self.api_version)


def full_kind(kind: str, api_version: str) -> str:
    """Return kind and API group, as kubectl names them: ``Job.batch.volcano.sh``, ``ConfigMap``."""
    group = api_version.rpartition("/")[0]
    return f"{kind}.{group}" if group else kind


KINDS = (Rollout, DeploymentConfig, CloneSet, LeaderWorkerSet)
"""The kinds of this module that files are decoded to."""
