"""Loading: stages, inputs, gates, defaults, and that an effective configuration comes to itself."""

from __future__ import annotations

import io
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.engine import (
    IN_TREE,
    POINTS,
    effective,
    in_tree,
    interface,
    load_configuration,
)
from tests.make import configuration

from moorage import default_profile
from moorage.errors import ConfigurationError, InputError
from moorage.kube.releases import DEFAULT_GATES, RELEASES, dependents_off, feature_gates, release_named

Json = dict[str, Any]
REGISTRY = {plugin.name: plugin for plugin in IN_TREE}


def profile(**fields: Any) -> Json:
    return configuration(profiles=[fields])


def come_to(value: Json, **gates: bool) -> Json:
    return effective(load_configuration(value, IN_TREE, feature_gates=gates), REGISTRY)


def test_path_text_and_value_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = configuration(parallelism=3)
    text = json.dumps(value).encode()
    path = tmp_path / "config.json"
    path.write_bytes(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    for source in (value, text, path, str(path), "-"):
        assert load_configuration(source, IN_TREE) == load_configuration(value, IN_TREE)
    assert value == configuration(parallelism=3)


def test_an_error_names_stage_source_and_field(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(configuration(parallelism=0)))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(path, IN_TREE)
    assert caught.value.stage == "validate"
    assert str(caught.value) == f"{path}: {caught.value.message}"
    value = profile(pluginConfig=[{"name": "DynamicResources", "args": {"bindingTimeout": 5}}])
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(value, IN_TREE, name="mine")
    assert caught.value.stage == "load"
    assert caught.value.path == "profiles[0].pluginConfig[0].args.bindingTimeout"
    assert "of type string" in caught.value.message
    assert str(caught.value).startswith("mine: profiles[0]")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: no such file"):
        load_configuration("nowhere.yaml", IN_TREE)


def test_an_empty_configuration_has_the_defaults_of_upstream() -> None:
    config = load_configuration(configuration(), IN_TREE)
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (16, 0)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.enable_profiling, config.enable_contention_profiling) == (True, True)
    assert not config.delay_cache_until_active
    election = config.leader_election
    assert (election.leader_elect, election.resource_lock) == (True, "leases")
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "kube-scheduler")
    durations = (election.lease_duration, election.renew_deadline, election.retry_period)
    assert durations == (15 * 10**9, 10 * 10**9, 2 * 10**9)
    connection = config.client_connection
    assert (connection.qps, connection.burst) == (50, 100)
    assert connection.content_type == "application/vnd.kubernetes.protobuf"


def test_no_contention_profiling_without_profiling() -> None:
    config = load_configuration(configuration(enableProfiling=False), IN_TREE)
    assert config.enable_contention_profiling is None


def test_defaults_of_args_and_plugins_are_those_of_the_plugins() -> None:
    """The table of in-tree plugins and the configuration tell the same of an unconfigured scheduler."""
    (found,) = come_to(configuration())["profiles"]
    on = default_profile()
    assert {*interface.BASES.values(), "placementFeasible"} == set(POINTS)  # which only GangScheduling is at
    for base, point in interface.BASES.items():
        if point == "podGroupPostFilter":
            continue  # of v1.37
        listed = found["plugins"].get(point, [])
        names = [one["name"] if isinstance(one, dict) else one for one in listed]
        assert names == [plugin.name for plugin in on.at(base)], point
    assert {one["name"]: one["weight"] for one in found["plugins"]["score"]} == on.weights
    for plugin in on.plugins:
        args = {
            k: v for k, v in found["args"].get(plugin.name, {}).items() if k not in ("kind", "apiVersion")
        }
        assert args == json.loads(json.dumps(plugin.default_args)), plugin.name


