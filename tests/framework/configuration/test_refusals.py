"""What kube-scheduler refuses, text by text; and what the decoder takes that looks wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.engine import IN_TREE, build_extenders, build_profiles, load_configuration

from moorage.errors import ConfigurationError
from moorage.kube.releases import dependents_off

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ARGS = "profiles[0].pluginConfig[0].args"


@dataclass(frozen=True)
class Mine:
    """A plugin that is not in tree."""

    extension_points: tuple[str, ...]


REGISTRY: dict[str, Any] = {plugin.name: plugin for plugin in IN_TREE} | {
    "Sorter": Mine(("queueSort",)),
    "Both": Mine(("filter", "score", "postBind")),
    "Generator": Mine(("placementGenerate",)),
    "Generator2": Mine(("placementGenerate",)),
    "PlacementScorer": Mine(("placementScore",)),
}
ROWS = [
    ("load" if part == "whole" else part, ("" if part == "whole" else HEADER) + text, message)
    for part, rows in yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text()).items()
    for text, message in rows
]


def loaded(text: str, **gates: bool) -> Any:
    return load_configuration(text.encode(), IN_TREE, feature_gates=gates)


def refusal(text: str | dict[Any, Any], **gates: bool) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text, **gates) if isinstance(text, str) else load_configuration(text, IN_TREE)
    return caught.value


@pytest.mark.parametrize(("stage", "text", "message"), ROWS)
def test_a_configuration_is_refused_with_upstreams_text(stage: str, text: str, message: str) -> None:
    told = "", ""
    try:
        configuration = loaded(text)
        if stage == "new":
            build_extenders(configuration)
            build_profiles(configuration, REGISTRY)
    except ConfigurationError as error:
        told = error.stage, error.upstream
    assert told == ((stage, message) if message else ("", ""))


def test_texts_of_arguments_behind_gates() -> None:
    shape = "[{utilization: 10}, {utilization: 5, score: 11}, {utilization: 101, score: 1}]"
    text = HEADER + "profiles: [{{pluginConfig: [{{name: {}, args: {{{}}}}}]}}]"
    error = refusal(text.format("VolumeBinding", f"shape: {shape}"), StorageCapacityScoring=True)
    assert error.message == (
        f"[{ARGS}.shape[1].utilization: Invalid value: 5: values must be sorted in increasing order, "
        f"{ARGS}.shape[1].score: Invalid value: 11: not in valid range [0, 10], "
        f"{ARGS}.shape[2].utilization: Invalid value: 101: not in valid range [0, 100]]"
    )
    gates = {"DRASchedulerFilterTimeout": False, "DRAResourceClaimDeviceStatus": False}
    timeouts = text.format("DynamicResources", "filterTimeout: 1s, bindingTimeout: 1s")
    assert refusal(timeouts, **gates, **dependents_off(gates)).message == (
        f"[{ARGS}.filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled, "
        f"{ARGS}.bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
        "feature gate is disabled]"
    )


def test_what_is_no_text_of_a_file() -> None:
    assert "json parse error" in refusal('{"a":' * 200_000).message
    many = refusal(HEADER + "".join(f"x{number}: 1\n" for number in range(150)))
    assert many.message.count("unknown field") == 100
    assert refusal({"parallelism": 1}).message == "Object 'Kind' is missing in '{\"parallelism\":1}'"
    keys = yaml.safe_load(HEADER) | {1: 2, None: 3}
    assert refusal(keys).message == 'strict decoding error: unknown field "1", unknown field "None"'


def test_a_duration_that_is_none_comes_before_all_other_errors() -> None:
    error = refusal(HEADER + "clientConnection: 1\nunknown: 1\nextenders: [{}, {httpTimeout: '3'}]")
    message = 'time: missing unit in duration "3"'
    assert (error.path, error.message) == ("extenders[1].httpTimeout", message)


def test_what_the_decoder_takes() -> None:
    """A whole number of YAML, one document of two, null for nothing, and base64 with line breaks."""
    config = loaded(
        HEADER + "parallelism: null\nextenders: null\n"
        "profiles: [{plugins: null, pluginConfig: [{name: DynamicResources, args: {filterTimeout: null}}]}]"
    )
    assert config.parallelism == 16
    assert config.profiles[0].plugin_config[0].args.filter_timeout == 10 * 10**9
    assert loaded(HEADER + "parallelism: 2.0").parallelism == 2
    assert loaded(HEADER + "parallelism: 3\n---\nparallelism: [\n").parallelism == 3
    (extender,) = loaded(HEADER + 'extenders: [{urlPrefix: x, tlsConfig: {caData: "YW\\nI="}}]').extenders
    assert extender.tls_config.ca_data == b"ab"
