"""The page of each answer: a view of its document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from moorage.errors import first_of
from moorage.grouped import by_count
from moorage.kube import Pod

from .explain.explain_document import ChangeDocument, ExplainedPods, ExplanationDocument
from .nodes.node_use import NodeUse, group_grid, heat_map, node_grid, total_grid
from .page import Bar, Block, Causes, Cell, Grid, KeyFigure, KeyFigures, Lines, Page, amount, shortened
from .runs.comparison import CompareDocument, ComparedReleases, ComparedRun, DifferingPod
from .runs.simulation import NodeRejection
from .runs.simulation_answer import PlacedWorkload, SimulationDocument
from .runs.summary import Summary
from .template_capacity import CapacityDocument

# ---- check and plan: lines and tables ----------------------------------------------------------------------

Titled = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A caption, headings and rows."""


def answer_page(title: str, lines: Sequence[str], facts: KeyFigures | None, tables: Iterable[Titled]) -> Page:
    """Return a page whose headline is the first line."""
    page = Page(title, lines[0])
    page.add("Answer", facts, Lines(lines[1:]) if lines[1:] else None, *map(_grid, tables))
    return page


def _grid(table: Titled) -> Grid:
    """Return a table whose columns of whole numbers are such."""
    caption, headings, rows = table
    numeric = [all(row[at].isdecimal() for row in rows) for at in range(len(headings))]
    cells: list[list[Cell]] = [
        [int(cell) if is_number else cell for cell, is_number in zip(row, numeric, strict=True)]
        for row in rows
    ]
    return _in_lower_case(caption, headings, cells)


def _in_lower_case(caption: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Grid:
    """Return a table with headings in lower case, but for names."""
    return shortened(
        caption, [heading.lower() if heading.isupper() else heading for heading in headings], rows
    )


# ---- capacity, with the use of nodes before ----------------------------------------------------------------


def capacity_page(document: CapacityDocument, use: NodeUse, lines: Sequence[str]) -> Page:
    """Return the page of a capacity.

    Parameters
    ----------
    use : NodeUse
        Without the replicas that were counted.
    lines : sequence of str
        What the command prints: the answer, then what stops the next one.
    """
    replicas: Counter[str] = Counter()
    for each in document.templates:
        replicas.update(each.nodes)
    names = ", ".join(each.name for each in document.templates)
    page = Page(f"Capacity for {names}", lines[0])
    facts = [KeyFigure(f"replicas of {each.name}", amount(each.count)) for each in document.templates]
    rounds = f"gangs of {amount(document.gang.size)}" if document.gang else "rounds"
    facts += [
        KeyFigure("nodes with replicas", amount(len(replicas))),
        KeyFigure(rounds, amount(document.rounds)),
    ]
    skipped = [
        f"{each.name} is not scheduled now: {each.skipped}" for each in document.templates if each.skipped
    ]
    page.add("Summary", KeyFigures(facts), Lines(skipped, True) if skipped else None)
    page.add("What stops the next one", Lines(lines[1:]), _binding_rule(document))
    page.add("Where replicas fit", _placement_map(use, replicas), _nodes(document))
    page.add("Utilization without them", total_grid(use), group_grid(use, "zone"), group_grid(use, "pool"))
    return page


def _binding_rule(document: CapacityDocument) -> Grid:
    rows: list[list[Cell]] = []
    for each in document.binding:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in each.reasons.items())
        rows.append([each.value or "(none)", each.nodes, each.resource, reasons])
    caption = f"Reasons against the next replica, by {document.label}"
    return shortened(caption, (document.label, "nodes", "resource that binds", "reasons"), rows)


def _placement_map(use: NodeUse, replicas: Mapping[str, int]) -> Any:
    """Return the heat map of nodes, first by replicas, in per cent of those of the node with the most."""
    most = max(replicas.values(), default=0)
    if not most:
        return heat_map(use)
    part = np.array([100.0 * replicas.get(name, 0) / most for name in use.names])
    return heat_map(use, {f"replicas, in % of the most ({most:,})": part})


def _nodes(document: CapacityDocument) -> Grid:
    rows: list[list[Cell]] = []
    for each in document.templates:
        most = max(each.nodes.values(), default=1)
        for node, count in sorted(each.nodes.items(), key=lambda item: -item[1]):
            rows.append([each.name, node, Bar(100 * count / most, amount(count))])
    headings = ("template", "node", "replicas")
    return shortened("Replicas by node, the most first", headings, rows, (0,), "-o csv has every node.")


# ---- compare -----------------------------------------------------------------------------------------------


