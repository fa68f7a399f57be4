"""``moorage check``: when the gate passes, what it counts, and what it prints."""

from __future__ import annotations

import html
import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from moorage import Scheduler
from moorage.cli import main
from moorage.objects import Deployment, Node, Pod, ReplicaSet, load
from tests.cli.test_simulate import FULL, SHORT, node, pod
from tests.doors.kube import plain
from tests.house.source import ROOT

ROOM = [node("a", "z1"), node("b", "z2"), pod("old", nodeName="a")]


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Writes objects to a file and gives the arguments that name it."""

    def write(*items: dict[str, Any], name: str = "dump") -> list[str]:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"kind": "List", "items": items}))
        return ["-f", str(path)]

    return write


def check(*arguments: str) -> int:
    return main(["check", *arguments])


def findings(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[Any]]:
    """The exit code, and problem, number of pods and whether they count, of each finding."""
    capsys.readouterr()
    code = check(*arguments, "-o", "json")
    made = json.loads(capsys.readouterr().out)
    assert made["passed"] == (code == 0)
    assert made["failed"] == sum(one["pods"] for one in made["findings"] if one["counts"])
    return code, [(one["status"], one["pods"], one["counts"]) for one in made["findings"]]


def test_it_passes_where_every_pod_has_a_node(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(*file(*ROOM, pod("p1"), pod("p2"))) == 0
    assert capsys.readouterr().out == "PASS: 2 pods have found a node\n\n"
    assert check(*file(*ROOM)) == 0
    assert capsys.readouterr() == ("PASS: every pod that should run has a node\n\n", "")


def test_static_pods_go_with_their_node(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    static = pod("static", nodeName="a")
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "1"}
    assert findings(capsys, *file(*ROOM[:2], static), "--remove-nodes", "a") == (0, [])


def test_without_pods_it_says_that_nothing_was_checked(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(*file(*ROOM[:2])) == 0
    out, err = capsys.readouterr()
    warning = "The input has no pod that should run, so nothing was checked"
    assert out == "PASS: no pod was checked\n\n"
    assert err.startswith(f"warning: {warning}; ")
    assert check(*file(*ROOM[:2]), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["warnings"][0].startswith(warning)


def test_it_fails_with_pods_and_reasons(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = file(*ROOM, *map(pod, ("p1", "p2", "p3", "p4")))
    assert check(*arguments) == 1
    assert capsys.readouterr().out == (
        f"FAIL: 1 pod has no node\nwhy: moorage explain pod/default/p4 {shlex.join(arguments)}\n\n"
        "NAMESPACE  WORKLOAD  WITH NODE  PODS  PROBLEM        COUNTS              REASON\n"
        f"default    pod/p4    0/1        1     unschedulable  yes, waited before  {SHORT}\n\n"
    )


def test_a_pod_of_another_scheduler_has_no_node(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = file(*ROOM, pod("p1"), pod("p2", schedulerName="volcano"))
    assert findings(capsys, *arguments) == (1, [("other-scheduler", 1, True)])
    assert findings(capsys, *arguments, "--allow", "other-scheduler") == (0, [("other-scheduler", 1, False)])
    assert check(*arguments) == 1
    warning = "1 pod asks for the scheduler volcano, which is not one of the profiles (default-scheduler)"
    hint = "add a profile with --config, or let check pass with --allow other-scheduler"
    assert capsys.readouterr().err == f"warning: {warning}; {hint}.\n"


def test_a_configuration_without_the_profile_fails(
    file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(head + "profiles: [{schedulerName: mine}]\n")
    arguments = [*file(*ROOM, pod("p1")), "--config", str(config)]
    assert findings(capsys, *arguments) == (1, [("other-scheduler", 1, True)])
    assert main(["simulate", *arguments]) == 0
    assert "1 pod asks for the scheduler default-scheduler, which" in capsys.readouterr().err


def test_a_gated_pod_has_no_node(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = file(*ROOM, pod("p1", schedulingGates=[{"name": "example.com/wait"}]))
    assert findings(capsys, *arguments) == (1, [("gated", 1, True)])
    assert findings(capsys, *arguments, "--allow", "evicted,gated") == (0, [("gated", 1, False)])
    check(*arguments, "-o", "csv")
    assert "waiting for scheduling gates: [example.com/wait]" in capsys.readouterr().out


def test_an_evicted_pod_counts_whoever_is_new(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}], "priority": 9}
    dump = file(node("a", "z1"), pod("low", nodeName="a"))
    change = file(pod("high") | {"spec": spec}, name="change")
    assert findings(capsys, *dump, *change, "--new-only") == (1, [("evicted", 1, True)])
    assert findings(capsys, *dump, *change, "--allow", "evicted") == (0, [("evicted", 1, False)])
    assert check(*dump, *change, "-o", "name") == 1
    assert capsys.readouterr().out == "pod/low\n"


def test_pods_that_waited_before(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gates = [{"name": "wait"}]
    dump = file(*ROOM, pod("waits", schedulingGates=gates))
    new = file(pod("fits"), name="change")
    assert findings(capsys, *dump, *new) == (1, [("gated", 1, True)])
    assert findings(capsys, *dump, *new, "--new-only") == (0, [("gated", 1, False)])
    check(*dump, "--new-only")
    assert capsys.readouterr().out.startswith("PASS: every pod that counts has a node\nnot counted: 1\n")
    gated = file(pod("new", schedulingGates=gates), name="change")
    assert findings(capsys, *dump, *gated, "--new-only") == (1, [("gated", 1, True), ("gated", 1, False)])
    check(*dump, *gated, "--new-only")
    out = capsys.readouterr().out
    assert out.startswith("FAIL: 1 pod has no node\nnot counted: 1\n")
    assert "no, waited before" in out


def test_a_pod_that_is_being_deleted_should_not_run(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    going = pod("going", schedulingGates=[{"name": "wait"}])
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert findings(capsys, *file(*ROOM, going)) == (0, [])


def test_a_pod_that_is_being_deleted_is_not_evicted(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*file(*ROOM), "--remove-nodes", "a"]
    assert findings(capsys, *arguments) == (1, [("evicted", 1, True)])
    going = pod("old", nodeName="a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert findings(capsys, *file(*ROOM[:2], going), "--remove-nodes", "a") == (0, [])


def test_a_budget_with_an_unknown_policy_is_refused(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"minAvailable": 1, "unhealthyPodEvictionPolicy": "Always"}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep"},
        "spec": spec,
    }
    assert check(*file(*ROOM, budget)) == 2
    where = "dump.json: PodDisruptionBudget keep: spec.unhealthyPodEvictionPolicy: "
    assert where in capsys.readouterr().err


def test_a_workload_is_one_finding(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"replicas": 5, "selector": {"matchLabels": labels}, "template": template}
    web = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    assert check(*file(*ROOM), *file(web, name="web")) == 1
    row = capsys.readouterr().out.splitlines()[5]
    assert row.split()[:6] == ["default", "deployment/web", "3/5", "2", "unschedulable", "yes"]
    assert row.endswith(SHORT)
    assert check(*file(*ROOM), *file(web, name="web"), "-o", "wide") == 1
    head, row = capsys.readouterr().out.splitlines()[4:6]
    assert "NAMES" in head
    assert row.count("web-") == 2
    assert row.endswith(FULL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--allow", "everything"],
            "must be some of gated, other-scheduler, skipped-kind, evicted, not 'everything'",
        ),
        (["-o", "png"], "Invalid value for '-o' / '--output'"),
        (["--synthetic", "nodes=1"], "--synthetic cannot be combined with -f or --kubeconfig"),
        (["-f", "/nowhere.yaml"], "/nowhere.yaml: no such file"),
        (["--require-all"], "No such option"),
    ],
)
def test_bad_input_is_exit_2(
    arguments: list[str], message: str, file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*file(*ROOM), *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_the_cluster_may_come_from_standard_input(
    file: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = pod("waits", schedulingGates=[{"name": "wait"}])
    text = json.dumps({"kind": "List", "items": [*ROOM, waits]})
    change = file(pod("new"), name="change")
    for options, code in (([], 1), (["--new-only"], 0)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert check("-f", "-", *change, *options) == code
    assert "no, waited before" in capsys.readouterr().out


def test_a_pod_that_the_change_scales_up_is_new(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    webs = [
        {
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": n, "selector": {"matchLabels": labels}, "template": template},
        }
        for n in (4, 5)
    ]
    dump, change = file(*ROOM, webs[0]), file(webs[1], name="change")
    assert findings(capsys, *dump, *change, "--new-only") == (
        1,
        [("unschedulable", 1, True), ("unschedulable", 1, False)],
    )


def test_a_refused_pod_has_no_node(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"hard": {"pods": "1"}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": spec}
    assert check(*file(node("a", "z1"), quota, pod("p1"), pod("p2"))) == 1
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "pod/p2 " in line]
    assert 'refused  yes     pods "p2" is forbidden: exceeded quota: q' in row


def test_pods_that_a_change_asks_for_and_the_server_refuses(
    file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, spec = {"app": "web"}, {"hard": {"pods": "1"}}
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    wanted = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    web = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": wanted}
    arguments = file(node("a", "z1"), quota, web)
    assert check(*arguments) == 0
    assert check(*arguments, "--scale", "deploy/web=2") == 1
    out = capsys.readouterr().out
    assert "deployment/web  1/2        1     refused  yes " in out
    assert "is forbidden: exceeded quota: q" in out


def test_a_workload_that_is_not_simulated_and_has_not_changed_is_not_new(
    file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meta, spec = (
        {"name": "db", "namespace": "default"},
        {"instances": 3, "resources": {"requests": {"cpu": 1}}},
    )
    database = {"apiVersion": "example.com/v1", "kind": "Database", "metadata": meta, "spec": spec}
    before = file(*ROOM, database)
    change = tmp_path / "change.json"
    for name, changed, code in (("db", spec, 0), ("db", spec | {"resources": {}}, 1), ("other", spec, 1)):
        document = database | {"metadata": meta | {"name": name}, "spec": changed}
        change.write_text(json.dumps(document))
        assert check(*before, "-f", str(change), "--new-only", "-o", "json") == code
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert [one["counts"] for one in findings].count(True) == code
    assert check(*before, "--upgrade-from", "1.35", "--new-only") == 0


def test_what_is_left_out_stands_in_json(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """With all warnings, so that a gate that reads JSON sees them."""
    assert check(*file(*ROOM), "-f", "tests/data/left_out.yaml", "-o", "json") == 1
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    (left_out,) = document["leftOut"]
    named = {"group": "example.com", "kind": "Database", "namespace": "shop", "name": "orders"}
    why = "but moorage does not know whether Database.example.com makes pods"
    assert left_out == named | {"replicas": 3, "why": why}
    assert [f"warning: {text}" for text in document["warnings"]] == printed.err.splitlines()
    assert any("CronJob shop/nightly" in text for text in document["warnings"])
    assert check(*file(*ROOM), "-f", "tests/data/left_out.yaml", "--allow", "skipped-kind") == 0


def test_an_input_without_a_node_is_bad(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(*file(pod("p"))) == 2
    assert "The input has no node, so no pod can have one" in capsys.readouterr().err
    assert main(["simulate", *file(pod("p"))]) == 0
    assert "warning: The input has no node." in capsys.readouterr().err


TRACES = ROOT / "tests/data/traces"


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("nasa.swf", "swf"),
        ("falco.log", "audit"),
        ("aks_wrapped.log", "audit"),
        ("bare-pods.sktrace", "simkube"),
        ("cluster_job_log", "philly"),
        ("cluster_machine_list", "philly"),
        ("../simkube/trace.json", "simkube"),
        ("../openb/nodes.csv", "openb"),
    ],
)
def test_the_command_that_reads_a_trace_is_named(
    name: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["-f", str(TRACES / "dump.json")]):
        assert check(*more, "-f", str(TRACES / name)) == 2
        assert capsys.readouterr().err.endswith(f"; moorage replay --format {form} reads it\n")


def test_what_is_no_trace_is_told_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text('{"kind": "Pod"')
    assert check("-f", str(tmp_path / "x.json")) == 2
    assert "replay" not in capsys.readouterr().err


def test_events_alone_are_a_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("-f", str(TRACES / "events.json")) == 2
    assert (
        "to replay events as a trace, use moorage replay --format kubectl-events" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("command", "files"), [("check", ["x.yaml"]), ("simulate", ["-f", "a.yaml", "x.yaml"])]
)
def test_a_file_without_its_option_is_told(
    command: str, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *files]) == 2
    hint = "each file is given by an -f of its own"
    assert capsys.readouterr().err == f"error: Got unexpected extra argument (x.yaml); {hint}\n"
    assert main(["version", "x.yaml"]) == 2
    assert "-f" not in capsys.readouterr().err


def web(image: str, cpu: str = "1", replicas: int = 4) -> dict[str, Any]:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu, "memory": "1"}}}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "uid": "web"},
        "spec": spec,
    }


def running(*objects: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """The objects of a cluster after a run, as an API server has them: pods are ready."""
    path = folder / "start.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))
    scheduler = Scheduler(load(path))
    scheduler.run()
    found = []
    for kind in (Node, Pod, Deployment, ReplicaSet):
        for one in scheduler.client.list(kind)[0]:
            document = {"apiVersion": one.api_version, "kind": one.kind} | plain(one)
            if kind is Pod:
                ready = {"type": "Ready", "status": "True"}
                document["status"] = {"phase": "Running", "conditions": [ready]}
            found.append(document)
    return found


def removed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[Any]]:
    """The lines below the verdict, and what JSON has of them."""
    capsys.readouterr()
    check(*arguments)
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()[1:]
    check(*arguments, "-o", "json")
    told = [line for line in lines if not line.startswith(("why: ", "changes: ", "rests on: "))]
    return told, json.loads(capsys.readouterr().out)["removed"]


def test_a_rollout_is_told(file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = file(*running(*ROOM[:2], web("a:1"), folder=tmp_path))
    whole = "deployment/web in namespace default: a rollout places 4 and removes 4 pods ("
    lines, (made,) = removed(capsys, *dump, *file(web("a:2"), name="web"))
    assert len(lines) == 1
    assert lines[0].startswith(whole)
    assert (made["workload"], len(made["names"]), made["placed"]) == ("deployment/web", 4, 4)
    assert (made["rollout"], made["complete"]) == (True, True)
    lines, (made,) = removed(capsys, *dump, *file(web("a:2", "9"), name="web"))
    assert lines[0].startswith(
        "deployment/web in namespace default: a rollout places none and removes 1 pod (web-"
    )
    assert lines[0].endswith("; it is not complete: of 4 pods 2 updated, 3 available, 2 without a node")
    assert (made["rollout"], made["complete"]) == (True, False)
    assert main(["explain", "deploy/web", *dump, *file(web("a:3"), name="web")]) == 0
    assert capsys.readouterr().out.startswith("deployment/web in namespace default: 4 pods; one of them is")


def test_a_rollout_that_has_removed_no_pod_is_told(
    file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = file(*running(*ROOM[:2], web("a:1", replicas=1), folder=tmp_path))
    lines, _ = removed(capsys, *dump, *file(web("a:2", "9", replicas=1), name="web"))
    numbers = "of 1 pods 1 updated, 1 available, 1 without a node"
    told = f"a rollout places and removes no pod; it is not complete: {numbers}"
    assert lines == [f"deployment/web in namespace default: {told}"]


@pytest.mark.parametrize("scaled", [True, False])
def test_pods_that_a_change_removes_are_named(
    scaled: bool, file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = running(*ROOM[:2], web("a:1"), folder=tmp_path)
    names = {one["metadata"]["name"] for one in items if one["kind"] == "Pod"}
    dump = file(*items)
    change = ["--scale", "deploy/web=1"] if scaled else file(web("a:1", replicas=1), name="web")
    (line,), (made,) = removed(capsys, *dump, *change)
    assert line == f"deployment/web in namespace default: 3 pods removed ({', '.join(made['names'])})"
    assert names > set(made["names"])
    assert (made["rollout"], made["complete"]) == (False, True)


def test_what_is_no_rollout_is_not_told(
    file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = file(*running(*ROOM[:2], web("a:1"), folder=tmp_path))
    for change in (["--drain", "a"], ["--scale", "deploy/web=9"], file(web("a:1", replicas=9), name="web")):
        assert removed(capsys, *dump, *change) == ([], [])


def test_wide_names_the_pods_that_have_found_a_node(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(*file(*ROOM, pod("p1")), "-o", "wide") == 0
    assert capsys.readouterr().out.splitlines() == [
        *("PASS: 1 pod has found a node", ""),
        "NAMESPACE  WORKLOAD  POD  NODE",
        *("default    pod/p1    p1   b", ""),
    ]


OWNED = {
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    ]
}


def owned(name: str, on: str) -> dict[str, Any]:
    made = pod(name, nodeName=on)
    made["metadata"] |= OWNED
    return made


def test_a_loss_that_leaves_pods_out_fails_the_gate(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    room = [node("a", "z1"), node("b", "z2"), owned("p", "a")]
    assert check(*file(*room), "--survive", "node") == 0
    out = capsys.readouterr().out
    assert out == (
        "PASS: every pod that should run has a node\n"
        "PASS: every pod finds a place after the loss of any node\ntried: each of 2 alone\n\n"
    )
    full = [*room, *(owned(f"p{at}", "b") for at in range(2))]
    assert check(*file(*full), "--survive", "zone") == 1
    out = capsys.readouterr().out
    assert out.startswith(
        "FAIL: 2 losses leave pods without a place\ntried: each of 2 alone\n"
        "before any loss: every pod that should run has a node\nwhy: moorage explain --all-pending -f "
    )
    row = "z2    1      2     1         default    replicaset/web  1      yes     0/1"
    assert row in out
    assert check(*file(*full), "--survive", "node", "-o", "csv") == 1
    first, *rows = capsys.readouterr().out.splitlines()
    assert first == "node,nodes,pods,no_place,namespace,workload,of_it,counts,reason"
    assert len(rows) == 2
    assert check(*file(*full), "--survive", "node", "-o", "json") == 1
    made = json.loads(capsys.readouterr().out)
    assert (made["passed"], made["failed"], made["survival"]["survived"]) == (False, 0, False)


def test_nothing_passes_where_pods_wait_though_no_loss_leaves_one_out(
    file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    room = [node("a", "z1"), node("b", "z2"), owned("p", "a")]
    big = pod("big")
    big["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "99"
    assert check(*file(*room, big), "--survive", "node") == 1
    out = capsys.readouterr().out
    assert out.startswith(
        "FAIL: 1 pod has no node\nlosses: every pod finds a place after the loss of any node\n"
    )
    assert "PASS" not in out


def test_a_rollout_that_waits_says_what_it_has_placed(
    file: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = file(*running(*ROOM[:2], web("a:1", replicas=2), folder=tmp_path))
    lines, (made,) = removed(capsys, *dump, *file(web("a:2", replicas=4), name="web"), "--cordon", "a")
    assert lines[0].startswith(
        "deployment/web in namespace default: a rollout places 1 and removes no pods; it"
    )
    assert (made["placed"], made["names"], made["complete"]) == (1, [], False)


def test_a_pod_that_a_restart_evicts_fails_the_gate(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    high = {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": "h"},
        "value": 9,
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"] | {"priorityClassName": "h"}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"}, "spec": spec}
    items = [high, node("a", "z1"), pod("p", nodeName="a"), pod("q", nodeName="a"), daemons]
    assert check(*file(*items), "--restart-all", "-o", "wide") == 1
    assert "--restart-all took it from node a" in capsys.readouterr().out


def test_pairs_are_lost_until_the_time_is_over(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    room = [node("a", "z1"), node("b", "z2"), node("c", "z3"), owned("p", "a"), owned("q", "b")]
    assert check(*file(*room), "--survive", "node", "--at-once", "2") == 0
    assert "tried: each of 3 alone, and 3 of 3 sets of 2\n" in capsys.readouterr().out
    assert check(*file(*room), "--survive", "node", "--at-once", "2", "--time-limit", "0") == 0
    assert "and 0 of 3 sets of 2: all among the 1 fullest\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--survive", "rack"], 'error: --survive: no node has the label "rack"\n'),
        (
            ["--survive", "node", "--at-once", "3"],
            "error: --at-once: must be from 1 to 2, the number of nodes, not 3\n",
        ),
        (
            ["--survive", "node", "--time-limit", "nan"],
            "error: Invalid value for '--time-limit': must be a number of at least 0, not 'nan'.\n",
        ),
        (["--survive", "node", "-o", "name"], "error: --survive does not write -o name\n"),
        (["--at-once", "2"], "error: --at-once needs --survive\n"),
    ],
)
def test_bad_options_of_losses_are_one_line(
    file: Any, options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(*file(*ROOM), *options) == 2
    assert capsys.readouterr().err == text


def test_a_junit_report_has_failures_and_skipped_cases(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gated = pod("gated", schedulingGates=[{"name": "wait"}])
    pods = [pod("p1"), pod("p2"), pod("p3"), pod("p<4"), gated]
    pods[3]["metadata"]["name"] = "p4"
    assert check(*file(*ROOM, *pods), "--allow", "gated", "-o", "junit") == 1
    suite = ElementTree.fromstring(
        capsys.readouterr().out.removeprefix('<?xml version="1.0" encoding="UTF-8"?>')
    )[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    assert [(case.get("name"), case[0].tag) for case in suite] == [
        ("default/pod/p4", "failure"),
        ("default/pod/gated", "skipped"),
    ]
    message = str(suite[0][0].get("message"))
    assert message.startswith(f"1 pod unschedulable: {FULL} why: moorage explain pod/default/p4 -f ")
    assert check(*file(*ROOM), "-o", "junit") == 0
    suite = ElementTree.fromstring(
        capsys.readouterr().out.removeprefix('<?xml version="1.0" encoding="UTF-8"?>')
    )[0]
    assert (suite.get("tests"), suite.get("failures"), len(suite[0])) == ("1", "0", 0)


def test_annotations_of_github_are_errors_and_warnings(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [pod("p1"), pod("p2"), pod("p3"), pod("p4"), pod("gated", schedulingGates=[{"name": "wait"}])]
    arguments = file(*ROOM, *pods)
    assert check(*arguments, "--allow", "gated", "-o", "github") == 1
    command = f"moorage explain pod/default/p4 {shlex.join(arguments)}"
    assert capsys.readouterr().out == (
        f"::error title=default/pod/p4::1 pod unschedulable: {FULL} why: {command}\n"
        "::warning title=default/pod/gated::1 pod gated: waiting for scheduling gates: [wait]\n"
    )
    full = [node("a", "z1"), node("b", "z2"), *(owned(f"p{at}", "b") for at in range(2)), owned("q", "a")]
    assert check(*file(*full), "--survive", "zone", "-o", "github") == 1
    out = capsys.readouterr().out
    assert out.startswith("::error title=loss of zone z1::1 pod finds no place: default/")
    assert check(*file(*ROOM), "-o", "github") == 0
    assert capsys.readouterr().out == "::notice title=moorage check::every pod has a node\n"


def test_a_configuration_in_place_of_a_cluster_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    assert main(["check", "-f", str(tmp_path / "config.yaml")]) == 2
    err = capsys.readouterr().err
    assert err.endswith("lists nodes; a KubeSchedulerConfiguration is given with --config\n")


def test_an_admission_plugin_that_is_off_by_default(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = "nvidia.com/gpu"
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "9", gpu: "1"}
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    node["spec"] = {"taints": [{"key": gpu, "effect": "NoSchedule"}]}
    spec = {"containers": [{"name": "c", "resources": {"limits": {gpu: 1}}}]}
    arguments = file(node, {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert check(*arguments) == 1
    assert check(*arguments, "--admission", "ExtendedResourceToleration") == 0
    capsys.readouterr()
    assert check(*arguments, "--admission", "NodeRestriction") == 2
    assert "must be some of ExtendedResourceToleration, not 'NodeRestriction'" in capsys.readouterr().err


# ---- the command that says why -----------------------------------------------------------------------------

SHOP = "-f", "examples/shop/cluster.yaml"
RELEASE = *SHOP, "-f", "examples/shop/release.yaml"


def why(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The command that a failed check names; it is run, and explains why a pod has no node."""
    assert main(["check", *words]) == 1
    (command,) = re.findall(r"why: `?(moorage [^`\"\n]*)", capsys.readouterr().out)
    unescaped = html.unescape(command)
    assert main(shlex.split(unescaped)[1:]) == 1
    assert "nodes are available" in capsys.readouterr().out
    return unescaped


