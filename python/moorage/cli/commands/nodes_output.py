"""Output of ``moorage nodes``: what is free, who holds it, what it costs; ``explain node/NAME``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from moorage.answers.nodes.device_use import UNLISTED, DevicesDocument, DeviceShare, DeviceUse, HeldDevices
from moorage.answers.nodes.driver_devices import DriverRoom
from moorage.answers.nodes.node_room import FIRST, PODS, LazyRoom, NodesDocument, Room, shown_rank
from moorage.answers.nodes.pod_use import NamespacesDocument, NamespaceUse, WorkloadsDocument, WorkloadUse
from moorage.answers.text_tables import PrintedTable, table_lines
from moorage.autoscalers.hourly_cost import HourlyCost, price_text, sum_text
from moorage.cluster.amounts import readable, unit
from moorage.document import Document, shown
from moorage.errors import number_of
from moorage.notes import DecidingLine

from ..messages import terminal_width
from .printing import print_names, write_answer

_SHORT = {"memory": "mem"}
Row = LazyRoom | Room | NamespaceUse | WorkloadUse
Column = tuple[str, Callable[[Any], Any]]
"""A heading, and the cell of a row."""

if TYPE_CHECKING:
    from moorage.answers.node_emptying import EmptyingPlan
    from moorage.answers.queues.queue_use import QueueUse
    from moorage.kube.model.about_input import AboutInput
    from moorage.kube.model.event import NodeEvent

    from .printing import PageOf


def write_nodes(
    form: str, rooms: Sequence[LazyRoom], by: str, about: AboutInput, pools: Sequence[LazyRoom] = ()
) -> None:
    """Print the room on nodes, and a row for each of their pools.

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

    lines = [_nodes_headline(rooms)]
    if form in ("wide", "html"):
        tables = [_table(rooms, by, _ALL)]
    else:
        tables = [_fitting(rooms, by), *([_fitting(pools, "pool")] if pools else [])]
    page = partial(_page, f"Nodes by {by}" if by else "Nodes", lines, tables, about)
    write_answer(
        form,
        lambda: (NodesDocument(by=by or "node", items=shown(rooms)), about),
        lines,
        tables,
        lambda: _raw_table(rooms, by),
        page,
    )


def _page(title: str, lines: Sequence[str], tables: Iterable[PrintedTable], about: AboutInput) -> PageOf:
    """Return the page of an answer whose tables have the names of their first columns."""
    from moorage.answers.answer_pages import answer_page

    titled = [(table.headings[0].capitalize(), *table) for table in tables]
    return answer_page(title, lines, None, titled), [about.release], about.warnings


def node_lines(room: Room) -> list[str]:
    """Return what pods request of a node, its status, version, age, type and price, and its taints."""
    parts = [
        f"{readable(name, room.requested[name])} of {readable(name, room.allocatable[name])} {name}"
        for name in (*FIRST, *_extended(room))
    ]
    parts += [f"{of.held:.3g} of {of.devices} {driver}" for driver, of in room.devices.items()]
    *most, last = parts
    pods = number_of(room.requested[PODS], "pod requests", "pods request")
    about = [
        room.status,
        room.version and f"kubelet {room.version}",
        f"created {room.created}" if room.created else "",
    ]
    zone = f" in {room.zone}" if room.type else f"zone {room.zone}"
    about += [f"{room.type}{zone if room.zone else ''}"]
    about += [f"{_price(room, price_text)} $/h" if room.price is not UNSET else ""]
    lines = [f"{pods} {', '.join(most)} and {last}", ", ".join(filter(None, about))]
    return [*filter(None, lines), *([f"taints: {', '.join(room.taints)}"] if room.taints else [])]


