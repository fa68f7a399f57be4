"""ChangingScheduler: a scheduler whose cluster can be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pod_scheduler import PodScheduler

if TYPE_CHECKING:
    from .cluster_changes import ClusterChanges


class ChangingScheduler(PodScheduler):
    """Adds to the verbs that place pods those that change the cluster."""

    @property
    def change(self) -> ClusterChanges:
        """What an operator does with kubectl: ``change.apply``, ``change.drain``, ``change.scale``, …"""
        from .cluster_changes import ClusterChanges

        return ClusterChanges(self)
