"""The volume binder as schedulers of v1.14 call it, with a cache of decisions by pod and node
(scheduler_binder.go and scheduler_binder_cache.go)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import RLock
from typing import NamedTuple, Protocol, TypeAlias

from moorage.framework.runtime.steps import Steps, take_all
from moorage.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from moorage.store import Informer, ObjectClient
from moorage.volume.binding.assume_cache import ObjectNotFoundError, PVAssumeCache, PVCAssumeCache
from moorage.volume.binding.claims import VolumeError
from moorage.volume.binding.metrics import (
    VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE,
    counting_failures,
    measuring,
)
from moorage.volume.binding.pod_volumes import BindingInfo, DynamicProvision, PodVolumes, claim_key
from moorage.volume.binding.volume_binder import (
    POLL_INTERVAL,
    UNBOUND_IMMEDIATE,
    ProvisioningFailedError,
    VolumeBinder,
    VolumeSources,
)
from moorage.volume.constants import SELECTED_NODE


class NodeDecision(NamedTuple):
    """Bindings and provisionings of a pod on one node."""

    bindings: list[BindingInfo] | None
    provisionings: list[PersistentVolumeClaim] | None


NodeDecisions: TypeAlias = Mapping[str, NodeDecision]
"""Node name to the decision for it."""


class PodBindingCache:
    """Decisions by pod and node. Every method may be called from any thread.

    A pod's decisions are to be deleted when it is deleted or can no longer be scheduled.
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
        pod : Pod
        node : str
        bindings : list of BindingInfo, or None
            Claims and their volumes.
        provisionings : list of PersistentVolumeClaim, or None
            Claims to provision.
        """
        with self._lock:
            nodes = self._pods.setdefault(pod.key, {})
            if node not in nodes:
                VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.inc("add")
            nodes[node] = NodeDecision(bindings, provisionings)

    def clear_bindings(self, pod: Pod, node: str) -> None:
        """Delete the decision for a pod and a node. The pod's entry remains.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        with self._lock:
            self._pods.get(pod.key, {}).pop(node, None)
            if self._assumed.get(pod.key) == node:
                del self._assumed[pod.key]

    def get_bindings(self, pod: Pod, node: str) -> list[BindingInfo] | None:
        """The bindings for a pod and a node: None without a decision, an empty list if there are none.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        decision = self._decision(pod, node)
        return None if decision is None else decision.bindings

    def get_provisioned_pvcs(self, pod: Pod, node: str) -> list[PersistentVolumeClaim] | None:
        """The claims to provision; None and the empty list as for `get_bindings`.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        decision = self._decision(pod, node)
        return None if decision is None else decision.provisionings

    def get_decisions(self, pod: Pod) -> NodeDecisions | None:
        """All decisions for a pod; None for an unknown pod.

        Parameters
        ----------
        pod : Pod
        """
        with self._lock:
            nodes = self._pods.get(pod.key)
            return None if nodes is None else nodes.copy()

    def delete_bindings(self, pod: Pod) -> None:
        """Delete all decisions for a pod, and its entry.

        Parameters
        ----------
        pod : Pod
        """
        with self._lock:
            self._assumed.pop(pod.key, None)
            if self._pods.pop(pod.key, None) is not None:
                VOLUME_BINDING_REQUEST_SCHEDULER_BINDER_CACHE.inc("delete")

    def assume_node(self, pod: Pod, node: str) -> None:
        """Record the node for which a pod's volumes are assumed.

        Parameters
        ----------
        pod : Pod
        node : str
        """
        with self._lock:
            self._assumed[pod.key] = node

    def assumed_node(self, pod: Pod) -> str:
        """The node for which a pod's volumes were assumed last; "" if that decision was deleted.

        Parameters
        ----------
        pod : Pod
        """
        with self._lock:
            return self._assumed.get(pod.key, "")

    def _decision(self, pod: Pod, node: str) -> NodeDecision | None:
        with self._lock:
            return self._pods.get(pod.key, {}).get(node)


new_pod_binding_cache = PodBindingCache


class SchedulerVolumeBinder(Protocol):
    """Finds, assumes and binds volumes for a scheduler."""

    def find_pod_volumes(self, pod: Pod, node: Node) -> tuple[bool, bool]:
        """Whether the claims that are not bound can be bound or provisioned on a node, and whether the
        volumes of those that are can be used there. May be called in parallel.

        Parameters
        ----------
        pod : Pod
        node : Node

        Returns
        -------
        unbound_satisfied, bound_satisfied : bool
        """

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """Assume what was found for a pod and a node; true if there is nothing to do, as every claim is fully
        bound. Called serially.

        The binder records the node for `bind_pod_volumes`. Upstream sets ``spec.nodeName`` of its argument;
        pods are immutable here.

        Parameters
        ----------
        assumed_pod : Pod
        node_name : str

        Returns
        -------
        bool
        """

    def bind_pod_volumes(self, assumed_pod: Pod) -> None:
        """Write what is assumed for a pod on the node in its spec, or where it has none on the node for which
        it was assumed, and wait until it is so. May be called in parallel, once for each pod.

        Parameters
        ----------
        assumed_pod : Pod
        """

    def get_bindings_cache(self) -> PodBindingCache | None:
        """The cache of decisions, if there is one. May be called at any time."""


