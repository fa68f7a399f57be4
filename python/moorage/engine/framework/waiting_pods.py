"""Pods that have a node before they are bound: nominated, waiting at Permit, or in PreBind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Generic, Self, TypeAlias, TypeVar

from msgspec import Struct

from moorage.arguments import argument
from moorage.engine.cache.scheduler_cache import Enlisted
from moorage.kube import Pod
from moorage.kube.go_texts import format_duration
from moorage.saved_fields import SavedFields

from .status import Code, Status

# Source: kube-scheduler v1.36, framework/runtime, waiting_pods_map.go and pods_in_prebind_map.go.


MAX_TIMEOUT = 15 * 60.0
INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1, 10
"""Of a pod, where a configuration does not say."""
NEVER = float("inf")


class WaitingPod(SavedFields):
    """A pod that waits until each waiting plugin has allowed it, or one plugin has rejected it.

    Each waiting plugin has a timer, which rejects the pod. Timers use the clock of the caller of `expire`.
    Thread-safe.

    Parameters
    ----------
    timeouts : mapping of str to float
        Seconds to wait by plugin; the pod is rejected at once for zero or less.
    now : float
        Time in seconds at which the waiting begins.

    Attributes
    ----------
    began : float
        `now`, in seconds.
    """

    fields = ("_deadlines", "_pending", "_signal", "_listeners")

    def __init__(self, pod: Pod, timeouts: Mapping[str, float], now: float) -> None:
        self.pod, self.began = pod, now
        self._timeouts = dict(timeouts)
        self._deadlines = {plugin: now + seconds for plugin, seconds in timeouts.items()}
        self._pending = list(timeouts)
        self._signal: Status | None = None
        self._listeners: list[Callable[[], object]] = []
        self._lock = self._changed = threading.Condition(threading.RLock())
        self.expire(now)

    def __repr__(self) -> str:
        return f"<WaitingPod {self.pod.key}: waits for {', '.join(self._pending) or 'none'}>"

    @property
    def signal(self) -> Status | None:
        """Success or the rejection; None while the pod waits."""
        return self._signal

    def get_pending_plugins(self) -> list[str]:
        """Return the plugins that have not allowed the pod yet."""
        with self._changed:
            return list(self._pending)

    def allow(self, *plugins: str) -> bool:
        """Allow the pod for some plugins; the pod is allowed with the last one.

        Parameters
        ----------
        *plugins : str
            Names of the plugins.

        Returns
        -------
        bool
            False if none of them was waiting, or the pod was decided before.
        """
        for plugin in plugins:
            argument("plugin", plugin, "str")
        with self._changed:
            waited = self._signal is None and not set(plugins).isdisjoint(self._pending)
            for plugin in plugins:
                self._deadlines.pop(plugin, None)
            self._pending = [plugin for plugin in self._pending if plugin not in plugins]
            if not self._pending:
                self._decide(Status(Code.SUCCESS))
            return waited

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod.

        Parameters
        ----------
        plugin, message : str
            Name of the plugin, and the reason.

        Returns
        -------
        bool
            False if the pod was decided before.
        """
        return self._decide(Status(Code.UNSCHEDULABLE, (message,), argument("plugin", plugin, "str")))

    def preempt(self, plugin: str, message: str) -> bool:
        """Fail the pod with an Error, so that it is retried soon.

        Parameters
        ----------
        plugin, message : str
            Name of the plugin, and the message.

        Returns
        -------
        bool
            False if the pod was decided before.
        """
        return self._decide(Status(Code.ERROR, (message,), argument("plugin", plugin, "str")))

    def _decide(self, status: Status) -> bool:
        with self._changed:
            if self._signal is not None:
                return False
            self._deadlines.clear()
            self._signal = status
            self._changed.notify_all()
            for listener in self._listeners:
                listener()
            return True

    def when_decided(self, listener: Callable[[], object]) -> None:
        """Register a function to call when the pod is decided; it is called at once if it is.

        Parameters
        ----------
        listener : callable
            The function.
        """
        with self._changed:
            self._listeners.append(listener)
            if self._signal is not None:
                listener()

    def copy_from(self, other: Self) -> None:
        """Take the state of the pod in another framework, without its listeners."""
        with self._changed:
            super().copy_from(other)
            self._listeners = []

    def deadline(self) -> float:
        """Return the time of the first timer in seconds; infinity without timers."""
        with self._changed:
            return min(self._deadlines.values(), default=NEVER)

    def expire(self, now: float) -> bool:
        """Fire the earliest timer if it is due.

        Parameters
        ----------
        now : float
            Current time in seconds, on the clock of the timers.

        Returns
        -------
        bool
            Whether the timer rejected the pod.
        """
        with self._changed:
            if not self._deadlines:
                return False
            plugin = min(self._deadlines, key=self._deadlines.__getitem__)
            if self._deadlines[plugin] > now:
                return False
            waited = format_duration(self._timeouts[plugin])
            return self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def wait(self, clock: Callable[[], float] | None = None) -> Status:
        """Block until the pod is decided.

        Parameters
        ----------
        clock : callable, optional
            Returns the time in seconds by which timers are fired here; without a clock, another thread calls
            `expire`.

        Returns
        -------
        Status
            Success, or the rejection.
        """
        with self._changed:
            while (signal := self._signal) is None:
                deadline = self.deadline()
                if clock is None or deadline == NEVER:
                    self._changed.wait()
                elif not self.expire(clock()):
                    self._changed.wait(max(deadline - clock(), 0))
            return signal