def comparison_page(document: CompareDocument, names: Sequence[str], lines: Sequence[str]) -> Page:
    """Return the page of runs side by side.

    Parameters
    ----------
    document : CompareDocument
    names : sequence of str
        Of the alternatives.
    lines : sequence of str
        What the command prints; the first one is the answer.
    """
    alternatives, differences = document.alternatives, document.differences
    page = Page(f"Comparison of {' and '.join(names)}", lines[0])
    facts = []
    for name, alternative in zip(names, alternatives, strict=True):
        missing = alternative.measures.get("without a node", 0)
        status = "warn" if missing else "good"
        facts.append(KeyFigure(f"without a node: {name}", amount(missing), status))
    page.add("Summary", KeyFigures(facts), Lines(lines[1:], True) if lines[1:] else None)
    page.add(
        "Measures",
        _measures(alternatives, names),
        Lines(["In brackets: the difference from the first."], True),
    )
    if document.releases:
        page.add("What makes the differences", *_causes(document.releases, names))
    if not differences:
        page.add("Pods that differ", Lines(["Every pod is in the same place."]))
        return page
    more = ("change", "reason") if document.releases else ()
    rows: list[list[Cell]] = [
        [difference.pod, *difference.places, *(getattr(difference, name) for name in more)]
        for difference in differences
    ]
    head = ["pod", *names, *more]
    pods = shortened("Pods that are not in the same place", head, rows, (), "-o csv has them all.")
    page.add(f"Pods that differ ({amount(len(differences))})", _moves(names, differences), pods)
    return page


def _measures(alternatives: Sequence[ComparedRun], names: Sequence[str]) -> Grid:
    measures = [alternative.measures for alternative in alternatives]
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(name for each in measures for name in each):
        rows.append([name])
        first = measures[0].get(name)
        for each in measures:
            value = each.get(name)
            if value is None:
                rows[-1].append(None)
                continue
            change = "" if first is None or value == first else f" ({value - first:+,.6g})"
            text = f"{amount(round(value, 2))}{change}"
            rows[-1].append(Bar(value, text) if name.endswith("use %") else text)
    return shortened("Measures", ["measure", *names], rows)


def _causes(releases: ComparedReleases, names: Sequence[str]) -> Iterator[Grid]:
    """Return how many pods differ in what way and because of what, and what the behaviours are."""
    groups: list[list[Cell]] = [
        [group.change, group.because, amount(group.pods)] for group in releases.groups
    ]
    yield shortened("Changes", ("change", "because of", "pods"), groups)
    behaviours: list[list[Cell]] = [
        [behaviour.name, *behaviour.values, behaviour.text] for behaviour in releases.behaviours
    ]
    yield shortened("Behaviours", ("behaviour", *names, "what it is"), behaviours)


def _moves(names: Sequence[str], differences: Sequence[DifferingPod]) -> Grid:
    """Return how many pods go from where to where between the first alternative and each other one."""
    moves: Counter[tuple[str, str, str]] = Counter()
    for difference in differences:
        first, *others = difference.places
        for name, place in zip(names[1:], others, strict=True):
            if place != first:
                moves[name, first or "no such pod", place or "no such pod"] += 1
    rows: list[list[Cell]] = [
        [*move, count] for move, count in sorted(moves.items(), key=lambda item: (-item[1], item[0]))
    ]
    return shortened("Moves", ("alternative", f"in {names[0]}", "there", "pods"), rows, (0,))


# ---- explain, with a headline and a summary ----------------------------------------------------------------

Json = Mapping[str, Any]
Told = list[str] | tuple[str, Sequence[str], Sequence[Sequence[Cell]]]
"""Lines; or a table: its caption, headings and rows."""


def explanation_page(items: Sequence[ExplainedPods], blocks_of_items: Sequence[Iterable[Told]]) -> Page:
    """Return the page of explanations.

    Parameters
    ----------
    blocks_of_items : sequence of iterable of Told
        What the command prints of each item.
    """
    failed = [item for item in items if not item.explanation.fits]
    name = _whom(items[0]) if len({_whom(item) for item in items}) == 1 else "pods without a node"
    page = Page(f"Explanation of {name}", _headline(items, failed))
    if len(items) != 1:
        rows: list[list[Cell]] = [_row(item) for item in items]
        headings = ("workload", "pods", "fits on nodes", "what would help")
        page.add(
            "Summary", shortened("Explained pods", headings, rows) if rows else Lines(["Nothing to explain."])
        )
    for item, blocks in zip(items, blocks_of_items, strict=True):
        page.add(_whom(item), _facts(item), *map(_explanation_block, blocks))
    return page


def _whom(item: ExplainedPods) -> str:
    """What was asked about, as ``deployment/shop/web``: the names of its pods may be made up."""
    kind, _, name = item.workload.partition("/")
    return f"{kind}/{item.namespace}/{name}"


