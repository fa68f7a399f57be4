"""The page of ``moorage simulate``: a view of its document, of the use of nodes, and of explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from moorage.errors import first_of

from .node_use import NodeUse, group_grid, heat_map, node_grid, total_grid
from .page import Cell, Fact, Facts, Grid, Lines, Page, amount, shortened
from .pending_causes import Cause, Explain, causes_block

MILD = ("gated", "other-scheduler", "terminating", "waiting", "kept", "replaced")
"""Status of pods for which nobody has to find a node."""
UNSCHEDULABLE = "unschedulable"


def simulation_page(
    document: Mapping[str, Any], use: NodeUse, explain: Explain | None, lines: Sequence[str]
) -> Page:
    """Return the page of a run.

    Parameters
    ----------
    document : mapping
        ``simulate.moorage.dev/v1``.
    use : NodeUse
        After the run.
    explain : Explain or None
        Called for one pod of each of the most frequent causes.
    lines : sequence of str
        What the command prints; the first one is the answer.
    """
    summary = document["summary"]
    workloads = document.get("workloads", [])
    without = sum(group["pods"] for one in workloads for group in one["withoutNode"])
    page = Page("Simulation", f"{lines[0]}.{use_sentence(use)}")
    more = Lines(lines[1:]) if lines[1:] else None
    page.add("Summary", _facts(summary, use), more)
    if workloads or not summary["unschedulable"]:
        block = causes_block(_causes(document), explain)
        page.add(f"Pods without a node ({amount(without)})", block or Lines(["Every pod has a node."]))
    else:
        page.add("Pods without a node", _reasons(summary))
    add_nodes(page, use)
    if workloads:
        page.add("Workloads", _workload_grid(workloads))
    return page


def add_nodes(page: Page, use: NodeUse, when: str = "") -> None:
    """Add the sections of utilization and of the heat map of nodes.

    Parameters
    ----------
    when : str, optional
        Is added to the titles.
    """
    page.add(f"Utilization{when}", total_grid(use), group_grid(use, "zone"), group_grid(use, "pool"))
    page.add(f"Nodes{when}", heat_map(use), node_grid(use))


def use_sentence(use: NodeUse, verb: str = "is") -> str:
    """Return how much of cpu and memory is requested, as a sentence to follow another; "" without nodes."""
    parts = [f"{use.total(name):.3g} % of the {name}" for name in ("cpu", "memory") if name in use.requested]
    nodes = len(use.names)
    where = f" on {amount(nodes)} {'node' if nodes == 1 else 'nodes'}" if nodes else ""
    return f" {' and '.join(parts)} {verb} requested{where}." if parts and nodes else ""


def _facts(summary: Mapping[str, Any], use: NodeUse) -> Facts:
    failed = summary["unschedulable"]
    facts = [
        Fact("nodes", amount(summary["nodes"])),
        Fact("pods placed", amount(summary["placed"])),
        Fact("pods that fit no node", amount(failed), "warn" if failed else "good"),
        Fact("running before", amount(summary["running"])),
    ]
    if summary["evicted"]:
        facts.append(Fact("evicted", amount(summary["evicted"]), "warn"))
    facts += [Fact(f"skipped: {why}", amount(count)) for why, count in summary["skipped"].items()]
    return Facts([*facts, *use_facts(use)])


def use_facts(use: NodeUse) -> list[Fact]:
    """Return the requested part of cpu and memory."""
    names = [name for name in ("cpu", "memory") if name in use.requested and use.total(name) >= 0]
    return [Fact(f"{name} requested", f"{use.total(name):.1f} %") for name in names]


def _reasons(summary: Mapping[str, Any]) -> Grid:
    rows = [[reason, count] for reason, count in summary["reasons"].items()]
    return shortened("Reasons of the scheduler", ("reason", "pods"), rows)


def _causes(document: Mapping[str, Any]) -> list[Cause]:
    """Group the pods without a node by status and reasons of nodes."""
    first = {
        (row.namespace, row.workload, row.reason): f"{row.namespace}/{row.pod}"
        for row in reversed(document["pods"])
        if row.status == UNSCHEDULABLE
    }
    causes: dict[tuple[str, ...], Cause] = {}
    for workload in document["workloads"]:
        for group in workload["withoutNode"]:
            titles = reasons_of(group["rejections"]) or [_title(group)]
            key = (group["status"], *sorted(titles))
            cause = causes.setdefault(key, Cause(", ".join(titles), is_mild=group["status"] in MILD))
            if not cause.pods:
                cause.message = group["reason"]
                cause.pod = first.get((workload["namespace"], workload["workload"], group["reason"]), "")
            cause.pods += group["pods"]
            cause.by_workload[f"{workload['namespace']}/{workload['workload']}"] += group["pods"]
    return list(causes.values())


def reasons_of(rejections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the reasons of nodes, those of the most nodes first."""
    counts: Counter[str] = Counter()
    for one in rejections:
        for reason in one["reasons"]:
            counts[reason] += one["nodes"]
    return sorted(counts, key=lambda reason: (-counts[reason], reason))


def _title(group: Mapping[str, Any]) -> str:
    status = group["status"]
    return group["reason"] or status if status == UNSCHEDULABLE else f"{status}: {group['reason']}"


def _workload_grid(workloads: Sequence[Mapping[str, Any]]) -> Grid:
    rows: list[list[Cell]] = []
    for one in sorted(workloads, key=lambda one: -_missing(one)):
        on_nodes = one["alreadyBound"] + one["placed"]
        placed = [f"{name} ({count:,})" if count > 1 else name for name, count in one["nodes"].items()]
        status = "without a node" if _missing(one) else "placed"
        numbers = one["pods"], on_nodes, _missing(one)
        rows.append([one["namespace"], one["workload"], status, *numbers, first_of(placed, 3)])
    headings = ("namespace", "workload", "status", "pods", "with node", "without", "placed on")
    caption = "Workloads, those with the most pods without a node first"
    return shortened(caption, headings, rows, (0, 2), "-o csv has every pod.")


def _missing(workload: Mapping[str, Any]) -> int:
    return sum(group["pods"] for group in workload["withoutNode"])
