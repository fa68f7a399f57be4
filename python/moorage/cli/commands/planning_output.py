"""Output of ``moorage capacity`` and ``plan``: how many fit, what is needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from moorage.answers.bounds.placement_bound import Bound
from moorage.answers.new_nodes import NodesNeeded
from moorage.answers.node_emptying import EmptyingPlan
from moorage.answers.queues.quota_plan import QuotaPlan
from moorage.answers.scheduler import Scheduler
from moorage.answers.template_capacity import Capacity
from moorage.answers.text_tables import PrintedTable
from moorage.autoscalers.consolidation_rounds import Consolidation
from moorage.cluster.references import short_label
from moorage.errors import first_of, number_of
from moorage.grouped import grouped
from moorage.table import Tabular

from .printing import COMMENT_ROWS, columns_table, write_answer

if TYPE_CHECKING:
    from moorage.kube.model.about_input import AboutInput

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
    "QuotaPlan": ("Quotas that admit what waits", "Quotas"),
    "Bound": ("How many pods can be placed at most", "What is the limit"),
}
"""Of a page and its first table, by the kind of the answer."""


def write_plan(form: str, answer: Tabular, about: AboutInput) -> None:
    """Print an answer.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "html"}
    answer : Tabular
        A `NodesNeeded`, an `EmptyingPlan`, a `Bound`, a `QuotaPlan`, or a `Consolidation`.
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

    def rows() -> PrintedTable:
        return _emptied(answer) if isinstance(answer, EmptyingPlan) else table

    tables = _tables(answer, table, COMMENT_ROWS)
    write_answer(form, lambda: (answer.document(), about), lines, tables, rows, page)


def _tables(answer: Tabular, table: PrintedTable, most: int = sys.maxsize) -> Iterator[PrintedTable]:
    """Yield the tables of an answer, those that decide first; at most so many rows of what can be many."""
    if isinstance(answer, EmptyingPlan):
        yield from blocked_nodes(answer)
    yield table
    yield from _more_plans(answer, most)


def _needed(table: PrintedTable) -> PrintedTable:
    """Return the templates of which some nodes are needed."""
    counts = [at for at, heading in enumerate(table.headings) if heading not in ("TEMPLATE", "PRICE")]
    return table._replace(cells=[row for row in table.cells if any(row[at] != "0" for at in counts)])


def _left_out(answer: Tabular) -> Iterator[str]:
    """Yield what an answer does not take into account, a line each."""
    if isinstance(answer, NodesNeeded):
        yield from answer.facts
    if isinstance(answer, Bound | NodesNeeded):
        for why, count in (answer.skipped or {}).items():
            yield f"not asked about: {number_of(count, 'pending pod', 'pending pods')} ({why})"
    if isinstance(answer, Consolidation | QuotaPlan):
        yield from answer.remarks()
    if isinstance(answer, Bound):
        for text in answer.relaxed:
            yield f"relaxed: {text}"


def _places(consolidation: Consolidation, most: int) -> PrintedTable:
    """Which pods each node takes after each command; at most so many rows."""
    rows = []
    for number, step in enumerate(consolidation.steps, 1):
        by_node = grouped((node, pod) for pod, node in step.placed.items())
        rows += [(str(number), node, first_of(pods, 3)) for node, pods in sorted(by_node.items())]
    if len(rows) > most:
        rows = [*rows[:most], (f"… and {len(rows) - most} more", "", "see -o json")]
    return PrintedTable(("AFTER COMMAND", "NODE", "TAKES"), rows)


def _emptied(plan: EmptyingPlan) -> PrintedTable:
    """Return a row for each pod that moves, and for each that stays; or, where nodes are drained each alone,
    for each node that can be, and for each pod that keeps another."""
    if plan.drained_alone:
        alone = [(node, "yes", "", "") for node in plan.nodes]
        kept = [(blocker.node, "no", blocker.pod, blocker.reason) for blocker in plan.blockers]
        return PrintedTable(("NODE", "CAN BE DRAINED", "POD", "REASON"), [*alone, *kept])
    moves = [(move.pod, move.source, move.target, "") for move in plan.moves]
    stay = [(blocker.pod, blocker.node, "", blocker.reason) for blocker in plan.blockers]
    return PrintedTable(("POD", "SOURCE", "TARGET", "REASON"), [*moves, *stay])


def blocked_nodes(plan: EmptyingPlan) -> Iterator[PrintedTable]:
    """Yield what keeps nodes from being emptied, where the obstacle does not tell it all; and what helps."""
    by_reason = grouped(((blocker.node, blocker.reason), blocker.pod) for blocker in plan.blockers)
    helped = {change.text: list[str]() for change in plan.changes}
    helped |= grouped((text, blocker.pod) for blocker in plan.blockers for text in blocker.changes)
    is_said = [blocker.text for blocker in plan.blockers] == [plan.obstacle()]
    rows = [(node, reason, first_of(pods, 3)) for (node, reason), pods in by_reason.items() if not is_said]
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
        by_why = grouped((stay.message, stay.node) for stay in answer.stays)
        rows = [(first_of(nodes, most), why) for why, nodes in by_why.items()]
        yield PrintedTable(("NODE THAT STAYS", "WHY"), rows)
    if isinstance(answer, NodesNeeded):
        by_reason = grouped((why, pod) for pod, why in answer.unplaced.items())
        yield PrintedTable(
            ("NO PLACE FOR", "REASON"), [(first_of(pods, 3), why) for why, pods in by_reason.items()]
        )
