"""BinderCache: the cache of a binder, with nodes, pods, units, markers and reservations.

A binder validates and binds the proposals of several schedulers (Gödel, pkg/binder). A unit is a set of pods
that are scheduled together: a PodGroup or a single pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Self

from moorage._core.state.cluster_state import ClusterState
from moorage.arguments import argument
from moorage.engine.cache.node_info import CacheDump
from moorage.engine.cache.scheduler_cache import ClusterCache
from moorage.errors import CacheError
from moorage.kube import Node, Pod, PodDisruptionBudget, PodGroup

from .binder_nodes import NodeStore, QosNodeInfo, QosNodeInfoClone
from .binder_stores import (
    CacheHandler,
    DeletedMarkerStore,
    PdbStore,
    PodStore,
    ReservationStore,
    SchedulingStatus,
    Store,
    StoreName,
    UnitStatus,
    UnitStatusStore,
)
from .godel import (
    CNR,
    CNRStatus,
    CurrentOwners,
    Movement,
    NMNode,
    NMNodeStatus,
    Reservation,
    ReservationSpec,
    ReservationStatus,
    ReservationTemplate,
    is_placeholder,
    ledger_of,
)

__all__ = [
    "CNR",
    "BinderCache",
    "CNRStatus",
    "CacheHandler",
    "CachePodInfo",
    "CurrentOwners",
    "Movement",
    "NMNode",
    "NMNodeStatus",
    "QosNodeInfo",
    "QosNodeInfoClone",
    "Reservation",
    "ReservationSpec",
    "ReservationStatus",
    "ReservationTemplate",
    "SchedulingStatus",
    "Store",
    "StoreName",
    "UnitStatus",
    "Victims",
    "new_binder_cache",
]


# ---- cache pod info ----------------------------------------------------------------------------------------
#
# CachePodInfo: a pod to be assumed or forgotten by a BinderCache, and the victims of a preemptor.


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that are evicted for a preemptor.

    Attributes
    ----------
    pods : tuple of Pod
    preemption_state : mapping of str to object
        State that the preemption plugin attaches to its decision.
    """

    pods: tuple[Pod, ...] = ()
    preemption_state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CachePodInfo:
    """A pod to be assumed or forgotten (Gödel, CachePodInfo).

    Attributes
    ----------
    pod : Pod
        With its node.
    cycle_state : object, optional
        The state of the scheduling cycle; not read.
    victims : Victims, optional
        Not read: events about the victims remove them.
    """

    pod: Pod
    cycle_state: object = None
    victims: Victims | None = None


# ---- binder cache ------------------------------------------------------------------------------------------

GATE_OFF = "the feature gate ResourceReservation is off"


