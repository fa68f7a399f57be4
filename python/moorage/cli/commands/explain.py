"""``moorage explain``: explains on which node pods would be placed, or why they fit no node."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from moorage.errors import InputError, located, no_node, with_hint
from moorage.notes import RoutineNote, as_sentence, basis_line, basis_of

from ..options.change_options import ChangingCommand, change_options, place_first, setup_of
from ..options.inputs import (
    input_options,
    print_notes,
    scheduler_options,
    told_about,
)
from ..options.new_node_options import node_source_options, time_option
from ..options.option_types import offer, offered_nodes, offered_workloads, output_option, row_count

if TYPE_CHECKING:
    from moorage.answers.explain.explain_document import PodsNotMade
    from moorage.answers.explain.refusals_by_place import RefusalsDocument
    from moorage.answers.explain.targets import ExplainedTarget, Target
    from moorage.answers.runs.coming_nodes import ScaleUpReport
    from moorage.answers.runs.simulation import PodsAlike, SimulationSetup
    from moorage.answers.scheduler import Scheduler
    from moorage.kube.model.about_input import AboutInput
    from moorage.kube.workloads.ownership import Workload


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage explain deploy/shop/web -f examples/shop/cluster.yaml -f examples/shop/release/web.yaml",
        "moorage explain --all-pending -f examples",
    ),
)
@click.argument("target", required=False, shell_complete=offer(offered_workloads))
@click.option(
    "--all-pending",
    is_flag=True,
    help="Explain every pod that gets no node. Pods of a workload that fail alike share one explanation.",
)
@input_options
@output_option(["table", "csv", "json", "yaml", "html"])
@click.option(
    "--by",
    type=click.Choice(["node", "pool"]),
    help="Show for each pod, in one table, by which constraint each node, or each NodePool and node group, "
    "refuses it.",
)
@click.option(
    "--nodes",
    "limit",
    callback=row_count,
    metavar="N|all",
    default="3",
    show_default=True,
    help="Number of feasible nodes to show; all also shows all other nodes, with their names.",
)
@click.option(
    "--node",
    "--why-not",
    "names",
    multiple=True,
    metavar="NAME",
    shell_complete=offer(offered_nodes),
    help="Show this node in detail, and why the pod is not placed there; repeatable.",
)
@click.option(
    "--alone",
    is_flag=True,
    help="Ignore all other pending pods. By default, the pods that come first in the queue are placed first.",
)
@click.option(
    "--after-run",
    is_flag=True,
    help="Explain the cluster as simulate leaves it, with the pods that come later in the queue placed, too.",
)
@time_option
@change_options
@node_source_options
@scheduler_options
def explain(
    target: str | None,
    all_pending: bool,
    output: str,
    by: str | None,
    limit: int | None,
    names: tuple[str, ...],
    **options: Any,
) -> int:
    """Explain where TARGET would be placed, or why it fits nowhere: what each filter says about each node,
    which pods, taints and claims are in the way, the scores, and the smallest changes that would place it.

    TARGET is a pod (NAME, NAMESPACE/NAME or pod/NAME), a workload (deployment/web, sts/shop/db), or a pod
    group (podgroup/train). A name alone is taken for that of a pod, else of a workload, else of a group. For
    a workload, its pods without a node are explained, and pods that fail alike share one explanation. For a
    group, the explanation says how many of its pods fit at once, what stops the next one, and what would
    place the group.

    node/NAME asks about a node: would Karpenter or cluster-autoscaler remove it, why not, and which changes
    would free it. Of a node that is theirs not, it tells what is on it, and what a drain would meet.

    A pending pod is explained with the cluster as it is at its turn in simulate: volumes are bound, and the
    pods that come first in the queue are on their nodes. A pod that has a node is explained as if it had
    none.

    Exit codes: 0 if every explained pod gets a node, or the node goes or can be drained; 1 if not; 2 for bad
    input.
    """
    if output == "csv" and by is None:
        raise click.UsageError("-o csv is for --by alone")
    from moorage.answers.explain.explanation import AFTER_RUN, ALONE, IN_TURN
    from moorage.answers.explain.situations import SITUATIONS
    from moorage.answers.explain.targets import merge_alike, pods_to_make, terminating_pods
    from moorage.cluster.references import node_name

    from ..messages import basis_of_answer, with_own_notes
    from .explain_output import write_explanations
    from .printing import ignore_broken_pipe, print_lines

    _refuse_together(target, all_pending, options)
    setup = setup_of(options)
    if target is not None and (node := _node_of(setup, target)):
        of_pods = {"--by": by, "--node": names, "--alone": options["alone"]}
        for option in (option for option, is_given in of_pods.items() if is_given):
            raise click.UsageError(f"{option} asks about pods, and {target} is a node")
        return _explain_node(setup, node, output, options)
    if options["at"] is not None:
        raise click.UsageError("--at is for nodes alone")
    known = {node.name for node in setup.cluster.nodes}
    names = tuple(map(node_name, names))
    for name in names:
        if name not in known:
            raise InputError(no_node(name, known), source="--node, --why-not")
    targets, unmade, is_list, fates = _targets(setup, target, options["namespace"])
    named, (targets, pinned) = targets, _pinned(setup, targets, unmade)
    keys = [target.key for target in targets]
    situation = ALONE if options["alone"] else AFTER_RUN if options["after_run"] else IN_TURN
    explanations = SITUATIONS[situation](setup.make, keys, terminating_pods(setup))
    homeless = [key for key, explanation in explanations.items() if not explanation.has_place]
    explained = merge_alike([(target, explanations[target.key]) for target in targets])
    coming = setup.simulation.scale_up if setup.coming is not None and (homeless or all_pending) else None
    if coming is not None:
        homeless = [key for key in homeless if key not in coming.up.placed]
        _add_outcomes(setup, coming, explained if by is None else (), all_pending)
    targeted = None if all_pending else {key for target in targets for key in target.pods if by}
    not_made = [_not_made(setup, group) for group in unmade]
    unmade_lines = (line for group in zip(unmade, not_made, strict=True) for line in _unmade_lines(*group))
    unmade_texts = [
        *fates,
        *pinned,
        *([] if output in ("json", "yaml") and by is None else unmade_lines),  # the document has `not_made`
        *(_grown_lines(setup, coming, options["namespace"], targeted) if coming is not None else ()),
    ]
    outcomes = [line for entry in explained for line in entry.outcomes] if output != "html" else []
    warnings = [
        *setup.warnings,
        *pods_to_make(setup, targets),
        *map(as_sentence, coming.coming.notes if coming is not None else ()),
    ]
    unmade_texts += _admissions(setup, targets)
    warnings += [] if output == "table" else [*outcomes, *unmade_texts]
    workloads = {target.workload for target in named} | {group.workload for group in unmade}
    about = _print_notes(setup, workloads, warnings, coming is not None)
    if by is not None:
        _write_refusals(output, _refusals(by, setup, explained, limit, homeless), about)
    elif explained or not (unmade or pinned or fates) or output != "table":
        write_explanations(output, explained, limit, names, not_made if is_list else None, about)
    if output == "table":
        with ignore_broken_pipe():
            below = basis_line(basis_of_answer()) if by is None else []
            print_lines([*with_own_notes(unmade_texts), *below])
    return 0 if not (homeless or unmade) else 1


def _refuse_together(target: str | None, all_pending: bool, options: Mapping[str, Any]) -> None:
    """Refuse options that do not go together."""
    if options["alone"] and options["after_run"]:
        raise click.UsageError("give either --alone or --after-run")
    if (target is None) != all_pending:
        raise click.UsageError("give either TARGET or --all-pending")


def _print_notes(
    setup: SimulationSetup, about: Container[Workload], warnings: list[str], has_basis: bool
) -> AboutInput:
    """Print the notes of an answer about workloads, and return what its document says of the input."""
    from moorage.answers.findings.finding import told_facts
    from moorage.answers.queues.queue_use import queue_notes

    warnings = [*warnings, *queue_notes(setup.simulation.scheduler.ask.queues())]
    facts = told_facts(setup.loaded.facts, about)
    unasked = setup.simulation.not_asked if setup.cluster.is_reviewed else []
    basis = setup.simulation.basis(warnings) if has_basis else None
    return told_about(setup.cluster, warnings, facts, unasked, basis)


def _add_outcomes(
    setup: SimulationSetup, coming: ScaleUpReport, explained: Iterable[ExplainedTarget], all_pending: bool
) -> None:
    """Add to explanations of pods that fit on no node what autoscalers do for the pods, and for others of
    their workload, which `_grown_lines` tells with all pending pods."""
    from dataclasses import replace
    from functools import partial

    from moorage.answers.explain.replica_changes import with_new_nodes

    shown, named = set[str](), {*coming.up.placed} if all_pending else set[str]()
    outcomes = [each for each in setup.simulation.outcomes if each.pod.key in coming.up.placed]
    for entry in explained:
        if not entry.explanation.has_place:
            own = [each.pod.key for each in outcomes if each.workload == entry.target.workload]
            pods = dict.fromkeys([*entry.target.pods, *(key for key in own if key not in named)])
            named.update(own)
            entry.outcomes = coming.outcomes(setup.simulation.scheduler, [*pods], shown)
            entry.runs = coming.up.placed.keys() >= {*entry.target.pods}
            is_enough = partial(_is_enough, setup, entry.target.workload.namespace)
            changes = [*with_new_nodes(entry.explanation.changes, len(own), is_enough)]
            entry.explanation = replace(entry.explanation, changes=changes)


def _is_enough(setup: SimulationSetup, namespace: str, workload: str, replicas: int) -> bool:
    """Whether all pods of a workload that is scaled get nodes, new ones included."""
    from moorage.answers.runs.simulation import PLACED, REPLACED, SimulationSetup
    from moorage.cluster.verbs import RequestedChange

    kind, _, name = workload.partition("/")
    scale = RequestedChange("--scale", (f"{kind}/{namespace}/{name}={replicas}",))
    scaled = SimulationSetup(setup.cluster, setup.settings, (*setup.changes, scale), setup.coming)
    own = [each for each in scaled.simulation.outcomes if each.workload.text == workload]
    return all(each.status in (PLACED, REPLACED) for each in own if each.workload.namespace == namespace)


def _grown_lines(
    setup: SimulationSetup, coming: ScaleUpReport, namespace: str | None, targeted: Container[str] | None
) -> list[str]:
    """Return which pods get new nodes, of those that are asked about; None stands for all of a namespace."""
    if targeted is None:
        targeted = [key for key in coming.up.placed if namespace in (None, key.partition("/")[0])]
    pods = [key for key in coming.up.placed if key in targeted]
    return coming.outcomes(setup.simulation.scheduler, pods, set())


def _not_made(setup: SimulationSetup, group: PodsAlike) -> PodsNotMade:
    """Return why nobody makes pods, and what would help."""
    from moorage.answers.explain.explain_document import PodsNotMade
    from moorage.answers.runs.refused_pods import refused_lines

    workload, pods = group.workload, tuple([outcome.pod.key for outcome in group.outcomes])
    lines = tuple([line.strip() for line in refused_lines(setup.simulation.scheduler, group)])
    if group.is_of_queue and (queues := setup.simulation.scheduler.ask.queues()) is not None:
        from moorage.answers.queues.explained_workload import workload_lines

        marks = dict.fromkeys(outcome.pod.metadata.uid for outcome in group.outcomes)
        lines = tuple(
            [
                line
                for mark in marks
                for line in workload_lines(setup.simulation.scheduler, queues, mark.partition(" ")[2])
            ]
        )
    return PodsNotMade(workload.namespace, workload.text, group.status, pods, with_hint(group.reason), lines)


def _admissions(setup: SimulationSetup, targets: Iterable[Target]) -> list[str]:
    """Return what Kueue has decided about the workloads of targets that it admitted."""
    simulation = setup.simulation
    if (queues := simulation.scheduler.ask.queues()) is None:
        return []
    from moorage.answers.queues.explained_workload import lines_about

    return [
        *lines_about(
            simulation.scheduler, queues, simulation.placed_of, {target.workload for target in targets}
        )
    ]


def _unmade_lines(group: PodsAlike, not_made: PodsNotMade) -> Iterator[str]:
    yield f"{not_made.workload}: {group.what}: {not_made.reason}"
    yield from (f"  {line}" for line in not_made.notes)


def _refusals(
    by: str, setup: SimulationSetup, explained: list[ExplainedTarget], limit: int | None, homeless: list[str]
) -> RefusalsDocument:
    """Return what refuses pods by node, or by pool those that have no node in the end."""
    from moorage.answers.explain.refusals_by_place import refused_by_nodes, refused_by_pools

    if by == "node":
        return refused_by_nodes(explained, limit)
    if setup.coming is None:
        raise InputError(
            "the input has no NodePool and no node group; --by node asks the nodes", source="--by"
        )
    targets = [entry.target for entry in explained if entry.target.key in homeless]
    return refused_by_pools(setup.simulation.scheduler, setup.coming.autoscaling, targets)


def _write_refusals(output: str, answer: RefusalsDocument, about: AboutInput) -> None:
    from moorage.answers.answer_pages import answer_page

    from .printing import write_answer

    lines, table = [*answer.lines()], answer.table()
    write_answer(
        output,
        lambda: (answer, about),
        lines,
        [table],
        page=lambda: (
            answer_page("Refusals", lines, None, [("", *table)]),
            [about.release],
            about.warnings,
        ),
    )


def _node_of(setup: SimulationSetup, target: str) -> str:
    """Return the name of the node that a target is; "" for another, also one that has the name of a node."""
    from moorage.cluster.references import node_name

    if (name := node_name(target)) != target:
        return name
    cluster = setup.cluster
    if "/" in target or all(node.name != target for node in cluster.nodes):
        return ""
    others = {obj.name for obj in (*setup.pods.values(), *cluster.others)}
    others |= {obj.name for obj in cluster.left_out} | {waiting.name for waiting in cluster.suspended}
    return "" if target in others else target


def _explain_node(setup: SimulationSetup, name: str, output: str, options: dict[str, Any]) -> int:
    """Explain what its autoscaler does with a node."""
    from moorage.answers.answer_pages import answer_page
    from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
    from moorage.autoscalers.node_removal import explain_node
    from moorage.autoscalers.scale_up_answer import CLUSTER_AUTOSCALER
    from moorage.kube import Node
    from moorage.kube.model.about_input import about_input
    from moorage.kube.model.event import NodeEvent

    from .nodes_output import events_table, held_table, node_lines
    from .printing import write_answer

    scheduler = setup.make()
    place_first(setup, scheduler, options["after_run"])
    coming = setup.coming
    autoscaling = coming.autoscaling if coming is not None else AutoscalerSettings()
    with located(source="TARGET"):
        verdict = explain_node(scheduler, autoscaling, name, options["at"])
    if verdict is None:
        if options["at"] is not None:
            raise click.UsageError(f"--at is for nodes of autoscalers, and none has {name}")
        return _show_node(setup, scheduler, name, output, options["after_run"])
    lines, warnings = [*verdict.lines()], [*setup.warnings, *verdict.notes]
    makers = () if coming is None else (each for each in coming.makers if each.startswith(verdict.autoscaler))
    warnings += [] if coming is None else map(as_sentence, coming.notes)
    basis = basis_of((), warnings, makers)  # which say where prices are from
    if coming is not None:
        lines += [f"not simulated: {', '.join(coming.ignored)}"] if coming.ignored else []
        by_group = verdict.autoscaler == CLUSTER_AUTOSCALER
        if verdict.saved is not None and (verdict.decision or by_group):
            source = coming.sources.get(CLUSTER_AUTOSCALER, "")
            prices = coming.prices.notes([scheduler.client.get(Node, name)])
            warnings += [as_sentence(RoutineNote(source, source))] if by_group else prices
    about = about_input(setup.cluster, warnings)
    print_notes(warnings, setup.cluster, basis=[about.release.text, *basis])
    room = scheduler.ask.node_room([name], types=autoscaling.types)[0]
    events = NodeEvent.of_node(setup.cluster.events, name)
    held, seen = held_table(room), events_table(events)
    first, *others = node_lines(room)
    lines += [f"now: {first}", *others]
    write_answer(
        output,
        lambda: (verdict.document(events), about),
        lines,
        [held, seen],
        page=lambda: (
            answer_page(f"Node {name}", lines, None, [("Workloads", *held), ("Events", *seen)]),
            [about.release],
            warnings,
        ),
    )
    return 0 if verdict.decision else 1


def _show_node(setup: SimulationSetup, scheduler: Scheduler, name: str, output: str, after_run: bool) -> int:
    """Show what is on a node that no autoscaler removes, and what a drain would meet."""
    from moorage.answers.findings.finding import told_facts
    from moorage.answers.homeless_pods import waiting_note
    from moorage.answers.node_emptying import Beginning, drain_plan
    from moorage.kube.model.event import NodeEvent

    from .nodes_output import write_node

    facts = [fact for fact in told_facts(setup.loaded.facts, ()) if fact.startswith(f"node {name}: ")]
    begun = Beginning(setup.make, setup.place if after_run else lambda _: None)
    drained = setup.make()
    begun.lead(drained)
    plan = drain_plan(drained, [name], False, lambda ended, of: None, begun)
    warnings = [*setup.warnings, *waiting_note(drained, after_run, drains=True)]
    about = told_about(setup.cluster, warnings, facts)
    events = NodeEvent.of_node(setup.cluster.events, name)
    write_node(output, scheduler.ask.node_room([name])[0], plan, events, about)
    return 0 if plan else 1


def _pinned(
    setup: SimulationSetup, targets: list[Target], unmade: list[PodsAlike]
) -> tuple[list[Target], list[str]]:
    """Return the targets that the scheduler places, and what is to say of those that name their node; those
    that the kubelet there refuses become groups that nobody makes."""
    from moorage.answers.explain.targets import groups_not_made
    from moorage.answers.runs.simulation import pinned_text, pinned_workloads
    from moorage.kube.workloads.ownership import controller_of

    pinned = pinned_workloads(setup.loaded.scheduler, setup.cluster)
    nodes = {
        target.key: pinned.get(controller_of(setup.pods[target.key]) or target.workload, "")
        for target in targets
        if pinned and target.key in setup.pods
    }
    named = [target for target in targets if nodes.get(target.key)]
    if not named:
        return targets, []
    keys = {target.key for target in named}
    refused = [
        group
        for group in groups_not_made(setup.simulation)
        if keys & {outcome.pod.key for outcome in group.outcomes}
    ]
    unmade += [group for group in refused if group not in unmade]
    lost = {outcome.pod.key for group in unmade for outcome in group.outcomes}
    texts = [
        f"{target.workload.text}: {pinned_text(target.workload, node)}the kubelet of {node} takes it"
        for target in named
        if target.key not in lost
        for node in [nodes[target.key]]
    ]
    return [target for target in targets if target not in named], texts


def _targets(
    setup: SimulationSetup, target: str | None, namespace: str | None
) -> tuple[list[Target], list[PodsAlike], bool, list[str]]:
    """Find what is to be explained, the pods that nobody makes, whether several may be explained, and what
    has become of a pod that is gone."""
    from moorage.answers.explain.targets import (
        groups_not_made,
        pod_named,
        targets_of_workload,
        targets_without_node,
        workload_named,
    )

    workload = workload_named(setup, target or "", namespace)
    if target is not None and workload is None:
        return pod_named(setup, target, namespace)
    simulation = setup.simulation
    if workload is not None:
        return *targets_of_workload(simulation, *workload), True, []
    unmade = [group for group in groups_not_made(simulation) if namespace in (None, group.workload.namespace)]
    shown = [outcome for outcome in simulation.outcomes if namespace in (None, outcome.pod.namespace)]
    return targets_without_node(simulation, shown), unmade, True, []
