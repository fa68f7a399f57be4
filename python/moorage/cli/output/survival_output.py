"""Output of ``moorage check --survive``: which losses leave pods without a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moorage.errors import number_of

from .printing import Table

if TYPE_CHECKING:
    from moorage.planning.survival import Survival


def survival_lines(survival: Survival, all_have_node: bool) -> Iterator[str]:
    """Yield the answer and what was tried.

    Parameters
    ----------
    all_have_node : bool
        Whether the gate passes before any loss, without which nothing is a PASS.
    """
    if survival:
        head = "PASS" if all_have_node else "losses"
        yield f"{head}: every pod finds a place after the loss of any {survival.by}"
    else:
        losses = number_of(len(survival.losses), "loss leaves", "losses leave")
        yield f"FAIL: {losses} pods without a place"
    yield f"tried: {survival.searched}"
    if survival.without_label:
        nodes = number_of(survival.without_label, "node has", "nodes have")
        yield f"not tried: {nodes} no label {survival.by}"


def survival_table(survival: Survival) -> Table:
    """Return a row for each loss, workload and reason, those that leave most pods out first."""
    from moorage.planning.survival import NODE, lost_by_workload

    rows = []
    for loss in survival.losses:
        for (namespace, workload, reason), count in lost_by_workload(loss).items():
            numbers = str(loss.nodes), str(loss.pods), str(len(loss.lost))
            rows.append((", ".join(loss.domains), *numbers, namespace, workload, str(count), reason))
    first = "NODE" if survival.by == NODE else survival.by
    headings = first, "NODES", "PODS", "NO PLACE", "NAMESPACE", "WORKLOAD", "OF IT", "REASON"
    return Table(headings, rows)


def survival_document(survival: Survival | None) -> dict[str, Any]:
    """Return the field of a document about losses; none without an answer."""
    return {} if survival is None else {"survival": survival.to_dict()}
