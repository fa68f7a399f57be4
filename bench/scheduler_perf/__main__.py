"""Runs workloads of scheduler_perf in virtual time, and measures how fast the engine is:
`python -m bench.scheduler_perf FILE [CASE[/WORKLOAD]]`.

PODS/S, NS/POD and RATIO count everything: queue, decision, store, informers and binding; PLACING NS and
QUEUE NS are parts of it. If a workload fails, its row says so, and the others still run. If the cluster of a
workload has no room for its pods or claims, it is stuck and has not failed: upstream's benchmark times out as
well. If you interrupt the run, it prints the workloads that have ended. The exit code is 0 if the workloads
ran, even if one failed, and 2 for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from moorage.answers.text_tables import PrintedTable
from moorage.cli.commands.printing import write_answer
from moorage.cli.messages import print_message
from moorage.errors import InputError, MoorageError, number_of
from moorage.kube.releases import DEFAULT, release_named

from . import Workload, WorkloadReport, read_workloads, run_workload
from .report import COLUMNS, row

HEAD = {"apiVersion": "perf.moorage.dev/v1", "kind": "PerfReport"}
Run = Callable[..., WorkloadReport]  # `run_workload`, or what stands for it in tests


def main(arguments: Sequence[str] | None = None, run: Run = run_workload) -> int:
    asked = _parser().parse_args(arguments)
    reports: list[WorkloadReport] = []
    try:
        workloads = _read(asked.file, asked.case, asked.version)
        try:
            for workload in workloads:
                reports.append(run(workload, asked.rate, tie_break=asked.tie_break))
        finally:  # also where the user interrupts it
            if reports:
                _print(asked.output, reports, len(workloads))
    except MoorageError as error:
        print_message("error", str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="bench.scheduler_perf", description=__doc__, formatter_class=form)
    parser.add_argument("file", metavar="FILE", help="a performance-config.yaml")
    parser.add_argument("case", nargs="?", default="", metavar="CASE[/WORKLOAD]", help="by default all cases")
    text = "attempts per second of virtual time; default: the workload's threshold, else 500"
    parser.add_argument("--virtual-rate", dest="rate", type=_rate, metavar="R", help=text)
    text = (
        "how to choose among nodes with equal scores; default: go-heap, as kube-scheduler does, and random "
    )
    text += " for workloads that leave pods without a node that way"
    parser.add_argument("--tie-break", choices=["go-heap", "first", "random"], help=text)
    text = f"the release to follow; default: {DEFAULT}, and for workloads with pod groups the first that has "
    text += "them"
    parser.add_argument("--kubernetes-version", dest="version", type=_release, metavar="VERSION", help=text)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    return parser


def _rate(text: str) -> Fraction:
    """Parse a positive number of attempts per second."""
    try:
        rate = Fraction(text)
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate <= 0:
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text!r}")
    return rate


def _release(text: str) -> str:
    """Return the minor version of a release."""
    try:
        return release_named(text).version
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _read(file: str, case: str, version: str | None) -> list[Workload]:
    """Read the workloads, and say on stderr which release decides for them, and which parameters no operation
    uses."""
    workloads = read_workloads(file, case, version)
    if not workloads:
        raise InputError("this file has no workload", source=file)
    releases = Counter(workload.kubernetes_version for workload in workloads) if version is None else {}
    for release, number in sorted(releases.items()):
        why = "the default" if release == DEFAULT else "the first with pod groups"
        which = f"{number_of(number, 'workload', 'workloads')} ({why}; --kubernetes-version chooses another)"
        print_message("release", f"Kubernetes {release} decides for {which}")
    for warning in (text for workload in workloads for text in workload.warnings):
        print_message("warning", warning)
    return workloads


def _print(form: str, reports: Sequence[WorkloadReport], wanted: int) -> None:
    """Print the workloads that have ended, below how many there are, and how they ended."""
    failed, stuck = sum(report.failed for report in reports), sum(report.is_stuck for report in reports)
    headline = f"{len(reports) - failed - stuck} of {number_of(wanted, 'workload', 'workloads')} done"
    headline += f", {failed} failed" if failed else ""
    headline += f", {stuck} stuck: their clusters have no room" if stuck else ""
    table = PrintedTable([*COLUMNS], [*map(row, reports)])
    write_answer(form, lambda: HEAD | {"workloads": reports}, [headline], [table])


if __name__ == "__main__":
    sys.exit(main())
