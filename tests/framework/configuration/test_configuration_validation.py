"""Validation: upstream's texts, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.doors.engine import IN_TREE, dependents_off, load_configuration

from moorage.errors import ConfigurationError

Json = dict[str, Any]
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LONG = "a" * 64


def refusal(value: Json, **gates: bool) -> str:
    """The one text with which a configuration is refused; "" if it is not."""
    try:
        load_configuration(HEADER | value, IN_TREE, feature_gates=gates)
    except ConfigurationError as error:
        return error.message if error.stage == "validate" else f"stage {error.stage}"
    return ""


def with_args(plugin: str, args: Json) -> Json:
    return {"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}


def election(**fields: Any) -> Json:
    return {"leaderElection": fields}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"clientConnection": {"burst": -1}},
            "clientConnection.burst: Invalid value: -1: must be non-negative",
        ),
        (
            election(leaseDuration="-1s", renewDeadline="-2s", retryPeriod="-1ms"),
            '[leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero, '
            'leaderElection.renewDeadline: Invalid value: "-2s": must be greater than zero, '
            'leaderElection.retryPeriod: Invalid value: "-1ms": must be greater than zero]',
        ),
        (election(leaseDuration="-1s", resourceLock="x", leaderElect=False), ""),
        (election(leaseDuration="0s"), ""),
        (
            election(leaseDuration="5s", renewDeadline="7s"),
            'leaderElection.leaseDuration: Invalid value: "7s": must be greater than `RenewDeadline`',
        ),
        (
            election(resourceLock="endpoints"),
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        ({"profiles": [{"schedulerName": ""}]}, "profiles[0].schedulerName: Required value"),
        ({"profiles": []}, ""),
        (
            {"profiles": [{}, {}]},
            "[profiles[0].schedulerName: Required value, profiles[1].schedulerName: Required value, "
            "profiles[1].schedulerName: Duplicate value: {}]",
        ),
        (
            {"extenders": [{"prioritizeVerb": "p", "weight": -2}]},
            "extenders[0].weight: Invalid value: -2: must have a positive weight applied to it",
        ),
        ({"extenders": [{"filterVerb": "f", "bindVerb": "b"}]}, ""),
        (
            {"extenders": [{"bindVerb": "b"}, {"filterVerb": "f"}, {"bindVerb": "c"}]},
            'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can '
            "implement bind",
        ),
        (
            {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "EBSLimits"}]}}}]},
            "",
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "GCEPDLimits"}, {"name": "GCEPDLimits"}]}]},
            '[profiles[0].pluginConfig[0]: Invalid value: "GCEPDLimits": was invalid in version "v1" '
            '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1"), '
            'profiles[0].pluginConfig[1]: Duplicate value: "GCEPDLimits", '
            'profiles[0].pluginConfig[1]: Invalid value: "GCEPDLimits": was invalid in version "v1" '
            '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")]',
        ),
    ],
)
def test_the_configuration_itself(value: Json, message: str) -> None:
    assert refusal(value) == message


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["example.com/gpu", "example.com/fpga"], ""),
        (
            ["example.com/gpu", "example.com/gpu"],
            'extenders[0].managedResources[1].name: Invalid value: "example.com/gpu": duplicate extender '
            "managed "
            "resource name",
        ),
        (
            ["kubernetes.io/gpu"],
            'extenders[0].managedResources[0].name: Invalid value: "kubernetes.io/gpu": is an invalid '
            "extended "
            "resource name",
        ),
        (
            ["requests.example.com/gpu"],
            'extenders[0].managedResources[0].name: Invalid value: "requests.example.com/gpu": is an invalid '
            "extended resource name",
        ),
        (
            ["a/" + "b" * 64],
            f'extenders[0].managedResources[0].name: Invalid value: "a/{"b" * 64}": name part must be no '
            "more than "
            "63 bytes",
        ),
        (
            [f"{'a.' * 122}example/b"],
            f'extenders[0].managedResources[0].name: Invalid value: "{"a." * 122}example/b": is an invalid '
            "extended "
            "resource name",
        ),
        (
            [f"-{LONG}"],
            f'[extenders[0].managedResources[0].name: Invalid value: "-{LONG}": name part must be no more '
            "than 63 "
            f'bytes, extenders[0].managedResources[0].name: Invalid value: "-{LONG}": {NAME}]',
        ),
    ],
)
def test_managed_resources_of_an_extender_are_refused_with_upstreams_text(
    names: list[str], message: str
) -> None:
    assert refusal({"extenders": [{"managedResources": [{"name": name} for name in names]}]}) == message


def profiles_sorting(*sorters: list[str] | None, args: list[Any] | None = None) -> Json:
    profiles = []
    for i, names in enumerate(sorters):
        enabled = [{"name": name} for name in names or []]
        one: Json = {"schedulerName": f"s{i}", "plugins": {"queueSort": {"enabled": enabled}}}
        if args is not None and args[i] is not None:
            one["pluginConfig"] = [{"name": (names or [""])[0], "args": args[i]}]
        profiles.append(one)
    return {"profiles": profiles}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (profiles_sorting(None, None), ""),
        (profiles_sorting(["A"], ["A"]), ""),
        (profiles_sorting(["A"], ["A"], args=[{"x": 1}, {"x": 1}]), ""),
        (
            profiles_sorting(["A", "B"], ["A", "B"]),
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be "
            "enabled",
        ),
        (
            profiles_sorting(*[["InterPodAffinity"]] * 2, args=[{}, {"hardPodAffinityWeight": 7}]),
            'profiles[1].pluginConfig.args: Invalid value: {"kind":"InterPodAffinityArgs",'
            '"apiVersion":"kubescheduler.config.k8s.io/v1","hardPodAffinityWeight":7,'
            '"ignorePreferredTermsOfExistingPods":false}: queueSort must be the same for all profiles',
        ),
        (
            profiles_sorting(["A"], ["A"], args=[{"x": 1}, {"x": 2, "y": "<"}]),
            'profiles[1].pluginConfig.args: Invalid value: {"x":2,"y":"\\u003c"}: queueSort must be the '
            "same for all "
            "profiles",
        ),
        (
            profiles_sorting([], [], args=[None, {"b": [{"d": 1, "c": 2}], "a": {}}]),
            'profiles[1].pluginConfig.args: Invalid value: {"a":{},"b":[{"c":2,"d":1}]}: queueSort must be '
            "the same for all profiles",
        ),
        (
            profiles_sorting(["A"], None),
            'profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":null}: must be the '
            "same for "
            "all profiles",
        ),
    ],
)
def test_wrong_queue_sort_plugins_are_refused_with_upstreams_text(value: Json, message: str) -> None:
    assert refusal(value) == message


def test_arguments_in_json_keep_their_order() -> None:
    value = HEADER | profiles_sorting(["A"], ["A"], args=[{"x": 1, "y": 2}, {"y": 2, "x": 1}])
    with pytest.raises(ConfigurationError, match=r'Invalid value: \{"y":2,"x":1\}: '):
        load_configuration(json.dumps(value).encode(), IN_TREE)


ARGS = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": -1, "minCandidateNodesAbsolute": -2},
            f"[{ARGS}.minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100], "
            f"{ARGS}.minCandidateNodesAbsolute: Invalid value: -2: not in valid range [0, inf)]",
        ),
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0}, ""),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            f"[{ARGS}.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
            "minCandidateNodesAbsolute, "
            f"{ARGS}.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as "
            "minCandidateNodesPercentage]",
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": -1},
            f"{ARGS}.hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 3}]},
            f'[{ARGS}.resources[1].name: Duplicate value: "cpu", '
            f"{ARGS}.resources[1].weight: Invalid value: 3: must be 1]",
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "Both"},
            f'{ARGS}.defaultingType: Unsupported value: "Both": supported values: "System", "List"',
        ),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"},
                    {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"},
                    {"maxSkew": -1, "topologyKey": "-", "whenUnsatisfiable": "Maybe"},
                    {"maxSkew": 1},
                ],
            },
            f'[{ARGS}.defaultConstraints[1]: Duplicate value: "{{a, DoNotSchedule}}", '
            f"{ARGS}.defaultConstraints[2].maxSkew: Invalid value: -1: not in valid range (0, inf), "
            f'{ARGS}.defaultConstraints[2].topologyKey: Invalid value: "-": {NAME}, '
            f'{ARGS}.defaultConstraints[2].whenUnsatisfiable: Unsupported value: "Maybe": supported values: '
            '"DoNotSchedule", "ScheduleAnyway", '
            f"{ARGS}.defaultConstraints[3].topologyKey: Required value: can not be empty, "
            f"{ARGS}.defaultConstraints[3].whenUnsatisfiable: Required value: can not be empty]",
        ),
        (
            "PodTopologySpread",
            {
                "defaultConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "a",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {},
                    },
                ],
                "defaultingType": "System",
            },
            f'[{ARGS}.defaultingType: Invalid value: "System": when .defaultConstraints are not empty, '
            f"{ARGS}.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, "
            "as they deduced for each pod]",
        ),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1},
            f"{ARGS}.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a "
            "negative value",
        ),
        (
            "VolumeBinding",
            {"shape": []},
            f"{ARGS}.shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature "
            "gate "
            "StorageCapacityScoring",
        ),
        (
            "DynamicResources",
            {"filterTimeout": "-1s", "bindingTimeout": "999ms"},
            f'[{ARGS}.filterTimeout: Invalid value: "-1s": must be zero or positive, '
            f'{ARGS}.bindingTimeout: Invalid value: "999ms": must be at least 1 second]',
        ),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Nothing"}}, ""),
    ],
)
def test_wrong_arguments_of_a_plugin_are_refused_with_upstreams_text(
    plugin: str, args: Json, message: str
) -> None:
    assert refusal(with_args(plugin, args)) == message


def test_arguments_behind_gates() -> None:
    shape = [
        {"utilization": 10, "score": 0},
        {"utilization": 5, "score": 11},
        {"utilization": 101, "score": 1},
    ]
    assert refusal(with_args("VolumeBinding", {"shape": shape}), StorageCapacityScoring=True) == (
        f"[{ARGS}.shape[1].utilization: Invalid value: 5: values must be sorted in increasing order, "
        f"{ARGS}.shape[1].score: Invalid value: 11: not in valid range [0, 10], "
        f"{ARGS}.shape[2].utilization: Invalid value: 101: not in valid range [0, 100]]"
    )
    timeouts = {"filterTimeout": "1s", "bindingTimeout": "1s"}
    gates = {"DRASchedulerFilterTimeout": False, "DRAResourceClaimDeviceStatus": False}
    assert refusal(with_args("DynamicResources", timeouts), **gates, **dependents_off(gates)) == (
        f"[{ARGS}.filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled, "
        f"{ARGS}.bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
        "feature "
        "gate is disabled]"
    )


REQUIRED = f"{ARGS}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"


@pytest.mark.parametrize(
    ("term", "errors"),
    [
        ({}, []),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, []),
        (
            {"matchExpressions": [{"key": "-", "operator": "Near"}]},
            [
                'matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", '
                '"Exists", "DoesNotExist", "Gt", "Lt"'
            ],
        ),
        (
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In"},
                    {"key": "b", "operator": "NotIn", "values": []},
                ]
            },
            [
                "matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values set "
                "can't be "
                "empty",
                "matchExpressions[1].values: Invalid value: []: for 'in', 'notin' operators, values set "
                "can't be "
                "empty",
            ],
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x", "<"]}]},
            [
                'matchExpressions[0].values: Invalid value: ["x","\\u003c"]: values set must be empty for '
                "exists and "
                "does not exist",
                f'matchExpressions[0].values[1][a]: Invalid value: "<": {VALUE}',
            ],
        ),
        (
            {"matchExpressions": [{"key": "-", "operator": "Lt", "values": ["-1", "x y"]}]},
            [
                f'matchExpressions[0].key: Invalid value: "-": {NAME}',
                "matchExpressions[0].values: Invalid value: [\"-1\",\"x y\"]: for 'Gt', 'Lt' operators, "
                "exactly one "
                "value is required",
                "matchExpressions[0].values[1]: Invalid value: \"x y\": for 'Gt', 'Lt' operators, the "
                "value must be "
                "an integer",
                f'matchExpressions[0].values[0][-]: Invalid value: "-1": {VALUE}',
                f'matchExpressions[0].values[1][-]: Invalid value: "x y": {VALUE}',
            ],
        ),
        (
            {
                "matchFields": [
                    {"key": "metadata.name", "operator": "In"},
                    {"key": "other", "operator": "NotIn", "values": ["a", "b"]},
                    {"key": "metadata.name", "operator": "Exists"},
                ]
            },
            [
                "matchFields[0].values: Invalid value: null: must have one element",
                'matchFields[1].values: Invalid value: ["a","b"]: must have one element',
                'matchFields[2].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
            ],
        ),
    ],
)
def test_wrong_terms_of_an_added_affinity_are_refused_with_upstreams_text(
    term: Json, errors: list[str]
) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    texts = [f"{REQUIRED}.{error}" for error in errors]
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    assert refusal(with_args("NodeAffinity", {"addedAffinity": required})) == message
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    for weight, expected in ((0, ""), (1, message.replace(REQUIRED, f"{ARGS}.addedAffinity.{name}[0]"))):
        preferred = {name: [{"weight": weight, "preference": term}]}
        assert refusal(with_args("NodeAffinity", {"addedAffinity": preferred})) == expected
