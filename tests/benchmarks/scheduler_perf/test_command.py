"""``python -m bench.scheduler_perf``: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.scheduler_perf import WorkloadReport, run_workload
from bench.scheduler_perf.__main__ import main
from tests.benchmarks.scheduler_perf.make import DATA, nodes, pods, write

FIELDS = {
    "case",
    "workload",
    "status",
    "nodes",
    "init_pods",
    "measured_pods",
    "tie_break",
    "kubernetes_version",
    "unschedulable",
    "seconds",
    "placing_seconds",
    "pods_per_second",
    "ns_per_pod",
    "placing_ns_per_pod",
    "queue_ns_per_pod",
    "threshold",
    "ratio",
    "churn_ticks",
    "preemptors",
    "victims",
    "virtual_seconds",
    "peak_rss_bytes",
}


def test_json_has_a_fixed_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(DATA), "SchedulingWithMixedChurn", "-o", "json"]) == 0
    small, large = json.loads(capsys.readouterr().out)["workloads"]
    assert small.keys() == large.keys() == FIELDS
    assert (large["case"], large["workload"]) == ("SchedulingWithMixedChurn", "1000Nodes")
    assert (large["status"], large["nodes"], large["measured_pods"]) == ("done", 1000, 1000)
    assert (small["churn_ticks"], large["churn_ticks"]) == (0, 2)
    assert large["ns_per_pod"].keys() == {"mean", "p50", "p99"}
    assert large["ns_per_pod"]["mean"] > 0
    assert large["pods_per_second"] > 0
    assert (large["threshold"], large["ratio"]) == (None, None)


def test_the_virtual_rate_says_how_much_happens(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(DATA), "SchedulingWithMixedChurn/1000Nodes", "-o", "json"]
    assert main([*arguments, "--virtual-rate", "100"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["workloads"]
    assert one["churn_ticks"] == 10
    for rate in ("0", "-1", "fast", "1/0"):
        with pytest.raises(SystemExit, match="2"):
            main([*arguments, "--virtual-rate", rate])
        assert f"must be a positive number, not '{rate}'" in capsys.readouterr().err


def test_the_table_has_a_row_per_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(DATA), "SchedulingBasic"]) == 0
    headline, _, heading, row = capsys.readouterr().out.strip().splitlines()
    assert headline == "1 of 1 workload done"
    assert heading.split()[:5] == ["WORKLOAD", "NODES", "INIT", "MEASURED", "PODS/S"]
    cells = row.split()
    assert cells[:4] == ["SchedulingBasic/5Nodes", "5", "5", "10"]
    assert cells[-1] == "done"


def test_an_interrupt_prints_the_workloads_that_have_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = json.loads(Path(write(tmp_path, nodes(1), pods(1, collectMetrics=True))).read_text())[0]
    path = tmp_path / "two.yaml"
    path.write_text(json.dumps([case | {"name": "One"}, case | {"name": "Other"}]))
    ran = list[Any]()

    def run(*arguments: Any, **options: Any) -> WorkloadReport:
        if ran:
            raise KeyboardInterrupt
        ran.append(run_workload(*arguments, **options))
        return ran[0]

    assert main([str(path)], run) == 130
    headline, _, heading, row = capsys.readouterr().out.strip().splitlines()
    assert headline == "1 of 2 workloads done"
    assert (heading.split()[0], row.split()[0]) == ("WORKLOAD", "One/small")


def test_a_threshold_is_shown_with_its_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, nodes(10), pods(100, collectMetrics=True), threshold=1)
    assert main([path]) == 0
    heading, row = capsys.readouterr().out.strip().splitlines()[2:]
    at = heading.index("THRESHOLD")
    assert row[at:].split()[0] == "1"
    assert row[at:].split()[1].endswith("x")


def test_a_failed_workload_is_told_and_the_others_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(write(tmp_path, {"opcode": "startCollectingProfile", "count": 1}))
    bad = json.loads(path.read_text())
    good = json.loads(Path(write(tmp_path, nodes(1), pods(1, collectMetrics=True))).read_text())
    path.write_text(json.dumps([*bad, good[0] | {"name": "Good"}]))
    assert main([str(path), "-o", "json"]) == 0
    reports = json.loads(capsys.readouterr().out)["workloads"]
    assert {one["case"]: one["status"] for one in reports} == {
        "Case": "failed: startCollectingProfile not built yet",
        "Good": "done",
    }


def test_a_workload_whose_cluster_has_no_room_has_not_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label that no node has, as in files of several commits, leaves the devices to nobody."""
    path = Path(write(tmp_path, nodes(1), {"opcode": "allocResourceClaims"}))
    case = json.loads(path.read_text())[0]
    terms = "[{matchExpressions: [{key: gpu, operator: Exists}]}]"
    pool = "{name: p, generation: 1, resourceSliceCount: 1}"
    files = {
        "slice.yaml": f"spec: {{driver: d, pool: {pool}, nodeSelector: {{nodeSelectorTerms: {terms}}}}}",
        "class.yaml": "kind: DeviceClass",
        "claim.yaml": "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: x}}]}}",
    }
    kinds = {"slice.yaml": "ResourceSlice", "class.yaml": "DeviceClass", "claim.yaml": "ResourceClaim"}
    for name, text in files.items():
        head = f"apiVersion: resource.k8s.io/v1\nkind: {kinds[name]}\nmetadata: {{name: x}}\n"
        (tmp_path / name).write_text(head + text.removeprefix("kind: DeviceClass") + "\n")
        case["workloadTemplate"].insert(-1, {"opcode": "createAny", "templatePath": name, "namespace": "n"})
    path.write_text(json.dumps([case]))
    assert main([str(path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["workloads"][0]["status"] == (
        "stuck: no node has the devices of ResourceClaim n/x; 1 of 1 ResourceSlices select no node"
    )
    assert main([str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("0 of 1 workload done, 1 stuck: their clusters have no room\n\n")


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (pods(1, podTemplatePath="gone.yaml"), "gone.yaml: no such file"),
        ({"opcode": "fly"}, "perf.yaml: Case/small: workloadTemplate[0].opcode: unknown: 'fly'"),
    ],
)
def test_bad_input_is_exit_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], op: dict[str, object], message: str
) -> None:
    assert main([write(tmp_path, op)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.replace(f"{tmp_path}/", "") == f"error: {message}\n"


def test_a_file_without_workloads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "perf.yaml"
    path.write_text("[]")
    assert main([str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}: this file has no workload\n"


PREEMPTION = [str(DATA), "PreemptionBasic/5Nodes", "-o", "json"]


def test_the_release_that_decides_is_told_unless_it_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PREEMPTION) == 0
    out, err = capsys.readouterr()
    text = (
        "release: Kubernetes 1.36 decides for 1 workload (the default; --kubernetes-version chooses another)"
    )
    assert (err, json.loads(out)["workloads"][0]["kubernetes_version"]) == (f"{text}\n", "1.36")
    assert main([*PREEMPTION, "--kubernetes-version", "v1.37.2"]) == 0
    out, err = capsys.readouterr()
    assert (err, json.loads(out)["workloads"][0]["kubernetes_version"]) == ("", "1.37")


def test_workloads_with_pod_groups_have_the_first_release_with_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, nodes(1), pods(1), featureGates={"GenericWorkload": True})
    words = [str(file), "-o", "json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["workloads"][0]["kubernetes_version"] == "1.37"
    assert err.startswith("release: Kubernetes 1.37 decides for 1 workload (the first with pod groups; ")
    assert main([*words, "--kubernetes-version", "1.36"]) == 2
    assert "feature gate GenericWorkload=true cannot be set for Kubernetes 1.36" in capsys.readouterr().err


def test_warnings_and_bad_arguments_are_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, nodes(1), pods(1), params={"b": 1})
    assert main([file, "--kubernetes-version", "1.36"]) == 0
    assert capsys.readouterr().err == "warning: Case/small: no operation uses params.b.\n"
    with pytest.raises(SystemExit, match="2"):
        main([file, "--kubernetes-version", "1.2"])
    assert "must be one of 1.34, " in capsys.readouterr().err
