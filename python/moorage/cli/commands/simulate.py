"""``moorage simulate``: schedules all pending pods of a cluster, by one scheduler or by several."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.messages import Stages, note
from moorage.cli.options.change_options import ChangingCommand, change_options, requested_changes
from moorage.cli.options.deciding_release import facts_of, print_notes
from moorage.cli.options.decorators import output_option
from moorage.cli.options.inputs import (
    load_input,
    scheduler_options,
    scheduler_settings,
    simulation_input_options,
)
from moorage.cli.options.new_node_options import coming_nodes, new_node_options, no_new_nodes
from moorage.cli.options.number_ranges import WholeNumber
from moorage.errors import located

if TYPE_CHECKING:
    from moorage.objects import LabelSelectorMatcher
    from moorage.sim.result_annotations import AnnotatedRun

DEFAULT_MULTI = {"partition": "none", "chunk": 256, "executor": "threads"}
"""Defaults of the options that concern several schedulers."""
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
@click.option(
    "--schedulers",
    type=WholeNumber(1, 1000),
    help="Number of schedulers that work at the same time, each on its own copy of the "
    "cluster. A binder resolves their conflicts.",
)
@click.option(
    "--partition",
    type=click.Choice(["none", "zone", "hash"]),
    default=DEFAULT_MULTI["partition"],
    show_default=True,
    help="How to partition the nodes; each scheduler prefers the nodes of its partition.",
)
@click.option(
    "--chunk",
    type=WholeNumber(1),
    default=DEFAULT_MULTI["chunk"],
    show_default=True,
    help="Number of pods that each scheduler places between two updates from the binder.",
)
@click.option(
    "--executor",
    type=click.Choice(["threads", "ray"]),
    default=DEFAULT_MULTI["executor"],
    show_default=True,
    help="Where the schedulers run. With ray (extra ray), they and the binder are actors of a Ray cluster.",
)
@click.option(
    "--annotate",
    is_flag=True,
    help="With -o json or yaml, print the cluster after the run in the format that "
    "kube-scheduler-simulator imports, with the results of all plugins in annotations of "
    "the pods.",
)
@change_options
@new_node_options
@scheduler_options
def simulate(
    output: str,
    all_namespaces: bool,
    selector: str,
    summary_only: bool,
    annotate: bool,
    schedulers: int | None,
    **options: Any,
) -> None:
    """Schedule all pending pods, and show where they are placed, or why they are not.

    Exit codes: 0 if it ran, even if pods found no node (use check for a gate); 2 for bad input.
    """
    from moorage.cli.output.run_output import throughput, write_simulation
    from moorage.cli.runs.basis import rests_on
    from moorage.cli.runs.removed_pods import removed_pods
    from moorage.cli.runs.simulation import Preparation

    multi = {name: options.pop(name) for name in DEFAULT_MULTI}
    if options["with_bound"] and (output not in ("wide", "csv") or summary_only):
        raise click.UsageError("--bound needs -o wide or -o csv")
    if schedulers is None and multi != DEFAULT_MULTI:
        raise click.UsageError("--partition, --chunk and --executor need --schedulers")
    if summary_only and output in WITHOUT_SUMMARY:
        raise click.UsageError(f"--summary does not write -o {output}")
    if annotate and output not in ("json", "yaml"):
        raise click.UsageError("--annotate needs -o json or -o yaml")
    if annotate and (schedulers is not None or summary_only or selector):
        raise click.UsageError("--annotate cannot be combined with --schedulers, --summary or --selector")
    matcher, changes = _matcher(selector), requested_changes()
    if schedulers is not None and changes:
        raise click.UsageError(f"{changes[0].option} cannot be combined with --schedulers")
    annotated, began = _annotated_run() if annotate else None, time.perf_counter()
    with Stages("reading", "scheduling", "summing up") as stage:
        cluster = load_input(options)
        coming = coming_nodes(options, cluster) if schedulers is None else None
        preparation = Preparation(cluster, scheduler_settings(options, cluster), changes, coming)
        preparing = time.perf_counter() - began
        stage()
        if schedulers is not None:
            done = preparation.run_several(schedulers, multi)
        else:
            done = preparation.run(stage) if annotated is None else preparation.run(stage, annotated.over)
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
    warnings = [*done.warnings(), *(no_new_nodes(cluster, "--schedulers") if schedulers else ())]
    print_notes(warnings, cluster, facts=facts_of(cluster))
    if annotated is not None:
        _write_annotated(output, annotated)
    else:
        write_simulation(output, done, None if summary_only else shown, bound)
    seconds = done.result.seconds
    note("", f"loaded in {preparing:.3f} s, scheduled in {seconds:.3f} s")
    if done.several is not None:
        note("", throughput(done.several))


def _annotated_run() -> AnnotatedRun:
    from moorage.sim.result_annotations import AnnotatedRun

    return AnnotatedRun()


def _write_annotated(form: str, run: AnnotatedRun) -> None:
    """Print the cluster after an annotated run."""
    from moorage.cli.output import ignore_broken_pipe, write_value
    from moorage.sim.result_annotations import exported

    with ignore_broken_pipe():
        write_value(form, exported(run))


def _matcher(selector: str) -> LabelSelectorMatcher:
    from moorage.objects import parse_selector

    with located(ValueError, source="--selector"):
        return parse_selector(selector)
