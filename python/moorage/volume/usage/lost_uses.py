"""Uses of claims that kube-scheduler v1.37 loses count of when a node is replaced."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from .in_use import VolumesInUse

if TYPE_CHECKING:
    from moorage.framework.plugin.handle import FrameworkHandle


class LostUses:
    """Uses of claims that are missing in upstream's count (v1.37, cache.go, `pvcRefCountsDelta`).

    A node that goes takes the uses by its pods from the count. If it is back before the next snapshot, with
    the pods still there, nothing adds them again. The count is right again with the first snapshot whose
    nodes are others than those of the one before, or in which a claim would be used less than never.

    What happened is looked at when a node goes or comes, and when a pod asks. This is the same as at each
    snapshot, unless the last pod with a claim leaves, a pod without volumes is scheduled, and then one with
    the claim is reported bound that this scheduler has not placed.

    Parameters
    ----------
    handle : FrameworkHandle
        Of the scheduler's framework.

    Attributes
    ----------
    uses : Counter of str
        The lost uses by ``namespace/name`` of the claim. To be read after `refresh`.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._handle = handle
        self.uses: Counter[str] = Counter()
        self._gone: dict[str, Counter[str]] = {}  # by node, what it took when it went
        self._nodes: list[str] = []  # of the last snapshot, when any of this was noted

    def node_goes(self, name: str) -> None:
        """Note the claims that pods on a node use, before it is removed.

        Parameters
        ----------
        name : str
        """
        self._forget_if_nodes_changed()
        in_use, state = self._handle.derived(VolumesInUse.of), self._handle.cache.state
        in_use.refresh()
        row = state.find_row(name)
        pods = () if row is None else in_use.pods.get(row, {}).values()
        uses = Counter(
            f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
            for pod in pods
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        )
        if uses:
            self._nodes = state.view.node_names()
            self._gone[name] = uses

    def node_comes(self, name: str) -> None:
        """Note that a node is added.

        Parameters
        ----------
        name : str
        """
        self._forget_if_nodes_changed()
        self.uses += self._gone.pop(name, Counter())

    def refresh(self) -> None:
        """Forget what the snapshot of the cycle that asks has set right."""
        self._forget_if_nodes_changed()
        if self.uses:
            in_use = self._handle.derived(VolumesInUse.of)
            in_use.refresh()
            if any(in_use.claims.get(key, 0) < lost for key, lost in self.uses.items()):
                self.uses.clear()

    def _forget_if_nodes_changed(self) -> None:
        if (self.uses or self._gone) and self._handle.cache.state.view.node_names() != self._nodes:
            self.uses.clear()
            self._gone.clear()

    # ---- transactions and forks ----------------------------------------------------------------------------

    def save(self) -> object:
        """Return the state, for `undo`."""
        return self.uses.copy(), self._gone.copy(), self._nodes

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`.

        Parameters
        ----------
        saved : object
            The result of `save`.
        """
        uses, gone, self._nodes = saved
        self.uses, self._gone = uses.copy(), gone.copy()

    def copy_from(self, other: LostUses) -> None:
        """Take the state of another scheduler.

        Parameters
        ----------
        other : LostUses
        """
        self.undo(other.save())