def held_table(room: Room) -> PrintedTable:
    """Return the table of the workloads on a node."""
    extended = _extended(room)
    rows = [
        (
            *(holder.namespace, holder.workload, str(holder.pods), *_split_sizes(holder.requested)),
            *(str(holder.requested.get(name, "")) for name in extended),
        )
        for holder in room.holders
    ]
    return PrintedTable(("NAMESPACE", "WORKLOAD", "PODS", "CPU", "MEMORY", *map(str.upper, extended)), rows)


def events_table(events: Iterable[NodeEvent]) -> PrintedTable:
    """Return the table of the events of a node."""
    rows = [(event.reason, str(event.times), event.last, event.message) for event in events]
    return PrintedTable(("EVENT", "TIMES", "LAST", "MESSAGE"), rows)


def _extended(room: Room) -> list[str]:
    return [name for name in room.allocatable if "/" in name]


def write_node(
    form: str, room: Room, plan: EmptyingPlan, events: Sequence[NodeEvent], about: AboutInput
) -> None:
    """Print what a node is, what is on it, what a drain would meet, and what the cluster told of it.

    Parameters
    ----------
    form : {"table", "json", "yaml", "html"}
    """
    from moorage.answers.node_emptying import NodeReport

    from .planning_output import blocked_nodes

    moved = f"a drain moves {number_of(len(plan.moves), 'pod', 'pods')}"
    first, *others = node_lines(room)
    stays, helps = blocked_nodes(plan)
    stays = PrintedTable(("BLOCKED BY", "REASON"), [(pods, why) for _, why, pods in stays.cells])
    obstacle, blockers = plan.obstacle(), [blocker.text for blocker in plan.blockers]
    if stays.cells and obstacle.startswith(tuple(blockers)):
        obstacle = f"{number_of(len(blockers), 'pod', 'pods')} cannot leave"
    drain = moved if plan else f"a drain is {plan.status}: {obstacle}"
    lines = [f"node {room.name}: {first}", DecidingLine(drain), *others]
    moves = PrintedTable(("MOVES", "TARGET"), [(move.pod, move.target) for move in plan.moves])
    tables = [stays, helps, moves, held_table(room), events_table(events)]
    changes = tuple([change.text for change in plan.changes])
    document = NodeReport.from_object(plan, room=room, changes=changes, events=tuple(events))
    page = partial(_page, f"Node {room.name}", lines, tables, about)
    write_answer(form, lambda: (document, about), lines, tables, page=page)


def _nodes_headline(rooms: Sequence[LazyRoom]) -> str:
    """Return how much of the nodes is free, and what they cost."""
    if not rooms:
        return "no node has such a share"

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
    price = _total_price(rooms)
    if price.most:
        idle = sum(room.idle for room in rooms if room.idle is not UNSET)
        text += f"; {price.text()}, {idle / price.most:.0%} of it idle"
        unpriced = sum(_without_price(room, room.nodes) for room in rooms)
        text += f", without {number_of(unpriced, 'node', 'nodes')} of unknown price" if unpriced else ""
    return text + _in_use(rooms)


def _without_price(row: Row, whole: int) -> int:
    """Return how many of the nodes or pods of a row have no known price."""
    return whole if row.price is UNSET else row.unpriced or 0


def _in_use(rows: Sequence[Row]) -> str:
    """Return how much is used of what is requested; "" without metrics."""
    parts = [_used("cpu", rows, " cpu", " of requests"), _used("memory", rows, " memory")]
    return f"; {' and '.join(filter(None, parts))} in use" if any(parts) else ""


def _used(name: str, rows: Iterable[Row], what: str = "", of: str = "") -> str:
    """Return how much of a resource is in use, and the share of what is requested that it is."""
    uses = [row.use[name] for row in rows if row.use and name in row.use]
    if not uses:
        return ""
    used, requested = sum(use.used for use in uses), sum(use.requested for use in uses)
    share = f" ({used / requested:.0%}{of})" if requested else ""
    return f"{readable(name, used)}{what}{share}"


def _total_price(rows: Iterable[Row]) -> HourlyCost:
    return HourlyCost.total(HourlyCost.of(row.least, row.price) for row in rows if row.price is not UNSET)


