"""``moorage plan …``: how many nodes, which can be emptied, what could be placed at most."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import InputError, located, no_node, number_of, shorten
from moorage.lazy import NamedTuple

from ..messages import Stages, show_progress
from ..options.change_options import (
    ChangingCommand,
    after_run_option,
    change_options,
    command_alike,
    place_first,
    setup_of,
)
from ..options.inputs import input_options, scheduler_options, told_about
from ..options.new_node_options import (
    asked_node_options,
    asked_nodes,
    coming_nodes,
    draws_option,
    known_node_options,
    refuse_groups,
    time_option,
    types_option,
)
from ..options.option_types import (
    CommandGroup,
    WholeNumber,
    all_of,
    is_given,
    offer,
    offered_workloads,
    output_option,
)
from ..options.option_types import offered_nodes as nodes_of

if TYPE_CHECKING:
    from moorage.answers.node_emptying import Beginning
    from moorage.answers.runs.coming_nodes import ComingNodes
    from moorage.answers.scheduler import Scheduler
    from moorage.kube import Node, Pod
    from moorage.table import Tabular

NO_PENDING = "No pod is pending, so the answer is about none; --pod asks about others."
Question = Callable[["PlanGround"], "Tabular"]
pod_option = click.option(
    "--pod",
    "templates",
    multiple=True,
    metavar="FILE|KIND/NAME[=N]",
    shell_complete=offer(offered_workloads),
    help="N pods of a manifest, or of a workload of the cluster, such as "
    "deploy/NAMESPACE/NAME=3. Repeatable; default: the pending pods.",
)
force_option = click.option("--force", is_flag=True, help="Also move pods that have no controller.")


class PlanGround(NamedTuple):
    """What a question is about: a cluster, its nodes before the changes, how it came about, the pods of
    --pod, and with what nodes come."""

    scheduler: Scheduler
    before: list[Node]
    begun: Beginning
    pods: list[tuple[Pod, int]]
    coming: ComingNodes | None


@click.group(cls=CommandGroup)
def plan() -> None:
    """Plan nodes and moves of pods. Nothing is changed.

    Exit codes: 0 if it ran, whatever the answer; 1 for a refused object of the change, and with drain --gate
    if a node cannot be drained; 2 for bad input.
    """


planning_options = all_of(
    input_options,
    after_run_option,
    output_option(["table", "json", "yaml", "csv", "markdown", "html"]),
    change_options,
    scheduler_options,
)


@plan.command(
    "nodes",
    cls=ChangingCommand,
    examples=(
        "moorage plan nodes -f examples --like node-1 --price node-1=0.2",
        "moorage plan nodes -f examples/shop/cluster.yaml -f examples/shop/release/web.yaml --like new-a",
    ),
)
@click.option(
    "--like",
    multiple=True,
    metavar="NODE[,zone=ZONE][,LABEL=VALUE…]|FILE",
    shell_complete=offer(nodes_of),
    help="A template for new nodes: a node or pool=NAME, perhaps with another zone or labels, or a manifest; "
    "repeatable. Default: the nodes that NodePools of the input, and node groups, make.",
)
@click.option(
    "--price",
    "given",
    multiple=True,
    metavar="NODE=PRICE",
    help="Price of a node of a template of --like per hour, for the cheapest plan; repeatable.",
)
@known_node_options
@pod_option
@click.option(
    "--max",
    "most",
    type=WholeNumber(0),
    default=10_000,
    show_default=True,
    help="Maximum number of new nodes like those of --like.",
)
@planning_options
def nodes(like: tuple[str, ...], given: tuple[str, ...], most: int, **options: Any) -> None:
    """Find how many new nodes the pending pods need, or the pods of --pod.

    NODES is with how many kube-scheduler places all pods, as check --add-nodes does. PACKED is on how few
    they fit if each is put on the right node. CHEAPEST is the cheapest way to place them all that was found,
    with the prices of --price, or those of --instance-types for nodes that name their type. DaemonSets run
    their pods on the new nodes, too; a template without room for one is left out. Pods pass admission like
    new ones, and no pod is evicted.

    Without --like, NODES are those that Karpenter makes for the NodePools of the input, and
    cluster-autoscaler for node groups, as in check; CHEAPEST is a cheaper way that these allow, if one is
    found. Pods of --pod get theirs after the pending ones.

    Exit codes: 0 if it ran, whatever the answer; 1 for a refused object of the change; 2 for bad input.
    """
    prices = dict(map(_price, given))
    for option in ("--price",) * bool(given) + ("--max",) * is_given("most"):
        if not like:
            raise click.UsageError(f"{option} has no effect without --like")

    def ask(ground: PlanGround) -> Tabular:
        from moorage.answers.nodes.planned_nodes import planned_nodes, prices_of

        scheduler, pods = ground.scheduler, ground.pods
        if not like:
            return planned_nodes(scheduler, ground.coming, pods)
        refuse_groups(options, "--like")
        templates = [node for text in like for node in _node_templates(ground, text)]
        known, notes = prices_of(scheduler, templates, asked_nodes(options).types())
        needed = scheduler.ask.nodes_needed(pods or None, like=templates, max=most, prices=known | prices)
        return replace(needed, notes=(*needed.notes, *notes))

    _answer(options, ask, "--like", asks_pools=not like, grows=not like)


def _price(text: str) -> tuple[str, float]:
    """Read the price of a template."""
    name, _, price = text.rpartition("=")
    try:
        if name and float(price) >= 0:
            return name, float(price)
    except ValueError:
        pass
    raise click.UsageError(f"--price {shorten(text, 80)}: write NODE=PRICE, such as node-1=0.2")


def _node_templates(ground: PlanGround, text: str) -> Sequence[str | Node]:
    """Return the nodes of a file, the name of a node, a node that the changes remove, or of those that a
    label selects one of each size in each zone."""
    if not os.path.isfile(text):
        name, comma, labels = text.partition(",")
        if "=" not in name:
            return [_node_named(ground, name) or text]
        from moorage.cluster.references import select_nodes
        from moorage.kube.model.node import ZONE

        alike = {
            (node.metadata.labels.get(ZONE), *map(str, node.status.allocatable.items())): node
            for node in reversed(select_nodes(ground.scheduler.client, name))
        }
        return [f"{node.name}{comma}{labels}" for node in reversed(alike.values())]
    from moorage.kube import load

    listed = load(Path(text)).nodes
    if not listed:
        hint = "write a Node manifest, with the labels, taints and status.allocatable of the new nodes"
        raise InputError(f"this file has no node; {hint}", source="--like", obj=text)
    return listed


def _node_named(ground: PlanGround, text: str) -> Node | None:
    """Return a node that the changes remove, None for one of the cluster; or say what to write in place of an
    instance type, or of another name that no node has."""
    from moorage.cluster.references import node_name
    from moorage.kube import Node

    listed: list[Node] = ground.scheduler.client.list(Node)[0]
    name, nodes = node_name(text), [node.name for node in listed]
    if name in nodes:
        return None
    if removed := [node for node in ground.before if node.name == name]:
        return removed[0]
    hint = "or give a file with a Node manifest: its labels, taints and status.allocatable"
    raise InputError(f"{no_node(name, nodes)}; {hint}")


@plan.command(
    cls=ChangingCommand,
    examples=(
        "moorage plan drain pool=old -f examples/shop/cluster.yaml",
        "moorage plan drain --all --gate -f examples/shop/cluster.yaml",
    ),
)
@click.argument("names", nargs=-1, metavar="[NODE|LABEL=VALUE]…", shell_complete=offer(nodes_of))
@click.option(
    "--count",
    type=WholeNumber(1),
    help="Drain this many of all nodes; nodes with the fewest pods are tried first.",
)
@click.option(
    "--all",
    "all_nodes",
    is_flag=True,
    help="Drain each node of the cluster, one without the others: what blocks an upgrade, node by node.",
)
@click.option("--gate", is_flag=True, help="Exit with 1 if a node cannot be drained.")
@force_option
@asked_node_options
@planning_options
def drain(
    names: tuple[str, ...], count: int | None, all_nodes: bool, gate: bool, force: bool, **options: Any
) -> int:
    """Find an order in which nodes can be drained so that every pod finds a node, the moves, and the price of
    the nodes; or the pods that stay, and which changes let them go, each tried alone.

    Nodes are drained one after the other, while all of the plan are cordoned. Disruption budgets are
    respected.

    Exit codes: 0 if it ran, whatever the answer; 1 for a refused object of the change, and with --gate if a
    node cannot be drained; 2 for bad input.
    """
    if bool(names) + (count is not None) + all_nodes != 1:
        raise click.UsageError("give one of nodes, --count and --all")
    which = None if all_nodes else count or names
    source = "NODE" if names else "--all" if all_nodes else "--count"
    if options["autoscale"] and not names:
        raise click.UsageError(
            f"--autoscale needs the nodes that are drained: give them in place of {source}"
        )

    def ask(ground: PlanGround) -> Tabular:
        from moorage.answers.node_emptying import drain_plan
        from moorage.kube import Node

        scheduler, settings = ground.scheduler, asked_nodes(options)
        plan = drain_plan(scheduler, which, force, show_progress, ground.begun)
        nodes: list[Node] = scheduler.client.list(Node)[0]
        groups = settings.groups(nodes, ())
        priced = groups.settings.node_groups if groups is not None else ()
        return plan.with_prices(scheduler.client, settings.types(), priced)

    plan = _answer(options, ask, source, drained=names)
    return 1 if gate and not plan else 0


@plan.command(
    cls=ChangingCommand,
    examples=(
        "moorage plan defragment --nodes 2 -f examples/shop/cluster.yaml",
        "moorage plan defragment --gpus 4 --resource example.com/gpu -f examples/gpu/cluster.yaml",
    ),
)
@click.option(
    "--nodes", type=WholeNumber(1), help="Number of nodes to have empty, with those that are empty already."
)
@click.option("--gpus", type=WholeNumber(1), help="Number of devices to have free on one node.")
@click.option(
    "--resource", default="nvidia.com/gpu", show_default=True, help="The resource that --gpus counts."
)
@click.option("--max-moves", type=WholeNumber(0), help="Maximum number of moves.")
@force_option
@planning_options
def defragment(
    nodes: int | None, gpus: int | None, resource: str, max_moves: int | None, force: bool, **options: Any
) -> None:
    """Find moves of pods that free whole nodes, or devices on one node.

    Pods of other nodes move, too, if that makes room. Cordon the node that a pod leaves while it moves.

    Exit codes: 0 if it ran, whatever the answer; 1 for a refused object of the change; 2 for bad input.
    """
    if (nodes is None) == (gpus is None):
        raise click.UsageError("give either --nodes or --gpus")

    def ask(ground: PlanGround) -> Tabular:
        return ground.scheduler.ask.defragment(
            nodes, gpus, resource=resource, max_moves=max_moves, force=force
        )

    _answer(options, ask, "--gpus" if nodes is None else "--nodes")


@plan.command(
    cls=ChangingCommand,
    examples=(
        "moorage plan bound -f examples",
        "moorage plan bound -f examples/shop/cluster.yaml --pod deploy/shop/web=40",
    ),
)
@pod_option
@planning_options
def bound(**options: Any) -> None:
    """Find how many pending pods could be placed at most, and which resources are the limit.

    This needs the extra lp. No pod is evicted.

    Exit codes: 0 if it ran, whatever the answer; 1 for a refused object of the change; 2 for bad input.
    """

    def ask(ground: PlanGround) -> Tabular:
        from moorage.answers.new_nodes import admitted_pods, asked_pods

        scheduler = ground.scheduler
        if not ground.pods:
            return scheduler.ask.bound()
        admitted, refused = admitted_pods(scheduler, asked_pods(ground.pods))
        if refused:
            raise InputError(next(iter(refused.values())).text, source="--pod")
        return scheduler.ask.bound(admitted)

    _answer(options, ask, "--pod")


@plan.command(
    cls=ChangingCommand,
    examples=(
        "moorage plan quota -f examples/kueue/cluster.yaml -f examples/kueue/large.yaml",
        "moorage plan quota -f examples/kueue/cluster.yaml -f examples/kueue/large.yaml -o json",
    ),
)
@planning_options
def quota(**options: Any) -> None:
    """Find the quotas of Kueue's queues that would admit all workloads that wait in them, without a
    preemption, one after the other as small as possible; and how many of their pods find nodes then.

    Exit codes: 0 if it ran, whatever the answer; 1 for a refused object of the change; 2 for bad input.
    """
    _answer(options, lambda ground: ground.scheduler.ask.quota_plan(), "-f")


@plan.command(
    cls=ChangingCommand,
    examples=(
        "moorage plan consolidate -f examples/karpenter/underused/cluster.yaml "
        "--instance-types examples/karpenter/instance_types.yaml",
        "moorage plan consolidate --once -f examples/karpenter/underused/cluster.yaml "
        "--instance-types examples/karpenter/instance_types.yaml",
    ),
)
@click.option("--once", is_flag=True, help="End after the first command.")
@time_option
@draws_option
@click.option(
    "--spot-to-spot",
    is_flag=True,
    default=None,
    help="The feature gate SpotToSpotConsolidation is on. Default: as Karpenter's Deployment in the input "
    "says.",
)
@types_option
@planning_options
def consolidate(once: bool, at: str | None, seeds: int, **options: Any) -> None:
    """Find which nodes Karpenter removes or replaces, what that saves, and where their pods go.

    Commands follow one another until nothing more happens; kube-scheduler places the pods after each. Between
    them so much time passes that consolidateAfter is over. Of a node group, explain node/NAME with
    --node-groups says what cluster-autoscaler does with a node.

    Exit codes: 0 if it ran, whatever the answer; 1 for a refused object of the change; 2 for bad input.
    """

    def ask(ground: PlanGround) -> Tabular:
        from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
        from moorage.autoscalers.consolidation_rounds import NO_POOL, with_draws
        from moorage.kube import NodePool
        from moorage.kube.model.autoscaling import KarpenterSettings

        scheduler, nodes = ground.scheduler, asked_nodes(options)
        flags = nodes.karpenter_options(scheduler.client.list(KarpenterSettings)[0])
        autoscaling = AutoscalerSettings(nodes.types(), flags, options["seed"])
        if not scheduler.client.list(NodePool)[0]:
            command = command_alike(("plan", "drain", "--count", "1"))
            raise InputError(f"{NO_POOL}; which node can go, and its price: {command}", source="cluster")
        return with_draws(scheduler, autoscaling, seeds, once=once, at=at)

    _answer(options, ask, "", asks_pools=True)


def _answer(
    options: dict[str, Any],
    ask: Question,
    source: str,
    asks_pools: bool = False,
    drained: Sequence[str] | None = None,
    grows: bool = False,
) -> Tabular:
    """Load the cluster, ask, print the answer, and return it; errors of the question name an option.

    NodePools make no nodes, unless the question is about them, whether nodes come (`grows`) or go, or new
    nodes are to come first for those that are drained.
    """
    from moorage.answers.findings.finding import told_facts
    from moorage.answers.homeless_pods import waiting_note
    from moorage.answers.new_nodes import NodesNeeded
    from moorage.answers.node_emptying import Beginning, EmptyingPlan
    from moorage.answers.queues.queue_use import queue_notes
    from moorage.answers.queues.quota_plan import QuotaPlan
    from moorage.answers.runs.new_node_settings import not_simulated
    from moorage.answers.runs.pod_templates import read_templates
    from moorage.answers.runs.simulation import not_asked
    from moorage.autoscalers.consolidation_rounds import Consolidation

    from .planning_output import write_plan

    with Stages("reading", "planning") as stage:
        setup = setup_of(options, grows)
        cluster = setup.cluster
        scheduler = setup.make()
        templates, validate = options.get("templates", ()), options["validate"]
        read = read_templates(templates, scheduler.client, cluster, validate, options["namespace"])
        scheduler.change.apply(read.others)
        coming = coming_nodes(options, cluster, drained is not None) if "autoscale" in options else None

        def lead(scheduler: Scheduler) -> list[str]:
            is_run = options["after_run"]
            if drained is not None:  # it begins with the change, as a drain in check does
                if is_run:
                    setup.place(scheduler)
            elif is_run or options.get("templates") != ():  # else the question is about pending pods
                is_run = place_first(setup, scheduler, is_run)
            waiting = [] if drained is None else [*waiting_note(scheduler, is_run, drains=True)]
            return waiting if coming is None else [*waiting, *_ahead(scheduler, coming, drained or ())]

        with located(source=source):
            ahead = lead(scheduler)
            stage()
            notes = [*(_notes(scheduler, read.pods) if "templates" in options else ()), *ahead]
            begun = Beginning(setup.make, lead)
            answer = ask(PlanGround(scheduler, cluster.nodes, begun, read.pods, setup.coming))
    if isinstance(answer, NodesNeeded | Consolidation | EmptyingPlan):
        notes += answer.notes
    notes += queue_notes(scheduler.ask.queues()) if isinstance(answer, QuotaPlan) else ()
    warnings = [*setup.warnings, *read.warnings, *notes]
    if isinstance(answer, Consolidation) and (kinds := not_simulated(cluster)):
        warnings.append(f"Not simulated: {', '.join(kinds)}.")
    if coming is None and not asks_pools:
        warnings += asked_nodes(options).makes_none(cluster, "plan", can_grow="autoscale" in options)
    facts = [] if drained is None else told_facts(setup.loaded.facts)
    moved = {move.pod for move in getattr(answer, "moves", ())}
    unasked = not_asked(cluster, scheduler, moved=moved)
    write_plan(options["output"], answer, told_about(cluster, warnings, facts, unasked))
    return answer


def _ahead(scheduler: Scheduler, coming: ComingNodes, drained: Sequence[str]) -> list[str]:
    """Make the nodes that come for those that are drained; return which."""
    from moorage.answers.runs.coming_nodes import ahead_of_drain
    from moorage.cluster.references import select_nodes

    return ahead_of_drain(scheduler, coming, [node.name for node in select_nodes(scheduler.client, drained)])


def _notes(scheduler: Scheduler, given: Sequence[tuple[Pod, int]]) -> Iterator[str]:
    """Yield what to know about the pods of a question: those that are given, or else the pending ones."""
    from moorage.kube import group_of

    pending = scheduler.pods.pending
    if not (given or pending):
        yield NO_PENDING
    pods = given or [(pod, 1) for pod in pending.values()]
    grouped = sum(number for pod, number in pods if group_of(pod) is not None)
    if grouped and scheduler.handle.groups_pods:
        which = number_of(grouped, "pod belongs to a pod group", "pods belong to pod groups")
        yield f"{which}; bounds and packings count them one by one, without minimum and topology of a group."