class BinderCache(ClusterCache):
    """The cache of a binder, updated by events, in which the binder assumes pods. Thread-safe.

    States of a pod: Initial, Assumed, Added, Expired, Deleted. Pods are identified by UID. Events add only
    bound pods. Error texts are as in Gödel: CacheError where it returns an error, CacheCorruptedError
    where it terminates the process. An operation that raises has changed nothing.

    Parameters
    ----------
    handler : CacheHandler
        The settings.

    Attributes
    ----------
    pdbs, units, markers, nodes, pods : Store
        The stores, see `find_store`.
    reservations : ReservationStore or None
        None if the feature gate ResourceReservation is off.
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
        """Connect the reservations to the other stores."""
        if self.reservations is not None:
            self.reservations.enter = self._enter
            self.reservations.leave = self._leave

    def fork(self) -> Self:
        """Return an independent copy, with a clone of each participant; it may be used in another thread."""
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
        """Return the context manager of an event that changes several stores.

        Without reservations the lock suffices: only the ledger, which is changed first, can raise.
        """
        return self.lock if self.reservations is None else self._atomic()

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        """Undo the changes of all stores if the block raises."""
        with self.transaction() as transaction:
            yield
            transaction.commit()

    # ---- assuming

    def assume_pod(self, info: CachePodInfo) -> None:
        """Add a pod that is not yet bound to its node.

        Raises
        ------
        CacheError
            The pod is in the cache, or the placeholder that it requests is missing or matched.
        """
        pod = argument("info", info, "CachePodInfo", globals()).pod
        with self._event():
            if self.reservations is not None and self.pods.find(pod) is None:
                self.reservations.assume_pod(pod)
            self.pods.assume_pod(pod)
            self.units.enter(pod)

    def finish_binding(self, pod: Pod) -> None:
        """Start the time to live (`pod_assumed_ttl`) of an assumed pod after an attempt to bind it."""
        with self.lock:
            self.pods.finish_binding(pod)

    def forget_pod(self, info: CachePodInfo) -> None:
        """Remove an assumed pod.

        Parameters
        ----------
        info : CachePodInfo
            Ignored if the pod is not assumed.

        Raises
        ------
        CacheCorruptedError
            The pod was assumed on another node.
        """
        with self._event():
            held = self.pods.forget_pod(argument("info", info, "CachePodInfo", globals()).pod)
            if held is not None:
                self.units.leave(held)
                if self.reservations is not None:
                    self.reservations.release(held)

    def is_assumed_pod(self, pod: Pod) -> bool:
        """Whether a pod is assumed and its deadline has not passed; if it has, `clean` is run."""
        with self.lock:
            self._expire(pod)
            return self.pods.is_assumed_pod(pod)

    def _expire(self, pod: Pod) -> None:
        """Run `clean` if the deadline of a pod has passed, so that no method finds it."""
        now = self.clock()
        if self.pods.has_expired(pod, now):
            self.clean(now)

    # ---- reading

    def get_pod(self, pod: Pod) -> Pod:
        """Return the object of a pod in the cache; if its deadline has passed, `clean` is run before.

        Parameters
        ----------
        pod : Pod
            Identified by namespace and name; by UID among successive pods with one name.

        Raises
        ------
        CacheError
            The pod is not in the cache.
        """
        with self.lock:
            cached = self.pods.get_pod(pod)
            self._expire(cached)
            return self.pods.get_pod(pod)

    def get_node_info(self, node_name: str) -> QosNodeInfo | None:
        """Return a read-only view of a node.

        Returns
        -------
        QosNodeInfo or None
            None for an unknown name. A removed node remains known while it has pods, an NMNode or a CNR.
        """
        with self.lock:
            return self.nodes.get(node_name)

    def find_store(self, store_name: StoreName | str) -> Store | None:
        """Return the store with a name.

        Returns
        -------
        Store or None
            None if there is no such store.
        """
        return next((store for store in self.stores if store.name == store_name), None)

    @property
    def stores(self) -> tuple[Store, ...]:
        """Return all stores, in the order of Gödel."""
        stores = (self.pdbs, self.reservations, self.units, self.markers, self.nodes, self.pods)
        return tuple(store for store in stores if store is not None)

    def fits(self, pod: Pod, node_name: str, without: Iterable[Pod] = ()) -> tuple[str, ...]:
        """Check the requests of a pod against the free resources of a node, see `NodeStore.fits`.

        Parameters
        ----------
        without : iterable of Pod
            Pods that do not count, such as victims.

        Returns
        -------
        tuple of str
            The reasons why the pod does not fit; empty if it fits.

        Raises
        ------
        CacheError
            There is no such node.
        """
        with self.lock:
            return self.nodes.fits(pod, node_name, without)

    def dump(self) -> CacheDump[QosNodeInfo]:
        """Return a copy of the content of the cache."""
        with self.lock:
            nodes = self.nodes.dump()
            return CacheDump(dict.fromkeys(self.state.assumed_pods(), True), nodes)

    # ---- units

    def get_unit_scheduling_status(self, unit_key: str) -> SchedulingStatus:
        """Return the scheduling status of a unit.

        Returns
        -------
        SchedulingStatus
            UNKNOWN for an unknown unit.
        """
        with self.lock:
            return self.units.get_unit_scheduling_status(unit_key)

    def set_unit_scheduling_status(self, unit_key: str, status: SchedulingStatus) -> None:
        """Set the scheduling status of a unit."""
        with self.lock:
            self.units.set_unit_scheduling_status(unit_key, status)

    def get_unit_status(self, unit_key: str) -> UnitStatus:
        """Return the scheduling status and the running pods of a unit."""
        with self.lock:
            return self.units.get_unit_status(unit_key)

    # ---- markers

    def mark_pod_to_delete(self, pod: Pod, preemptor: Pod) -> None:
        """Mark a confirmed pod as to be deleted for a preemptor, replacing an earlier marker.

        Raises
        ------
        CacheError
            The pod is not in the cache, or only assumed.
        """
        with self.lock:
            self.markers.mark_pod_to_delete(pod, preemptor)

    def remove_delete_pod_marker(self, pod: Pod, preemptor: Pod) -> None:
        """Remove the marker of a pod that is to be deleted for a preemptor.

        Raises
        ------
        CacheError
            The marker names another preemptor.
        """
        with self.lock:
            self.markers.remove_delete_pod_marker(pod, preemptor)

    def remove_delete_pod_marker_by_key(self, pod_key: str, preemptor_key: str) -> None:
        """Remove the marker of a pod that is to be deleted for a preemptor, by UIDs.

        Parameters
        ----------
        pod_key, preemptor_key : str
            The UIDs of the pod and of the preemptor.

        Raises
        ------
        CacheError
            The marker names another preemptor.
        """
        with self.lock:
            self.markers.remove_delete_pod_marker_by_key(pod_key, preemptor_key)

    def is_pod_marked_to_delete(self, pod: Pod) -> bool:
        """Whether a pod is marked as to be deleted."""
        with self.lock:
            return self.markers.is_pod_marked_to_delete(pod)

    # ---- reservations

    def get_available_placeholder_pod(self, pod: Pod) -> Pod:
        """Return the free placeholder pod that a pod requests to replace.

        Raises
        ------
        CacheError
            The pod requests none, there is none, it is matched, or the feature gate ResourceReservation is
            off.
        """
        with self.lock:
            if self.reservations is None:
                raise CacheError(GATE_OFF)
            return self.reservations.get_available_placeholder_pod(pod)

    # ---- events of pods

    def add_pod(self, pod: Pod) -> None:
        """Add a bound pod that an event reported.

        If the pod is assumed, this confirms it, and moves it if it was assumed on another node.

        Parameters
        ----------
        pod : Pod
            Ignored without ``spec.node_name``.

        Raises
        ------
        CacheError
            The pod has been added before.
        """
        if not pod.spec.node_name:
            return
        with self._event():
            if self.reservations is not None:
                self.reservations.bind_pod(pod)
            self._enter(pod)

    def _enter(self, pod: Pod) -> None:
        """Add a bound pod to the ledger and to its unit."""
        held = self.pods.add_pod(pod)
        if held is not None:
            self.units.leave(held)
        self.units.enter(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Replace a pod, assumed or added, by its new state.

        A bound pod is added if it is new. A pod that is not bound is removed, unless it is assumed.
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
        """Remove a pod, assumed or added.

        Raises
        ------
        CacheError
            The pod is bound, but not in the cache.
        """
        with self._event():
            if not self._remove(pod) and pod.spec.node_name:
                raise CacheError(self._unknown(pod))

    def _remove(self, pod: Pod) -> bool:
        """Remove a pod from all stores; return whether it was in the cache."""
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
        """Remove a placeholder pod from the ledger and from its unit."""
        held = self.pods.remove_pod(pod)
        if held is not None:
            self.units.leave(held)

    def _unknown(self, pod: Pod) -> str:
        """Return the error text for the deletion of an unknown pod."""
        text = f"pod {pod.key} is not found in binder cache, so cannot be removed from it"
        if self.state.table.find_row(pod.spec.node_name) is None:
            return text
        return f"[no corresponding pod {pod.key} in pods of node {pod.spec.node_name}, {text}]"

    # ---- events of nodes

    def add_node(self, node: Node) -> None:
        """Add or replace a node. Pods that were added before their node are then on this node.

        Raises
        ------
        ValueError
            A quantity cannot be parsed.
        """
        with self.lock:
            self.nodes.set_node(node)

    def update_node(self, old: Node | None, new: Node) -> None:
        """Replace a node; an unknown node is added (`old` is ignored)."""
        self.add_node(new)

    def delete_node(self, node: Node) -> None:
        """Remove a Node. The node remains known while it has pods, an NMNode or a CNR.

        Raises
        ------
        CacheError
            There is no such Node.
        """
        with self.lock:
            self.nodes.delete_node(node)

    def add_nm_node(self, nm_node: NMNode) -> None:
        """Set the resources of a node that a second node agent reports."""
        with self.lock:
            self.nodes.set_nm_node(nm_node)

    def update_nm_node(self, old: NMNode | None, new: NMNode) -> None:
        """Replace an NMNode; an unknown one is added (`old` is ignored)."""
        self.add_nm_node(new)

    def delete_nm_node(self, nm_node: NMNode) -> None:
        """Remove an NMNode.

        Raises
        ------
        CacheError
            There is no such NMNode.
        """
        with self.lock:
            self.nodes.delete_nm_node(nm_node)

    def add_cnr(self, cnr: CNR) -> None:
        """Set the resources of a node for best-effort pods."""
        with self.lock:
            self.nodes.set_cnr(cnr)

    def update_cnr(self, old: CNR | None, new: CNR) -> None:
        """Replace a CustomNodeResource; an unknown one is added (`old` is ignored)."""
        self.add_cnr(new)

    def delete_cnr(self, cnr: CNR) -> None:
        """Remove a CustomNodeResource.

        Raises
        ------
        CacheError
            There is no such CustomNodeResource.
        """
        with self.lock:
            self.nodes.delete_cnr(cnr)

    # ---- events of pod groups, disruption budgets and reservations

    def add_pod_group(self, group: PodGroup) -> None:
        """Set the scheduling status of a unit by the phase of its pod group."""
        with self.lock:
            self.units.add_pod_group(group)

    def update_pod_group(self, old: PodGroup, new: PodGroup) -> None:
        """Remove the status of the old pod group, and set the new one's."""
        with self.lock:
            self.units.update_pod_group(old, new)

    def delete_pod_group(self, group: PodGroup) -> None:
        """Remove the scheduling status of a unit."""
        with self.lock:
            self.units.delete_pod_group(group)

    def add_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Add or replace a disruption budget.

        Raises
        ------
        ValueError
            The selector is invalid.
        """
        with self.lock:
            self.pdbs.set_pdb(pdb)

    def update_pdb(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget) -> None:
        """Replace a disruption budget; an unknown one is added (`old` is ignored)."""
        self.add_pdb(new)

    def delete_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Remove a disruption budget, if it is there."""
        with self.lock:
            self.pdbs.delete_pdb(pdb)

    def add_reservation(self, reservation: Reservation) -> None:
        """Reserve the resources of a Reservation; does nothing if the feature gate is off."""
        if self.reservations is not None:
            with self._event():
                self.reservations.add_reservation(reservation)

    def update_reservation(self, old: Reservation, new: Reservation) -> None:
        """Replace a Reservation, or match it with its owner; does nothing if the feature gate is off."""
        if self.reservations is not None:
            with self._event():
                self.reservations.update_reservation(old, new)

    def delete_reservation(self, reservation: Reservation) -> None:
        """Remove a Reservation; does nothing if the feature gate is off."""
        if self.reservations is not None:
            with self._event():
                self.reservations.delete_reservation(reservation)

    # ---- events that no store of a binder uses

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

    # ---- relisting

    def relist(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Make the cache equal to a listing, after events were lost; all or nothing.

        An assumed pod remains assumed if it is listed without a node, and is removed if it is not listed.
        Placeholder pods remain: a listing does not contain them.

        Parameters
        ----------
        nodes : iterable of Node
            All nodes of the cluster.
        pods : iterable of Pod
            All pods of the cluster.
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
        """Remove the assumed pods, markers and placeholders whose deadline is before `now`.

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
    """Return a cache whose expired entries are removed in a background thread until `handler.stop` is set."""
    cache = BinderCache(handler)
    cache.run(handler.period, handler.stop)
    return cache
