"""Which pods a workload lacks because the API server refuses them, and why."""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from moorage.kube.apiserver.admission import RefusedError
from moorage.kube.model.cluster import RefusedPod
from moorage.kube.model.meta import LabelSelector, Object
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.storage import PersistentVolumeClaim
from moorage.kube.model.workload import ControllerRevision, DaemonSet, PodTemplateSpec
from moorage.kube.workloads.missing_pods import create_missing, new_pod
from moorage.store import find_object

from .store_control import StoreControl, admission_of, admit_claim, admit_pod


def refused_pods(control: StoreControl, obj: Object, message: str, nodes: Sequence[Node]) -> list[RefusedPod]:
    """Return the pods that a workload would create now and that the API server refuses.

    Parameters
    ----------
    message : str
        Why its next pod was refused.
    nodes : sequence of Node
        All nodes.

    Returns
    -------
    list of RefusedPod
        At least one: where the refusal is of no single pod, such as one of a changed template, a pod with the
        name of the workload. Pods that wait for a refused one are not among them.
    """
    attempt = _Attempt(control)
    create_missing(attempt, obj, nodes)
    return attempt.refused or [RefusedPod(new_pod(obj, PodTemplateSpec(), name=obj.name), message)]


class _Attempt:
    """Asks the API server for each pod that a workload lacks, and writes nothing (`PodControl`)."""

    def __init__(self, control: StoreControl) -> None:
        self.refused: list[RefusedPod] = []
        self._control = control
        self._admission = admission_of(control.client)
        self._claims: dict[str, str] = {}  # by name of a claim that is refused, the text
        self.active, self.owned, self.count = control.active, control.owned, control.count
        self.revisions, self.is_new = control.revisions, control.is_new

    def adopt(self, _: Object, __: LabelSelector | None) -> list[Pod]:
        return []  # the controllers have adopted what there is

    def daemon_nodes(self, owner: DaemonSet) -> Container[str]:
        return self._control.daemon_nodes(owner)

    def create(self, owner: Object, pod: Pod) -> None:
        claims = (volume.persistent_volume_claim for volume in pod.spec.volumes)
        texts = [self._claims.get(claim.claim_name) for claim in claims if claim is not None]
        message = next(filter(None, texts), None)
        if message is None:
            try:
                admit_pod(self._admission, self._control.client, owner, pod)
                return
            except RefusedError as error:
                message = str(error)
        named = pod if pod.name else replace(pod, metadata=replace(pod.metadata, name=owner.name))
        self.refused.append(RefusedPod(named, message))

    def create_claim(self, _: Object, claim: PersistentVolumeClaim) -> None:
        if find_object(self._control.client, PersistentVolumeClaim, claim.name, claim.namespace) is not None:
            return
        try:
            admit_claim(self._admission, claim)
        except RefusedError as error:
            self._claims[claim.name] = str(error)

    def write_revision(self, _: Object, revision: ControllerRevision) -> ControllerRevision:
        return revision
