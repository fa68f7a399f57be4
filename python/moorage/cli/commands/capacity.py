"""``moorage capacity``: how many replicas of a pod fit; ``moorage nodes``: what is free on each node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import click

from moorage.errors import NO_NODE, InputError, located, nearest_or_known, no_node

from ..messages import Stages
from ..options.change_options import (
    ChangingCommand,
    after_run_option,
    change_options,
    changed_setup,
    place_first,
)
from ..options.inputs import (
    input_options,
    load_input,
    scheduler_options,
    scheduler_settings,
    told_about,
)
from ..options.new_node_options import (
    asked_node_options,
    asked_nodes,
    coming_nodes,
    prices_option,
)
from ..options.option_types import (
    WholeNumber,
    offer,
    offered_labels,
    offered_nodes,
    offered_workloads,
    output_option,
    share_of,
)

if TYPE_CHECKING:
    from moorage.answers.nodes.node_room import LazyRoom, NodeRooms
    from moorage.answers.scheduler import Scheduler
    from moorage.document import Document
    from moorage.kube import Cluster

_NO_POD = "The input has no pod, so nothing counts as requested; kubectl get pods -A -o json lists them."


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
    pods of the cluster are ignored, except with --after-run or an option of a change.

    Exit codes: 0 if it ran, however many fit; 1 for a refused object of the change; 2 for bad input.
    """
    from moorage.answers.runs.pod_templates import (
        as_gang,
        queue_warnings,
        read_templates,
        template_group_warnings,
        turn_warnings,
    )
    from moorage.answers.runs.simulation import not_asked
    from moorage.cluster.lacking_pods import template_warnings
    from moorage.kube import Pod

    from .planning_output import write_capacity

    with Stages("reading", "counting") as stage:
        cluster = load_input(options)
        if exclude_nodes is not None:
            cluster = _without(cluster, exclude_nodes)
        settings = scheduler_settings(options, cluster)
        if by is not None and all(by not in node.metadata.labels for node in cluster.nodes):
            raise InputError("no node has this label", source="--by", obj=repr(by))
        stage()
        setup = changed_setup(cluster, settings)
        scheduler = setup.make()
        read = read_templates(templates, scheduler.client, cluster, options["validate"], options["namespace"])
        scheduler.change.apply(read.others)
        is_run = place_first(setup, scheduler, options["after_run"])
        label = {} if by is None else {"by": by}
        pods = read.pods if gang is None else as_gang(scheduler, read.pods)
        coming, ahead = coming_nodes(options, cluster), list[str]()
        if coming is not None:
            from moorage.answers.runs.coming_nodes import ahead_of_replicas

            ahead = ahead_of_replicas(scheduler, coming, pods, max_limit or None)
        try:
            answer = scheduler.ask.capacity(pods, max=max_limit or None, gang=gang, **label)
        except InputError as error:
            raise (InputError(error.message, source="--gang") if error.path == "gang" else error) from None
        scheduler.context.refuse_failing_plugins(pod.spec.scheduler_name for pod, _ in pods if answer.count)
        others = (
            [pod for pod, _ in pods if pod.key != answer.failed]
            if answer.failed and not answer.rounds
            else []
        )
        alone = {} if gang else {pod.key: scheduler.ask.capacity(pod).count for pod in others}
    warnings = [*setup.warnings, *ahead, *read.warnings, *template_warnings(scheduler.client)]
    warnings += setup.unended_drains(scheduler) if is_run else ()
    warnings += [*turn_warnings(scheduler, read.pods), *template_group_warnings(scheduler, pods, gang)]
    warnings += queue_warnings(scheduler.client, pods) if gang or len(pods) > 1 else ()
    warnings += [] if coming else asked_nodes(options).makes_none(cluster, "capacity", can_grow=True)
    candidates = [*scheduler.client.list(Pod)[0], *(pod for pod, _ in pods)] if cluster.is_reviewed else []
    unasked = not_asked(cluster, scheduler, candidates)
    about = told_about(cluster, warnings, not_asked=unasked)
    write_capacity(output, answer, verbose, scheduler, about, alone)


