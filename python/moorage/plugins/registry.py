"""The in-tree registry: the plugins of kube-scheduler v1.36.2, in the default MultiPoint order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from os import PathLike
from typing import Any

from moorage.framework import Plugin, Profile, Registry, installed_plugins
from moorage.framework.configuration import DEFAULT_GATES, KubeSchedulerConfiguration, load_configuration
from moorage.framework.configuration.defaults import default_args
from moorage.framework.configuration.go_structs import write
from moorage.preemption.default_preemption import DefaultPreemption

from .default_binder import DefaultBinder
from .dynamic_resources import DynamicResources
from .gang_scheduling import GangScheduling
from .image_locality import ImageLocality
from .inter_pod_affinity import InterPodAffinity
from .node_affinity import NodeAffinity
from .node_declared_features import NodeDeclaredFeatures
from .node_name import NodeName
from .node_ports import NodePorts
from .node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from .node_resources_fit import NodeResourcesFit
from .node_unschedulable import NodeUnschedulable
from .node_volume_limits import NodeVolumeLimits
from .pod_group_pods_count import PodGroupPodsCount
from .pod_topology_spread import PodTopologySpread
from .priority_sort import PrioritySort
from .scheduling_gates import SchedulingGates
from .taint_toleration import TaintToleration
from .topology_placement_generator import TopologyPlacementGenerator
from .volume_binding import VolumeBinding
from .volume_restrictions import VolumeRestrictions
from .volume_zone import VolumeZone

IN_TREE: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)


def in_tree_registry() -> Registry:
    """Return the in-tree plugins by name; each class is its own factory."""
    return Registry({plugin.name: plugin for plugin in IN_TREE})


def default_profile(gates: Mapping[str, bool] = DEFAULT_GATES) -> Profile:
    """Return the profile of kube-scheduler v1.36.2 without a configuration.

    Parameters
    ----------
    gates : mapping of str to bool
        Value by feature gate, on top of the defaults.

    Returns
    -------
    Profile
    """
    plugins = _default_plugins(frozenset({**DEFAULT_GATES, **gates}.items()))
    return Profile(plugins=tuple([plugin(args) for plugin, args in plugins]))


@lru_cache(16)
def _default_plugins(
    gates: frozenset[tuple[str, bool]],
) -> tuple[tuple[type[Plugin], Mapping[str, Any] | None], ...]:
    """The classes and arguments of the plugins that are enabled by default."""
    by_name, plugins = dict(gates), []
    for plugin in IN_TREE:
        if by_name.get(plugin.feature_gate, True):
            args = default_args(plugin.name, by_name)
            plugins.append((plugin, None if args is None else write(args)))
    return tuple(plugins)


ConfigurationSource = str | PathLike[str] | bytes | Mapping[str, Any] | KubeSchedulerConfiguration


def read_configuration(
    source: ConfigurationSource, feature_gates: Mapping[str, bool] | None = None
) -> KubeSchedulerConfiguration:
    """Read a configuration with the in-tree plugins.

    Parameters
    ----------
    source : str, path, bytes, mapping or KubeSchedulerConfiguration
        See `load_configuration`; a KubeSchedulerConfiguration is returned unchanged.
    feature_gates : mapping of str to bool, optional
        Value by gate, on top of the defaults of v1.36.

    Returns
    -------
    KubeSchedulerConfiguration

    Raises
    ------
    ConfigurationError, InputError
        Errors of `load_configuration`.
    """
    if isinstance(source, KubeSchedulerConfiguration):
        return source
    return load_configuration(source, IN_TREE, feature_gates=feature_gates)


def all_plugins(others: Registry | None = None) -> Registry:
    """Return the in-tree plugins and others.

    Parameters
    ----------
    others : Registry, optional
        By default the plugins of installed packages.

    Returns
    -------
    Registry

    Raises
    ------
    InputError
        A name is taken.
    """
    registry = in_tree_registry()
    registry.merge(installed_plugins() if others is None else others)
    return registry
