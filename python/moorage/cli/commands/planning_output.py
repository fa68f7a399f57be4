"""Output of ``moorage capacity``, ``plan`` and ``nodes``: how many fit, what is needed, what is free."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO
from moorage.answers.new_nodes import NodesNeeded
from moorage.answers.node_emptying import EmptyingPlan, NodeReport
from moorage.answers.nodes.device_use import UNLISTED, DevicesDocument, DeviceShare, DeviceUse, HeldDevices
from moorage.answers.nodes.measured_use import MeasuredUse
from moorage.answers.nodes.node_room import FIRST, PODS, NodesDocument, Room
from moorage.answers.nodes.pod_use import NamespacesDocument, NamespaceUse, WorkloadsDocument, WorkloadUse
from moorage.answers.placement_bound import Bound
from moorage.answers.scheduler import Scheduler
from moorage.answers.template_capacity import Capacity
from moorage.answers.text_tables import PrintedTable
from moorage.autoscalers.consolidation_rounds import Consolidation
from moorage.cluster.change import short_label
from moorage.document import Document
from moorage.engine.framework.evidence import readable
from moorage.errors import first_of, number_of
from moorage.table import Tabular

from .printing import COMMENT_ROWS, columns_table, print_names, write_answer

if TYPE_CHECKING:
    from moorage.kube.model.cluster import AboutInput

    from .printing import PageOf


def write_capacity(
    form: str,
    capacity: Capacity,
    verbose: bool,
    scheduler: Scheduler,
    about: AboutInput,
    alone: Mapping[str, int],
) -> None:
    """Print a capacity.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "html"}
        Format of the output; ``csv`` has a row per template and node.
    verbose : bool
        Whether tables show the replicas on each node.
    scheduler : Scheduler
        Of which the capacity is.
    alone : mapping of str to int
        Where no round fits, how many replicas of the templates that do not stop it fit by themselves.
    """

    def page() -> PageOf:
        from moorage.answers.answer_pages import capacity_page
        from moorage.answers.nodes.node_use import current_use

        result = capacity_page(document, current_use(scheduler), lines)
        return result, [about.release], about.warnings

    gangs = ", ".join(f"{number} in {domain}" for domain, number in capacity.domains.items())
    fit = ", ".join(f"{count} of {name}" for name, count in alone.items())
    texts = (
        _capacity_headline(capacity),
        gangs and f"gangs: {gangs}",
        _end(capacity),
        fit and f"alone fit: {fit}",
    )
    lines = [*filter(None, texts)]
    tables = [_counts(capacity), _binding(capacity), *([_nodes(capacity)] if verbose else [])]
    document = capacity.document()
    write_answer(form, lambda: (document, about), lines, tables, lambda: _nodes(capacity), page)


def _capacity_headline(capacity: Capacity) -> str:
    counts = ", ".join(f"{each.count} of {each.name}" for each in capacity.templates)
    if capacity.gang:
        return f"{number_of(capacity.rounds, 'gang', 'gangs')} of {capacity.gang} pods fit: {counts}"
    if len(capacity.templates) > 1:
        return f"{number_of(capacity.rounds, 'round', 'rounds')} fit: {counts}"
    return f"{capacity.count} of {capacity.templates[0].name} fit"


def _end(capacity: Capacity) -> str:
    """Return why the count has ended, in one line."""
    if not capacity.failed:
        return f"limit of {capacity.rounds} reached"
    if capacity.rest:
        fit = f"{capacity.rest} of the {capacity.gang} pods of the next gang fit"
        return f"{fit}; next replica of {capacity.failed}: {capacity.message}"
    return f"next replica of {capacity.failed}: {capacity.message}"


def _counts(capacity: Capacity) -> PrintedTable:
    some = any(each.skipped for each in capacity.templates)
    gangs = [str(capacity.rounds)] if capacity.gang else []
    rows = [
        (each.name, *gangs, str(each.share), str(each.count), str(len(each.nodes)))
        + ((each.skipped,) if some else ())
        for each in capacity.templates
    ]
    named = ["GANGS"] if capacity.gang else []
    columns = ("TEMPLATE", *named, "SHARE", "REPLICAS", "NODES", *(["NOT SCHEDULED NOW"] if some else []))
    return PrintedTable(columns, rows)


def _binding(capacity: Capacity) -> PrintedTable:
    rows = []
    some = any(each.devices for each in capacity.binding)
    for each in capacity.binding:
        reasons = ", ".join(f"{count} {reason}" for reason, count in each.reasons.items())
        devices = "; ".join(f"{count} {request}" for request, count in each.devices.items())
        cells = each.value or "(none)", str(each.nodes), each.resource, reasons
        rows.append((*cells, *([devices] if some else [])))
    headings = "NODES", "BINDING RESOURCE", "REASONS", *(["DEVICES"] if some else [])
    columns = (short_label(capacity.label), *headings)
    return PrintedTable(columns, rows)


def _nodes(capacity: Capacity) -> PrintedTable:
    columns = capacity.table().to_dict()
    rows = list(zip(columns["template"], columns["node"], map(str, columns["replicas"]), strict=True))
    return PrintedTable(("TEMPLATE", "NODE", "REPLICAS"), rows)


# ---- plan output -------------------------------------------------------------------------------------------

TITLES = {
    "NodesNeeded": ("New nodes that pods need", "New nodes"),
    "EmptyingPlan": ("Moves that empty nodes", "Moves"),
    "Consolidation": ("Which nodes Karpenter removes", "Commands"),
    "Bound": ("How many pods can be placed at most", "What is the limit"),
}
"""Of a page and its first table, by the kind of the answer."""


def write_plan(form: str, answer: Tabular, about: AboutInput) -> None:
    """Print an answer.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "html"}
    answer : Tabular
        A `NodesNeeded`, an `EmptyingPlan`, a `Bound`, or a `Consolidation`.
    """
    kind = type(answer).__name__
    table = columns_table(answer.table(), 12 if form == "csv" else 6)
    if form != "csv" and isinstance(answer, NodesNeeded):
        table = _needed(table)
    lines = [answer.headline(), *_left_out(answer)]

    def page() -> PageOf:
        from moorage.answers.answer_pages import answer_page

        title, caption = TITLES[kind]
        titled = [
            (caption if each is table else each.headings[0].capitalize(), *each)
            for each in _tables(answer, table)
        ]
        return answer_page(title, lines, None, titled), [about.release], about.warnings

    tables = _tables(answer, table, COMMENT_ROWS)
    write_answer(form, lambda: (answer.document(), about), lines, tables, lambda: table, page)


def _tables(answer: Tabular, table: PrintedTable, most: int = sys.maxsize) -> Iterator[PrintedTable]:
    """Yield the tables of an answer, those that decide first; at most so many rows of what can be many."""
    if isinstance(answer, EmptyingPlan):
        yield from _blocked(answer)
    yield table
    yield from _more_plans(answer, most)


def _needed(table: PrintedTable) -> PrintedTable:
    """Return the templates of which some nodes are needed."""
    counts = [at for at, heading in enumerate(table.headings) if heading not in ("TEMPLATE", "PRICE")]
    return table._replace(cells=[row for row in table.cells if any(row[at] != "0" for at in counts)])


def _left_out(answer: Tabular) -> Iterator[str]:
    """Yield what an answer does not take into account, a line each."""
    if isinstance(answer, NodesNeeded) and answer.over_limits:
        yield f"autoscalers would not make them: {'; '.join(answer.over_limits)}"
    if isinstance(answer, Bound | NodesNeeded):
        for why, count in (answer.skipped or {}).items():
            yield f"not asked about: {number_of(count, 'pending pod', 'pending pods')} ({why})"
    if isinstance(answer, Consolidation):
        yield from answer.remarks()
    if isinstance(answer, Bound):
        for text in answer.relaxed:
            yield f"relaxed: {text}"


def _places(consolidation: Consolidation, most: int) -> PrintedTable:
    """Which pods each node takes after each command; at most so many rows."""
    rows = []
    for number, step in enumerate(consolidation.steps, 1):
        by_node: dict[str, list[str]] = {}
        for pod, node in step.placed.items():
            by_node.setdefault(node, []).append(pod)
        rows += [(str(number), node, first_of(pods, 3)) for node, pods in sorted(by_node.items())]
    if len(rows) > most:
        rows = [*rows[:most], (f"… and {len(rows) - most} more", "", "see -o json")]
    return PrintedTable(("AFTER COMMAND", "NODE", "TAKES"), rows)


def _blocked(plan: EmptyingPlan) -> Iterator[PrintedTable]:
    """Yield what keeps nodes from being emptied, and what helps."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    helped: dict[str, list[str]] = {change.text: [] for change in plan.changes}
    for blocker in plan.blockers:
        by_reason.setdefault((blocker.node, blocker.reason), []).append(blocker.pod)
        for text in blocker.changes:
            helped.setdefault(text, []).append(blocker.pod)
    rows = [(node, reason, first_of(pods, 3)) for (node, reason), pods in by_reason.items()]
    yield PrintedTable(("NODE THAT STAYS", "REASON", "BLOCKED BY"), rows)
    changes = [(text, first_of(pods, 3)) for text, pods in helped.items()]
    yield PrintedTable(("WOULD HELP, EACH ALONE", "LETS GO"), changes)


def _more_plans(answer: Tabular, most: int = sys.maxsize) -> Iterator[PrintedTable]:
    """Yield what a table of moves or counts leaves out; at most so many rows of what can be many."""
    if isinstance(answer, EmptyingPlan):
        title = "CAN BE DRAINED" if answer.drained_alone else "EMPTIED NODE"
        title = f"NODE WITH FREE {answer.resource}" if answer.resource else title
        yield PrintedTable((title,), [(node,) for node in answer.nodes])
    if isinstance(answer, Consolidation):
        yield _places(answer, most)
        by_why: dict[str, list[str]] = {}
        for stay in answer.stays:
            by_why.setdefault(stay.message, []).append(stay.node)
        rows = [(first_of(nodes, most), why) for why, nodes in by_why.items()]
        yield PrintedTable(("NODE THAT STAYS", "WHY"), rows)
    if isinstance(answer, NodesNeeded):
        yield PrintedTable(("NO PLACE FOR", "REASON"), list(answer.unplaced.items()))


# ---- nodes output ------------------------------------------------------------------------------------------


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
    tables = [*_blocked(plan), moves, held]

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
