"""What an autoscaler of a replay is: node groups, and rules to add and remove nodes (docs/autoscaling.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.autoscalers.group_settings import GroupSettings, Time, checked_groups, in_seconds
from moorage.autoscalers.group_settings import NodeGroup as NodeGroup
from moorage.errors import InputError, located
from moorage.kube import Node, Object
from moorage.kube.read.python_values import object_to_dict
from moorage.kube.strict_documents import Strict, parse_moment

LEAST_INTERVAL = 0.001
"""Seconds between scans."""


class KarpenterTimes(Strict, frozen=True):
    """Karpenter with the NodePools of the timeline: what its passes choose from, and how long its steps take.

    Attributes
    ----------
    instance_types : str, list of str or None
        A file of instance types, or a provider such as ``aws:us-east-1``, or several of what
        ``--instance-types`` takes; by default those of AWS for pools with an EC2NodeClass, and those that the
        nodes of each pool show for others.
    batch_idle, batch_max : str or float
        A pass begins when no pod has come for so long, or so long after the first one.
    launch_time, registration_time, initialization_time : str or float
        From the claim to a machine, from there to its node, and until the node takes pods.
    seed : int
        For what Karpenter leaves to chance; 0 takes domains by name.
    start_time : str or None
        When the timeline begins, for schedules of budgets and ages of claims, like 2026-06-01T12:00:00Z; by
        default when the newest object of the cluster was created.
    spot_to_spot : bool
        The feature gate SpotToSpotConsolidation.
    ignore_dra_requests : bool
        Whether no node comes for pods with resource claims.
    """

    instance_types: str | list[str] | None = None
    batch_idle: Time = 1.0
    batch_max: Time = 10.0
    launch_time: Time = 20.0
    registration_time: Time = 20.0
    initialization_time: Time = 10.0
    seed: int = 0
    start_time: str | None = None
    spot_to_spot: bool = False
    ignore_dra_requests: bool = True

    @property
    def type_names(self) -> list[str]:
        """What names the instance types; nothing for those of AWS, or that nodes show."""
        names = self.instance_types
        return [names] if isinstance(names, str) else names or []


class AutoscalerSpec(GroupSettings, frozen=True):
    """The autoscaler of a timeline: node groups with flags, and these fields.

    Attributes
    ----------
    scan_interval : str or float
    seed : int
    karpenter : KarpenterTimes or None
        In place of node groups and all that is about them.
    """

    scan_interval: Time = 10.0
    seed: int = 0
    karpenter: KarpenterTimes | None = None


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
    if spec.karpenter is not None:
        return _karpenter(spec, spec.karpenter)
    for at, group in enumerate(spec.node_groups):
        if group.template is None:
            raise InputError("required", obj=f"node group {group.name}", path=f"nodeGroups[{at}].template")
    spec = in_seconds(spec)
    if float(spec.scan_interval) < LEAST_INTERVAL:
        why = f"must be at least {LEAST_INTERVAL} seconds, not {spec.scan_interval:g}"
        raise InputError(why, path="scanInterval")
    return checked_groups(spec, templates)


def spec_value(spec: AutoscalerSpec) -> dict[str, Any]:
    """Return an autoscaler as a JSON value."""
    value: dict[str, Any] = msgspec.to_builtins(spec, enc_hook=object_to_dict)
    for group, one in zip(value.get("nodeGroups", ()), spec.node_groups, strict=True):
        group["template"] = object_to_dict(one.template) if isinstance(one.template, Node) else one.template
    return value


def _karpenter(spec: AutoscalerSpec, times: KarpenterTimes) -> AutoscalerSpec:
    if spec != AutoscalerSpec(karpenter=times):
        raise InputError("makes nodes of NodePools: leave out all other fields", path="karpenter")
    with located(path="karpenter"):
        read = in_seconds(times)
        if times.start_time is not None:
            parse_moment(times.start_time, "startTime")
    return AutoscalerSpec(karpenter=read)
