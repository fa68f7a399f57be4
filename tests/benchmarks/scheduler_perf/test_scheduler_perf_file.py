"""Reading scheduler_perf files: parameters, gates, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.scheduler_perf import read_workloads, run_workload
from bench.scheduler_perf.ops import CreateNodes, CreatePods, CreatePodSets, Sleep
from tests.benchmarks.scheduler_perf.make import DATA, nodes, pods, workload, write

from moorage.errors import InputError


def refusal(directory: Path, *ops: dict[str, Any], only: str = "", **settings: Any) -> str:
    path = write(directory, *ops, **settings)
    with pytest.raises(InputError) as refused:
        read_workloads(path, only)
    text = str(refused.value)
    assert "\n" not in text
    return text.replace(f"{directory}/", "")


def test_the_excerpt_is_read() -> None:
    workloads = read_workloads(str(DATA))
    assert len({one.case for one in workloads}) == 15
    basic = workloads[0]
    assert basic.full_name == "SchedulingBasic/5Nodes"
    assert basic.ops[0] == CreateNodes(opcode="createNodes", count=5, count_param="$initNodes")
    assert basic.path(basic.pod_template).resolve() == DATA.parents[1] / "templates/pod-default.yaml"
    assert basic.feature_gates == {"OpportunisticBatching": False, "SchedulerAsyncAPICalls": False}
    assert basic.threshold is None
    assert not any(one.failure for one in workloads)


def test_a_case_or_a_workload_can_be_chosen() -> None:
    found = read_workloads(str(DATA), "SchedulingWithMixedChurn")
    assert [one.name for one in found] == ["10Nodes", "1000Nodes"]
    (chosen,) = read_workloads(str(DATA), "SchedulingWithMixedChurn/1000Nodes")
    assert chosen.name == "1000Nodes"
    for only in ("Nothing", "SchedulingBasic/Nothing"):
        with pytest.raises(InputError, match=f"there is no case or workload {only}$"):
            read_workloads(str(DATA), only)


def test_parameters_are_filled_in(tmp_path: Path) -> None:
    inner = {"opcode": "createPods", "countParam": "$n", "templateParams": {"a": "$word", "b": "plain"}}
    one = workload(
        tmp_path,
        {"opcode": "createNodes", "countParam": "$n"},
        pods(2, countMultiplierParam="$n", steadyStateParam="$steady", durationParam="$for"),
        {"opcode": "createPodSets", "count": 2, "namespacePrefix": "x", "createPodsOp": inner},
        {"opcode": "createPods", "countParam": "$n", "countMultiplierParam": "$n"},
        {"opcode": "sleep", "durationParam": "$for"},
        params={"n": 3, "word": "w", "for": "1m30s", "steady": True},
    )
    created, multiplied, sets, squared, sleeping = one.ops
    assert isinstance(created, CreateNodes)
    assert created.count == 3
    assert isinstance(multiplied, CreatePods)
    assert (multiplied.count, multiplied.steady_state, multiplied.duration) == (6, True, "1m30s")
    assert isinstance(sets, CreatePodSets)
    assert sets.create_pods_op.count == 3
    assert sets.create_pods_op.template_params == {"a": "w", "b": "plain"}
    assert isinstance(squared, CreatePods)
    assert squared.count == 9
    assert isinstance(sleeping, Sleep)
    assert sleeping.duration == "1m30s"


def test_the_workloads_gates_go_before_the_cases(tmp_path: Path) -> None:
    case = {"featureGates": {"SchedulerAsyncAPICalls": True, "StorageCapacityScoring": True}}
    gates = {"SchedulerAsyncAPICalls": False, "OpportunisticBatching": True, "SchedulerQueueingHints": False}
    assert workload(tmp_path, case=case, featureGates=gates).feature_gates == {
        "SchedulerAsyncAPICalls": False,
        "StorageCapacityScoring": True,
        "OpportunisticBatching": True,
    }


def test_gates_that_need_one_that_is_off_are_off(tmp_path: Path) -> None:
    """Unless they are set."""
    gates = workload(tmp_path, featureGates={"PodLevelResources": False}).feature_gates
    assert gates.keys() == {
        *("OpportunisticBatching", "PodLevelResources"),
        "InPlacePodLevelResourcesVerticalScaling",
    }
    assert not any(gates.values())
    text = "perf.yaml: Case/small: featureGates: CompositePodGroup is enabled, but depends on"
    trees = {"GenericWorkload": True, "CompositePodGroup": True, "TopologyAwareWorkloadScheduling": False}
    assert refusal(tmp_path, featureGates=trees).startswith(text)


def test_gates_of_the_alpha_of_pod_groups_are_refused(tmp_path: Path) -> None:
    text = "perf.yaml: Case/small: featureGates: feature gate GangScheduling=true cannot be set for"
    assert refusal(tmp_path, featureGates={"GangScheduling": True}).startswith(text)


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0, None), (680, 680.0), ({"SchedulingThroughput": 7.5, "Other": 1}, 7.5), ({"Other": 1}, None)],
)
def test_the_threshold_of_a_workload_is_read(tmp_path: Path, threshold: Any, expected: float | None) -> None:
    assert workload(tmp_path, threshold=threshold).threshold == expected


@pytest.mark.parametrize(
    ("of_case", "of_workload", "expected"),
    [
        ("x_seconds", None, None),
        ("x_seconds", "SchedulingThroughput", 5),
        ("SchedulingThroughput", "x_seconds", None),
    ],
)
def test_a_threshold_of_another_metric_is_no_rate(
    tmp_path: Path, of_case: str, of_workload: str | None, expected: float | None
) -> None:
    text = f"""
