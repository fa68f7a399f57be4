"""Output of ``moorage capacity``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.answers.scheduler import Scheduler
from moorage.answers.template_capacity import Capacity
from moorage.cluster.changes.selection import short_label
from moorage.errors import number_of

from .printing import Table, write_answer

if TYPE_CHECKING:
    from .printing import PageOf

API_VERSION = "capacity.moorage.dev/v1"


def write_capacity(
    form: str,
    found: Capacity,
    verbose: bool,
    scheduler: Scheduler,
    told: Mapping[str, Any],
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
    told : mapping of str to object
        Fields of JSON about the input.
    alone : mapping of str to int
        Where no round fits, how many replicas of the templates that do not stop it fit by themselves.
    """

    def page() -> PageOf:
        from moorage.answers.answer_pages import capacity_page
        from moorage.answers.node_use import current_use

        made = capacity_page(_document(found), current_use(scheduler), lines)
        return made, [told["release"]], told["warnings"]

    gangs = ", ".join(f"{number} in {domain}" for domain, number in found.domains.items())
    fit = ", ".join(f"{count} of {name}" for name, count in alone.items())
    told_of = _headline(found), gangs and f"gangs: {gangs}", _end(found), fit and f"alone fit: {fit}"
    lines = [*filter(None, told_of)]
    tables = [_counts(found), _binding(found), *([_nodes(found)] if verbose else [])]
    document = _document(found) | dict(told)
    write_answer(form, lambda: document, lines, tables, lambda: _nodes(found), page)


def _document(found: Capacity) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Capacity"} | found.to_dict()


def _headline(found: Capacity) -> str:
    counts = ", ".join(f"{each.count} of {each.name}" for each in found.templates)
    if found.gang:
        return f"{number_of(found.rounds, 'gang', 'gangs')} of {found.gang} pods fit: {counts}"
    if len(found.templates) > 1:
        return f"{number_of(found.rounds, 'round', 'rounds')} fit: {counts}"
    return f"{found.count} of {found.templates[0].name} fit"


def _end(found: Capacity) -> str:
    """Return why the count has ended, in one line."""
    if not found.failed:
        return f"limit of {found.rounds} reached"
    if found.rest:
        fit = f"{found.rest} of the {found.gang} pods of the next gang fit"
        return f"{fit}; next replica of {found.failed}: {found.message}"
    return f"next replica of {found.failed}: {found.message}"


def _counts(found: Capacity) -> Table:
    some = any(each.skipped for each in found.templates)
    gangs = [str(found.rounds)] if found.gang else []
    rows = [
        (each.name, *gangs, str(each.share), str(each.count), str(len(each.nodes)))
        + ((each.skipped,) if some else ())
        for each in found.templates
    ]
    named = ["GANGS"] if found.gang else []
    columns = ("TEMPLATE", *named, "SHARE", "REPLICAS", "NODES", *(["NOT SCHEDULED NOW"] if some else []))
    return Table(columns, rows)


def _binding(found: Capacity) -> Table:
    rows = []
    some = any(each.devices for each in found.binding)
    for each in found.binding:
        reasons = ", ".join(f"{count} {reason}" for reason, count in each.reasons.items())
        devices = "; ".join(f"{count} {request}" for request, count in each.devices.items())
        cells = each.value or "(none)", str(each.nodes), each.resource, reasons
        rows.append((*cells, *([devices] if some else [])))
    headings = "NODES", "BINDING RESOURCE", "REASONS", *(["DEVICES"] if some else [])
    columns = (short_label(found.label), *headings)
    return Table(columns, rows)


def _nodes(found: Capacity) -> Table:
    columns = found.table().to_dict()
    rows = list(zip(columns["template"], columns["node"], map(str, columns["replicas"]), strict=True))
    return Table(("TEMPLATE", "NODE", "REPLICAS"), rows)
