"""ClusterEvents: the events of a BinderCache about nodes, pod groups, budgets and reservations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from moorage.cache.cluster_cache import ClusterCache
from moorage.objects.model.godel import (
    CNR,
    Movement,
    NMNode,
    Reservation,
)
from moorage.objects.model.node import Node
from moorage.objects.model.pod_group import PodGroup
from moorage.objects.model.policy import PodDisruptionBudget

from .stores import NodeStore, PdbStore, ReservationStore, UnitStatusStore


class ClusterEvents(ClusterCache):
    """Each of these events concerns one store."""

    pdbs: PdbStore
    units: UnitStatusStore
    nodes: NodeStore
    reservations: ReservationStore | None

    def _event(self) -> AbstractContextManager[object]:
        """The context of an event about several stores. Without reservations the ledger, which comes first,
        is the only one that can refuse it, so the lock is enough."""
        return self.lock if self.reservations is None else self._atomic()

    @contextmanager
    def _atomic(self) -> Iterator[None]:
        """All stores take part in what is done inside, or none if it raises."""
        with self.transaction() as transaction:
            yield
            transaction.commit()

    # ---- events of nodes

    def add_node(self, node: Node) -> None:
        """Add a node; pods that named it before are on it from now on."""
        with self.lock:
            self.nodes.set_node(node)

    def update_node(self, old: Node | None, new: Node) -> None:
        """Replace a node; one that is not known is added."""
        self.add_node(new)

    def delete_node(self, node: Node) -> None:
        """Remove a Node; its row stays while it has pods, or an NMNode or CNR describes it."""
        with self.lock:
            self.nodes.delete_node(node)

    def add_nm_node(self, nm_node: NMNode) -> None:
        """Set what a second agent (NMNode) reports of a node."""
        with self.lock:
            self.nodes.set_nm_node(nm_node)

    def update_nm_node(self, old: NMNode | None, new: NMNode) -> None:
        self.add_nm_node(new)

    def delete_nm_node(self, nm_node: NMNode) -> None:
        with self.lock:
            self.nodes.delete_nm_node(nm_node)

    def add_cnr(self, cnr: CNR) -> None:
        """Set what a node has for best-effort pods (CustomNodeResource)."""
        with self.lock:
            self.nodes.set_cnr(cnr)

    def update_cnr(self, old: CNR | None, new: CNR) -> None:
        self.add_cnr(new)

    def delete_cnr(self, cnr: CNR) -> None:
        with self.lock:
            self.nodes.delete_cnr(cnr)

    # ---- events of what belongs to pods

    def add_pod_group(self, group: PodGroup) -> None:
        """Set a unit's status by the phase of its group."""
        with self.lock:
            self.units.add_pod_group(group)

    def update_pod_group(self, old: PodGroup, new: PodGroup) -> None:
        with self.lock:
            self.units.update_pod_group(old, new)

    def delete_pod_group(self, group: PodGroup) -> None:
        with self.lock:
            self.units.delete_pod_group(group)

    def add_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Add or replace a disruption budget."""
        with self.lock:
            self.pdbs.set_pdb(pdb)

    def update_pdb(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget) -> None:
        self.add_pdb(new)

    def delete_pdb(self, pdb: PodDisruptionBudget) -> None:
        with self.lock:
            self.pdbs.delete_pdb(pdb)

    def add_reservation(self, reservation: Reservation) -> None:
        """Reserve resources of a node; does nothing where the feature gate is off."""
        if self.reservations is not None:
            with self._event():
                self.reservations.add_reservation(reservation)

    def update_reservation(self, old: Reservation, new: Reservation) -> None:
        if self.reservations is not None:
            with self._event():
                self.reservations.update_reservation(old, new)

    def delete_reservation(self, reservation: Reservation) -> None:
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
