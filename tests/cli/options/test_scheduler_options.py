"""``--config`` and ``--feature-gates`` of the commands that schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.cli import main

CAPACITY = {"cpu": "10", "memory": "100Gi", "pods": "9"}
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACK = """profiles:
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
  plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 1}]}
"""


def objects(scheduler: str = "") -> list[dict[str, Any]]:
    """A small node and a large one, and a pod for the small."""
    resources = [{"cpu": cpu, "memory": "8Gi", "pods": "9"} for cpu in ("2", "8")]
    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}
        for name, amounts in zip(("small", "large"), resources, strict=True)
    ]
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "resources": {"requests": {"cpu": "3"}}, "schedulerName": scheduler}
    return [*nodes, {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}]


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Writes objects and a configuration, and gives the arguments that name them."""

    def write(items: list[dict[str, Any]], config: str = "") -> list[str]:
        (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": items}))
        (tmp_path / "config.yaml").write_text(HEAD + config)
        return ["-f", str(tmp_path / "all.json"), "--config", str(tmp_path / "config.yaml")]

    return write


def placed(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> dict[str, str | None]:
    assert main(["simulate", *arguments, "-o", "json"]) == 0
    return {row["pod"]: row.get("node") for row in json.loads(capsys.readouterr().out)["pods"]}


def without_pod_level(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    del items[-1]["spec"]["resources"]
    return items


def test_a_configuration_decides(capsys: pytest.CaptureFixture[str], files: Any) -> None:
    items = without_pod_level(objects("packer"))
    assert placed(capsys, files(items, PACK)) == {"p": "small"}
    spread = files(items, PACK.replace("MostAllocated", "LeastAllocated"))
    assert placed(capsys, spread) == {"p": "large"}


def test_a_feature_gate_decides(capsys: pytest.CaptureFixture[str], files: Any) -> None:
    arguments = files(objects("packer"), PACK)
    assert placed(capsys, arguments) == {"p": "large"}, "the pod as a whole asks for 3 cores"
    gates = "PodLevelResources=false,InPlacePodLevelResourcesVerticalScaling=false"
    assert placed(capsys, [*arguments, "--feature-gates", gates]) == {"p": "small"}


def test_tolerations_that_compare_numbers_need_their_gate(
    capsys: pytest.CaptureFixture[str], files: Any
) -> None:
    items = without_pod_level(objects("packer"))
    items[-1]["spec"]["tolerations"] = [
        {"key": "sla", "operator": "Gt", "value": "9", "effect": "NoSchedule"}
    ]
    arguments = files(items, PACK)
    assert main(["simulate", *arguments, "-o", "json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert 'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: ' in line
    gates = "TaintTolerationComparisonOperators=true"
    assert placed(capsys, [*arguments, "--feature-gates", gates]) == {"p": "small"}


def test_pods_of_other_schedulers_are_skipped(capsys: pytest.CaptureFixture[str], files: Any) -> None:
    assert placed(capsys, files(objects("somebody"), PACK)) == {"p": ""}


def test_explain_takes_them_too(capsys: pytest.CaptureFixture[str], files: Any) -> None:
    arguments = files(without_pod_level(objects("packer")), PACK)
    assert main(["explain", "p", *arguments, "-o", "json"]) == 0
    text = capsys.readouterr().out
    assert "NodeResourcesFit" in text
    assert "ImageLocality" not in text


@pytest.mark.parametrize(
    ("config", "gates", "error"),
    [
        ("percentageOfNodesToScore: 101\n", "", "percentageOfNodesToScore: Invalid value: 101"),
        ("profiles: 3\n", "", "config.yaml: "),
        ("", "Nonsense=true", "--feature-gates: unrecognized feature gate: Nonsense"),
        (
            "",
            "PodLevelResources=maybe",
            "--feature-gates: PodLevelResources: must be true or false, not 'maybe'",
        ),
        ("", "PodLevelResources", "--feature-gates: PodLevelResources: must be true or false, not ''"),
    ],
)
@pytest.mark.parametrize("command", [["simulate"], ["explain", "p"]])
def test_a_bad_gate_or_configuration_is_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str], files: Any, command: list[str], config: str, gates: str, error: str
) -> None:
    assert main([*command, *files(objects(), config), "--feature-gates", gates]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("error: ")
    assert error in line


def test_a_missing_configuration(capsys: pytest.CaptureFixture[str], files: Any) -> None:
    assert main(["simulate", *files(objects()), "--config", "/nowhere.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: /nowhere.yaml: ")


def test_a_release_has_its_own_plugins_and_ties(
    capsys: pytest.CaptureFixture[str], files: Any, tmp_path: Path
) -> None:
    files([], "")
    config = str(tmp_path / "config.yaml")
    shown = []
    for version in ("1.35", "1.36"):
        assert main(["config", "--effective", config, "--kubernetes-version", version]) == 0
        shown.append("NodeDeclaredFeatures" in capsys.readouterr().out)
    assert shown == [False, True]
    placements = []
    for option in ([], ["--tie-break", "random"], ["--tie-break", "go-heap"]):
        made_up = ["simulate", "--synthetic", "nodes=9,pods=40", "-o", "csv", "--seed", "3"]
        assert main([*made_up, "--kubernetes-version", "1.34", *option]) == 0
        placements.append(capsys.readouterr().out)
    assert placements[0] == placements[1] != placements[2]


def test_a_release_scores_the_balance_in_its_own_way(capsys: pytest.CaptureFixture[str], files: Any) -> None:
    """v1.36 scores how a pod changes the balance of a node, earlier releases the balance with the pod."""

    def running(name: str, node: str, **requests: str) -> dict[str, Any]:
        container = {"name": "c", "resources": {"requests": requests}}
        spec = {"containers": [container]} | ({"nodeName": node} if node else {})
        return {"kind": "Pod", "metadata": {"name": name}, "spec": spec}

    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": CAPACITY}}
        for name in ("even", "skewed")
    ]
    pods = [
        running("a", "even", cpu="5", memory="50Gi"),
        running("b", "skewed", memory="20Gi"),
        running("new", "", cpu="1", memory="1Gi"),
    ]
    balanced = """profiles:
- plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesBalancedAllocation}]}
"""
    arguments = files([*nodes, *pods], balanced)
    chosen = [
        placed(capsys, [*arguments, "--kubernetes-version", one])["new"] for one in ("1.34", "1.35", "1.36")
    ]
    assert chosen == ["even", "even", "skewed"]


def test_feature_gates_can_be_repeated() -> None:
    command = ["simulate", "--synthetic", "nodes=1", "--kubernetes-version", "1.37"]
    first = ["--feature-gates", "TopologyAwareWorkloadScheduling=true"]
    assert main([*command, *first]) == 2  # it needs the other
    assert main([*command, *first, "--feature-gates", "GenericWorkload=True"]) == 0


def test_gates_of_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--synthetic", "nodes=1", "--kubernetes-version"]
    assert main([*command, "1.34", "--feature-gates", "GangScheduling=true"]) == 2
    text = (
        "--feature-gates: unrecognized feature gate: GangScheduling; Kubernetes 1.34 decides here, and "
        "1.37 has it as GenericWorkload"
    )
    assert capsys.readouterr().err == f"error: {text}\n"
    assert main([*command, "1.33"]) == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("apiVersion: v1\nkind: Pod\n", "a Pod of v1"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n",
            "a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1beta1",
        ),
        ("replicas: 3\n", "no kind"),
        ("", "no kind"),
    ],
)
def test_a_file_that_is_no_configuration_is_named_by_its_kind(
    text: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    message = (
        f"error: {file}: {what}; expected a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1\n"
    )
    assert main(["simulate", "--synthetic", "nodes=1,pods=1", "--config", str(file)]) == 2
    assert capsys.readouterr().err == message
    if "KubeSchedulerConfiguration" in text:
        assert main(["compare", "--synthetic", "nodes=1,pods=1", "as-is", str(file)]) == 2
        assert capsys.readouterr().err == message


def test_an_error_within_a_configuration_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    args = "args: {apiVersion: example.com/v1, kind: NodeAffinityArgs}"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{pluginConfig: [{{name: NodeAffinity, {args}}}]}}]\n"
    )
    assert main(["simulate", "--synthetic", "nodes=1,pods=1", "--config", str(file)]) == 2
    assert "decoding args for plugin NodeAffinity: no kind" in capsys.readouterr().err
