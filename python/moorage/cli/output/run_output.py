"""Output of ``moorage simulate``: the outcome by workload or by pod, and the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from moorage._core.base.resources import ZERO
from moorage.engine.framework.evidence import held_by, readable, unit
from moorage.engine.scheduler.cycle.results import Failure
from moorage.errors import first_of, number_of
from moorage.kube import Node
from moorage.kube.workloads.ownership import Workload
from moorage.sim.summary import Summary, Use, by_count, zone_of

from ..options.deciding_release import facts_of
from ..runs.group_fits import GroupFit, group_fits
from ..runs.simulation import (
    KEPT,
    NOT_STARTED,
    PLACED,
    REPLACED,
    SKIPPED_KIND,
    Group,
    Outcome,
    Simulation,
    group_outcomes,
)
from .printing import PICTURES, Table, print_names, told, write_answer, write_picture

if TYPE_CHECKING:
    from .printing import PageOf

API_VERSION = "simulate.moorage.dev/v1"
NODES = 3
"""Maximum number of nodes that are named in a row of a workload."""


class PodRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The outcome of one pod.

    `node` is empty unless the pod was placed; `victims` were evicted for it; its own eviction violates
    `violated_budgets`.
    """

    namespace: str
    pod: str
    workload: str
    node: str
    status: str
    reason: str
    victims: tuple[str, ...] = ()
    violated_budgets: tuple[str, ...] = ()


def write_simulation(
    form: str, simulation: Simulation, outcomes: list[Outcome] | None, bound: Sequence[Outcome] = ()
) -> None:
    """Print the outcomes of pods and the summary.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "name", "html", "png", "svg"}
        Format of the output: by workload in tables; by pod with ``wide`` and ``csv``. ``name`` prints
        ``pod/NAME`` of each placed pod, as kubectl prints created objects. CSV and names have no summary.
    outcomes : list of Outcome or None
        The outcomes to show; None shows none.
    bound : sequence of Outcome, optional
        Pods that ``wide`` and ``csv`` show, too.
    """
    shown = outcomes or []
    if form == "name":
        print_names(f"pod/{one.pod.name}" for one in shown if one.status == PLACED)
        return
    if form in PICTURES:
        from moorage.answers.figures import node_figure
        from moorage.answers.node_use import current_use

        write_picture(form, node_figure(current_use(simulation.scheduler)))
        return

    def page() -> PageOf:
        from moorage.answers.answer_pages import simulation_page
        from moorage.answers.explain.explain_document import document
        from moorage.answers.node_use import current_use

        found, scheduler = _document(simulation, outcomes), simulation.scheduler
        use = current_use(scheduler)
        made = simulation_page(found, use, lambda key: document(scheduler.explain(key)), [*lines()])
        return made, [found["release"]], found["warnings"]

    def lines() -> Iterator[str]:
        yield _headline(simulation, outcomes)
        yield from simulation.basis()
        if (grown := simulation.grown) is not None:
            yield from (grown.text(), *grown.lines())

    def tables() -> Iterator[Table]:
        yield from [rows(False)] if form == "wide" else _workload_tables(simulation, shown)
        yield from group_tables(group_fits(simulation, shown))
        yield from _summary_tables(simulation.summary)

    def rows(is_exact: bool = True) -> Table:
        return _pod_table(simulation, [*shown, *bound], is_exact)

    write_answer(form, lambda: _document(simulation, outcomes), lines(), tables(), rows, page)


def _headline(simulation: Simulation, outcomes: Sequence[Outcome] | None) -> str:
    """Return how many of the pods that are shown have found a node; of all where none is shown."""
    shown = simulation.outcomes if outcomes is None else outcomes
    placed = sum(one.status == PLACED for one in shown)
    waits = [one.status for one in shown if one.status not in (PLACED, REPLACED, KEPT) and not one.is_leaving]
    idle, unknown = waits.count(NOT_STARTED), waits.count(SKIPPED_KIND)
    left = len(waits) - idle - unknown
    parts = [number_of(placed, "pod has found a node", "pods have found a node")]
    if idle:
        parts.append(f"{idle} {'has a node and does' if idle == 1 else 'have nodes and do'} not start")
    if left:
        parts.append(f"{left} {'has' if left == 1 else 'have'} none")
    text = ", ".join(parts) if placed + idle + left else "no pod waits for a node"
    return f"{text}; {number_of(unknown, 'replica', 'replicas')} not simulated" if unknown else text