def _headline(items: Sequence[ExplainedPods], failed: Sequence[ExplainedPods]) -> str:
    if not items:
        return "Every pod has a node or gets one."
    if len(items) == 1:
        nodes = items[0].explanation.nodes
        pod = _whom(items[0])
        start = pod if pod.startswith("pod/") else f"A pod of {pod}"
        return f"{start} fits {amount(nodes.feasible)} of {amount(nodes.total)} nodes."
    pods = sum(len(item.pods) for item in failed)
    helped = sum(bool(item.explanation.changes) for item in failed)
    return (
        f"{amount(pods)} pods of {amount(len(failed))} kinds fit no node; "
        f"a single change would help {amount(helped)} of the kinds."
    )


def _row(item: ExplainedPods) -> list[Cell]:
    seen = item.explanation
    first = seen.changes[0].text if seen.changes else ""
    return [_whom(item), len(item.pods), seen.nodes.feasible, first]


def _facts(item: ExplainedPods) -> KeyFigures:
    seen, nodes = item.explanation, item.explanation.nodes
    return KeyFigures(
        [
            KeyFigure("nodes that fit", amount(nodes.feasible), "" if seen.fits else "warn"),
            KeyFigure("nodes", amount(nodes.total)),
            KeyFigure("pods like it", amount(len(item.pods))),
        ]
    )


def _explanation_block(block: Told) -> Block:
    """Return lines, or a table."""
    if isinstance(block, list):
        return Lines([line.strip() for line in block if line])
    return _in_lower_case(*block)


# ---- pods without a node, by cause -------------------------------------------------------------------------

EXPLAINED = 12
"""Maximum number of causes that are shown; the first pod of each is explained."""
HELPS = 4
WORKLOADS = 4
Explain = Callable[[str | Pod], ExplanationDocument]
"""Returns the answer of `moorage explain` for a pod or ``namespace/name``."""


class PendingCause(Struct):
    """Pods without a node for one cause.

    Attributes
    ----------
    title : str
        What the scheduler says of nodes, the most frequent reason first; or what the pod waits for.
    pod : str
        ``namespace/name`` of one of them that can be explained; "" for none.
    gone : Pod or None
        That pod, if the cluster does not have it any more.
    message : str
        The text of the scheduler about one of them.
    is_mild : bool
        Whether nobody has to do anything: gated, waiting, or not for this scheduler.
    helps : list of str
        Changes that place the pod, each tried by the engine.
    """

    title: str
    pods: int = 0
    pod: str = ""
    gone: Pod | None = None
    message: str = ""
    by_workload: Counter[str] = msgspec.field(default_factory=Counter)
    is_mild: bool = False
    helps: list[str] = msgspec.field(default_factory=list)
    note: str = ""

    @property
    def workloads(self) -> str:
        """The workloads with the most pods."""
        named = by_count(self.by_workload).items()
        texts = [f"{name} ({count:,})" if count > 1 else name for name, count in named]
        return first_of(texts, WORKLOADS)


def causes_block(causes: Iterable[PendingCause], explain: Explain | None) -> Causes | None:
    """Return causes, those of the most pods first, with what would help; None if there is no cause."""
    ordered = sorted(causes, key=lambda cause: (cause.is_mild, -cause.pods, cause.title))
    for cause in ordered[:EXPLAINED]:
        if cause.pod and explain is not None:
            cause.helps, cause.note = _help(explain(cause.gone or cause.pod), cause.pod)
    if not ordered:
        return None
    return Causes(ordered[:EXPLAINED], sum(cause.pods for cause in ordered[EXPLAINED:]))


def _help(document: ExplanationDocument, pod: str) -> tuple[list[str], str]:
    """Return what would help a pod, and what else is to be said."""
    helps = [_change(change) for change in document.changes]
    if document.preemption is not None and document.preemption.raised_priority is not None:
        helps.append(document.preemption.raised_priority.text)
    helps += [
        " and ".join(change.text for change in pair.changes) + _nodes_text(pair.feasible_nodes)
        for pair in document.change_pairs
    ]
    tried = f"Tried for {pod} alone in the cluster as it is in the end."
    if helps:
        return helps[:HELPS], tried
    if document.fits:
        return [], f"In the end {pod} fits; it is tried again when something changes."
    if document.blocked:
        return [], f"{pod} fits no node even without its constraints: {document.blocked}"
    conflicts = "; ".join(
        " with ".join(f"{constraint.kind} {constraint.name}".strip() for constraint in conflict)
        for conflict in document.conflicts
    )
    why = f". No node satisfies {conflicts}." if conflicts else "."
    return [], f"{pod}: {document.nothing_places}{why}" if document.nothing_places else ""


def _change(change: ChangeDocument) -> str:
    others = (change.eligible_nodes or 1) - 1
    text = change.text + (f", or one of {others:,} others" if others > 0 else "")
    if change.reduction:
        text += f" ({100 * change.reduction:.0f} % less)"
    return text + (_nodes_text(change.feasible_nodes) if change.feasible_nodes else "")