@pytest.mark.parametrize("release", ["1.34", "1.37"])
def test_arguments_of_the_default_profile_are_those_of_an_empty_configuration(release: str) -> None:
    """Whichever gate has another value than by default, as far as the release lets it have one."""
    plugins, tried = in_tree(RELEASES[release]), set()
    for gate, is_on in feature_gates({}, RELEASES[release]).items():
        with suppress(InputError, ValueError):
            gates = feature_gates({gate: not is_on}, RELEASES[release])
            tried.add(gate)
            value = load_configuration(configuration(), plugins, feature_gates=gates)
            (found,) = effective(value, {plugin.name: plugin for plugin in plugins})["profiles"]
            for plugin in default_profile(gates).plugins:
                args = found["args"].get(plugin.name, {})
                own = {name: value for name, value in args.items() if name not in ("kind", "apiVersion")}
                given = json.loads(json.dumps({**plugin.default_args, **own}))
                assert given == json.loads(json.dumps(plugin.args)), gate
    assert tried >= {gate for plugin in plugins for gate, _ in plugin.gated_args}


@pytest.mark.parametrize(
    ("point", "names"),
    [
        ("permit", ["GangScheduling"]),
        ("placementGenerate", ["TopologyPlacementGenerator"]),
        (
            "placementScore",
            [{"name": "NodeResourcesFit", "weight": 1}, {"name": "PodGroupPodsCount", "weight": 1}],
        ),
    ],
)
def test_gates_change_the_default_plugins(point: str, names: Any) -> None:
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    of_release = feature_gates(gates, release_named("1.37"))
    loaded = load_configuration(configuration(), IN_TREE, feature_gates=of_release)
    (profile,) = effective(loaded, REGISTRY)["profiles"]
    assert profile["plugins"][point] == names
    (plain,) = come_to(configuration())["profiles"]
    assert plain["plugins"].get(point) != names


def test_gates_take_away() -> None:
    gates = {"NodeDeclaredFeatures": False, "DRASchedulerFilterTimeout": False}
    gates |= {"DRADeviceBindingConditions": False}
    (profile,) = come_to(configuration(), **dependents_off(gates), **gates)["profiles"]
    assert "NodeDeclaredFeatures" not in profile["plugins"]["filter"]
    kind = {"kind": "DynamicResourcesArgs", "apiVersion": "kubescheduler.config.k8s.io/v1"}
    assert profile["args"]["DynamicResources"] == kind | {"filterTimeout": None}


def test_a_gate_gives_volume_binding_a_shape() -> None:
    (found,) = come_to(configuration(), StorageCapacityScoring=True)["profiles"]
    points = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
    assert found["args"]["VolumeBinding"]["shape"] == points


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ({"NoSuchGate": True}, "featureGates: unrecognized feature gate: NoSuchGate"),
        (
            {"SidecarContainers": False},
            "cannot set feature gate SidecarContainers to false, feature is locked",
        ),
        ({"PodLevelResources": "true"}, "invalid value of PodLevelResources=true"),
    ],
)
def test_wrong_gates_of_a_configuration_are_refused(gates: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_configuration(configuration(), IN_TREE, feature_gates=gates)


def test_gates_of_the_in_tree_plugins_are_known() -> None:
    assert {plugin.feature_gate for plugin in IN_TREE} - {""} <= DEFAULT_GATES.keys()
    assert feature_gates({"OpportunisticBatching": False})["OpportunisticBatching"] is False
    assert feature_gates({"SidecarContainers": True}) == DEFAULT_GATES


SCORED = [plugin.name for plugin in IN_TREE if "score" in plugin.extension_points]
FILTERS = [plugin.name for plugin in IN_TREE if "filter" in plugin.extension_points]
names_of = st.lists(st.sampled_from(FILTERS), unique=True, max_size=4)
plugin_sets = st.fixed_dictionaries(
    {
        "filter": st.fixed_dictionaries(
            {
                "enabled": names_of.map(lambda names: [{"name": name} for name in names]),
                "disabled": names_of.map(lambda names: [{"name": name} for name in names]),
            }
        ),
        "score": st.fixed_dictionaries(
            {
                "enabled": st.lists(
                    st.fixed_dictionaries(
                        {"name": st.sampled_from(SCORED), "weight": st.integers(0, 2**31 - 1)}
                    ),
                    unique_by=lambda plugin: plugin["name"],
                    max_size=4,
                )
            }
        ),
        "multiPoint": st.fixed_dictionaries(
            {"disabled": names_of.map(lambda names: [{"name": name} for name in names])}
        ),
    }
)
resources = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["cpu", "memory", "example.com/gpu"]), "weight": st.integers(0, 100)}
    ),
    max_size=3,
)
arguments = st.fixed_dictionaries(
    {
        "NodeResourcesFit": st.fixed_dictionaries(
            {
                "scoringStrategy": st.fixed_dictionaries(
                    {"type": st.sampled_from(["LeastAllocated", "MostAllocated"]), "resources": resources}
                ),
                "ignoredResources": st.lists(st.just("example.com/x"), max_size=2),
            }
        ),
        "InterPodAffinity": st.fixed_dictionaries({"hardPodAffinityWeight": st.integers(0, 100)}),
        "VolumeBinding": st.fixed_dictionaries({"bindTimeoutSeconds": st.integers(0, 2**63 - 1)}),
        "DynamicResources": st.fixed_dictionaries(
            {"filterTimeout": st.integers(0, 10**6).map(lambda number: f"{number}ms")}
        ),
    }
)


