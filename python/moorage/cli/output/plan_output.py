"""Output of ``moorage plan …``: the line and the table of a result, or its document."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from moorage.answers.new_nodes import NodesNeeded
from moorage.answers.node_emptying import EmptyingPlan
from moorage.answers.placement_bound import Bound
from moorage.autoscalers.consolidation_rounds import Consolidation
from moorage.errors import first_of, number_of
from moorage.table import Tabular

from .printing import COMMENT_ROWS, Table, columns_table, write_answer

if TYPE_CHECKING:
    from .printing import PageOf

TITLES = {
    "NodesNeeded": ("New nodes that pods need", "New nodes"),
    "EmptyingPlan": ("Moves that empty nodes", "Moves"),
    "Consolidation": ("Which nodes Karpenter removes", "Commands"),
    "Bound": ("How many pods can be placed at most", "What is the limit"),
}
"""Of a page and its first table, by the kind of the answer."""
API_VERSION = "plan.moorage.dev/v1"


def write_plan(form: str, found: Tabular, told: Mapping[str, Any]) -> None:
    """Print an answer.

    Parameters
    ----------
    form : {"table", "json", "yaml", "csv", "markdown", "html"}
    found : Tabular
        A `NodesNeeded`, an `EmptyingPlan`, a `Bound`, or a `Consolidation`.
    told : mapping of str to object
        Fields of JSON about the input.
    """
    kind = type(found).__name__
    table = columns_table(found.table(), 12 if form == "csv" else 6)
    lines = [found.headline(), *_left_out(found)]

    def page() -> PageOf:
        from moorage.answers.answer_pages import answer_page

        title, caption = TITLES[kind]
        tables = [(caption, *table), *((one.headings[0].capitalize(), *one) for one in _more(found))]
        return answer_page(title, lines, None, tables), [told["release"]], told["warnings"]

    def document() -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": kind} | found.to_dict() | dict(told)

    write_answer(form, document, lines, chain([table], _more(found, COMMENT_ROWS)), page=page)


def _left_out(found: Tabular) -> Iterator[str]:
    """Yield what an answer does not take into account, a line each."""
    if isinstance(found, NodesNeeded) and found.over_limits:
        yield f"autoscalers would not make them: {'; '.join(found.over_limits)}"
    if isinstance(found, Bound | NodesNeeded):
        for why, count in (found.skipped or {}).items():
            yield f"not asked about: {number_of(count, 'pending pod', 'pending pods')} ({why})"
    if isinstance(found, Consolidation):
        yield from found.remarks()
    if isinstance(found, Bound):
        for text in found.relaxed:
            yield f"relaxed: {text}"


def _places(found: Consolidation, most: int) -> Table:
    """Which pods each node takes after each command; at most so many rows."""
    rows = []
    for number, step in enumerate(found.steps, 1):
        by_node: dict[str, list[str]] = {}
        for pod, node in step.placed.items():
            by_node.setdefault(node, []).append(pod)
        rows += [(str(number), node, first_of(pods, 3)) for node, pods in sorted(by_node.items())]
    if len(rows) > most:
        rows = [*rows[:most], (f"… and {len(rows) - most} more", "", "see -o json")]
    return Table(("AFTER COMMAND", "NODE", "TAKES"), rows)


def _more(found: Tabular, most: int = sys.maxsize) -> Iterator[Table]:
    """Yield what a table of moves or counts leaves out; at most so many rows of what can be many."""
    if isinstance(found, EmptyingPlan):
        title = f"NODE WITH FREE {found.resource}" if found.resource else "EMPTIED NODE"
        yield Table((title,), [(node,) for node in found.nodes])
        yield Table(
            ("BLOCKED BY", "NODE", "REASON"), [(one.pod, one.node, one.reason) for one in found.blockers]
        )
    if isinstance(found, Consolidation):
        yield _places(found, most)
        by_why: dict[str, list[str]] = {}
        for one in found.stays:
            by_why.setdefault(one.message, []).append(one.node)
        rows = [(first_of(nodes, most), why) for why, nodes in by_why.items()]
        yield Table(("NODE THAT STAYS", "WHY"), rows)
    if isinstance(found, NodesNeeded):
        yield Table(("NO PLACE FOR", "REASON"), list(found.unplaced.items()))
