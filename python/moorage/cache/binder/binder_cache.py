"""BinderCache: nodes, pods, units and reservations as the binder of Gödel knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Self

from moorage._core.state.cluster_state import ClusterState
from moorage.cache.cluster_cache import ClusterCache
from moorage.cache.snapshot import CacheDump
from moorage.errors import CacheError
from moorage.objects import Node, Pod, PodDisruptionBudget, PodGroup
from moorage.objects.model.godel import CNR, Movement, NMNode, Reservation, ledger_of
from moorage.objects.model.reservation import is_placeholder

from .cache_handler import CacheHandler
from .node_store import NodeStore
from .qos_node_info import QosNodeInfo
from .reservation_store import ReservationStore
from .stores import (
    DeletedMarkerStore,
    PdbStore,
    PodStore,
    SchedulingStatus,
    Store,
    StoreName,
    UnitStatus,
    UnitStatusStore,
)

GATE_OFF = "the feature gate ResourceReservation is off"


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that are evicted for another one.

    Attributes
    ----------
    pods : tuple of Pod
    preemption_state : mapping
        State that the preemption plugin attaches to its choice.
    """

    pods: tuple[Pod, ...] = ()
    preemption_state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CachePodInfo:
    """A pod to be assumed or forgotten (Gödel, CachePodInfo).

    Attributes
    ----------
    pod : Pod
        With the node that it is meant for.
    cycle_state : object, optional
        The state of the pod's scheduling cycle; not read.
    victims : Victims, optional
        Not read: victims are removed by events of their own.
    """

    pod: Pod
    cycle_state: object = None
    victims: Victims | None = None


