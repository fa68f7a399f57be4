"""Building profiles: order, weights and arguments, and what only a registry can tell."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pytest
from tests.doors.engine import IN_TREE, build_extenders, build_profiles, effective, load_configuration
from tests.house.source import ROOT

from moorage.errors import ConfigurationError

Json = dict[str, Any]
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@dataclass(frozen=True)
class Mine:
    """A plugin that is not in tree."""

    extension_points: tuple[str, ...]


REGISTRY = {plugin.name: plugin for plugin in IN_TREE} | {
    "Sorter": Mine(("queueSort",)),
    "Both": Mine(("filter", "score", "postBind")),
    "Generator": Mine(("placementGenerate",)),
    "Generator2": Mine(("placementGenerate",)),
    "PlacementScorer": Mine(("placementScore",)),
}


def build(plugins: Json, **more: Any) -> Any:
    config = HEADER | {"profiles": [{"plugins": plugins} | more]}
    return build_profiles(load_configuration(config, IN_TREE), REGISTRY)[0]


def enabled(*names: str, **weights: int) -> list[Json]:
    return [{"name": name} | ({"weight": weights[name]} if name in weights else {}) for name in names]


def refusal(plugins: Json, **more: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        build(plugins, **more)
    assert caught.value.stage == "new"
    prefix = "initializing profiles: creating profile for scheduler name default-scheduler: "
    assert caught.value.message.startswith(prefix)
    return caught.value.message.removeprefix(prefix)


def test_plugins_named_by_both_come_first_those_of_the_point_alone_last() -> None:
    points = {
        "enabled": enabled("Both", "NodeName", "NodeAffinity"),
        "disabled": enabled("NodePorts", "NodeName"),
    }
    found = build({"filter": points, "multiPoint": {"disabled": enabled("VolumeZone")}})
    assert found.plugins["filter"] == (
        "NodeAffinity",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
        "Both",
        "NodeName",
    )
    assert found.plugins["postBind"] == ()


def test_multi_point_keeps_the_place_of_what_it_names_again() -> None:
    found = build({"multiPoint": {"enabled": enabled("Both", "NodeAffinity", NodeAffinity=9, Both=4)}})
    assert found.plugins["score"][1] == "NodeAffinity"
    assert found.plugins["score"][-1] == "Both"
    assert found.plugins["postBind"] == ("Both",)
    assert (found.weights["score"]["NodeAffinity"], found.weights["score"]["Both"]) == (9, 4)


def test_star_at_a_point_leaves_only_what_the_point_names() -> None:
    found = build({"score": {"enabled": enabled("Both", "ImageLocality"), "disabled": enabled("*")}})
    assert found.plugins["score"] == ("Both", "ImageLocality")
    assert found.weights["score"]["Both"] == 1
    assert found.weights["score"]["TaintToleration"] == 3


def test_the_weight_of_the_point_counts() -> None:
    both = {"multiPoint": {"enabled": enabled("Both", Both=3)}, "score": {"enabled": enabled("Both", Both=5)}}
    assert build(both).weights["score"]["Both"] == 5
    assert build({"placementScore": {"enabled": enabled("PlacementScorer")}}).weights["placementScore"] == {
        "PlacementScorer": 1,
        "NodeResourcesFit": 1,
    }


NEGATIVE = enabled("PrioritySort", "Both", "ImageLocality", "DefaultBinder", Both=-1)


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ({"filter": {"enabled": enabled("Nothing")}}, 'FilterPlugin "Nothing" does not exist'),
        ({"multiPoint": {"enabled": enabled("GCEPDLimits")}}, 'PreFilterPlugin "GCEPDLimits" does not exist'),
        (
            {"multiPoint": {"enabled": enabled("Nothing")}, "preFilter": {"disabled": enabled("*")}},
            'FilterPlugin "Nothing" does not exist',
        ),
        ({"permit": {"enabled": enabled("Both")}}, 'plugin "Both" does not extend PermitPlugin plugin'),
        (
            {"postBind": {"enabled": enabled("Both", "Both")}},
            'plugin "Both" already registered as "PostBindPlugin"',
        ),
        (
            {"multiPoint": {"enabled": enabled("Both", "Both")}},
            'plugin "Both" already registered as "FilterPlugin"',
        ),
        (
            {"multiPoint": {"enabled": enabled("Sorter")}},
            'only one queue sort plugin required for profile with scheduler name "default-scheduler", but '
            "got 2",
        ),
        (
            {"multiPoint": {"enabled": enabled("Generator", "Generator2")}},
            "at most one placement generate plugin is allowed for profile with scheduler name "
            '"default-scheduler"',
        ),
        (
            {"placementScore": {"enabled": enabled("PlacementScorer", PlacementScorer=-1)}},
            "placement score plugins: total score of Score plugins could overflow",
        ),
        (
            {"multiPoint": {"disabled": enabled("*"), "enabled": NEGATIVE}},
            "score plugins: total score of Score plugins could overflow",
        ),
    ],
)
def test_what_cannot_be_built(plugins: Json, message: str) -> None:
    assert refusal(plugins) == message


def test_a_negative_weight_after_positive_ones_is_taken() -> None:
    found = build({"multiPoint": {"enabled": enabled("ImageLocality", ImageLocality=-4)}})
    assert found.weights["score"]["ImageLocality"] == -4


def fit(**args: Any) -> list[Json]:
    return [{"name": "NodeResourcesFit", "args": args}]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"scoringStrategy": {"type": "LeastAllocated", "requestedToCapacityRatio": {"shape": []}}},
            "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not "
            "RequestedToCapacityRatio",
        ),
        (
            {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {}}},
            "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be "
            "specified",
        ),
        (
            {"ignoredResources": ["a/"]},
            'ignoredResources[0]: Invalid value: "a/": name part must be non-empty',
        ),
        (
            {"ignoredResourceGroups": ["a.com", "b.com/x"]},
            "ignoredResourceGroups[1]: Invalid value: \"b.com/x\": resource group name can't contain '/'",
        ),
        (
            {"scoringStrategy": {"type": "Nothing"}},
            'scoringStrategy.type: Unsupported value: "Nothing": supported values: "LeastAllocated", '
            '"MostAllocated", "RequestedToCapacityRatio"',
        ),
        (
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is "
            "RequestedToCapacityRatio",
        ),
        (
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "x", "weight": -1}]}},
            "scoringStrategy.resources[0].weight: Invalid value: -1: resource weight of x not in valid range "
            "(0, 100]",
        ),
    ],
)
def test_arguments_of_fit(args: Json, message: str) -> None:
    found = refusal({}, pluginConfig=fit(**args)).removeprefix('initializing plugin "NodeResourcesFit": ')
    assert found.strip("[").startswith(message)
    off = {"multiPoint": {"disabled": enabled("NodeResourcesFit")}}
    assert "NodeResourcesFit" not in build(off, pluginConfig=fit(**args)).args, (
        "checked when it is built only"
    )


def test_args_are_those_of_the_plugins_that_run() -> None:
    config = [
        {"name": "Both", "args": {"x": [1]}},
        {"name": "Unused", "args": {"x": 2}},
        {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}},
        {"name": "ImageLocality"},
    ]
    plugins = {"filter": {"enabled": enabled("Both")}, "multiPoint": {"disabled": enabled("VolumeBinding")}}
    found = build(plugins, pluginConfig=config)
    assert found.args["Both"] == {"x": [1]}
    assert not {"Unused", "VolumeBinding", "ImageLocality"} & found.args.keys()
    assert found.args["InterPodAffinity"].hard_pod_affinity_weight == 1


def extended(*resources: Json, **profile: Any) -> Any:
    extender = {"urlPrefix": "http://x", "managedResources": list(resources)}
    return load_configuration(HEADER | {"extenders": [extender], "profiles": [profile]}, IN_TREE)


def test_fit_ignores_what_an_extender_manages() -> None:
    """Upstream puts its list in the place of the one given."""
    resources = {"name": "a.com/x", "ignoredByScheduler": True}, {"name": "a.com/y"}
    config = extended(*resources, pluginConfig=fit(ignoredResources=["a.com/z"]))
    for _ in range(2):
        (found,) = effective(config, REGISTRY)["profiles"]
        assert found["args"]["NodeResourcesFit"]["ignoredResources"] == ["a.com/x"]
    (found,) = effective(extended({"name": "a.com/y"}), REGISTRY)["profiles"]
    assert "ignoredResources" not in found["args"]["NodeResourcesFit"]


def test_an_extender_needs_the_arguments_of_fit() -> None:
    plugins = {"multiPoint": {"disabled": enabled("NodeResourcesFit")}}
    config = extended({"name": "a.com/x", "ignoredByScheduler": True}, plugins=plugins)
    with pytest.raises(ConfigurationError, match="couldn't build extenders: can't find NodeResourcesFitArgs"):
        build_profiles(config, REGISTRY)


def test_extenders_with_wrong_certificates_are_refused() -> None:
    tls: Json = {"insecure": True, "caData": "YWI="}
    config = load_configuration(HEADER | {"extenders": [{"urlPrefix": "u", "tlsConfig": tls}]}, IN_TREE)
    with pytest.raises(
        ConfigurationError, match="couldn't build extenders: specifying a root certificates file"
    ):
        build_extenders(config)
    del tls["insecure"]
    with pytest.raises(ConfigurationError, match="unable to load root certificates: unable to parse bytes"):
        build_extenders(load_configuration(HEADER | {"extenders": [{"tlsConfig": tls}]}, IN_TREE))
    tls["caData"] = base64.b64encode((ROOT / "tests/data/extender.pem").read_bytes()).decode()
    config = load_configuration(HEADER | {"extenders": [{"tlsConfig": tls, "enableHTTPS": True}]}, IN_TREE)
    assert effective(config, REGISTRY)["extenders"] == [
        {"urlPrefix": "", "enableHTTPS": True, "tlsConfig": tls, "httpTimeout": "5s"}
    ]


def test_arguments_of_a_plugin_that_is_not_enabled_are_told() -> None:
    config = load_configuration(
        HEADER
        | {
            "profiles": [
                {
                    "plugins": {"multiPoint": {"disabled": enabled("InterPodAffinity")}},
                    "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 6}}],
                }
            ]
        },
        IN_TREE,
    )
    (profile,) = effective(config, REGISTRY)["profiles"]
    assert profile["args"]["InterPodAffinity"]["hardPodAffinityWeight"] == 6
    assert "InterPodAffinity" not in profile["plugins"]["filter"]


def two_profiles(*second: Json) -> Any:
    sorter = {"plugins": {"multiPoint": {"enabled": enabled("Sorter"), "disabled": enabled("PrioritySort")}}}
    profiles = [{"schedulerName": "a"} | sorter, {"schedulerName": "b"} | second[0]]
    return load_configuration(HEADER | {"profiles": profiles}, IN_TREE), sorter


def test_profiles_sort_alike() -> None:
    config, sorter = two_profiles({})
    with pytest.raises(ConfigurationError) as caught:
        build_profiles(config, REGISTRY)
    text = (
        'initializing profiles: different queue sort plugins for profile "b": "PrioritySort", first: "Sorter"'
    )
    assert caught.value.message == text
    assert len(build_profiles(two_profiles(sorter)[0], REGISTRY)) == 2
    more = sorter | {"pluginConfig": [{"name": "Sorter", "args": {"x": 1}}]}
    with pytest.raises(ConfigurationError, match='different queue sort plugin args for profile "b"'):
        build_profiles(two_profiles(more)[0], REGISTRY)
