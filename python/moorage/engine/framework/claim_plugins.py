"""Plugins about volumes and claims: what they need of a node for a pod, each and all together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from moorage._core.decide.terms import VolumeDemand
from moorage.engine.framework import interface
from moorage.errors import MoorageError
from moorage.kube import Object, PersistentVolume, PersistentVolumeClaim, Pod

from .in_tree_plugins import volumes
from .interface import Plugin
from .status import Status

if TYPE_CHECKING:
    from moorage._core.decide.terms import NodeDevices
    from moorage._core.devices.claims_of_pods import RepeatedClaims

    from .nodes_view import NodesView


BoundClaims = Sequence[tuple[PersistentVolumeClaim, PersistentVolume]]
Mask = npt.NDArray[np.bool_]
Attachment = tuple[npt.NDArray[np.int32], int]
T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", covariant=True)


class AnyLister(Protocol[T_co]):
    """The lister of an informer."""

    def get(self, name: str) -> T_co:
        """Return the object with a key.

        Parameters
        ----------
        name : str
            ``namespace/name``, or the name of a cluster-scoped object.

        Returns
        -------
        Object
            The latest state known to the informer.

        Raises
        ------
        NotFoundError
            There is no such object.
        """

    def list(self) -> Sequence[T_co]:
        """Return all objects."""


class VolumesFollower(Protocol):
    """The volumes in use, such as `VolumesInUse`."""

    released: int

    def refresh(self) -> None:
        """Apply all changes since the last call."""


NO_RESOURCES: frozenset[str] = frozenset()


class ClaimsOfBatch:
    """The volumes and claims that the earlier pods of a batch use, and what the next pod shares with others.

    Attributes
    ----------
    next_pod : int
        The index of the next pod.
    exclusive : set of hashable
        Claims and volumes that no later pod of the batch can use too, if the core is to place it.
    volume_users : dict of CSIVolume to list of int
        ``~index`` of the pods that use a volume.
    shared_volumes : list of (int, int, int)
        The volumes of the next pod that may be counted on a row already; see `PodBatch`.
    allocated_for : dict of str to int
        Resource claims, as ``namespace/name``, that an earlier pod of the batch may have allocated, with the
        index of the pod; -1 if plugins schedule it, or may deallocate the claim for it.
    last_allocating : int
        The index of the last pod for which the core allocates claims; -1 for none.
    shares_claim : bool
        Whether the next pod shares the claim that this pod allocates.
    ends_before : bool
        Whether the batch ends before the next pod, as it has one of these claims.
    is_in_use : bool
        Whether no node suits the next pod, as another pod uses a claim that is for one pod.
    provided_resources : frozenset of str
        The resources of the next pod that its devices provide on every node.
    claims_to_write : dict of int to object
        By index, the pods with resource claims that the core is to place: what `take_devices` is given.
    repeated_needs : RepeatedClaims or None
        Notes pods that need the same as the pod before, if all that this needs are new devices.
    known : dict of object to object
        By plugin or engine, what it has found out that is the same for all pods of the batch.
    in_use : VolumesFollower or None
        Up to date as of the first pod with volumes that the core is to place; None without one.
    released : int
        Its `released` at that time.
    """

    def __init__(self) -> None:
        self.exclusive: set[Hashable] = set()
        self.volume_users: dict[Hashable, list[int]] = {}
        self.allocated_for: dict[str, int] = {}
        self.last_allocating = -1
        self.ends_before = False
        self.claims_to_write: dict[int, Any] = {}
        self.known: dict[object, Any] = {}
        self.in_use: VolumesFollower | None = None
        self.released = 0
        self.go_on(0)

    def go_on(self, next_pod: int) -> None:
        """Go on to a pod."""
        self.next_pod = next_pod
        self.shared_volumes: list[tuple[int, int, int]] = []
        self.shares_claim = self.is_in_use = False
        self.provided_resources = NO_RESOURCES
        self.repeated_needs: RepeatedClaims | None = None

    def begin_counting(self, in_use: VolumesFollower) -> None:
        """Note the volumes in use, before the first pod with volumes that the core is to place."""
        in_use.refresh()
        self.in_use, self.released = in_use, in_use.released

    def follow_volumes(self) -> None:
        """Count the volumes of pods that were placed since the batch began, if it has pods with a demand.

        What they need is in the caches of the processor now; the next batch would count them all the same.
        """
        if self.in_use is not None:
            self.in_use.refresh()

    def has_released(self) -> bool:
        """Whether a claim has become free since the batch began, or its volumes are not counted."""
        self.follow_volumes()
        return self.in_use is None or self.in_use.released != self.released


class ClaimPlugin(
    interface.PreFilterPlugin, interface.FilterPlugin, interface.EnqueueExtensions, interface.SignPlugin
):
    """A plugin that applies only to pods with volumes or resource claims.

    For all others it counts as Skip without a call (`Profile.complete`).
    """

    in_core = True

    def awake(self) -> Self:
        """Return the plugin, which is whole from now on (`sleeping_plugins`)."""
        return self

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return volumes(pod)

    def skips(self, method: str) -> bool:
        """Whether the plugin returns Skip for every pod without volumes.

        Where it does not, Filter passes, and scores are 0.
        """
        return True

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: NodesView, batch: ClaimsOfBatch | None = None
    ) -> Hashable | None:
        """Return what Filter needs of a node for a pod that PreFilter passes or skips.

        Filter passes exactly on the nodes that meet `demand_of` these needs, also with the nominated pods.
        Pods of one class with equal descriptions (see `BoundClaims` of the core) have equal needs,
        unless they share a volume with others.

        Parameters
        ----------
        claims : sequence of (PersistentVolumeClaim, PersistentVolume)
            Of the pod's volumes.
        batch : ClaimsOfBatch, optional
            Of the batch whose next pod this is. None: nodes that meet the needs pass, also if any pods leave,
            but others may pass too.

        Returns
        -------
        hashable or None
            False in a condition if nodes do not matter; None where the needs are not known.
        """
        return None

    def demand_of(self, needs: Hashable) -> tuple[Mask | None, list[Attachment]]:
        """Return needs as arrays over the rows of the node table.

        Parameters
        ----------
        needs : hashable
            As `needs_of` returned them.

        Returns
        -------
        reachable : (rows,) bool array or None
            The rows whose nodes can be used; None for all.
        attachments : list of ((rows,) int32 array, int)
            See `VolumeDemand`.
        """
        return None, []

    def lister(self, kind: type[T]) -> AnyLister[T]:
        """Return the lister of a kind of objects."""
        lister: AnyLister[T] = self.required_handle().informers.lister(kind)
        return lister


class ClaimsPlugin(ClaimPlugin):
    """The plugin about resource claims, which writes those of pods that the core has placed."""

    def concerns(self, pod: Pod) -> bool:
        """Whether the plugin applies to a pod that has neither volumes nor claims."""
        raise NotImplementedError

    def delegated_resources(self) -> frozenset[str]:
        """Return the extended resources that the plugin provides on nodes without them."""
        raise NotImplementedError

    def devices_of(self, needs: Hashable) -> NodeDevices | None:
        """Return which nodes have the devices of needs; None where no devices are needed.

        Parameters
        ----------
        needs : hashable
            As `needs_of` returned them.
        """
        raise NotImplementedError

    @property
    def demand_version(self) -> int:
        """A number that differs between all states between which the results of `demand_of` change, other
        than by node labels and by pods. Brings what the plugin knows of pods up to date."""
        raise NotImplementedError

    def follow_claims(self) -> None:
        """Bring what the core knows of devices up to date, before it places pods of a batch."""
        raise NotImplementedError

    def take_devices(self, claiming: Mapping[int, Any], placed: Mapping[int, str]) -> dict[int, Any]:
        """Return what `bind_claims` needs of pods that the core has placed.

        Parameters
        ----------
        claiming : mapping of int to object
            `ClaimsOfBatch.claims_to_write`.
        placed : mapping of int to str
            By the index in the batch, the nodes of those that were placed.

        Returns
        -------
        dict of int to object
            By the index in the batch.
        """
        raise NotImplementedError

    def bind_claims(self, pods: Sequence[tuple[Pod, Any]]) -> dict[int, Status]:
        """Write the claims of pods: what Reserve and PreBind do for other pods.

        Parameters
        ----------
        pods : sequence of (Pod, object)
            With the results of `take_devices`.

        Returns
        -------
        dict of int to Status
            By index, why pods cannot be bound after all; their reservations are taken back.
        """
        raise NotImplementedError


# ---- the plugins of a profile ------------------------------------------------------------------------------

Needs = tuple[tuple[ClaimPlugin, Hashable], ...]
"""What plugins need of a node for a pod; without those to which nodes do not matter."""


class ClaimPlugins:
    """The plugins about volumes and claims of a profile: what they need together.

    Attributes
    ----------
    plugins : tuple of ClaimPlugin
        In the order of the profile.
    of_devices : ClaimsPlugin or None
        The one about resource claims.
    """

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self.plugins = tuple([plugin for plugin in plugins if isinstance(plugin, ClaimPlugin)])
        self._without_volumes = tuple([plugin for plugin in self.plugins if isinstance(plugin, ClaimsPlugin)])
        self.of_devices = self._without_volumes[0] if self._without_volumes else None

    def awake(self) -> Self:
        """Return the plugins, which are whole from now on."""
        for plugin in self.plugins:
            plugin.awake()
        return self

    def needs_of(self, pod: Pod, nodes: NodesView, batch: ClaimsOfBatch | None = None) -> Needs | None:
        """Return what the plugins need of a node for a pod; None where the needs of one are not known.

        Parameters
        ----------
        pod, nodes, batch
            See `ClaimPlugin.needs_of`.
        """
        claims = self._bound_claims_of(pod) if pod.spec.volumes and self.plugins else ()
        if claims is None:
            return None
        needs: list[tuple[ClaimPlugin, Hashable]] = []
        for plugin in self.plugins if pod.spec.volumes else self._without_volumes:
            needed = plugin.needs_of(pod, claims, nodes, batch)
            if needed is None:
                return None
            if needed:
                needs.append((plugin, needed))
        return tuple(needs)

    def _bound_claims_of(self, pod: Pod) -> BoundClaims | None:
        """The claims of a pod with their volumes; None where one is missing, or a claim is that of an
        ephemeral volume of another pod."""
        informers, pairs = self.plugins[0].required_handle().informers, []
        claims, volumes = informers.lister(PersistentVolumeClaim), informers.lister(PersistentVolume)
        for volume in pod.spec.volumes:
            key = pod.claim_key(volume)
            if key is not None:
                try:
                    claim = claims.get(key)
                    if not claim.spec.volume_name:
                        return None
                    pairs.append((claim, volumes.get(claim.spec.volume_name)))
                except MoorageError:
                    return None
                if volume.ephemeral is not None and not claim.metadata.is_controlled_by(pod.metadata.uid):
                    return None
        return pairs

    def demand_of(self, needs: Needs) -> VolumeDemand:
        """Return needs for the kernels.

        Raises
        ------
        ValueError
            The volumes have too many drivers.
        """
        reachable, attachments, devices = None, [], None
        for plugin, needed in needs:
            mask, more = plugin.demand_of(needed)
            attachments += more
            if mask is not None:
                reachable = mask if reachable is None else reachable & mask
            if isinstance(plugin, ClaimsPlugin):
                devices = plugin.devices_of(needed)
        return VolumeDemand(reachable, attachments, devices)

    def fit_everywhere(self, pod: Pod, nodes: NodesView) -> bool:
        """Whether no plugin rejects a pod on any of some nodes, also with the nominated pods, and if any pods
        leave; False where that is not known."""
        needs = self.needs_of(pod, nodes)
        return needs is not None and (not needs or self.demand_of(needs).is_met_by(nodes.rows))
