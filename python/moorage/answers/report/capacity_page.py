"""The page of ``moorage capacity``: a view of its document, and of the use of nodes before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .node_use import NodeUse, group_grid, heat_map, total_grid
from .page import Bar, Cell, Fact, Facts, Grid, Lines, Page, amount, shortened


def capacity_page(document: Mapping[str, Any], use: NodeUse, lines: Sequence[str]) -> Page:
    """Return the page of a capacity.

    Parameters
    ----------
    document : mapping
        ``capacity.moorage.dev/v1``.
    use : NodeUse
        Without the replicas that were counted.
    lines : sequence of str
        What the command prints: the answer, then what stops the next one.
    """
    replicas: Counter[str] = Counter()
    for each in document["templates"]:
        replicas.update(each["nodes"])
    names = ", ".join(each["name"] for each in document["templates"])
    page = Page(f"Capacity for {names}", lines[0])
    facts = [Fact(f"replicas of {each['name']}", amount(each["count"])) for each in document["templates"]]
    gang = document.get("gang")
    rounds = f"gangs of {amount(gang['size'])}" if gang else "rounds"
    facts += [Fact("nodes with replicas", amount(len(replicas))), Fact(rounds, amount(document["rounds"]))]
    skipped = [
        f"{each['name']} is not scheduled now: {each['skipped']}"
        for each in document["templates"]
        if "skipped" in each
    ]
    page.add("Summary", Facts(facts), Lines(skipped, True) if skipped else None)
    page.add("What stops the next one", Lines(lines[1:]), _binding(document))
    page.add("Where replicas fit", _map(use, replicas), _nodes(document))
    page.add("Utilization without them", total_grid(use), group_grid(use, "zone"), group_grid(use, "pool"))
    return page


def _binding(document: Mapping[str, Any]) -> Grid:
    rows: list[list[Cell]] = []
    for each in document["binding"]:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in each["reasons"].items())
        rows.append([each["value"] or "(none)", each["nodes"], each["resource"], reasons])
    caption = f"Reasons against the next replica, by {document['label']}"
    return shortened(caption, (document["label"], "nodes", "resource that binds", "reasons"), rows)


def _map(use: NodeUse, replicas: Mapping[str, int]) -> Any:
    """Return the heat map of nodes, first by replicas, in per cent of those of the node with the most."""
    most = max(replicas.values(), default=0)
    if not most:
        return heat_map(use)
    part = np.array([100.0 * replicas.get(name, 0) / most for name in use.names])
    return heat_map(use, {f"replicas, in % of the most ({most:,})": part})


def _nodes(document: Mapping[str, Any]) -> Grid:
    rows: list[list[Cell]] = []
    for each in document["templates"]:
        most = max(each["nodes"].values(), default=1)
        for node, count in sorted(each["nodes"].items(), key=lambda item: -item[1]):
            rows.append([each["name"], node, Bar(100 * count / most, amount(count))])
    headings = ("template", "node", "replicas")
    return shortened("Replicas by node, the most first", headings, rows, (0,), "-o csv has every node.")
