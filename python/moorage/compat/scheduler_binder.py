"""The volume binder of Kubernetes v1.14, with its cache of decisions, and one with configured results.

The rules are those of pkg/controller/volume/scheduling: scheduler_binder.go and scheduler_binder_cache.go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import Protocol, TypeAlias, TypedDict, Unpack

from moorage.engine.framework.waiting_pods import Steps, take_all
from moorage.engine.volume.assume_cache import ObjectNotFoundError, PVAssumeCache, PVCAssumeCache
from moorage.engine.volume.claims import SELECTED_NODE, BindingInfo, DynamicProvision, PodVolumes, VolumeError
from moorage.engine.volume.metrics import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
    VOLUME_SCHEDULING_STAGE_LATENCY,
)
from moorage.engine.volume.volume_binder import (
    POLL_INTERVAL,
    UNBOUND_IMMEDIATE,
    ProvisioningFailedError,
    VolumeBinder,
    VolumeSources,
    counting_failures,
)
from moorage.kube import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.lazy import NamedTuple
from moorage.store import Informer, ObjectClient


@contextmanager
def measuring(operation: str, clock: Callable[[], float]) -> Iterator[None]:
    """Observe the duration of a stage in seconds, also after an exception."""
    start = clock()
    try:
        yield
    finally:
        VOLUME_SCHEDULING_STAGE_LATENCY.labels(operation).observe(clock() - start)


class NodeDecision(NamedTuple):
    """The decision about the volumes of a pod on one node.

    Attributes
    ----------
    bindings : list of BindingInfo or None
        Claims with the volumes to bind them to.
    provisionings : list of PersistentVolumeClaim or None
        Claims to provision volumes for.
    """

    bindings: list[BindingInfo] | None
    provisionings: list[PersistentVolumeClaim] | None


NodeDecisions: TypeAlias = Mapping[str, NodeDecision]
"""A mapping from node name to decision."""


class PodBindingCache:
    """Decisions by pod and node. Thread-safe.

    The owner must delete the decisions about a pod when the pod is deleted or will not be scheduled any more.
    """

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, NodeDecision]] = {}
        self._assumed: dict[str, str] = {}
        self._lock = RLock()

    def update_bindings(
        self,
        pod: Pod,
        node: str,
        bindings: list[BindingInfo] | None,
        provisionings: list[PersistentVolumeClaim] | None,
    ) -> None:
        """Store the decision for a pod and a node; the lists are not copied.

        Parameters
        ----------
        bindings : list of BindingInfo or None
            Claims with the volumes to bind them to.
        provisionings : list of PersistentVolumeClaim or None
            Claims to provision volumes for.
        """
        with self._lock:
            nodes = self._pods.setdefault(pod.key, {})
            if node not in nodes:
                VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.labels("add").inc()
            nodes[node] = NodeDecision(bindings, provisionings)

    def clear_bindings(self, pod: Pod, node: str) -> None:
        """Delete the decision for a pod and a node. The entry of the pod remains."""
        with self._lock:
            self._pods.get(pod.key, {}).pop(node, None)
            if self._assumed.get(pod.key) == node:
                del self._assumed[pod.key]

    def get_bindings(self, pod: Pod, node: str) -> list[BindingInfo] | None:
        """Return the bindings decided for a pod and a node.

        Returns
        -------
        list of BindingInfo or None
            None without a decision.
        """
        decision = self._decision(pod, node)
        return None if decision is None else decision.bindings

    def get_provisioned_pvcs(self, pod: Pod, node: str) -> list[PersistentVolumeClaim] | None:
        """Return the claims to provision volumes for, as decided for a pod and a node.

        Returns
        -------
        list of PersistentVolumeClaim or None
            None without a decision.
        """
        decision = self._decision(pod, node)
        return None if decision is None else decision.provisionings

    def get_decisions(self, pod: Pod) -> NodeDecisions | None:
        """Return all decisions for a pod.

        Returns
        -------
        mapping of str to NodeDecision, or None
            By node name; None for an unknown pod.
        """
        with self._lock:
            nodes = self._pods.get(pod.key)
            return None if nodes is None else nodes.copy()

    def delete_bindings(self, pod: Pod) -> None:
        """Delete all decisions for a pod, and the entry of the pod."""
        with self._lock:
            self._assumed.pop(pod.key, None)
            if self._pods.pop(pod.key, None) is not None:
                VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.labels("delete").inc()

    def assume_node(self, pod: Pod, node: str) -> None:
        """Record the node for which the volumes of a pod are assumed."""
        with self._lock:
            self._assumed[pod.key] = node

    def assumed_node(self, pod: Pod) -> str:
        """Return the node for which the volumes of a pod were assumed last.

        Returns
        -------
        str
            The name of the node; "" if there is none or its decision has been deleted.
        """
        with self._lock:
            return self._assumed.get(pod.key, "")

    def _decision(self, pod: Pod, node: str) -> NodeDecision | None:
        """Return the decision for a pod and a node."""
        with self._lock:
            return self._pods.get(pod.key, {}).get(node)


new_pod_binding_cache = PodBindingCache


class SchedulerVolumeBinder(Protocol):
    """The interface of a volume binder to a scheduler: find, assume and bind the volumes of a pod."""

    def find_pod_volumes(self, pod: Pod, node: Node) -> tuple[bool, bool]:
        """Check the claims of a pod against a node. May be called in parallel.

        Returns
        -------
        unbound_satisfied : bool
            Whether each unbound claim can be bound, or a volume provisioned for it, on the node.
        bound_satisfied : bool
            Whether the volumes of bound claims can be used on the node.
        """

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """Assume the decision for a pod and a node. Called serially.

        The binder records the node for `bind_pod_volumes`. (Upstream sets ``spec.nodeName`` of its argument;
        pods are immutable here.)

        Returns
        -------
        bool
            Whether every claim is fully bound already, so that there is nothing to do.
        """

    def bind_pod_volumes(self, assumed_pod: Pod) -> None:
        """Write the assumed bindings of a pod to the API server, and wait until its claims are bound.

        The node is ``spec.nodeName`` of the pod, or the recorded one if that is empty. May be called in
        parallel, once for each pod.
        """

    def get_bindings_cache(self) -> PodBindingCache | None:
        """Return the cache of decisions, if there is one. May be called at any time."""


def cached_volumes(cache: PodBindingCache, pod: Pod, node_name: str) -> PodVolumes:
    """Return the decision of a cache about a pod and a node, in the form of `VolumeBinder`."""
    claims = cache.get_provisioned_pvcs(pod, node_name)
    provisions = None if claims is None else [DynamicProvision(claim) for claim in claims]
    return PodVolumes(cache.get_bindings(pod, node_name), provisions)


class CachingVolumeBinder:
    """A `SchedulerVolumeBinder` over a `VolumeBinder`, see `new_volume_binder`.

    Metrics record the duration of each stage and its failures. Binding the volumes of a pod fails if the
    decisions about the pod are deleted from the cache.

    Parameters
    ----------
    sources : VolumeSources
        Client, caches and listers; `require_pod` is replaced.
    bindings : PodBindingCache
        The cache of decisions.
    bind_timeout : float
        Time limit for binding the volumes of a pod, in seconds on `clock`.
    clock, sleep : callable
        As for `VolumeBinder`.
    """

    def __init__(
        self,
        sources: VolumeSources,
        bindings: PodBindingCache,
        bind_timeout: float,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        sources = replace(sources, require_pod=self._require_decisions)
        self._binder = VolumeBinder(sources, bind_timeout=bind_timeout, clock=clock)
        self._bindings = bindings
        self._clock = clock
        self._sleep = sleep

    def find_pod_volumes(self, pod: Pod, node: Node) -> tuple[bool, bool]:
        """Check the claims of a pod against a node, and store the decision even if it is incomplete.

        Returns
        -------
        unbound_satisfied, bound_satisfied : bool
            As `SchedulerVolumeBinder.find_pod_volumes`.

        Raises
        ------
        VolumeError
            A claim, its class or its volume does not exist, or the controller must bind a claim first;
            nothing is stored then.
        """
        with measuring("predicate", self._clock), counting_failures("predicate"):
            if not any(pod.claim_key(volume) for volume in pod.spec.volumes):
                return True, True
            volumes = PodVolumes()
            try:
                claims = self._binder.get_pod_volume_claims(pod)
                if claims.unbound_immediate:
                    raise VolumeError(UNBOUND_IMMEDIATE)
                bound = self._binder.check_bound_claims(claims.bound, node)
                if isinstance(bound, ObjectNotFoundError):
                    raise bound
                unbound = self._binder.find_unbound(claims, node)
                volumes = unbound.volumes
            finally:
                if volumes == PodVolumes():
                    self._bindings.clear_bindings(pod, node.name)
                else:
                    self._update(pod, node.name, volumes)
            return unbound.satisfied and unbound.enough_storage, bound

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """Assume the decision for a pod and a node.

        Returns
        -------
        bool
            Whether every claim is fully bound already.

        Raises
        ------
        VolumeError
            An object has changed since the decision; nothing is assumed.
        """
        with measuring("assume", self._clock):
            volumes = cached_volumes(self._bindings, assumed_pod, node_name)
            if self._binder.assume_pod_volumes(assumed_pod, node_name, volumes):
                return True
            self._update(assumed_pod, node_name, volumes)
            self._bindings.assume_node(assumed_pod, node_name)
            return False

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Undo `assume_pod_volumes`; repeated calls have no effect.

        v1.14 lacks this call: there the assumed objects of a pod that failed later remain.
        """
        self._binder.revert_assumed_pod_volumes(pod_volumes)

    def binding(self, assumed_pod: Pod) -> Steps[None]:
        """Bind the assumed volumes of a pod, in steps.

        Yields
        ------
        float
            Seconds to wait before the next step.

        Raises
        ------
        VolumeError
            There is no decision for the pod and its node, the time limit has passed, or binding is no longer
            possible.
        ApiError
            Raised by the client, as for `VolumeBinder.begin`.
        """
        with measuring("bind", self._clock):
            node_name = assumed_pod.spec.node_name or self._bindings.assumed_node(assumed_pod)
            volumes = cached_volumes(self._bindings, assumed_pod, node_name)
            claims = self._bindings.get_provisioned_pvcs(assumed_pod, node_name)
            try:
                running = self._binder.begin(assumed_pod, volumes, node_name)
            finally:  # in place: an update of the cache would add the pod again if it has been deleted
                if claims is not None:
                    claims[:] = [provision.pvc for provision in volumes.dynamic_provisions or ()]
            with counting_failures("bind"):
                done = False
                while not done:
                    yield POLL_INTERVAL
                    try:
                        done = self._binder.is_binding_complete(running)
                    except ProvisioningFailedError as error:
                        value = error.claim.metadata.annotations.get(SELECTED_NODE, "")
                        raise VolumeError(
                            f'selectedNode annotation value "{value}" not set to scheduled node "{node_name}"'
                        ) from error

    def bind_pod_volumes(self, assumed_pod: Pod) -> None:
        """Bind the assumed volumes of a pod, and wait until its claims are bound.

        Raises
        ------
        VolumeError, ApiError
            As for `binding`.
        """
        take_all(self.binding(assumed_pod), self._sleep)

    def get_bindings_cache(self) -> PodBindingCache:
        """Return the cache of decisions."""
        return self._bindings

    def _update(self, pod: Pod, node_name: str, volumes: PodVolumes) -> None:
        """Store the decision for a pod and a node."""
        provisions = volumes.dynamic_provisions
        claims = None if provisions is None else [provision.pvc for provision in provisions]
        self._bindings.update_bindings(pod, node_name, volumes.static_bindings, claims)

    def _require_decisions(self, pod: Pod) -> None:
        """Raise VolumeError if the decisions about a pod have been deleted."""
        if self._bindings.get_decisions(pod) is None:
            raise VolumeError(f'pod "{pod.key}" does not exist any more')


