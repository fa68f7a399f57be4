"""Decoding: the texts of the strict decoder, for YAML, JSON and nested arguments."""

from __future__ import annotations

import pytest
from tests.doors.engine import IN_TREE, load_configuration

from moorage.errors import ConfigurationError

YAML = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
JSON = '{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration",'
SCHEME = 'in scheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:29"'
STRUCT = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)


def refusal(text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text.encode(), IN_TREE)
    assert caught.value.stage == "load"
    return caught.value


def args(plugin: str, value: str) -> str:
    return YAML + f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {value}}}]}}]"


def nested(plugin: str, error: str) -> str:
    return f"decoding .profiles[0].pluginConfig[0]: decoding args for plugin {plugin}: {error}"


@pytest.mark.parametrize(
    ("text", "value", "field", "type_"),
    [
        ("parallelism: '8'", "string", "KubeSchedulerConfiguration.parallelism", "int32"),
        ("parallelism: 1.5", "number 1.5", "KubeSchedulerConfiguration.parallelism", "int32"),
        ("parallelism: 1.5e-9", "number 1.5e-9", "KubeSchedulerConfiguration.parallelism", "int32"),
        ("parallelism: 0.00001", "number 0.00001", "KubeSchedulerConfiguration.parallelism", "int32"),
        ("parallelism: 1e30", "number 1e+30", "KubeSchedulerConfiguration.parallelism", "int32"),
        ("parallelism: [1]", "array", "KubeSchedulerConfiguration.parallelism", "int32"),
        ("parallelism: yes", "bool", "KubeSchedulerConfiguration.parallelism", "int32"),
        (
            "podMaxBackoffSeconds: 9223372036854775808",
            "number 9223372036854775808",
            "KubeSchedulerConfiguration.podMaxBackoffSeconds",
            "int64",
        ),
        (
            "enableProfiling: 1",
            "number",
            "KubeSchedulerConfiguration.DebuggingConfiguration.enableProfiling",
            "bool",
        ),
        ("profiles: {}", "object", "KubeSchedulerConfiguration.profiles", "[]v1.KubeSchedulerProfile"),
        ("profiles: [a]", "string", "KubeSchedulerConfiguration.profiles", "v1.KubeSchedulerProfile"),
        ("profiles: [{schedulerName: 5}]", "number", "KubeSchedulerProfile.profiles.schedulerName", "string"),
        (
            "profiles: [{plugins: {score: {enabled: [NodeName]}}}]",
            "string",
            "PluginSet.profiles.plugins.score.enabled",
            "v1.Plugin",
        ),
        (
            "clientConnection: 1",
            "number",
            "KubeSchedulerConfiguration.clientConnection",
            "v1alpha1.ClientConnectionConfiguration",
        ),
        (
            "clientConnection: {qps: fast}",
            "string",
            "ClientConnectionConfiguration.clientConnection.qps",
            "float32",
        ),
        (
            "clientConnection: {qps: 1e60}",
            "number 1e+60",
            "ClientConnectionConfiguration.clientConnection.qps",
            "float32",
        ),
        (
            "extenders: [{tlsConfig: {caData: 1}}]",
            "number",
            "ExtenderTLSConfig.extenders.tlsConfig.caData",
            "[]uint8",
        ),
        ("extenders: [{httpTimeout: 3}]", "number", "Extender.extenders.httpTimeout", "string"),
        (
            "leaderElection: {retryPeriod: 3}",
            "number",
            "LeaderElectionConfiguration.leaderElection.retryPeriod",
            "string",
        ),
    ],
)
def test_a_value_of_the_wrong_type(text: str, value: str, field: str, type_: str) -> None:
    error = refusal(YAML + text)
    assert error.message == f"json: cannot unmarshal {value} into Go struct field {field} of type {type_}"


def test_the_first_wrong_value_counts_in_the_order_of_the_names() -> None:
    error = refusal(YAML + "podMaxBackoffSeconds: b\nparallelism: a\nextenders: 1\nunknown: 1")
    assert "KubeSchedulerConfiguration.extenders of type []v1.Extender" in error.message
    error = refusal(JSON + '"podMaxBackoffSeconds":"b","extenders":1}')
    assert "KubeSchedulerConfiguration.podMaxBackoffSeconds" in error.message


@pytest.mark.parametrize(
    ("number", "text"), [("2.0", "2.0"), ("1e1", "1e1"), ("3000000000", "3000000000"), ("1.50", "1.50")]
)
def test_a_number_of_json_is_an_integer_only_if_it_is_written_as_one(number: str, text: str) -> None:
    where = "Go struct field KubeSchedulerConfiguration.parallelism of type int32"
    error = refusal(f'{JSON}"parallelism":{number}}}')
    assert error.message == f"json: cannot unmarshal number {text} into {where}"