- name: C
  defaultThresholdMetricSelector: {{name: {of_case}, dataBucket: Perc99, expectLower: true}}
  workloadTemplate: [{{opcode: createNodes, count: 1}}]
  workloads:
  - name: w
    threshold: 5
"""
    if of_workload:
        text += f"    thresholdMetricSelector: {{name: {of_workload}, dataBucket: Average}}\n"
    path = tmp_path / "perf.yaml"
    path.write_text(text)
    (one,) = read_workloads(str(path))
    assert one.threshold == expected


def test_keys_may_differ_in_case_as_in_go(tmp_path: Path) -> None:
    assert workload(tmp_path, {"OpCode": "sleep", "opcode": "sleep", "Duration": "1s"}).ops[0] == Sleep(
        opcode="sleep", duration="1s"
    )


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ({"opcode": "fly"}, "workloadTemplate[0].opcode: unknown: 'fly'"),
        ({}, "workloadTemplate[0].opcode: unknown: None"),
        (nodes(1, color="red"), "workloadTemplate[0]: object contains unknown field color"),
        (nodes(-1), "workloadTemplate[0].count: expected integer >= 0"),
        ({"opcode": "createNodes", "countParam": "n"}, "[0].countParam: 'n' is not the name of a parameter"),
        (pods(1, countMultiplierParam="$text"), "[0].countMultiplierParam: 'x' is not an integer"),
        ({"opcode": "createNodes", "countParam": "$text"}, "[0].count: expected integer, got string"),
        (
            pods(1, collectMetrics=True, skipWaitToCompletion=True),
            "[0].collectMetrics: cannot be combined with skipWaitToCompletion",
        ),
        (
            pods(1, steadyState=True, skipWaitToCompletion=True),
            "[0].steadyState: cannot be combined with skipWaitToCompletion",
        ),
        (pods(1, duration="1 hour"), "[0].duration: time: unknown unit"),
        ({"opcode": "sleep"}, "[0].duration: required"),
        ({"opcode": "sleep", "duration": "soon"}, "[0].duration: time: invalid duration"),
        ({"opcode": "churn", "mode": "recreate", "templatePaths": ["pod.yaml"]}, "[0].number: must be at"),
        ({"opcode": "churn", "mode": "x", "templatePaths": ["pod.yaml"]}, "[0].mode: invalid enum value 'x'"),
        ({"opcode": "churn", "mode": "create", "templatePaths": []}, "[0].templatePaths: expected list of"),
        ({"opcode": "createAny"}, "[0]: object missing required field templatePath"),
        ({"opcode": "startCollectingMetrics", "namespaces": []}, "[0].namespaces: expected list of length"),
        (
            nodes(1, uniqueNodeLabelStrategy={"labelKey": "a"}, nodeAllocatableStrategy={}),
            "[0].nodeAllocatableStrategy: at most one strategy",
        ),
    ],
)
def test_operations_that_are_wrong(tmp_path: Path, op: dict[str, Any], message: str) -> None:
    used = pods(1, templateParams={"text": "$text"})
    text = refusal(tmp_path, op, used, params={"text": "x"})
    assert text.startswith("perf.yaml: Case/small: workloadTemplate[0]")
    assert message in text


@pytest.mark.parametrize(
    ("op", "where"),
    [
        ({"opcode": "createNodes", "countParam": "$m"}, "countParam"),
        (pods(1, templateParams={"a": "$m"}), "templateParams"),
        (
            {"opcode": "createPodSets", "namespacePrefix": "x", "createPodsOp": pods(1, countParam="$m")},
            "createPodsOp.countParam",
        ),
    ],
)
def test_a_workload_that_lacks_a_parameter_fails_and_others_run(
    tmp_path: Path, op: dict[str, Any], where: str
) -> None:
    """As upstream, where parameters are filled in when the workload runs."""
    workloads = [{"name": "lacks", "params": {"other": 1}}, {"name": "has", "params": {"m": 1}}]
    file = write(tmp_path, op, case={"workloads": workloads})
    lacks, has = read_workloads(file)
    text = f"workloadTemplate[0].{where}: the workload has no parameter m"
    assert (lacks.failure, lacks.warnings, has.failure) == (text, (), "")
    assert run_workload(lacks).status == f"failed: {text}"


def test_parameters_that_no_operation_uses_are_told(tmp_path: Path) -> None:
    one = workload(tmp_path, nodes(1), params={"b": 1, "a": 2})
    assert one.warnings == tuple(f"Case/small: no operation uses params.{name}." for name in "ab")
    # What an operation that is not built names counts.
    unbuilt = {"opcode": "createResourceClaims", "a": [{"b": "$b"}], "c": "$a"}
    one = workload(tmp_path, nodes(1), unbuilt, params={"b": 1, "a": 2})
    assert (one.failure, one.warnings) == ("createResourceClaims not built yet", ())


def test_parameters_may_be_lists_and_have_defaults(tmp_path: Path) -> None:
    """As in v1.37: a default is a text, of which there may be none."""
    constraints = [{"matchAttribute": "a/b"}]
    given = {"list": "$list", "more": "$more|2", "none": "$none|", "set": "$set|3"}
    one = workload(tmp_path, pods(1, templateParams=given), params={"list": constraints, "set": 4})
    (op,) = one.ops
    assert op.template_params == {"list": constraints, "more": "2", "none": "", "set": 4}  # type: ignore[attr-defined]


def test_files_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "perf.yaml"
    for text, message in {
        "": "not a list of test cases",
        "a: 1": "not a list of test cases",
        "[1]": "case 1: expected map, got integer",
        "- name: X": "case X: object missing required field workloadTemplate",
        "- {name: X, workloads: [], workloadTemplate: [], speed: 1}": "case X: object contains unknown field",
        "- {name: X, name: Y}": 'duplicate field "[0].name"',
        "a\0": "invalid YAML",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError, match=message.replace("[", r"\[")) as refused:
            read_workloads(str(path))
        assert str(refused.value).startswith(str(path))
    path.write_bytes(b"\xff\xff")
    with pytest.raises(InputError, match="not a text file"):
        read_workloads(str(path))


def test_gates_and_templates_are_looked_at_before_anything_runs(tmp_path: Path) -> None:
    assert refusal(tmp_path, featureGates={"Nope": True}) == (
        "perf.yaml: Case/small: featureGates: unrecognized feature gate: Nope"
    )
    assert refusal(tmp_path, pods(1, podTemplatePath="gone.yaml")) == "gone.yaml: no such file"
    broken = {"broken.yaml": "\n{{nope}}"}
    churn = {"opcode": "churn", "mode": "create", "templatePaths": ["pod.yaml", "broken.yaml"]}
    assert refusal(tmp_path, churn, files=broken) == 'broken.yaml:2: function "nope" not defined'
    inner = {"opcode": "createPodSets", "namespacePrefix": "x", "createPodsOp": pods(1, podTemplatePath="g")}
    assert refusal(tmp_path, inner) == "g: no such file"
    # A workload that cannot run anyway is reported as failed instead.
    unbuilt = {"opcode": "startCollectingProfile"}
    assert (
        workload(tmp_path, unbuilt, featureGates={"Nope": True}).failure
        == "startCollectingProfile not built yet"
    )
