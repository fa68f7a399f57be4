"""Options for nodes that an autoscaler makes, where the input has NodePools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from .option_types import WholeNumber, all_of, is_given, new_node_option

if TYPE_CHECKING:
    from moorage.answers.runs.coming_nodes import ComingNodes
    from moorage.answers.runs.new_node_settings import NewNodeSettings
    from moorage.kube import Cluster

OPTION, GROUPS, SIZES = "--instance-types", "--node-groups", "--group-sizes"
UNAVAILABLE = "--unavailable"


def _checked_time(_: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Check the time of an option, so that an error names it."""
    from moorage.kube.strict_documents import parse_moment

    if value is not None:
        parse_moment(value, option.opts[0])
    return value


time_option = click.option(
    "--at",
    metavar="TIME",
    callback=_checked_time,
    help="When autoscalers look at nodes, such as 2026-06-01T12:00:00Z, for budgets with schedules; default: "
    "when the newest object was created.",
)
prices_option = new_node_option(
    OPTION,
    metavar="FILE|aws[:REGION]",
    multiple=True,
    help="Instance types with prices: a file in the format of Karpenter's kwok provider; or aws, "
    "aws:REGION or aws:ZONE,ZONE, likewise gcp and azure, and what aws ec2 describe-instance-types, "
    "describe-instance-type-offerings, describe-spot-price-history, describe-subnets and "
    "describe-capacity-reservations print; what "
    "az vm list-skus or gcloud compute machine-types list prints; and a CSV of own prices. Repeatable. "
    "Default: those of the provider for NodePools with an EC2NodeClass, GCENodeClass or AKSNodeClass, else "
    "those that the nodes of each NodePool show, without prices.",
)
types_option = all_of(
    prices_option,
    new_node_option(
        "--ignore-dra-requests/--no-ignore-dra-requests",
        default=None,
        help="Karpenter's flag: whether it makes no node for a pod with resource claims. Default: as its "
        "Deployment in the input says, else it makes none.",
    ),
    new_node_option(
        "--preference-policy",
        type=click.Choice(["Respect", "Ignore"]),
        help="Karpenter's flag: whether preferred terms of pods count as required as long as a node can meet "
        "them. Default: as its Deployment in the input says, else Respect.",
    ),
    new_node_option(
        UNAVAILABLE,
        multiple=True,
        metavar="spot|TYPE|ZONE",
        help="What autoscalers cannot launch, as if the provider had run out of it: a capacity type, an "
        "instance type, a zone, or several with / between (spot/m5.large); may be repeated.",
    ),
)
known_node_options = all_of(
    types_option,
    new_node_option(
        GROUPS,
        metavar="FILE",
        help="Node groups of cluster-autoscaler, with its flags: YAML with nodeGroups, expander and so on, "
        "as in docs/autoscaling.md.",
    ),
    new_node_option(
        SIZES,
        metavar="MIN:MAX:NAME,…",
        help="Sizes of node groups of cluster-autoscaler; those that are not in the file are known by the "
        "labels of EKS, GKE, AKS, DigitalOcean, kOps and eksctl, or by the machines of OpenShift.",
    ),
)
node_source_options = all_of(
    known_node_options,
    new_node_option(
        "--autoscale/--no-autoscale",
        default=True,
        show_default=True,
        help="Whether nodes come for pods that fit nowhere: of NodePools, as Karpenter makes them, and of "
        "node groups, as cluster-autoscaler does.",
    ),
)
asked_node_options = all_of(
    known_node_options,
    new_node_option(
        "--autoscale",
        is_flag=True,
        help="Let nodes of NodePools and node groups come for the question first.",
    ),
)
"""Options for questions in which no nodes come unless they are asked for."""
draws_option = new_node_option(
    "--seeds",
    type=WholeNumber(1, 1000),
    default=1,
    show_default=True,
    help="Also let the autoscalers draw anew with N seeds, and say how often it ends in another way.",
)
new_node_options = all_of(node_source_options, draws_option)
"""Options for `coming_nodes`."""


def asked_nodes(options: Mapping[str, Any]) -> NewNodeSettings:
    """Return what options say of the nodes that autoscalers make."""
    from moorage.answers.runs.new_node_settings import NewNodeSettings

    names = NewNodeSettings.__struct_fields__
    return NewNodeSettings(**{name: options[name] for name in names if options.get(name) is not None})


def refuse_groups(options: Mapping[str, Any], why: str) -> None:
    """Refuse options of node groups where they have no effect."""
    for option, name in ((GROUPS, "node_groups"), (SIZES, "group_sizes")):
        if options[name]:
            raise click.UsageError(f"{option} has no effect with {why}")


def coming_nodes(
    options: Mapping[str, Any], cluster: Cluster, asks_prices: bool = False
) -> ComingNodes | None:
    """Return with what nodes come in a run; None where the cluster has no NodePool and no node group is
    given, or none is to come.

    Parameters
    ----------
    asks_prices : bool, optional
        Whether instance types have an effect even so.
    """
    from moorage.answers.runs.new_node_settings import POOLS

    nodes = asked_nodes(options)
    if (coming := nodes.coming(cluster, options["seed"])) is not None:
        return coming
    makers = nodes.makers(cluster)
    no = "--no-autoscale" if "seeds" in options else "this question without --autoscale"
    if not makers and any(obj.kind in POOLS for obj in cluster.refused_objects):
        return None
    why = no if makers else "an input without a NodePool or node group"
    why += "".join(f". {text}" for text in nodes.without_size(cluster))
    nodes.types()  # an error of their file comes first
    given = [name for name in nodes.given if not (asks_prices and name == "instance_types")]
    for name in [*given, *["autoscale"] * is_asked_to_grow()]:
        raise click.UsageError(f"--{name.replace('_', '-')} has no effect with {why}")
    return None


def is_asked_to_grow() -> bool:
    """Whether --autoscale is on the command line."""
    return is_given("autoscale") and bool(click.get_current_context().params["autoscale"])
