"""Assumed pods that a run has placed and is going to bind together."""

from __future__ import annotations

from collections.abc import Container, Sequence

from moorage.queue import QueuedPodInfo
from moorage.scheduler.event_handlers import PodHandler


class PlacedPods:
    """Assumed pods that are not yet bound, in the order in which they were placed.

    Parameters
    ----------
    pods : PodHandler
        Knows what informers have reported.

    Attributes
    ----------
    keys : list of str
        ``namespace/name`` of each pod.
    infos : list of QueuedPodInfo
    """

    def __init__(self, pods: PodHandler) -> None:
        self._pods = pods
        self.clear()

    def clear(self) -> None:
        """Drop all pods."""
        self.keys: list[str] = []
        self.infos: list[QueuedPodInfo] = []
        self._seen = 0  # `changes` of the informers' copy of the pods when the first of these was placed

    def __len__(self) -> int:
        return len(self.infos)

    def add(self, keys: Sequence[str], infos: Sequence[QueuedPodInfo]) -> None:
        """Append pods that were placed.

        Parameters
        ----------
        keys : sequence of str
        infos : sequence of QueuedPodInfo
        """
        if not self.infos:
            self._seen = self._pods.indexer.changes
        self.keys += keys
        self.infos += infos

    def remove(self, key: str) -> None:
        """Remove a pod that is no longer placed.

        Parameters
        ----------
        key : str
        """
        kept = [at for at, other in enumerate(self.keys) if other != key]
        self.keys, self.infos = [self.keys[at] for at in kept], [self.infos[at] for at in kept]

    @property
    def may_have_changed(self) -> bool:
        """Whether informers have reported changes of pods since the first of these was placed."""
        return self._seen != self._pods.indexer.changes

    def take(self, placements: Container[str]) -> tuple[list[str], list[QueuedPodInfo], list[QueuedPodInfo]]:
        """Take all pods.

        Parameters
        ----------
        placements : container of str
            The keys of pods that have a node. Pods that lack one were evicted.

        Returns
        -------
        keys : list of str
            Of the pods that can be bound.
        infos : list of QueuedPodInfo
            These pods.
        ended : list of QueuedPodInfo
            The pods that others have deleted or bound since.
        """
        keys, infos = self.keys, self.infos
        ended: list[QueuedPodInfo] = []
        if infos and self.may_have_changed:
            placed = dict(zip(keys, infos, strict=True))  # of pods with one key the last one
            gone = self._pods.deleted_or_bound(placed)
            ended = list(gone.values())
            keys = [key for key in placed if key in placements and key not in gone]
            infos = [placed[key] for key in keys]
        self.clear()
        return keys, infos, ended
