"""The in-tree registry, and which plugins a release has; vectors judge their order and extension points."""

from __future__ import annotations

import pytest
from tests.doors.engine import IN_TREE, in_tree

from moorage import Scheduler, default_profile
from moorage.engine.framework import Profile
from moorage.engine.preemption import DefaultPreemption
from moorage.kube.releases import RELEASES, Release, default_gates


def test_names_are_unique_and_each_plugin_is_where_plugins_are() -> None:
    assert len({plugin.name for plugin in IN_TREE}) == len(IN_TREE)
    for plugin in IN_TREE:
        room = "preemption" if plugin is DefaultPreemption else "plugins"
        assert plugin.__module__.startswith(f"moorage.engine.{room}.")
        assert plugin.__name__ == plugin.name


def test_weights_can_be_overridden_and_zero_counts_as_one() -> None:
    profile = Profile(default_profile().plugins, weight_overrides={"NodeAffinity": 7, "ImageLocality": 0})
    assert profile.weights == default_profile().weights | {"NodeAffinity": 7, "ImageLocality": 1}


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
        ValueError, match=r"^kubernetes_version must be one of 1.34, 1.35, 1.36, 1.37, 1.38, not '1.33'$"
    ):
        Scheduler(kubernetes_version="1.33")
