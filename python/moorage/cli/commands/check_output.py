"""Output of ``moorage check``: its page, and what CI systems show."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import click

from moorage.answers.homeless_pods import KEPT, NOT_ROLLED_OUT
from moorage.answers.runs.check_answer import HOMELESS, NOT_CHECKED, CheckAnswer, compared_lines, in_short
from moorage.answers.runs.gate import Verdict
from moorage.answers.runs.simulation import NOT_STARTED
from moorage.answers.text_tables import CommandLine, PrintedTable
from moorage.cluster.references import short_label
from moorage.cluster.verbs import RequestedChange
from moorage.errors import number_of, printable
from moorage.grouped import grouped
from moorage.lazy import NamedTuple

from ..messages import ROWS, most_rows, note
from ..options.change_options import command_alike, given_words
from .printing import (
    COMMENT_ROWS,
    first_rows,
    ignore_broken_pipe,
    notice,
    print_names,
    without_folders,
    write_answer,
)

if TYPE_CHECKING:
    from .printing import PageOf


def write_verdict(form: str, answer: CheckAnswer) -> None:
    """Print the answer of the gate.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "name", "junit", "github", "html"}
        ``wide`` names all pods, with the nodes of those that have found one, and has whole messages;
        ``name`` prints ``pod/NAME`` of each pod that is a failure.
        A CSV file has the losses of ``--survive`` alone.
    """
    verdict = answer.verdict
    if form in ("csv", "name"):  # which have rows alone
        for line in compared_lines(verdict):
            note("compared", line)
    if form == "name":
        print_names(_failed_names(verdict))
        return
    if form in ("junit", "github"):
        with ignore_broken_pipe():
            print(_verdict_report(form, verdict), end="")
        return

    tables = {} if form == "csv" else answer.tables(form == "wide")
    if form == "markdown" and verdict.compared.scale_up is not None:
        tables = {title: first_rows(table) for title, table in tables.items()}
    lines, cases = [*answer.lines(form == "wide")], chain(_finding_cases(verdict), _loss_cases(verdict))
    command = next((case.why for case in cases if case.counts and case.why), "")
    lines += [CommandLine(f"why: {command}")] if command else []
    if form == "table" and most_rows(form) == ROWS:
        listed, tables[HOMELESS] = tables[HOMELESS], in_short(tables[HOMELESS])
        if len(listed.cells) > len(tables[HOMELESS].cells):
            lines.append("workloads that fail alike share a row; --top all shows each")

    def page() -> PageOf:
        from moorage.answers.answer_pages import answer_page
        from moorage.answers.page import KeyFigure, KeyFigures

        others = sum(finding.pods for finding in verdict.findings if not finding.counts)
        bad = {"pods that fail": verdict.failed}
        bad |= {"refused objects": verdict.refused} if verdict.refused else {}
        bad |= {} if verdict.survival is None else {"losses that fail": verdict.failed_losses}
        facts = [KeyFigure("found a node", f"{verdict.placed:,}"), KeyFigure("not counted", f"{others:,}")]
        facts[1:1] = [
            KeyFigure(name, f"{count:,}", "warn" if count else "good") for name, count in bad.items()
        ]
        titled = [(title, *table) for title, table in tables.items()]
        shown = [without_folders(line) if isinstance(line, CommandLine) else line for line in lines]
        result = answer_page("Check", shown, KeyFigures(facts), titled)
        return result, [answer.simulation.cluster.release], [*answer.facts, *answer.warnings]

    write_answer(
        form, answer.document, lines, tables.values(), lambda: _in_numbers(answer.loss_table()), page
    )


def _in_numbers(table: PrintedTable) -> PrintedTable:
    """Return a table with two numbers in two columns: the pods that have a node, and all that are wanted."""
    headings = [*table.headings]
    if "WITH NODE" not in headings:
        return table
    at = headings.index("WITH NODE")
    cells = [[*row[:at], *row[at].partition("/")[::2], *row[at + 1 :]] for row in map(list[str], table.cells)]
    return PrintedTable([*headings[: at + 1], "WANTED", *headings[at + 1 :]], cells)


def _failed_names(verdict: Verdict) -> Iterator[str]:
    """Yield the names of pods that fail the gate, and of objects that do."""
    for finding in verdict.findings:
        if finding.counts:
            outcomes = finding.group.outcomes
            yield from (f"pod/{outcome.pod.name}" for outcome in outcomes)
            if not outcomes:
                yield finding.group.workload.text


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


def _verdict_report(form: str, verdict: Verdict) -> str:
    """Return the answer of the gate for a CI system."""
    cases, compared = [*_finding_cases(verdict), *_loss_cases(verdict)], [*compared_lines(verdict)]
    passed = "every pod has a node" if verdict.is_about_pods else NOT_CHECKED
    if form == "github" and verdict.compared.scale_up is not None and len(cases) > COMMENT_ROWS:
        compared.append(f"{len(cases) - COMMENT_ROWS} more findings, which -o table shows")
        cases = cases[:COMMENT_ROWS]
    return ci_report(form, "moorage check", cases, compared, passed)


def ci_report(form: str, name: str, cases: list[Case], compared: list[str], passed: str) -> str:
    """Return an answer for a CI system.

    Parameters
    ----------
    form : {"junit", "github"}
        A JUnit report in XML, or workflow commands of GitHub Actions, which make annotations.
    name : str
        Of the command.
    passed : str
        What there is to say without a case.
    """
    if form == "junit":
        return _junit(name, cases, compared, passed)
    lines = [notice("error" if case.counts else "warning", case.title, case.text) for case in cases]
    notices = compared if cases else [passed, *compared]
    return "".join([*lines, *(notice("notice", name, line) for line in notices)])


def _finding_cases(verdict: Verdict) -> Iterator[Case]:
    for finding in verdict.findings:
        workload, status, reason, _ = finding.group
        title = f"{workload.namespace}/{workload.text}"
        what = f"{number_of(finding.pods, 'pod', 'pods')} {status}" if finding.pods else status
        because = f" Because of {', '.join(finding.because)}." if finding.because else ""
        kind, _, name = workload.text.partition("/")
        question = ["explain", f"{kind}/{workload.namespace}/{name}"]
        drain = ""
        if status == KEPT:  # the drain is explained, and what would let it end
            drain, nodes = "--drain", dict.fromkeys(outcome.node for outcome in finding.group.outcomes)
            question = ["plan", "drain", *(given_words(drain) or nodes)]
        has_place = status in (NOT_ROLLED_OUT, NOT_STARTED)
        explains = finding.counts and finding.pods and not has_place and _shows(workload.namespace)
        command = command_alike(question, asked_by=drain) if explains else ""
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
    from moorage.kube.model.node import ZONE

    scale_up = verdict.compared.scale_up
    has_grown = scale_up is not None and bool(scale_up.up.nodes)  # no option loses a zone after that
    parts = grouped(((finding.loss.domains, finding.counts), finding) for finding in verdict.losses)
    for (domains, counts), findings in parts.items():
        number = sum(len(finding.lost) for finding in findings)
        texts = [
            f"{finding.namespace}/{pod.workload} ({len(finding.lost)}): {pod.reason}"
            for finding in findings
            for pod in finding.lost[:1]
        ]
        assert verdict.survival is not None
        by, pods = verdict.survival.by, number_of(number, "pod finds", "pods find")
        option = "--remove-nodes" if by == NODE else "--fail-zone"
        lost = [name if by in (NODE, ZONE) else f"{by}={name}" for name in domains]
        removed = [RequestedChange(option, (name,)) for name in lost]
        is_shown = counts and not has_grown and any(_shows(finding.namespace) for finding in findings)
        command = command_alike(("explain", "--all-pending"), removed) if is_shown else ""
        title = f"loss of {short_label(by)} {', '.join(domains)}"
        yield Case(title, f"{pods} no place: {'; '.join(texts)}", counts, command)


def _junit(name: str, cases: list[Case], compared: list[str], passed: str) -> str:
    """Return a report of one suite; each case that counts is a failure, the others are skipped. What was
    compared are its properties."""
    from xml.etree import ElementTree

    failures, skipped = sum(case.counts for case in cases), sum(not case.counts for case in cases)
    numbers = {"tests": str(max(len(cases), 1)), "failures": str(failures), "skipped": str(skipped)}
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", {"name": name, "errors": "0"} | numbers)
    properties = ElementTree.SubElement(suite, "properties") if compared else suite
    for line in compared:
        ElementTree.SubElement(properties, "property", {"name": "compared", "value": printable(line)})
    for case in cases:
        names = {"classname": name, "name": printable(case.title)}
        testcase = ElementTree.SubElement(suite, "testcase", names)
        tag = "failure" if case.counts else "skipped"
        ElementTree.SubElement(testcase, tag, {"message": printable(case.text)})
    if not cases:
        names = {"classname": name, "name": passed}
        ElementTree.SubElement(suite, "testcase", names)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"
