"""The in-tree registry: order, extension points and weights of kube-scheduler v1.36's default profile."""

from __future__ import annotations

import pytest
from tests.doors.engine import IN_TREE, NativePlugin, in_tree

from moorage import Scheduler, default_profile
from moorage.framework import (
    BindPlugin,
    FilterPlugin,
    Plugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Profile,
    QueueSortPlugin,
    ScorePlugin,
)
from moorage.preemption import DefaultPreemption
from moorage.releases import RELEASES, Release, default_gates

FILTERS = [
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
    *("InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
]
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def names(base: type[Plugin]) -> list[str]:
    return [plugin.name for plugin in default_profile().at(base)]


def test_filters_and_scores_in_order() -> None:
    profile = default_profile()
    assert names(FilterPlugin) == FILTERS
    assert profile.weights == WEIGHTS
    assert names(ScorePlugin) == list(WEIGHTS)


def test_other_extension_points() -> None:
    assert names(QueueSortPlugin) == ["PrioritySort"]
    assert names(PreEnqueuePlugin) == ["SchedulingGates", "DynamicResources", "DefaultPreemption"]
    assert names(PreFilterPlugin) == FILTERS[3:]
    assert names(PreScorePlugin) == [
        *("TaintToleration", "NodeAffinity", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread"),
        *("InterPodAffinity", "NodeResourcesBalancedAllocation"),
    ]
    assert names(PreBindPlugin) == ["VolumeBinding", "DynamicResources"]
    assert names(BindPlugin) == ["DefaultBinder"]


def test_names_are_unique_and_modules_are_named_after_them() -> None:
    assert len({plugin.name for plugin in IN_TREE}) == len(IN_TREE)
    for plugin in IN_TREE:
        snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in plugin.name).lstrip("_")
        room = "preemption" if plugin is DefaultPreemption else "plugins"
        assert plugin.__module__ == f"moorage.{room}.{snake}"
        assert plugin.__name__ == plugin.name


def test_native_plugins_of_the_default_profile_stand_in_order() -> None:
    native = [plugin.name for plugin in default_profile().plugins if isinstance(plugin, NativePlugin)]
    spread = ["PodTopologySpread", "InterPodAffinity"]
    scores = ["NodeResourcesBalancedAllocation", "ImageLocality"]
    assert native == [*FILTERS[:6], *spread, *scores, "NodeDeclaredFeatures"]


def test_weights_can_be_overridden_and_zero_counts_as_one() -> None:
    profile = Profile(default_profile().plugins, weight_overrides={"NodeAffinity": 7, "ImageLocality": 0})
    assert profile.weights == WEIGHTS | {"NodeAffinity": 7, "ImageLocality": 1}


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda release: release.version)
def test_the_plugins_of_a_release_are_those_that_its_record_names(release: Release) -> None:
    assert [plugin.__name__ for plugin in in_tree(release)] == list(release.plugins)
    enabled = [plugin.name for plugin in default_profile(default_gates(release)).plugins]
    assert [name for name in enabled if name.startswith("Node")][:2] == (
        ["NodeName", "NodeUnschedulable"]
        if "NodeNamePreFilter" in release.plugins
        else ["NodeUnschedulable", "NodeName"]
    )


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^kubernetes_version must be one of 1.34, 1.35, 1.36, 1.37, not '1.33'$"
    ):
        Scheduler(kubernetes_version="1.33")