class WaitingPods(SavedFields):
    """The waiting pods of a framework by UID, in order of insertion. Thread-safe."""

    maps = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._pods)

    def _made(self, name: str, like: WaitingPod) -> WaitingPod:
        """Make a pod that waits as one of another framework."""
        return WaitingPod(like.pod, like._timeouts, like.began)

    def add(self, waiting: WaitingPod) -> None:
        """Add a pod, in place of an earlier one with the same UID."""
        with self._lock:
            self._pods.pop(waiting.pod.metadata.uid, None)
            self._pods[waiting.pod.metadata.uid] = waiting

    def remove(self, uid: str) -> None:
        """Remove a pod if it is waiting."""
        with self._lock:
            self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        """Return a waiting pod, or None."""
        with self._lock:
            return self._pods.get(uid)

    def iterate(self, callback: Callable[[WaitingPod], object]) -> None:
        """Call a function for each pod, which it may allow or reject.

        No pod is removed during the iteration.

        Parameters
        ----------
        callback : callable
            Called with each waiting pod.
        """
        with self._lock:
            for waiting in list(self._pods.values()):
                callback(waiting)


class PodInPreBind:
    """A pod in PreBind, which can be cancelled until `mark_prebound`. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finished = False
        self._cause: str | None = None

    @property
    def cause(self) -> str:
        """The reason of the cancellation; "" if the pod was not cancelled."""
        return self._cause or ""

    def cancel_pod(self, message: str) -> bool:
        """Cancel the binding of the pod.

        Parameters
        ----------
        message : str
            The reason; that of the first call is kept.

        Returns
        -------
        bool
            False after `mark_prebound`.
        """
        with self._lock:
            if self._finished:
                return False
            if self._cause is None:
                self._cause = message
            return True

    def mark_prebound(self) -> bool:
        """Mark the end of PreBind; False if the pod was cancelled before."""
        with self._lock:
            self._finished = self._cause is None
            return self._finished


# ---- nominating info ---------------------------------------------------------------------------------------


class NominatingInfo(Struct, frozen=True):
    """A change of a pod's nomination, which PostFilter returns with its status.

    Attributes
    ----------
    nominated_node_name : str
        The new node; "" removes the nomination.
    noop : bool
        Whether the nomination is unchanged: the node of the pod's own status.
    """

    nominated_node_name: str = ""
    noop: bool = False


# ---- nominator ---------------------------------------------------------------------------------------------

CHANGES_LIMIT = 1 << 14


class PodNominator(Enlisted):
    """The nominated pods by UID, and per node in the order of their nominations. Thread-safe.

    Parameters
    ----------
    is_current : callable, optional
        Whether a pod may be nominated. False for a pod that is deleted or bound.
    keeps_empty : bool, optional
        Whether a nomination that was withdrawn is kept as "" (`Release.empty_nominations_are_kept`).

    Attributes
    ----------
    is_current : callable
        Whether a pod still exists and has no node, as passed to the constructor.
    lock : RLock
        To be held by callers that read or change several nominations at once.
    nodes : dict of str to str
        UID to the nominated node; "" where the nomination of the pod's status was withdrawn.
    by_node : dict of str to dict of str to Pod
        The pods nominated to each node by UID, in the order of their nominations.
    changes : list of str
        Nodes whose nominated pods changed, or entered or left the cache. The core appends to it, too.
    epoch : int
        Grows whenever `changes` misses a change.
    """

    def __init__(
        self, is_current: Callable[[Pod], bool] = lambda pod: True, keeps_empty: bool = True
    ) -> None:
        self.keeps_empty = keeps_empty
        self.is_current = is_current
        self.lock = threading.RLock()
        self.by_node: dict[str, dict[str, Pod]] = {}
        self.nodes: dict[str, str] = {}
        self.changes: list[str] = []
        self.epoch = 0

    def add_nominated_pod(self, pod: Pod, info: NominatingInfo | None = None) -> None:
        """Nominate a pod. An earlier nomination of the pod ends in any case.

        Parameters
        ----------
        info : NominatingInfo, optional
            The nomination. Without it, or if it is `noop`, the nominated node of the pod's status counts, if
            there is one.
        """
        with self.lock:
            node = _nomination(pod, info)
            self._nominate(pod, node if node is not None and self.is_current(pod) else None)

    def nominate_current(self, pod: Pod, info: NominatingInfo | None = None) -> None:
        """Nominate a pod that exists and has no node; see `add_nominated_pod`."""
        with self.lock:
            self._nominate(pod, _nomination(pod, info))

    def is_changed_by(self, pod: Pod, info: NominatingInfo | None) -> bool:
        """Whether the nomination of a pod is changed, or made again, at the end of an attempt.

        Most pods that fail have none, before or after. Upstream then notes that the pod is nominated to no
        node, but nothing reads that.

        Parameters
        ----------
        info : NominatingInfo or None
            As the attempt gave it.
        """
        with self.lock:
            before = self.nodes.get(pod.metadata.uid) or pod.status.nominated_node_name
            return bool(before or (info is not None and info.nominated_node_name))

    def _nominate(self, pod: Pod, node: str | None) -> None:
        """End the nomination of a pod, and nominate the pod to a node unless that is None."""
        before, node = self.nodes.get(pod.metadata.uid), node if node or self.keeps_empty else None
        if before == node and (not node or self._replace(pod, node)):
            return
        if before is not None:
            self.delete_nominated_pod_if_exists(pod)
        if node is not None:
            self.put(pod, node)

    def _replace(self, pod: Pod, node: str) -> bool:
        """Replace the latest nominated pod of its node by its new state, if no filter distinguishes the two;
        return whether it was replaced."""
        uid, pods = pod.metadata.uid, self.by_node[node]
        before, meta = pods[uid].metadata, pod.metadata
        is_last = next(reversed(pods)) == uid
        if not is_last or pods[uid].spec is not pod.spec or before.labels != meta.labels:
            return False
        if before.deletion_timestamp != meta.deletion_timestamp:
            return False
        pods[uid] = pod
        return True

    def put(self, pod: Pod, node: str) -> None:
        """Nominate a pod without a nomination, without calling `is_current`.

        Parameters
        ----------
        node : str
            Name of the node; "" records that the nomination of the pod's status was withdrawn.
        """
        with self.lock:
            self.nodes[pod.metadata.uid] = node
            if node:
                self.by_node.setdefault(node, {})[pod.metadata.uid] = pod
                self._note(node)

    def _note(self, node: str) -> None:
        """Record that the nominated pods of a node changed."""
        if len(self.changes) >= CHANGES_LIMIT:
            self._begin_epoch()
        self.changes.append(node)

    def _begin_epoch(self) -> None:
        """Record that the nominated pods of any node may have changed."""
        self.changes.clear()
        self.epoch += 1

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End the nomination of a pod, if there is one."""
        with self.lock:
            node = self.nodes.pop(pod.metadata.uid, None)
            if node:
                del self.by_node[node][pod.metadata.uid]
                if not self.by_node[node]:
                    del self.by_node[node]
                self._note(node)

    def rebuild(self) -> None:
        """Drop incomplete nominations, after an exception that interrupted an operation."""
        with self.lock:
            consistent = {
                node: {uid: pod for uid, pod in pods.items() if self.nodes.get(uid) == node}
                for node, pods in self.by_node.items()
            }
            self.by_node = {node: pods for node, pods in consistent.items() if pods}
            nominated = {uid for pods in self.by_node.values() for uid in pods}
            for uid in [uid for uid, node in self.nodes.items() if node and uid not in nominated]:
                del self.nodes[uid]
            self._begin_epoch()

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Replace the state of a nominated pod; the pod moves to the end of its node's list.

        A nomination that the status does not show stays. Otherwise the new status decides.

        Parameters
        ----------
        old, new : Pod
            The states before and after.
        """
        with self.lock:
            nomination = None
            if not old.status.nominated_node_name and not new.status.nominated_node_name:
                node = self.nodes.get(old.metadata.uid)
                nomination = None if node is None else NominatingInfo(node)
            if old.metadata.uid != new.metadata.uid:
                self.delete_nominated_pod_if_exists(old)
            self.add_nominated_pod(new, nomination)

    def nominated_pods_for_node(self, node_name: str) -> list[Pod]:
        """Return the pods nominated to a node.

        Returns
        -------
        list of Pod
            In the order of their nominations.
        """
        with self.lock:
            return list(self.by_node.get(node_name, {}).values())

    def nominated_keys(self, pods: Iterable[Pod]) -> set[str]:
        """Return ``namespace/name`` of those of some pods that are nominated to a node."""
        with self.lock:
            nodes = self.nodes
            return {pod.key for pod in pods if nodes.get(pod.metadata.uid)} if self.by_node else set()

    def is_alone(self, pod: Pod, node_name: str) -> bool:
        """Whether no other pod is nominated to a node."""
        with self.lock:
            pods = self.by_node.get(node_name)
            return not pods or (len(pods) == 1 and pod.metadata.uid in pods)

    def nominated_nodes(self) -> list[str]:
        """Return the names of the nodes that have nominated pods."""
        with self.lock:
            return list(self.by_node)

    def nominated_node(self, pod: Pod) -> str | None:
        """Return the node to which a pod is nominated here.

        Returns
        -------
        str or None
            None without a nomination here; "" where the nomination of the pod's status was withdrawn.
        """
        with self.lock:
            return self.nodes.get(pod.metadata.uid)

    def nominated_before(self, pod: Pod) -> dict[str, list[Pod]]:
        """Return the nominated pods that count when a pod is filtered: other pods of at least its priority.

        Returns
        -------
        dict of str to list of Pod
            By node name.
        """
        with self.lock:
            if not self.by_node:
                return {}
            before = {node: going_before(pod, pods.values()) for node, pods in self.by_node.items()}
        return {node: pods for node, pods in before.items() if pods}

    def save(self) -> tuple[dict[str, str], dict[str, dict[str, Pod]]]:
        """Return all nominations, for `undo`."""
        with self.lock:
            return self.nodes.copy(), {node: pods.copy() for node, pods in self.by_node.items()}

    def undo(self, saved: Any) -> None:
        """Restore saved nominations."""
        nodes, pods = saved
        with self.lock:
            self.nodes.clear()  # in place, as the core has a reference to it
            self.nodes.update(nodes)
            self.by_node = pods
            self._begin_epoch()

    def __bool__(self) -> bool:
        """Whether some pod is nominated to a node."""
        return bool(self.by_node)


def _nomination(pod: Pod, info: NominatingInfo | None) -> str | None:
    """Return the node of a nomination, "" for a withdrawn one; without it that of the status, or None."""
    if info is None or info.noop:
        return pod.status.nominated_node_name or None
    return info.nominated_node_name


def going_before(pod: Pod, others: Iterable[Pod]) -> list[Pod]:
    """Select the nominated pods that count when a pod is filtered: other pods of at least its priority
    (kube-scheduler v1.36, runtime/framework.go addGENominatedPods).

    Parameters
    ----------
    others : iterable of Pod
        Pods nominated to one node.
    """
    priority, uid = pod.spec.priority or 0, pod.metadata.uid
    return [other for other in others if (other.spec.priority or 0) >= priority and other.metadata.uid != uid]


# ---- steps -------------------------------------------------------------------------------------------------
# Work as generators that yield while they wait, so that one thread can interleave several.

T = TypeVar("T")

Steps: TypeAlias = Generator[float, None, T]
"""A generator that yields the seconds until its next step and returns a result."""
StatusSteps: TypeAlias = Steps[Status | None]


class Ended(Struct, Generic[T], frozen=True):
    """The result of a generator that has ended."""

    result: T


def take_step(steps: Steps[T]) -> float | Ended[T]:
    """Run the next step of a generator.

    Returns
    -------
    float or Ended
        Seconds until the step after it is due, or the result.
    """
    try:
        return next(steps)
    except StopIteration as ended:
        return Ended(ended.value)


def take_all(steps: Steps[T], wait: Callable[[float], object]) -> T:
    """Run all steps of a generator.

    Parameters
    ----------
    wait : callable
        Called with the seconds to wait between two steps.

    Returns
    -------
    object
        The result of the work.
    """
    while not isinstance(step := take_step(steps), Ended):
        wait(step)
    return step.result