def as_input(value: Json) -> Json:
    """An effective configuration written down as one that says everything."""
    config = {key: item for key, item in value.items() if key not in ("leaderElect", "profiles")}
    config["leaderElection"] = {"leaderElect": value["leaderElect"]}
    config["profiles"] = []
    for one in value["profiles"]:
        plugins: Json = {"multiPoint": {"disabled": [{"name": "*"}]}}
        for point, listed in one["plugins"].items():
            enabled = [plugin if isinstance(plugin, dict) else {"name": plugin} for plugin in listed]
            plugins[point] = {"enabled": enabled}
        args = [{"name": name, "args": args} for name, args in one["args"].items()]
        rest = {key: item for key, item in one.items() if key not in ("plugins", "args")}
        config["profiles"].append(rest | {"plugins": plugins, "pluginConfig": args})
    return configuration() | config


@settings(max_examples=50, deadline=None)
@given(
    plugins=plugin_sets,
    args=arguments,
    percentage=st.none() | st.integers(0, 100),
    extender=st.none()
    | st.integers(0, 10**6).map(lambda n: {"urlPrefix": "http://x", "httpTimeout": f"{n}s"}),
)
def test_an_effective_configuration_comes_to_itself(
    plugins: Json, args: Json, percentage: int | None, extender: Json | None
) -> None:
    one: Json = {"plugins": plugins, "pluginConfig": [{"name": name, "args": args[name]} for name in args]}
    config = configuration(
        profiles=[one | ({} if percentage is None else {"percentageOfNodesToScore": percentage})]
    )
    found = come_to(config | ({} if extender is None else {"extenders": [extender]}))
    assert come_to(as_input(found)) == found


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WIRE_NAMES = [
    "profiles", "plugins", "score", "enabled", "weight", "name", "pluginConfig", "args", "extenders",
    "httpTimeout", "parallelism", "leaderElection", "scoringStrategy", "resources", "shape", "addedAffinity",
]  # fmt: skip
shaped = st.recursive(
    json_values | st.sampled_from(sorted(REGISTRY)),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WIRE_NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(value=st.dictionaries(st.sampled_from(WIRE_NAMES), shaped, max_size=4), header=st.booleans())
def test_any_value_is_accepted_or_refused_with_one_error(value: Json, header: bool) -> None:
    with suppress(ConfigurationError):
        come_to((configuration() if header else {}) | value)


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="{}[]:,\"' \n-ab1&*!<", max_size=30) | st.binary(max_size=20))
def test_any_text_is_refused_with_one_error(text: str | bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text if isinstance(text, bytes) else text.encode(), IN_TREE)
    assert caught.value.stage == "load"
