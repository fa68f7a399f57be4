"""Limits of the cores and the memory of all nodes together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from moorage.kube import Node, parse_value

from .estimator import capacity
from .flags import Flags


class Quotas:
    """How much may still come, or still leave, of each resource that is limited.

    Parameters
    ----------
    group_of : mapping of str to str
        Group by node: all nodes of a group count as its first one.
    """

    def __init__(
        self,
        limits: dict[str, int | None],
        nodes: Iterable[Node],
        group_of: Mapping[str, str],
        leaving: bool,
    ) -> None:
        self._of_group: dict[str, dict[str, int]] = {}
        used = dict.fromkeys(limits, 0)
        for node in nodes:
            for name, amount in self._amounts(node, group_of.get(node.name, "")).items():
                used[name] += amount
        self._left = {
            name: max(0, used[name] - limit if leaving else limit - used[name])
            for name, limit in limits.items()
            if limit is not None
        }

    @classmethod
    def greatest(cls, flags: Flags, nodes: Iterable[Node], group_of: Mapping[str, str]) -> Quotas:
        """Return what may come."""
        return cls({"cpu": flags.max_cores, "memory": flags.max_memory}, nodes, group_of, False)

    @classmethod
    def least(cls, flags: Flags, nodes: Iterable[Node], group_of: Mapping[str, str]) -> Quotas:
        """Return what may leave."""
        return cls({"cpu": flags.min_cores, "memory": flags.min_memory}, nodes, group_of, True)

    def exceeded(self, node: Node, group: str, count: int = 1) -> list[str]:
        """Return the resources of which some nodes have too much."""
        return [name for name, amount in self._limited(node, group) if self._left[name] < amount * count]

    def allowed(self, node: Node, group: str, count: int) -> int:
        """Return how many of some nodes are allowed."""
        return min([count, *(self._left[name] // amount for name, amount in self._limited(node, group))])

    def take(self, node: Node, group: str, count: int) -> None:
        """Count nodes that come or leave."""
        for name, amount in self._limited(node, group):
            self._left[name] = max(0, self._left[name] - amount * count)

    def _limited(self, node: Node, group: str) -> list[tuple[str, int]]:
        amounts = self._amounts(node, group).items()
        return [(name, amount) for name, amount in amounts if amount > 0 and name in self._left]

    def _amounts(self, node: Node, group: str) -> dict[str, int]:
        known = self._of_group.get(group)
        if known is None:
            has = capacity(node)
            known = {name: parse_value(has.get(name, "0")) for name in ("cpu", "memory")}
            if group:
                self._of_group[group] = known
        return known
