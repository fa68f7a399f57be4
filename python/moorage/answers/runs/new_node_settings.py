"""What is said of the nodes that autoscalers make in a run: their types, node groups, and flags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from moorage.errors import NO_NODE, InputError
from moorage.kube import Cluster, Node, Object
from moorage.kube.model.node import group_names
from moorage.notes import RoutineNote

if TYPE_CHECKING:  # most inputs have no autoscaler
    from moorage.autoscalers.group_sources import KnownGroups
    from moorage.autoscalers.karpenter.karpenter_options import KarpenterOptions
    from moorage.autoscalers.providers.pool_types import Types

    from .coming_nodes import ComingNodes

POOLS = ("NodePool", "Provisioner")
"""Kinds of which Karpenter makes nodes; Provisioner is from before its v1."""
NOT_SIMULATED = ("ProvisioningRequest", "CapacityQuota")
"""Kinds of which autoscalers make nodes, or by which they are limited."""


_GKE = "cloud.google.com"
_OF_GROUPS = ("AutoscalerFlags", "ConfigMap", "MachineGroup")


def not_simulated(cluster: Cluster) -> tuple[str, ...]:
    """Return the kinds of objects of a cluster that count for autoscalers, and not here."""
    kinds = [kind for kind in cluster.skipped if kind.partition(".")[0] in NOT_SIMULATED]
    if not has_pools(cluster):  # cluster-autoscaler has buffers, too
        kinds += sorted(
            {f"{each.kind}.autoscaling.x-k8s.io" for each in cluster.others if each.kind == "CapacityBuffer"}
        )
    return tuple(kinds)


class NewNodeSettings(Struct, frozen=True):
    """What is said of the nodes that autoscalers make; the options of the commands have these names.

    Attributes
    ----------
    seeds : int
        With how many seeds the autoscalers are asked.
    """

    instance_types: Sequence[str] = ()
    ignore_dra_requests: bool | None = None
    preference_policy: str | None = None
    spot_to_spot: bool | None = None
    unavailable: Sequence[str] = ()
    node_groups: str = ""
    group_sizes: str = ""
    seeds: int = 1
    autoscale: bool = True

    @property
    def given(self) -> list[str]:
        """What is not as by default: the names of fields."""
        usual = structs.asdict(NewNodeSettings())
        return [name for name, value in structs.asdict(self).items() if value and value != usual[name]]

    def types(self) -> Types | None:
        """Return the instance types: of files, or of a provider."""
        if not self.instance_types:
            return None
        from moorage.autoscalers.providers.type_files import given_types

        return given_types(*self.instance_types)

    def karpenter_options(self, objects: Iterable[Object]) -> KarpenterOptions:
        """Return Karpenter's flags: those that are given, else of its Deployment among some objects."""
        from moorage.autoscalers.karpenter.karpenter_options import karpenter_flags, settings_in
        from moorage.autoscalers.providers.instance_type import shortage_of

        policy, flags = self.preference_policy, karpenter_flags(settings_in(objects))
        given: dict[str, Any] = {
            "ignores_preferences": None if policy is None else policy == "Ignore",
            "ignore_dra_requests": self.ignore_dra_requests,
            "spot_to_spot": self.spot_to_spot,
        }
        return replace(
            flags,
            unavailable=tuple([shortage_of(part) for text in self.unavailable for part in text.split(",")]),
            **{name: value for name, value in given.items() if value is not None},
        )

    def groups(self, nodes: Sequence[Node], objects: Iterable[Object]) -> KnownGroups | None:
        """Return the node groups that are given, or of the objects of cluster-autoscaler; None for none."""
        autoscaler_objects = [obj for obj in objects if obj.kind in _OF_GROUPS]
        if not (self.node_groups or self.group_sizes or autoscaler_objects):
            return None
        from moorage.autoscalers.group_sources import known_groups

        return known_groups(self.node_groups, self.group_sizes, nodes, autoscaler_objects)

    def makers(self, cluster: Cluster) -> str:
        """Return what may make nodes, as the subject of a sentence; "" for nothing."""
        names_groups = bool(self.node_groups or self.group_sizes)
        has_groups = names_groups or self.groups(cluster.nodes, cluster.others) is not None
        return " and ".join(["NodePools"] * has_pools(cluster) + ["node groups"] * has_groups)

    def refuse_no_node(self, cluster: Cluster, source: str = "") -> None:
        """Refuse a cluster without a node, to which none can come; say what may be meant."""
        if cluster.nodes or self.makers(cluster):
            return
        from moorage.kube.model.event import KINDS as EVENTS
        from moorage.kube.read.cluster_builder import CONFIGURATION

        hint = "so no pod can have one; kubectl get nodes -o json lists nodes"
        if EVENTS & cluster.skipped.keys():
            hint += "; to replay events as a trace, use moorage replay --format kubectl-events"
        if CONFIGURATION in cluster.skipped:
            hint += "; a KubeSchedulerConfiguration is given with --config"
        raise InputError(f"{NO_NODE}, {hint}", source=source)

    def coming(self, cluster: Cluster, seed: int) -> ComingNodes | None:
        """Return with what nodes come in a run; None where none do."""
        if not (self.autoscale and self.makers(cluster)):
            return None
        from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
        from moorage.autoscalers.group_settings import nodes_of_groups
        from moorage.autoscalers.node_prices import NodePrices
        from moorage.autoscalers.providers.instance_type import refuse_unoffered
        from moorage.autoscalers.providers.pool_types import types_of_objects
        from moorage.autoscalers.scale_up_answer import CLUSTER_AUTOSCALER, KARPENTER

        from .coming_nodes import ComingNodes

        groups = self.groups(cluster.nodes, cluster.others)
        settings, notes = (None, ()) if groups is None else (groups.settings, groups.notes)
        of_groups = nodes_of_groups(settings, cluster.nodes).values() if settings is not None else ()
        grouped = [*chain.from_iterable(of_groups)]
        known = types_of_objects(self.types(), cluster.nodes, cluster.others)
        prices = NodePrices(known, settings.node_groups if settings is not None else ())
        sources, flags = dict[str, str](), self.karpenter_options(cluster.others)
        if has_pools(cluster):
            named = " and ".join(Path(file).name for file in self.instance_types)
            sources[KARPENTER] = f"{known.source or f'types of {named}'}{flags.text}"
        if groups is not None:
            about = prices.about(grouped if has_pools(cluster) else [*cluster.nodes, *grouped])
            sources[CLUSTER_AUTOSCALER] = "; ".join(
                filter(None, [f"{groups.source}{flags.shortage_text}", about])
            )
        of_pools = known.every() if has_pools(cluster) else ()
        refuse_unoffered(flags.unavailable, of_pools, grouped)
        autoscaling = AutoscalerSettings(known, flags, seed, groups=settings)
        kinds = not_simulated(cluster)
        several = sum(obj.kind == "NodePool" for obj in cluster.others) > 1
        notes = (*known.notes, *notes)
        return ComingNodes(autoscaling, self.seeds, sources, prices, kinds, notes, several)

    def makes_none(self, cluster: Cluster, what: str, can_grow: bool = False) -> Iterator[str]:
        """Yield that nothing makes nodes for a question, and whether it does with an option."""
        if makers := self.makers(cluster):
            subject = makers[0].upper() + makers[1:]
            yield f"{subject} make no new nodes for {what}." + " With --autoscale they do." * can_grow

    def without_size(self, cluster: Cluster) -> Iterator[str]:
        """Yield that nodes are of groups of which no size is given, so that none of them gets a node, and
        that GKE may make others."""
        names = sorted(group_names(cluster.nodes))
        if names and not self.makers(cluster):
            sizes = ",".join(f"0:10:{name}" for name in names[:3])
            runs = any(obj.kind == "AutoscalerFlags" for obj in cluster.others)
            more = ", or the ConfigMap cluster-autoscaler-status, which has them" if runs else ""
            given = f"give sizes: --group-sizes {sizes}{more}"
            text = f"Nodes are of node groups; if cluster-autoscaler adds some, {given}"
            yield RoutineNote(text, "node groups of unknown sizes")
        if f"ComputeClass.{_GKE}" in cluster.skipped:
            adds = f"--add-nodes NODE=1,{_GKE}/compute-class=NAME adds one"
            yield f"GKE may make nodes by its ComputeClasses, which is not simulated; {adds}"


def has_pools(cluster: Cluster) -> bool:
    """Whether a cluster has NodePools."""
    return any(obj.kind in POOLS for obj in cluster.others)
