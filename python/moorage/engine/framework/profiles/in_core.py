"""Base classes of in-tree plugins: plugins with kernels in the core, and plugins that few pods need."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from moorage.errors import MoorageError
from moorage.kube import Object, PersistentVolume, PersistentVolumeClaim, Pod

from ..plugin import interface
from ..plugin.interface import Plugin, PreFilterResult
from ..plugin.signing import volumes
from ..plugin.status import Status

if TYPE_CHECKING:
    from moorage._core.decide.terms import NodeDevices
    from moorage._core.devices.claims_of_pods import RepeatedClaims
    from moorage._core.state.cluster_state import ClusterState
    from moorage._core.state.pod_class import Shape

    from ..plugin.any_node_info import NodeInfo as AnyNodeInfo
    from ..plugin.cycle_state import CycleState
    from ..plugin.nodes_view import NodesView
    from ..runtime.kernels import Kernels

BoundClaims = Sequence[tuple[PersistentVolumeClaim, PersistentVolume]]
Mask = npt.NDArray[np.bool_]
Attachment = tuple[npt.NDArray[np.int32], int]
T = TypeVar("T", bound=Object)
T_co = TypeVar("T_co", covariant=True)
P = TypeVar("P", bound=Plugin)
Asked = TypeVar("Asked", bound=Callable[..., Status | None])


def gates_only_with(*fields: str, held: Sequence[str] = ()) -> Callable[[Asked], Asked]:
    """Return a decorator that says when PreEnqueue of a plugin need not be called.

    A method that overrides a decorated one is not decorated.

    Parameters
    ----------
    *fields : str
        Fields of spec.
    held : sequence of str
        Attributes of the plugin: containers that stay the same objects. A pod passes for certain if all these
        fields and containers are empty.
    """

    def decorate(pre_enqueue: Asked) -> Asked:
        pre_enqueue.gates_only_with = fields, held  # type: ignore[attr-defined]
        return pre_enqueue

    return decorate


def gates_by_group(pre_enqueue: Asked) -> Asked:
    """Mark a PreEnqueue method whose answer is alike for all pods of a group, and None for pods without one.

    A method that overrides a marked one is not marked.

    Returns
    -------
    callable
        The same.
    """
    pre_enqueue.gates_by_group = True  # type: ignore[attr-defined]
    return pre_enqueue


class NativePlugin(Plugin):
    """A plugin whose verdicts and scores are computed by kernels of the compiled core.

    Its PreFilter and PreScore read only `CycleState.shape`, `CycleState.terms` and the nodes that the pod
    names or is pinned to, so that the framework can cache their results with the terms.

    Attributes
    ----------
    reason_texts : tuple of str
        Upstream's messages for the reason bits of a verdict, from the lowest bit.
    missing_state_text : mapping of type to str
        `FilterPlugin` or `ScorePlugin` to the start of upstream's error for a plugin that is not enabled at
        PreFilter or PreScore.
    """

    in_core = True
    reason_texts: ClassVar[tuple[str, ...]] = ()
    missing_state_text: ClassVar[Mapping[type[Plugin], str]] = {}

    def plan_arguments(self, state: ClusterState) -> dict[str, Any]:
        """Return keyword arguments of `moorage._core.decide.plan.Plan` for the plugin's arguments.

        Parameters
        ----------
        state : ClusterState
            State of the cluster in the core.
        """
        return {}

    def reasons(self, bits: int, shape: Shape) -> tuple[str, ...]:
        """Return upstream's messages for the reason bits of a verdict.

        Parameters
        ----------
        bits : int
            Reason bits as set by the kernel.
        shape : Shape
            Requests and constraints of the rejected pod.
        """
        return tuple(text for bit, text in enumerate(self.reason_texts) if bits >> bit & 1)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> PreFilterResult | Status | None:
        return None

    def may_reject(self, shape: Shape) -> bool:
        """Whether PreFilter or PreScore may reject a pod.

        They are not asked about pods that no plugin may reject.

        Parameters
        ----------
        shape : Shape
            Requests and constraints of the pod.

        Returns
        -------
        bool
            False where both certainly return Success or Skip.
        """
        return True

    @property
    def has_kernel(self) -> bool:
        """Whether the core filters single nodes for the plugin, also with other pods on them.

        False for a class with a method `filter` of its own.
        """
        return type(self).filter is NativePlugin.filter

    def filter(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> Status | None:
        return self._kernels().filter(self, state, node_info)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        return None

    def score(self, state: CycleState, pod: Pod, node_info: AnyNodeInfo) -> int | Status:
        return self._kernels().score(self, state, node_info)

    def shape_of(self, pod: Pod) -> Shape:
        """Return the shape of a pod, for queueing hints."""
        classes = self.required_handle().cache.state.classes
        return classes.shape_of(classes.intern(pod))

    def normalized_scores(self, state: CycleState, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the normalized scores of the feasible nodes.

        Parameters
        ----------
        rows : (n,) int32 array
            All feasible rows of the node table.

        Returns
        -------
        (n,) int64 array
            Scores from 0 to 100.
        """
        return self._kernels().search.scores(self.name, rows, *state.target)[1]

    def _framework(self) -> Any:
        """The `Framework` of the handle, whose type is not declared here; see `FrameworkHandle.framework`."""
        framework = self.required_handle().framework
        if framework is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return framework

    def _kernels(self) -> Kernels:
        kernels: Kernels | None = self._framework().kernels
        if kernels is None:
            raise RuntimeError(f'plugin "{self.name}" is not part of a scheduler')
        return kernels


