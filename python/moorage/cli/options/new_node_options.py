"""Options for nodes that an autoscaler makes, where the input has NodePools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from moorage.errors import number_of

from .decorators import all_of
from .number_ranges import WholeNumber

if TYPE_CHECKING:
    from moorage.cli.runs.coming_nodes import ComingNodes
    from moorage.objects import Cluster

OPTION = "--instance-types"
types_option = click.option(
    OPTION,
    "types_file",
    metavar="FILE",
    help="Instance types with prices, in the format of Karpenter's kwok provider; default: the types "
    "that the nodes of each NodePool show, without prices.",
)
node_source_options = all_of(
    types_option,
    click.option(
        "--autoscale/--no-autoscale",
        "autoscales",
        default=True,
        show_default=True,
        help="Whether NodePools make nodes for pods that fit nowhere, as Karpenter does.",
    ),
)
asked_node_options = all_of(
    types_option,
    click.option(
        "--autoscale",
        "autoscales",
        is_flag=True,
        help="Let NodePools make nodes for the question first, as Karpenter does.",
    ),
)
"""Options for questions in which no nodes come unless they are asked for."""
new_node_options = all_of(
    node_source_options,
    click.option(
        "--seeds",
        "draws",
        type=WholeNumber(1, 1000),
        default=1,
        show_default=True,
        help="Also let Karpenter draw anew with N seeds, and say in how many a pod waits.",
    ),
)
"""Options for `coming_nodes`."""


def has_pools(cluster: Cluster) -> bool:
    """Whether a cluster has NodePools."""
    return any(one.kind == "NodePool" for one in cluster.others)


def coming_nodes(options: Mapping[str, Any], cluster: Cluster) -> ComingNodes | None:
    """Return with what nodes come in a run; None where the cluster has no NodePool, or none is to come."""
    draws, draws_or_no = options.get("draws", 1), "draws" in options
    file, is_wanted = options["types_file"], options["autoscales"] and has_pools(cluster)
    if not is_wanted:
        no = "--no-autoscale" if draws_or_no else "this question without --autoscale"
        why = no if has_pools(cluster) else "an input without a NodePool"
        given = (OPTION, file is not None), ("--seeds", draws > 1), ("--autoscale", is_asked_to_grow())
        for option, is_given in given:
            if is_given:
                raise click.UsageError(f"{option} has no effect with {why}")
        return None
    from moorage.autoscaling import Growth, read_instance_types, seen_types
    from moorage.autoscaling.instance_types.labels import POOL
    from moorage.cli.runs.coming_nodes import ComingNodes

    types = None if file is None else read_instance_types(file)
    pools = {one.name for one in cluster.others if one.kind == "NodePool"}
    pool_of = [node.metadata.labels.get(POOL) for node in cluster.nodes]
    seen = number_of(sum(name in pools for name in pool_of if name), "node", "nodes")
    source = f"types as seen on {seen}" if types is None else f"types of {Path(file).name}"
    growth = Growth(seen_types(cluster.nodes) if types is None else types, seed=options["seed"])
    return ComingNodes(growth, draws, source, types)


def no_new_nodes(cluster: Cluster, what: str, can_grow: bool = False) -> Iterator[str]:
    """Yield that NodePools make no nodes for a question, and whether they do with an option."""
    if has_pools(cluster):
        yield f"NodePools make no new nodes for {what}." + " With --autoscale they do." * can_grow


def is_asked_to_grow() -> bool:
    """Whether --autoscale is on the command line."""
    context = click.get_current_context()
    is_given = context.get_parameter_source("autoscales") is ParameterSource.COMMANDLINE
    return is_given and bool(context.params["autoscales"])