def _price(row: Row, form: Callable[[float], str]) -> str:
    if row.price is UNSET:
        return ""
    return HourlyCost.of(row.least, row.price).text(form, "").replace("at most ", "\u2264")


def write_uses(
    form: str,
    uses: Sequence[NamespaceUse] | Sequence[WorkloadUse] | Sequence[DeviceUse] | Sequence[QueueUse],
    by: str,
    about: AboutInput,
) -> None:
    """Print what namespaces or workloads request, who holds devices, or what queues use.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "html"}
    """
    answer, line, table = _OF_USES[by](uses, form == "csv")
    page = partial(_page, f"Nodes by {by}", [line], [table], about)
    write_answer(form, lambda: (answer, about), [line], [table], page=page)


def _namespaces(uses: Sequence[NamespaceUse], is_raw: bool) -> tuple[Document, str, PrintedTable]:
    columns = ("NAMESPACE", attrgetter("name")), ("PODS", attrgetter("pods"))
    quotas = _raw_quotas(uses) if is_raw else [("QUOTA USED", _quotas)]
    table = _printed([*columns, *_amounts(uses, is_raw), *quotas], uses)
    return NamespacesDocument(items=uses), _requested(uses), table


def _workloads(uses: Sequence[WorkloadUse], is_raw: bool) -> tuple[Document, str, PrintedTable]:
    columns = [(name.upper(), attrgetter(name)) for name in ("namespace", "workload", "pods", "nodes")]
    table = _printed([*columns, *_amounts(uses, is_raw)], uses)
    return WorkloadsDocument(items=uses), _requested(uses), table


def _devices(uses: Sequence[DeviceUse], is_raw: bool) -> tuple[Document, str, PrintedTable]:
    columns: list[Column] = [("DEVICE", attrgetter("resource"))]
    columns += [(name.upper(), attrgetter(name)) for name in ("model", "node", "devices")]
    columns += [
        ("FREE", _raw_free if is_raw else _free),
        ("HELD BY", lambda use: ", ".join(map(_device_holder, use.holders))),
    ]
    counts, free, instead = Counter[str](), Counter[str](), defaultdict[str, set[str]](set)
    for use in uses:
        name = f"{use.resource} {use.model}".strip()
        counts[name] += use.devices
        instead[name].update(use.instead_of)
        if use.free is not UNSET:
            free[name] += use.free
    parts, before = list[str](), ""
    for name, count in counts.items():
        word = "or " if before in instead[name] else ""
        parts.append(f"{word}{count} {name}" + (f" ({free[name]} free)" if name in free else ""))
        before = name
    line = ", ".join(parts) or "No node has devices"
    return DevicesDocument(items=uses), line, _printed(columns, uses)


def _queues(uses: Sequence[QueueUse], is_raw: bool) -> tuple[Document, str, PrintedTable]:
    names = ("queue", "cohort", "flavor", "resource", "nominal", "used", "borrowed", "lent", "free")
    columns: list[Column] = [(name.upper(), attrgetter(name)) for name in (*names, "waiting")]
    columns.append(("SHARE", lambda use: f"{use.share:g}"))
    if any(use.inactive for use in uses):
        columns.append(("INACTIVE", attrgetter("inactive")))
    waiting = {use.queue: use.waiting for use in uses}
    held = {use.queue: use.admitted for use in uses}
    queues = number_of(len(waiting.keys() - {""}), "ClusterQueue", "ClusterQueues")
    line = f"{queues}: {number_of(sum(held.values()), 'workload holds', 'workloads hold')} quota, "
    wait = number_of(sum(waiting.values()), "waits", "wait")
    from moorage.answers.queues.queue_use import QueuesDocument  # few clusters have queues

    return QueuesDocument(items=uses), line + wait, _printed(columns, uses)