class Time(TypedDict, total=False):
    """What a volume binder takes for time; see `VolumeBinder`. By default real time passes."""

    clock: Callable[[], float]
    sleep: Callable[[float], object]


def new_volume_binder(
    client: ObjectClient,
    node_informer: Informer[Node],
    pvc_informer: Informer[PersistentVolumeClaim],
    pv_informer: Informer[PersistentVolume],
    storage_class_informer: Informer[StorageClass],
    bind_timeout: float,
    **of_time: Unpack[Time],
) -> CachingVolumeBinder:
    """Create a volume binder with the interface of Kubernetes v1.14.

    Parameters
    ----------
    client : ObjectClient
        Writes bindings.
    node_informer, pvc_informer, pv_informer, storage_class_informer : Informer
        Sources of the objects.
    bind_timeout : float
        Time limit for binding the volumes of a pod, in seconds on `clock`.
    clock, sleep : callable
        As for `VolumeBinder`.

    Raises
    ------
    TypeError
        There is another option than these.
    """
    sources = VolumeSources(
        client,
        PVAssumeCache(pv_informer),
        PVCAssumeCache(pvc_informer),
        storage_class_informer.lister,
        node_informer.lister,
        lambda pod: None,
    )
    clock, sleep = of_time.pop("clock", time.monotonic), of_time.pop("sleep", time.sleep)
    if of_time:
        raise TypeError(f"a volume binder takes no option {', '.join(of_time)}")
    return CachingVolumeBinder(sources, PodBindingCache(), bind_timeout, clock, sleep)


