"""``moorage capacity``: how many replicas of a pod fit in a cluster, and what stops the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from moorage.errors import InputError, nearest, shorten

from ..messages import Stages
from ..options.change_options import (
    ChangingCommand,
    after_run_option,
    change_options,
    left_as_is,
    places_first,
    requested_changes,
)
from ..options.deciding_release import print_notes
from ..options.decorators import output_option
from ..options.inputs import input_options, load_input, scheduler_options, scheduler_settings
from ..options.new_node_options import asked_node_options, coming_nodes, no_new_nodes
from ..options.number_ranges import WholeNumber
from ..options.offered_names import offer, offered_labels, offered_nodes, offered_workloads

if TYPE_CHECKING:
    from moorage.kube import Cluster


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage capacity -f examples/shop/cluster.yaml --pod deploy/shop/web",
        "moorage capacity -f examples/gpu/cluster.yaml --pod examples/gpu/quarter.yaml",
    ),
)
@input_options
@click.option(
    "--pod",
    "--podspec",
    "--like",
    "templates",
    multiple=True,
    required=True,
    metavar="FILE|KIND/NAME[=N]",
    shell_complete=offer(offered_workloads),
    help="Manifests of pods and workloads, or a workload or pod group of the cluster, such as "
    "deploy/NAMESPACE/NAME or podgroup/NAME. Repeatable; =N is the number of its replicas in a round.",
)
@click.option(
    "--max-limit", type=WholeNumber(0), default=0, help="Stop after N rounds; 0, the default, means no limit."
)
@click.option(
    "--gang",
    type=WholeNumber(1),
    metavar="N",
    help="Count whole gangs of N pods, which are useless without one another; different pods as in --pod.",
)
@click.option(
    "--exclude-nodes",
    metavar="NODE,…",
    shell_complete=offer(offered_nodes),
    help="Leave out these nodes and their pods.",
)
@click.option(
    "--by",
    metavar="LABEL",
    shell_complete=offer(offered_labels),
    help="Count reasons by this node label; default: by zone.",
)
@after_run_option
@click.option("--verbose", is_flag=True, help="Show the number of replicas on each node.")
@output_option(
    ["table", "json", "yaml", "csv", "markdown", "html"], "csv has a row for each template and node."
)
@change_options
@asked_node_options
@scheduler_options
def capacity(  # noqa: PLR0913
    templates: tuple[str, ...],
    max_limit: int,
    gang: int | None,
    exclude_nodes: str | None,
    by: str | None,
    verbose: bool,
    output: str,
    **options: Any,
) -> None:
    """Count how many replicas of a pod fit besides the pods of a cluster, and say what stops the next one.

    Each pod and workload in a file of --pod is a template; other objects in the file are applied to the
    cluster. The count ends when the next replica fits nowhere, or admission refuses it, for example because
    of a ResourceQuota.

    With several templates, replicas of all of them are placed in rounds, until a round is not complete. With
    --gang N, whole gangs of N pods are placed: of templates that differ, N is a multiple of a round. Pending
    pods of the cluster are ignored, except with --after-run or a change.

    Exit codes: 0 if it ran, however many fit; 2 for bad input.
    """
    from ..output.capacity_output import write_capacity
    from ..output.printing import told
    from ..runs.beginning import begin
    from ..runs.pod_templates import as_gang, read_templates, template_group_warnings
    from ..runs.simulation import input_warnings

    namespace = options["namespace"] or "default"
    with Stages("reading", "counting") as stage:
        cluster = load_input(options)
        if exclude_nodes is not None:
            cluster = _without(cluster, exclude_nodes)
        beginning = begin(cluster, scheduler_settings(options, cluster))
        scheduler = beginning.scheduler
        read = read_templates(templates, beginning.completed, options["validate"], namespace)
        if by is not None and all(by not in node.metadata.labels for node in cluster.nodes):
            raise InputError("no node has this label", source="--by", obj=repr(by))
        stage()
        scheduler.apply(read.others)
        without_effect, nodes = list[str](), {node.name for node in cluster.nodes}
        for change in requested_changes():
            without_effect += left_as_is(change, change.make(scheduler, nodes), scheduler)
        if places_first(options["after_run"]):
            scheduler.run()
        label = {} if by is None else {"by": by}
        pods = read.pods if gang is None else as_gang(scheduler, read.pods)
        coming = coming_nodes(options, cluster)
        if coming is not None:
            from ..runs.coming_nodes import ahead_of_replicas

            without_effect += ahead_of_replicas(scheduler, coming, pods, max_limit or None)
        try:
            found = scheduler.capacity(pods, max=max_limit or None, gang=gang, **label)
        except InputError as error:
            raise (InputError(error.message, source="--gang") if error.path == "gang" else error) from None
        others = (
            [pod for pod, _ in pods if pod.key != found.failed] if found.failed and not found.rounds else []
        )
        alone = {} if gang else {pod.key: scheduler.capacity(pod).count for pod in others}
    warnings = [*input_warnings(cluster, beginning), *without_effect, *read.warnings]
    warnings += [*template_group_warnings(scheduler, pods, gang), *cluster.siblings.sentences()]
    warnings += [] if coming is not None else no_new_nodes(cluster, "capacity", can_grow=True)
    print_notes(warnings, cluster)
    write_capacity(output, found, verbose, scheduler, told(cluster, warnings), alone)


def _without(cluster: Cluster, names: str) -> Cluster:
    """Return a cluster without some nodes and the pods that are on them."""
    from dataclasses import replace

    left_out = {name for part in names.split(",") if (name := part.strip())}
    if not left_out:
        raise InputError("give at least one node", source="--exclude-nodes")
    known = {node.name for node in cluster.nodes}
    if unknown := sorted(left_out - known):
        near = nearest(unknown[0], known)
        raise InputError(f'there is no Node "{shorten(unknown[0], 80)}"{near}', source="--exclude-nodes")
    nodes = [node for node in cluster.nodes if node.name not in left_out]
    pods = [pod for pod in cluster.pods if pod.spec.node_name not in left_out]
    return replace(cluster, nodes=nodes, pods=pods)
