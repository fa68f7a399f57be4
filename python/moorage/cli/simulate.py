"""``moorage simulate``: schedules all pending pods of a cluster, by one scheduler or by several."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from moorage.cli.inputs import feature_gates, input_options, load_input, scheduler_options
from moorage.cli.messages import print_message, stages
from moorage.errors import located

if TYPE_CHECKING:
    from moorage.objects import Cluster, LabelSelectorMatcher
    from moorage.scheduler import Scheduler, ScheduleResult
    from moorage.sim.optimistic import Optimistic

DEFAULT_MULTI = {"partition": "none", "chunk": 256, "processes": False}
"""Defaults of the options that concern several schedulers."""


@click.command()
@input_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "name"]),
    default="table",
    show_default=True,
    help="wide adds zone, requests and priority; name prints pod/NAME of each placed pod and nothing else.",
)
@click.option("-n", "--namespace", help="Show only this namespace's pods; everything is still scheduled.")
@click.option(
    "-l",
    "--selector",
    default="",
    help="Show only pods with these labels, as kubectl takes them: a=b,c!=d,e in (x,y),!f.",
)
@click.option("--summary", "summary_only", is_flag=True, help="Leave out the row per pod.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="For random ties and --synthetic.",
)
@click.option(
    "--percentage-of-nodes-to-score",
    "percentage",
    type=click.IntRange(0, 100),
    help="How many feasible nodes are enough, in percent of the nodes; 0, the default, adapts to them.",
)
@click.option(
    "--tie-break",
    type=click.Choice(["go-heap", "first", "random"]),
    default="go-heap",
    show_default=True,
    help="Choice among nodes of equal score; go-heap is kube-scheduler's.",
)
@click.option(
    "--schedulers",
    type=click.IntRange(1, 1000),
    help="So many at once, each on its own copy of the cluster; a binder resolves their conflicts.",
)
@click.option(
    "--partition",
    type=click.Choice(["none", "zone", "hash"]),
    default=DEFAULT_MULTI["partition"],
    show_default=True,
    help="How nodes are partitioned; each scheduler prefers the nodes of its partition.",
)
@click.option(
    "--chunk",
    type=click.IntRange(1),
    default=DEFAULT_MULTI["chunk"],
    show_default=True,
    help="Pods of each scheduler between two updates by the binder.",
)
@click.option("--processes", is_flag=True, help="Run the schedulers in processes instead of threads.")
@click.option("--require-all", is_flag=True, help="Exit with 1 if a pod is unschedulable.")
@scheduler_options
def simulate(
    files: tuple[str, ...],
    synthetic: str | None,
    output: str,
    namespace: str | None,
    selector: str,
    summary_only: bool,
    seed: int,
    percentage: int | None,
    tie_break: str,
    schedulers: int | None,
    require_all: bool,
    config: str | None,
    gates: str,
    **multi: Any,
) -> int:
    """Schedule all pending pods, and say where they go or why they do not."""
    from moorage.cli import output as out
    from moorage.sim.summary import summarize

    if schedulers is None and multi != DEFAULT_MULTI:
        raise click.UsageError("--partition, --chunk and --processes are for --schedulers")
    if summary_only and output == "name":
        raise click.UsageError("-o name has no summary")
    matcher = _matcher(selector)
    started = time.perf_counter()
    with stages("reading", "scheduling", "summing up") as stage:
        cluster = load_input(files, synthetic, seed)
        loaded = time.perf_counter() - started
        stage()
        settings: dict[str, Any] = {"config": config, "feature_gates": feature_gates(gates), "seed": seed}
        settings |= {"percentage_of_nodes_to_score": percentage, "tie_break": tie_break}
        scheduler, result, preparing, several = _place_pods(cluster, settings, schedulers, multi)
        stage()
        pods = None if summary_only else out.shown_pods(cluster, result, namespace, matcher)
        summary = summarize(cluster, scheduler, result)
    for warning in [*cluster.warnings, *result.warnings]:
        print_message("warning", warning)
    out.write(output, pods, cluster, result, summary, several)
    print(f"loaded in {loaded + preparing:.3f} s, scheduled in {result.seconds:.3f} s", file=sys.stderr)
    if several is not None:
        print(out.throughput(several), file=sys.stderr)
    return 1 if require_all and result.unschedulable else 0


def _place_pods(
    cluster: Cluster, settings: dict[str, Any], schedulers: int | None, multi: Mapping[str, Any]
) -> tuple[Scheduler, ScheduleResult, float, Optimistic | None]:
    """Place all pending pods.

    Returns
    -------
    Scheduler
        With the final state of the cluster.
    ScheduleResult
    float
        Seconds of preparation.
    Optimistic or None
        Counters of several schedulers.
    """
    began = time.perf_counter()
    if schedulers is None:
        from moorage.scheduler import Scheduler

        scheduler = Scheduler(cluster, **settings)
        preparing = time.perf_counter() - began
        return scheduler, scheduler.run(), preparing, None
    from moorage.sim.optimistic import simulate_optimistically

    done = simulate_optimistically(cluster, schedulers, **multi, settings=settings)
    preparing = time.perf_counter() - began - done.seconds
    return done.scheduler, done.result, preparing, done


def _matcher(selector: str) -> LabelSelectorMatcher:
    from moorage.objects import parse_selector

    with located(ValueError, source="--selector"):
        return parse_selector(selector)
