"""The volume binder as schedulers of v1.14 call it (scheduler_binder.go): decisions are kept for each pod and
node in a cache of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from moorage.framework.runtime.steps import Steps, take_all
from moorage.objects.model.node import Node
from moorage.objects.model.pod import Pod
from moorage.objects.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.store import Informer, ObjectClient
from moorage.volume.binding.assume_cache import ObjectNotFoundError, new_pv_assume_cache, new_pvc_assume_cache
from moorage.volume.binding.bind import (
    POLL_INTERVAL,
    ProvisioningFailedError,
    RunningBinding,
    are_bound,
    assume_volumes,
    revert,
    write,
)
from moorage.volume.binding.claims import VolumeError
from moorage.volume.binding.find import (
    UNBOUND_IMMEDIATE,
    DynamicProvision,
    PodVolumes,
    check_bound_claims,
    claim_key,
    find_unbound,
    get_pod_volume_claims,
)
from moorage.volume.binding.metrics import counting_failures, measuring
from moorage.volume.binding.sources import VolumeSources
from moorage.volume.constants import SELECTED_NODE

from .pod_binding_cache import PodBindingCache, new_pod_binding_cache


class SchedulerVolumeBinder(Protocol):
    """How a scheduler has volumes found, assumed and bound."""

    def find_pod_volumes(self, pod: Pod, node: Node) -> tuple[bool, bool]:
        """Whether the claims that are not bound can be bound or provisioned on a node, and whether the
        volumes of those that are can be used there. May be called in parallel."""

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """Assume what was found for a pod and a node; true if there is nothing to do, as every claim is fully
        bound. Called serially.

        The binder notes the node for `bind_pod_volumes`. Upstream sets ``spec.nodeName`` of the pod that it
        is given; pods are values here, which stores and informers share, so none is changed in place.
        """

    def bind_pod_volumes(self, assumed_pod: Pod) -> None:
        """Write what is assumed for a pod on the node in its spec, or where it has none on the node for which
        it was assumed, and wait until it is so. May be called in parallel, once for each pod."""

    def get_bindings_cache(self) -> PodBindingCache | None:
        """Where decisions are kept, if they are. May be called at any time."""


def kept_volumes(cache: PodBindingCache, pod: Pod, node_name: str) -> PodVolumes:
    """What a cache of decisions has for a pod and a node."""
    claims = cache.get_provisioned_pvcs(pod, node_name)
    provisions = None if claims is None else [DynamicProvision(claim) for claim in claims]
    return PodVolumes(cache.get_bindings(pod, node_name), provisions)


class CachingVolumeBinder:
    """A `SchedulerVolumeBinder` over the same core as `VolumeBinder`; make it by `new_volume_binder`.

    Every stage is counted and measured, however it ends. A pod whose volumes are being bound is taken for
    gone when its decisions are dropped.

    Parameters
    ----------
    sources : VolumeSources
        What it reads and writes; `require_pod` is replaced.
    bindings : PodBindingCache
        Where decisions are kept.
    bind_timeout, clock, sleep
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
        self._sources = replace(sources, require_pod=self._require_decisions)
        self._bindings = bindings
        self._bind_timeout = bind_timeout
        self._clock = clock
        self._sleep = sleep

    def find_pod_volumes(self, pod: Pod, node: Node) -> tuple[bool, bool]:
        """As `SchedulerVolumeBinder`. What was found is kept, even if it is not all that is needed.

        Raises
        ------
        VolumeError
            A claim, its class or its volume is not there, or a claim is to be bound by the controller first;
            nothing is kept then.
        """
        with self._stage("predicate"):
            if not any(claim_key(pod, volume) for volume in pod.spec.volumes):
                return True, True
            found = PodVolumes()
            try:
                claims = get_pod_volume_claims(self._sources, pod)
                if claims.unbound_immediate:
                    raise VolumeError(UNBOUND_IMMEDIATE)
                bound = check_bound_claims(self._sources, claims.bound, node)
                if isinstance(bound, ObjectNotFoundError):
                    raise bound
                unbound = find_unbound(self._sources, claims, node)
                found = unbound.volumes
            finally:
                self._keep(pod, node.name, found)
            return unbound.satisfied and unbound.enough_storage, bound

    def assume_pod_volumes(self, assumed_pod: Pod, node_name: str) -> bool:
        """As `SchedulerVolumeBinder`.

        Raises
        ------
        VolumeError
            Something has changed since; everything is as before.
        """
        with self._stage("assume"):
            if are_bound(self._sources, assumed_pod):
                return True
            volumes = self._kept(assumed_pod, node_name)
            assume_volumes(self._sources, node_name, volumes)
            self._update(assumed_pod, node_name, volumes)
            self._bindings.assume_node(assumed_pod, node_name)
            return False

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Take back what was assumed of these volumes and claims; again is once. Not one of v1.14's calls:
        there, what was assumed for a pod that failed later stayed so."""
        revert(self._sources, pod_volumes.static_bindings or (), pod_volumes.dynamic_provisions or ())

    def binding(self, assumed_pod: Pod) -> Steps[None]:
        """`bind_pod_volumes` in steps.

        Raises
        ------
        VolumeError
            Nothing was decided for the pod and its node, or the volumes are not bound in time, or never.
        ApiError
            The client's, as for `VolumeBinder.begin`.
        """
        with self._stage("bind"):
            node_name = assumed_pod.spec.node_name or self._bindings.assumed_node(assumed_pod)
            volumes = self._kept(assumed_pod, node_name)
            claims = self._bindings.get_provisioned_pvcs(assumed_pod, node_name)
            try:
                write(self._sources, assumed_pod, volumes)
            finally:  # in place: the pod may be gone from the cache, and must not come back
                if claims is not None:
                    claims[:] = [provision.pvc for provision in volumes.dynamic_provisions or ()]
            running = RunningBinding(
                self._sources, assumed_pod, node_name, volumes, self._clock, self._bind_timeout
            )
            done = False
            while not done:
                yield POLL_INTERVAL
                done = _check(running)

    def bind_pod_volumes(self, assumed_pod: Pod) -> None:
        """As `SchedulerVolumeBinder`; errors as for `binding`."""
        take_all(self.binding(assumed_pod), self._sleep)

    def get_bindings_cache(self) -> PodBindingCache:
        """Where decisions are kept."""
        return self._bindings

    @contextmanager
    def _stage(self, operation: str) -> Iterator[None]:
        with measuring(operation, self._clock), counting_failures(operation):
            yield

    def _keep(self, pod: Pod, node_name: str, found: PodVolumes) -> None:
        if found == PodVolumes():
            self._bindings.clear_bindings(pod, node_name)
        else:
            self._update(pod, node_name, found)

    def _update(self, pod: Pod, node_name: str, volumes: PodVolumes) -> None:
        provisions = volumes.dynamic_provisions
        claims = None if provisions is None else [provision.pvc for provision in provisions]
        self._bindings.update_bindings(pod, node_name, volumes.static_bindings, claims)

    def _kept(self, pod: Pod, node_name: str) -> PodVolumes:
        return kept_volumes(self._bindings, pod, node_name)

    def _require_decisions(self, pod: Pod) -> None:
        if self._bindings.get_decisions(pod) is None:
            raise VolumeError(f'pod "{pod.key}" does not exist any more')


def _check(running: RunningBinding) -> bool:
    try:
        return running.check()
    except ProvisioningFailedError as error:
        value = error.claim.metadata.annotations.get(SELECTED_NODE, "")
        raise VolumeError(
            f'selectedNode annotation value "{value}" not set to scheduled node "{running.node_name}"'
        ) from error


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
        new_pv_assume_cache(pv_informer),
        new_pvc_assume_cache(pvc_informer),
        storage_class_informer.lister,
        node_informer.lister,
        lambda pod: None,
    )
    return CachingVolumeBinder(sources, new_pod_binding_cache(), bind_timeout, clock, sleep)