def cached_volumes(cache: PodBindingCache, pod: Pod, node_name: str) -> PodVolumes:
    """The decisions in a cache about a pod and a node.

    Parameters
    ----------
    cache : PodBindingCache
    pod : Pod
    node_name : str
    """
    claims = cache.get_provisioned_pvcs(pod, node_name)
    provisions = None if claims is None else [DynamicProvision(claim) for claim in claims]
    return PodVolumes(cache.get_bindings(pod, node_name), provisions)


class CachingVolumeBinder:
    """A `SchedulerVolumeBinder` over a `VolumeBinder`; `new_volume_binder` makes one.

    Every stage is counted and measured, however it ends. The binding of a pod's volumes fails when the pod's
    decisions are deleted from the cache.

    Parameters
    ----------
    sources : VolumeSources
        Client, caches and listers; `require_pod` is replaced.
    bindings : PodBindingCache
        Cache of decisions.
    bind_timeout : float
        Seconds on `clock` that binding a pod's volumes may take.
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
        """Find volumes, as `SchedulerVolumeBinder`, and store them in the cache even if they are not all that
        the pod needs.

        Parameters
        ----------
        pod : Pod
        node : Node

        Raises
        ------
        VolumeError
            A claim, its class or its volume does not exist, or a claim is to be bound by the controller
            first; nothing is stored then.
        """
        with measuring("predicate", self._clock), counting_failures("predicate"):
            if not any(claim_key(pod, volume) for volume in pod.spec.volumes):
                return True, True
            found = PodVolumes()
            try:
                claims = self._binder.get_pod_volume_claims(pod)
                if claims.unbound_immediate:
                    raise VolumeError(UNBOUND_IMMEDIATE)
                bound = self._binder.check_bound_claims(claims.bound, node)
                if isinstance(bound, ObjectNotFoundError):
                    raise bound
                unbound = self._binder.find_unbound(claims, node)
                found = unbound.volumes
            finally:
                if found == PodVolumes():
                    self._bindings.clear_bindings(pod, node.name)
                else:
                    self._update(pod, node.name, found)
            return unbound.satisfied and unbound.enough_storage, bound

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """Assume what was found, as `SchedulerVolumeBinder`.

        Parameters
        ----------
        assumed_pod : Pod
        node_name : str

        Raises
        ------
        VolumeError
            An object has changed since; nothing is assumed.
        """
        with measuring("assume", self._clock):
            volumes = cached_volumes(self._bindings, assumed_pod, node_name)
            if self._binder.assume_pod_volumes(assumed_pod, node_name, volumes):
                return True
            self._update(assumed_pod, node_name, volumes)
            self._bindings.assume_node(assumed_pod, node_name)
            return False

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Undo `assume_pod_volumes`; repeated calls have no effect. v1.14 did not have this call: what was
        assumed for a pod that failed later remained.

        Parameters
        ----------
        pod_volumes : PodVolumes
        """
        self._binder.revert_assumed_pod_volumes(pod_volumes)

    def binding(self, assumed_pod: Pod) -> Steps[None]:
        """`bind_pod_volumes` in steps.

        Parameters
        ----------
        assumed_pod : Pod

        Raises
        ------
        VolumeError
            Nothing was decided for the pod and its node, or the volumes are not bound in time, or never.
        ApiError
            The client's, as for `VolumeBinder.begin`.
        """
        with measuring("bind", self._clock):
            node_name = assumed_pod.spec.node_name or self._bindings.assumed_node(assumed_pod)
            volumes = cached_volumes(self._bindings, assumed_pod, node_name)
            claims = self._bindings.get_provisioned_pvcs(assumed_pod, node_name)
            try:
                running = self._binder.begin(assumed_pod, volumes, node_name)
            finally:  # in place: the pod may have left the cache, and must not enter it again
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
        """Bind what was assumed, as `SchedulerVolumeBinder`; errors as for `binding`.

        Parameters
        ----------
        assumed_pod : Pod
        """
        take_all(self.binding(assumed_pod), self._sleep)

    def get_bindings_cache(self) -> PodBindingCache:
        """The cache of decisions."""
        return self._bindings

    def _update(self, pod: Pod, node_name: str, volumes: PodVolumes) -> None:
        provisions = volumes.dynamic_provisions
        claims = None if provisions is None else [provision.pvc for provision in provisions]
        self._bindings.update_bindings(pod, node_name, volumes.static_bindings, claims)

    def _require_decisions(self, pod: Pod) -> None:
        if self._bindings.get_decisions(pod) is None:
            raise VolumeError(f'pod "{pod.key}" does not exist any more')


def new_volume_binder(
    client: ObjectClient,
    node_informer: Informer[Node],
    pvc_informer: Informer[PersistentVolumeClaim],
    pv_informer: Informer[PersistentVolume],
    storage_class_informer: Informer[StorageClass],
    bind_timeout: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> CachingVolumeBinder:
    """Make a volume binder as schedulers of v1.14 call it.

    Parameters
    ----------
    client : ObjectClient
        Where bindings are written.
    node_informer, pvc_informer, pv_informer, storage_class_informer : Informer
        What it reads.
    bind_timeout : float
        How long binding a pod's volumes may take, in seconds on `clock`.
    clock, sleep : callable
        As for `VolumeBinder`.
    """
    sources = VolumeSources(
        client,
        PVAssumeCache(pv_informer),
        PVCAssumeCache(pvc_informer),
        storage_class_informer.lister,
        node_informer.lister,
        lambda pod: None,
    )
    return CachingVolumeBinder(sources, PodBindingCache(), bind_timeout, clock, sleep)
