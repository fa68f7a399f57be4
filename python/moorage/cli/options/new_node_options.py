"""Options for nodes that an autoscaler makes, where the input has NodePools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from moorage.errors import InputError, first_of

from .inputs import NO_NODE
from .option_types import WholeNumber, all_of, is_given, new_node_option

if TYPE_CHECKING:
    from moorage.answers.runs.coming_nodes import ComingNodes
    from moorage.autoscalers.group_sources import KnownGroups
    from moorage.autoscalers.karpenter.karpenter_options import KarpenterOptions
    from moorage.autoscalers.providers.pool_types import Types
    from moorage.kube import Cluster, Node, NodePool, Object

OPTION, GROUPS, SIZES = "--instance-types", "--node-groups", "--group-sizes"
UNAVAILABLE = "--unavailable"
POOLS = ("NodePool", "Provisioner")
"""Kinds of which Karpenter makes nodes; Provisioner is from before its v1."""
NOT_SIMULATED = ("ProvisioningRequest", "CapacityBuffer", "CapacityQuota")
"""Kinds of which autoscalers make nodes, or by which they are limited."""


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
types_option = all_of(
    new_node_option(
        OPTION,
        "types_file",
        metavar="FILE|aws[:REGION]",
        multiple=True,
        help="Instance types with prices: a file in the format of Karpenter's kwok provider; or aws, "
        "aws:REGION or aws:ZONE,ZONE, and what aws ec2 describe-instance-types, "
        "describe-instance-type-offerings, describe-spot-price-history and describe-subnets print; what "
        "az vm list-skus or gcloud compute machine-types list prints; and a CSV of own prices. Repeatable. "
        "Default: those of AWS for NodePools with an EC2NodeClass, else those that the nodes of each "
        "NodePool show, without prices.",
    ),
    new_node_option(
        "--ignore-dra-requests/--no-ignore-dra-requests",
        "ignore_dra_requests",
        default=None,
        help="Karpenter's flag: whether it makes no node for a pod with resource claims. Default: as its "
        "Deployment in the input says, else it makes none.",
    ),
    new_node_option(
        "--preference-policy",
        "preference_policy",
        type=click.Choice(["Respect", "Ignore"]),
        help="Karpenter's flag: whether preferred terms of pods count as required as long as a node can meet "
        "them. Default: as its Deployment in the input says, else Respect.",
    ),
    new_node_option(
        UNAVAILABLE,
        "unavailable",
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
        "groups_file",
        metavar="FILE",
        help="Node groups of cluster-autoscaler, with its flags: YAML with nodeGroups, expander and so on, "
        "as in docs/autoscaling.md.",
    ),
    new_node_option(
        SIZES,
        "group_sizes",
        metavar="MIN:MAX:NAME,…",
        help="Sizes of node groups of cluster-autoscaler; those that are not in the file are known by the "
        "labels of EKS, GKE, AKS, DigitalOcean, kOps and eksctl, or by the machines of OpenShift.",
    ),
)
node_source_options = all_of(
    known_node_options,
    new_node_option(
        "--autoscale/--no-autoscale",
        "autoscales",
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
        "autoscales",
        is_flag=True,
        help="Let nodes of NodePools and node groups come for the question first.",
    ),
)
"""Options for questions in which no nodes come unless they are asked for."""
draws_option = new_node_option(
    "--seeds",
    "draws",
    type=WholeNumber(1, 1000),
    default=1,
    show_default=True,
    help="Also let the autoscalers draw anew with N seeds, and say how often it ends in another way.",
)
new_node_options = all_of(node_source_options, draws_option)
"""Options for `coming_nodes`."""


def types_given(options: Mapping[str, Any]) -> Types | None:
    """The instance types of --instance-types: of a file, or of a provider."""
    from moorage.autoscalers.providers.type_files import given_types

    return given_types(*options["types_file"]) if options["types_file"] else None


def karpenter_options(options: Mapping[str, Any], objects: Iterable[Object]) -> KarpenterOptions:
    """Karpenter's flags: those of the options, else of its Deployment among some objects."""
    from moorage.autoscalers.karpenter.karpenter_options import karpenter_flags, settings_in
    from moorage.autoscalers.providers.instance_type import shortage_of

    policy, flags = options["preference_policy"], karpenter_flags(settings_in(objects))
    given = {
        "ignores_preferences": None if policy is None else policy == "Ignore",
        "ignore_dra_requests": options["ignore_dra_requests"],
        "spot_to_spot": options.get("spot_to_spot"),
    }
    return replace(
        flags,
        unavailable=tuple([shortage_of(part) for text in options["unavailable"] for part in text.split(",")]),
        **{name: value for name, value in given.items() if value is not None},
    )


