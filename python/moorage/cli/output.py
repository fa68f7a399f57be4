"""Output of the commands on stdout: tables, JSON, YAML or names; equal input gives equal bytes."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from moorage._core.base.resources import pod_requests
from moorage.errors import printable
from moorage.objects.read.write import dump_yaml
from moorage.scheduler.explain.shortfalls import unit
from moorage.sim.summary import ZONE, by_count

if TYPE_CHECKING:
    from moorage.objects import Cluster, LabelSelectorMatcher, Pod
    from moorage.scheduler import ScheduleResult
    from moorage.sim.optimistic import Optimistic
    from moorage.sim.summary import Summary, Use

RICH_ROWS = 1000
"""Maximum rows of a formatted table on a terminal; longer ones are plain, since rich lays out each cell."""


class PodRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one pod.

    `node` is empty unless the pod was placed; `victims` were evicted for it.
    """

    namespace: str
    pod: str
    node: str
    status: str
    reason: str
    victims: tuple[str, ...] = ()


def shown_pods(
    cluster: Cluster, result: ScheduleResult, namespace: str | None, selector: LabelSelectorMatcher
) -> list[Pod]:
    """Return the pods to list in reading order: pending or evicted ones that match the filters.

    Parameters
    ----------
    cluster : Cluster
        The objects of the cluster.
    result : ScheduleResult
        Result of the run.
    namespace : str or None
        Namespace of the pods; None for all.
    selector : LabelSelectorMatcher
        Selects pods by labels.

    Returns
    -------
    list of Pod
    """
    return [
        pod
        for pod in cluster.pods
        if (not pod.spec.node_name or pod.key in result.evicted)
        and namespace in (None, pod.namespace)
        and selector.matches(pod.metadata.labels)
    ]


def pod_rows(pods: Iterable[Pod], result: ScheduleResult) -> list[PodRow]:
    """Return the outcomes of pods.

    Parameters
    ----------
    pods : iterable of Pod
        The pods.
    result : ScheduleResult
        Result of the run.

    Returns
    -------
    list of PodRow
    """
    victims: dict[str, list[str]] = {}
    for key, eviction in result.evicted.items():
        victims.setdefault(eviction.by, []).append(key)
    return [_pod_row(pod, result, tuple(victims.get(pod.key, ()))) for pod in pods]


def _pod_row(pod: Pod, result: ScheduleResult, victims: tuple[str, ...]) -> PodRow:
    if eviction := result.evicted.get(pod.key):
        why = f"preempted by {eviction.by} on node {eviction.node}"
        return PodRow(pod.namespace, pod.name, "", "evicted", why, victims)
    if node := result.placements.get(pod.key):
        why = f"preempted {', '.join(victims)}" if victims else ""
        return PodRow(pod.namespace, pod.name, node, "placed", why, victims)
    if failure := result.unschedulable.get(pod.key):
        return PodRow(pod.namespace, pod.name, "", "unschedulable", failure.search_message, victims)
    return PodRow(pod.namespace, pod.name, "", "skipped", result.skipped.get(pod.key, ""))


def write(
    form: str,
    pods: list[Pod] | None,
    cluster: Cluster,
    result: ScheduleResult,
    summary: Summary,
    multi: Optimistic | None = None,
) -> None:
    """Print the outcomes of pods and the summary.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "name"}
        Format of the output; ``name`` prints ``pod/NAME`` of each placed pod, as kubectl prints created
        objects, without the summary.
    pods : list of Pod or None
        Pods to list; None lists none.
    cluster : Cluster
        The objects of the cluster.
    result : ScheduleResult
        Result of the run.
    summary : Summary
        Summary of the run.
    multi : Optimistic, optional
        Counters of several schedulers.
    """
    rows = None if pods is None else pod_rows(pods, result)
    with ignore_broken_pipe():
        if form == "name":
            print(*(f"pod/{row.pod}\n" for row in rows or () if row.node), sep="", end="")
        elif form in ("json", "yaml"):
            write_value(form, _document(rows, summary) | _multi_document(multi))
        else:
            if rows is not None:
                print_table(*(_wide(rows, pods or [], cluster) if form == "wide" else _narrow(rows)))
            for headings, cells in chain(_summary_tables(summary), _multi_tables(multi)):
                print_table(headings, cells)


def write_value(form: str, value: Any) -> None:
    """Print a value as JSON or YAML.

    Parameters
    ----------
    form : str
        ``json`` or ``yaml``.
    value : object
        A JSON value.
    """
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    else:
        print(dump_yaml(msgspec.to_builtins(value)), end="")


@contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Ignore a closed pipe on stdout inside the context."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Discard the buffer of stdout after a write error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _document(rows: list[PodRow] | None, summary: Summary) -> dict[str, Any]:
    zones = [asdict(zone) | {"use": [_use(use) for use in zone.use]} for zone in summary.zones]
    shown = asdict(summary) | {"use": [_use(use) for use in summary.use], "zones": zones}
    return ({} if rows is None else {"pods": rows}) | {"summary": shown}


def _use(use: Use) -> dict[str, Any]:
    amounts = {"requested": use.requested, "allocatable": use.allocatable, "percent": round(use.percent, 2)}
    return {"resource": use.resource, "unit": unit(use.resource)} | amounts


Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def _narrow(rows: list[PodRow]) -> Table:
    cells = [(row.namespace, row.pod, row.node or row.status, row.reason) for row in rows]
    return ("NAMESPACE", "POD", "NODE OR STATUS", "REASON"), cells