class InTreePlugin(NativePlugin, interface.EnqueueExtensions, interface.SignPlugin):
    """An in-tree plugin with kernels, which registers cluster events and signs pods."""


class CorePostFilter(interface.PostFilterPlugin):
    """A PostFilter plugin that is not called for pods for which it certainly has no effect."""

    in_core = True

    def may_preempt(self, shape: Shape, potential: int) -> bool:
        """Whether `post_filter` may evict pods.

        Parameters
        ----------
        shape : Shape
            Requests and constraints of a pod without nomination.
        potential : int
            Number of nodes that reject the pod with a code other than UnschedulableAndUnresolvable.

        Returns
        -------
        bool
            False where it certainly evicts none.
        """
        raise NotImplementedError

    def may_free_claims(self, state: CycleState) -> bool:
        """Whether `post_filter` may free what claims of the pod have, so that it has to be called."""
        return False

    def futile_message(self, shape: Shape, nodes: int, potential: int) -> tuple[str, bool]:
        """Return the outcome of `post_filter` where `may_preempt` is False.

        Parameters
        ----------
        shape : Shape
            Requests and constraints of the pod's class.
        nodes, potential : int
            Number of all nodes, and of those that reject the pod with a code other than
            UnschedulableAndUnresolvable.

        Returns
        -------
        reason : str
            Reason of the status.
        clears_nomination : bool
            Whether the nomination of the pod is removed.
        """
        raise NotImplementedError

    def failure(self, state: CycleState) -> Status | None:
        """Return the Error that `post_filter` returns for any statuses of the nodes.

        Returns
        -------
        Status or None
            None where it depends on the statuses.
        """
        return None


class Lister(Protocol[T_co]):
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


NO_RESOURCES: frozenset[str] = frozenset()


class VolumesOfBatch:
    """The volumes that the earlier pods of a batch use, and those that the next pod shares with others.

    Attributes
    ----------
    at : int
        The index of the next pod.
    exclusive : set of hashable
        Claims and volumes that no later pod of the batch can use too, if the core is to place it.
    users : dict of CSIVolume to list of int
        ``~index`` of the pods that use a volume.
    shared : list of (int, int, int)
        The volumes of the next pod that may be counted on a row already; see `PodBatch`.
    allocated : dict of str to int
        Resource claims, as ``namespace/name``, that an earlier pod of the batch may have allocated, with the
        index of the pod; -1 if plugins schedule it, or may deallocate the claim for it.
    leader : int
        The index of the last pod for which the core allocates claims; -1 for none.
    follows : bool
        Whether the next pod shares the claim that this pod allocates.
    ends : bool
        Whether the batch ends before the next pod, as it has one of these claims.
    provided : frozenset of str
        The resources of the next pod that its devices provide on every node.
    claiming : dict of int to object
        The pods with resource claims that the core is to place: what their plugin needs to write the claims.
    alike : RepeatedClaims or None
        Notes pods that need the same as the pod before, if all that this needs are new devices.
    known : dict of object to object
        By plugin, what it has found out that is the same for all pods of the batch.
    """

    def __init__(self) -> None:
        self.at = 0
        self.exclusive: set[Hashable] = set()
        self.users: dict[Hashable, list[int]] = {}
        self.shared: list[tuple[int, int, int]] = []
        self.allocated: dict[str, int] = {}
        self.leader, self.follows = -1, False
        self.ends = False
        self.provided = NO_RESOURCES
        self.claiming: dict[int, Any] = {}
        self.repeated: RepeatedClaims | None = None
        self.known: dict[object, Any] = {}