def _without(cluster: Cluster, names: str) -> Cluster:
    """Return a cluster without some nodes and the pods that are on them."""
    from dataclasses import replace

    from moorage.cluster.references import node_name

    left_out = {node_name(name) for part in names.split(",") if (name := part.strip())}
    if not left_out:
        raise InputError("give at least one node", source="--exclude-nodes")
    known = {node.name for node in cluster.nodes}
    if unknown := sorted(left_out - known):
        raise InputError(no_node(unknown[0], known), source="--exclude-nodes")
    nodes = [node for node in cluster.nodes if node.name not in left_out]
    pods = [pod for pod in cluster.pods if pod.spec.node_name not in left_out]
    return replace(cluster, nodes=nodes, pods=pods)


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage nodes -f examples/shop/cluster.yaml --by pool",
        "moorage nodes -f examples/shop/cluster.yaml --fail-zone a --sort-by cpu",
    ),
)
@input_options
@click.option(
    "--by",
    metavar="zone|pool|type|version|LABEL|namespace|workload|device|queue",
    shell_complete=offer(
        offered_labels, "device", "namespace", "pool", "queue", "type", "version", "workload", "zone"
    ),
    help="Show a row for each value of a label or version of the kubelet; what the pods of each namespace "
    "request, and the use of its quotas; what each workload requests (both: of -n); who holds GPUs; or what "
    "the queues of Kueue use, borrow and lend.",
)
@click.option(
    "-l",
    "--selector",
    default="",
    help="Show only the node of this name, or nodes with these labels, in kubectl's syntax, or by zone, "
    "region, type and pool; and in wide and json all of their workloads.",
)
@click.option(
    "--sort-by",
    metavar="FIELD|RESOURCE",
    help="Sort by share (the fullest first), cpu%, memory%, pods, age, or a field of -o json, such as price; "
    "numbers from the largest. Of other resources what is free counts, or requested by workloads.",
)
@click.option(
    "--over",
    callback=share_of,
    metavar="N%",
    help="Nodes with more cpu or memory requested.",
)
@click.option(
    "--under",
    callback=share_of,
    metavar="N%",
    help="Nodes with less of both requested.",
)
@prices_option
@after_run_option
@output_option(
    ["table", "wide", "json", "yaml", "csv", "markdown", "html", "name"],
    "wide adds types, prices, all resources, taints, and the workloads that request most; csv has the "
    "same in millicores and bytes, without workloads.",
)
@change_options
@scheduler_options
def nodes(by: str | None, selector: str, sort_by: str | None, output: str, **options: Any) -> None:
    """Show which share of nodes is requested, and what is free.

    Only pods that have a node count; with --after-run, an option of a change, or a second -f that takes pods
    from nodes, the pending pods are placed first. Requests are those that the scheduler counts, with init
    containers, sidecars and overhead. What is free on nodes that are cordoned or tainted stands apart, as
    (+4).

    Exit codes: 0 if it ran; 1 for a refused object of the change; 2 for bad input.
    """
    from moorage.answers.nodes.measured_use import forget_metrics, stray_metrics
    from moorage.answers.runs.simulation import not_asked

    from .nodes_output import write_nodes, write_uses

    namespace = options["namespace"]
    of_namespaces = by == "namespace" or (namespace and by is None)
    if (of_namespaces and selector) or (namespace and by not in (None, "namespace", "workload")):
        raise click.UsageError(
            "-n and --by namespace show what namespaces request: leave out -l and any other --by but workload"
        )
    shares = options["over"], options["under"]
    if (of_namespaces or by in ("workload", "device", "queue")) and shares != (None, None):
        raise click.UsageError("--over and --under choose nodes, or groups of them")
    if (by or of_namespaces) and output == "name":
        raise click.UsageError("--by does not write -o name")
    with Stages("reading", "counting") as stage:
        cluster = load_input({**options, "with_metrics": True})
        if not cluster.nodes and by != "queue":  # quotas need none
            raise InputError(f"{NO_NODE}; kubectl get nodes -o json lists nodes", source="-f")
        settings = scheduler_settings(options, cluster)
        setup = changed_setup(cluster, settings)
        scheduler = setup.make()
        if is_run := place_first(setup, scheduler, options["after_run"]):
            forget_metrics(scheduler)
        stage()
        of = "namespace" if of_namespaces else by or ""
        rows, of_prices, rooms = _rows(scheduler, of, selector, options)
        pools: list[LazyRoom] = []
        if rooms and not of and shares == (None, None) and output in ("table", "markdown"):
            has_several = len({room.pool for room in rows}) > 1
            pools = sorted(rooms.by("pool"), key=attrgetter("name")) if has_several else []
        if shares != (None, None):
            rows = _between(rows, *shares)
        if sort_by is not None:
            rows = _sorted(rows, sort_by, "requests" if of in ("namespace", "workload") else "free")
    from moorage.answers.findings.finding import told_facts
    from moorage.answers.homeless_pods import waiting_note
    from moorage.kube import Pod

    facts = told_facts(setup.loaded.facts, ())
    has_pods = bool(scheduler.client.list(Pod)[0] or cluster.finished)
    notes = [*([] if has_pods or output == "name" else [_NO_POD]), *setup.warnings]
    notes += waiting_note(scheduler, is_run) if output != "name" else ()
    notes += filter(
        None, [*of_prices, *(setup.unended_drains(scheduler) if is_run else [stray_metrics(scheduler)])]
    )
    unasked = not_asked(cluster, scheduler)
    about = told_about(cluster, notes, facts, unasked)
    if of in ("namespace", "workload", "device", "queue"):
        write_uses(output, rows, of, about)
    else:
        write_nodes(output, rows, of, about, pools)


