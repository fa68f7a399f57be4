"""``moorage simulate``: schedules all pending pods; ``moorage compare``: several runs side by side."""

from __future__ import annotations

import time
from typing import Any

import click

from moorage.errors import located

from ..messages import Stages, note
from ..options.change_options import ChangingCommand, change_options, setup_of
from ..options.inputs import (
    asked_scheduler,
    held_inputs,
    input_or_synthetic_options,
    listed_once,
    load_input,
    names_server,
    print_notes,
    scheduler_options,
    without_server,
)
from ..options.new_node_options import (
    OPTION,
    asked_nodes,
    coming_nodes,
    new_node_options,
    node_source_options,
    refuse_groups,
)
from ..options.option_types import AnsweringCommand, is_given, output_option

WITHOUT_SUMMARY = ("name", "csv", "png", "svg")


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage simulate -f examples -n default",
        "moorage simulate -f examples/shop/cluster.yaml --drain pool=old -o wide",
    ),
)
@input_or_synthetic_options
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

    Exit codes: 0 if it ran, even if pods found no node (use check for a gate); 1 for a refused object of the
    change; 2 for bad input.
    """
    from moorage.answers.runs.simulation_answer import shows, simulation_answer

    from .run_output import write_simulation

    if options["with_bound"] and (output not in ("wide", "csv") or summary_only):
        raise click.UsageError("--bound needs -o wide or -o csv")
    if summary_only and output in WITHOUT_SUMMARY:
        raise click.UsageError(f"--summary does not write -o {output}")
    with located(source="--selector"):
        is_shown = shows(None if all_namespaces else options["namespace"], selector)
    began = time.perf_counter()
    with Stages("reading", "scheduling", "summing up") as stage:
        setup = setup_of(options)
        preparing = time.perf_counter() - began
        stage()
        further = len(options["files"][1:])
        answer = simulation_answer(setup, further, None if summary_only else is_shown, stage)
    done = answer.simulation
    print_notes(answer.warnings, setup.cluster, facts=answer.facts, basis=answer.basis())
    bound = [outcome for outcome in done.bound if is_shown(outcome.pod)] if options["with_bound"] else ()
    write_simulation(output, answer, bound)
    seconds = done.result.seconds
    note("", f"loaded in {preparing:.3f} s, scheduled in {seconds:.3f} s")


@click.command(
    cls=AnsweringCommand,
    examples=(
        'moorage compare as-is "drain pool=old" -f examples/shop/cluster.yaml',
        'moorage compare "kubernetes 1.35" "kubernetes 1.37" -f examples/upgrade/cluster.yaml',
    ),
)
@click.argument("alternatives", nargs=-1, required=True, metavar="A B…")
@input_or_synthetic_options
@click.option("--from-scratch", is_flag=True, help="Place bound pods anew; only mirror pods stay.")
@output_option(
    ["table", "json", "yaml", "csv", "markdown", "github", "html"],
    "csv has the pods that differ; github has annotations for CI.",
)
@node_source_options
@scheduler_options
def compare(alternatives: tuple[str, ...], from_scratch: bool, output: str, **options: Any) -> None:
    """Compare runs: show their measures side by side, and the pods that are not in the same place.

    A, B and so on are each a KubeSchedulerConfiguration, a cluster (instead of that of -f), manifests without
    nodes or of nodes alone, which change the cluster as a later -f does, a file with node groups (see
    --node-groups), changes of the cluster such as "drain n1; scale deploy/web=4", or as-is. Changes are named
    like the options of simulate.
    "kubernetes 1.36" "kubernetes 1.37" compares two releases, and names the behaviours and feature gates that
    make the difference. A release may have feature gates of its own, as "kubernetes 1.37
    GenericWorkload=true".

    Exit codes: 0 if all alternatives ran, whether or not they differ; 1 for a refused object of the change; 2
    for bad input.
    """
    from moorage.answers.runs.alternatives import (
        ComparedInputs,
        compare_alternatives,
        compare_two_releases,
    )
    from moorage.answers.runs.comparison import releases_named

    from .run_output import write_comparison

    sides, nodes = releases_named(alternatives), asked_nodes(options)
    if sides is not None:
        if is_given("version"):
            raise click.UsageError("the alternatives name the releases: leave out --kubernetes-version")
        if options["instance_types"]:
            raise click.UsageError(f"{OPTION} has no effect between releases, for which no nodes come")
        refuse_groups(options, "releases, for which no nodes come")
        with Stages("comparing releases") as stage:
            cluster = load_input({**options, "version": sides[1].version})
            answer = compare_two_releases(
                sides, cluster, asked_scheduler(options), nodes, from_scratch, stage
            )
    else:
        given = dict(listed_once(options)) if len(alternatives) > 1 else options
        inputs = ComparedInputs(
            lambda name: load_input({**given, "files": (*given["files"], *filter(None, (name,)))}),
            lambda name: load_input({**without_server(given), "files": (name,), "synthetic": None}),
            bool(given["files"] or names_server(given)),
            asked_scheduler(options),
            lambda name: asked_scheduler({**options, "config": name}),
            nodes,
            lambda nodes, cluster: coming_nodes({**options, "node_groups": nodes.node_groups}, cluster),
            options["recursive"],
            held_inputs().values(),
        )
        with Stages(*alternatives, "comparing") as stage:
            answer = compare_alternatives(inputs, alternatives, from_scratch, stage)
    clusters = [run.simulation.cluster for run in answer.alternatives]
    print_notes(answer.warnings, *clusters, not_asked=answer.not_asked, basis=answer.basis())
    write_comparison(output, answer)
