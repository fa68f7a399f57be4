"""Use of nodes: what a heat map shows, and tables by zone and by pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from moorage.cluster import PodScheduler
from moorage.cluster.amounts import in_shown_order, readable
from moorage.errors import InputError
from moorage.kube.model.node import ZONE

from ..page import Cell, Drawn, Grid, percent_bar, shortened
from .node_room import POOL_LABELS

SQUARES = 10_000
"""Maximum squares of a heat map; of more nodes, neighbours of one zone and pool share a square."""
RESOURCES = 8
"""Maximum number of resources that are shown."""
NODE_ROWS = 200
"""Maximum rows of the table of nodes."""
Array = npt.NDArray[Any]


class NodeUse(Struct, dict=True):
    """Requested and allocatable amounts of the nodes of a scheduler.

    Attributes
    ----------
    groupings : dict of str to list of str
        Values of a label by node: of zones and of pools, if there are any. "" for nodes without it.
    labels : dict of str to str
        The label of each grouping.
    requested, allocatable : dict of str to (nodes,) array
        By resource; cpu in millicores.
    """

    names: list[str]
    groupings: dict[str, list[str]]
    labels: dict[str, str]
    requested: dict[str, Array]
    allocatable: dict[str, Array]

    @cached_property
    def percent(self) -> dict[str, Array]:
        """The requested part by resource, in per cent; NaN where a node has none."""
        return {name: _percent(self.requested[name], room) for name, room in self.allocatable.items()}

    @property
    def in_use(self) -> list[str]:
        """The resources of which something is requested."""
        return [name for name, amounts in self.requested.items() if amounts.any()]

    def total(self, resource: str) -> float:
        """Return the requested part of a resource on all nodes, in per cent; NaN where there is none."""
        return float(_percent(self.requested[resource].sum(), self.allocatable[resource].sum()))


def current_use(scheduler: PodScheduler) -> NodeUse:
    """Read the use of nodes."""
    rows = np.asarray(scheduler.context.view_rows())
    table = scheduler.table
    nodes = [table.objects[row] for row in rows]
    used = {label for node in nodes for label in node.metadata.labels}
    labels = grouping_labels(lambda label: label in used)
    names = in_shown_order(table.allocatable)
    requested = {name: np.asarray(table.requested[name][rows], np.int64) for name in names}
    allocatable = {name: np.asarray(table.allocatable[name][rows], np.int64) for name in names}
    shown = [name for name in names if requested[name].any() or allocatable[name].any()][:RESOURCES]
    return NodeUse(
        [node.name for node in nodes],
        {name: [node.metadata.labels.get(label, "") for node in nodes] for name, label in labels.items()},
        labels,
        {name: requested[name] for name in shown},
        {name: allocatable[name] for name in shown},
    )


def grouping_labels(is_used: Callable[[str], bool], by: str = "") -> dict[str, str]:
    """Return the labels of zones and pools that nodes have.

    Parameters
    ----------
    is_used : callable
        Whether some node has a label.

    Returns
    -------
    dict of str to str
        Of "zone" and "pool", those that there are.

    Raises
    ------
    InputError
        No node has the label `by`.
    """
    if by and not is_used(by):
        raise InputError("no node has this label", source="--by", obj=repr(by))
    pools = [by] if by else POOL_LABELS
    labels = {"zone": ZONE, "pool": next(filter(is_used, pools), "")}
    return {name: label for name, label in labels.items() if label and is_used(label)}


def _percent(requested: Any, allocatable: Any) -> Array:
    """Divide; NaN where there is nothing to allocate."""
    part, whole = np.asarray(requested, np.float64), np.asarray(allocatable, np.float64)
    parts: Array = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return 100 * parts


# ---- heat map ----------------------------------------------------------------------------------------------


def heat_map(use: NodeUse, extra: Mapping[str, Array] | None = None) -> Drawn | None:
    """Return a map with a square per node; None without nodes.

    Parameters
    ----------
    extra : mapping of str to (nodes,) float64 array, optional
        More measures of nodes, in per cent, shown first.
    """
    if not use.names:
        return None
    order, starts = _squares(use)
    counts = np.diff(np.append(starts, len(order)))
    columns: dict[str, Array] = {}
    for name, room in use.allocatable.items():
        amounts = (np.add.reduceat(values[order], starts) for values in (use.requested[name], room))
        columns[name] = _percent(*amounts)
    for name, values in (extra or {}).items():
        columns = {name: np.add.reduceat(values[order], starts) / counts} | columns
    first = order[starts]
    data: dict[str, Any] = {
        "names": [
            use.names[at] if n == 1 else f"{use.names[at]} and {n - 1} more"
            for at, n in zip(first, counts, strict=True)
        ],
        "groups": {name: _group(values, first) for name, values in use.groupings.items()},
        "resources": [{"name": name, "percent": _json(values)} for name, values in columns.items()],
    }
    if len(starts) < len(order):
        data["counts"] = counts.tolist()
    note = "A square is a node" if "counts" not in data else "A square is some nodes of one zone and pool"
    label = f"{len(use.names)} nodes, coloured by the requested part of a resource"
    groupings = sorted(use.groupings, key=lambda name: len(set(use.groupings[name])) < 2)
    texts = {"resources": list(columns), "groupings": groupings, "note": f"{note}.", "label": label}
    return Drawn("heat_map", data, texts)


def _squares(use: NodeUse) -> tuple[Array, Array]:
    """Return the order of nodes, and where each square begins in it."""
    n = len(use.names)
    if n <= SQUARES:
        return np.arange(n), np.arange(n)
    keys = [np.unique(np.array(values), return_inverse=True)[1] for values in use.groupings.values()]
    order = np.lexsort(keys[::-1])
    changes = np.any([np.diff(key[order], prepend=-1) != 0 for key in keys], axis=0)
    begins = np.flatnonzero(changes)
    within = np.arange(n) - np.repeat(begins, np.diff(np.append(begins, n)))
    return order, np.flatnonzero(within % -(-n // SQUARES) == 0)


def _group(values: list[str], first: Array) -> dict[str, Any]:
    names = sorted(set(values))
    place = {name: at for at, name in enumerate(names)}
    return {"names": names, "of": [place[values[at]] for at in first]}


def _json(values: Array) -> list[float | None]:
    """Return numbers with a digit after the point, None for NaN."""
    return [None if value != value else round(value, 1) for value in values.tolist()]


# ---- tables ------------------------------------------------------------------------------------------------


def group_grid(use: NodeUse, grouping: str) -> Grid | None:
    """Return the use of resources by zone or by pool; None if no node has the label."""
    values = np.array(use.groupings.get(grouping, []))
    if not values.astype(bool).any():
        return None
    rows: list[list[Cell]] = []
    for name in np.unique(values).tolist():
        here = values == name
        rows.append([name or "(none)", int(here.sum())])
        for resource in use.in_use:
            room = use.allocatable[resource][here]
            percent = float(_percent(use.requested[resource][here].sum(), room.sum()))
            rows[-1].append(None if percent != percent else percent_bar(percent))
    caption = f"By {grouping} (label {use.labels[grouping]})"
    return shortened(caption, [grouping, "nodes", *use.in_use], rows)


def total_grid(use: NodeUse) -> Grid | None:
    """Return requested and allocatable amounts of the whole cluster; None without any."""
    rows: list[list[Cell]] = []
    for name, room in use.allocatable.items():
        percent = use.total(name)
        amounts = (readable(name, round(float(column.sum()))) for column in (use.requested[name], room))
        rows.append([name, *amounts, None if percent != percent else percent_bar(percent)])
    return shortened("Whole cluster", ("resource", "requested", "allocatable", "use"), rows) if rows else None


def node_grid(use: NodeUse) -> Grid | None:
    """Return the nodes, those first of which the fullest resource is the fullest; None without nodes."""
    if not use.names:
        return None
    percents = [np.nan_to_num(values, nan=-1.0) for name, values in use.percent.items()]
    fullest = np.max(percents, axis=0) if percents else np.zeros(len(use.names))
    order = np.lexsort((np.arange(len(fullest)), -fullest))
    rows: list[list[Cell]] = []
    for at in order[:NODE_ROWS].tolist():
        percents_here = (use.percent[name][at] for name in use.in_use)
        bars = [None if percent != percent else percent_bar(percent) for percent in percents_here]
        rows.append([use.names[at], *(values[at] for values in use.groupings.values()), *bars])
    headings = ["node", *use.groupings, *use.in_use]
    choices = tuple(range(1, 1 + len(use.groupings)))
    return Grid(
        "Nodes, the fullest first", headings, rows, choices, len(order), "The heat map has all nodes."
    )
