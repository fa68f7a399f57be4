"""Options for nodes that an autoscaler makes, where the input has NodePools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    draws = options.get("draws", 1)
    file, is_wanted = options["types_file"], options["autoscales"] and has_pools(cluster)
    if not is_wanted:
        why = "--no-autoscale" if has_pools(cluster) else "an input without a NodePool"
        for option, is_given in ((OPTION, file is not None), ("--seeds", draws > 1)):
            if is_given:
                raise click.UsageError(f"{option} has no effect with {why}")
        return None
    from moorage.autoscaling import Growth, read_instance_types, seen_types
    from moorage.cli.runs.coming_nodes import ComingNodes

    types = None if file is None else read_instance_types(file)
    pools = {one.name for one in cluster.others if one.kind == "NodePool"}
    pool_of = [node.metadata.labels.get("karpenter.sh/nodepool") for node in cluster.nodes]
    seen = number_of(sum(name in pools for name in pool_of if name), "node", "nodes")
    source = f"types as seen on {seen}" if types is None else f"types of {Path(file).name}"
    growth = Growth(seen_types(cluster.nodes) if types is None else types, seed=options["seed"])
    return ComingNodes(growth, draws, source, types)


def no_new_nodes(cluster: Cluster, what: str) -> Iterator[str]:
    """Yield that NodePools make no nodes for a question."""
    if has_pools(cluster):
        yield f"NodePools make no new nodes for {what}."