def _pod_row(one: Outcome) -> PodRow:
    of = one.pod.namespace, one.pod.name, one.workload.text
    return PodRow(*of, one.node, one.status, one.reason, one.victims, one.budgets)


def _pod_table(simulation: Simulation, outcomes: Iterable[Outcome], is_exact: bool) -> Table:
    """Rows with zone, effective requests (init containers and overhead included) and priority."""
    zones = {node.name: zone_of(node) for node in simulation.scheduler.client.list(Node)[0]}
    cells, gates = [], simulation.scheduler.cache.state.classes.gates
    for one in outcomes:
        row, requests = _pod_row(one), held_by(one.pod, gates)
        cpu, memory = requests.get("cpu", ZERO), requests.get("memory", ZERO)
        shown = readable("cpu", cpu.milli_value()), readable("memory", memory.value())
        quantities = (str(cpu), str(memory)) if is_exact else shown
        place = (row.status, row.node, zones.get(row.node, ""), *quantities, str(one.pod.spec.priority or 0))
        cells.append((row.namespace, row.pod, row.workload, *place, row.reason))
    place_of = ("STATUS", "NODE", "ZONE", "CPU", "MEMORY", "PRIORITY")
    return Table(("NAMESPACE", "POD", "WORKLOAD", *place_of, "REASON"), cells)


# ---- workloads ---------------------------------------------------------------------------------------------


def by_workload(outcomes: Iterable[Outcome]) -> dict[Workload, list[Outcome]]:
    """Group outcomes by workload, without those of pods that were replaced or kept on their nodes."""
    groups: dict[Workload, list[Outcome]] = {}
    for one in outcomes:
        if one.status not in (REPLACED, KEPT):
            groups.setdefault(one.workload, []).append(one)
    return groups


def _workload_tables(simulation: Simulation, outcomes: Sequence[Outcome]) -> Iterator[Table]:
    """Yield the workloads with the number of their pods that have a node, and the pods without one."""
    cells = []
    for workload, members in by_workload(outcomes).items():
        running = simulation.running[workload]
        placed = Counter(one.node for one in members if one.status == PLACED)
        pods = f"{running + placed.total()}/{running + len(members)}"
        cells.append((workload.namespace, workload.text, pods, nodes_text(placed)))
    yield Table(("NAMESPACE", "WORKLOAD", "WITH NODE", "PLACED ON"), cells)
    groups = [
        group for group in group_outcomes(outcomes, short=True) if group.status not in (PLACED, REPLACED)
    ]
    rows = [
        (one.workload.namespace, one.workload.text, str(len(one.outcomes)), one.status, one.reason)
        for one in groups
    ]
    yield Table(("NAMESPACE", "WORKLOAD", "PODS", "STATUS", "REASON"), rows)


def nodes_text(placed: Mapping[str, int]) -> str:
    """Return the nodes of pods with their numbers, those with the most pods first: ``a (3), b``.

    Parameters
    ----------
    placed : mapping of str to int
        Number of pods by node.
    """
    texts = [f"{node} ({count})" if count > 1 else node for node, count in by_count(placed).items()]
    return first_of(texts, NODES)


def _workload_document(simulation: Simulation, workload: Workload, members: Sequence[Outcome]) -> Any:
    running = simulation.running[workload]
    placed = Counter(one.node for one in members if one.status == PLACED)
    return {
        "namespace": workload.namespace,
        "workload": workload.text,
        "pods": running + len(members),
        "alreadyBound": running,
        "placed": placed.total(),
        "nodes": by_count(placed),
        "withoutNode": [
            unplaced_document(group) for group in group_outcomes(members) if group.status != PLACED
        ],
    }


