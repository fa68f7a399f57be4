"""Output of ``moorage nodes``: what is free, who holds it, what it costs; ``explain node/NAME``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO
from moorage.answers.nodes.device_use import UNLISTED, DevicesDocument, DeviceShare, DeviceUse, HeldDevices
from moorage.answers.nodes.measured_use import MeasuredUse
from moorage.answers.nodes.node_room import FIRST, PODS, NodesDocument, Room
from moorage.answers.nodes.pod_use import NamespacesDocument, NamespaceUse, WorkloadsDocument, WorkloadUse
from moorage.answers.text_tables import PrintedTable
from moorage.document import Document
from moorage.engine.framework.evidence import readable
from moorage.errors import number_of

from .printing import print_names, write_answer

if TYPE_CHECKING:
    from moorage.answers.node_emptying import EmptyingPlan
    from moorage.kube.model.cluster import AboutInput

    from .printing import PageOf


def write_nodes(form: str, rooms: Sequence[Room], by: str, about: AboutInput) -> None:
    """Print the room on nodes.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "html", "name"}
        ``wide``, ``html`` and ``csv`` have all resources, taints and holders; csv in base units.
    by : str
        The label that the rows are for; "" for nodes.
    """
    if form == "name":
        print_names(f"node/{room.name}" for room in rooms)
        return

    answer = NodesDocument(by=by or "node", items=rooms)
    table, lines = _table(rooms, by, form in ("wide", "html")), [_nodes_headline(rooms)]
    page = partial(_page, f"Nodes by {by}" if by else "Nodes", lines, [table], about)
    write_answer(form, lambda: (answer, about), lines, [table], lambda: _raw_table(rooms, by), page)


def _page(title: str, lines: Sequence[str], tables: Iterable[PrintedTable], about: AboutInput) -> PageOf:
    """Return the page of an answer whose tables have the names of their first columns."""
    from moorage.answers.answer_pages import answer_page

    titled = [(table.headings[0].capitalize(), *table) for table in tables]
    return answer_page(title, lines, None, titled), [about.release], about.warnings


def write_node(form: str, room: Room, plan: EmptyingPlan, about: AboutInput) -> None:
    """Print what is on a node, and what a drain would meet.

    Parameters
    ----------
    form : {"table", "json", "yaml", "html"}
    """
    from moorage.answers.node_emptying import NodeReport

    from .planning_output import blocked_nodes

    parts = [
        f"{readable(name, room.requested[name])} of {readable(name, room.allocatable[name])} {name}"
        for name in FIRST
    ]
    pods = number_of(room.requested[PODS], "pod requests", "pods request")
    moved = f"a drain moves {number_of(len(plan.moves), 'pod', 'pods')}"
    lines = [f"node {room.name}: {pods} {' and '.join(parts)}"]
    lines.append(moved if plan else f"a drain is {plan.status}: {plan.obstacle()}")
    lines += ["cordoned"] if not room.schedulable else []
    lines += [f"taints: {', '.join(room.taints)}"] if room.taints else []
    holders = [
        (holder.namespace, holder.workload, str(holder.pods), *_split_sizes(holder.requested))
        for holder in room.holders
    ]
    held = PrintedTable(("NAMESPACE", "WORKLOAD", "PODS", "CPU", "MEMORY"), holders)
    moves = PrintedTable(("MOVES", "TARGET"), [(move.pod, move.target) for move in plan.moves])
    tables = [*blocked_nodes(plan), moves, held]

    document = NodeReport.from_object(plan, room=room)
    page = partial(_page, f"Node {room.name}", lines, tables, about)
    write_answer(form, lambda: (document, about), lines, tables, page=page)


def _nodes_headline(rooms: Sequence[Room]) -> str:
    """Return how much of the nodes is free, and what they cost."""

    def total(kind: str, name: str) -> int:
        return sum(getattr(room, kind).get(name, 0) for room in rooms)

    nodes = sum(room.nodes for room in rooms)
    parts = [
        f"{readable(name, total('free', name))} of {readable(name, total('allocatable', name))} {name}"
        for name in FIRST
    ]
    text = f"{number_of(nodes, 'node has', 'nodes have')} {' and '.join(parts)} free"
    if any(total("restricted", name) for name in FIRST):
        cpu, memory = (readable(name, total("restricted", name)) for name in FIRST)
        text += f", and {cpu} cpu and {memory} on cordoned or tainted ones"
    price = sum(room.price for room in rooms if room.price is not UNSET)
    if price:
        idle = sum(room.idle for room in rooms if room.idle is not UNSET)
        text += f"; ${price:.2f} an hour, {idle / price:.0%} of it idle"
        unpriced = sum(room.nodes for room in rooms if room.price is UNSET)
        text += f", without {number_of(unpriced, 'node', 'nodes')} of unknown price" if unpriced else ""
    return text + _in_use(rooms)


def _in_use(rows: Sequence[Room | NamespaceUse | WorkloadUse]) -> str:
    """Return how much is used of what is requested; "" without metrics."""
    measured, parts = [row.use for row in rows if row.use is not UNSET], list[str]()
    for name in FIRST if measured else ():
        used, requested = (sum(getattr(use[name], kind) for use in measured if name in use) for kind in _USE)
        share = f" ({used / requested:.0%}{'' if parts else ' of requests'})" if requested else ""
        parts.append(f"{readable(name, used)} {name}{share}")
    return f"; {' and '.join(parts)} in use" if parts else ""


_USE = "used", "requested"


def _used(name: str, use: MeasuredUse | None) -> str:
    """Return an amount in use, and the share of what is requested that it is."""
    if use is None:
        return ""
    share = f" ({use.used / use.requested:.0%})" if use.requested else ""
    return f"{readable(name, use.used)}{share}"


def _uses(name: str, row: Room | NamespaceUse | WorkloadUse, is_measured: bool) -> list[str]:
    """Return the cell of the use of a resource, if the table has such cells."""
    return [_used(name, None if row.use is UNSET else row.use.get(name))] if is_measured else []


def _is_measured(rows: Sequence[Room | NamespaceUse | WorkloadUse]) -> bool:
    return any(row.use is not UNSET for row in rows)


def write_uses(
    form: str,
    uses: Sequence[NamespaceUse] | Sequence[WorkloadUse] | Sequence[DeviceUse],
    by: str,
    about: AboutInput,
) -> None:
    """Print what namespaces or workloads request, or who holds devices.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "html"}
    """
    answer, line, table = _OF_USES[by](uses)
    page = partial(_page, f"Nodes by {by}", [line], [table], about)
    write_answer(form, lambda: (answer, about), [line], [table], lambda: table, page)


def _namespaces(uses: Sequence[NamespaceUse]) -> tuple[Document, str, PrintedTable]:
    is_measured = _is_measured(uses)
    rows = [[use.name, str(use.pods), *_amounts(use, is_measured), _quotas(use)] for use in uses]
    titles = ["NAMESPACE", "PODS", *_amount_titles(is_measured), "QUOTA USED"]
    return NamespacesDocument(items=uses), _requested(uses), PrintedTable(titles, rows)


def _workloads(uses: Sequence[WorkloadUse]) -> tuple[Document, str, PrintedTable]:
    is_measured = _is_measured(uses)
    rows = [
        [use.namespace, use.workload, str(use.pods), str(use.nodes), *_amounts(use, is_measured)]
        for use in uses
    ]
    titles = ["NAMESPACE", "WORKLOAD", "PODS", "NODES", *_amount_titles(is_measured)]
    return WorkloadsDocument(items=uses), _requested(uses), PrintedTable(titles, rows)


def _devices(uses: Sequence[DeviceUse]) -> tuple[Document, str, PrintedTable]:
    rows = [
        [
            use.resource,
            use.model,
            use.node,
            str(use.devices),
            str(use.free) if use.free is not UNSET else "shared" if use.model != UNLISTED else "",
            ", ".join(map(_device_holder, use.holders)),
        ]
        for use in uses
    ]
    counts, free = Counter[str](), Counter[str]()
    for use in uses:
        name = f"{use.resource} {use.model}".strip()
        counts[name] += use.devices
        if use.free is not UNSET:
            free[name] += use.free
    parts = [
        f"{count} {name}" + (f" ({free[name]} free)" if name in free else "")
        for name, count in counts.items()
    ]
    line = ", ".join(parts) or "No node has devices"
    titles = ("DEVICE", "MODEL", "NODE", "DEVICES", "FREE", "HELD BY")
    return DevicesDocument(items=uses), line, PrintedTable(titles, rows)


def _device_holder(holder: DeviceShare) -> str:
    of_class = f" of class {holder.class_name}" if holder.class_name else ""
    return f"{holder.namespace}/{holder.workload} ({holder.devices}{of_class})"


_OF_USES: dict[str, Callable[[Any], tuple[Document, str, PrintedTable]]] = {
    "namespace": _namespaces,
    "workload": _workloads,
    "device": _devices,
}


def _amount_titles(is_measured: bool) -> list[str]:
    kinds = ("requests", *(["use"] if is_measured else []), "limits")
    return ["PRICE", *(f"{name} {kind}".upper() for name in FIRST for kind in kinds), "DEVICES"]


def _amounts(use: NamespaceUse | WorkloadUse, is_measured: bool) -> list[str]:
    amounts = ["" if use.price is UNSET else f"{use.price:.3f}"]
    for name in FIRST:
        amounts += [use.requests.get(name, "0"), *_uses(name, use, is_measured), use.limits.get(name, "")]
    return [*amounts, ", ".join(map(_held, use.devices))]


def _held(held: HeldDevices) -> str:
    of_class = f" of class {held.class_name}" if held.class_name else ""
    return f"{held.devices} {held.resource} {held.model}".strip() + of_class


def _requested(uses: Sequence[NamespaceUse | WorkloadUse]) -> str:
    totals = [sum((Quantity(use.requests.get(name, "0")) for use in uses), ZERO) for name in FIRST]
    pods = number_of(sum(use.pods for use in uses), "pod requests", "pods request")
    text = f"{pods} " + " and ".join(f"{total} {name}" for name, total in zip(FIRST, totals, strict=True))
    price = sum(use.price for use in uses if use.price is not UNSET)
    return text + (f"; ${price:.2f} an hour" if price else "") + _in_use(uses)


def _quotas(use: NamespaceUse) -> str:
    return "; ".join(
        f"{quota.name}: " + ", ".join(f"{name} {of.used}/{of.hard}" for name, of in quota.resources.items())
        for quota in use.quotas
    )


def _resources(rooms: Sequence[Room]) -> list[str]:
    """Return the resources of which some row has something, in the order of rows."""
    return sorted({name for room in rooms for name in room.allocatable}, key=lambda name: (_rank(name), name))


def _rank(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def _table(rooms: Sequence[Room], by: str, is_wide: bool) -> PrintedTable:
    names = _resources(rooms)
    # Disks are rarely what is short; devices are.
    shown = [name for name in names if name != PODS and (is_wide or name in FIRST or "/" in name)]
    rows, is_measured = [], _is_measured(rooms)
    for room in rooms:
        row = [room.name, *([str(room.nodes)] if by else [room.type])]
        row += [room.zone] if is_wide else []
        row += ["" if room.price is UNSET else f"{room.price:.3f}"]
        row += [f"{room.requested[PODS]}/{room.allocatable[PODS]}"]
        for name in shown:
            total = room.allocatable.get(name)
            if total is None:
                row += [""] * (3 + is_wide)
                continue
            row += [readable(name, total), _share(room.requested[name], total)]
            row += _uses(name, room, is_measured and name in FIRST)
            row += [_share(room.limits[name], total) if name in room.limits else ""] if is_wide else []
            more = f" (+{readable(name, room.restricted[name])})" if room.restricted[name] else ""
            row += [f"{readable(name, room.free[name])}{more}" if total else "-"]
        row += [_sizes(room.largest) if room.largest else "none"] if by or is_wide else []
        rows.append([*row, *_more_nodes(room, is_wide)])
    titles = []
    for name in shown:
        titles += [name.upper(), "REQ", *(["USE"] if is_measured and name in FIRST else [])]
        titles += [*(["LIM"] if is_wide else []), "FREE"]
    first = [by or "NODE", "NODES" if by else "TYPE", *(["ZONE"] if is_wide else []), "$/H", "PODS", *titles]
    last = ["TAINTS", "HELD BY"] if is_wide else ["CORDONED"]
    return PrintedTable([*first, *(["LARGEST POD"] if by or is_wide else []), *last], rows)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _split_sizes(amounts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple([readable(name, amounts.get(name, 0)) for name in FIRST])


def _sizes(amounts: Mapping[str, int]) -> str:
    cpu, memory = _split_sizes(amounts)
    return f"{cpu} cpu, {memory}"


def _all_sizes(amounts: Mapping[str, int]) -> Iterator[str]:
    """Yield amounts with those of extended resources."""
    yield _sizes(amounts)
    yield from (f"{amount} {name}" for name, amount in sorted(amounts.items()) if "/" in name)


def _more_nodes(room: Room, is_wide: bool) -> list[str]:
    cordoned = room.nodes - room.schedulable
    if not is_wide:
        return [str(cordoned or "") if room.nodes > 1 else "yes" * cordoned]
    return [", ".join(room.taints), _held_by(room)]


def _held_by(room: Room) -> str:
    return ", ".join(
        f"{holder.namespace}/{holder.workload} ({holder.pods}: {', '.join(_all_sizes(holder.requested))})"
        for holder in room.holders
    )


def _raw_table(rooms: Sequence[Room], by: str) -> PrintedTable:
    names, rows = _resources(rooms), []
    kinds = ("allocatable", "requested", "free", "restricted", "limits")
    measured = FIRST if _is_measured(rooms) else ()
    for room in rooms:
        price = "" if room.price is UNSET else f"{room.price:g}"
        row = [room.name, str(room.nodes), str(room.nodes - room.schedulable), room.type, room.zone, price]
        row += [str(getattr(room, kind).get(name, "")) for name in names for kind in kinds]
        row += [str(room.use[name].used) if room.use and name in room.use else "" for name in measured]
        row += [str(room.largest.get(name, 0)) for name in FIRST]
        rows.append([*row, ", ".join(room.taints), _held_by(room)])
    columns = [f"{name}_{kind}" for name in names for kind in kinds]
    columns += [f"{name}_used" for name in measured]
    largest = [f"largest_pod_{name}" for name in FIRST]
    first = [by or "node", "nodes", "cordoned", "type", "zone", "price"]
    return PrintedTable([*first, *columns, *largest, "taints", "held_by"], rows)
