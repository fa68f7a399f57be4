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
from moorage.objects import Node, Pod

from .cluster_cache import ClusterCache
from .node_info import Follower, NodeInfo, NodeInfoMap
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
        """Put a pod on its node ahead of its binding.

        Parameters
        ----------
        pod : Pod
            With ``spec.node_name``.

        Raises
        ------
        CacheError
            The pod is known, assumed or added.
        """
        with self.lock:
            self.state.assume_pod(pod)

    def assume_pods(self, pods: Sequence[Pod]) -> None:
        """`assume_pod` for several pods; all or none.

        Parameters
        ----------
        pods : sequence of Pod

        Raises
        ------
        CacheError
            One of the pods is known, or listed twice.
        """
        with self.lock:
            batches.assume_pods(self.state, pods)

    def finish_binding(self, pod: Pod, now: float | None = None) -> None:
        """Start the time to live of an assumed pod whose binding ended; other pods are left alone.

        Parameters
        ----------
        pod : Pod
        now : float, optional
            Seconds on the cache's clock, from which on the pod lives for the ttl; by default what the clock
            shows.
        """
        with self.lock:
            self.state.finish_binding(pod, self._deadline(now))

    def finish_bindings(self, pods: Sequence[Pod], now: float | None = None) -> None:
        """`finish_binding` for several pods at one moment.

        Parameters
        ----------
        pods : sequence of Pod
        now : float, optional
            As for `finish_binding`.
        """
        with self.lock:
            batches.finish_bindings(self.state, pods, self._deadline(now))

    def _deadline(self, now: float | None) -> float:
        return NEVER if self.ttl is None else (self.clock() if now is None else now) + self.ttl

    def forget_pod(self, pod: Pod) -> None:
        """Take an assumed pod back.

        Parameters
        ----------
        pod : Pod
            With the node that it was assumed on.

        Raises
        ------
        CacheError
            The pod is not assumed, or on another node.
        """
        with self.lock:
            self.state.forget_pod(pod)

    def forget_pods(self, pods: Sequence[Pod]) -> None:
        """`forget_pod` for several pods; all or none.

        Parameters
        ----------
        pods : sequence of Pod

        Raises
        ------
        CacheError
            As `forget_pod`, for the first of them.
        """
        with self.lock:
            batches.forget_pods(self.state, pods)

    # Pods that `ClusterState.assume_template` has entered have no objects; these name them by ordinals.

    def finish_template(self, template: Pod, first: int, pods: int, now: float | None = None) -> None:
        """`finish_bindings` for pods of a template.

        Parameters
        ----------
        template : Pod
            See `ClusterState.assume_template`.
        first, pods : int
            The ordinal of the first pod, and how many there are.
        now : float, optional
            As for `finish_binding`.
        """
        with self.lock:
            batches.finish_template(self.state, template, first, pods, self._deadline(now))

    def forget_template(self, template: Pod, first: int, pods: int) -> None:
        """`forget_pods` for pods of a template.

        Parameters
        ----------
        template : Pod
        first, pods : int
            As for `finish_template`.
        """
        with self.lock:
            batches.forget_template(self.state, template, first, pods)

    def confirm_template(self, template: Pod, first: int, pods: int) -> None:
        """Confirm assumed pods of a template where they were assumed; all or none. They get no objects.

        Parameters
        ----------
        template : Pod
        first, pods : int
            As for `finish_template`.
        """
        with self.lock:
            batches.confirm_template(self.state, template, first, pods)

    def add_pod(self, pod: Pod) -> None:
        """Add a bound pod as reported: it confirms an assumed one, moving it if its node differs, or is new.

        Parameters
        ----------
        pod : Pod
            With ``spec.node_name``.

        Raises
        ------
        CacheError
            The pod was added before.
        """
        with self.lock:
            self.state.add_pod(pod)

    def add_pods(self, pods: Sequence[Pod]) -> None:
        """`add_pod` for several pods; all or none.

        Parameters
        ----------
        pods : sequence of Pod

        Raises
        ------
        CacheError
            As `add_pod`, for the first of them.
        """
        with self.lock:
            batches.add_pods(self.state, pods)

    def add_bound_pods(self, pods: Sequence[Pod], nodes: Sequence[str]) -> None:
        """`add_pods` for pods that others have bound; much faster where pods share a spec.

        Parameters
        ----------
        pods : sequence of Pod
            As they were before they were bound.
        nodes : sequence of str
            The name of the node of each pod.
        """
        with self.lock:
            batches.add_bound(self.state, pods, nodes)

    def confirm_pods(self, pods: Sequence[Pod]) -> None:
        """Add pods that this cache's own scheduler has bound, as reported.

        Like `add_pods`, but the spec of a pod that differs by its node alone is not read again. A pod that is
        no longer assumed is added, unless it was added before.

        Parameters
        ----------
        pods : sequence of Pod
        """
        with self.lock:
            batches.confirm_pods(self.state, pods)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Replace an added pod by its new state.

        Parameters
        ----------
        old, new : Pod
            Before and after; on one node.

        Raises
        ------
        CacheError
            `old` was not added.
        CacheCorruptedError
            `new` is on another node.
        """
        with self.lock:
            self.state.update_pod(old, new)

    def remove_pod(self, pod: Pod) -> None:
        """Remove an added pod.

        Parameters
        ----------
        pod : Pod
            With its node.

        Raises
        ------
        CacheError
            The pod was not added.
        CacheCorruptedError
            The pod is on another node.
        """
        with self.lock:
            self.state.remove_pod(pod)

    def discard_pod(self, pod: Pod) -> None:
        """Remove a pod, assumed or added.

        Parameters
        ----------
        pod : Pod
            With its node.

        Raises
        ------
        CacheError, CacheCorruptedError
            As `forget_pod` and `remove_pod`.
        """
        with self.lock:
            self.state.discard_pod(pod)

    def get_pod(self, pod: Pod) -> Pod:
        """The cache's object of a pod.

        Parameters
        ----------
        pod : Pod
            Found by its UID.

        Returns
        -------
        Pod
            With the node that it is on.

        Raises
        ------
        CacheError
            The pod is not known.
        """
        with self.lock:
            return self.state.get_pod(pod)

    def is_assumed_pod(self, pod: Pod) -> bool:
        """True for a pod that is assumed and not confirmed yet."""
        with self.lock:
            return self.state.is_assumed_pod(pod)

    def cleanup_assumed_pods(self, now: float) -> list[Pod]:
        """Expire the assumed pods whose binding finished and whose deadline lies before `now`.

        Parameters
        ----------
        now : float
            Seconds on the cache's clock.

        Returns
        -------
        list of Pod
            The expired pods, earliest deadline first.
        """
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
        """The pods that pass a filter and that a selector matches, node by node.

        Parameters
        ----------
        pod_filter : callable
            Called with each pod.
        selector : Selector

        Returns
        -------
        list of Pod
            Assumed pods and those of ghost nodes included.
        """
        with self.lock:
            pods = self.state.pods()
        return [pod for pod in pods if pod_filter(pod) and selector.matches(pod.metadata.labels)]

    # ---- nodes ---------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node; pods that named it before are on it from now on. One that is known is updated, with a
        warning.

        Parameters
        ----------
        node : Node

        Raises
        ------
        ValueError
            A quantity cannot be parsed.
        """
        with self.lock:
            if self.state.has_node(node.name):
                logger.warning(KNOWN, node.name)
            self.state.set_node(node)

    def update_node(self, old: Node, new: Node) -> None:
        """Replace a node by its new state; one that is not known is added.

        Parameters
        ----------
        old, new : Node
        """
        with self.lock:
            self.state.set_node(new)

    def remove_node(self, node: Node) -> None:
        """Remove a node. While it has pods they stay known, without a node.

        Parameters
        ----------
        node : Node

        Raises
        ------
        CacheError
            The node is not known.
        """
        with self.lock:
            self.state.remove_node(node.name)

    def node_info(self, name: str) -> NodeInfo | None:
        """A live view of one node.

        Parameters
        ----------
        name : str

        Returns
        -------
        NodeInfo or None
            Ghosts included; None for a name that is not known.
        """
        return None if self.state.find_row(name) is None else NodeInfo(self.state, name)

    # ---- copies --------------------------------------------------------------------------------------------

    def update_node_name_to_info_map(self, infos: NodeInfoMap) -> None:
        """Bring a map of node name to NodeInfo up to date in place (v1.13, Cache.UpdateNodeNameToInfoMap).

        New or changed nodes, ghosts included, get new copies; names that are gone are deleted; the other
        entries stay. Only what has changed since the last update of this map is looked at, so it must not be
        written otherwise. Every entry is looked at where the map is new here, was copied, or has another
        length.

        Parameters
        ----------
        infos : dict of str to NodeInfoClone
        """
        with self.lock:
            Follower.of(infos, self.state).update()

    def snapshot(self) -> CacheDump[NodeInfo]:
        """A copy of everything at this moment.

        Returns
        -------
        CacheDump
            Assumed pods and all nodes, ghosts included.
        """
        with self.lock:
            return dump(self.state)


def new_scheduler_cache(
    ttl: float,
    period: float = CLEAN_ASSUMED_PERIOD,
    stop: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SchedulerCache:
    """A cache that is cleaned in the background.

    Parameters
    ----------
    ttl : float
        Seconds after `finish_binding` at which an assumed pod expires.
    period : float
        Seconds between two cleanings.
    stop : threading.Event, optional
        Ends the cleaning.
    clock : callable
        Seconds.

    Returns
    -------
    SchedulerCache
    """
    cache = SchedulerCache(ttl, clock)
    cache.run(period, stop or threading.Event())
    return cache