def _free(use: DeviceUse) -> str:
    if use.free is UNSET:
        return "shared" if use.model != UNLISTED else ""
    return f"up to {use.free}" if use.instead_of and use.free else str(use.free)


def _raw_free(use: DeviceUse) -> str:
    return "" if use.free is UNSET else str(use.free)


def _device_holder(holder: DeviceShare) -> str:
    return f"{holder.namespace}/{holder.workload} ({holder.devices}{_of_class(holder)})"


def _held(held: HeldDevices) -> str:
    return f"{held.devices} {_device(held)}"


def _device(held: HeldDevices) -> str:
    return f"{held.resource} {held.model}".strip() + _of_class(held)


def _of_class(held: DeviceShare | HeldDevices) -> str:
    return f" of class {held.class_name}" if held.class_name else ""


_OF_USES: dict[str, Callable[[Any, bool], tuple[Document, str, PrintedTable]]] = {
    "namespace": _namespaces,
    "workload": _workloads,
    "device": _devices,
    "queue": _queues,
}


def _amounts(uses: Sequence[NamespaceUse | WorkloadUse], is_raw: bool) -> Iterator[Column]:
    """Yield the columns of amounts; as they are, in millicores and bytes, for a CSV file."""
    amount = _amount if is_raw else _readable_amount
    yield "PRICE", lambda use: _price(use, "{:g}".format if is_raw else sum_text)
    for name in FIRST:
        requests, use, limits = name, "use", "limit"
        if is_raw:
            requests, use, limits = (f"{name} {what} {unit(name)}" for what in ("requests", "use", "limits"))
        yield requests.upper(), amount("requests", name, "0")
        yield from _use_columns(use.upper(), name, uses, is_raw)
        yield limits.upper(), amount("limits", name)
    if is_raw:
        yield from _raw_devices(uses)
    else:
        yield "DEVICES", lambda use: ", ".join(map(_held, use.devices))


def _requested(uses: Sequence[NamespaceUse | WorkloadUse]) -> str:
    totals = [readable(name, sum(use.requests.get(name, 0) for use in uses)) for name in FIRST]
    pods = number_of(sum(use.pods for use in uses), "pod requests", "pods request")
    text = f"{pods} " + " and ".join(f"{total} {name}" for name, total in zip(FIRST, totals, strict=True))
    price = _total_price(uses)
    if price.most:
        unpriced = number_of(sum(_without_price(use, use.pods) for use in uses), "pod", "pods")
        rest = "" if unpriced.startswith("0 ") else f", without {unpriced} on nodes of unknown price"
        text += f"; {price.text()}{rest}"
    return text + _in_use(uses)


def _quotas(use: NamespaceUse) -> str:
    return "; ".join(
        f"{quota.name}: "
        + ", ".join(
            f"{name} {readable(name, of.used)}/{readable(name, of.hard)}"
            for name, of in quota.resources.items()
        )
        for quota in use.quotas
    )


def _raw_quotas(uses: Iterable[NamespaceUse]) -> Iterator[Column]:
    """Yield two columns for each resource of quotas; of several quotas the one that leaves least counts."""
    names = dict.fromkeys(name for use in uses for quota in use.quotas for name in quota.resources)
    for name in sorted(names):
        for what in ("used", "hard"):
            heading = f"quota {name} {what} {unit(name)}".removesuffix(" count").upper()
            yield heading, partial(_least_left, name, what)


def _least_left(name: str, what: str, use: NamespaceUse) -> str:
    own = [quota.resources[name] for quota in use.quotas if name in quota.resources]
    least = min(own, key=lambda of: of.hard - of.used, default=None)
    return "" if least is None else str(getattr(least, what))


def _raw_devices(uses: Iterable[NamespaceUse | WorkloadUse]) -> Iterator[Column]:
    """Yield a column for each kind of device."""
    kinds = dict.fromkeys(_device(held) for use in uses for held in use.devices)
    for kind in sorted(kinds):
        yield f"{kind} devices".upper(), partial(_number_of, kind)


