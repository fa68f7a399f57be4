"""What an autoscaler of a replay is: node groups, and rules to add and remove nodes (docs/autoscaling.md)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from moorage.autoscaling import cluster_autoscaler
from moorage.autoscaling.cluster_autoscaler import PodPrices
from moorage.autoscaling.cluster_autoscaler.flags import EXPANDERS
from moorage.autoscaling.cluster_autoscaler.read_flags import OF_GROUPS, read_flags
from moorage.errors import InputError, located
from moorage.objects import Node, Object
from moorage.objects.read.decode import decode_object
from moorage.objects.read.object_defaults import defaults
from moorage.objects.read.write import object_to_dict
from moorage.objects.validate.validate_object import validate

from .time_spans import parse_duration

Time = str | float | int

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?")
OTHER_FLAGS = frozenset(
    (
        *("maxNodesTotal", "maxNodesPerScaleUp", "maxCores", "maxMemory", "minCores", "minMemory"),
        *("balanceSimilarNodeGroups", "balancingIgnoreLabels", "balancingLabels"),
        *("forceDs", "scaleFromUnschedulable", "startupTaints", "statusTaints", "fastpathBinpacking"),
        *("newPodScaleUpDelay", "okTotalUnreadyCount", "maxTotalUnreadyPercentage"),
        *("scaleDownUnreadyEnabled", "scaleDownUnreadyTime", "unremovableNodeRecheckTimeout"),
        *("ignoreDaemonSetsUtilization", "ignoreMirrorPodsUtilization", "minReplicaCount"),
        "blockingSystemPodDisruptionTimeout",
    )
)
"""Those that no field of its own sets, and that change what a replay does."""


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True, omit_defaults=True):
    """Base of the parts of an autoscaler: an unknown field is an error."""


class NodeGroup(_Strict, frozen=True):
    """Nodes of one template. A node belongs to the group that its label ``moorage.dev/node-group`` names.

    Attributes
    ----------
    name : str
    template : str, dict or Node
        In a scenario the name of one of its templates, or a manifest.
    min_size, max_size : int
    provision_time : str or float
        From the request of a node until it joins; seconds.
    price : float or None
        Of a node per hour.
    options : dict of str to value
        Flags of cluster-autoscaler for this group, in camel case.
    zero_or_max_node_scaling : bool
        Whether the group has no node or all of them.
    """

    name: str
    template: Any
    min_size: int = 0
    max_size: int = 1000
    provision_time: Time = 60.0
    price: float | None = None
    options: dict[str, Any] = {}
    zero_or_max_node_scaling: bool = False


class ScaleDown(_Strict, frozen=True):
    """Removal of unneeded nodes by the rules of cluster-autoscaler; the fields are named as its flags.

    Attributes
    ----------
    utilization_threshold : float
        Up to which a node may be unneeded: the greater of the requested parts of cpu and memory.
    unneeded_time, delay_after_add, delay_after_delete : str or float
        How long a node has to be unneeded; how long nothing is removed after nodes were requested or removed.
    max_scale_down_parallelism, max_drain_parallelism : int
        Nodes that are removed at once; those among them that have pods to be moved.
    skip_nodes_with_system_pods, skip_nodes_with_local_storage, skip_nodes_with_custom_controller_pods : bool
        Which pods keep their node.
    """

    utilization_threshold: float = 0.5
    unneeded_time: Time = 600.0
    delay_after_add: Time = 600.0
    delay_after_delete: Time = 0.0
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True


class KarpenterTimes(_Strict, frozen=True):
    """Karpenter with the NodePools of the timeline: what its passes choose from, and how long its steps take.

    Attributes
    ----------
    instance_types : str or None
        A file of instance types; by default those that the nodes of each pool show.
    batch_idle, batch_max : str or float
        A pass begins when no pod has come for so long, or so long after the first one.
    launch_time, registration_time, initialization_time : str or float
        From the claim to a machine, from there to its node, and until the node takes pods.
    seed : int
        For what Karpenter leaves to chance; 0 takes domains by name.
    """

    instance_types: str | None = None
    batch_idle: Time = 1.0
    batch_max: Time = 10.0
    launch_time: Time = 20.0
    registration_time: Time = 20.0
    initialization_time: Time = 10.0
    seed: int = 0


class AutoscalerSpec(_Strict, frozen=True):
    """The autoscaler of a timeline.

    Attributes
    ----------
    node_groups : list of NodeGroup
    scan_interval : str or float
    expander : str or list of str
        Of `EXPANDERS`; each chooses among the groups that the one before has left, at last one is drawn.
    priorities : dict of int to list of str
        Regular expressions of names of groups, for ``priority``.
    pod_prices : PodPrices
        For ``price``.
    seed : int
    expendable_pods_priority_cutoff : int
        Pods of less priority do not have nodes added.
    scale_down : ScaleDown or None
    consolidation
        Refused: Karpenter removes nodes as their NodePools say.
    flags : dict of str to value
        Other flags of cluster-autoscaler, in camel case (`OTHER_FLAGS`).
    karpenter : KarpenterTimes or None
        In place of node groups and all that is about them.
    """

    node_groups: list[NodeGroup] = []
    scan_interval: Time = 10.0
    expander: str | list[str] = "least-waste"
    priorities: dict[str | int, list[str]] = {}
    pod_prices: PodPrices = PodPrices()
    seed: int = 0
    expendable_pods_priority_cutoff: int = -10
    scale_down: ScaleDown | None = None
    consolidation: Any = None
    flags: dict[str, Any] = {}
    karpenter: KarpenterTimes | None = None

    @property
    def expanders(self) -> list[str]:
        """The expanders in their order."""
        return [self.expander] if isinstance(self.expander, str) else list(self.expander)


def checked(spec: AutoscalerSpec, templates: Mapping[str, Object]) -> AutoscalerSpec:
    """Check an autoscaler, and resolve its templates and times.

    Parameters
    ----------
    templates : mapping of str to Object
        To which groups may refer.

    Returns
    -------
    AutoscalerSpec
        With nodes as templates, and times in seconds.

    Raises
    ------
    InputError
        Names the field.
    """
    if spec.consolidation is not None:
        raise InputError(
            "is not known for node groups: use NodePools with `disruption`, and `karpenter` in place of "
            "nodeGroups (docs/karpenter.md)",
            path="consolidation",
        )
    if spec.karpenter is not None:
        return _karpenter(spec, spec.karpenter)
    groups = []
    for at, group in enumerate(spec.node_groups):
        with located(path=f"nodeGroups[{at}]"):
            groups.append(_group(group, templates))
    if not groups or len({one.name for one in groups}) < len(groups):
        raise InputError("must be groups of different names", path="nodeGroups")
    _check_expanders(spec)
    with located(path="flags"):
        read_flags(spec.flags, OTHER_FLAGS)
    out = replace(spec, node_groups=groups, scan_interval=_time(spec.scan_interval, "scanInterval", 0.001))
    if (down := spec.scale_down) is not None:
        out = replace(out, scale_down=_scale_down(down))
    return out


def flags_of(spec: AutoscalerSpec) -> cluster_autoscaler.Flags:
    """Return the flags of cluster-autoscaler that a checked autoscaler sets."""
    flags = cluster_autoscaler.Flags(
        expanders=tuple(spec.expanders),
        priorities={int(key): tuple(patterns) for key, patterns in spec.priorities.items()},
        pod_prices=spec.pod_prices,
        expendable_pods_priority_cutoff=spec.expendable_pods_priority_cutoff,
        scale_down_enabled=spec.scale_down is not None,
        **read_flags(spec.flags, OTHER_FLAGS),
    )
    if (down := spec.scale_down) is None:
        return flags
    return dataclasses.replace(
        flags,
        scale_down_utilization_threshold=down.utilization_threshold,
        scale_down_gpu_utilization_threshold=down.utilization_threshold,
        scale_down_unneeded_time=float(down.unneeded_time),
        scale_down_delay_after_add=float(down.delay_after_add),
        scale_down_delay_after_delete=float(down.delay_after_delete),
        max_scale_down_parallelism=down.max_scale_down_parallelism,
        max_drain_parallelism=down.max_drain_parallelism,
        skip_nodes_with_system_pods=down.skip_nodes_with_system_pods,
        skip_nodes_with_local_storage=down.skip_nodes_with_local_storage,
        skip_nodes_with_custom_controller_pods=down.skip_nodes_with_custom_controller_pods,
    )


def groups_of(spec: AutoscalerSpec) -> list[cluster_autoscaler.NodeGroup]:
    """Return the groups of a checked autoscaler as cluster-autoscaler knows them."""
    return [
        cluster_autoscaler.NodeGroup(
            one.name,
            one.template,
            one.min_size,
            one.max_size,
            price=one.price,
            overrides=read_flags(one.options, OF_GROUPS),
            zero_or_max=one.zero_or_max_node_scaling,
        )
        for one in spec.node_groups
    ]


def spec_value(spec: AutoscalerSpec) -> dict[str, Any]:
    """Return an autoscaler as a JSON value."""
    value: dict[str, Any] = msgspec.to_builtins(spec, enc_hook=object_to_dict)
    for group, one in zip(value.get("nodeGroups", ()), spec.node_groups, strict=True):
        group["template"] = object_to_dict(one.template) if isinstance(one.template, Node) else one.template
    return value


def _karpenter(spec: AutoscalerSpec, times: KarpenterTimes) -> AutoscalerSpec:
    if spec != AutoscalerSpec(karpenter=times):
        raise InputError("makes nodes of NodePools: leave out all other fields", path="karpenter")
    names = ("batch_idle", "batch_max", "launch_time", "registration_time", "initialization_time")
    with located(path="karpenter"):
        read = {name: _time(getattr(times, name), _field(name)) for name in names}
    return AutoscalerSpec(karpenter=replace(times, **read))


def _field(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _time(value: Time, path: str, least: float = 0.0) -> float:
    with located(path=path):
        seconds = parse_duration(value)
        if seconds < least:
            raise InputError(f"must be at least {least:g} seconds, not {seconds:g}")
    return seconds


def _group(group: NodeGroup, templates: Mapping[str, Object]) -> NodeGroup:
    if not _NAME.fullmatch(group.name):
        raise InputError("must be lower-case letters, digits and hyphens, 42 at most", path="name")
    if not 0 <= group.min_size <= group.max_size:
        raise InputError(f"must be from 0 to maxSize, not {group.min_size}", path="minSize")
    if group.price is not None and not (0 <= group.price < math.inf):
        raise InputError(f"must be at least 0, not {group.price}", path="price")
    with located(path="options"):
        read_flags(group.options, OF_GROUPS)
    template = group.template
    with located(path="template"):
        if isinstance(template, str):
            if template not in templates:
                raise InputError(f'there is no template "{template}"')
            template = templates[template]
        elif isinstance(template, dict):
            template = decode_object(template)
        if not isinstance(template, Node):
            raise InputError("must be a Node")
        named = replace(template, metadata=replace(template.metadata, name=group.name))
        validate(named)
    time = _time(group.provision_time, "provisionTime")
    return replace(group, template=defaults([named])[0], provision_time=time)


def _check_expanders(spec: AutoscalerSpec) -> None:
    names = spec.expanders
    if not names or len(set(names)) < len(names) or not set(names) <= set(EXPANDERS):
        raise InputError(f"must be some of {', '.join(EXPANDERS)}", path="expander")
    if bool(spec.priorities) != ("priority" in names):
        raise InputError("are for the expander priority, which needs them", path="priorities")
    for key, patterns in spec.priorities.items():
        with located(path=f"priorities.{key}"):
            try:
                int(key)
                [re.compile(one) for one in patterns]
            except (ValueError, re.error) as error:
                raise InputError(str(error)) from None
    if min(spec.pod_prices.cpu, spec.pod_prices.memory) <= 0:
        raise InputError("must be more than 0", path="podPrices")
    if "price" in names and any(one.price is None for one in spec.node_groups):
        raise InputError("the expander price needs the price of each node group", path="expander")


def _scale_down(down: ScaleDown) -> ScaleDown:
    with located(path="scaleDown"):
        if not 0 <= down.utilization_threshold <= 1:
            raise InputError("must be from 0 to 1", path="utilizationThreshold")
        if down.max_scale_down_parallelism < 1 or down.max_drain_parallelism < 0:
            raise InputError("must be at least 1", path="maxScaleDownParallelism")
        return replace(
            down,
            unneeded_time=_time(down.unneeded_time, "unneededTime"),
            delay_after_add=_time(down.delay_after_add, "delayAfterAdd"),
            delay_after_delete=_time(down.delay_after_delete, "delayAfterDelete"),
        )
