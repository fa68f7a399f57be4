"""The in-tree registry: the plugins of kube-scheduler, release by release."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any

from moorage.engine import framework as fwk
from moorage.kube.releases import DEFAULT, DEFAULT_GATES, RELEASES, FeatureGates, Release, default_gates
from moorage.kube.releases import feature_gates as all_gates

from ..framework import Plugin, Profile, Registry, installed_plugins
from ..preemption.default_preemption import DefaultPreemption, DefaultPreemptionReserve
from .inter_pod_affinity import InterPodAffinity
from .node_affinity_and_taints import (
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodeNamePreFilter,
    NodeUnschedulable,
    NodeUnschedulablePreFilter,
    TaintToleration,
    TaintTolerationPreFilter,
)
from .node_resources import ImageLocality, NodePorts, NodeResourcesBalancedAllocation, NodeResourcesFit
from .pod_topology_spread import PodTopologySpread
from .queue_and_groups import (
    DefaultBinder,
    GangScheduling,
    GangSchedulingFeasible,
    PodGroupPodsCount,
    PrioritySort,
    SchedulingGates,
    TopologyPlacementGenerator,
)
from .sleeping_plugins import (
    DynamicResourcesFacts,
    DynamicResourcesNoScoreFacts,
    NodeVolumeLimitsFacts,
    PluginFacts,
    VolumeBindingFacts,
    VolumeRestrictionsFacts,
    VolumeZoneFacts,
    asleep,
)

if TYPE_CHECKING:
    from ..framework.configuration import KubeSchedulerConfiguration

    ConfigurationSource = str | PathLike[str] | bytes | Mapping[str, Any] | KubeSchedulerConfiguration


_HOMES: dict[type[PluginFacts], str] = {
    VolumeRestrictionsFacts: "volume_restrictions_and_zone",
    NodeVolumeLimitsFacts: "node_volume_limits",
    VolumeBindingFacts: "volume_binding",
    VolumeZoneFacts: "volume_restrictions_and_zone",
    DynamicResourcesFacts: "dynamic_resources",
    DynamicResourcesNoScoreFacts: "dynamic_resources",
}
"""The modules of the whole plugins."""

IN_TREE_CLASSES: tuple[type[Plugin], ...] = (
    *[asleep(facts, module) for facts, module in _HOMES.items()],
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
    InterPodAffinity,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
    NodeNamePreFilter,
    NodeUnschedulablePreFilter,
    TaintTolerationPreFilter,
    DefaultPreemptionReserve,
    GangSchedulingFeasible,
)
"""The in-tree plugins of all releases, which `Release.plugins` names by class."""


def is_in_tree(plugin: Plugin) -> bool:
    """Whether a plugin is of an in-tree class, also if it has become whole."""
    kind = type(plugin)
    return kind in IN_TREE_CLASSES or not _HOMES.keys().isdisjoint(kind.__bases__)


@lru_cache(len(RELEASES))
def in_tree(release: Release) -> tuple[type[Plugin], ...]:
    """Return the in-tree plugins of a release, in the default MultiPoint order."""
    by_class = {plugin.__name__: plugin for plugin in IN_TREE_CLASSES}
    return tuple(by_class[name] for name in release.plugins)


IN_TREE = in_tree(RELEASES[DEFAULT])
"""The in-tree plugins of the default release."""


def in_tree_registry(release: Release = RELEASES[DEFAULT]) -> Registry:
    """Return the in-tree plugins of a release by name; each class is its own factory."""
    return Registry({plugin.name: plugin for plugin in in_tree(release)})


def default_profile(gates: Mapping[str, bool] = DEFAULT_GATES) -> Profile:
    """Return the profile of kube-scheduler without a configuration.

    Parameters
    ----------
    gates : mapping of str to bool or FeatureGates
        Value by feature gate, on top of the defaults; `FeatureGates` say of which release.
    """
    if not isinstance(gates, FeatureGates):
        release = RELEASES[DEFAULT]
        gates = FeatureGates({**default_gates(release), **gates}, release)
    enabled = [plugin for plugin in in_tree(gates.release) if gates.get(plugin.feature_gate, True)]
    plugins = []
    for plugin in enabled:
        changed = [args for (gate, is_on), args in plugin.gated_args.items() if gates[gate] == is_on]
        plugins.append(plugin(dict(chain.from_iterable(args.items() for args in changed))))
    return Profile(tuple(plugins), release=gates.release)


def read_configuration(
    source: ConfigurationSource, feature_gates: Mapping[str, bool] | None = None, name: str = ""
) -> KubeSchedulerConfiguration:
    """Read a configuration with the in-tree plugins.

    Parameters
    ----------
    source : str, path, bytes, mapping or KubeSchedulerConfiguration
        See `load_configuration`; a KubeSchedulerConfiguration is returned unchanged.
    feature_gates : mapping of str to bool, optional
        Value by gate, on top of the defaults; those of another release are made by
        `moorage.kube.releases.feature_gates`.
    name : str, optional
        Name of the source in errors; its path by default.

    Raises
    ------
    ConfigurationError, InputError
        Errors of `load_configuration`.
    """
    if isinstance(source, fwk.configuration.KubeSchedulerConfiguration):
        return source
    gates = all_gates(feature_gates)
    return fwk.configuration.load_configuration(
        source, in_tree(gates.release), feature_gates=gates, name=name
    )


def all_plugins(others: Registry | None = None, release: Release = RELEASES[DEFAULT]) -> Registry:
    """Return the in-tree plugins and others.

    Parameters
    ----------
    others : Registry, optional
        By default the plugins of installed packages.

    Raises
    ------
    InputError
        A name is taken.
    """
    registry = in_tree_registry(release)
    registry.merge(installed_plugins() if others is None else others)
    return registry
