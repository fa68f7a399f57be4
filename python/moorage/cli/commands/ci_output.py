"""``moorage check -o junit`` and ``-o github``: the answer as a CI system shows it; losses in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import click

from moorage.cluster.change import short_label
from moorage.errors import number_of, printable

from ..options.change_options import RequestedChange, explain_command
from ..runs.gate import Finding, LossFinding, Verdict
from ..runs.simulation import KEPT, NOT_STARTED
from .printing import COMMENT_ROWS, PrintedTable

if TYPE_CHECKING:
    from moorage.answers.survival import Survival


# ---- survival output ---------------------------------------------------------------------------------------
#
# Output of ``moorage check --survive``: which losses leave pods without a place.


def compared_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what was compared: nodes that come, changes, releases, losses; without what failed."""
    if (scale_up := verdict.compared.scale_up) is not None:
        yield scale_up.text()
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


def survival_table(survival: Survival, losses: Iterable[LossFinding]) -> PrintedTable:
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
    return PrintedTable(headings, rows)


def counts_text(finding: Finding | LossFinding) -> str:
    """Return whether the pods of a finding are a failure, and if not, why."""
    if isinstance(finding, LossFinding):
        why = "allowed" if finding.allowed else "as before"
        return "yes" if finding.counts else f"no, {why}"
    if finding.counts:
        return "yes, waited before" if finding.waited else "yes"
    return "no, allowed" if finding.allowed else "no, waited before"


# ---- ci output ---------------------------------------------------------------------------------------------
#
# ``moorage check -o junit`` and ``-o github``: the answer as a CI system shows it.


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


def why(verdict: Verdict) -> str:
    """Return the command that explains the first failure; "" where nothing fails."""
    cases = chain(_findings(verdict), _losses(verdict))
    return next((case.why for case in cases if case.counts and case.why), "")


def ci_text(form: str, verdict: Verdict) -> str:
    """Return the answer of the gate for a CI system.

    Parameters
    ----------
    form : {"junit", "github"}
        A JUnit report in XML, or workflow commands of GitHub Actions, which make annotations.
    """
    cases, compared = [*_findings(verdict), *_losses(verdict)], [*compared_lines(verdict)]
    if form == "junit":
        return _junit(cases, compared)
    if verdict.compared.scale_up is not None and len(cases) > COMMENT_ROWS:
        compared.append(f"{len(cases) - COMMENT_ROWS} more findings, which -o table shows")
        cases = cases[:COMMENT_ROWS]
    return _github(cases, compared)


def _findings(verdict: Verdict) -> Iterator[Case]:
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


def _losses(verdict: Verdict) -> Iterator[Case]:
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


def notice(level: str, title: str, text: str) -> str:
    """Return an annotation of GitHub. ``%`` and line ends are escaped, in titles ``:`` and ``,`` too."""
    named = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={named}::{_escaped(text)}\n"


def _escaped(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
