"""``moorage simulate``: schedules all pending pods of a cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import located

from ..messages import Stages, note
from ..options.change_options import ChangingCommand, change_options, requested_changes
from ..options.deciding_release import facts_of, print_notes
from ..options.decorators import output_option
from ..options.inputs import load_input, scheduler_options, scheduler_settings, simulation_input_options
from ..options.new_node_options import coming_nodes, new_node_options

if TYPE_CHECKING:
    from moorage.kube import LabelSelectorMatcher

WITHOUT_SUMMARY = ("name", "csv", "png", "svg")


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage simulate -f examples -n default",
        "moorage simulate -f examples/shop/cluster.yaml --drain pool=old -o wide",
    ),
)
@simulation_input_options
@output_option(
    ["table", "wide", "json", "yaml", "csv", "markdown", "name", "html", "png", "svg"],
    "table and markdown have a row for each workload; wide and csv a row for each pod, "
    "with zone, requests and priority; name prints only pod/NAME of each placed pod. "
    "html is a page; png and svg show how full nodes are.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the pods of all namespaces, even with -n.")
@click.option(
    "-l",
    "--selector",
    default="",
    help="Show only pods with these labels, in kubectl's syntax: a=b,c!=d,e in (x,y),!f.",
)
@click.option(
    "--bound",
    "with_bound",
    is_flag=True,
    help="With -o wide or csv, also show the pods that already have a node.",
)
@click.option("--summary", "summary_only", is_flag=True, help="Print the summary without the pods.")
@change_options
@new_node_options
@scheduler_options
def simulate(
    output: str,
    all_namespaces: bool,
    selector: str,
    summary_only: bool,
    **options: Any,
) -> None:
    """Schedule all pending pods, and show where they are placed, or why they are not.

    Exit codes: 0 if it ran, even if pods found no node (use check for a gate); 2 for bad input.
    """
    from ..output.run_output import write_simulation
    from ..runs.basis import rests_on
    from ..runs.removed_pods import removed_pods
    from ..runs.simulation import Preparation

    if options["with_bound"] and (output not in ("wide", "csv") or summary_only):
        raise click.UsageError("--bound needs -o wide or -o csv")
    if summary_only and output in WITHOUT_SUMMARY:
        raise click.UsageError(f"--summary does not write -o {output}")
    matcher, changes, began = _matcher(selector), requested_changes(), time.perf_counter()
    with Stages("reading", "scheduling", "summing up") as stage:
        cluster = load_input(options)
        settings = scheduler_settings(options, cluster)
        preparation = Preparation(cluster, settings, changes, coming_nodes(options, cluster))
        preparing = time.perf_counter() - began
        stage()
        done = preparation.run(stage)
        number = len(options["files"][1:]) + len(changes)
        done.rests_on += rests_on(done, removed_pods(done, cluster.pods), number)
        stage()
        place = None if all_namespaces else options["namespace"]
        shown, bound = (
            [
                one
                for one in outcomes
                if place in (None, one.pod.namespace) and matcher.matches(one.pod.metadata.labels)
            ]
            for outcomes in (done.outcomes, done.bound if options["with_bound"] else [])
        )
    print_notes(done.warnings(), cluster, facts=facts_of(cluster))
    write_simulation(output, done, None if summary_only else shown, bound)
    seconds = done.result.seconds
    note("", f"loaded in {preparing:.3f} s, scheduled in {seconds:.3f} s")


def _matcher(selector: str) -> LabelSelectorMatcher:
    from moorage.kube import parse_selector

    with located(ValueError, source="--selector"):
        return parse_selector(selector)
