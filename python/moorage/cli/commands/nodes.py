"""``moorage nodes``: what is allocatable, requested and free on each node, or by a label of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from moorage.errors import InputError, located

from ..messages import Stages
from ..options.change_options import (
    ChangingCommand,
    after_run_option,
    change_options,
    places_first,
    requested_changes,
)
from ..options.deciding_release import facts_of, print_notes
from ..options.decorators import output_option
from ..options.inputs import NO_NODE, input_options, load_input, scheduler_options, scheduler_settings
from ..options.offered_names import offer, offered_labels

if TYPE_CHECKING:
    from moorage.answers.node_room import Room


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
    metavar="zone|pool|LABEL|namespace",
    shell_complete=offer(offered_labels, "namespace", "pool", "zone"),
    help="Show a row for each value of a node label; or what the pods of each namespace request, and the use "
    "of its quotas, which -n shows of one.",
)
@click.option(
    "-l",
    "--selector",
    default="",
    help="Show only the node of this name, or nodes with these labels, in kubectl's syntax, and in wide and "
    "json all of their workloads.",
)
@click.option(
    "--sort-by",
    default="name",
    show_default=True,
    metavar="name|RESOURCE",
    help="Sort by name, or by the free amount of a resource, largest first.",
)
@after_run_option
@output_option(
    ["table", "wide", "json", "yaml", "csv", "markdown", "name"],
    "wide adds all resources, taints, and the workloads that request most; csv has the "
    "same in millicores and bytes.",
)
@change_options
@scheduler_options
def nodes(by: str | None, selector: str, sort_by: str, output: str, **options: Any) -> None:
    """Show what is allocatable, requested and free on nodes, and the largest pod that still fits.

    Only pods that have a node count; with --after-run or a change, the pending pods are placed first.
    Requests are those that the scheduler counts, with init containers, sidecars and overhead.

    Exit codes: 0 if it ran; 2 for bad input.
    """
    from moorage.answers.node_room import namespace_use
    from moorage.cluster.changes.selection import select_nodes

    from ..output.nodes_output import write_namespaces, write_nodes
    from ..output.printing import told
    from ..runs.simulation import Preparation

    of_namespaces = by == "namespace" or bool(options["namespace"])
    if of_namespaces and (selector or by not in (None, "namespace") or sort_by != "name"):
        raise click.UsageError(
            "-n and --by namespace show namespaces, which have no node labels and one order: leave out -l, "
            "--sort-by and another --by"
        )
    if (by or of_namespaces) and output == "name":
        raise click.UsageError("--by does not write -o name")
    with Stages("reading", "counting") as stage:
        cluster = load_input(options)
        if not cluster.nodes:
            raise InputError(f"{NO_NODE}; kubectl get nodes -o json lists nodes", source="-f")
        preparation = Preparation(cluster, scheduler_settings(options, cluster), requested_changes())
        scheduler = preparation.make()
        if places_first(options["after_run"]):
            scheduler.run()
        stage()
        if of_namespaces:
            uses = namespace_use(scheduler, options["namespace"] or "")
        names = None
        if selector:
            with located(source="--selector"):
                names = [node.name for node in select_nodes(scheduler.client, selector)]
        with located(source="--by"):
            found = [] if of_namespaces else scheduler.node_room(names, by or "")
        found = _sorted(found, sort_by)
    facts = facts_of(cluster, ())
    print_notes(preparation.warnings, cluster, facts=facts)
    about = told(cluster, [*facts, *preparation.warnings])
    if of_namespaces:
        write_namespaces(output, uses, about)
        return
    write_nodes(output, found, by or "", about)


def _sorted(rooms: list[Room], key: str) -> list[Room]:
    """Sort by name, or by what is free, most first."""
    from moorage.answers.node_room import NO_LABEL

    if key == "name":
        return sorted(rooms, key=lambda room: (room.name == NO_LABEL, room.name))
    known = sorted({name for room in rooms for name in room.free})
    if rooms and key not in known:
        raise InputError(f"must be one of name, {', '.join(known)}", source="--sort-by", obj=repr(key))
    return sorted(rooms, key=lambda room: -room.free[key])
