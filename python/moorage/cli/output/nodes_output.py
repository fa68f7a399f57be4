"""Output of ``moorage nodes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO
from moorage.answers.node_room import FIRST, PODS, NamespaceUse, Room
from moorage.engine.framework.evidence import readable
from moorage.errors import number_of

from .printing import Table, print_names, write_answer

API_VERSION = "nodes.moorage.dev/v1"


def write_nodes(form: str, rooms: Sequence[Room], by: str, told: Mapping[str, Any]) -> None:
    """Print the room on nodes.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "name"}
        ``wide`` and ``csv`` have all resources, taints and holders; csv in base units.
    by : str
        The label that the rows are for; "" for nodes.
    told : mapping
        Fields about the input, for documents.
    """
    if form == "name":
        print_names(f"node/{room.name}" for room in rooms)
        return

    def document() -> dict[str, Any]:
        head = {"apiVersion": API_VERSION, "kind": "Nodes", "by": by or "node"}
        return head | {"items": [room.to_dict() for room in rooms]} | dict(told)

    tables = [_table(rooms, by, form == "wide")]
    write_answer(form, document, [_headline(rooms)], tables, lambda: _raw_table(rooms, by))


def _headline(rooms: Sequence[Room]) -> str:
    """Return how much of the nodes is free."""
    nodes = sum(room.nodes for room in rooms)
    parts = [
        f"{readable(name, free)} of {readable(name, total)} {name}"
        for name in FIRST
        for free, total in [
            (
                sum(room.free.get(name, 0) for room in rooms),
                sum(room.allocatable.get(name, 0) for room in rooms),
            )
        ]
    ]
    return f"{number_of(nodes, 'node has', 'nodes have')} {' and '.join(parts)} free"


def write_namespaces(form: str, uses: Sequence[NamespaceUse], told: Mapping[str, Any]) -> None:
    """Print what namespaces request.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown"}
    told : mapping
        Fields about the input, for documents.
    """

    def document() -> dict[str, Any]:
        head = {"apiVersion": API_VERSION, "kind": "Namespaces"}
        return head | {"items": [use.to_dict() for use in uses]} | dict(told)

    columns = [(name, kind) for name in FIRST for kind in ("requests", "limits")]
    rows = [
        [
            use.name,
            str(use.pods),
            *(getattr(use, kind).get(name, "0") for name, kind in columns),
            _quotas(use),
        ]
        for use in uses
    ]
    titles = ["NAMESPACE", "PODS", *(f"{name} {kind}".upper() for name, kind in columns), "QUOTA USED"]
    totals = [sum((Quantity(use.requests.get(name, "0")) for use in uses), ZERO) for name in FIRST]
    pods = number_of(sum(use.pods for use in uses), "pod requests", "pods request")
    amounts = [f"{total} {name}" for name, total in zip(FIRST, totals, strict=True)]
    write_answer(form, document, [f"{pods} {' and '.join(amounts)}"], [Table(titles, rows)])


def _quotas(use: NamespaceUse) -> str:
    return "; ".join(
        f"{quota}: " + ", ".join(f"{name} {used}/{hard}" for name, (used, hard) in its.items())
        for quota, its in use.quotas.items()
    )


def _table(rooms: Sequence[Room], by: str, is_wide: bool) -> Table:
    names = list(rooms[0].allocatable) if rooms else []
    # Disks are rarely what is short; devices are.
    shown = [name for name in names if name != PODS and (is_wide or name in FIRST or "/" in name)]
    rows = []
    for room in rooms:
        row = [
            room.name,
            *([str(room.nodes)] if by else []),
            f"{room.requested[PODS]}/{room.allocatable[PODS]}",
        ]
        for name in shown:
            total = room.allocatable[name]
            use = f"{100 * room.requested[name] / total:.0f}%" if total else "-"
            row += [readable(name, total), use, readable(name, room.free[name])]
        rows.append([*row, _largest(room), *_more(room, is_wide)])
    titles = (title for name in shown for title in (name.upper(), "USE", f"{name.upper()} FREE"))
    first = [by or "NODE", *(["NODES"] if by else []), "PODS", *titles, "LARGEST POD"]
    return Table([*first, *(["TAINTS", "HELD BY"] if is_wide else ["CORDONED"])], rows)


def _largest(room: Room) -> str:
    return _sizes(room.largest) if room.largest else "none"


def _sizes(amounts: Mapping[str, int]) -> str:
    cpu, memory = (readable(name, amounts.get(name, 0)) for name in FIRST)
    return f"{cpu} cpu, {memory}"


def _more(room: Room, is_wide: bool) -> list[str]:
    cordoned = room.nodes - room.schedulable
    if not is_wide:
        return [str(cordoned) if room.nodes > 1 else "yes" * cordoned]
    return [", ".join(room.taints), _held_by(room)]


def _held_by(room: Room) -> str:
    return ", ".join(
        f"{one.namespace}/{one.workload} ({one.pods}: {_sizes(one.requested)})" for one in room.holders
    )


def _raw_table(rooms: Sequence[Room], by: str) -> Table:
    names = list(rooms[0].allocatable) if rooms else []
    rows = []
    for room in rooms:
        row = [room.name, str(room.nodes), str(room.nodes - room.schedulable)]
        for name in names:
            row += [str(values[name]) for values in (room.allocatable, room.requested, room.free)]
        row += [str(room.largest.get(name, 0)) for name in FIRST]
        rows.append([*row, ", ".join(room.taints), _held_by(room)])
    kinds = ("allocatable", "requested", "free")
    columns = [f"{name}_{kind}" for name in names for kind in kinds]
    largest = [f"largest_pod_{name}" for name in FIRST]
    return Table([by or "node", "nodes", "cordoned", *columns, *largest, "taints", "held_by"], rows)
