"""Workloads at work: what is decided, when things happen, and what fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from bench.scheduler_perf import Workload, read_workloads, run_workload
from bench.scheduler_perf.measure import Meter
from bench.scheduler_perf.report import row
from tests.benchmarks.scheduler_perf.make import (
    DATA,
    POD,
    nodes,
    placements,
    pods,
    run_of,
    run_ops,
    timer,
    workload,
)
from tests.core.make import replica
from tests.doors.engine import schedule_one

from moorage import Scheduler
from moorage.errors import InputError
from moorage.kube import Cluster, Namespace, Node, ResourceClaim

EXCERPT = {one.full_name: one for one in read_workloads(str(DATA))}


@pytest.mark.parametrize("one", EXCERPT.values(), ids=EXCERPT)
def test_the_excerpt_runs(one: Workload) -> None:
    report = run_workload(one, timer=timer())
    assert report.status == "done"
    expected = {"fast_DRAExtendedResourceEnabled": 10}.get(one.name, report.measured_pods)
    assert report.measured_pods == expected > 0


@pytest.mark.parametrize("name", EXCERPT)
def test_decisions_are_those_of_one_pod_after_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batched = run_of(EXCERPT[name])
    monkeypatch.setattr(Meter, "batch_limit", lambda meter: 1)
    single = run_of(EXCERPT[name])
    assert placements(batched) == placements(single)
    assert batched.clock.exact == single.clock.exact
    assert batched.scheduler.placer.decider.start == single.scheduler.placer.decider.start


def test_the_configuration_and_the_gates_reach_the_scheduler() -> None:
    run = run_of(EXCERPT["HostPortConflict/10Nodes_10Pods_10BatchSize"])
    (plugin,) = (one for one in run.scheduler.profile.plugins if one.name == "PodTopologySpread")
    assert plugin.args["defaultingType"] == "List"


def test_a_gate_changes_what_counts(tmp_path: Path) -> None:
    files = {"sized.yaml": POD.replace("spec:", "spec:\n  resources: {requests: {cpu: '1'}}")}
    ops = nodes(1), pods(1, podTemplatePath="sized.yaml")
    for gates, cpu in (({}, 1000), ({"PodLevelResources": False}, 100)):
        run = run_ops(tmp_path, *ops, files=files, featureGates=gates)
        assert run.scheduler.table.requested["cpu"].sum() == cpu


@pytest.mark.parametrize("tie_break", ["first", "go-heap"])
def test_ties_are_broken_as_asked(tie_break: str) -> None:
    run = run_of(EXCERPT["SchedulingBasic/5Nodes"], tie_break=tie_break)
    made = sorted(run.scheduler.client.list(Node)[0], key=lambda node: int(node.metadata.resource_version))
    twin = Scheduler(
        Cluster(nodes=made, namespaces=run.scheduler.client.list(Namespace)[0]), tie_break=tie_break
    )
    expected = {}
    for one in run.operations.runs:
        for number in range(len(one)):
            pod = replica(one.template, one.first + number)
            expected[pod.key] = schedule_one(twin.context, pod).node
    assert placements(run) == expected


DRIVER = {"opcode": "createResourceDriver", "driverName": "d", "nodes": "*", "maxClaimsPerNode": 2}
CLASS = "kind: DeviceClass\nmetadata: {name: gpu}"
REQUESTS = "devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}"
CLAIM = f"kind: ResourceClaim\nmetadata: {{name: 'c-{{{{.Index}}}}'}}\nspec: {{{REQUESTS}}}"
TEMPLATE = f"kind: ResourceClaimTemplate\nmetadata: {{name: t}}\nspec: {{spec: {{{REQUESTS}}}}}"
CLAIMS_POD = POD.replace("spec:", "spec:\n  resourceClaims: [{name: a, resourceClaimTemplateName: t}]")


def test_pods_with_claims_of_templates_use_what_is_left(tmp_path: Path) -> None:
    """Of four devices one has a claim without a pod."""
    files = {"class.yaml": CLASS, "claim.yaml": CLAIM, "t.yaml": TEMPLATE, "pod.yaml": CLAIMS_POD}
    ops = [
        *(nodes(2), DRIVER, {"opcode": "createAny", "templatePath": "class.yaml"}),
        {"opcode": "createAny", "templatePath": "claim.yaml", "namespace": "n", "count": 1},
        {"opcode": "allocResourceClaims", "namespace": "n"},
        {"opcode": "createAny", "templatePath": "t.yaml", "namespace": "n"},
    ]
    for count, status in ((3, "done"), (4, "stuck: ")):
        asking = pods(count, podTemplatePath="pod.yaml", namespace="n")
        report = run_workload(workload(tmp_path, *ops, asking, files=files), timer=timer())
        assert report.status.startswith(status)
        assert report.unschedulable == count - 3


MANY = 64


def test_many_equal_pods_with_extended_resources_get_claims_of_their_own(tmp_path: Path) -> None:
    served = CLASS + "\nspec: {extendedResourceName: e.com/gpu}"
    asking = POD.replace("requests: {cpu: 100m, memory: 500Mi}", "limits: {e.com/gpu: 1}")
    run = run_ops(
        tmp_path,
        *(nodes(2), DRIVER | {"maxClaimsPerNode": MANY}),
        {"opcode": "createAny", "templatePath": "class.yaml"},
        pods(MANY + 1, namespace="n"),
        files={"class.yaml": served, "pod.yaml": asking},
        case={"featureGates": {"DynamicResourceAllocation": True, "DRAExtendedResource": True}},
    )
    claims = run.scheduler.client.list(ResourceClaim)[0]
    users = {f"n/{one.status.reserved_for[0].name}" for one in claims}
    assert users == placements(run).keys()
    assert len(users) == len(claims) == MANY + 1


def conditions(pods: int = 2) -> list[dict[str, Any]]:
    """Operations on pods whose devices are reported to be attached, or to have failed."""
    return [
        *(nodes(1), DRIVER, {"opcode": "createAny", "templatePath": "class.yaml"}),
        {"opcode": "createAny", "templatePath": "t.yaml", "namespace": "n"},
        {
            "opcode": "createPods",
            "count": pods,
            "podTemplatePath": "pod.yaml",
            "namespace": "n",
            "steadyState": True,
            "collectMetrics": True,
        },
        {
            "opcode": "updateDeviceConditions",
            "namespace": "n",
            "durationParam": "$time",
            "ConditionTypeParam": "$type",
            "ConditionStatusParam": "$status",
        },
        {"opcode": "checkPodScheduled", "namespace": "n", "ScheduledParam": "$node", "duration": "30s"},
    ]


GATE = {"DRADeviceBindingConditions": True}


@pytest.mark.parametrize("condition", ["DeviceAttached", "AttachmentFailed"])
@pytest.mark.parametrize("expected", [True, False])
def test_pods_are_bound_once_their_devices_are_attached(
    tmp_path: Path, condition: str, expected: bool
) -> None:
    files = {"class.yaml": CLASS, "t.yaml": TEMPLATE, "pod.yaml": CLAIMS_POD}
    params = {"time": "30s", "type": condition, "status": "True", "node": expected}
    ops = conditions()
    one = workload(tmp_path, *ops, files=files, params=params, featureGates=GATE)
    status = run_workload(one, timer=timer()).status
    if (condition == "DeviceAttached") == expected:
        assert status == "done"
    else:
        assert re.fullmatch(r"failed: pod pod-\d (has no|has a) node after 30 s", status)


def test_conditions_of_claims_that_are_never_allocated(tmp_path: Path) -> None:
    """Without the gate in the workload the devices have no conditions; of three pods two have devices."""
    files = {"class.yaml": CLASS, "t.yaml": TEMPLATE, "pod.yaml": CLAIMS_POD}
    params = {"time": "10s", "type": "DeviceAttached", "status": "True", "node": True}
    for count, gates in ((1, {}), (3, GATE)):
        ops = conditions(count)
        one = workload(tmp_path, *ops, files=files, params=params, featureGates=gates)
        assert run_workload(one, timer=timer()).status.startswith("failed: no devices in claim n/pod-")


def test_conditions_without_a_type_or_a_claim(tmp_path: Path) -> None:
    op = {"opcode": "updateDeviceConditions", "namespace": "n", "duration": "2s"}
    with pytest.raises(InputError, match="conditionTypeParam"):
        workload(tmp_path, nodes(1), op)
    ready = workload(tmp_path, nodes(1), op | {"conditionType": "A", "conditionStatus": "True"})
    assert run_workload(ready, timer=timer()).status == "failed: no claims in namespace n after 2 s"


@pytest.mark.parametrize(
    ("ops", "files", "status"),
    [
        ([{"opcode": "startCollectingProfile"}], {}, "startCollectingProfile not built yet"),
        (
            [{"opcode": "createAny", "templatePath": "x.yaml"}],
            {"x.yaml": "kind: Lease\nmetadata: {name: a}"},
            "objects of kind Lease not built yet",
        ),
        (
            [nodes(1), pods(1, podTemplatePath="x.yaml")],
            {"x.yaml": POD.replace("spec:", "spec:\n  schedulerName: mine")},
            "no profile of the name mine",
        ),
    ],
)
def test_what_is_not_built_fails_its_workload(
    tmp_path: Path, ops: list[dict[str, Any]], files: dict[str, str], status: str
) -> None:
    report = run_workload(workload(tmp_path, *ops, files=files), timer=timer())
    assert report.status.startswith("failed: ")
    assert status in report.status
    assert report.failed


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ([{"opcode": "stopCollectingMetrics"}], "workloadTemplate[0]: opcode: no startCollectingMetrics"),
        (
            [{"opcode": "startCollectingMetrics", "namespaces": ["a"]}, pods(1, collectMetrics=True)],
            "workloadTemplate[1]: collectMetrics: metrics are being collected already",
        ),
    ],
)
def test_operations_in_the_wrong_order(tmp_path: Path, ops: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError) as refused:
        run_ops(tmp_path, *ops)
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path}/perf.yaml: Case/small: ")


NEAR = """\
kind: Pod
metadata: {generateName: near-}
spec:
  containers: [{name: c}]
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {seek: me}}}
"""
SOUGHT = "kind: Pod\nmetadata: {generateName: sought-, labels: {seek: me}}\nspec: {containers: [{name: c}]}\n"
LARGE = """\
kind: Node
metadata: {generateName: node-}
status: {capacity: {pods: "15", cpu: "100000", memory: 100000Gi}}
"""


def test_what_rests_on_chance_is_tried_with_chance(tmp_path: Path) -> None:
    """Of equal nodes the first gets all eight that are sought, and has no room for those that seek them."""
    files = {"near.yaml": NEAR, "sought.yaml": SOUGHT, "node.yaml": LARGE}
    ops = [
        nodes(2, nodeTemplatePath="node.yaml"),
        pods(8, podTemplatePath="sought.yaml", namespace="one"),
        pods(8, podTemplatePath="near.yaml", namespace="one", collectMetrics=True),
    ]
    one = workload(tmp_path, *ops, files=files)
    first = run_workload(one, timer=timer(), tie_break="first")
    assert first.status.startswith("stuck: timed out after 600 s: 1 pods fit nowhere")
    report = run_workload(one, timer=timer())
    assert (report.status, report.tie_break, report.measured_pods) == ("done", "random", 8)
    assert row(report)[-1] == "done (ties random)"


def test_a_bad_scheduler_configuration(tmp_path: Path) -> None:
    files = {"config.yaml": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Nothing\n"}
    one = workload(tmp_path, nodes(1), case={"schedulerConfigPath": "config.yaml"}, files=files)
    with pytest.raises(InputError, match=r"config.yaml: .*Nothing"):
        run_workload(one)
