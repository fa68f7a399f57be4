"""The difference of two schedulers: nodes, pods, placements and usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.cluster.pod_scheduler import PodScheduler
from moorage.table import Table, TabularDocument


class Difference(TabularDocument, frozen=True, omit_defaults=True, rename=None):
    """What differs between two schedulers; false if nothing does. Pods are named ``namespace/name``.

    Names are sorted. Sums over all nodes are of cpu in millicores, of memory and ephemeral storage in bytes.
    """

    nodes_added: tuple[str, ...] = ()
    """Nodes that only the second has."""
    nodes_removed: tuple[str, ...] = ()
    """Nodes that only the first has."""
    nodes_changed: tuple[str, ...] = ()
    """Nodes whose objects differ."""
    pods_added: tuple[str, ...] = ()
    """Pods that only the second has."""
    pods_removed: tuple[str, ...] = ()
    """Pods that only the first has."""
    placements: dict[str, tuple[str | None, str | None]] = {}
    """Each pod that is on different nodes, to its node in the first and in the second; None where it is on
    none. Assumed pods are on their nodes."""
    requested: dict[str, tuple[int, int]] = {}
    """Each resource whose sum of requests differs, to the sums in the first and in the second."""
    allocatable: dict[str, tuple[int, int]] = {}
    """Each resource whose sum differs, to the sums in the first and in the second."""

    def __bool__(self) -> bool:
        return any(getattr(self, field) for field in self.__struct_fields__)

    def headline(self) -> str:
        """Return the number of differences by kind, in one line."""
        counts = {field: len(getattr(self, field)) for field in self.__struct_fields__}
        return ", ".join(f"{field}: {n}" for field, n in counts.items() if n) or "no difference"

    def table(self, limit: int | None = None) -> Table:
        """Return one row for each difference.

        Parameters
        ----------
        limit : int, optional
            Number of rows, from the first on; by default all.

        Returns
        -------
        Table
            Columns field (of this object), name (of a node, pod or resource), before and after (of placements
            and sums).
        """
        rows: list[tuple[str, str, str | None, str | None]] = []
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if isinstance(value, tuple):
                rows += [(field, name, None, None) for name in value]
            else:
                rows += [(field, name, _text(own), _text(other)) for name, (own, other) in value.items()]
        names = ("field", "name", "before", "after")
        return Table({name: [row[at] for row in rows[:limit]] for at, name in enumerate(names)})


def _text(value: str | int | None) -> str | None:
    """Return a value as a text; None for none."""
    return None if value is None else str(value)


def difference(before: PodScheduler, other: PodScheduler) -> Difference:
    """Return the difference of two schedulers, after new events of both; see `Questions.diff`."""
    before.sync()
    other.sync()
    nodes, other_nodes = (
        {n.name: n for n in each.table.objects if n is not None} for each in (before, other)
    )
    placed, other_placed = _nodes_of_pods(before), _nodes_of_pods(other)
    pods, other_pods = {*placed, *before.pods.indexer.items()}, {*other_placed, *other.pods.indexer.items()}
    changed = [name for name in nodes.keys() & other_nodes if nodes[name] != other_nodes[name]]
    return Difference(
        nodes_added=tuple(sorted(other_nodes.keys() - nodes)),
        nodes_removed=tuple(sorted(nodes.keys() - other_nodes)),
        nodes_changed=tuple(sorted(changed)),
        pods_added=tuple(sorted(other_pods - pods)),
        pods_removed=tuple(sorted(pods - other_pods)),
        placements={
            key: (placed.get(key), other_placed.get(key))
            for key in sorted(placed.keys() | other_placed)
            if placed.get(key) != other_placed.get(key)
        },
        requested=_sums(before.table.requested, other.table.requested),
        allocatable=_sums(before.table.allocatable, other.table.allocatable),
    )


def _nodes_of_pods(scheduler: PodScheduler) -> dict[str, str]:
    """Return the node of each pod of the cache by the key of the pod."""
    with scheduler.cache.lock:
        return {pod.key: pod.spec.node_name for pod in scheduler.cache.state.pods()}


def _sums(columns: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the sums of the resources that differ."""
    sums, other_sums = ({name: int(each[name].sum()) for name in each} for each in (columns, others))
    return {
        name: (sums.get(name, 0), other_sums.get(name, 0))
        for name in {**sums, **other_sums}
        if sums.get(name, 0) != other_sums.get(name, 0)
    }