def _wide(rows: list[PodRow], pods: list[Pod], cluster: Cluster) -> Table:
    """Rows with zone, effective requests (init containers and overhead included) and priority."""
    zones = {node.name: node.metadata.labels.get(ZONE, "") for node in cluster.nodes}
    cells = []
    for row, pod in zip(rows, pods, strict=True):
        requests = pod_requests(pod)
        quantities = [str(requests.get(name, 0)) for name in ("cpu", "memory")]
        place = (row.node or row.status, zones.get(row.node, ""))
        cells.append((row.namespace, row.pod, *place, *quantities, str(pod.spec.priority or 0), row.reason))
    return ("NAMESPACE", "POD", "NODE OR STATUS", "ZONE", "CPU", "MEMORY", "PRIORITY", "REASON"), cells


def _summary_tables(summary: Summary) -> Iterable[Table]:
    pods = {"running before": summary.running, "placed": summary.placed}
    pods["unschedulable"] = summary.unschedulable
    pods |= {f"  {reason}": count for reason, count in summary.reasons.items()}
    pods |= {"evicted": summary.evicted} if summary.evicted else {}
    pods |= {f"skipped: {why}": count for why, count in summary.skipped.items()}
    yield ("PODS", "COUNT"), [(name, str(count)) for name, count in pods.items()]
    rows = []
    for use in summary.use:
        amounts = [amount(use.resource, value) for value in (use.requested, use.allocatable)]
        rows.append((use.resource, *amounts, f"{use.percent:.1f}%"))
    yield ("RESOURCE", "REQUESTED", "ALLOCATABLE", "USE"), rows
    resources = [use.resource for use in summary.use]
    zones: list[Sequence[str]] = []
    for zone in summary.zones:
        percents = {use.resource: f"{use.percent:.1f}%" for use in zone.use}
        zones.append((zone.name, str(zone.nodes), *(percents.get(name, "") for name in resources)))
    yield ("ZONE", "NODES", *(name.upper() for name in resources)), zones


def _multi_document(multi: Optimistic | None) -> dict[str, Any]:
    if multi is None:
        return {}
    each: list[dict[str, Any]] = []
    for stats in multi.schedulers:
        placed = {"placements": stats.placements, "bound": stats.bound, "retries": stats.retries}
        each.append({"pods": stats.pods} | placed | {"conflicts": by_count(stats.conflicts)})
    return {"schedulers": each, "rounds": multi.rounds, "placedAlone": multi.alone}


def _multi_tables(multi: Optimistic | None) -> Iterator[Table]:
    if multi is None:
        return
    stats = multi.schedulers
    counts = [(entry.pods, entry.placements, entry.bound, entry.retries) for entry in stats]
    cells = [(str(number), *map(str, row)) for number, row in enumerate(counts)]
    cells.append(("all", *(str(sum(column)) for column in zip(*counts, strict=True))))
    yield ("SCHEDULER", "PODS", "PLACEMENTS", "BOUND", "RETRIES"), cells
    conflicts = sum((entry.conflicts for entry in stats), Counter[str]())
    rows = [(reason, str(count)) for reason, count in by_count(conflicts).items()]
    rows += [("rounds", str(multi.rounds)), ("placed by one alone at the end", str(multi.alone))]
    yield ("CONFLICT", "COUNT"), rows


def throughput(multi: Optimistic) -> str:
    """Format the throughput of several schedulers in one line.

    Parameters
    ----------
    multi : Optimistic
        Counters of several schedulers.

    Returns
    -------
    str
    """
    return (
        f"{multi.bound} pods bound at {multi.pods_per_second:,.0f} pods/s: "
        f"deciding {multi.deciding:.3f} s, binding {multi.binding:.3f} s, "
        f"updating {multi.updating:.3f} s"
    )


def amount(resource: str, value: int) -> str:
    """Format a quantity: cores for cpu, GiB for bytes, plain numbers otherwise.

    Parameters
    ----------
    resource : str
        Name of the resource.
    value : int
        Quantity; cpu in millicores.

    Returns
    -------
    str
    """
    match unit(resource):
        case "millicores":
            return f"{value / 1000:.1f}"
        case "bytes":
            return f"{value / 2**30:.1f}Gi"
    return str(value)


def print_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table, with lines on a terminal.

    Parameters
    ----------
    headings : sequence of str
        Headings of the columns.
    cells : sequence of sequence of str
        Cells by row.
    """
    headings, cells = [*map(printable, headings)], [[*map(printable, row)] for row in cells]
    if sys.stdout.isatty() and len(cells) <= RICH_ROWS:
        _rich_table(headings, cells)
        return
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for row in (headings, *cells):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    print()


NUMBER_WIDTH = 9


def row_printer(headings: Sequence[str], names: Sequence[str]) -> Callable[[Sequence[str]], None]:
    """Print the headings of a table whose rows are printed one by one.

    Parameters
    ----------
    headings : sequence of str
        Headings of the columns; all but the first have room for `NUMBER_WIDTH` characters.
    names : sequence of str
        What the first column will have.

    Returns
    -------
    callable
        Prints a row, given its cells.
    """
    first, *others = map(printable, headings)
    widths = [
        max(map(len, (first, *map(printable, names)))),
        *(max(len(one), NUMBER_WIDTH) for one in others),
    ]

    def print_row(cells: Sequence[str]) -> None:
        padded = (f"{printable(cell):<{width}}" for cell, width in zip(cells, widths, strict=True))
        print("  ".join(padded).rstrip(), flush=True)

    print_row(headings)
    return print_row


def _rich_table(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    table = RichTable(*headings)
    for row in cells:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)