def has_pools(cluster: Cluster) -> bool:
    """Whether a cluster has NodePools."""
    return any(obj.kind in POOLS for obj in cluster.others)


def node_makers(cluster: Cluster, options: Mapping[str, Any]) -> str:
    """Return what may make nodes, as the subject of a sentence; "" for nothing."""
    names_groups = bool(options.get("groups_file") or options.get("group_sizes"))
    has_groups = names_groups or node_groups(options, cluster.nodes, cluster.others) is not None
    return " and ".join(["NodePools"] * has_pools(cluster) + ["node groups"] * has_groups)


def refuse_no_node(cluster: Cluster, options: Mapping[str, Any], source: str = "-f") -> None:
    """Refuse a cluster without a node, to which none can come; say what may be meant."""
    if cluster.nodes or node_makers(cluster, options):
        return
    from moorage.kube.read.cluster_builder import CONFIGURATION
    from moorage.kube.workloads.seen_failures import KINDS as EVENTS

    hint = "so no pod can have one; kubectl get nodes -o json lists nodes"
    if EVENTS & cluster.skipped.keys():
        hint += "; to replay events as a trace, use moorage replay --format kubectl-events"
    if CONFIGURATION in cluster.skipped:
        hint += "; a KubeSchedulerConfiguration is given with --config"
    raise InputError(f"{NO_NODE}, {hint}", source=source)


def node_groups(
    options: Mapping[str, Any], nodes: Sequence[Node], objects: Iterable[Object]
) -> KnownGroups | None:
    """Return the node groups that options give, or the objects of cluster-autoscaler; None for none."""
    file, sizes = options.get("groups_file") or "", options.get("group_sizes") or ""
    autoscaler_objects = [obj for obj in objects if obj.kind in ("AutoscalerFlags", "ConfigMap")]
    if not (file or sizes or autoscaler_objects):
        return None
    from moorage.autoscalers.group_sources import known_groups

    return known_groups(file, sizes, nodes, autoscaler_objects)


def refuse_groups(options: Mapping[str, Any], why: str) -> None:
    """Refuse options of node groups where they have no effect."""
    for option, name in ((GROUPS, "groups_file"), (SIZES, "group_sizes")):
        if options[name]:
            raise click.UsageError(f"{option} has no effect with {why}")