class VolumePlugin(
    interface.PreFilterPlugin, interface.FilterPlugin, interface.EnqueueExtensions, interface.SignPlugin
):
    """A plugin that applies only to pods with volumes or resource claims.

    For all others it counts as Skip without a call (`Profile.complete`).
    """

    in_core = True

    def sign_pod(self, pod: Pod) -> Mapping[str, Any]:
        return volumes(pod)

    def skips(self, method: str) -> bool:
        """Whether the plugin returns Skip for every pod without volumes.

        Where it does not, Filter passes, and scores are 0.

        Parameters
        ----------
        method : {"pre_filter", "pre_score"}
            The extension point.
        """
        return True

    def concerns(self, pod: Pod) -> bool:
        """Whether the plugin applies to a pod that has neither volumes nor claims."""
        return False

    def delegated_resources(self) -> frozenset[str]:
        """Return the extended resources that the plugin provides on nodes without them."""
        return frozenset()

    def bound_claims_of(self, pod: Pod) -> BoundClaims | None:
        """Return the claims of a pod with their volumes.

        Returns
        -------
        sequence of (PersistentVolumeClaim, PersistentVolume) or None
            None where one is missing, or a claim is that of an ephemeral volume of another pod.
        """
        claims, volumes, found = self.lister(PersistentVolumeClaim), self.lister(PersistentVolume), []
        for volume in pod.spec.volumes:
            key = pod.claim_key(volume)
            if key is not None:
                try:
                    claim = claims.get(key)
                    found.append((claim, volumes.get(claim.spec.volume_name)))
                except MoorageError:
                    return None
                if volume.ephemeral is not None and not claim.metadata.is_controlled_by(pod.metadata.uid):
                    return None
        return found

    def needs_of(
        self, pod: Pod, claims: BoundClaims, nodes: NodesView, batch: VolumesOfBatch | None = None
    ) -> Hashable | None:
        """Return what Filter needs of a node for a pod that PreFilter passes or skips.

        Filter passes exactly on the nodes that meet `demand_of` these needs, also with the nominated pods.

        Parameters
        ----------
        claims : sequence of (PersistentVolumeClaim, PersistentVolume)
            See `bound_claims_of`.
        nodes : NodesView
            The nodes in question.
        batch : VolumesOfBatch, optional
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

    def devices_of(self, needs: Hashable) -> NodeDevices | None:
        """Return which nodes have the devices of needs.

        Parameters
        ----------
        needs : hashable
            As `needs_of` returned them.

        Returns
        -------
        NodeDevices or None
            None where no devices are needed.
        """
        return None

    needs_are_described = False
    """Whether `needs_of` reads of a pod with a description (see `BoundClaims`) only what this has, and the
    class; of what other pods use, whether they share a volume with it."""

    @property
    def demand_version(self) -> int:
        """A number that differs between all states between which the results of `demand_of` change, other
        than by node labels and by pods. Brings what the plugin knows of pods up to date."""
        return 0

    def lister(self, kind: type[T]) -> Lister[T]:
        """Return the lister of a kind of objects.

        Parameters
        ----------
        kind : type
            Class of the objects.

        Returns
        -------
        Lister
            Lister of the informer.
        """
        lister: Lister[T] = self.required_handle().informers.lister(kind)
        return lister


class ClaimsPlugin(VolumePlugin):
    """A plugin about resource claims, which writes those of pods that the core has placed."""

    def follow_claims(self) -> None:
        """Bring what the core knows of devices up to date, before it places pods of a batch."""
        raise NotImplementedError

    def take_devices(self, claiming: Mapping[int, Any], placed: Mapping[int, str]) -> dict[int, Any]:
        """Return what `bind_claims` needs of pods that the core has placed.

        Parameters
        ----------
        claiming : mapping of int to object
            `VolumesOfBatch.claiming`.
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


class UnitPlugin(Plugin):
    """A plugin that applies only to pods of pod groups, at Permit.

    Permit runs where a pod of a group is scheduled alone. All other pods are scheduled in the core.
    """

    in_core = True


def split_skipping(
    plugins: Sequence[P], method: str, asks_volume_plugins: bool
) -> tuple[list[P], list[tuple[int, str]]]:
    """Split plugins into those to call at an extension point and those that always return Skip there.

    Parameters
    ----------
    method : {"pre_filter", "pre_score"}
        The extension point.
    asks_volume_plugins : bool
        Whether a `VolumePlugin` is called.

    Returns
    -------
    skipping : list of (int, str)
        For each of the others the number of called plugins before it, and its name.
    """
    nothing = getattr(NativePlugin, method)
    called: list[P] = []
    skipping: list[tuple[int, str]] = []
    for plugin in plugins:
        if isinstance(plugin, VolumePlugin) and not asks_volume_plugins:
            if plugin.skips(method):
                skipping.append((len(called), plugin.name))
        elif getattr(type(plugin), method) is not nothing:
            called.append(plugin)
    return called, skipping
