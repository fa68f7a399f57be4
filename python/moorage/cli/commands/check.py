"""``moorage check``: a gate that passes only if every pod that should run has a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import InputError
from moorage.kube.releases import RELEASES

from ..messages import Stages
from ..options.change_options import ChangingCommand, change_options, requested_changes
from ..options.inputs import (
    ReleaseChoice,
    asked_scheduler,
    begun,
    facts_of,
    input_options,
    load_before_and_after,
    names_server,
    print_notes,
    scheduler_options,
    scheduler_settings,
)
from ..options.new_node_options import (
    coming_nodes,
    groups_without_size,
    is_asked_to_grow,
    new_node_options,
    no_new_nodes,
    refuse_no_node,
)
from ..options.option_types import (
    Number,
    WholeNumber,
    is_given,
    offer,
    offered_labels,
    output_option,
    some_of,
)

if TYPE_CHECKING:
    from moorage.answers.runs.simulation import Simulation, SimulationSetup
    from moorage.answers.scheduler import Scheduler
    from moorage.answers.survival import Survival
    from moorage.kube import Cluster
    from moorage.kube.model.cluster import DecidingRelease

NO_POD = (
    "The input has no pod that should run, so nothing was checked; kubectl get pods -A -o json lists them."
)
_OF_LOSSES: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "--at-once": lambda options: options["at_once"] > 1,
    "--survive-only": lambda options: bool(options["survive_only"]),
    "--within-budgets": lambda options: options["within_budgets"],
}
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
    help="What already fails in the first -f is listed, but does not fail the gate.",
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
    ["table", "wide", "json", "yaml", "csv", "markdown", "name", "junit", "github", "html"],
    "wide names all pods and their nodes; name prints pod/NAME of each pod that fails "
    "the gate; junit writes a report, github annotations for CI, and html a page.",
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
    shell_complete=offer(offered_labels, "node", "zone"),
    help="Also lose each node, zone or value of a label in turn; pods need room elsewhere.",
)
@click.option(
    "--survive-only",
    metavar="NAMESPACE|LABEL=VALUE",
    default="",
    help="With --survive, ask only about the pods of a namespace, or with these labels.",
)
@click.option(
    "--within-budgets",
    is_flag=True,
    help="With --survive, pods may be lost as long as their PodDisruptionBudgets hold.",
)
@click.option(
    "--at-once",
    type=WholeNumber(1),
    default=1,
    show_default=True,
    help="With --survive, also lose up to N together, the fullest first.",
)
@click.option(
    "--time-limit",
    type=Number(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long --at-once may search.",
)
@change_options
@new_node_options
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
    from moorage.answers.runs.check_answer import CheckAnswer
    from moorage.answers.runs.gate import Attempts, Compared, differing_times, judge, removed_pods, rests_on
    from moorage.answers.runs.simulation import groups_refused_later
    from moorage.answers.scheduler import Scheduler

    from .check_output import write_verdict

    for option, has_it in _OF_LOSSES.items():
        if options["survive"] is None and has_it(options):
            raise click.UsageError(f"{option} needs --survive")
    if options["survive"] is not None and output == "name":
        raise click.UsageError("--survive does not write -o name")
    names = options["files"] if names_server(options) else options["files"][1:]
    with Stages("reading", "scheduling", "judging", "losing nodes") as stage:
        before, after = load_before_and_after(options)
        refuse_no_node(after, options)
        changes, causes, gate_warnings, attempts = (
            requested_changes(),
            dict[str, str](),
            list[str](),
            Attempts(),
        )
        compared = Compared([*names, *(change.text for change in changes)])
        if options["upgrade_from"] is None:
            settings: Mapping[str, Any] = scheduler_settings(options, after)
            setup, waiting = _prepared(before, after, options, settings)
            stage()
            done = setup.run(stage, attempts.over)
        else:
            from msgspec import structs

            from moorage.answers.runs.comparison import compare_releases, sides_of_upgrade

            stage()
            assert after.release is not None
            releases = _two_releases(options, after.release)
            first, last, gate_warnings = sides_of_upgrade(*releases, options["gates"])
            common = structs.replace(asked_scheduler(options), gates="")  # each side has its own
            both = compare_releases((first, last), after, common, changes, stages=stage)
            settings = common.of(before)
            waiting = begun(before, settings).waiting & both.without_node()
            done, causes = both.after.simulation, both.losses()
            settings = both.before.simulation.setup.settings
            compared = compared._replace(
                releases=releases,
                lost=len(causes),
                ended=[obj for obj in after.ended if not obj.version.is_served(releases[1])],
            )
        stage()
        verdict, removed = judge(done, waiting, allowed, new_only, causes), removed_pods(done, before.pods)
        done.rests_on += rests_on(done, removed, len(compared.changes))
        if attempts.depend_on_times(removed) and not is_given("pod_times"):
            done.depends_on = differing_times(
                verdict.passed,
                settings,
                lambda other: (
                    judge(
                        _prepared(before, after, options, other)[0].run(), waiting, allowed, new_only
                    ).passed
                ),
            )
        verdict = verdict.with_refused_later(groups_refused_later(done, before.namespaces))
        verdict = verdict._replace(compared=compared._replace(scale_up=done.scale_up, basis=[*done.basis()]))
        stage()
        if options["survive"] is not None:
            undisturbed = Scheduler(before, **settings) if new_only else None
            verdict = verdict.with_losses(_survival(done, options, undisturbed), allowed)
    warnings = [
        *gate_warnings,
        *done.warnings(),
        *_without_new_nodes(after, options, verdict.failed > 0),
        *([] if verdict.is_about_pods else [NO_POD]),
    ]  # after the losses: pods were made for them
    facts = facts_of(after)
    print_notes(warnings, after, facts=facts, is_asked=options["upgrade_from"] is not None)
    write_verdict(output, CheckAnswer(done, verdict, removed, [*facts, *warnings]))
    return 0 if verdict.passed else 1


def _prepared(
    before: Cluster, after: Cluster, options: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[SimulationSetup, Collection[str]]:
    """Return the cluster with the changes, and what was waiting before them."""
    from moorage.answers.runs.loaded_cluster import begin
    from moorage.answers.runs.simulation import SimulationSetup

    earlier = begun(before, settings)
    loaded = earlier if after is before else begin(after, settings, earlier)
    coming = coming_nodes(options, after)
    return SimulationSetup(after, settings, requested_changes(), coming, loaded), earlier.waiting


def _without_new_nodes(cluster: Cluster, options: Mapping[str, Any], fails: bool) -> Iterator[str]:
    """Yield for which questions no nodes come, and of which groups none do."""
    if fails and options["autoscales"] and options["upgrade_from"] is None:
        yield from groups_without_size(cluster)
    if options["survive"] is not None and not is_asked_to_grow():
        yield from no_new_nodes(cluster, "--survive", can_grow=True)
    if options["upgrade_from"] is not None:
        yield from no_new_nodes(cluster, "--upgrade-from")


def _survival(done: Simulation, options: Mapping[str, Any], before: Scheduler | None) -> Survival:
    """Return what can be lost."""
    from moorage.answers.survival import SurvivalQuestion, survive

    end, coming = time.monotonic() + options["time_limit"], done.setup.coming
    question = SurvivalQuestion(
        options["survive"],
        options["at_once"],
        lambda: time.monotonic() < end,
        only=options["survive_only"],
        within_budgets=options["within_budgets"],
        before=before,
        autoscaling=coming.autoscaling if coming is not None and is_asked_to_grow() else None,
    )
    try:
        return survive(done.scheduler, question)
    except InputError as error:
        option = {"at_once": "--at-once", "only": "--survive-only"}.get(error.path, "--survive")
        raise InputError(error.message, source=option) from None


def _two_releases(options: Mapping[str, Any], decides: DecidingRelease) -> tuple[str, str]:
    """Return the release of ``--upgrade-from`` and the one that decides. Only one that is named may be the
    earlier one."""
    order, before, after = list(RELEASES), options["upgrade_from"], decides.version
    hint = "name the later one with --kubernetes-version"
    if before == after:
        raise click.UsageError(f"both releases are {after} ({decides.reason}); {hint}")
    if options["version"] is None and order.index(after) < order.index(before):
        conflict = f"Kubernetes {after} decides ({decides.reason}), which is before {before}"
        raise click.UsageError(f"{conflict}; {hint}")
    return before, after