# ---- fake binder -------------------------------------------------------------------------------------------
#
# A volume binder with configured results (Kubernetes v1.14, scheduler_binder_fake.go).


@dataclass
class FakeVolumeBinderConfig:
    """The results of a `FakeVolumeBinder`, which may be changed between calls.

    Attributes
    ----------
    all_bound : bool
        The result of `assume_pod_volumes`.
    find_unbound_satisfied, find_bound_satisfied : bool
        The result of `find_pod_volumes`.
    find_err, assume_err, bind_err : Exception or None
        Raised instead of a result.
    """

    all_bound: bool = False
    find_unbound_satisfied: bool = False
    find_bound_satisfied: bool = False
    find_err: Exception | None = None
    assume_err: Exception | None = None
    bind_err: Exception | None = None


class FakeVolumeBinder:
    """A `SchedulerVolumeBinder` for tests.

    Attributes
    ----------
    assume_called, bind_called : bool
        Whether `assume_pod_volumes` and `bind_pod_volumes` have been called, successfully or not.
    """

    def __init__(self, config: FakeVolumeBinderConfig) -> None:
        self._config = config
        self.assume_called = False
        self.bind_called = False

    def find_pod_volumes(self, pod: Pod, node: Node) -> tuple[bool, bool]:
        """Return the configured results for unbound and for bound claims, or raise `find_err`.

        Parameters
        ----------
        node : Node
            Both are ignored.
        """
        _raise(self._config.find_err)
        return self._config.find_unbound_satisfied, self._config.find_bound_satisfied

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """Return the configured `all_bound`, or raise `assume_err`.

        Parameters
        ----------
        node_name : str
            Both are ignored.
        """
        self.assume_called = True
        _raise(self._config.assume_err)
        return self._config.all_bound

    def bind_pod_volumes(self, assumed_pod: Pod) -> None:
        """Do nothing, or raise `bind_err`.

        Parameters
        ----------
        assumed_pod : Pod
            Ignored.
        """
        self.bind_called = True
        _raise(self._config.bind_err)

    def get_bindings_cache(self) -> None:
        """Return None: there is no cache of decisions."""


def _raise(error: Exception | None) -> None:
    """Raise an error, if there is one."""
    if error is not None:
        raise error


new_fake_volume_binder = FakeVolumeBinder