def _nodes_text(count: int) -> str:
    return f": fits {count:,} {'node' if count == 1 else 'nodes'}"


# ---- simulate, with the use of nodes and explanations ------------------------------------------------------

MILD = ("gated", "other-scheduler", "terminating", "waiting", "kept", "replaced")
"""Status of pods for which nobody has to find a node."""
UNSCHEDULABLE = "unschedulable"


def simulation_page(
    document: SimulationDocument, use: NodeUse, explain: Explain | None, lines: Sequence[str]
) -> Page:
    """Return the page of a run.

    Parameters
    ----------
    document : SimulationDocument
    use : NodeUse
        After the run.
    explain : Explain or None
        Called for one pod of each of the most frequent causes.
    lines : sequence of str
        What the command prints; the first one is the answer.
    """
    summary = document.summary
    workloads = document.workloads or []
    without = sum(group.pods for workload in workloads for group in workload.without_node)
    page = Page("Simulation", f"{lines[0]}.{use_sentence(use)}")
    more = Lines(lines[1:]) if lines[1:] else None
    page.add("Summary", _run_facts(summary, use), more)
    if workloads or not summary.unschedulable:
        block = causes_block(_causes_of_run(document), explain)
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


def _run_facts(summary: Summary, use: NodeUse) -> KeyFigures:
    failed = summary.unschedulable
    facts = [
        KeyFigure("nodes", amount(summary.nodes)),
        KeyFigure("pods placed", amount(summary.placed)),
        KeyFigure("pods that fit no node", amount(failed), "warn" if failed else "good"),
        KeyFigure("running before", amount(summary.running)),
    ]
    if summary.evicted:
        facts.append(KeyFigure("evicted", amount(summary.evicted), "warn"))
    facts += [KeyFigure(f"skipped: {why}", amount(count)) for why, count in summary.skipped.items()]
    return KeyFigures([*facts, *use_facts(use)])


def use_facts(use: NodeUse) -> list[KeyFigure]:
    """Return the requested part of cpu and memory."""
    names = [name for name in ("cpu", "memory") if name in use.requested and use.total(name) >= 0]
    return [KeyFigure(f"{name} requested", f"{use.total(name):.1f} %") for name in names]


def _reasons(summary: Summary) -> Grid:
    rows: list[list[Cell]] = [[reason, count] for reason, count in summary.reasons.items()]
    return shortened("Reasons of the scheduler", ("reason", "pods"), rows)


def _causes_of_run(document: SimulationDocument) -> list[PendingCause]:
    """Group the pods without a node by status and reasons of nodes."""
    first = {
        (row.namespace, row.workload, row.reason): f"{row.namespace}/{row.pod}"
        for row in reversed(document.pods or [])
        if row.status == UNSCHEDULABLE
    }
    causes: dict[tuple[str, ...], PendingCause] = {}
    for workload in document.workloads or []:
        for group in workload.without_node:
            reason = group.reason or group.status
            if group.status != UNSCHEDULABLE:
                reason = f"{group.status}: {group.reason}"
            titles = reasons_of(group.rejections) or [reason]
            key = (group.status, *sorted(titles))
            cause = causes.setdefault(key, PendingCause(", ".join(titles), is_mild=group.status in MILD))
            if not cause.pods:
                cause.message = group.reason
                cause.pod = first.get((workload.namespace, workload.workload, group.reason), "")
            cause.pods += group.pods
            cause.by_workload[f"{workload.namespace}/{workload.workload}"] += group.pods
    return list(causes.values())


def reasons_of(rejections: Sequence[NodeRejection]) -> list[str]:
    """Return the reasons of nodes, those of the most nodes first."""
    counts: Counter[str] = Counter()
    for rejection in rejections:
        for reason in rejection.reasons:
            counts[reason] += rejection.nodes
    return sorted(counts, key=lambda reason: (-counts[reason], reason))


def _workload_grid(workloads: Sequence[PlacedWorkload]) -> Grid:
    rows: list[list[Cell]] = []
    for workload in sorted(workloads, key=lambda workload: -_missing(workload)):
        on_nodes = workload.already_bound + workload.placed
        placed = [f"{name} ({count:,})" if count > 1 else name for name, count in workload.nodes.items()]
        status = "without a node" if _missing(workload) else "placed"
        numbers = workload.pods, on_nodes, _missing(workload)
        rows.append([workload.namespace, workload.workload, status, *numbers, first_of(placed, 3)])
    headings = ("namespace", "workload", "status", "pods", "with node", "without", "placed on")
    caption = "Workloads, those with the most pods without a node first"
    return shortened(caption, headings, rows, (0, 2), "-o csv has every pod.")


def _missing(workload: PlacedWorkload) -> int:
    return sum(group.pods for group in workload.without_node)
