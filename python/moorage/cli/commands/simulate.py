"""``moorage simulate``: schedules all pending pods; ``moorage compare``: several runs side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from moorage.cluster.verbs import BY_NAME, parse_changes
from moorage.errors import ConfigurationError, InputError, located, nearest

from ..messages import Stages, note
from ..options.change_options import ChangingCommand, change_options, setup_of
from ..options.inputs import (
    asked_scheduler,
    begun,
    input_or_synthetic_options,
    listed_once,
    load_input,
    names_server,
    print_notes,
    scheduler_options,
    scheduler_settings,
    without_server,
)
from ..options.new_node_options import (
    OPTION,
    coming_nodes,
    differing_disruption,
    new_node_options,
    no_new_nodes,
    node_source_options,
    refuse_groups,
    refuse_no_node,
)
from ..options.option_types import AnsweringCommand, is_given, output_option

if TYPE_CHECKING:
    from moorage.answers.runs.comparison import Alternative

CONFIGURATION = b"KubeSchedulerConfiguration"
NODE_GROUPS = re.compile(rb"^nodeGroups:", re.MULTILINE)
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

    Exit codes: 0 if it ran, even if pods found no node (use check for a gate); 2 for bad input.
    """
    from moorage.answers.runs.gate import removed_pods, rests_on
    from moorage.answers.runs.simulation_answer import SimulationAnswer
    from moorage.kube import parse_selector
    from moorage.kube.workloads.input_facts import facts_of

    from .run_output import write_simulation

    if options["with_bound"] and (output not in ("wide", "csv") or summary_only):
        raise click.UsageError("--bound needs -o wide or -o csv")
    if summary_only and output in WITHOUT_SUMMARY:
        raise click.UsageError(f"--summary does not write -o {output}")
    with located(ValueError, source="--selector"):
        matcher = parse_selector(selector)
    began = time.perf_counter()
    with Stages("reading", "scheduling", "summing up") as stage:
        setup = setup_of(options)
        cluster = setup.cluster
        preparing = time.perf_counter() - began
        stage()
        done = setup.run(stage)
        number = len(options["files"][1:]) + len(setup.changes)
        done.rests_on += rests_on(done, removed_pods(done, cluster.pods), number)
        stage()
        place = None if all_namespaces else options["namespace"]
        shown, bound = (
            [
                outcome
                for outcome in outcomes
                if place in (None, outcome.pod.namespace) and matcher.matches(outcome.pod.metadata.labels)
            ]
            for outcomes in (done.outcomes, done.bound if options["with_bound"] else [])
        )
    warnings, facts = [*done.warnings()], facts_of(cluster)
    print_notes(warnings, cluster, facts=facts)
    answer = SimulationAnswer(done, None if summary_only else shown, [*facts, *warnings])
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
    a node, which change the cluster as a later -f does, a file with node groups (see --node-groups), changes
    of the cluster such as "drain n1; scale deploy/web=4", or as-is. Changes are named like the options of
    simulate.
    "kubernetes 1.36" "kubernetes 1.37" compares two releases, and names the behaviours and feature gates that
    make the difference. A release may have feature gates of its own, as "kubernetes 1.37
    GenericWorkload=true".

    Exit codes: 0 if all alternatives ran, whether or not they differ; 2 for bad input.
    """
    from moorage.answers.runs.comparison import ComparisonAnswer, compare_releases, releases_named

    from .run_output import write_comparison

    sides = releases_named(alternatives)
    if sides is not None:
        if is_given("version"):
            raise click.UsageError("the alternatives name the releases: leave out --kubernetes-version")
        if options["types_file"]:
            raise click.UsageError(f"{OPTION} has no effect between releases, for which no nodes come")
        refuse_groups(options, "releases, for which no nodes come")
        with Stages("comparing releases") as stage:
            cluster = load_input({**options, "version": sides[1].version})
            compared = compare_releases(sides, cluster, asked_scheduler(options), (), from_scratch, stage)
        done = [compared.before, compared.after]
    else:
        if len(alternatives) < 2:
            raise click.UsageError("give at least two alternatives")
        compared, done, options = None, [], dict(listed_once(options))
        with Stages(*alternatives, "comparing") as stage:
            for name in alternatives:
                done.append(run_alternative(name, options, from_scratch))
                stage()
    warnings = _warnings(done)
    warnings += dict.fromkeys(
        run.simulation.scale_up.source for run in done if run.simulation.scale_up is not None
    )
    warnings += differing_disruption([run.simulation.cluster for run in done])
    if compared is not None:
        warnings += no_new_nodes(done[0].simulation.cluster, "a comparison of releases")
    print_notes(warnings, *(run.simulation.cluster for run in done))
    write_comparison(output, ComparisonAnswer(done, warnings, compared))


def _warnings(alternatives: Sequence[Alternative]) -> list[str]:
    """Return the warnings of all alternatives. Those that only some have begin with the names of these, but
    for a change, which they name anyway."""
    by_text: dict[str, list[str]] = {}
    for run in alternatives:
        for text in dict.fromkeys(run.simulation.warnings()):
            by_text.setdefault(text, []).append(run.name)
    return [
        text
        if len(names) == len(alternatives) or names[0] in text
        else f"{', '.join(dict.fromkeys(names))}: {text}"
        for text, names in by_text.items()
    ]


def run_alternative(name: str, options: Mapping[str, Any], from_scratch: bool) -> Alternative:
    """Run what an argument of ``moorage compare`` stands for.

    Parameters
    ----------
    name : str
        ``as-is``, changes such as ``drain n1; scale deploy/web=4``, a file with a KubeSchedulerConfiguration,
        a file or directory with a cluster, one without a node, which changes the cluster, or one with node
        groups.
    options : mapping of str to object
        The values of `input_options` and `scheduler_options`.
    from_scratch : bool
        Whether bound pods are placed anew.

    Raises
    ------
    InputError
        The file or a change is not valid.
    """
    from moorage.answers.runs.comparison import AS_IS, Alternative, without_bindings
    from moorage.answers.runs.simulation import SimulationSetup
    from moorage.kube.read.files import is_input

    changes = [] if name == AS_IS else parse_changes(name)
    is_cluster = name != AS_IS and not changes
    is_configuration = is_cluster and CONFIGURATION in _head_of(name)
    is_cluster = is_cluster and not is_configuration
    if is_cluster and not is_input(name):
        raise InputError(f"no such file, {_other_forms(name)}", source=name)
    if is_cluster and NODE_GROUPS.search(_head_of(name)):
        options, is_cluster = {**options, "groups_file": name}, False
    may_change = is_cluster and bool(options["files"] or names_server(options))
    cluster = None
    try:
        cluster = load_input(
            {**without_server(options), "files": (name,), "synthetic": None} if is_cluster else options
        )
    except InputError:
        if not may_change or _has_nodes(name, options):
            raise
    if cluster is None or (may_change and not cluster.nodes):
        cluster = load_input({**options, "files": (*options["files"], name)})
    refuse_no_node(cluster, options, name if is_cluster else "-f")
    settings = scheduler_settings(options, cluster)
    if is_configuration:
        configured = asked_scheduler({**options, "config": name})
        with located(source=name):
            try:
                settings = configured.with_gates(settings["feature_gates"])
            except ConfigurationError as error:
                raise InputError(error.message, path=error.path) from None
    coming = coming_nodes(options, cluster)
    if from_scratch:
        cluster = without_bindings(cluster)
    setup = SimulationSetup(cluster, settings, changes, coming, begun(cluster, settings))
    return Alternative(name, setup.run())


def _other_forms(name: str) -> str:
    """Return what an error adds about what else an alternative may be."""
    from moorage.answers.runs.comparison import AS_IS, KUBERNETES

    word = name.split()[0] if name.strip() else ""
    if word in BY_NAME and BY_NAME[word].words:
        return f"and the change {word} is written {word} {BY_NAME[word].metavar}"
    known = [AS_IS, KUBERNETES, *BY_NAME]
    forms = f"and not {AS_IS}, a change such as 'drain n1', or a release such as 'kubernetes 1.36'"
    return forms + nearest(word, known)


def _head_of(name: str) -> bytes:
    """The first bytes of a file; none of a directory, and of what the reader of clusters refuses."""
    try:
        with open(name, "rb") as file:
            return file.read(1 << 16)
    except (OSError, ValueError):
        return b""


def _has_nodes(name: str, options: Mapping[str, Any]) -> bool:
    """Whether files have a node: without one they change a cluster."""
    from moorage.kube import Node
    from moorage.kube.read.read_objects import read_objects

    read = read_objects(name, recursive=options["recursive"], validate="ignore")
    return any(isinstance(obj, Node) for obj in read.objects)
