"""Adapters that run volume binders of Kubernetes v1.14 in the current VolumeBinding plugin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from moorage.engine.framework.handle import FrameworkHandle
from moorage.engine.framework.waiting_pods import Steps
from moorage.engine.volume.claims import PodVolumeClaims, PodVolumes
from moorage.engine.volume.volume_binder import BIND_CONFLICT, NODE_CONFLICT, VolumeBinder, VolumeSources
from moorage.kube import Node, Pod
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import DeletedFinalStateUnknown
from moorage.store.informer import last_state

from .scheduler_binder import CachingVolumeBinder, PodBindingCache, SchedulerVolumeBinder, cached_volumes

MakeBinder = Callable[[FrameworkHandle], SchedulerVolumeBinder]
"""A factory that creates a volume binder over the client and the informers of a handle."""


class AdaptedVolumeBinder:
    """An adapter that gives a `SchedulerVolumeBinder` the methods of `VolumeBinder`.

    Parameters
    ----------
    sources : VolumeSources
        The caches and listers by which the claims of a pod are classified.
    """

    def __init__(self, binder: SchedulerVolumeBinder, sources: VolumeSources) -> None:
        self.sources = sources
        self._binder = binder

    def get_pod_volume_claims(self, pod: Pod) -> PodVolumeClaims:
        """Classify the claims of a pod, see `VolumeBinder.get_pod_volume_claims`."""
        return VolumeBinder(self.sources).get_pod_volume_claims(pod)

    def find_pod_volumes(
        self, pod: Pod, claims: PodVolumeClaims, node: Node
    ) -> tuple[PodVolumes, tuple[str, ...]]:
        """Let the binder find volumes for a pod on a node.

        Parameters
        ----------
        claims : PodVolumeClaims
            Ignored: the binder classifies the claims itself.

        Returns
        -------
        volumes : PodVolumes
            The decisions of the binder.
        reasons : tuple of str
            Why the node is not feasible; empty if it is.
        """
        unbound, bound = self._binder.find_pod_volumes(pod, node)
        reasons = (*(() if bound else (NODE_CONFLICT,)), *(() if unbound else (BIND_CONFLICT,)))
        cache = self._binder.get_bindings_cache()
        return PodVolumes() if cache is None else cached_volumes(cache, pod, node.name), reasons

    def assume_pod_volumes(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
        """Let the binder assume its decisions for a pod and a node.

        Parameters
        ----------
        pod_volumes : PodVolumes
            Ignored: the binder has stored its decisions.

        Returns
        -------
        bool
            Whether every claim is fully bound already.
        """
        return self._binder.assume_pod_volumes(pod, node_name)

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Undo `assume_pod_volumes`, if the binder is a `CachingVolumeBinder`.

        Other binders of v1.14 cannot undo it; their assumed objects remain until the informers report newer
        versions.
        """
        if isinstance(self._binder, CachingVolumeBinder):
            self._binder.revert_assumed_pod_volumes(pod_volumes)

    def binding(self, pod: Pod, pod_volumes: PodVolumes, node_name: str) -> Steps[None]:
        """Let the binder bind the assumed volumes: in steps for a `CachingVolumeBinder`, else in one call.

        Parameters
        ----------
        pod_volumes : PodVolumes
            Ignored, as for `assume_pod_volumes`.
        node_name : str
            Ignored: the binder has recorded it.

        Yields
        ------
        float
            Seconds to wait before the next step.
        """
        if isinstance(self._binder, CachingVolumeBinder):
            yield from self._binder.binding(pod)
        else:
            self._binder.bind_pod_volumes(pod)


class DecisionsHandler:
    """An event handler that deletes the decisions about pods that will not be scheduled any more.

    These are deleted pods, pods with a node and finished pods (kube-scheduler v1.14,
    deletePodFromSchedulingQueue).
    """

    def __init__(self, decisions: PodBindingCache) -> None:
        self._decisions = decisions

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        """Delete the decisions about a pod that has a node or has finished.

        Parameters
        ----------
        is_in_initial_list : bool
            Ignored.
        """
        if obj.spec.node_name or obj.status.phase in FINISHED:
            self._decisions.delete_bindings(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Delete the decisions about a pod that has a node or has finished, or that replaced another pod.

        Parameters
        ----------
        old, new : Pod
            With different UIDs if a pod of the same name was created anew.
        """
        if old.metadata.uid != new.metadata.uid:
            self._decisions.delete_bindings(old)
        self.on_add(new, False)

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        """Delete the decisions about a deleted pod."""
        self._decisions.delete_bindings(last_state(obj))


class BinderOfHandle(Struct, frozen=True):
    """A factory of the binder that all plugins of a handle share (`FrameworkHandle.shared`).

    It also registers a `DecisionsHandler` with the pod informer.

    Attributes
    ----------
    make : callable
        Creates the binder from a handle.
    """

    make: MakeBinder

    def __call__(self, handle: FrameworkHandle) -> SchedulerVolumeBinder:
        binder = self.make(handle)
        decisions = binder.get_bindings_cache()
        if decisions is not None:
            handle.informers.informer(Pod).add_event_handler(DecisionsHandler(decisions))
        return binder


@dataclass(frozen=True)
class AdaptedBinder:
    """The ``make_binder`` of `VolumeBinding` for a volume binder of v1.14.

    The state that the binder has of a pod is dropped when the pod is deleted or can no longer be scheduled.

    Attributes
    ----------
    make : callable
        Creates the binder from a handle.
    """

    make: MakeBinder

    def __call__(self, handle: FrameworkHandle, sources: VolumeSources) -> AdaptedVolumeBinder:
        return AdaptedVolumeBinder(handle.shared(BinderOfHandle(self.make)), sources)
