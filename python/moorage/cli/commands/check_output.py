"""Output of ``moorage check``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moorage.errors import examples, number_of
from moorage.kube.workloads.ownership import Workload

from ..messages import note
from ..runs.gate import HINT, Finding, GroupFit, Removed, Verdict, group_fits
from ..runs.simulation import KEPT, NOT_STARTED, PLACED, REFUSED, PodOutcome, Simulation
from .ci_output import ci_text, compared_lines, counts_text, survival_lines, survival_table, why
from .printing import (
    CommandLine,
    PrintedTable,
    about_input,
    first_rows,
    ignore_broken_pipe,
    print_names,
    release_document,
    without_folders,
    write_answer,
)
from .run_output import by_workload, group_tables, unplaced_document

if TYPE_CHECKING:
    from .printing import PageOf

API_VERSION = "check.moorage.dev/v1"
_EXAMPLES = 5


def write_verdict(
    form: str,
    simulation: Simulation,
    verdict: Verdict,
    removed: Sequence[Removed],
    warnings: Sequence[str],
) -> None:
    """Print the answer of the gate.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "name", "junit", "github", "html"}
        ``wide`` names all pods, with the nodes of those that have found one, and has whole messages;
        ``name`` prints ``pod/NAME`` of each pod that is a failure.
        A CSV file has the losses of ``--survive`` alone.
    warnings : sequence of str
        All that the command prints.
    """
    if form in ("csv", "name"):  # which have rows alone
        for line in compared_lines(verdict):
            note("compared", line)
    if form == "name":
        print_names(_failed_names(verdict))
        return
    if form in ("junit", "github"):
        with ignore_broken_pipe():
            print(ci_text(form, verdict), end="")
        return

    groups = [] if form == "csv" else _groups(simulation, verdict)

    def document() -> dict[str, Any]:
        about = about_input(simulation.cluster, warnings) | {"groups": groups}
        about |= {"removed": list(map(_removed, removed))} | simulation.basis_document()
        return _document(verdict) | about

    tables = {"Pods without a node": _table(simulation, verdict, form in ("wide", "csv"))}
    tables |= zip(("Pod groups",), group_tables(groups), strict=False)
    if form == "wide":
        tables["Pods with a node"] = _placed(simulation)
    if verdict.survival is not None:
        tables["Losses that leave pods without a place"] = survival_table(verdict.survival, verdict.losses)
    if form == "markdown" and verdict.compared.scale_up is not None:
        tables = {title: first_rows(table) for title, table in tables.items()}
    lines = [*_head(verdict), *_changes(removed, form == "wide"), *verdict.compared.lines()]
    command = why(verdict)
    lines += [CommandLine(f"why: {command}")] if command else []

    def page() -> PageOf:
        from moorage.answers.answer_pages import answer_page
        from moorage.answers.page import KeyFigure, KeyFigures

        others = sum(finding.pods for finding in verdict.findings if not finding.counts)
        bad = {"without a node": verdict.failed}
        bad |= {"refused objects": verdict.refused} if verdict.refused else {}
        bad |= {} if verdict.survival is None else {"losses that fail": verdict.failed_losses}
        facts = [KeyFigure("found a node", f"{verdict.placed:,}"), KeyFigure("not counted", f"{others:,}")]
        facts[1:1] = [
            KeyFigure(name, f"{count:,}", "warn" if count else "good") for name, count in bad.items()
        ]
        titled = [(title, *table) for title, table in tables.items()]
        shown = [without_folders(line) if isinstance(line, CommandLine) else line for line in lines]
        result = answer_page("Check", shown, KeyFigures(facts), titled)
        return result, [release_document(simulation.cluster)], warnings

    write_answer(form, document, lines, tables.values(), lambda: [*tables.values()][-1], page)


def _failed_names(verdict: Verdict) -> Iterator[str]:
    """Yield the names of pods that fail the gate, and of objects that do."""
    for finding in verdict.findings:
        if finding.counts:
            outcomes = finding.group.outcomes
            yield from (
                (f"pod/{outcome.pod.name}" for outcome in outcomes)
                if outcomes
                else (finding.group.workload.text,)
            )


def _groups(simulation: Simulation, verdict: Verdict) -> list[GroupFit]:
    """Return the pod groups that have pods without a node."""
    return group_fits(
        simulation, [outcome for finding in verdict.findings for outcome in finding.group.outcomes]
    )


def _head(verdict: Verdict) -> Iterator[str]:
    """Yield the answer: first what fails, and PASS only where nothing does."""
    counted = Counter[str]()
    for finding in verdict.findings:
        counted[finding.group.status] += finding.pods * finding.counts
    kept, idle, unadmitted = counted[KEPT], counted[NOT_STARTED], counted[REFUSED]
    unknown = verdict.not_known(counts=True)
    hinted = sum(finding.pods for finding in verdict.findings if finding.hint)
    failed = verdict.failed - kept - idle - unadmitted - hinted
    if verdict.refused:
        yield f"FAIL: the API server refuses {number_of(verdict.refused, 'object', 'objects')} of the change"
    if unadmitted:
        yield f"FAIL: the API server refuses {number_of(unadmitted, 'pod', 'pods')}"
    if failed:
        scale_up = verdict.compared.scale_up
        came = f", beside {scale_up.text()}" if scale_up is not None and scale_up.up.nodes else ""
        yield f"FAIL: {number_of(failed, 'pod has', 'pods have')} no node{came}"
    if idle:
        yield f"FAIL: {number_of(idle, 'pod has a node and does', 'pods have nodes and do')} not start"
    if kept:
        yield f"FAIL: {number_of(kept, 'pod stays', 'pods stay')} on a drained node"
    if unknown:
        yield f"FAIL: {unknown}{HINT}"
    losses = [] if verdict.survival is None else [*survival_lines(verdict.survival, verdict)]
    yield from losses if verdict.failed_losses else ()
    if not verdict.failed:
        unknown = verdict.not_known(counts=False)
        text = "; ".join(filter(None, (_placed_text(verdict), unknown)))
        passed = "the others" if verdict.refused else "PASS"
        yield f"{'before any loss' if verdict.failed_losses else passed}: {text}"
    yield from () if verdict.failed_losses else losses
    others = sum(finding.pods for finding in verdict.findings if not (finding.counts or finding.is_unknown))
    if others:
        yield f"not counted: {others}"


def _placed_text(verdict: Verdict) -> str:
    if not verdict.is_about_pods:
        return "no pod was checked"
    if verdict.placed:
        scale_up = verdict.compared.scale_up
        came = f", on {scale_up.text()}" if scale_up is not None and scale_up.up.nodes else ""
        return number_of(verdict.placed, "pod has found a node", "pods have found a node") + came
    which = "should run" if all(finding.is_unknown for finding in verdict.findings) else "counts"
    return f"every pod that {which} has a node"


def _table(simulation: Simulation, verdict: Verdict, whole: bool) -> PrintedTable:
    """The pods without a node; as a whole with their names, and with what preemption adds to a reason."""
    with_node: dict[Workload, str] = {}
    for workload, members in by_workload(simulation.outcomes).items():
        running = simulation.running[workload]
        placed = sum(outcome.status == PLACED for outcome in members)
        with_node[workload] = f"{running + placed}/{running + len(members)}"
    has_causes = any(finding.because for finding in verdict.findings)
    parts: dict[tuple[Workload, str, str, str, str], list[PodOutcome]] = {}
    for finding in verdict.findings:
        workload, status, reason, outcomes = finding.group
        reason = reason if whole or not outcomes else outcomes[0].short_reason
        key = workload, status, counts_text(finding), ", ".join(finding.because), reason
        parts.setdefault(key, []).extend(outcomes)
    rows = []
    for (workload, status, counts, because, reason), outcomes in parts.items():
        more = [", ".join(outcome.pod.name for outcome in outcomes)] if whole else []
        more += [because] if has_causes else []
        numbers = with_node.get(workload, ""), str(len(outcomes) or ""), status, counts
        rows.append((workload.namespace, workload.text, *numbers, *more, reason))
    extra = [*(["NAMES"] if whole else []), *(["BECAUSE OF"] if has_causes else [])]
    columns = ("WITH NODE", "PODS", "PROBLEM", "COUNTS", *extra, "REASON")
    return PrintedTable(("NAMESPACE", "WORKLOAD", *columns), rows)


def _changes(removed: Iterable[Removed], names_all: bool) -> Iterator[str]:
    """Yield a line about each workload that has removed pods."""
    for removal in removed:
        names = [pod.name for pod in removal.pods]
        pods = "1 pod" if len(names) == 1 else f"{len(names) or 'no'} pods"
        if not removal.is_rollout:
            what = f"places {removal.placed} and removes {pods}" if removal.placed else f"{pods} removed"
        elif removal.placed or names:
            what = f"a rollout places {removal.placed or 'none'} and removes {pods}"
        else:
            what = "a rollout places and removes no pod"
        shown = f" ({examples(names, len(names) if names_all else _EXAMPLES)})" if names else ""
        left = "" if removal.unfinished is None else f"; it is not complete: {removal.unfinished.numbers()}"
        yield f"{removal.workload.text} in namespace {removal.workload.namespace}: {what}{shown}{left}"


def _removed(removal: Removed) -> dict[str, Any]:
    return {
        "namespace": removal.workload.namespace,
        "workload": removal.workload.text,
        "names": [pod.name for pod in removal.pods],
        "placed": removal.placed,
        "rollout": removal.is_rollout,
        "complete": removal.unfinished is None,
    }


def _placed(simulation: Simulation) -> PrintedTable:
    """The pods that have found a node."""
    rows = [
        (outcome.pod.namespace, outcome.workload.text, outcome.pod.name, outcome.node, outcome.reason)
        for outcome in simulation.outcomes
        if outcome.status == PLACED
    ]
    return PrintedTable(("NAMESPACE", "WORKLOAD", "POD", "NODE", "REASON"), rows)


def _document(verdict: Verdict) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Check",
        "passed": verdict.passed,
        "placed": verdict.placed,
        "failed": verdict.failed,
        "findings": [_finding(finding) for finding in verdict.findings],
        "changes": verdict.compared.changes,
    }
    releases = verdict.compared.releases
    if releases is not None:
        document["upgrade"] = {"from": releases[0], "to": releases[1], "lost": verdict.compared.lost}
        document["upgrade"]["ended"] = [obj.to_dict() for obj in verdict.compared.ended]
    if verdict.compared.scale_up is not None:
        document["newNodes"] = verdict.compared.scale_up.to_dict()
    if verdict.survival is not None:
        losses = {"failed": verdict.failed_losses, **verdict.survival.to_dict()}
        document["survival"] = losses
    return document


def _finding(finding: Finding) -> dict[str, Any]:
    group = finding.group
    names = [outcome.pod.name for outcome in group.outcomes]
    head = {"namespace": group.workload.namespace, "workload": group.workload.text, "names": names}
    judged = {"counts": finding.counts, "waitedBefore": finding.waited, "allowed": finding.allowed}
    return head | unplaced_document(group) | judged | {"because": finding.because}
