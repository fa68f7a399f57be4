"""What users see of a rollout that is not complete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from moorage.kube.model.meta import Object
from moorage.kube.model.pod import Pod
from moorage.table import Table, Tabular


class Rollout(Struct, Tabular, frozen=True):
    """The rollout of a Deployment, StatefulSet or DaemonSet that is not complete.

    Attributes
    ----------
    workload : str
        ``Kind namespace/name``.
    replicas : int
        The number of pods that it should have.
    updated, available : int
        The number of pods with its template, and of all pods that are available.
    without_node : tuple of str
        The pods with its template that have no node, each ``namespace/name``.
    """

    workload: str
    replicas: int
    updated: int
    available: int
    without_node: tuple[str, ...]

    __repr__ = Tabular.__repr__

    def headline(self) -> str:
        """Return workload and numbers in one line."""
        return f"{self.workload}: {self.numbers()}"

    def numbers(self) -> str:
        """Return the numbers of pods."""
        counts = f"{self.updated} updated, {self.available} available"
        return f"of {self.replicas} pods {counts}, {len(self.without_node)} without a node"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each pod without a node.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Column pod.
        """
        return Table({"pod": list(self.without_node[:limit])})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON value."""
        return structs.asdict(self)


def rollout_of(obj: Object, replicas: int, updated: Iterable[Pod], available: int) -> Rollout:
    """Return the rollout of a workload.

    Parameters
    ----------
    updated : iterable of Pod
        The pods with its template.
    """
    pods = list(updated)
    waiting = tuple(pod.key for pod in pods if not pod.spec.node_name)
    return Rollout(f"{obj.kind} {obj.key}", replicas, len(pods), available, waiting)
