"""PodStore: pods, assumed and confirmed. They are the ledger's, which charges the node that a pod is on."""

from __future__ import annotations

from moorage._core import binder_pods
from moorage.errors import CacheError
from moorage.objects.godel import node_name_of
from moorage.objects.pod import Pod

from .common import Store, StoreName

NEVER = float("inf")


class PodStore(Store):
    """Pods by UID."""

    name = StoreName.POD

    def get_pod(self, pod: Pod) -> Pod:
        held = self.find(pod)
        if held is None:
            raise CacheError(f"pod {pod.metadata.uid} does not exist in binder cache")
        return held

    def find(self, pod: Pod) -> Pod | None:
        """The pod with this UID as it was entered, or None."""
        return binder_pods.find(self.state, pod)

    def is_assumed_pod(self, pod: Pod) -> bool:
        return binder_pods.is_assumed(self.state, pod)

    def assume_pod(self, pod: Pod) -> None:
        """Put a pod on its node ahead of its binding. One that only names a node in an annotation does not
        expire, and one that names none is charged nowhere."""
        handler = self.handler
        if pod.spec.node_name:
            node_name, deadline = pod.spec.node_name, handler.clock() + handler.assumed_pod_expiration
        else:
            node_name, deadline = node_name_of(pod), NEVER
        binder_pods.assume(self.state, pod, node_name, deadline)

    def finish_binding(self, pod: Pod) -> None:
        binder_pods.finish(self.state, pod, self.handler.clock() + self.handler.pod_assumed_ttl)

    def forget_pod(self, pod: Pod) -> Pod | None:
        """Take back an assumed pod, which is returned."""
        return binder_pods.forget(self.state, pod, node_name_of(pod))

    def add_pod(self, pod: Pod) -> Pod | None:
        """A bound pod came; the assumed one that it confirms is returned."""
        return binder_pods.add(self.state, pod)

    def update_pod(self, old: Pod, new: Pod) -> list[Pod]:
        """A pod changed to a bound one; those that give way to it are returned."""
        return binder_pods.update(self.state, old, new)

    def remove_pod(self, pod: Pod) -> Pod | None:
        """A pod went, in whatever state it was; it is returned."""
        return binder_pods.remove(self.state, pod)

    def expire(self, now: float) -> list[Pod]:
        """Drop the assumed pods whose deadline lies before `now`; returns them, the earliest first."""
        return binder_pods.expire(self.state, now)
