"""Volume binders of v1.14 in today's VolumeBinding plugin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moorage.framework.plugin.handle import FrameworkHandle
from moorage.framework.runtime.steps import Steps
from moorage.objects import Node, Pod
from moorage.objects.workloads.ownership import FINISHED
from moorage.store import DeletedFinalStateUnknown
from moorage.volume.binding.pod_volumes import PodVolumeClaims, PodVolumes
from moorage.volume.binding.volume_binder import BIND_CONFLICT, NODE_CONFLICT, VolumeBinder, VolumeSources

from .scheduler_binder import CachingVolumeBinder, PodBindingCache, SchedulerVolumeBinder, cached_volumes

MakeBinder = Callable[[FrameworkHandle], SchedulerVolumeBinder]
"""Makes a volume binder over the client and the informers of a handle."""


class AdaptedVolumeBinder:
    """A `SchedulerVolumeBinder` with the methods of `VolumeBinder`.

    Parameters
    ----------
    binder : SchedulerVolumeBinder
    sources : VolumeSources
        Classifies the claims of a pod.
    """

    def __init__(self, binder: SchedulerVolumeBinder, sources: VolumeSources) -> None:
        self.sources = sources
        self._binder = binder

    def get_pod_volume_claims(self, pod: Pod) -> PodVolumeClaims:
        """See `VolumeBinder.get_pod_volume_claims`."""
        return VolumeBinder(self.sources).get_pod_volume_claims(pod)

    def find_pod_volumes(
        self, pod: Pod, claims: PodVolumeClaims, node: Node
    ) -> tuple[PodVolumes, tuple[str, ...]]:
        """Have the binder find volumes; returns its decisions, and the reasons why the node is not
        feasible.

        Parameters
        ----------
        pod : Pod
        claims : PodVolumeClaims
            Not used: the binder classifies them itself.
        node : Node

        Returns
        -------
        volumes : PodVolumes
        reasons : tuple of str
        """
        unbound, bound = self._binder.find_pod_volumes(pod, node)
        reasons = (*(() if bound else (NODE_CONFLICT,)), *(() if unbound else (BIND_CONFLICT,)))
        cache = self._binder.get_bindings_cache()
        return PodVolumes() if cache is None else cached_volumes(cache, pod, node.name), reasons

    def assume_pod_volumes(self, pod: Pod, node_name: str, pod_volumes: PodVolumes) -> bool:
        """Have the binder assume its decisions.

        Parameters
        ----------
        pod : Pod
        node_name : str
        pod_volumes : PodVolumes
            Not used: the binder has its decisions.

        Returns
        -------
        bool
            Whether every claim is fully bound already.
        """
        return self._binder.assume_pod_volumes(pod, node_name)

    def revert_assumed_pod_volumes(self, pod_volumes: PodVolumes) -> None:
        """Undo `assume_pod_volumes`. Of the binders of v1.14 only `CachingVolumeBinder` can; the assumed
        states of others remain until the informers report newer ones.

        Parameters
        ----------
        pod_volumes : PodVolumes
        """
        if isinstance(self._binder, CachingVolumeBinder):
            self._binder.revert_assumed_pod_volumes(pod_volumes)

    def binding(self, pod: Pod, pod_volumes: PodVolumes, node_name: str) -> Steps[None]:
        """Have the binder bind what it assumed: in steps for a `CachingVolumeBinder`, else in one call.

        Parameters
        ----------
        pod : Pod
        pod_volumes : PodVolumes
            Not used, as for `assume_pod_volumes`.
        node_name : str
            Not used: the binder has recorded it.
        """
        if isinstance(self._binder, CachingVolumeBinder):
            yield from self._binder.binding(pod)
        else:
            self._binder.bind_pod_volumes(pod)


class DecisionsHandler:
    """Deletes the decisions about a pod that is deleted or can no longer be scheduled: it has a node, or has
    finished (kube-scheduler v1.14, deletePodFromSchedulingQueue)."""

    def __init__(self, decisions: PodBindingCache) -> None:
        self._decisions = decisions

    def on_add(self, obj: Pod, is_in_initial_list: bool) -> None:
        """Delete the decisions about a pod that has a node or has finished."""
        if obj.spec.node_name or obj.status.phase in FINISHED:
            self._decisions.delete_bindings(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        """As `on_add`, and for an earlier pod of the same name."""
        if old.metadata.uid != new.metadata.uid:
            self._decisions.delete_bindings(old)
        self.on_add(new, False)

    def on_delete(self, obj: Pod | DeletedFinalStateUnknown[Pod]) -> None:
        """Delete the decisions about a deleted pod."""
        self._decisions.delete_bindings(obj.obj if isinstance(obj, DeletedFinalStateUnknown) else obj)


@dataclass(frozen=True)
class BinderOfHandle:
    """Makes the binder of all plugins of a handle (for `FrameworkHandle.shared`), and deletes the decisions
    about pods that the pod informer reports as deleted.

    Attributes
    ----------
    make : callable
        Makes the binder.
    """

    make: MakeBinder

    def __call__(self, handle: FrameworkHandle) -> SchedulerVolumeBinder:
        binder = self.make(handle)
        decisions = binder.get_bindings_cache()
        if decisions is not None:
            handle.informers.informer(Pod).add_event_handler(DecisionsHandler(decisions))
        return binder