class BinderCache(ClusterCache):
    """Keeps nodes, pods and what belongs to them up to date from events; a binder assumes pods in it.

    State of a pod: Initial → Assumed → Added → gone, with Forget and Expire from Assumed. Keys are UIDs. Only
    bound pods become members by events. Texts are Gödel's (CacheError where it returns an error,
    CacheCorruptedError where it ends the process). An operation that raises changed nothing.

    Parameters
    ----------
    handler : CacheHandler

    Attributes
    ----------
    pdbs, units, markers, nodes, pods : Store
        The stores, also to be found by name.
    reservations : ReservationStore or None
        None where the feature gate is off.
    """

    def __init__(self, handler: CacheHandler) -> None:
        state = ClusterState(ledgers=2, gates=handler.gates, ledger_of=ledger_of)
        super().__init__(state, handler.clock)
        self.handler = handler
        self.pdbs = PdbStore(state, handler)
        self.units = UnitStatusStore(state, handler)
        self.markers = DeletedMarkerStore(state, handler)
        self.nodes = NodeStore(state, handler)
        self.pods = PodStore(state, handler)
        self.reservations = ReservationStore(state, handler) if handler.resource_reservation else None
        self._wire()

    def _wire(self) -> None:
        if self.reservations is not None:
            self.reservations.enter = self._enter
            self.reservations.leave = self._leave

    def fork(self) -> Self:
        """An independent copy; forks may be used from several threads. Participants are cloned in order."""
        with self.lock:
            out = super().fork()
            out.pdbs = self.pdbs.clone(out.state)
            out.units = self.units.clone(out.state)
            out.markers = self.markers.clone(out.state)
            out.nodes = self.nodes.clone(out.state)
            out.pods = self.pods.clone(out.state)
            if self.reservations is not None:
                out.reservations = self.reservations.clone(out.state)
        out._wire()
        return out

    def _event(self) -> AbstractContextManager[object]:
        """The context of an event about several stores. Without reservations only the ledger, which is first,
        can refuse it, so the lock is enough."""
        return self.lock if self.reservations is None else self._atomic()

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        """Changes of all stores inside the context are undone if it raises."""
        with self.transaction() as transaction:
            yield
            transaction.commit()

    # ---- assuming

    def assume_pod(self, info: CachePodInfo) -> None:
        """Put a pod on its node ahead of its binding.

        Parameters
        ----------
        info : CachePodInfo

        Raises
        ------
        CacheError
            The pod is known in any state, or the placeholder that it asks for is missing or matched.
        """
        pod = info.pod
        with self._event():
            if self.reservations is not None and self.pods.find(pod) is None:
                self.reservations.assume_pod(pod)
            self.pods.assume_pod(pod)
            self.units.enter(pod)

    def finish_binding(self, pod: Pod) -> None:
        """Start the handler's TTL of an assumed pod after an attempt to bind it; other pods are left alone.

        Parameters
        ----------
        pod : Pod
        """
        with self.lock:
            self.pods.finish_binding(pod)

    def forget_pod(self, info: CachePodInfo) -> None:
        """Take an assumed pod back; one that is not assumed is left alone.

        Parameters
        ----------
        info : CachePodInfo

        Raises
        ------
        CacheCorruptedError
            The pod was assumed on another node.
        """
        with self._event():
            held = self.pods.forget_pod(info.pod)
            if held is not None:
                self.units.leave(held)
                if self.reservations is not None:
                    self.reservations.release(held)

    def is_assumed_pod(self, pod: Pod) -> bool:
        """Whether a pod is assumed and its deadline has not passed, whether or not `clean` has run since.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        bool
        """
        with self.lock:
            return self.pods.is_assumed_pod(pod) and not self.pods.has_expired(pod, self.clock())

    # ---- reading

    def get_pod(self, pod: Pod) -> Pod:
        """The cache's object of a pod.

        Parameters
        ----------
        pod : Pod
            Found by namespace and name; among pods that follow one another under one name, by UID.

        Returns
        -------
        Pod

        Raises
        ------
        CacheError
            The pod is not known.
        """
        with self.lock:
            return self.pods.get_pod(pod)

    def get_node_info(self, node_name: str) -> QosNodeInfo | None:
        """A read-only view of a node.

        Parameters
        ----------
        node_name : str

        Returns
        -------
        QosNodeInfo or None
            Left-over nodes included; None for a name that is not known.
        """
        with self.lock:
            return self.nodes.get(node_name)

    def find_store(self, store_name: StoreName | str) -> Store | None:
        """A store by its name.

        Parameters
        ----------
        store_name : StoreName or str

        Returns
        -------
        Store or None
        """
        return next((store for store in self.stores if store.name == store_name), None)

    @property
    def stores(self) -> tuple[Store, ...]:
        """All stores, in Gödel's order."""
        stores = (self.pdbs, self.reservations, self.units, self.markers, self.nodes, self.pods)
        return tuple(store for store in stores if store is not None)

    def fits(self, pod: Pod, node_name: str, without: Iterable[Pod] = ()) -> tuple[str, ...]:
        """Check the resources of a pod against a node, see `NodeStore.fits`.

        Parameters
        ----------
        pod : Pod
        node_name : str
        without : iterable of Pod
            Pods to leave out, such as victims.

        Returns
        -------
        tuple of str
            The reasons why the pod does not fit; empty where it fits.

        Raises
        ------
        CacheError
            The node is not known.
        """
        with self.lock:
            return self.nodes.fits(pod, node_name, without)

    def dump(self) -> CacheDump[QosNodeInfo]:
        """Everything at this moment: assumed pods and all nodes, left over ones included."""
        with self.lock:
            nodes = self.nodes.dump()
            return CacheDump(dict.fromkeys(self.state.assumed_pods(), True), nodes)

    # ---- units

    def get_unit_scheduling_status(self, unit_key: str) -> SchedulingStatus:
        """The status of a unit.

        Parameters
        ----------
        unit_key : str

        Returns
        -------
        SchedulingStatus
            UNKNOWN for an unknown unit.
        """
        with self.lock:
            return self.units.get_unit_scheduling_status(unit_key)

    def set_unit_scheduling_status(self, unit_key: str, status: SchedulingStatus) -> None:
        """Set the status of a unit."""
        with self.lock:
            self.units.set_unit_scheduling_status(unit_key, status)

    def get_unit_status(self, unit_key: str) -> UnitStatus:
        """Status and running pods of a unit."""
        with self.lock:
            return self.units.get_unit_status(unit_key)

    # ---- markers

    def mark_pod_to_delete(self, pod: Pod, preemptor: Pod) -> None:
        """Mark a confirmed pod as to be deleted for a preemptor, replacing an earlier marker.

        Parameters
        ----------
        pod, preemptor : Pod

        Raises
        ------
        CacheError
            The pod is not known, or only assumed.
        """
        with self.lock:
            self.markers.mark_pod_to_delete(pod, preemptor)

    def remove_delete_pod_marker(self, pod: Pod, preemptor: Pod) -> None:
        """Remove the marker of a preemptor.

        Parameters
        ----------
        pod, preemptor : Pod

        Raises
        ------
        CacheError
            The marker is another preemptor's.
        """
        with self.lock:
            self.markers.remove_delete_pod_marker(pod, preemptor)

    def remove_delete_pod_marker_by_key(self, pod_key: str, preemptor_key: str) -> None:
        """`remove_delete_pod_marker` by UIDs.

        Parameters
        ----------
        pod_key, preemptor_key : str

        Raises
        ------
        CacheError
            The marker is another preemptor's.
        """
        with self.lock:
            self.markers.remove_delete_pod_marker_by_key(pod_key, preemptor_key)

    def is_pod_marked_to_delete(self, pod: Pod) -> bool:
        """Whether a pod is marked as to be deleted."""
        with self.lock:
            return self.markers.is_pod_marked_to_delete(pod)

    # ---- reservations

    def get_available_placeholder_pod(self, pod: Pod) -> Pod:
        """The free placeholder pod that a pod asks to replace.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        Pod

        Raises
        ------
        CacheError
            There is none, it is matched, or the feature gate ResourceReservation is off.
        """
        with self.lock:
            if self.reservations is None:
                raise CacheError(GATE_OFF)
            return self.reservations.get_available_placeholder_pod(pod)

    # ---- events of pods

    def add_pod(self, pod: Pod) -> None:
        """Add a bound pod as reported: it confirms an assumed one, moving it if its node differs, or is new.

        Parameters
        ----------
        pod : Pod
            Ignored without ``spec.node_name``.

        Raises
        ------
        CacheError
            The pod was added before.
        """
        if not pod.spec.node_name:
            return
        with self._event():
            if self.reservations is not None:
                self.reservations.bind_pod(pod)
            self._enter(pod)

    def _enter(self, pod: Pod) -> None:
        held = self.pods.add_pod(pod)
        if held is not None:
            self.units.leave(held)
        self.units.enter(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Replace what is known of a pod, assumed or added, by its new state.

        A bound pod is added. One that is not bound is removed, unless it is assumed.

        Parameters
        ----------
        old, new : Pod
        """
        with self._event():
            if not new.spec.node_name:
                if old.spec.node_name or not self.pods.is_assumed_pod(old):
                    self._remove(old)
                return
            if self.reservations is not None and not old.spec.node_name:
                self.reservations.bind_pod(new)
            for held in self.pods.update_pod(old, new):
                self.units.leave(held)
                if held.metadata.uid != new.metadata.uid:
                    self.markers.leave(held)
            self.units.enter(new)

    def delete_pod(self, pod: Pod) -> None:
        """Remove a pod, in whatever state it is.

        Parameters
        ----------
        pod : Pod

        Raises
        ------
        CacheError
            A bound pod that is not known.
        """
        with self._event():
            if not self._remove(pod) and pod.spec.node_name:
                raise CacheError(self._unknown(pod))

    def _remove(self, pod: Pod) -> bool:
        """Remove a pod; returns whether it was known."""
        if self.reservations is None:
            held = self.pods.remove_pod(pod)
        else:
            held = self.pods.find(pod)
            is_assumed = self.pods.is_assumed_pod(pod)
            if held is not None and not is_assumed:
                self.reservations.delete_pod(held)
            self.pods.remove_pod(pod)
            if held is not None and is_assumed:
                self.reservations.release(held)
        if held is None:
            return False
        self.units.leave(held)
        self.markers.leave(held)
        return True

    def _leave(self, pod: Pod) -> None:
        held = self.pods.remove_pod(pod)
        if held is not None:
            self.units.leave(held)

    def _unknown(self, pod: Pod) -> str:
        text = f"pod {pod.metadata.uid} is not found in binder cache, so cannot be removed from it"
        if self.state.table.find_row(pod.spec.node_name) is None:
            return text
        return f"[no corresponding pod {pod.name} in pods of node {pod.spec.node_name}, {text}]"

    # ---- events of nodes

    def add_node(self, node: Node) -> None:
        """Add a node; pods that named it before are on it from now on."""
        with self.lock:
            self.nodes.set_node(node)

    def update_node(self, old: Node | None, new: Node) -> None:
        """Replace a node; an unknown one is added."""
        self.add_node(new)

    def delete_node(self, node: Node) -> None:
        """Remove a Node; its row stays while it has pods, an NMNode or a CNR.

        Parameters
        ----------
        node : Node

        Raises
        ------
        CacheError
            The node is not known.
        """
        with self.lock:
            self.nodes.delete_node(node)

    def add_nm_node(self, nm_node: NMNode) -> None:
        """Set the resources of a node that a second agent (NMNode) reports."""
        with self.lock:
            self.nodes.set_nm_node(nm_node)

    def update_nm_node(self, old: NMNode | None, new: NMNode) -> None:
        """`add_nm_node` of the new state."""
        self.add_nm_node(new)

    def delete_nm_node(self, nm_node: NMNode) -> None:
        """Remove an NMNode.

        Parameters
        ----------
        nm_node : NMNode

        Raises
        ------
        CacheError
            It is not known.
        """
        with self.lock:
            self.nodes.delete_nm_node(nm_node)

    def add_cnr(self, cnr: CNR) -> None:
        """Set the resources of a node for best-effort pods (CustomNodeResource)."""
        with self.lock:
            self.nodes.set_cnr(cnr)

    def update_cnr(self, old: CNR | None, new: CNR) -> None:
        """`add_cnr` of the new state."""
        self.add_cnr(new)

    def delete_cnr(self, cnr: CNR) -> None:
        """Remove a CustomNodeResource.

        Parameters
        ----------
        cnr : CNR

        Raises
        ------
        CacheError
            It is not known.
        """
        with self.lock:
            self.nodes.delete_cnr(cnr)

    # ---- events of what belongs to pods

    def add_pod_group(self, group: PodGroup) -> None:
        """Set the status of a unit by the phase of its group."""
        with self.lock:
            self.units.add_pod_group(group)

    def update_pod_group(self, old: PodGroup, new: PodGroup) -> None:
        """Remove the status of the old group, and `add_pod_group` of the new one."""
        with self.lock:
            self.units.update_pod_group(old, new)

    def delete_pod_group(self, group: PodGroup) -> None:
        """Remove the status of a unit."""
        with self.lock:
            self.units.delete_pod_group(group)

    def add_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Add or replace a disruption budget.

        Parameters
        ----------
        pdb : PodDisruptionBudget

        Raises
        ------
        ValueError
            The selector cannot be read.
        """
        with self.lock:
            self.pdbs.set_pdb(pdb)

    def update_pdb(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget) -> None:
        """`add_pdb` of the new state."""
        self.add_pdb(new)

    def delete_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Remove a disruption budget, if it is known."""
        with self.lock:
            self.pdbs.delete_pdb(pdb)

    def add_reservation(self, reservation: Reservation) -> None:
        """Reserve resources of a node; does nothing where the feature gate is off."""
        if self.reservations is not None:
            with self._event():
                self.reservations.add_reservation(reservation)

    def update_reservation(self, old: Reservation, new: Reservation) -> None:
        """Replace a reservation, or match it with its owner; does nothing where the feature gate is off."""
        if self.reservations is not None:
            with self._event():
                self.reservations.update_reservation(old, new)

    def delete_reservation(self, reservation: Reservation) -> None:
        """Remove a reservation; does nothing where the feature gate is off."""
        if self.reservations is not None:
            with self._event():
                self.reservations.delete_reservation(reservation)

    # ---- events that no store of a binder needs

    def add_owner(self, owner_type: str, key: str, labels: Mapping[str, str] | None = None) -> None:
        """Do nothing: only schedulers use owners (Gödel, BaseStore)."""

    def update_owner(
        self, owner_type: str, key: str, old: Mapping[str, str] | None, new: Mapping[str, str] | None
    ) -> None:
        """Do nothing."""

    def delete_owner(self, owner_type: str, key: str) -> None:
        """Do nothing."""

    def add_movement(self, movement: Movement | None) -> None:
        """Do nothing: only schedulers use movements (Gödel, BaseStore)."""

    def update_movement(self, old: Movement | None, new: Movement | None) -> None:
        """Do nothing."""

    def delete_movement(self, movement: Movement | None) -> None:
        """Do nothing."""

    # ---- after events were lost

    def relist(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Make the cache equal to a listing; all or nothing. For use after events were lost.

        An assumed pod stays assumed if it is listed without a node, and goes if it is not listed.
        Placeholders of deleted pods stay: no listing has them.

        Parameters
        ----------
        nodes : iterable of Node
        pods : iterable of Pod
        """
        with self._atomic():
            listed = {node.name: node for node in nodes}
            for node in list(self.state.table.objects):
                if node is not None and node.name not in listed:
                    self.delete_node(node)
            for node in listed.values():
                self.add_node(node)
            by_uid = {pod.metadata.uid: pod for pod in pods}
            for held in self.state.pods():
                if held.metadata.uid not in by_uid and not is_placeholder(held):
                    self.delete_pod(held)
            for pod in by_uid.values():
                known = self.pods.find(pod)
                if known is None:
                    self.add_pod(pod)
                elif known != pod or self.pods.is_assumed_pod(pod):
                    self.update_pod(pod, pod)

    # ---- time

    def clean(self, now: float) -> None:
        """Drop the assumed pods, markers and placeholders whose deadline lies before `now`.

        Parameters
        ----------
        now : float
            Seconds on the handler's clock.
        """
        with self._event():
            expired = self.pods.expire(now)
            self.units.leave_all(expired)
            self.markers.clean(now)
            if self.reservations is not None:
                for held in expired:
                    self.reservations.release(held)
                self.reservations.clean(now)


def new_binder_cache(handler: CacheHandler) -> BinderCache:
    """A cache that is cleaned in the background until the handler's `stop` is set.

    Parameters
    ----------
    handler : CacheHandler

    Returns
    -------
    BinderCache
    """
    cache = BinderCache(handler)
    cache.run(handler.period, handler.stop)
    return cache
