"""Makes room for pods that have to move: smaller pods leave another node first."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.cluster import PodScheduler
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod

from .node_verdicts import checked_needs
from .pod_moves import Blocker, Move, Mover

MOST_TRIES = 1_000
"""The most moves that are tried for one question."""


class RoomMaker:
    """Moves pods away from nodes, and makes room for them on others.

    A pod that finds no place has smaller ones leave a node, which may do the same. Each asks for no more of
    any resource than the pod that it makes room for, and for less of one, so that it ends.

    Parameters
    ----------
    scheduler : Scheduler
        In a transaction.
    """

    def __init__(self, scheduler: PodScheduler, mover: Mover) -> None:
        self._scheduler, self._mover, self._tries = scheduler, mover, 0

    def move(self, pod: Pod, node: str) -> list[Move] | Blocker:
        """Move a pod, after others if need be: all of them, or none.

        Parameters
        ----------
        node : str
            Is unschedulable.

        Returns
        -------
        list of Move or Blocker
            A node that a pod leaves is unschedulable meanwhile.
        """
        with self._scheduler.transaction() as transaction:
            self._tries += 1
            move = self._mover.move(pod, node)
            if isinstance(move, Move):
                transaction.commit()
                return [move]
        if not move.lasts:
            for other, smaller in self._rooms(pod):
                with self._scheduler.transaction() as transaction:
                    moves = self._after(pod, node, other, smaller)
                    if moves:
                        transaction.commit()
                        return moves
        return move

    def _after(self, pod: Pod, node: str, other: str, smaller: list[Pod]) -> list[Move]:
        """Move a pod to another node, or elsewhere, after smaller ones have left that node; return no moves
        where one of them has no place."""
        moves = list[Move]()
        self._mover.cordon([other])
        for leaving in smaller:
            made = self.move(leaving, other)
            if isinstance(made, Blocker):
                return []
            moves += made
        self._mover.cordon([other], False)
        last = self._mover.move(pod, node)
        return [*moves, last] if isinstance(last, Move) else []

    def _rooms(self, pod: Pod) -> Iterator[tuple[str, list[Pod]]]:
        """Yield schedulable nodes, and few smaller pods of each without which it has room for a pod: first
        where the fewest have to leave."""
        needs = checked_needs(self._scheduler, pod)
        nodes: list[Node] = self._scheduler.client.list(Node)[0]
        names = [node.name for node in nodes if not node.spec.unschedulable]
        rooms = [(name, leaving) for name in names if (leaving := self._leaving(name, needs))]
        for name, leaving in sorted(rooms, key=lambda room: len(room[1])):
            if self._tries < MOST_TRIES:
                yield name, leaving

    def _leaving(self, node: str, needs: dict[str, int]) -> list[Pod]:
        """Return few pods on a node that are smaller than these needs, without which it has room for them;
        none where they are not enough, or room is not what is lacking."""
        table, leaving = self._scheduler.table, list[Pod]()
        row = table.find_row(node)
        lacking = {
            name: need + int(table.column("requested", name)[row] - table.column("allocatable", name)[row])
            for name, need in needs.items()
        }
        lacking = {name: amount for name, amount in lacking.items() if amount > 0}
        if not lacking:
            return []
        sized = [(pod, checked_needs(self._scheduler, pod)) for pod in self._mover.movable(node)]
        smaller = [
            (pod, own)
            for pod, own in sized
            if own != needs and all(amount <= needs.get(name, 0) for name, amount in own.items())
        ]
        smaller.sort(key=lambda each: -min(min(each[1].get(name, 0) / n, 1.0) for name, n in lacking.items()))
        for pod, own in smaller:
            if any(own.get(name) for name in lacking) and not self._mover.reason_to_stay(pod):
                leaving.append(pod)
                lacking = {name: n - own.get(name, 0) for name, n in lacking.items() if n > own.get(name, 0)}
            if not lacking:
                return leaving
        return []