def group_tables(groups: Sequence[GroupFit]) -> Iterator[Table]:
    """Yield the table of pod groups, if there are any."""
    if not groups:
        return
    rows = []
    for one in groups:
        fit = str(one.fit) if one.message else ""
        where = f" in {one.domain}" if one.domain else ""
        stop = f"{one.next}{where}: {one.message}" if one.next else one.message
        numbers = str(one.min_count or ""), f"{one.with_node}/{one.pods}", fit
        rows.append((one.namespace, one.group, *numbers, stop))
    yield Table(("NAMESPACE", "GROUP", "MINIMUM", "WITH NODE", "MORE FIT", "STOPPED BY"), rows)


def unplaced_document(group: Group) -> dict[str, Any]:
    """Return pods without a node that have one reason, as a JSON value.

    Returns
    -------
    dict
        ``status``, number of ``pods``, ``reason``, and ``rejections`` by plugin.
    """
    return {
        "status": group.status,
        "pods": len(group.outcomes),
        "reason": group.reason,
        "rejections": _rejections(group.outcomes[0].failure if group.outcomes else None),
    }


def _rejections(failure: Failure | None) -> list[dict[str, Any]]:
    """Return the statuses of nodes: plugin, code, reasons, and the number of nodes that have it."""
    if failure is None or failure.diagnosis is None or failure.error:
        return []
    return [
        {"plugin": status.plugin, "code": str(status.code), "reasons": list(status.reasons), "nodes": nodes}
        for status, nodes in failure.diagnosis.statuses_of_nodes()
    ]


# ---- summary -----------------------------------------------------------------------------------------------


def _document(simulation: Simulation, outcomes: Sequence[Outcome] | None) -> dict[str, Any]:
    summary = simulation.summary
    zones = [asdict(zone) | {"use": [_use(use) for use in zone.use]} for zone in summary.zones]
    shown = asdict(summary) | {"use": [_use(use) for use in summary.use], "zones": zones}
    out: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Simulation"}
    if outcomes is not None:
        out["workloads"] = [_workload_document(simulation, *item) for item in by_workload(outcomes).items()]
        out["pods"] = [_pod_row(one) for one in outcomes]
        out["groups"] = group_fits(simulation, outcomes)
        out["nodes"] = [room.to_dict() for room in simulation.scheduler.node_room()]
    out |= simulation.basis_document()
    if simulation.grown is not None:
        out["newNodes"] = simulation.grown.to_dict()
    out |= {"summary": shown} | told(
        simulation.cluster, [*facts_of(simulation.cluster), *simulation.warnings()]
    )
    return out


def _use(use: Use) -> dict[str, Any]:
    amounts = {"requested": use.requested, "allocatable": use.allocatable, "percent": round(use.percent, 2)}
    return {"resource": use.resource, "unit": unit(use.resource)} | amounts


def _summary_tables(summary: Summary) -> Iterator[Table]:
    pods = {"already bound": summary.running, "placed": summary.placed}
    pods["unschedulable"] = summary.unschedulable
    pods |= {f"  {reason}": count for reason, count in summary.reasons.items()}
    pods |= {"evicted": summary.evicted} if summary.evicted else {}
    pods |= {f"skipped: {why}": count for why, count in summary.skipped.items()}
    yield Table(("PODS", "COUNT"), [(name, str(count)) for name, count in pods.items()])
    rows = []
    for use in summary.use:
        amounts = [readable(use.resource, value) for value in (use.requested, use.allocatable)]
        rows.append((use.resource, *amounts, f"{use.percent:.1f}%"))
    yield Table(("RESOURCE", "REQUESTED", "ALLOCATABLE", "USE"), rows)
    resources = [use.resource for use in summary.use]
    zones: list[Sequence[str]] = []
    for zone in summary.zones:
        percents = {use.resource: f"{use.percent:.1f}%" for use in zone.use}
        zones.append((zone.name, str(zone.nodes), *(percents.get(name, "") for name in resources)))
    yield Table(("ZONE", "NODES", *(name.upper() for name in resources)), zones)
