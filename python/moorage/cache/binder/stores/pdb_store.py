"""PdbStore: disruption budgets, and whom they select."""

from __future__ import annotations

from typing import NamedTuple, Self

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage._core.services.binder_store import Undo
from moorage._core.state.cluster_state import ClusterState
from moorage.objects.model.pod import Pod
from moorage.objects.model.policy import PodDisruptionBudget

from ..cache_handler import CacheHandler
from .common import Store, StoreName


class Budget(NamedTuple):
    pdb: PodDisruptionBudget
    selector: LabelSelectorMatcher


class PdbStore(Store):
    """Budgets by ``namespace/name``."""

    name = StoreName.PDB

    def __init__(self, state: ClusterState, handler: CacheHandler, undo: Undo) -> None:
        super().__init__(state, handler, undo)
        self._budgets: dict[str, Budget] = {}

    def clone(self, state: ClusterState, undo: Undo) -> Self:
        out = super().clone(state, undo)
        out._budgets = self._budgets.copy()
        return out

    def set_pdb(self, pdb: PodDisruptionBudget) -> None:
        """A budget is there, or changed. One whose selector cannot be read is an error."""
        held = self._budgets.get(pdb.key)
        known = held is not None and held.pdb.spec.selector == pdb.spec.selector
        selector = held.selector if held is not None and known else LabelSelectorMatcher(pdb.spec.selector)
        self.undo.put(self._budgets, pdb.key, Budget(pdb, selector))

    def delete_pdb(self, pdb: PodDisruptionBudget) -> None:
        self.undo.drop(self._budgets, pdb.key)

    @property
    def pdbs(self) -> list[PodDisruptionBudget]:
        """All budgets, by key."""
        return [self._budgets[key].pdb for key in sorted(self._budgets)]

    def pdbs_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets of a pod's namespace that select it, by key."""
        meta = pod.metadata
        return [
            self._budgets[key].pdb
            for key in sorted(self._budgets)
            if self._budgets[key].pdb.namespace == meta.namespace
            and self._budgets[key].selector.matches(meta.labels)
        ]
