"""Assumed pods that a run has placed and is going to bind together."""

from __future__ import annotations

from moorage.queue import QueuedPodInfo
from moorage.scheduler.cycle.results import ScheduleResult, in_one
from moorage.scheduler.event_handlers import PodHandler


class PlacedPods:
    """Assumed pods that are not yet bound, in the order in which they were placed.

    Parameters
    ----------
    pods : PodHandler
        Knows what informers have reported.

    Attributes
    ----------
    infos : list of QueuedPodInfo
    nodes : list of str
        The name of the node of each pod.
    may_repeat : bool
        Whether pods were placed after others were bound, which may have had their names.
    """

    def __init__(self, pods: PodHandler) -> None:
        self._pods = pods
        self.may_repeat = self._was_taken = False
        self.clear()

    def clear(self) -> None:
        """Drop all pods."""
        self._parts: list[tuple[list[QueuedPodInfo], list[str]]] = []
        self._seen = 0  # `changes` of the informers' copy of the pods when the first of these was placed

    def __len__(self) -> int:
        return sum([len(infos) for infos, _ in self._parts])

    @property
    def infos(self) -> list[QueuedPodInfo]:
        return in_one([infos for infos, _ in self._parts])

    @property
    def nodes(self) -> list[str]:
        return in_one([nodes for _, nodes in self._parts])

    def add(self, infos: list[QueuedPodInfo], nodes: list[str]) -> None:
        """Append pods that were placed.

        Parameters
        ----------
        infos : list of QueuedPodInfo
        nodes : list of str
            Neither list changes any more.
        """
        if not self._parts:
            self._seen = self._pods.indexer.changes
        if infos:
            self._parts.append((infos, nodes))

    def remove(self, key: str) -> None:
        """Remove a pod that is no longer placed.

        Parameters
        ----------
        key : str
        """
        kept = [one for one in zip(self.infos, self.nodes, strict=True) if one[0].key != key]
        self._parts = [([info for info, _ in kept], [node for _, node in kept])] if kept else []

    @property
    def may_have_changed(self) -> bool:
        """Whether informers have reported changes of pods since the first of these was placed."""
        return self._seen != self._pods.indexer.changes

    def take(self, result: ScheduleResult) -> tuple[list[QueuedPodInfo], list[str], list[QueuedPodInfo]]:
        """Take all pods.

        Parameters
        ----------
        result : ScheduleResult
            Its `placements` lack pods that were evicted.

        Returns
        -------
        infos : list of QueuedPodInfo
            The pods that can be bound.
        nodes : list of str
            The node of each.
        ended : list of QueuedPodInfo
            The pods that were evicted since, or that others have deleted or bound.
        """
        infos, nodes = self.infos, self.nodes
        self.may_repeat, self._was_taken = self.may_repeat or self._was_taken, True
        ended: list[QueuedPodInfo] = []
        if infos and self.may_have_changed:
            placed = {info.key: info for info in infos}  # of pods with one key the last one
            gone, placements = self._pods.deleted_or_bound(placed), result.placements
            ended = [info for key, info in placed.items() if key in gone or key not in placements]
            infos = [info for key, info in placed.items() if key in placements and key not in gone]
            nodes = [placements[info.key] for info in infos]
        self.clear()
        return infos, nodes, ended