@pytest.mark.parametrize("form", ["table", "wide", "markdown", "github", "junit"])
def test_a_failure_names_the_command_that_says_why(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    named = why(*RELEASE, "--new-only", "-o", form, capsys=capsys)
    assert named == f"moorage explain deployment/shop/web {' '.join(RELEASE)}"


def test_that_command_has_all_that_the_state_depends_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    before = *RELEASE, "--ignore-siblings", "--kubernetes-version", "1.35", "--seed"
    after = "--cordon", "pool=old", "--label", "new-a", "x=y", "--restart-all", "--pod-times", "1", "2", "3"
    named = why(*before, "1", *after, "--seed", "2", "-q", "--allow", "gated", capsys=capsys)
    assert shlex.split(named)[3:] == [*before, "2", *after]


def test_after_a_loss_that_command_removes_the_nodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    named = why(*SHOP, "--scale", "deploy/shop/web=8", "--survive", "zone", capsys=capsys)
    assert named.startswith("moorage explain --all-pending -f ")
    assert re.search(r" --remove-nodes \S*zone=[abc]$", named)


def test_without_a_failure_no_command_is_named(capsys: pytest.CaptureFixture[str], file: Any) -> None:
    assert check(*file(*ROOM, pod("p1"))) == 0
    assert "why:" not in capsys.readouterr().out