def coming_nodes(options: Mapping[str, Any], cluster: Cluster) -> ComingNodes | None:
    """Return with what nodes come in a run; None where the cluster has no NodePool and no node group is
    given, or none is to come."""
    draws, draws_or_no = options.get("draws", 1), "draws" in options
    files, makers = options["types_file"], node_makers(cluster, options)
    if not (makers and options["autoscales"]):
        no = "--no-autoscale" if draws_or_no else "this question without --autoscale"
        if not makers and any(obj.kind in POOLS for obj in cluster.refused_objects):
            return None
        why = no if makers else "an input without a NodePool"
        uses = {
            OPTION: bool(files),
            UNAVAILABLE: bool(options["unavailable"]),
            "--seeds": draws > 1,
            "--autoscale": is_asked_to_grow(),
        }
        for option, is_used in uses.items():
            if is_used:
                raise click.UsageError(f"{option} has no effect with {why}")
        refuse_groups(options, why)
        return None
    from moorage.answers.runs.coming_nodes import ComingNodes
    from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
    from moorage.autoscalers.group_settings import nodes_of_groups
    from moorage.autoscalers.providers.instance_type import refuse_unoffered
    from moorage.autoscalers.providers.pool_types import types_of_objects
    from moorage.autoscalers.scale_up_answer import CLUSTER_AUTOSCALER, KARPENTER

    known = types_of_objects(types_given(options), cluster.nodes, cluster.others)
    sources, flags = dict[str, str](), karpenter_options(options, cluster.others)
    if has_pools(cluster):
        named = " and ".join(Path(file).name for file in files)
        sources[KARPENTER] = f"{known.source or f'types of {named}'}{flags.text}"
    groups = node_groups(options, cluster.nodes, cluster.others)
    if groups is not None:
        sources[CLUSTER_AUTOSCALER] = f"{groups.source}{flags.shortage_text}"
    settings, notes = (None, ()) if groups is None else (groups.settings, groups.notes)
    grouped = nodes_of_groups(settings, cluster.nodes).values() if settings is not None else ()
    of_pools = known.every() if has_pools(cluster) else ()
    refuse_unoffered(flags.unavailable, of_pools, chain.from_iterable(grouped))
    autoscaling = AutoscalerSettings(known.by_pool, flags, options["seed"], groups=settings)
    kinds = [kind for kind in cluster.skipped if kind.partition(".")[0] in NOT_SIMULATED]
    types = known.every() if known.is_priced else None
    several = sum(obj.kind == "NodePool" for obj in cluster.others) > 1
    return ComingNodes(autoscaling, draws, sources, types, tuple(kinds), (*known.notes, *notes), several)


def differing_disruption(clusters: Sequence[Cluster]) -> Iterator[str]:
    """Yield that clusters whose NodePools differ in when nodes go are not told apart by a run."""
    rules: dict[str, list[object]] = {}
    for obj in chain.from_iterable(cluster.others for cluster in clusters):
        if obj.kind == "NodePool":
            rules.setdefault(obj.name, []).append(cast("NodePool", obj).spec.disruption)
    names = [
        name
        for name, disruptions in rules.items()
        if any(disruption != disruptions[0] for disruption in disruptions)
    ]
    if names:
        yield (
            f"The disruption of NodePool {first_of(names, 3)} differs, but no node goes in a comparison: ask "
            "plan consolidate with each, or sweep over a replay (docs/karpenter.md)."
        )


def no_new_nodes(cluster: Cluster, what: str, can_grow: bool = False) -> Iterator[str]:
    """Yield that nothing makes nodes for a question, and whether it does with an option."""
    if makers := node_makers(cluster, click.get_current_context().params):
        subject = makers[0].upper() + makers[1:]
        yield f"{subject} make no new nodes for {what}." + " With --autoscale they do." * can_grow


def groups_without_size(cluster: Cluster) -> Iterator[str]:
    """Yield that nodes are of groups of which no size is given, so that none of them gets a node."""
    from moorage.autoscalers.group_labels import group_names

    names = sorted(group_names(cluster.nodes))
    if names and not node_makers(cluster, click.get_current_context().params):
        sizes = ",".join(f"0:10:{name}" for name in names[:3])
        runs = any(obj.kind == "AutoscalerFlags" for obj in cluster.others)
        more = ", or the ConfigMap cluster-autoscaler-status, which has them" if runs else ""
        yield f"Nodes are of node groups; if cluster-autoscaler adds some, give sizes: {SIZES} {sizes}{more}"


def is_asked_to_grow() -> bool:
    """Whether --autoscale is on the command line."""
    return is_given("autoscales") and bool(click.get_current_context().params["autoscales"])
