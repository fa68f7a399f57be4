"""The commands and their options; the engine is imported when a command runs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from moorage.cli.config import config as config_command
from moorage.cli.explain import explain
from moorage.cli.inputs import input_options, load_input, scheduler_options, scheduler_settings
from moorage.cli.multi_scheduler import MultiSchedulerOptions, multi_scheduler_options, simulate_pods
from moorage.cli.perf import perf
from moorage.cli.printable import print_message
from moorage.errors import InputError, MoorageError

if TYPE_CHECKING:
    from moorage.objects import LabelSelectorMatcher


def run(arguments: list[str] | None) -> int:
    """Parse the arguments and run a command; an error becomes one line on stderr and an exit code."""
    try:
        code = app.main(arguments, prog_name="moorage", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        return _fail(error.format_message())
    except MoorageError as error:
        return _fail(str(error))
    except MemoryError:
        return _fail("out of memory")
    except OSError as error:  # of stdout: what is read has errors of its own
        from moorage.cli.output import discard_output

        discard_output()
        return _fail(f"cannot write: {error.strerror}")
    return int(code or 0)


def _fail(message: str) -> int:
    print_message("error", message)
    return 2


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def app(context: click.Context) -> None:
    """Schedule Kubernetes pods as kube-scheduler does, without a cluster."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


app.add_command(config_command)
app.add_command(explain)
app.add_command(perf)


@app.command()
def version() -> None:
    """Print the version."""
    from moorage import __version__

    click.echo(f"moorage {__version__}")


@app.command()
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
@multi_scheduler_options
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
    multi: MultiSchedulerOptions,
    require_all: bool,
    config: str | None,
    gates: str,
) -> int:
    """Schedule all pending pods, and say where they go or why they do not."""
    from moorage.cli import output as out
    from moorage.cli.progress import stages
    from moorage.sim.summary import summarize

    if summary_only and output == "name":
        raise click.UsageError("-o name has no summary")
    matcher = _matcher(selector)
    started = time.perf_counter()
    with stages("reading", "scheduling", "summing up") as stage:
        cluster = load_input(files, synthetic, seed)
        settings = {"percentage_of_nodes_to_score": percentage, "tie_break": tie_break, "seed": seed}
        loaded = time.perf_counter() - started
        stage()
        done = simulate_pods(cluster, settings | scheduler_settings(config, gates), multi)
        result = done.result
        stage()
        pods = None if summary_only else out.shown_pods(cluster, result, namespace, matcher)
        summary = summarize(cluster, done.scheduler, result)
    for warning in [*cluster.warnings, *result.warnings]:
        print_message("warning", warning)
    out.write(output, pods, cluster, result, summary, done.multi)
    loaded += done.preparing
    print(f"loaded in {loaded:.3f} s, scheduled in {result.seconds:.3f} s", file=sys.stderr)
    if done.multi is not None:
        print(out.throughput(done.multi), file=sys.stderr)
    return 1 if require_all and result.unschedulable else 0


def _matcher(selector: str) -> LabelSelectorMatcher:
    from moorage.objects import parse_selector

    try:
        return parse_selector(selector)
    except ValueError as error:
        raise InputError(str(error), source="--selector") from None
