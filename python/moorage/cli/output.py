"""What the commands print on stdout: tables or JSON. The same input gives the same bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from moorage.objects import Cluster
    from moorage.scheduler import Result
    from moorage.sim.summary import Summary, Use

RICH_ROWS = 1000
"""Longer tables are plain even on a terminal: rich lays out every cell."""


@dataclass(frozen=True, slots=True)
class PodRow:
    """What became of one pod; `node` is empty unless it was placed."""

    namespace: str
    pod: str
    node: str
    status: str
    reason: str


def pod_rows(cluster: Cluster, result: Result, namespace: str | None) -> list[PodRow]:
    """One row per pod that was not on a node before, in reading order; of one namespace, or of all."""
    return [
        _pod_row(pod.namespace, pod.name, pod.key, result)
        for pod in cluster.pods
        if not pod.spec.node_name and namespace in (None, pod.namespace)
    ]


def _pod_row(namespace: str, name: str, key: str, result: Result) -> PodRow:
    if node := result.placements.get(key):
        return PodRow(namespace, name, node, "placed", "")
    if failure := result.unschedulable.get(key):
        return PodRow(namespace, name, "", "unschedulable", failure.message)
    return PodRow(namespace, name, "", "skipped", result.skipped.get(key, ""))


def write(form: str, rows: list[PodRow] | None, summary: Summary) -> None:
    """Print the rows, if any are wanted, and the summary; a reader that went away is no error."""
    try:
        if form == "json":
            print(msgspec.json.format(msgspec.json.encode(_document(rows, summary)), indent=2).decode())
        else:
            for headings, cells in _tables(rows, summary):
                _table(headings, cells)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _document(rows: list[PodRow] | None, summary: Summary) -> dict[str, Any]:
    return ({} if rows is None else {"pods": rows}) | {
        "summary": {
            "nodes": summary.nodes,
            "running": summary.running,
            "placed": summary.placed,
            "unschedulable": summary.unschedulable,
            "reasons": summary.reasons,
            "skipped": summary.skipped,
            "use": [_use(use) for use in summary.use],
            "zones": [
                {"name": zone.name, "nodes": zone.nodes, "use": [_use(use) for use in zone.use]}
                for zone in summary.zones
            ],
        }
    }


def _use(use: Use) -> dict[str, Any]:
    amounts = {"requested": use.requested, "allocatable": use.allocatable, "percent": round(use.percent, 2)}
    return {"resource": use.resource, "unit": unit(use.resource)} | amounts


Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def _tables(rows: list[PodRow] | None, summary: Summary) -> Iterable[Table]:
    if rows is not None:
        cells = [(row.namespace, row.pod, row.node or row.status, row.reason) for row in rows]
        yield ("NAMESPACE", "POD", "NODE OR STATUS", "REASON"), cells
    pods = {
        "running before": summary.running,
        "placed": summary.placed,
        "unschedulable": summary.unschedulable,
    }
    pods |= {f"  {reason}": count for reason, count in summary.reasons.items()}
    pods |= {f"skipped: {why}": count for why, count in summary.skipped.items()}
    yield ("PODS", "COUNT"), [(name, str(count)) for name, count in pods.items()]
    yield (
        ("RESOURCE", "REQUESTED", "ALLOCATABLE", "USE"),
        [
            (
                use.resource,
                amount(use.resource, use.requested),
                amount(use.resource, use.allocatable),
                f"{use.percent:.1f}%",
            )
            for use in summary.use
        ],
    )
    resources = [use.resource for use in summary.use]
    zones: list[Sequence[str]] = []
    for zone in summary.zones:
        percents = {use.resource: f"{use.percent:.1f}%" for use in zone.use}
        zones.append((zone.name, str(zone.nodes), *(percents.get(name, "") for name in resources)))
    yield ("ZONE", "NODES", *(name.upper() for name in resources)), zones


def unit(resource: str) -> str:
    """What a resource is counted in."""
    if resource == "cpu":
        return "millicores"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return "bytes"
    return "count"


def amount(resource: str, value: int) -> str:
    """Cores for cpu, GiB for bytes, the plain number otherwise."""
    match unit(resource):
        case "millicores":
            return f"{value / 1000:.1f}"
        case "bytes":
            return f"{value / 2**30:.1f}Gi"
    return str(value)


def _table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    if sys.stdout.isatty() and len(cells) <= RICH_ROWS:
        _rich_table(headings, cells)
        return
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in (headings, *cells):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print()


def _rich_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    table = RichTable(*headings)
    for row in cells:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)
