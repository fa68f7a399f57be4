"""Output of ``moorage check``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.cli.runs.gate import Finding, Verdict
from moorage.cli.runs.simulation import KEPT, PLACED, Simulation
from moorage.objects.workloads.top_controller import Workload

from .printing import Table, ignore_broken_pipe, print_lines, told, write_tables, write_value
from .run_output import by_workload, unplaced_document

API_VERSION = "check.moorage.dev/v1"


def write_verdict(form: str, simulation: Simulation, verdict: Verdict) -> None:
    """Print the answer of the gate.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "name"}
        ``wide`` names all pods of a row; ``name`` prints ``pod/NAME`` of each pod that is a failure.
    simulation : Simulation
    verdict : Verdict
    """
    with ignore_broken_pipe():
        if form == "name":
            failed = (finding.group.outcomes for finding in verdict.findings if finding.counts)
            print(*(f"pod/{one.pod.name}\n" for outcomes in failed for one in outcomes), sep="", end="")
        elif form in ("json", "yaml"):
            write_value(form, _document(verdict) | told(simulation.cluster.left_out, simulation.warnings()))
        else:
            if form != "csv":
                print_lines(_head(verdict))
                print()
            table = _table(simulation, verdict, form in ("wide", "csv"))
            write_tables("table" if form == "wide" else form, [table])


def _head(verdict: Verdict) -> Iterator[str]:
    kept = sum(one.pods for one in verdict.findings if one.counts and one.group.status == KEPT)
    failed = verdict.failed - kept
    if failed:
        yield f"FAIL: {failed} {'pod has' if failed == 1 else 'pods have'} no node"
    if kept:
        yield f"FAIL: {kept} {'pod stays' if kept == 1 else 'pods stay'} on a drained node"
    if verdict.passed and not verdict.placed:
        yield "PASS: no pod has to find a node"
    elif verdict.passed:
        yield f"PASS: {verdict.placed} {'pod has' if verdict.placed == 1 else 'pods have'} found a node"
    others = sum(finding.pods for finding in verdict.findings if not finding.counts)
    if others:
        yield f"not counted: {others}"


def counts_text(finding: Finding) -> str:
    """Return whether the pods of a finding are a failure, and if not, why.

    Parameters
    ----------
    finding : Finding

    Returns
    -------
    str
    """
    if finding.counts:
        return "yes, waited before" if finding.waited else "yes"
    return "no, allowed" if finding.allowed else "no, waited before"


def _table(simulation: Simulation, verdict: Verdict, names_pods: bool) -> Table:
    with_node: dict[Workload, str] = {}
    for workload, members in by_workload(simulation.outcomes).items():
        running = simulation.running[workload]
        placed = sum(one.status == PLACED for one in members)
        with_node[workload] = f"{running + placed}/{running + len(members)}"
    rows = []
    for finding in verdict.findings:
        workload, status, reason, outcomes = finding.group
        names = [", ".join(one.pod.name for one in outcomes)] if names_pods else []
        numbers = with_node.get(workload, ""), str(len(outcomes)), status, counts_text(finding)
        rows.append((workload.namespace, workload.text, *numbers, *names, reason))
    columns = ("WITH NODE", "PODS", "PROBLEM", "COUNTS", *(["NAMES"] if names_pods else []), "REASON")
    return Table(("NAMESPACE", "WORKLOAD", *columns), rows)


def _document(verdict: Verdict) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Check",
        "passed": verdict.passed,
        "placed": verdict.placed,
        "failed": verdict.failed,
        "findings": [_finding(finding) for finding in verdict.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    group = finding.group
    names = [one.pod.name for one in group.outcomes]
    head = {"namespace": group.workload.namespace, "workload": group.workload.text, "names": names}
    judged = {"counts": finding.counts, "waitedBefore": finding.waited, "allowed": finding.allowed}
    return head | unplaced_document(group) | judged
