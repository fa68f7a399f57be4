"""``moorage lint``: what is wrong in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from moorage.answers.findings.lint_rules import LEVELS, RULES

from ..messages import Stages
from ..options.change_options import ChangingCommand, change_options, changed_setup, command_alike
from ..options.inputs import (
    input_options,
    load_input,
    scheduler_options,
    scheduler_settings,
    told_about,
)
from ..options.option_types import output_option, some_of

if TYPE_CHECKING:
    from moorage.answers.findings.finding import LintFinding
    from moorage.kube.model.about_input import AboutInput

    from .printing import PageOf


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage lint -f examples/shop/cluster.yaml",
        "moorage lint -f examples/shop/cluster.yaml --level warning --gate",
    ),
)
@input_options
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default=LEVELS[-1],
    show_default=True,
    help="Leave out findings that are less bad.",
)
@click.option(
    "--rule",
    "rules",
    callback=some_of([*RULES]),
    default="",
    metavar="RULE,…",
    help=f"Show only what these rules find: {', '.join(RULES)}.",
)
@click.option(
    "--allow", "allowed", callback=some_of([*RULES]), default="", metavar="RULE,…", help="Leave out rules."
)
@click.option("--gate", is_flag=True, help="Exit with 1 if something is found.")
@output_option(
    ["table", "wide", "json", "yaml", "csv", "markdown", "junit", "github", "html"],
    "wide, csv and json have a row for each finding, with the command that shows more.",
)
@change_options
@scheduler_options
def lint(
    level: str, rules: tuple[str, ...], allowed: tuple[str, ...], gate: bool, output: str, **options: Any
) -> int:
    """List what is wrong in a cluster, the worst first: an error does not work now; a warning will not at the
    next drain, rollout or failure; a hint (info) may be meant.

    The pods that wait are placed, so that it is known which find a node. -n shows one namespace; with a
    change, what is wrong after it.

    Exit codes: 0 if it ran; 1 for a refused object of the change, and with --gate if something is found; 2
    for bad input.
    """
    from moorage.answers.findings.finding_list import all_findings
    from moorage.answers.queues.queue_use import queue_notes

    with Stages("reading", "scheduling", "looking") as stage:
        cluster = load_input(options)
        settings = scheduler_settings(options, cluster)
        stage()
        setup = changed_setup(cluster, settings)
        done = setup.run(stage)
        stage()
        shown = LEVELS[: LEVELS.index(level) + 1]
        findings = [
            each
            for each in all_findings(done)
            if RULES[each.rule].level in shown
            and (not rules or each.rule in rules)
            and each.rule not in allowed
            and options["namespace"] in (None, each.obj.namespace)
        ]
    warnings = [*done.warnings(), *queue_notes(done.scheduler.ask.queues())]
    _write(output, findings, bool(done.before or done.outcomes), told_about(cluster, warnings))
    return int(gate and bool(findings))


def _write(form: str, findings: Sequence[LintFinding], is_about_pods: bool, about: AboutInput) -> None:
    """Print findings.

    Parameters
    ----------
    form : {"table", "wide", "json", "yaml", "csv", "markdown", "junit", "github", "html"}
    """
    from moorage.answers.findings.finding_list import (
        FindingsDocument,
        as_listed,
        counted,
        finding_table,
        headline,
    )
    from moorage.answers.text_tables import CommandLine, PrintedTable

    from .check_output import Case, ci_report
    from .printing import ignore_broken_pipe, without_folders, write_answer

    commands = [_command(each) for each in findings]
    listed = [as_listed(each, command) for each, command in zip(findings, commands, strict=True)]
    line = headline(findings, is_about_pods)
    if form in ("junit", "github"):
        cases = [
            Case(
                f"{each.namespace}/{each.object}".strip("/"),
                each.text,
                each.level != LEVELS[-1],
                each.command,
            )
            for each in listed
        ]
        with ignore_broken_pipe():
            print(ci_report(form, "moorage lint", cases, [], line), end="")
        return

    lines = [line, *([CommandLine(f"more: {commands[0]}")] if commands else [])]
    rows = [
        (each.level, each.rule, each.namespace, each.object, str(each.pods), each.text, each.command)
        for each in listed
    ]
    whole = PrintedTable(("LEVEL", "RULE", "NAMESPACE", "OBJECT", "PODS", "WHAT", "COMMAND"), rows)
    table = whole if form in ("wide", "csv") else finding_table(findings, folds=True)
    if len(table.cells) < len(findings):
        lines.append("findings that are alike share a row; -o wide has each")
    document = FindingsDocument(counts=counted(findings), items=listed)

    def page() -> PageOf:
        from moorage.answers.answer_pages import answer_page

        shown = [without_folders(each) if isinstance(each, CommandLine) else each for each in lines]
        return (
            answer_page("What is wrong", shown, None, [("Findings", *table)]),
            [about.release],
            about.warnings,
        )

    write_answer(form, lambda: (document, about), lines, [table], page=page)


def _command(finding: LintFinding) -> str:
    """Return the command that shows more of a finding, about the cluster of this one."""
    tool, *words = finding.more.split()
    return command_alike(words) if tool == "moorage" else finding.more