def _number_of(kind: str, use: NamespaceUse | WorkloadUse) -> str:
    return str(sum(held.devices for held in use.devices if _device(held) == kind) or "")


# ---- tables ------------------------------------------------------------------------------------------------


def _printed(columns: Sequence[Column], rows: Iterable[Row | DeviceUse | QueueUse]) -> PrintedTable:
    cells = [[str(cell(row)) for _, cell in columns] for row in rows]
    return PrintedTable([title for title, _ in columns], cells)


def _amount(kind: str, name: str, absent: str = "") -> Callable[[Any], str]:
    return lambda row: getattr(row, kind).get(name, absent)


def _readable_amount(kind: str, name: str, absent: str = "") -> Callable[[Any], str]:
    raw = _amount(kind, name, absent)
    return lambda row: readable(name, int(amount)) if (amount := raw(row)) != "" else ""


def _use_columns(title: str, name: str, rows: Sequence[Row], is_raw: bool = False) -> Iterator[Column]:
    """Yield the column of the use of a resource, where there are metrics."""
    if name in FIRST and any(row.use for row in rows):
        yield title, partial(_raw_use, name) if is_raw else lambda row: _used(name, [row])


def _resources(rooms: Sequence[LazyRoom]) -> list[str]:
    """Return the resources of which some row has something, in the order of rows."""
    return sorted({name for room in rooms for name in room.allocatable}, key=shown_rank)


_LEAST, _PRICED, _MORE, _ALL = range(4)
"""How much a table of nodes has: what is requested and free; prices; what else is short; all."""


def _fitting(rooms: Sequence[LazyRoom], by: str) -> PrintedTable:
    """Return the table with as much as has a line for each row."""
    width = terminal_width()
    tables = (_table(rooms, by, much) for much in (_MORE, _PRICED))
    fitting = (table for table in tables if all(len(line) <= width for line in table_lines(*table)))
    return next(fitting, None) or _table(rooms, by, _LEAST)


def _table(rooms: Sequence[LazyRoom], by: str, much: int) -> PrintedTable:
    """Return a row for each node or group."""
    is_wide = much == _ALL
    columns: list[Column] = [(by or "NODE", attrgetter("name"))]
    columns += [("NODES", attrgetter("nodes"))] if by else [("TYPE", attrgetter("type"))] * (much >= _MORE)
    if is_wide:
        fields = [name for name in ("status", "version") if any(getattr(room, name) for room in rooms)]
        columns += [("ZONE", attrgetter("zone")), *((name.upper(), attrgetter(name)) for name in fields)]
    columns += [("$/H", lambda room: _price(room, sum_text if by else price_text))] * (much >= _PRICED)
    columns += [("PODS", lambda room: f"{room.requested[PODS]}/{room.allocatable[PODS]}")]
    for name in _resources(rooms):
        if name != PODS and (is_wide or name in FIRST):
            columns += _resource_columns(name, rooms, is_wide)
        elif "/" in name:  # disks are rarely what is short; devices are
            columns.append((name.rpartition("/")[2].upper(), partial(_parts, name)))
    for driver in _drivers(rooms):
        held = _of_driver(driver, lambda of: f"{of.held:.3g}/{of.devices}")
        columns.append((driver.upper(), held))
        columns.append(("FREE", _of_driver(driver, attrgetter("free"))))
    if is_wide or (by and much == _MORE):
        columns.append(("LARGEST POD", lambda room: _sizes(room.largest) if room.largest else "none"))
    if is_wide:
        columns += [("TAINTS", lambda room: ", ".join(room.taints)), ("HELD BY", _held_by)]
    else:
        columns.append(("CORDONED", _cordoned))
    return _printed(columns, rooms)


def _parts(name: str, room: LazyRoom) -> str:
    """Return how much of a resource is requested, of how much."""
    total = room.allocatable.get(name, 0)
    return f"{readable(name, room.requested[name])}/{readable(name, total)}" if total else ""


