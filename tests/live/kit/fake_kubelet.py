"""What kubelets would say of the pods on their nodes."""

from __future__ import annotations

from contextlib import suppress

from tests.live.kit.cluster_workload import AT_ONCE, PATHS, send
from tests.live.kit.followed_pods import FollowedPods

from moorage.kube import Pod
from moorage.live.client import ApiClient
from moorage.store import ConflictError, NotFoundError


class FakeKubelet:
    """Runs the pods of all nodes: those of a Job succeed at once, others are ready; deleted ones go.

    Parameters
    ----------
    client : ApiClient
    pods : FollowedPods
    """

    def __init__(self, client: ApiClient, pods: FollowedPods) -> None:
        self.client, self.followed = client, pods

    def step(self) -> None:
        """Do what there is to do now."""
        for pod in self.followed.pods():
            if pod.spec.node_name:
                with suppress(NotFoundError, ConflictError):
                    self._run(pod)

    def _run(self, pod: Pod) -> None:
        path = f"{PATHS['Pod']}/{pod.name}"
        if pod.metadata.deletion_timestamp:
            send(self.client, "DELETE", path, AT_ONCE)
        elif pod.status.phase in ("", "Pending"):
            is_of_job = any(owner.kind == "Job" for owner in pod.metadata.owner_references)
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Succeeded"} if is_of_job else {"phase": "Running", "conditions": [ready]}
            send(self.client, "PATCH", f"{path}/status", {"status": status})
