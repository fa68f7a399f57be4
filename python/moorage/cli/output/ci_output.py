"""``moorage check -o junit`` and ``-o github``: the answer as a CI system shows it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import click

from moorage.cli.options.change_options import RequestedChange, explain_command
from moorage.cli.runs.gate import Verdict
from moorage.cli.runs.simulation import KEPT
from moorage.errors import number_of, printable

if TYPE_CHECKING:
    from moorage.planning.survival import Survival


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


def why(verdict: Verdict, survival: Survival | None) -> str:
    """Return the command that explains the first failure; "" where nothing fails."""
    cases = chain(_findings(verdict), () if survival is None else _losses(survival))
    return next((case.why for case in cases if case.counts and case.why), "")


def ci_text(form: str, verdict: Verdict, survival: Survival | None) -> str:
    """Return the answer of the gate for a CI system.

    Parameters
    ----------
    form : {"junit", "github"}
        A JUnit report in XML, or workflow commands of GitHub Actions, which make annotations.
    """
    cases = [*_findings(verdict), *(() if survival is None else _losses(survival))]
    return _junit(cases) if form == "junit" else _github(cases)


def _findings(verdict: Verdict) -> Iterator[Case]:
    for finding in verdict.findings:
        workload, status, reason, _ = finding.group
        title = f"{workload.namespace}/{workload.text}"
        pods = number_of(finding.pods, "pod", "pods")
        because = f" Because of {', '.join(finding.because)}." if finding.because else ""
        kind, _, name = workload.text.partition("/")
        target = f"{kind}/{workload.namespace}/{name}"
        explains = finding.counts and status != KEPT and _shows(workload.namespace)
        command = explain_command(target) if explains else ""
        yield Case(title, f"{pods} {status}: {reason}{because}", finding.counts, command)


def _shows(namespace: str) -> bool:
    """Whether the command that explains shows the pods of a namespace, with -n as in this command."""
    return click.get_current_context().params["namespace"] in (None, namespace)


def _losses(survival: Survival) -> Iterator[Case]:
    from moorage.planning.survival import NODE, lost_by_workload

    for loss in survival.losses:
        parts = [
            f"{namespace}/{workload} ({count}): {reason}"
            for (namespace, workload, reason), count in lost_by_workload(loss).items()
        ]
        pods = number_of(len(loss.lost), "pod finds", "pods find")
        title = f"loss of {survival.by} {', '.join(loss.domains)}"
        lost = [name if survival.by == NODE else f"{survival.by}={name}" for name in loss.domains]
        removed = [RequestedChange("--remove-nodes", (name,)) for name in lost]
        is_shown = any(_shows(namespace) for namespace, *_ in lost_by_workload(loss))
        command = explain_command("--all-pending", removed) if is_shown else ""
        yield Case(title, f"{pods} no place: {'; '.join(parts)}", True, command)


def _junit(cases: list[Case]) -> str:
    """Return a report of one suite; each case that counts is a failure, the others are skipped."""
    from xml.etree import ElementTree

    failures, skipped = sum(case.counts for case in cases), sum(not case.counts for case in cases)
    numbers = {"tests": str(max(len(cases), 1)), "failures": str(failures), "skipped": str(skipped)}
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "moorage check", "errors": "0"} | numbers)
    for case in cases:
        names = {"classname": "moorage check", "name": printable(case.title)}
        one = ElementTree.SubElement(suite, "testcase", names)
        tag = "failure" if case.counts else "skipped"
        ElementTree.SubElement(one, tag, {"message": printable(case.text)})
    if not cases:
        names = {"classname": "moorage check", "name": "every pod has a node"}
        ElementTree.SubElement(suite, "testcase", names)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"


def _github(cases: list[Case]) -> str:
    """Return a line for each case. ``%`` and line ends are escaped, in titles ``:`` and ``,`` too."""
    if not cases:
        return "::notice title=moorage check::every pod has a node\n"
    lines = []
    for case in cases:
        title = _escaped(case.title).replace(":", "%3A").replace(",", "%2C")
        lines.append(f"::{'error' if case.counts else 'warning'} title={title}::{_escaped(case.text)}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