def _rows(
    scheduler: Scheduler, of: str, selector: str, options: Mapping[str, Any]
) -> tuple[list[Any], list[str], NodeRooms | None]:
    """Return the rows of nodes, or of what else the question is about; notes about their prices; and the
    rooms that rows of nodes come from."""
    from moorage.answers.nodes.node_room import NO_LABEL, NodeRooms
    from moorage.answers.nodes.paid_room import node_prices
    from moorage.answers.nodes.pod_use import namespace_use, workload_use
    from moorage.cluster.references import select_nodes

    names = None
    if selector:
        with located(source="--selector"):
            names = [node.name for node in select_nodes(scheduler.client, selector)]
    if of == "device":
        return [use for use in scheduler.ask.device_use() if names is None or use.node in names], [], None
    if of == "queue":
        if selector:
            raise click.UsageError("--by queue shows queues, which have no node labels: leave out -l")
        from moorage.answers.queues.queue_use import queue_notes, queue_use

        with located(source="--by"):
            queues = scheduler.ask.needed_queues()
        return queue_use(queues), [*queue_notes(queues)], None
    prices, notes = node_prices(scheduler.client, asked_nodes(options).types())
    if of == "namespace":
        return namespace_use(scheduler, options["namespace"] or "", prices), notes, None
    if of == "workload":
        uses = workload_use(scheduler, names, prices)
        return [use for use in uses if options["namespace"] in (None, use.namespace)], notes, None
    with located(source="--by"):
        rooms = NodeRooms(scheduler, names, prices)
        rows = rooms.by(of)
    return sorted(rows, key=lambda room: (room.name == NO_LABEL, room.name)), notes, rooms


def _between(rooms: Sequence[LazyRoom], over: float | None, under: float | None) -> list[LazyRoom]:
    """Return the nodes of which more is requested than one share, and less than another."""
    lower, upper = -inf if over is None else over, inf if under is None else under
    return [room for room in rooms if lower < room.fullest < upper]


_FIELDS = {"age": "created", "cpu%": "share.cpu", "memory%": "share.memory", "pods": "requested.pods"}
"""What --sort-by calls fields of nodes."""
T = TypeVar("T", bound="Document | LazyRoom")


def _sorted(items: Sequence[T], field: str, usual: str) -> list[T]:
    """Sort by a field, numbers from the largest; what lacks it comes last.

    Parameters
    ----------
    usual : str
        The field that has the amount of a resource that is named alone.
    """
    from moorage.document import shown

    if usual == "free" and field == "share":
        return sorted(items, key=lambda item: -item.fullest)  # type: ignore[union-attr]
    field = _FIELDS.get(field, field) if usual == "free" else field
    documents: list[Document] = shown([*items])
    fields = [dict(_fields(each.to_dict())) for each in documents]
    names = {name for values in fields for name in values}
    name = field if field in names else f"{usual}.{field}"
    if items and name not in names:
        if field in documents[0].__struct_encode_fields__:
            raise InputError(f"no {field} is known", source="--sort-by", obj=repr(field))
        resources = {name.partition(".")[2] for name in names if name.startswith(f"{usual}.")}
        hint = nearest_or_known(field, names | resources)
        raise InputError(f"no row has this field{hint}", source="--sort-by", obj=repr(field))

    def rank(at: int) -> tuple[bool, float, str]:
        value = fields[at].get(name)
        return (False, -value, "") if isinstance(value, float) else (not value, 0.0, value or "")

    return [items[at] for at in sorted(range(len(items)), key=rank)]


def _fields(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str | float]]:
    """Yield the texts and numbers of a document, with those of maps; texts in maps are amounts of quotas."""
    from moorage._core.base.quantity import Quantity

    for name, part in value.items():
        if isinstance(part, dict):
            yield from _fields(part, f"{prefix}{name}.")
        elif isinstance(part, str):
            yield f"{prefix}{name}", float(Quantity(part).milli_value()) if prefix else part
        elif isinstance(part, int | float):
            yield f"{prefix}{name}", float(part)
