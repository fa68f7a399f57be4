"""Output of ``moorage check --survive``: which losses leave pods without a place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from moorage.cluster.changes.selection import short_label
from moorage.errors import number_of

from ..runs.gate import Finding, LossFinding, Verdict
from .printing import Table

if TYPE_CHECKING:
    from moorage.answers.survival import Survival


def compared_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what was compared: nodes that come, changes, releases, losses; without what failed."""
    if (grown := verdict.compared.grown) is not None:
        yield grown.text()
    yield from verdict.compared.lines()
    if verdict.survival is not None:
        yield from islice(survival_lines(verdict.survival, verdict), bool(verdict.failed_losses), None)


def survival_lines(survival: Survival, verdict: Verdict) -> Iterator[str]:
    """Yield the answer and what was tried; nothing is a PASS where pods have no node before any loss."""
    if failed := verdict.failed_losses:
        yield f"FAIL: {number_of(failed, 'loss leaves', 'losses leave')} pods without a place"
    else:
        head = "losses" if verdict.failed else "PASS"
        which = "that counts " if survival.losses else ""
        yield f"{head}: every pod {which}finds a place after the loss of any {short_label(survival.by)}"
    yield f"tried: {survival.searched}"
    if survival.without_label:
        nodes = number_of(survival.without_label, "node has", "nodes have")
        yield f"not tried: {nodes} no label {short_label(survival.by)}"


def survival_table(survival: Survival, losses: Iterable[LossFinding]) -> Table:
    """Return a row for each loss, workload and reason: first those that count, and that leave most pods
    out."""
    from moorage.answers.survival import NODE

    rows = []
    for finding in losses:
        loss, pod = finding.loss, finding.lost[0]
        numbers = str(loss.nodes), str(loss.pods), str(len(loss.lost))
        of_it = str(len(finding.lost)), counts_text(finding)
        rows.append((", ".join(loss.domains), *numbers, finding.namespace, pod.workload, *of_it, pod.reason))
    first = "NODE" if survival.by == NODE else short_label(survival.by)
    headings = first, "NODES", "PODS", "NO PLACE", "NAMESPACE", "WORKLOAD", "OF IT", "COUNTS", "REASON"
    return Table(headings, rows)


def counts_text(finding: Finding | LossFinding) -> str:
    """Return whether the pods of a finding are a failure, and if not, why."""
    if isinstance(finding, LossFinding):
        why = "allowed" if finding.allowed else "as before"
        return "yes" if finding.counts else f"no, {why}"
    if finding.counts:
        return "yes, waited before" if finding.waited else "yes"
    return "no, allowed" if finding.allowed else "no, waited before"
