"""``moorage perf``: runs upstream's scheduler_perf workloads against the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from moorage.cli.messages import Stages, note, print_warnings
from moorage.cli.options.decorators import output_option, tie_break_option
from moorage.cli.options.option_groups import AnsweringCommand
from moorage.cli.options.release_choice import ReleaseChoice
from moorage.errors import InputError, number_of
from moorage.releases import DEFAULT

if TYPE_CHECKING:
    from moorage.sim.perf import WorkloadReport


def _rate(context: click.Context, option: click.Parameter, value: str | None) -> Fraction | None:
    """Parse a positive number of attempts per second."""
    if value is None:
        return None
    try:
        rate = Fraction(value)
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate <= 0:
        raise click.BadParameter(f"must be a positive number, not {value!r}", context, option)
    return rate


@click.command(
    cls=AnsweringCommand,
    examples=(
        "moorage perf tests/data/scheduler_perf/excerpt/performance-config.yaml --case SchedulingBasic",
        "moorage perf tests/data/scheduler_perf/excerpt/performance-config.yaml --case TopologySpreading",
    ),
)
@click.argument("file", metavar="FILE.yaml")
@click.option(
    "--case", "only", metavar="NAME[/WORKLOAD]", default="", help="Run only this case, or only this workload."
)
@click.option(
    "--virtual-rate",
    "rate",
    callback=_rate,
    metavar="R",
    help="Scheduling attempts per second of virtual time; default: the workload's threshold, else 500.",
)
@tie_break_option(
    "go-heap, as kube-scheduler does, and random for workloads that leave pods without a node that way."
)
@click.option(
    "--kubernetes-version",
    "version",
    type=ReleaseChoice(),
    help=f"The release of kube-scheduler to follow; default: {DEFAULT}, and for workloads with pod groups "
    "the first that has them.",
)
@output_option(["table", "json"])
def perf(
    file: str, only: str, rate: Fraction | None, tie_break: str | None, version: str | None, output: str
) -> None:
    """Run scheduler_perf workloads in virtual time, and measure how fast the engine is.

    PODS/S, NS/POD and RATIO count everything: queue, decision, store, informers and binding; PLACING NS and
    QUEUE NS are parts of it. If a workload fails, its row says so, and the others still run. If the cluster
    of a workload has no room for its pods or claims, it is stuck and has not failed: upstream's benchmark
    times out as well. If you interrupt the command, it prints the workloads that have ended.

    Exit codes: 0 if the workloads ran, even if one failed; 2 for bad input.
    """
    from moorage.cli.output import Table, write_answer
    from moorage.sim.perf import read_workloads, run_workload
    from moorage.sim.perf.report import COLUMNS, row

    workloads = read_workloads(file, only, version)
    if not workloads:
        raise InputError("this file has no workload", source=file)
    if version is None:
        _print_releases([workload.kubernetes_version for workload in workloads])
    print_warnings(text for workload in workloads for text in workload.warnings)
    reports: list[WorkloadReport] = []
    try:
        with Stages(*(workload.full_name for workload in workloads)) as following:
            for workload in workloads:
                if reports:
                    following()
                reports.append(run_workload(workload, rate, tie_break=tie_break))
    finally:  # also where the user interrupts it
        head = {"apiVersion": "perf.moorage.dev/v1", "kind": "PerfReport"}
        table = Table([*COLUMNS], [*map(row, reports)])
        if reports:
            write_answer(
                output, lambda: head | {"workloads": reports}, [_headline(reports, len(workloads))], [table]
            )


def _headline(reports: Sequence[WorkloadReport], wanted: int) -> str:
    """Return how many workloads have ended, and how."""
    failed, stuck = sum(one.failed for one in reports), sum(one.is_stuck for one in reports)
    text = f"{len(reports) - failed - stuck} of {number_of(wanted, 'workload', 'workloads')} done"
    text += f", {failed} failed" if failed else ""
    return text + (f", {stuck} stuck: their clusters have no room" if stuck else "")


def _print_releases(versions: list[str]) -> None:
    """Say on stderr which release decides for the workloads, and why."""
    for version, number in sorted(Counter(versions).items()):
        workloads = number_of(number, "workload", "workloads")
        why = "the default" if version == DEFAULT else "the first with pod groups"
        text = f"Kubernetes {version} decides for {workloads} ({why}; --kubernetes-version chooses another)"
        note("release", text)
