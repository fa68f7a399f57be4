"""Loaders of records of clusters."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import moorage as mo
from moorage import Timeline
from moorage.errors import InputError
from tests.house.source import ROOT
from tests.make import written

from .test_traces import happened

SIMKUBE = ROOT / "tests/data/simkube/trace.json"
NODE = written("v1/Node", "n1", status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}})


def pod(name: str, node: str = "", **more: Any) -> dict[str, Any]:
    requests = {"requests": {"cpu": "1"}}
    spec = {"containers": [{"name": "c", "resources": requests}]} | ({"nodeName": node} if node else {})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": True}
    meta = {"name": name, "namespace": "prod", "uid": name, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec} | more


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


EXPECTED = [
    (0, "create", "n1"),
    (1, "create", "web-1"),
    (2, "bind", "web-1"),
    (3, "create", "there"),
    (9, "delete", "web-1"),
    (10, "leave", "n1"),
]


def test_audit_logs_are_read_as_a_timeline(tmp_path: Path) -> None:
    def row(second: int, verb: str, resource: str, name: str, part: str = "", **more: Any) -> dict[str, Any]:
        about = {"resource": resource, "name": name, "subresource": part}
        about |= {"namespace": "prod"} if resource == "pods" else {}
        head = {"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb}
        time = {"stageTimestamp": f"2026-01-01T00:00:{second:02}.000000Z"}
        return head | time | {"objectRef": about, "responseStatus": {"code": 200}} | more

    there = pod("there", "n1")
    generated = pod("x") | {"metadata": {"generateName": "web-", "namespace": "prod"}}
    rows = [
        row(0, "create", "nodes", "n1", requestObject=NODE),
        row(1, "create", "pods", "", requestObject=generated, responseObject=pod("web-1")),
        row(1, "create", "pods", "late", stage="RequestReceived", requestObject=pod("late")),
        row(1, "create", "pods", "no", responseStatus={"code": 409}, requestObject=pod("no")),
        row(1, "get", "pods", "web-1"),
        row(1, "create", "secrets", "s"),
        row(
            2, "create", "pods", "web-1", "binding", requestObject={"target": {"kind": "Node", "name": "n1"}}
        ),
        row(2, "patch", "pods", "web-1", "status", requestObject={"status": {}}),
        row(3, "create", "pods", "there", requestObject=there),
        row(4, "create", "pods", "metadata-only"),
        row(9, "delete", "pods", "web-1"),
        row(10, "delete", "nodes", "n1"),
    ]
    timeline = Timeline.read(write_lines(tmp_path / "audit.log", rows), format="audit")
    assert happened(timeline) == EXPECTED
    assert timeline.notes == {"requests left out: the log has no object (its level is too low)": 1}
    assert mo.verify(timeline).agrees


def request(verb: str, part: str = "", name: str = "", second: int = 0, **more: Any) -> dict[str, Any]:
    """A request of an audit log of level Request, about a pod."""
    about = {"resource": "pods", "namespace": "prod", "subresource": part} | ({"name": name} if name else {})
    head = {"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": verb}
    return head | {"stageTimestamp": f"2026-01-01T00:00:{second:02}Z", "objectRef": about} | more


GENERATED = pod("x") | {"metadata": {"generateName": "web-", "namespace": "prod"}}
REQUESTS = [
    request("create", second=0, requestObject=GENERATED),
    request("create", second=1, requestObject=GENERATED),
    request("create", second=2, requestObject=GENERATED),
    request("create", "binding", "web-b", 3, requestObject={"target": {"kind": "Node", "name": "n1"}}),
    request("delete", "", "web-a", 4),
]


def test_a_pod_without_a_name_gets_that_of_the_first_binding_that_fits(tmp_path: Path) -> None:
    timeline = Timeline.read(write_lines(tmp_path / "audit.log", REQUESTS), format="audit")
    assert happened(timeline) == [
        (0, "create", "web-b"),
        (1, "create", "web-a"),
        (2, "create", "web-unknown-0"),
        (3, "bind", "web-b"),
        (4, "delete", "web-a"),
    ]
    assert timeline.notes == {}


def wrapped(wrap: Any) -> list[Any]:
    return [wrap(one) for one in REQUESTS]


def google(one: dict[str, Any]) -> dict[str, Any]:
    about = one["objectRef"]
    part = f".{about['subresource']}" * bool(about["subresource"])
    name = "/".join(filter(None, ("core/v1/namespaces/prod/pods", about.get("name"), about["subresource"])))
    payload = {"methodName": f"io.k8s.core.v1.pods{part}.{one['verb']}", "resourceName": name}
    payload |= {"@type": "type.googleapis.com/google.cloud.audit.AuditLog"}
    payload |= {"request": one["requestObject"]} if "requestObject" in one else {}
    return {"protoPayload": payload, "timestamp": one["stageTimestamp"], "logName": "cloudaudit"}


WRAPPED = {
    "AKS": wrapped(lambda one: {"category": "kube-audit", "properties": {"log": json.dumps(one)}}),
    "AKS, properties as text": wrapped(lambda one: {"properties": json.dumps({"log": json.dumps(one)})}),
    "AKS, records": [{"records": wrapped(lambda one: {"properties": {"log": json.dumps(one)}})}],
    "EKS": wrapped(lambda one: {"timestamp": 1, "message": json.dumps(one)}),
    "EKS, exported": [
        {"messageType": "DATA", "logEvents": wrapped(lambda one: {"message": json.dumps(one)})}
    ],
    "EKS, get-log-events": [{"events": wrapped(lambda one: {"message": json.dumps(one)})}],
    "GKE": wrapped(google),
}


@pytest.mark.parametrize("cloud", WRAPPED)
def test_audit_logs_as_clouds_give_them(cloud: str, tmp_path: Path) -> None:
    plain = Timeline.read(write_lines(tmp_path / "plain", REQUESTS), format="audit")
    timeline = Timeline.read(write_lines(tmp_path / "x", WRAPPED[cloud]), format="audit")
    assert happened(timeline) == happened(plain)
    whole = tmp_path / "whole"
    whole.write_text(json.dumps(WRAPPED[cloud], indent=2))
    assert happened(Timeline.read(whole, format="audit")) == happened(plain)
    (tmp_path / "x").write_text('{"protoPayload": {"methodName": "io.k8s.core.v1.secrets.list"}}\n')
    with pytest.raises(
        InputError, match="no line was used as audit; 1 lines left out: not an event of an audit log"
    ):
        Timeline.read(tmp_path / "x", format="audit")


def test_events_of_kubectl_with_dumps(tmp_path: Path) -> None:
    def event(second: int, reason: str, message: str, name: str = "web-1") -> dict[str, Any]:
        about = {"kind": "Pod", "namespace": "prod", "name": name}
        time = f"2026-01-01T00:00:{second:02}Z"
        return {"kind": "Event", "involvedObject": about, "reason": reason, "message": message} | {
            "lastTimestamp": time
        }

    older, pending = pod("older", "n1"), pod("pending")
    items = [
        event(9, "Killing", "Stopping container c"),
        event(8, "Killing", "Stopping container c", "older"),
        event(1, "Scheduled", "Successfully assigned prod/web-1 to n1"),
        event(2, "Scheduled", "Successfully assigned prod/gone to n1", "gone"),
        event(3, "Pulled", "x"),
        {"kind": "Event", "involvedObject": {"kind": "Node"}, "lastTimestamp": "2026-01-01T00:00:00Z"},
    ]
    events, dump = tmp_path / "events.json", tmp_path / "dump.json"
    events.write_text(json.dumps({"kind": "List", "items": items}))
    dump.write_text(json.dumps({"kind": "List", "items": [NODE, pod("web-1", "n1"), older, pending]}))
    timeline = Timeline.read(events, dump, format="kubectl-events")
    assert happened(timeline) == [
        (0, "create", "n1"),
        (0, "create", "older"),  # it has no event Scheduled
        (1, "create", "web-1"),
        (1, "bind", "web-1"),
        (8, "delete", "older"),
        (9, "delete", "web-1"),
    ]
    assert timeline.notes == {"pods left out: no dump has them": 1}
    as_yaml = tmp_path / "events.yaml"
    as_yaml.write_text(yaml.safe_dump({"kind": "List", "items": items}))
    assert happened(Timeline.read(as_yaml, dump, format="kubectl-events")) == happened(timeline)
    assert mo.verify(timeline).bindings == 1
    events.write_text("[]")
    with pytest.raises(mo.InputError, match="is not a list of kubectl"):
        Timeline.read(events, format="kubectl-events")


def test_nodes_of_kubectl_join_and_get_ready_when_they_did(tmp_path: Path) -> None:
    """Their dumps tell when; until then a pod finds no room on them."""

    def aged(item: dict[str, Any], second: int, ready: int | None = None) -> dict[str, Any]:
        meta = item["metadata"] | {"creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
        since = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": f"2026-01-01T00:00:{ready or 0:02}Z",
        }
        status = item.get("status", {}) | ({"conditions": [since]} if ready else {})
        return item | {"metadata": meta, "status": status}

    about = {"kind": "Pod", "namespace": "prod", "name": "web-1"}
    assigned = {"reason": "Scheduled", "message": "Successfully assigned prod/web-1 to n1"}
    event = {"kind": "Event", "involvedObject": about, "lastTimestamp": "2026-01-01T00:00:20Z"} | assigned
    first = event | {"reason": "Created", "lastTimestamp": "2026-01-01T00:00:10Z"}
    second = NODE | {"metadata": {"name": "n2"}, "status": NODE["status"] | {"images": []}}
    dump = [aged(NODE, 5, 12), aged(second, 15, 25), aged(pod("mirror", "n2"), 16), pod("web-1", "n1")]
    for name, items in (("events.json", [first, event]), ("dump.json", dump)):
        (tmp_path / name).write_text(json.dumps({"kind": "List", "items": items}))
    timeline = Timeline.read(tmp_path / "events.json", tmp_path / "dump.json", format="kubectl-events")
    assert happened(timeline) == [
        *((0, "create", "n1"), (2, "apply", "n1"), (5, "create", "n2"), (6, "create", "mirror")),
        *((10, "create", "web-1"), (10, "bind", "web-1"), (15, "apply", "n2")),
    ]
    nodes = [one for one in timeline.arguments if isinstance(one, mo.Node)]
    keys = [[taint.key for taint in one.spec.taints] for one in nodes]
    assert keys == [["node.kubernetes.io/not-ready"], [], ["node.kubernetes.io/not-ready"], []]
    assert mo.verify(timeline).agrees


def test_simkube_on_a_real_trace(tmp_path: Path) -> None:
    timeline = Timeline.read(SIMKUBE, format="simkube")
    verbs = [verb for _, verb, _ in happened(timeline)]
    assert (verbs.count("create"), timeline.notes) == (3, {})
    assert verbs.count("apply") > 3
    timeline.start_with(mo.synthetic(nodes=9))
    history = mo.replay(timeline)
    last: dict[str, int] = {}
    for event in timeline:
        assert event.argument is not None
        last[event.subject] = event.argument.spec.replicas  # type: ignore[union-attr]
    live = [name for name, end in zip(*_columns(history), strict=True) if end == float("inf")]
    assert len(live) == sum(last.values())
    packed = tmp_path / "trace.msgpack"
    packed.write_bytes(msgspec.msgpack.encode(json.loads(SIMKUBE.read_text())))
    assert list(Timeline.read(packed, format="simkube")) == list(timeline)
    packed.write_bytes(b"\xc1")
    with pytest.raises(mo.InputError, match="is not a trace of SimKube"):
        Timeline.read(packed, format="simkube")


def _columns(history: mo.History) -> tuple[list[str], list[float]]:
    columns = history.pods().to_dict()
    return columns["pod"], columns["ended"]


def test_fields_of_other_types_are_left_out(tmp_path: Path) -> None:
    request = {"stage": "ResponseComplete", "stageTimestamp": "2026-01-01T00:00:00Z", "verb": "create"}
    about = {"resource": "pods", "name": 5}
    rows = [
        request | {"objectRef": 1, "responseStatus": 2},
        request | {"objectRef": about, "responseStatus": {"code": "x"}},
        request | {"objectRef": about | {"resource": ["pods"]}},
        request | {"objectRef": about | {"subresource": "binding"}, "requestObject": {"target": 4}},
        request | {"objectRef": about, "responseObject": {"metadata": 1}},
    ]
    with pytest.raises(InputError, match="x: no line was used as audit; "):
        Timeline.read(write_lines(tmp_path / "x", rows), format="audit")


@pytest.mark.parametrize("format", ["simkube", "kubectl-events"])
@pytest.mark.parametrize("text", [b'{"\xb1": 1}', b"[" * 5000])
def test_a_text_that_is_no_json_is_refused(format: str, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(text)
    with pytest.raises(InputError, match="x: is not "):
        Timeline.read(path, format=format)


def test_events_of_other_types_are_left_out(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text(json.dumps({"events": [1, {"ts": 1, "applied_objs": 2, "deleted_objs": {}}]}))
    with pytest.raises(
        InputError, match="trace: no line was used as simkube; 1 records left out: the time is missing"
    ):
        Timeline.read(trace, format="simkube")
    trace.write_text(
        json.dumps({"items": [{"kind": "Event", "metadata": 1, "involvedObject": 2}, {"kind": 3}]})
    )
    with pytest.raises(InputError, match="trace: no line was used as kubectl-events"):
        Timeline.read(trace, format="kubectl-events")


@pytest.mark.parametrize(
    ("events", "expected", "notes"),
    [
        ([{"ts": 5, "applied_objs": [NODE]}], [(0, "create", "n1")], {}),
        (
            [
                {"ts": 5, "applied_objs": [NODE, {"kind": "Secret", "apiVersion": "v1"}]},
                {"ts": 3, "applied_objs": [pod("early")]},
                {"ts": 9, "deleted_objs": [NODE, pod("gone"), {"kind": "Thing"}, 5]},
            ],
            [(0, "create", "n1"), (0, "create", "early"), (4, "leave", "n1")],
            {
                "records left out: Secret is not read": 1,
                "records left out: Thing is not read": 1,
                "records left out: the object is missing": 1,
                "records before the first one: moved to its time": 1,
                "deletions left out: there is no object of this name": 1,
            },
        ),
        (
            [
                {"ts": 0, "applied_objs": [pod("a"), pod("b")]},
                {"ts": 1, "applied_objs": [pod("a", "n1"), pod("b")]},
                {"ts": 2, "applied_objs": [pod("a", "n1", status={"phase": "Succeeded"})]},
            ],
            [(0, "create", "a"), (0, "create", "b"), (1, "bind", "a"), (2, "delete", "a")],
            {},
        ),
    ],
)
def test_simkube_objects_come_change_and_go(
    events: list[Any], expected: list[Any], notes: dict[str, int], tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    trace.write_text(json.dumps({"events": events, "pod_lifecycles": {"u": {}}}))
    timeline = Timeline.read(trace, format="simkube")
    assert happened(timeline) == expected
    assert timeline.notes == {"lifetimes of pods left out": 1} | notes


def test_a_trace_of_simkube_is_one_file_with_events(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a trace is one file, not 2"):
        Timeline.read(SIMKUBE, SIMKUBE, format="simkube")
    (tmp_path / "trace").write_text('{"events": {}}')
    with pytest.raises(InputError, match="trace: is not a trace of SimKube: it has no events"):
        Timeline.read(tmp_path / "trace", format="simkube")


def test_a_dump_of_kubectl_may_have_items_that_are_no_objects(tmp_path: Path) -> None:
    about = {"kind": "Pod", "namespace": "prod", "name": "bad"}
    assigned = {"reason": "Scheduled", "message": "Successfully assigned prod/bad to n1"}
    event = {"kind": "Event", "involvedObject": about, "lastTimestamp": "2026-01-01T00:00:20Z"} | assigned
    bad, older = pod("bad"), pod("worse", "n1")
    bad["spec"]["priority"] = older["spec"]["priority"] = "high"
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"kind": "List", "items": [event, 5, NODE, bad, older]}))
    timeline = Timeline.read(path, format="kubectl-events")
    assert happened(timeline) == [(0, "create", "n1")]
    assert timeline.notes == {"records left out: Pod cannot be decoded": 2}


def test_an_audited_object_without_a_time_or_a_name_is_left_out(tmp_path: Path) -> None:
    timeless = request("create", requestObject=pod("a"))
    timeless["stageTimestamp"] = ""
    nameless = request("create", requestObject=pod("a") | {"metadata": {"namespace": "prod"}})
    rows = [timeless, nameless, request("create", second=3, requestObject=pod("b"))]
    timeline = Timeline.read(write_lines(tmp_path / "audit.log", rows), format="audit")
    assert happened(timeline) == [(3, "create", "b")]
    assert timeline.notes["records left out: the time is missing"] == 1


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    most = 64 << 20
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(b"a" * (most - 2) + b"\n" + b"0" * most, 1))
    with pytest.raises(InputError, match=r"trace.csv.gz: a line has 67,108,864 characters or more"):
        Timeline.read(path, format="audit")


def test_a_trace_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(InputError, match=r"not a file|a folder"):
            Timeline.read(path, format="audit")
