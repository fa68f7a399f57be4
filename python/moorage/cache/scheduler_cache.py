"""SchedulerCache: nodes and pods as events report them, over the core's state."""

from __future__ import annotations

import builtins
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from moorage._core.base.resources import PodGates
from moorage._core.decide import bulk_operations as batches
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod

from .cluster_cache import ClusterCache
from .info_map import Follower, NodeInfoMap
from .node_info import NodeInfo, NodeInfoClone
from .node_tree import KNOWN
from .snapshot import CacheDump, dump

CLEAN_ASSUMED_PERIOD = 1.0
NEVER = float("inf")
BINDING = "Couldn't expire cache for pod %s/%s. Binding is still in progress."

logger = logging.getLogger("moorage.cache")


class Selector(Protocol):
    """What chooses objects by their labels."""

    def matches(self, labels: dict[str, str]) -> bool: ...


class SchedulerCache(ClusterCache):
    """Keeps nodes and pods up to date from events; a scheduler assumes pods in it. Thread-safe.

    State of a pod: Initial → Assumed → Added → gone, with Forget and Expire from Assumed; a pod can be added
    without having been assumed, and again after it expired. Keys are UIDs. Methods and texts are those of
    v1.13's Cache (CacheError where it returned an error, CacheCorruptedError where it ended the process);
    what scheduling sees is v1.36's. An operation that raises changed nothing.

    Parameters
    ----------
    ttl : float, optional
        Seconds after `finish_binding` at which an assumed pod may expire; None for never.
    clock : callable
        Seconds, for deadlines.
    gates : PodGates
        What feature gates say about reading pods; by default as in v1.36.
    """

    def __init__(
        self,
        ttl: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        gates: PodGates | None = None,
    ) -> None:
        super().__init__(ClusterState(gates=gates or PodGates()), clock)
        self.ttl = ttl

    # ---- pods ----------------------------------------------------------------------------------------------

    def assume_pod(self, pod: Pod) -> None:
        """Put a pod on ``spec.node_name`` ahead of its binding. A pod is assumed once."""
        with self.lock:
            self.state.assume_pod(pod)

    def assume_pods(self, pods: Sequence[Pod]) -> None:
        """Assume several pods; all or none."""
        with self.lock:
            batches.assume_pods(self.state, pods)

    def finish_binding(self, pod: Pod, now: float | None = None) -> None:
        """Binding ended: from `now` (default: the clock) the assumed pod lives for the ttl. A pod that is not
        assumed is left alone."""
        with self.lock:
            self.state.finish_binding(pod, self._deadline(now))

    def finish_bindings(self, pods: Sequence[Pod], now: float | None = None) -> None:
        """`finish_binding` for several pods at one moment."""
        with self.lock:
            batches.finish_bindings(self.state, pods, self._deadline(now))

    def _deadline(self, now: float | None) -> float:
        return NEVER if self.ttl is None else (self.clock() if now is None else now) + self.ttl

    def forget_pod(self, pod: Pod) -> None:
        """Take an assumed pod back."""
        with self.lock:
            self.state.forget_pod(pod)

    def forget_pods(self, pods: Sequence[Pod]) -> None:
        """Take several assumed pods back; all or none."""
        with self.lock:
            batches.forget_pods(self.state, pods)

    # Pods that `ClusterState.assume_template` has entered have no objects; these name them by ordinals.

    def finish_template(self, template: Pod, first: int, pods: int, now: float | None = None) -> None:
        """`finish_bindings` for `pods` pods of a template, from ordinal `first` on."""
        with self.lock:
            batches.finish_template(self.state, template, first, pods, self._deadline(now))

    def forget_template(self, template: Pod, first: int, pods: int) -> None:
        """`forget_pods` for `pods` pods of a template, from ordinal `first` on."""
        with self.lock:
            batches.forget_template(self.state, template, first, pods)

    def confirm_template(self, template: Pod, first: int, pods: int) -> None:
        """`pods` assumed pods of a template, from ordinal `first` on, are bound as they were assumed; all or
        none. They get no objects."""
        with self.lock:
            batches.confirm_template(self.state, template, first, pods)

    def add_pod(self, pod: Pod) -> None:
        """A bound pod was reported: it confirms an assumed one (moving it if its node differs), or is new."""
        with self.lock:
            self.state.add_pod(pod)

    def add_pods(self, pods: Sequence[Pod]) -> None:
        """`add_pod` for several pods; all or none."""
        with self.lock:
            batches.add_pods(self.state, pods)

    def add_bound_pods(self, pods: Sequence[Pod], nodes: Sequence[str]) -> None:
        """`add_pods` for pods that others have bound, as they were before, with the names of their nodes;
        much faster where pods share a spec."""
        with self.lock:
            batches.add_bound(self.state, pods, nodes)

    def confirm_pods(self, pods: Sequence[Pod]) -> None:
        """Pods that this cache's own scheduler has bound were reported. Like `add_pods`, but the spec of a
        pod that is only bound is not read again; one that is not assumed any more is added, unless it was
        added before."""
        with self.lock:
            batches.confirm_pods(self.state, pods)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """An added pod changed; it stays on its node."""
        with self.lock:
            self.state.update_pod(old, new)

    def remove_pod(self, pod: Pod) -> None:
        """An added pod went."""
        with self.lock:
            self.state.remove_pod(pod)

    def discard_pod(self, pod: Pod) -> None:
        """Take a pod away, assumed or added; `pod` names the node that it is on."""
        with self.lock:
            self.state.discard_pod(pod)

    def get_pod(self, pod: Pod) -> Pod:
        """The pod as the cache has it, by UID."""
        with self.lock:
            return self.state.get_pod(pod)

    def is_assumed_pod(self, pod: Pod) -> bool:
        """True for a pod that is assumed and not confirmed yet."""
        with self.lock:
            return self.state.is_assumed_pod(pod)

    def cleanup_assumed_pods(self, now: float) -> list[Pod]:
        """Expire the assumed pods whose binding finished and whose deadline is before `now`; returns them."""
        with self.lock:
            if logger.isEnabledFor(logging.DEBUG):
                for pod in self.state.binding_pods():
                    logger.debug(BINDING, pod.namespace, pod.name)
            return self.state.expire(now)

    def clean(self, now: float) -> None:
        """`cleanup_assumed_pods`, for the background."""
        self.cleanup_assumed_pods(now)

    def list(self, selector: Selector) -> list[Pod]:
        """Every pod that the selector matches, assumed ones and those of ghost nodes included."""
        return self.filtered_list(lambda pod: True, selector)

    def filtered_list(self, pod_filter: Callable[[Pod], bool], selector: Selector) -> builtins.list[Pod]:
        """Every pod that passes the filter and that the selector matches, node by node."""
        with self.lock:
            pods = self.state.pods()
        return [pod for pod in pods if pod_filter(pod) and selector.matches(pod.metadata.labels)]

    # ---- nodes ---------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """A node appeared. Pods that named it before are on it from now on. One that is known is updated,
        with a warning."""
        with self.lock:
            if self.state.has_node(node.name):
                logger.warning(KNOWN, node.name)
            self.state.set_node(node)

    def update_node(self, old: Node, new: Node) -> None:
        """A node changed; one that is not known is added."""
        with self.lock:
            self.state.set_node(new)

    def remove_node(self, node: Node) -> None:
        """A node went; while it has pods they stay known, without a node."""
        with self.lock:
            self.state.remove_node(node.name)

    def node_info(self, name: str) -> NodeInfo | None:
        """A live view of one node (ghosts included), or None."""
        return None if self.state.find_row(name) is None else NodeInfo(self.state, name)

    # ---- copies --------------------------------------------------------------------------------------------

    def update_node_name_to_info_map(self, infos: NodeInfoMap) -> None:
        """Bring a map of node name to NodeInfo up to date in place: copies for new or changed nodes (ghosts
        included), names that are gone deleted, the other entries untouched.

        Only what has changed since this map's last update is looked at, so nobody else should write it; of a
        map that is new here, was copied or has another length, every entry is.
        """
        with self.lock:
            Follower.of(infos, self.state, self._clone).update()

    def _clone(self, name: str) -> NodeInfoClone:
        info = self.node_info(name)
        assert info is not None
        return info.clone()

    def snapshot(self) -> CacheDump[NodeInfo]:
        """Everything at this moment: assumed pods and all nodes, ghosts included."""
        with self.lock:
            return dump(self.state)


def new_scheduler_cache(
    ttl: float,
    period: float = CLEAN_ASSUMED_PERIOD,
    stop: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SchedulerCache:
    """A cache whose assumed pods expire `ttl` seconds after their binding finished, cleaned in the background
    until `stop` is set."""
    cache = SchedulerCache(ttl, clock)
    cache.run(period, stop or threading.Event())
    return cache
