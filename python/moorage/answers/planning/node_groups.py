"""Groups of nodes: by a label, of which zone, region and pool have short names."""

from __future__ import annotations

from collections.abc import Callable

from moorage.autoscalers.group_settings import PROVIDER_LABELS
from moorage.cluster import PodScheduler
from moorage.errors import InputError, no_label
from moorage.kube.model.node import ZONE

POOL_LABELS = (
    "karpenter.sh/nodepool",
    *PROVIDER_LABELS,
    "node.kubernetes.io/instance-type",
)
"""Labels of pools of nodes, and last the type of machines; the first that some node has is taken."""
NAMES = {
    "zone": (ZONE,),
    "region": ("topology.kubernetes.io/region",),
    "pool": POOL_LABELS,
}


def grouped_rows(scheduler: PodScheduler, by: str) -> tuple[str, dict[str, list[int]]]:
    """Return the rows of the nodes with each value of a label.

    Parameters
    ----------
    by : str
        The key of a label; "zone", "region" or "pool", if no node has a label of that name.

    Returns
    -------
    label : str
        Its key.
    rows : dict of str to list of int
        By value, in list order; None of the nodes without the label.

    Raises
    ------
    InputError
        No node has the label.
    """
    objects, rows = scheduler.table.objects, scheduler.context.view_rows().tolist()
    labels = [{} if (node := objects[row]) is None else node.metadata.labels for row in rows]
    for label in (by, *NAMES.get(by, ())):
        groups: dict[str, list[int]] = {}
        for row, its in zip(rows, labels, strict=True):
            if label in its:
                groups.setdefault(its[label], []).append(row)
        if groups:
            return label, groups
    raise InputError(no_label(NAMES.get(by, (by,)), {label for its in labels for label in its}))


def common_value(scheduler: PodScheduler, by: str) -> Callable[[list[int]], str]:
    """Return a function of rows to the value of a label that all their nodes have; "" where they differ, or
    have none. See `grouped_rows`."""
    try:
        groups = grouped_rows(scheduler, by)[1]
    except InputError:  # no node has it
        groups = {}
    values = {row: value for value, rows in groups.items() for row in rows}

    def common(rows: list[int]) -> str:
        found = {values.get(row, "") for row in rows}
        return found.pop() if len(found) == 1 else ""

    return common
