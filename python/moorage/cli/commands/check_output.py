"""Output of ``moorage check``: tables, its document, its page, and what CI systems show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from moorage.answers.runs.gate import HINT, Finding, LossFinding, Removed, Verdict, group_fits
from moorage.answers.runs.simulation import KEPT, NOT_STARTED, PLACED, REFUSED, PodOutcome, Simulation
from moorage.cluster.change import short_label
from moorage.cluster.verbs import RequestedChange
from moorage.errors import examples, first_of, number_of, printable
from moorage.kube.workloads.ownership import Workload

from ..messages import note
from ..options.change_options import explain_command
from .printing import (
    COMMENT_ROWS,
    CommandLine,
    PrintedTable,
    first_rows,
    ignore_broken_pipe,
    notice,
    print_names,
    without_folders,
    write_answer,
)
from .run_output import by_workload, group_tables, unplaced_document

if TYPE_CHECKING:
    from moorage.answers.survival import Survival

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
        for line in _compared_lines(verdict):
            note("compared", line)
    if form == "name":
        print_names(_failed_names(verdict))
        return
    if form in ("junit", "github"):
        with ignore_broken_pipe():
            print(_ci_text(form, verdict), end="")
        return

    homeless = [outcome for finding in verdict.findings for outcome in finding.group.outcomes]
    groups = [] if form == "csv" else group_fits(simulation, homeless)

    def document() -> dict[str, Any]:
        about = simulation.cluster.about(warnings).to_dict() | {"groups": groups}
        about |= {"removed": list(map(_removed_document, removed))} | simulation.basis_document()
        return _document(verdict) | about

    tables = {"Pods without a node": _table(simulation, verdict, form in ("wide", "csv"))}
    tables |= zip(("Pod groups",), group_tables(groups), strict=False)
    if form == "wide":
        tables["Pods with a node"] = _placed(simulation)
    if verdict.survival is not None:
        tables["Losses that leave pods without a place"] = _survival_table(verdict.survival, verdict.losses)
    if form == "markdown" and verdict.compared.scale_up is not None:
        tables = {title: first_rows(table) for title, table in tables.items()}
    lines = [*_head(verdict), *_changes(removed, form == "wide"), *verdict.compared.lines()]
    command = _why(verdict)
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
        return result, [simulation.cluster.release], warnings

    write_answer(form, document, lines, tables.values(), lambda: [*tables.values()][-1], page)


def _failed_names(verdict: Verdict) -> Iterator[str]:
    """Yield the names of pods that fail the gate, and of objects that do."""
    for finding in verdict.findings:
        if finding.counts:
            outcomes = finding.group.outcomes
            yield from (f"pod/{outcome.pod.name}" for outcome in outcomes)
            if not outcomes:
                yield finding.group.workload.text


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
    if later := verdict.refused_later:
        named = first_of([f"{workload.namespace}/{workload.text}" for workload in later], _EXAMPLES)
        have = number_of(len(later), "workload gets", "workloads get")
        yield f"FAIL: {have} no new pods: the API server would refuse them: {named}"
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
    losses = [] if verdict.survival is None else [*_survival_lines(verdict.survival, verdict)]
    yield from losses if verdict.failed_losses else ()
    if not verdict.failed:
        unknown = verdict.not_known(counts=False)
        text = "; ".join(filter(None, (_placed_text(verdict), unknown)))
        passed = "the others" if verdict.refused else "now" if verdict.refused_later else "PASS"
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
        key = workload, status, _counts_text(finding), ", ".join(finding.because), reason
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


def _removed_document(removal: Removed) -> dict[str, Any]:
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
        "findings": [_finding_document(finding) for finding in verdict.findings],
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


def _finding_document(finding: Finding) -> dict[str, Any]:
    group = finding.group
    names = [outcome.pod.name for outcome in group.outcomes]
    head = {"namespace": group.workload.namespace, "workload": group.workload.text, "names": names}
    judged = {"counts": finding.counts, "waitedBefore": finding.waited, "allowed": finding.allowed}
    return head | unplaced_document(group) | judged | {"because": finding.because}


# ---- losses ------------------------------------------------------------------------------------------------


def _compared_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what was compared: nodes that come, changes, releases, losses; without what failed."""
    if (scale_up := verdict.compared.scale_up) is not None:
        yield scale_up.text()
    yield from verdict.compared.lines()
    if verdict.survival is not None:
        yield from islice(_survival_lines(verdict.survival, verdict), bool(verdict.failed_losses), None)


def _survival_lines(survival: Survival, verdict: Verdict) -> Iterator[str]:
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


def _survival_table(survival: Survival, losses: Iterable[LossFinding]) -> PrintedTable:
    """Return a row for each loss, workload and reason: first those that count, and that leave most pods
    out."""
    from moorage.answers.survival import NODE

    rows = []
    for finding in losses:
        loss, pod = finding.loss, finding.lost[0]
        numbers = str(loss.nodes), str(loss.pods), str(len(loss.lost))
        of_it = str(len(finding.lost)), _counts_text(finding)
        rows.append((", ".join(loss.domains), *numbers, finding.namespace, pod.workload, *of_it, pod.reason))
    first = "NODE" if survival.by == NODE else short_label(survival.by)
    headings = first, "NODES", "PODS", "NO PLACE", "NAMESPACE", "WORKLOAD", "OF IT", "COUNTS", "REASON"
    return PrintedTable(headings, rows)


