"""Output of ``moorage plan …``: the line and the table of a result, or its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.errors import number_of
from moorage.planning.bounds.placement_bound import Bound
from moorage.planning.new_nodes.node_demand import NodesNeeded
from moorage.planning.node_emptying import EmptyingPlan
from moorage.tables import Tabular

from .printing import Table, ignore_broken_pipe, print_lines, write_tables, write_value

TITLES = {
    "NodesNeeded": "New nodes that pods need",
    "EmptyingPlan": "Moves that empty nodes",
    "Bound": "How many pods can be placed at most",
}
"""Of pages, by the kind of the answer."""
API_VERSION = "plan.moorage.dev/v1"


def write_plan(form: str, found: Tabular, told: Mapping[str, Any]) -> None:
    """Print an answer.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "html"}
    found : Tabular
        A `NodesNeeded`, an `EmptyingPlan`, or a `Bound`.
    told : mapping of str to object
        Fields of JSON about the input.
    """
    with ignore_broken_pipe():
        if form in ("json", "yaml"):
            head = {"apiVersion": API_VERSION, "kind": type(found).__name__}
            write_value(form, head | found.to_dict() | dict(told))
            return
        columns = found.table().to_dict()
        rows = [
            ["" if cell != cell else str(cell) for cell in row] for row in zip(*columns.values(), strict=True)
        ]
        table = Table([name.upper() for name in columns], rows)
        if form == "csv":
            write_tables(form, [table])
            return
        if form == "html":
            from moorage.report import answer_page

            from .pages import write_page

            lines = [found.headline(), *_left_out(found)]
            tables = [("Answer", *table), *((one.headings[0].capitalize(), *one) for one in _more(found))]
            page = answer_page(TITLES[type(found).__name__], lines, None, tables)
            write_page(page, [told["release"]], told["warnings"])
            return
        print_lines([found.headline(), *_left_out(found), ""], form)
        write_tables(form, [table, *_more(found)])


def _left_out(found: Tabular) -> Iterator[str]:
    """Yield what an answer does not take into account, a line each."""
    if isinstance(found, Bound | NodesNeeded):
        for why, count in (found.skipped or {}).items():
            yield f"not asked about: {number_of(count, 'pending pod', 'pending pods')} ({why})"
    if isinstance(found, Bound):
        for text in found.relaxed:
            yield f"relaxed: {text}"


def _more(found: Tabular) -> Iterator[Table]:
    """Yield what a table of moves or counts leaves out."""
    if isinstance(found, EmptyingPlan):
        title = f"NODE WITH FREE {found.resource}" if found.resource else "EMPTIED NODE"
        yield Table((title,), [(node,) for node in found.nodes])
        yield Table(
            ("BLOCKED BY", "NODE", "REASON"), [(one.pod, one.node, one.reason) for one in found.blockers]
        )
    if isinstance(found, NodesNeeded):
        yield Table(("NO PLACE FOR", "REASON"), list(found.unplaced.items()))
