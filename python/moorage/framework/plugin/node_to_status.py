"""NodeToStatus: why each node rejected a pod (kube-scheduler v1.36, framework/types.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from .status import Status


class NodeToStatus(Mapping[str, Status]):
    """Node name to the status that rejected the pod there, in list order; made when somebody reads it.

    Parameters
    ----------
    nodes : int
        The number of nodes.
    read : callable
        Makes the statuses. To be asked before the cluster changes.
    from_search : bool
        All of them are verdicts of the core's last search: what it says of the nodes that it searched, and an
        unresolvable status for all others.
    """

    def __init__(self, nodes: int, read: Callable[[], dict[str, Status]], from_search: bool = False) -> None:
        self._nodes = nodes
        self._read = read
        self.from_search = from_search

    @cached_property
    def _statuses(self) -> dict[str, Status]:
        return self._read()

    def __getitem__(self, name: str) -> Status:
        return self._statuses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return self._nodes
