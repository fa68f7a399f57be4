"""Uses of claims that kube-scheduler v1.37 loses count of when a node goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from moorage._core.base.buffers import Journal

from .volumes_in_use import VolumesInUse

if TYPE_CHECKING:
    from ..framework.plugin.handle import FrameworkHandle

V = TypeVar("V")


class LostUses:
    """What upstream counts too little of the uses of claims (v1.37, cache.go, `pvcRefCountsDelta`).

    A node that goes takes the uses by its pods from the count. If it is back before the next snapshot,
    nothing adds them again. If it is not, each of these pods takes its uses once more when it goes. The count
    is right again with the first snapshot whose nodes are others than those of the one before, or in which a
    claim would be used less than never. Both snapshots list the nodes anew.

    Parameters
    ----------
    handle : FrameworkHandle
        Of the scheduler's framework. The view of its cache asks at each snapshot (`View.claim_counts`).

    Attributes
    ----------
    uses : dict of str to int
        By ``namespace/name`` of the claim, the uses on nodes that have gone since the nodes were listed, and
        on those that were gone then.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._handle = handle
        self.uses: dict[str, int] = {}
        self._gone: dict[str, None] = {}  # these nodes; some may be back
        handle.cache.state.view.claim_counts = self

    def node_goes(self, name: str) -> None:
        """Note the claims that pods on a node use, before it is removed."""
        uses = self._uses_on(name)
        if uses:
            self._set(uses + Counter(self.uses), dict.fromkeys([*self._gone, name]))

    def counts_of(self, claims: Collection[str]) -> list[int]:
        """Return upstream's count for each of some claims.

        Parameters
        ----------
        claims : collection of str
            As ``namespace/name``.
        """
        in_use = self._handle.derived(VolumesInUse.of)
        in_use.refresh()
        gone = sum(self._uses_on_gone().values(), Counter[str]())
        return [in_use.claims.get(key, 0) + gone[key] - self.uses.get(key, 0) for key in claims]

    def are_negative(self) -> bool:
        """Whether upstream counts a claim as used less than never."""
        return any(count < 0 for count in self.counts_of(self.uses))

    def start_anew(self) -> None:
        """Count anew, as the nodes are listed anew."""
        if self.uses:
            gone = self._uses_on_gone()
            self._set(sum(gone.values(), Counter[str]()), dict.fromkeys(gone))

    def copy_from(self, other: LostUses) -> None:
        """Take the state of another scheduler."""
        self.uses, self._gone = other.uses.copy(), other._gone.copy()

    def _set(self, uses: Counter[str], gone: dict[str, None]) -> None:
        """Set the state; a rollback restores it before the view asks again."""
        journal = self._handle.cache.state.journal
        _replace(journal, self.uses, uses)
        _replace(journal, self._gone, gone)

    def _uses_on_gone(self) -> dict[str, Counter[str]]:
        """Return the uses by pods on each node that is gone."""
        state = self._handle.cache.state
        gone = [name for name in self._gone if not state.has_node(name)]
        return {name: uses for name in gone if (uses := self._uses_on(name))}

    def _uses_on(self, name: str) -> Counter[str]:
        """Return the uses by pods on a node, which may be gone."""
        state = self._handle.cache.state
        row = state.find_row(name)
        return Counter(
            f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
            for pod in (() if row is None else state.pods_of(row))
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        )


def _replace(journal: Journal, table: dict[str, V], new: Mapping[str, V]) -> None:
    """Set the content of a table, undoably."""
    for key in table.keys() - new.keys():
        journal.drop(table, key)
    for key, value in new.items():
        journal.put(table, key, value)