def test_a_whole_number_of_yaml_is_an_integer() -> None:
    assert load_configuration((YAML + "parallelism: 2.0").encode(), IN_TREE).parallelism == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nparalelism: 2", 'unknown field "a", unknown field "paralelism"'),
        ("b: 1\na: 1", 'unknown field "a", unknown field "b"'),
        ("Parallelism: 1", 'unknown field "Parallelism"'),
        (
            "profiles: [{plugins: {score: {enable: []}}, x: 1}, {z: 2}]",
            'unknown field "profiles[0].plugins.score.enable", unknown field "profiles[0].x", '
            'unknown field "profiles[1].z"',
        ),
        (
            "parallelism: 1\nx: 2\nparallelism: 3\nleaderElection:\n  leaderElect: true\n  leaderElect: "
            "false",
            'yaml: unmarshal errors:\n  line 5: key "parallelism" already set in map\n'
            '  line 8: key "leaderElect" already set in map, unknown field "x"',
        ),
        (
            "leaderElection:\n  leaderElect: true\nleaderElection:\n  leaderElect: true",
            'yaml: unmarshal errors:\n  line 6: key "leaderElection" already set in map',
        ),
    ],
)
def test_unknown_and_duplicate_fields(text: str, message: str) -> None:
    assert refusal(YAML + text).message == f"strict decoding error: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"a":1,"parallelism":1,"a":2}', 'unknown field "a"'),
        ('"parallelism":1,"x":0,"parallelism":2}', 'unknown field "x", duplicate field "parallelism"'),
        (
            '"profiles":[{"schedulerName":"a","schedulerName":"b"}]}',
            'duplicate field "profiles[0].schedulerName"',
        ),
    ],
)
def test_duplicate_fields_of_json(text: str, message: str) -> None:
    assert refusal(JSON + text).message == f"strict decoding error: {message}"


def test_at_most_a_hundred_strict_errors() -> None:
    error = refusal(YAML + "".join(f"x{number}: 1\n" for number in range(150)))
    assert error.message.count("unknown field") == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Object 'Kind' is missing in ''"),
        ("# nothing\n", "Object 'Kind' is missing in '# nothing\n'"),
        ("---\n# nothing\n---\n" + YAML, f"Object 'Kind' is missing in '---\n# nothing\n---\n{YAML}'"),
        (
            "kind: KubeSchedulerConfiguration",
            "Object 'apiVersion' is missing in 'kind: KubeSchedulerConfiguration'",
        ),
        ("kind: Pod\napiVersion: v1", f'no kind "Pod" is registered for version "v1" {SCHEME}'),
        ("kind: A\napiVersion: b/c/d", "unexpected GroupVersion string: b/c/d"),
        (
            YAML.replace("/v1", "/v2"),
            'no kind "KubeSchedulerConfiguration" is registered for version '
            f'"kubescheduler.config.k8s.io/v2" {SCHEME}',
        ),
        (
            "words",
            "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go "
            "value of type " + STRUCT,
        ),
        (
            "[1]",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value "
            "of type " + STRUCT,
        ),
        (
            "kind: 1\napiVersion: []",
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            "array into "
            "Go struct field .apiVersion of type string",
        ),
        (
            "kind: VolumeBindingArgs\napiVersion: kubescheduler.config.k8s.io/v1",
            "couldn't decode as "
            "KubeSchedulerConfiguration, got kubescheduler.config.k8s.io/v1, Kind=VolumeBindingArgs: ",
        ),
        (
            "kind: VolumeBindingArgs\napiVersion: kubescheduler.config.k8s.io/v1\nx: 1",
            'strict decoding error: unknown field "x"',
        ),
        (
            "KIND: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1",
            'strict decoding error: unknown field "KIND"',
        ),
        (
            '{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration","Kind":null}',
            'strict decoding error: unknown field "Kind"',
        ),
        (
            "{kind: a}",
            "couldn't get version/kind; json parse error: invalid character 'k' looking for "
            "beginning of "
            "object key string",
        ),
        ('{"a":1', "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        ('{"a" 1}', "couldn't get version/kind; json parse error: invalid character '1' after object key"),
        (
            '{"a":NaN}',
            "couldn't get version/kind; json parse error: invalid character 'N' looking for "
            "beginning of "
            "value",
        ),
        ("{} {}", "couldn't get version/kind; json parse error: invalid character '{' after top-level value"),
    ],
)
def test_what_is_no_configuration(text: str, message: str) -> None:
    assert refusal(text).message == message


def test_deep_json_is_refused() -> None:
    assert "json parse error" in refusal('{"a":' * 200_000).message


def test_a_value_without_a_kind_is_shown_as_json() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration({"parallelism": 1}, IN_TREE)
    assert caught.value.message == "Object 'Kind' is missing in '{\"parallelism\":1}'"


