"""Output of ``moorage nodes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.framework.plugin.amounts import readable
from moorage.planning.namespace_use import NamespaceUse
from moorage.planning.node_room import FIRST, PODS, Room

from .printing import Table, ignore_broken_pipe, write_tables, write_value
from .run_output import amount

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
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            head = {"apiVersion": API_VERSION, "kind": "Nodes", "by": by or "node"}
            write_value(form, head | {"items": [room.to_dict() for room in rooms]} | dict(told))
        elif form == "name":
            print(*(f"node/{room.name}\n" for room in rooms), sep="", end="")
        elif form == "csv":
            write_tables(form, [_raw_table(rooms, by)])
        else:
            write_tables("markdown" if form == "markdown" else "table", [_table(rooms, by, form == "wide")])


def write_namespaces(form: str, uses: Sequence[NamespaceUse], told: Mapping[str, Any]) -> None:
    """Print what namespaces request.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown"}
    told : mapping
        Fields about the input, for documents.
    """
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            head = {"apiVersion": API_VERSION, "kind": "Namespaces"}
            write_value(form, head | {"items": [use.to_dict() for use in uses]} | dict(told))
            return
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
        write_tables(form if form in ("csv", "markdown") else "table", [Table(titles, rows)])


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
            row += [amount(name, total), use, amount(name, room.free[name])]
        rows.append([*row, _largest(room), *_more(room, is_wide)])
    titles = (title for name in shown for title in (name.upper(), "USE", f"{name.upper()} FREE"))
    first = [by or "NODE", *(["NODES"] if by else []), "PODS", *titles, "LARGEST POD"]
    return Table([*first, *(["TAINTS", "HELD BY"] if is_wide else ["CORDONED"])], rows)


def _largest(room: Room) -> str:
    if not room.largest:
        return "none"
    return (
        f"{amount('cpu', room.largest.get('cpu', 0))} cpu, {amount('memory', room.largest.get('memory', 0))}"
    )


def _more(room: Room, is_wide: bool) -> list[str]:
    cordoned = room.nodes - room.schedulable
    if not is_wide:
        return [str(cordoned) if room.nodes > 1 else "yes" * cordoned]
    return [", ".join(room.taints), _held_by(room)]


def _held_by(room: Room) -> str:
    return ", ".join(
        f"{one.namespace}/{one.workload} ({one.pods}: {readable('cpu', one.requested.get('cpu', 0))} cpu, "
        f"{readable('memory', one.requested.get('memory', 0))})"
        for one in room.holders
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
