"""SchedulerCache: nodes and pods as events report them, over the core's state."""

from __future__ import annotations

from moorage._core.state import ClusterState
from moorage.objects.node import Node
from moorage.objects.pod import Pod


class SchedulerCache:
    """Keeps nodes and pods up to date from events; the scheduler assumes pods in it.

    State of a pod: Initial → Assumed → Added → gone. Errors are KeyError (an unknown object, or one in the
    wrong state) and ValueError (a pod without UID, an unreadable object), with the texts of kube-scheduler
    v1.36; an operation that raises changed nothing.
    """

    def __init__(self) -> None:
        self.state = ClusterState()

    def add_node(self, node: Node) -> None:
        """A node appeared. Pods that named it before are on it from now on."""
        self.state.set_node(node)

    def update_node(self, old: Node, new: Node) -> None:
        """A node changed; one that is not known is added."""
        self.state.set_node(new)

    def remove_node(self, node: Node) -> None:
        """A node went; its pods stay known without it."""
        self.state.remove_node(node.name)

    def assume_pod(self, pod: Pod) -> None:
        """Put a pod on ``spec.node_name`` ahead of its binding."""
        self.state.assume_pod(pod)

    def finish_binding(self, pod: Pod, deadline: float) -> None:
        """Binding ended: the assumed pod may expire after `deadline` (seconds on the caller's clock)."""
        self.state.finish_binding(pod, deadline)

    def forget_pod(self, pod: Pod) -> None:
        """Take an assumed pod back."""
        self.state.forget_pod(pod)

    def add_pod(self, pod: Pod) -> None:
        """A bound pod was reported: it confirms an assumed one, or is new."""
        self.state.add_pod(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """A bound pod changed."""
        self.state.update_pod(old, new)

    def remove_pod(self, pod: Pod) -> None:
        """A pod went."""
        self.state.remove_pod(pod)

    def get_pod(self, pod: Pod) -> Pod:
        """The pod as the cache has it, by UID."""
        return self.state.get_pod(pod)

    def is_assumed_pod(self, pod: Pod) -> bool:
        """True for a pod that is assumed and not confirmed yet."""
        return self.state.is_assumed_pod(pod)

    def cleanup_assumed_pods(self, now: float) -> list[Pod]:
        """Drop assumed pods whose deadline lies before `now`; returns them."""
        return self.state.expire(now)
