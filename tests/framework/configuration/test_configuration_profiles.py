"""Building profiles: what only a registry with other plugins can tell. Vectors judge those in tree."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from tests.doors.engine import IN_TREE, build_profiles, effective, load_configuration
from tests.framework.configuration.test_refusals import HEADER, REGISTRY
from tests.house.source import ROOT

Json = dict[str, Any]


def build(profile: str) -> Any:
    config = load_configuration(f"{HEADER}profiles: [{profile}]".encode(), IN_TREE)
    return build_profiles(config, REGISTRY)[0]


def effective_of(text: str) -> Json:
    return effective(load_configuration((HEADER + text).encode(), IN_TREE), REGISTRY)


def test_plugins_of_the_point_alone_come_last() -> None:
    profile = build(
        "{plugins: {multiPoint: {enabled: [{name: Both, weight: 4}, {name: NodeAffinity, weight: 9}]},"
        " filter: {enabled: [{name: Both}, {name: NodeName}], disabled: [{name: NodeName}]}}}"
    )
    assert (profile.plugins["filter"][0], profile.plugins["filter"][-1]) == ("Both", "NodeName")
    assert (profile.plugins["score"][1], profile.plugins["score"][-1]) == ("NodeAffinity", "Both")
    assert profile.plugins["postBind"] == ("Both",)
    assert (profile.weights["score"]["NodeAffinity"], profile.weights["score"]["Both"]) == (9, 4)


def test_the_weight_of_the_point_counts() -> None:
    both = "{{multiPoint: {{enabled: [{{name: Both, weight: 3}}]}}, score: {{enabled: [{}]}}}}"
    named = build(f"{{plugins: {both.format('{name: Both, weight: 5}')}}}")
    assert named.weights["score"]["Both"] == 5
    placement = build("{plugins: {placementScore: {enabled: [{name: PlacementScorer}]}}}")
    assert placement.weights["placementScore"] == {"PlacementScorer": 1, "NodeResourcesFit": 1}
    negative = build("{plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: -4}]}}}")
    assert negative.weights["score"]["ImageLocality"] == -4


def test_args_are_those_of_the_plugins_that_run() -> None:
    """Wrong ones of a plugin that is off are not looked at."""
    profile = build(
        "{plugins: {filter: {enabled: [{name: Both}]},"
        " multiPoint: {disabled: [{name: VolumeBinding}, {name: NodeResourcesFit}]}},"
        " pluginConfig: [{name: Both, args: {x: [1]}}, {name: Unused, args: {x: 2}},"
        " {name: VolumeBinding, args: {bindTimeoutSeconds: 5}}, {name: ImageLocality},"
        " {name: NodeResourcesFit, args: {scoringStrategy: {type: Nothing}}}]}"
    )
    assert profile.args["Both"] == {"x": [1]}
    off = {"Unused", "VolumeBinding", "ImageLocality", "NodeResourcesFit"}
    assert not off & profile.args.keys()
    assert profile.args["InterPodAffinity"].hard_pod_affinity_weight == 1


@pytest.mark.parametrize(("ignored", "resources"), [("true", ["a.com/x"]), ("false", None)])
def test_fit_ignores_what_an_extender_manages(ignored: str, resources: list[str] | None) -> None:
    """Upstream puts its list in the place of the one given."""
    managed = f"[{{name: a.com/x, ignoredByScheduler: {ignored}}}, {{name: a.com/y}}]"
    text = f"extenders: [{{urlPrefix: 'http://x', managedResources: {managed}}}]\nprofiles: [{{"
    text += "pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [a.com/z]}}]" * bool(resources)
    (profile,) = effective_of(text + "}]")["profiles"]
    assert profile["args"]["NodeResourcesFit"].get("ignoredResources") == resources


def test_the_certificate_of_an_extender_is_in_the_effective_configuration() -> None:
    data = base64.b64encode((ROOT / "tests/data/extender.pem").read_bytes()).decode()
    extender = {"tlsConfig": {"caData": data}, "enableHTTPS": True}
    told = effective_of(yaml.safe_dump({"extenders": [extender]}))["extenders"]
    assert told == [{"urlPrefix": "", "httpTimeout": "5s"} | extender]


def test_arguments_of_a_plugin_that_is_not_enabled_are_told() -> None:
    (profile,) = effective_of(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}},"
        " pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 6}}]}]"
    )["profiles"]
    assert profile["args"]["InterPodAffinity"]["hardPodAffinityWeight"] == 6
    assert "InterPodAffinity" not in profile["plugins"]["filter"]