def test_keys_of_a_value_that_are_no_strings() -> None:
    value = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        1: 2,
        None: 3,
    }
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(value, IN_TREE)  # type: ignore[arg-type]
    assert caught.value.message == 'strict decoding error: unknown field "1", unknown field "None"'


def test_a_second_document_is_ignored() -> None:
    text = YAML + "parallelism: 3\n---\nparallelism: [\n"
    assert load_configuration(text.encode(), IN_TREE).parallelism == 3


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (
            "leaderElection: {leaseDuration: soon}",
            "leaderElection.leaseDuration",
            'time: invalid duration "soon"',
        ),
        (
            "leaderElection: {leaseDuration: null}",
            "leaderElection.leaseDuration",
            'time: invalid duration ""',
        ),
        (
            "extenders: [{}, {httpTimeout: '3'}]",
            "extenders[1].httpTimeout",
            'time: missing unit in duration "3"',
        ),
    ],
)
def test_a_duration_that_is_none_comes_before_all_other_errors(text: str, field: str, message: str) -> None:
    error = refusal(YAML + "clientConnection: 1\nunknown: 1\n" + text)
    assert (error.path, error.message) == (field, message)


def test_null_is_nothing() -> None:
    value = "{name: DynamicResources, args: {filterTimeout: null}}, {name: NodeResourcesFit, args: null}"
    config = load_configuration(
        (
            YAML
            + f"parallelism: null\nextenders: null\nprofiles: [{{plugins: null, pluginConfig: [{value}]}}]"
        ).encode(),
        IN_TREE,
    )
    assert config.parallelism == 16
    assert config.profiles is not None
    assert config.profiles[0].plugin_config is not None
    assert config.profiles[0].plugin_config[0].args.filter_timeout == 10 * 10**9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            args("InterPodAffinity", "{hardPodAffinityWeight: a}"),
            nested(
                "InterPodAffinity",
                "json: cannot unmarshal string into Go struct field "
                "InterPodAffinityArgs.hardPodAffinityWeight "
                "of type int32",
            ),
        ),
        (
            args("NodeAffinity", "{apiVersion: example.com/v1}"),
            nested(
                "NodeAffinity",
                f'no kind "NodeAffinityArgs" is registered for version "example.com/v1" {SCHEME}',
            ),
        ),
        (
            args("NodeAffinity", "{apiVersion: example.com/}"),
            nested("NodeAffinity", "Object 'apiVersion' is missing in '{\"apiVersion\":\"example.com/\"}'"),
        ),
        (
            args("NodeAffinity", "5"),
            nested(
                "NodeAffinity",
                "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go value "
                "of type "
                f"{STRUCT}",
            ),
        ),
        (
            args("NodeAffinity", "{kind: InterPodAffinityArgs, x: 1}"),
            "decoding .profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type "
            "NodeAffinityArgs.kubescheduler.config.k8s.io, got "
            "InterPodAffinityArgs.kubescheduler.config.k8s.io",
        ),
        (
            args("DynamicResources", "{bindingTimeout: soon}"),
            nested("DynamicResources", 'time: invalid duration "soon"'),
        ),
        (
            args("PodTopologySpread", "{defaultConstraints: [{labelSelector: {matchLabels: {a: 1}}}]}"),
            nested(
                "PodTopologySpread",
                "json: cannot unmarshal number into Go struct field "
                "LabelSelector.defaultConstraints.labelSelector.matchLabels of type string",
            ),
        ),
    ],
)
def test_arguments_that_cannot_be_read(text: str, message: str) -> None:
    assert refusal(text).message == message


def test_strict_errors_of_arguments_are_gathered() -> None:
    error = refusal(
        YAML
        + "x: 1\n"
        + "profiles:\n- pluginConfig:\n  - {name: VolumeBinding, args: {a: 1, b: 2}}\n"
        + "  - {name: Other, args: {a: 1}}\n  - {name: NodeAffinity, args: {c: 1}}"
    )
    assert error.message == (
        'strict decoding error: unknown field "x", decoding .profiles[0].pluginConfig[0]: strict decoding '
        "error: "
        'decoding args for plugin VolumeBinding: strict decoding error: unknown field "a", unknown field '
        '"b", '
        "decoding .profiles[0].pluginConfig[2]: strict decoding error: decoding args for plugin "
        "NodeAffinity: "
        'strict decoding error: unknown field "c"'
    )


def test_bytes_are_read_from_base64_with_line_breaks() -> None:
    config = load_configuration(
        (YAML + 'extenders: [{urlPrefix: x, tlsConfig: {caData: "YW\\nI="}}]').encode(), IN_TREE
    )
    assert config.extenders is not None
    assert config.extenders[0].tls_config is not None
    assert config.extenders[0].tls_config.ca_data == b"ab"
    error = refusal(YAML + "extenders: [{tlsConfig: {caData: 'YW*='}}]")
    assert error.message == "illegal base64 data at input byte 2"
