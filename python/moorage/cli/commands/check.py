"""``moorage check``: a gate that passes only if every pod that should run has a node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.messages import Stages, print_warnings
from moorage.cli.options.change_options import ChangingCommand, change_options, requested_changes
from moorage.cli.options.deciding_release import print_release
from moorage.cli.options.decorators import output_option, some_of
from moorage.cli.options.inputs import (
    NO_NODE,
    input_options,
    load_before_and_after,
    scheduler_options,
    scheduler_settings,
)
from moorage.cli.options.number_ranges import Number, WholeNumber
from moorage.cli.options.release_choice import ReleaseChoice
from moorage.errors import InputError
from moorage.releases import RELEASES

if TYPE_CHECKING:
    from moorage.facade import Scheduler
    from moorage.objects.model.cluster import DecidingRelease
    from moorage.planning.survival import Survival

NO_POD = (
    "The input has no pod that should run, so nothing was checked; kubectl get pods -A -o json lists them."
)
ALLOWABLE = ("gated", "other-scheduler", "skipped-kind", "evicted")


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage check -f examples/shop/cluster.yaml -f examples/shop/release.yaml --new-only",
        "moorage check -f examples/shop/cluster.yaml --drain pool=old --survive zone",
    ),
)
@input_options
@click.option(
    "--new-only",
    is_flag=True,
    help="Pods that already wait in the first -f are listed, but do not fail the gate.",
)
@click.option(
    "--allow",
    "allowed",
    callback=some_of(ALLOWABLE),
    default="",
    metavar="PROBLEM,…",
    help=f"Problems that do not fail the gate: {', '.join(ALLOWABLE)}.",
)
@output_option(
    ["table", "wide", "json", "yaml", "csv", "markdown", "name", "junit", "github"],
    "wide names all pods and their nodes; name prints pod/NAME of each pod that fails "
    "the gate; junit writes a report and github annotations for CI.",
)
@click.option(
    "--upgrade-from",
    type=ReleaseChoice(),
    help="Also place the pods as this earlier release does, and name what makes the "
    "difference. With --new-only, only pods that have a node there can fail the gate.",
)
@click.option(
    "--survive",
    metavar="node|zone|LABEL",
    help="Also lose each node, zone, or value of a node label in turn: its pods must find room elsewhere.",
)
@click.option(
    "--at-once",
    type=WholeNumber(1),
    default=1,
    show_default=True,
    help="With --survive, also lose up to N of them together, the fullest ones first.",
)
@click.option(
    "--time-limit",
    type=Number(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long --at-once may search; the answer says what was tried.",
)
@change_options
@scheduler_options
def check(
    new_only: bool,
    allowed: tuple[str, ...],
    output: str,
    **options: Any,
) -> int:
    """Check that every pod that should run has a node. The first -f is the cluster, later ones change it.

    Each pod without a node fails the gate: it fits nowhere, waits for scheduling gates or its pod group, asks
    for a scheduler that has no profile, or was evicted and has found no other node. With --survive, so
    does each pod that would find no node after a loss.

    Exit codes: 0 if every pod that should run has a node; 1 if not; 2 for bad input.
    """
    from moorage.cli.output.check_output import write_verdict
    from moorage.cli.runs.gate import judge, waiting_pods
    from moorage.cli.runs.removed_pods import removed_pods
    from moorage.cli.runs.simulation import Preparation
    from moorage.objects.read.cluster_builder import CONFIGURATION
    from moorage.scheduler import expanded

    if options["survive"] is None and options["at_once"] > 1:
        raise click.UsageError("--at-once needs --survive")
    if options["survive"] is not None and output == "name":
        raise click.UsageError("--survive does not write -o name")
    with Stages("reading", "scheduling", "judging", "losing nodes") as stage:
        before, after = load_before_and_after(options)
        if not after.nodes:
            hint = "so no pod can have one; kubectl get nodes -o json lists nodes"
            if {"Event", "Event.events.k8s.io"} & after.skipped.keys():
                hint += "; to replay events as a trace, use moorage replay --format kubectl-events"
            if CONFIGURATION in after.skipped:
                hint += "; a KubeSchedulerConfiguration is given with --config"
            raise InputError(f"{NO_NODE}, {hint}", source="-f")
        changes, causes, told = requested_changes(), dict[str, str](), list[str]()
        if options["upgrade_from"] is None:
            preparation = Preparation(after, scheduler_settings(options, after), changes)
            stage()
            waiting = waiting_pods(expanded(before, **preparation.settings))
            done = preparation.run(stage)
        else:
            from moorage.cli.runs.release_comparison import compare_releases, sides_of_upgrade

            stage()
            assert after.release is not None
            releases = _two_releases(options, after.release)
            first, last, told = sides_of_upgrade(*releases, options["gates"])
            common = {**options, "gates": ""}  # each side has its own
            compared = compare_releases((first, last), after, common, changes, stages=stage)
            settings = scheduler_settings({**options, "gates": ""}, before)
            waiting = waiting_pods(expanded(before, **settings)) & compared.without_node()
            done, causes = compared.after.simulation, compared.losses()
        stage()
        verdict = judge(done, waiting, allowed, new_only, causes)
        stage()
        survival = _survival(done.scheduler, options)
    warnings = [*told, *done.warnings()]  # after the losses: pods were made for them
    if not verdict.is_about_pods:
        warnings.append(NO_POD)
    print_release(after, is_asked=options["upgrade_from"] is not None)
    print_warnings(warnings)
    write_verdict(output, done, verdict, removed_pods(done, before.pods), survival, warnings)
    return 0 if verdict.passed and (survival is None or survival) else 1


def _survival(scheduler: Scheduler, options: Mapping[str, Any]) -> Survival | None:
    """Return what can be lost; None without --survive."""
    if options["survive"] is None:
        return None
    end = time.monotonic() + options["time_limit"]
    try:
        return scheduler.survive(options["survive"], options["at_once"], lambda: time.monotonic() < end)
    except InputError as error:
        option = "--at-once" if error.path == "at_once" else "--survive"
        raise InputError(error.message, source=option) from None


def _two_releases(options: Mapping[str, Any], decides: DecidingRelease) -> tuple[str, str]:
    """Return the release of ``--upgrade-from`` and the one that decides. Only one that is named may be the
    earlier one."""
    order, before, after = list(RELEASES), options["upgrade_from"], decides.version
    hint = "name the later one with --kubernetes-version"
    if before == after:
        raise click.UsageError(f"both releases are {after} ({decides.reason}); {hint}")
    if options["version"] is None and order.index(after) < order.index(before):
        found = f"Kubernetes {after} decides ({decides.reason}), which is before {before}"
        raise click.UsageError(f"{found}; {hint}")
    return before, after
