"""``moorage check``: a gate that passes only if every pod that should run has a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from moorage.cluster.verbs import ALLOWABLE

from ..messages import Stages
from ..options.change_options import ChangingCommand, change_options, requested_changes
from ..options.inputs import (
    ReleaseChoice,
    asked_scheduler,
    held_inputs,
    input_options,
    load_before_and_after,
    names_server,
    print_notes,
    scheduler_options,
)
from ..options.new_node_options import (
    asked_nodes,
    coming_nodes,
    is_asked_to_grow,
    new_node_options,
)
from ..options.option_types import (
    Number,
    WholeNumber,
    is_given,
    offer,
    offered_labels,
    output_option,
    some_of,
)

_OF_LOSSES: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "--at-once": lambda options: options["at_once"] > 1,
    "--survive-only": lambda options: bool(options["survive_only"]),
    "--within-budgets": lambda options: options["within_budgets"],
}


@click.command(
    cls=ChangingCommand,
    examples=(
        "moorage check -f examples/shop/cluster.yaml -f examples/shop/release/web.yaml --new-only",
        "moorage check -f examples/shop/cluster.yaml --drain pool=old --survive zone",
    ),
)
@input_options
@click.option(
    "--new-only",
    is_flag=True,
    help="What already fails in the first -f is listed, but does not fail the gate.",
)
@click.option(
    "--allow",
    "allowed",
    callback=some_of(ALLOWABLE),
    default="",
    metavar="PROBLEM,…",
    help=f"Problems that do not fail the gate: {', '.join(ALLOWABLE)}.",
)
@output_option(
    ["table", "wide", "json", "yaml", "csv", "markdown", "name", "junit", "github", "html"],
    "wide names all pods and their nodes; name prints pod/NAME of each pod that fails "
    "the gate; junit writes a report, github annotations for CI, and html a page.",
)
@click.option(
    "--upgrade-from",
    type=ReleaseChoice(),
    help="Also place pods as this release does, and name what differs. With --new-only, pods without a node "
    "there pass.",
)
@click.option(
    "--survive",
    metavar="node|zone|LABEL",
    shell_complete=offer(offered_labels, "node", "zone"),
    help="Also lose each node, zone or value of a label in turn; pods need room elsewhere.",
)
@click.option(
    "--survive-only",
    metavar="NAMESPACE|LABEL=VALUE",
    default="",
    help="With --survive, ask about these pods alone.",
)
@click.option(
    "--within-budgets",
    is_flag=True,
    help="With --survive, pods may be lost as long as their PodDisruptionBudgets hold.",
)
@click.option(
    "--at-once",
    type=WholeNumber(1),
    default=1,
    show_default=True,
    help="With --survive, also lose up to N together, the fullest first.",
)
@click.option(
    "--time-limit",
    type=Number(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long --at-once may search.",
)
@change_options
@new_node_options
@scheduler_options
def check(
    new_only: bool,
    allowed: tuple[str, ...],
    output: str,
    **options: Any,
) -> int:
    """Check that every pod that should run has a node. The first -f is the cluster, later ones change it.

    Each pod without a node fails the gate: it fits nowhere, waits for scheduling gates or its pod group, asks
    for a scheduler that has no profile, or was evicted and has found no other node. With --survive, so
    does each pod that would find no node after a loss.

    Exit codes: 0 if every pod that should run has a node; 1 if not; 2 for bad input.
    """
    from moorage.answers.runs.check_question import CheckQuestion, LossQuestion, releases_of_upgrade

    from .check_output import write_verdict

    for option, has_it in _OF_LOSSES.items():
        if options["survive"] is None and has_it(options):
            raise click.UsageError(f"{option} needs --survive")
    if options["survive"] is not None and output == "name":
        raise click.UsageError("--survive does not write -o name")
    names = options["files"] if names_server(options) else options["files"][1:]
    with Stages("reading", "scheduling", "judging", "losing nodes") as stage:
        before, after = load_before_and_after(options, tells_refused=output == "name")
        nodes = asked_nodes(options)
        nodes.refuse_no_node(after, "-f")
        assert after.release is not None
        by, earlier = options["survive"], options["upgrade_from"]
        answer = CheckQuestion(
            before,
            after,
            asked_scheduler(options),
            names,
            requested_changes(),
            None if earlier else coming_nodes(options, after),
            new_only=new_only,
            allowed=allowed,
            releases=earlier and releases_of_upgrade(earlier, after.release),
            losses=None
            if by is None
            else LossQuestion(
                by,
                options["at_once"],
                options["survive_only"],
                options["within_budgets"],
                options["time_limit"],
                is_asked_to_grow(),
            ),
            knows_times=is_given("pod_times"),
            prepared=held_inputs().values(),
            nodes=nodes,
        ).answer(stage)
    is_asked = earlier is not None
    print_notes(answer.warnings, after, facts=answer.facts, basis=answer.basis(), is_asked=is_asked)
    write_verdict(output, answer)
    return 0 if answer else 1