def _resource_columns(name: str, rooms: Sequence[LazyRoom], is_wide: bool) -> Iterator[Column]:
    def of_total(text: Callable[[LazyRoom, int], str]) -> Callable[[LazyRoom], str]:
        return lambda room: text(room, room.allocatable[name]) if name in room.allocatable else ""

    def limits(room: LazyRoom, total: int) -> str:
        return _share(room.limits[name], total) if name in room.limits else ""

    def free(room: LazyRoom, total: int) -> str:
        more = f" (+{readable(name, room.restricted[name])})" if room.restricted[name] else ""
        if room.nodes == 1 and more:
            return more.strip(" ")
        return f"{readable(name, room.free[name])}{more}" if total else "-"

    share = of_total(lambda room, total: _share(room.requested[name], total))
    if is_wide:
        yield name.upper(), of_total(lambda _, total: readable(name, total))
        yield "REQ", share
    else:
        yield f"{_SHORT.get(name, name)}%".upper(), share
    yield from _use_columns("USE", name, rooms)
    yield from [("LIM", of_total(limits))] if is_wide else []
    yield "FREE", of_total(free)


def _drivers(rooms: Sequence[LazyRoom]) -> list[str]:
    return sorted({driver for room in rooms for driver in room.devices})


def _of_driver(driver: str, text: Callable[[DriverRoom], Any]) -> Callable[[LazyRoom], Any]:
    return lambda room: text(room.devices[driver]) if driver in room.devices else ""


def _cordoned(room: LazyRoom) -> str:
    cordoned = room.nodes - room.schedulable
    return str(cordoned or "") if room.nodes > 1 else "yes" * cordoned


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _split_sizes(amounts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple([readable(name, amounts.get(name, 0)) for name in FIRST])


def _sizes(amounts: Mapping[str, int]) -> str:
    cpu, memory = _split_sizes(amounts)
    return f"{cpu} cpu, {memory}"


def _held_by(room: LazyRoom) -> str:
    texts = []
    for holder in room.holders:
        extended = [f"{amount} {name}" for name, amount in sorted(holder.requested.items()) if "/" in name]
        sizes = ", ".join([_sizes(holder.requested), *extended])
        texts.append(f"{holder.namespace}/{holder.workload} ({holder.pods}: {sizes})")
    return ", ".join(texts)


def _raw_table(rooms: Sequence[LazyRoom], by: str) -> PrintedTable:
    columns: list[Column] = [(by or "node", attrgetter("name")), ("nodes", attrgetter("nodes"))]
    columns += [("cordoned", lambda room: room.nodes - room.schedulable)]
    columns += [(name, attrgetter(name)) for name in ("type", "zone", "status", "version")]
    columns += [("price", lambda room: "" if room.price is UNSET else f"{room.price:g}")]
    kinds = ("allocatable", "requested", "free", "restricted", "limits")
    columns += [(_raw(name, kind), _amount(kind, name)) for name in _resources(rooms) for kind in kinds]
    for driver in _drivers(rooms):
        columns += [
            (f"{driver}_{kind}", _of_driver(driver, attrgetter(kind))) for kind in ("devices", "held", "free")
        ]
    if any(room.use for room in rooms):
        columns += [(_raw(name, "used"), partial(_raw_use, name)) for name in FIRST]
    columns += [(f"largest_pod_{_raw(name)}", _amount("largest", name, "0")) for name in FIRST]
    return _printed([*columns, ("taints", lambda room: ", ".join(room.taints))], rooms)


def _raw(name: str, *kind: str) -> str:
    """Return the heading of plain numbers: what is counted of a resource, and in which unit."""
    return "_".join((name, *kind, *([] if unit(name) == "count" else [unit(name)])))


def _raw_use(name: str, row: Row) -> str:
    return str(row.use[name].used) if row.use and name in row.use else ""
