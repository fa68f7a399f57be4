"""Output of ``moorage simulate`` and ``moorage compare``: outcomes by workload or by pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from moorage._core.base.resources import ZERO
from moorage.answers.runs.comparison import Alternative, ReleaseComparison
from moorage.answers.runs.comparison import differing_places as differing
from moorage.answers.runs.gate import GroupFit, group_fits
from moorage.answers.runs.simulation import (
    KEPT,
    NOT_STARTED,
    PLACED,
    REPLACED,
    SKIPPED_KIND,
    PodOutcome,
    PodsAlike,
    Simulation,
    group_outcomes,
)
from moorage.answers.runs.summary import Summary, Use, by_count, zone_of
from moorage.engine.framework.evidence import held_by, readable, unit
from moorage.engine.scheduler.cycle.results import Failure
from moorage.errors import first_of, number_of
from moorage.kube import Node
from moorage.kube.workloads.ownership import Workload

from ..options.inputs import facts_of
from .printing import (
    COMMENT_ROWS,
    PICTURES,
    PrintedTable,
    first_rows,
    ignore_broken_pipe,
    left_out_document,
    notice,
    print_names,
    refused_document,
    without_folders,
    write_answer,
    write_picture,
)

if TYPE_CHECKING:
    from .printing import PageOf

SIMULATE_API = "simulate.moorage.dev/v1"
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
    form: str, simulation: Simulation, outcomes: list[PodOutcome] | None, bound: Sequence[PodOutcome] = ()
) -> None:
    """Print the outcomes of pods and the summary.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "name", "html", "png", "svg"}
        Format of the output: by workload in tables; by pod with ``wide`` and ``csv``. ``name`` prints
        ``pod/NAME`` of each placed pod, as kubectl prints created objects. CSV and names have no summary.
    outcomes : list of PodOutcome or None
        The outcomes to show; None shows none.
    bound : sequence of PodOutcome, optional
        Pods that ``wide`` and ``csv`` show, too.
    """
    shown = outcomes or []
    if form == "name":
        print_names(f"pod/{outcome.pod.name}" for outcome in shown if outcome.status == PLACED)
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

        fields, scheduler = _simulation_document(simulation, outcomes), simulation.scheduler
        use = current_use(scheduler)
        result = simulation_page(fields, use, lambda key: document(scheduler.explain(key)), [*lines()])
        return result, [simulation.cluster.release], fields["warnings"]

    def lines() -> Iterator[str]:
        yield _headline(simulation, outcomes)
        yield from simulation.basis()
        if (scale_up := simulation.scale_up) is not None:
            yield from (scale_up.text(), *scale_up.lines())

    def tables() -> Iterator[PrintedTable]:
        yield from [rows(False)] if form == "wide" else _workload_tables(simulation, shown)
        yield from group_tables(group_fits(simulation, shown))
        yield from _summary_tables(simulation.summary)

    def rows(is_exact: bool = True) -> PrintedTable:
        return _pod_table(simulation, [*shown, *bound], is_exact)

    write_answer(form, lambda: _simulation_document(simulation, outcomes), lines(), tables(), rows, page)


def _headline(simulation: Simulation, outcomes: Sequence[PodOutcome] | None) -> str:
    """Return how many of the pods that are shown have found a node; of all where none is shown."""
    shown = simulation.outcomes if outcomes is None else outcomes
    placed = sum(outcome.status == PLACED for outcome in shown)
    waits = [
        outcome.status
        for outcome in shown
        if outcome.status not in (PLACED, REPLACED, KEPT) and not outcome.is_leaving
    ]
    idle, unknown = waits.count(NOT_STARTED), waits.count(SKIPPED_KIND)
    left = len(waits) - idle - unknown
    parts = [number_of(placed, "pod has found a node", "pods have found a node")]
    if idle:
        parts.append(f"{idle} {'has a node and does' if idle == 1 else 'have nodes and do'} not start")
    if left:
        parts.append(f"{left} {'has' if left == 1 else 'have'} none")
    text = ", ".join(parts) if placed + idle + left else "no pod waits for a node"
    return f"{text}; {number_of(unknown, 'replica', 'replicas')} not simulated" if unknown else text


def _pod_row(outcome: PodOutcome) -> PodRow:
    of = outcome.pod.namespace, outcome.pod.name, outcome.workload.text
    return PodRow(*of, outcome.node, outcome.status, outcome.reason, outcome.victims, outcome.budgets)


def _pod_table(simulation: Simulation, outcomes: Iterable[PodOutcome], is_exact: bool) -> PrintedTable:
    """Rows with zone, effective requests (init containers and overhead included) and priority."""
    zones = {node.name: zone_of(node) for node in simulation.scheduler.client.list(Node)[0]}
    cells, gates = [], simulation.scheduler.cache.state.classes.gates
    for outcome in outcomes:
        row, requests = _pod_row(outcome), held_by(outcome.pod, gates)
        cpu, memory = requests.get("cpu", ZERO), requests.get("memory", ZERO)
        shown = readable("cpu", cpu.milli_value()), readable("memory", memory.value())
        quantities = (str(cpu), str(memory)) if is_exact else shown
        place = row.status, row.node, zones.get(row.node, ""), *quantities
        priority = str(outcome.pod.spec.priority or 0)
        cells.append((row.namespace, row.pod, row.workload, *place, priority, row.reason))
    place_of = ("STATUS", "NODE", "ZONE", "CPU", "MEMORY", "PRIORITY")
    return PrintedTable(("NAMESPACE", "POD", "WORKLOAD", *place_of, "REASON"), cells)


# ---- workloads ---------------------------------------------------------------------------------------------


def by_workload(outcomes: Iterable[PodOutcome]) -> dict[Workload, list[PodOutcome]]:
    """Group outcomes by workload, without those of pods that were replaced or kept on their nodes."""
    groups: dict[Workload, list[PodOutcome]] = {}
    for outcome in outcomes:
        if outcome.status not in (REPLACED, KEPT):
            groups.setdefault(outcome.workload, []).append(outcome)
    return groups


def _workload_tables(simulation: Simulation, outcomes: Sequence[PodOutcome]) -> Iterator[PrintedTable]:
    """Yield the workloads with the number of their pods that have a node, and the pods without one."""
    cells = []
    for workload, members in by_workload(outcomes).items():
        running = simulation.running[workload]
        placed = Counter(outcome.node for outcome in members if outcome.status == PLACED)
        pods = f"{running + placed.total()}/{running + len(members)}"
        cells.append((workload.namespace, workload.text, pods, nodes_text(placed)))
    yield PrintedTable(("NAMESPACE", "WORKLOAD", "WITH NODE", "PLACED ON"), cells)
    groups = [
        group for group in group_outcomes(outcomes, short=True) if group.status not in (PLACED, REPLACED)
    ]
    rows = [
        (group.workload.namespace, group.workload.text, str(len(group.outcomes)), group.status, group.reason)
        for group in groups
    ]
    yield PrintedTable(("NAMESPACE", "WORKLOAD", "PODS", "STATUS", "REASON"), rows)


def nodes_text(placed: Mapping[str, int]) -> str:
    """Return the nodes of pods with their numbers, those with the most pods first: ``a (3), b``.

    Parameters
    ----------
    placed : mapping of str to int
        Number of pods by node.
    """
    texts = [f"{node} ({count})" if count > 1 else node for node, count in by_count(placed).items()]
    return first_of(texts, NODES)


def _workload_document(simulation: Simulation, workload: Workload, members: Sequence[PodOutcome]) -> Any:
    running = simulation.running[workload]
    placed = Counter(outcome.node for outcome in members if outcome.status == PLACED)
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


def group_tables(groups: Sequence[GroupFit]) -> Iterator[PrintedTable]:
    """Yield the table of pod groups, if there are any."""
    if not groups:
        return
    rows = []
    for group in groups:
        fit = str(group.fit) if group.message else ""
        where = f" in {group.domain}" if group.domain else ""
        stop = f"{group.next}{where}: {group.message}" if group.next else group.message
        numbers = str(group.min_count or ""), f"{group.with_node}/{group.pods}", fit
        rows.append((group.namespace, group.group, *numbers, stop))
    yield PrintedTable(("NAMESPACE", "GROUP", "MINIMUM", "WITH NODE", "MORE FIT", "STOPPED BY"), rows)


def unplaced_document(group: PodsAlike) -> dict[str, Any]:
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


def _simulation_document(simulation: Simulation, outcomes: Sequence[PodOutcome] | None) -> dict[str, Any]:
    summary = simulation.summary
    zones = [asdict(zone) | {"use": [_use(use) for use in zone.use]} for zone in summary.zones]
    shown = asdict(summary) | {"use": [_use(use) for use in summary.use], "zones": zones}
    out: dict[str, Any] = {"apiVersion": SIMULATE_API, "kind": "Simulation"}
    if outcomes is not None:
        out["workloads"] = [_workload_document(simulation, *item) for item in by_workload(outcomes).items()]
        out["pods"] = [_pod_row(outcome) for outcome in outcomes]
        out["groups"] = group_fits(simulation, outcomes)
        out["nodes"] = [room.to_dict() for room in simulation.scheduler.node_room()]
    out |= simulation.basis_document()
    if simulation.scale_up is not None:
        out["newNodes"] = simulation.scale_up.to_dict()
    about = simulation.cluster.about([*facts_of(simulation.cluster), *simulation.warnings()])
    return out | {"summary": shown} | about.to_dict()


def _use(use: Use) -> dict[str, Any]:
    amounts = {"requested": use.requested, "allocatable": use.allocatable, "percent": round(use.percent, 2)}
    return {"resource": use.resource, "unit": unit(use.resource)} | amounts


def _summary_tables(summary: Summary) -> Iterator[PrintedTable]:
    pods = {"already bound": summary.running, "placed": summary.placed}
    pods["unschedulable"] = summary.unschedulable
    pods |= {f"  {reason}": count for reason, count in summary.reasons.items()}
    pods |= {"evicted": summary.evicted} if summary.evicted else {}
    pods |= {f"skipped: {why}": count for why, count in summary.skipped.items()}
    yield PrintedTable(("PODS", "COUNT"), [(name, str(count)) for name, count in pods.items()])
    rows = []
    for use in summary.use:
        amounts = [readable(use.resource, value) for value in (use.requested, use.allocatable)]
        rows.append((use.resource, *amounts, f"{use.percent:.1f}%"))
    yield PrintedTable(("RESOURCE", "REQUESTED", "ALLOCATABLE", "USE"), rows)
    resources = [use.resource for use in summary.use]
    zones: list[Sequence[str]] = []
    for zone in summary.zones:
        percents = {use.resource: f"{use.percent:.1f}%" for use in zone.use}
        zones.append((zone.name, str(zone.nodes), *(percents.get(name, "") for name in resources)))
    yield PrintedTable(("ZONE", "NODES", *(name.upper() for name in resources)), zones)


# ---- comparison output -------------------------------------------------------------------------------------

SAME = "every pod is in the same place"
COMPARE_API = "compare.moorage.dev/v1"


def write_comparison(
    form: str,
    alternatives: Sequence[Alternative],
    warnings: Iterable[str],
    releases: ReleaseComparison | None = None,
) -> None:
    """Print runs side by side.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "github", "html"}
        A CSV file has the pods that differ.
    warnings : iterable of str
        All that the command prints.
    releases : ReleaseComparison, optional
        What makes the differences, if the alternatives are two releases.
    """

    def document() -> dict[str, Any]:
        left_out = dict.fromkeys(
            left_out for run in alternatives for left_out in run.simulation.cluster.left_out
        )
        refused = {obj: None for run in alternatives for obj in run.simulation.cluster.refused_objects}
        about = left_out_document(left_out, warnings) | refused_document(refused)
        return _comparison_document(alternatives, releases) | about

    def page() -> PageOf:
        from moorage.answers.answer_pages import comparison_page

        shown = _comparison_document(alternatives, releases)
        for entry in shown["alternatives"]:
            entry["name"] = without_folders(entry["name"])
        each = [] if releases else [run.simulation.cluster.release for run in alternatives]
        return comparison_page(shown, lines), each, warnings

    pods = _pods(alternatives, releases)
    moved = number_of(len(pods.cells), "pod is not", "pods are not")
    lines = [f"{moved} in the same place" if pods.cells else SAME]
    if form == "github":
        with ignore_broken_pipe():
            print("".join(_notices(alternatives, lines[0])), end="")
        return
    lines += [] if releases is None else [releases.basis]
    for run in alternatives:
        if (scale_up := run.simulation.scale_up) is not None:
            lines += [f"{run.name}: {text}" for text in (scale_up.text(), *scale_up.gaps())]
    causes = () if releases is None else _causes(releases)
    measures = _measures(alternatives)
    if form == "markdown" and any(run.simulation.scale_up is not None for run in alternatives):
        measures, pods = _for_comment(measures), first_rows(_without_node(alternatives, pods))
    write_answer(form, document, lines, chain([measures], causes, [pods]), lambda: pods, page)


def _for_comment(measures: PrintedTable) -> PrintedTable:
    """Nodes, price and pods, where they differ, for a comment."""
    return PrintedTable(
        measures.headings, [row for row in measures.cells if row[0] in _IN_COMMENT and len({*row[1:]}) > 1]
    )


def _without_node(alternatives: Sequence[Alternative], pods: PrintedTable) -> PrintedTable:
    """The pods that wait somewhere, or were evicted, for a comment."""
    named = {key for run in alternatives for key in (*run.reasons, *run.simulation.evicted)}
    return PrintedTable(pods.headings, [row for row in pods.cells if row[0] in named])


def _notices(alternatives: Sequence[Alternative], first: str) -> Iterator[str]:
    """Yield annotations of GitHub: nodes and price of each run, and who waits or is evicted."""
    yield notice("notice", "moorage compare", first)
    for run in alternatives[:COMMENT_ROWS]:
        shown = {name: value for name, value in run.measures.items() if name in _IN_COMMENT}
        yield notice("notice", run.name, ", ".join(f"{name} {value:g}" for name, value in shown.items()))
        waiting = [f"{key} waits: {why}" for key, why in run.reasons.items()]
        gone = [f"{key} is evicted: {each.reason}" for key, each in run.simulation.evicted.items()]
        most = max(1, COMMENT_ROWS // len(alternatives))
        for text in (*waiting, *gone)[:most]:
            yield notice("warning", run.name, text)
        if len(waiting) + len(gone) > most:
            yield notice("warning", run.name, f"{len(waiting) + len(gone) - most} more wait or are evicted")


_IN_COMMENT = ("nodes", "new nodes", "new nodes $/h", "nodes $/h", "placed", "without a node", "evicted")
"""Measures that a comment has."""


def _pods(alternatives: Sequence[Alternative], releases: ReleaseComparison | None) -> PrintedTable:
    """The pods that differ, and of releases what makes the difference."""
    names = [run.name for run in alternatives]
    if releases is None:
        return PrintedTable(
            ("POD", *names), [(key, *places) for key, places in differing(alternatives).items()]
        )
    rows = [
        (difference.pod, *difference.places, difference.change, difference.cause.text, difference.reason)
        for difference in releases.differences
    ]
    return PrintedTable(("POD", *names, "CHANGE", "BECAUSE OF", "REASON"), rows)


def _causes(releases: ReleaseComparison) -> Iterator[PrintedTable]:
    """How many pods differ in what way and why, and what the behaviours are."""
    rows = [(change, str(count), cause) for (change, cause), count in _groups(releases).items()]
    yield PrintedTable(("CHANGE", "PODS", "BECAUSE OF"), rows)
    names = releases.before.name, releases.after.name
    yield PrintedTable(
        ("BEHAVIOUR", *names, "WHAT IT IS"),
        [(behaviour.name, *behaviour.values, behaviour.text) for behaviour in releases.effective],
    )


def _groups(releases: ReleaseComparison) -> Counter[tuple[str, str]]:
    return Counter((difference.change, difference.cause.text) for difference in releases.differences)


def _measures(alternatives: Sequence[Alternative]) -> PrintedTable:
    """A row per measure that some run has."""
    measures = [run.measures for run in alternatives]
    names = dict.fromkeys(name for each in measures for name in each)
    rows = [(name, *(f"{each[name]:g}" if name in each else "" for each in measures)) for name in names]
    return PrintedTable(("MEASURE", *(run.name for run in alternatives)), rows)


def _comparison_document(
    alternatives: Sequence[Alternative], releases: ReleaseComparison | None
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": COMPARE_API,
        "kind": "Comparison",
        "alternatives": [{"name": run.name, "measures": run.measures} for run in alternatives],
    }
    if releases is None:
        for shown, run in zip(document["alternatives"], alternatives, strict=True):
            shown["release"] = run.simulation.cluster.release
        moved = [{"pod": key, "places": places} for key, places in differing(alternatives).items()]
        return document | {"differences": moved}
    pods = [
        {
            "pod": difference.pod,
            "places": difference.places,
            "change": difference.change,
            "reason": difference.reason,
        }
        | {"because": difference.cause.alternatives, "isPinned": difference.cause.is_pinned}
        for difference in releases.differences
    ]
    return document | {"differences": pods, "releases": _releases(releases)}


def _releases(releases: ReleaseComparison) -> dict[str, Any]:
    groups = _groups(releases).items()
    return {
        "fromScratch": releases.from_scratch,
        "tieBreak": releases.tie_break,
        "groups": [{"change": change, "because": cause, "pods": pods} for (change, cause), pods in groups],
        "behaviours": [
            {
                "name": behaviour.name,
                "isGate": behaviour.is_gate,
                "values": behaviour.values,
                "text": behaviour.text,
            }
            for behaviour in releases.effective
        ],
    }