def _counts_text(finding: Finding | LossFinding) -> str:
    """Return whether the pods of a finding are a failure, and if not, why."""
    if isinstance(finding, LossFinding):
        why = "allowed" if finding.allowed else "as before"
        return "yes" if finding.counts else f"no, {why}"
    if finding.counts:
        return "yes, waited before" if finding.waited else "yes"
    return "no, allowed" if finding.allowed else "no, waited before"


# ---- reports of CI systems ---------------------------------------------------------------------------------


class Case(NamedTuple):
    """One thing that was checked and is not as it should be.

    Attributes
    ----------
    title : str
    message : str
    counts : bool
        Whether it fails the gate.
    why : str
        The command that says why.
    """

    title: str
    message: str
    counts: bool
    why: str

    @property
    def text(self) -> str:
        """The message, and the command that says why."""
        return f"{self.message} why: {self.why}" if self.why else self.message


def _why(verdict: Verdict) -> str:
    """Return the command that explains the first failure; "" where nothing fails."""
    cases = chain(_finding_cases(verdict), _loss_cases(verdict))
    return next((case.why for case in cases if case.counts and case.why), "")


def _ci_text(form: str, verdict: Verdict) -> str:
    """Return the answer of the gate for a CI system.

    Parameters
    ----------
    form : {"junit", "github"}
        A JUnit report in XML, or workflow commands of GitHub Actions, which make annotations.
    """
    cases, compared = [*_finding_cases(verdict), *_loss_cases(verdict)], [*_compared_lines(verdict)]
    if form == "junit":
        return _junit(cases, compared)
    if verdict.compared.scale_up is not None and len(cases) > COMMENT_ROWS:
        compared.append(f"{len(cases) - COMMENT_ROWS} more findings, which -o table shows")
        cases = cases[:COMMENT_ROWS]
    return _github(cases, compared)


def _finding_cases(verdict: Verdict) -> Iterator[Case]:
    for finding in verdict.findings:
        workload, status, reason, _ = finding.group
        title = f"{workload.namespace}/{workload.text}"
        what = f"{number_of(finding.pods, 'pod', 'pods')} {status}" if finding.pods else status
        because = f" Because of {', '.join(finding.because)}." if finding.because else ""
        kind, _, name = workload.text.partition("/")
        target = f"{kind}/{workload.namespace}/{name}"
        has_place = status in (KEPT, NOT_STARTED)
        explains = finding.counts and finding.pods and not has_place and _shows(workload.namespace)
        command = explain_command(target) if explains else ""
        text = f"{what}: {reason}{finding.hint}{because}"
        yield Case(title, text, finding.counts, command)


def _shows(namespace: str) -> bool:
    """Whether the command that explains shows the pods of a namespace, with -n as in this command."""
    return click.get_current_context().params["namespace"] in (None, namespace)


def _loss_cases(verdict: Verdict) -> Iterator[Case]:
    """Yield the losses, each once for the pods that count and once for the others."""
    if not verdict.losses:
        return
    from moorage.answers.survival import NODE

    parts: dict[tuple[tuple[str, ...], bool], list[LossFinding]] = {}
    for finding in verdict.losses:
        parts.setdefault((finding.loss.domains, finding.counts), []).append(finding)
    for (domains, counts), findings in parts.items():
        number = sum(len(finding.lost) for finding in findings)
        texts = [
            f"{finding.namespace}/{pod.workload} ({len(finding.lost)}): {pod.reason}"
            for finding in findings
            for pod in finding.lost[:1]
        ]
        assert verdict.survival is not None
        by, pods = verdict.survival.by, number_of(number, "pod finds", "pods find")
        lost = [name if by == NODE else f"{by}={name}" for name in domains]
        removed = [RequestedChange("--remove-nodes", (name,)) for name in lost]
        is_shown = counts and any(_shows(finding.namespace) for finding in findings)
        command = explain_command("--all-pending", removed) if is_shown else ""
        title = f"loss of {short_label(by)} {', '.join(domains)}"
        yield Case(title, f"{pods} no place: {'; '.join(texts)}", counts, command)


def _junit(cases: list[Case], compared: list[str]) -> str:
    """Return a report of one suite; each case that counts is a failure, the others are skipped. What was
    compared are its properties."""
    from xml.etree import ElementTree

    failures, skipped = sum(case.counts for case in cases), sum(not case.counts for case in cases)
    numbers = {"tests": str(max(len(cases), 1)), "failures": str(failures), "skipped": str(skipped)}
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "moorage check", "errors": "0"} | numbers)
    properties = ElementTree.SubElement(suite, "properties") if compared else suite
    for line in compared:
        ElementTree.SubElement(properties, "property", {"name": "compared", "value": printable(line)})
    for case in cases:
        names = {"classname": "moorage check", "name": printable(case.title)}
        testcase = ElementTree.SubElement(suite, "testcase", names)
        tag = "failure" if case.counts else "skipped"
        ElementTree.SubElement(testcase, tag, {"message": printable(case.text)})
    if not cases:
        names = {"classname": "moorage check", "name": "every pod has a node"}
        ElementTree.SubElement(suite, "testcase", names)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"


def _github(cases: list[Case], compared: list[str]) -> str:
    """Return a line for each case."""
    lines = [notice("error" if case.counts else "warning", case.title, case.text) for case in cases]
    notices = [*([] if cases else ["every pod has a node"]), *compared]
    return "".join([*lines, *(notice("notice", "moorage check", line) for line in notices)])
