"""Records of clusters: audit logs, SimKube, and events of kubectl."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube import Node, Pod, Taint
from moorage.kube.read.decode import UNREADABLE
from moorage.kube.read.files import read_file, source_name
from moorage.kube.read.object_defaults import NOT_READY
from moorage.kube.read.yaml_reader import read_yaml

from .audit_rows import UnnamedPods, audit_rows
from .object_events import ObjectEvents
from .trace_rows import list_of, map_of

if TYPE_CHECKING:
    from ..timeline.event_columns import EventColumns

ASSIGNED = re.compile(r"Successfully assigned (\S+)/(\S+) to (\S+)")
"""Message of the event Scheduled (kube-scheduler, schedule_one.go)."""
KINDS = {"pods": "pod", "nodes": "node"}
"""Resources of an audit log that are read, with the kind in references."""


def read_audit_log(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read audit logs of an API server (audit.k8s.io/v1, JSON lines), also as AKS, EKS and GKE give them.

    Creations and deletions of pods and nodes, changes of nodes, and bindings of pods are read, at the stage
    ResponseComplete. The level has to be Request or RequestResponse: with Metadata there are no objects. With
    Request, a pod whose name the server has made gets the name of the first binding that fits.

    Raises
    ------
    InputError
        A file cannot be read.
    """
    events, unnamed = ObjectEvents(timeline), UnnamedPods()
    for line in audit_rows(paths, events.note):
        about, code = map_of(line.get("objectRef")), map_of(line.get("responseStatus")).get("code", 200)
        resource = about.get("resource")
        is_done = isinstance(code, int) and 200 <= code < 300 and line.get("stage") == "ResponseComplete"
        if not is_done or not isinstance(resource, str) or resource not in KINDS:
            continue
        time = events.seconds(line.get("stageTimestamp") or line.get("requestReceivedTimestamp"))
        if time is not None:
            _audited(events, unnamed, time, line)
    for time, pod in unnamed.rest():
        events.put(time, pod)


def _audited(events: ObjectEvents, unnamed: UnnamedPods, time: float, row: dict[str, Any]) -> None:
    """Add one request of an audit log."""
    about = map_of(row.get("objectRef"))
    verb, part = row.get("verb"), about.get("subresource") or ""
    request, response = map_of(row.get("requestObject")), map_of(row.get("responseObject"))
    name = about.get("name") or map_of(response.get("metadata")).get("name")
    names = (KINDS[about["resource"]], about.get("namespace"), name)
    reference = "/".join(str(one) for one in names if one)
    if (found := unnamed.named(about, name)) is not None:
        events.put(*found)
    if part == "binding" and verb == "create":
        node = map_of(request.get("target")).get("name")
        if node:
            events.bind(time, reference, str(node))
    elif part == "" and verb == "delete":
        events.delete(time, reference)
    elif part in ("", "status") and verb in ("create", "update", "patch"):
        # A patch of a request is no object, so without the response it is left out.
        document = response if response.get("spec") is not None else request if verb != "patch" else {}
        if part == "status" and about["resource"] == "pods":
            return
        if not document:
            events.note("requests left out: the log has no object (its level is too low)")
            return
        kind = {"pods": "Pod", "nodes": "Node"}[about["resource"]]
        obj = events.decode({"apiVersion": "v1", "kind": kind} | document)
        if obj is not None and obj.name:
            events.put(time, obj)
        elif isinstance(obj, Pod) and obj.metadata.generate_name:
            unnamed.add(time, obj, str(about.get("namespace") or "default"))


def read_simkube(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read a trace of SimKube, as JSON or msgpack: objects that were applied and deleted over time.

    The pods are made by the simulated controllers; recorded lifetimes of pods are left out.

    Parameters
    ----------
    paths : sequence of str or Path
        One file.

    Raises
    ------
    InputError
        The file cannot be read, or is no trace.
    """
    if len(paths) != 1:
        raise InputError(f"a trace is one file, not {len(paths)}")
    text, source = read_file(str(paths[0])), source_name(str(paths[0]))
    try:
        is_json = text.lstrip()[:1] in (b"{", b"[")
        trace: Any = msgspec.json.decode(text) if is_json else msgspec.msgpack.decode(text, strict=False)
    except (*UNREADABLE, TypeError) as error:
        raise InputError(f"is not a trace of SimKube: {error}", source=source) from None
    if not isinstance(trace, dict) or not isinstance(trace.get("events"), list):
        raise InputError("is not a trace of SimKube: it has no events", source=source)
    events = ObjectEvents(timeline)
    if trace.get("pod_lifecycles"):
        events.note("lifetimes of pods left out")
    for row in map(map_of, trace["events"]):
        time = events.seconds(row.get("ts"))
        if time is None:
            continue
        for document in list_of(row.get("applied_objs")):
            obj = events.decode(document)
            if obj is not None:
                events.put(time, obj)
        for document in list_of(row.get("deleted_objs")):
            obj = events.decode(document)
            if obj is not None:
                events.delete(time, "/".join(x for x in (obj.kind.lower(), obj.namespace, obj.name) if x))


def read_kubectl_events(timeline: EventColumns, paths: Sequence[str | Path]) -> None:
    """Read ``kubectl get events -o json``, with dumps of the nodes and pods that they are about.

    An event Scheduled is the creation of the pod and its recorded binding, Killing its deletion. What a pod
    requests is in the dumps, as events do not say it; a pod that is in none is left out. A pod of a dump that
    is on a node without such an event is there since its creation. So is a node, which is tainted as not
    ready until the last transition of its condition Ready.

    Parameters
    ----------
    paths : sequence of str or Path
        Lists of events, nodes and pods, as kubectl writes them.

    Raises
    ------
    InputError
        A file cannot be read, or is no list.
    """
    events, pods, happened = (
        ObjectEvents(timeline),
        dict[str, dict[str, Any]](),
        list[tuple[str, dict[str, Any]]](),
    )
    nodes = []
    for path in paths:
        for item in _items(path):
            meta = map_of(item.get("metadata"))
            if item.get("kind") == "Event":
                time = item.get("lastTimestamp") or item.get("eventTime") or meta.get("creationTimestamp")
                happened.append((str(time), item))
            elif item.get("kind") == "Pod":
                pods[f"{meta.get('namespace', 'default')}/{meta.get('name')}"] = item
            elif item.get("kind") == "Node":
                nodes.append(item)
    happened.sort(key=lambda one: one[0])
    for time, _ in happened[:1]:
        events.seconds(time)
    scheduled = {_key(item) for _, item in happened if item.get("reason") == "Scheduled"}
    older = [
        pod for key, pod in pods.items() if key not in scheduled and map_of(pod.get("spec")).get("nodeName")
    ]
    for item in (*nodes, *older):
        if (obj := events.decode(item)) is not None:
            created = events.seconds_of_age(obj.metadata.creation_timestamp)
            if isinstance(obj, Node) and (ready := events.seconds_of_age(_ready_since(obj))) > created:
                events.put(created, _not_ready(obj))
                created = ready
            events.put(created, obj)
    for time, item in happened:
        _happened(events, time, item, pods)


def _ready_since(node: Node) -> str | None:
    """Return since when a node is ready; None for one that is not."""
    since = [
        one.last_transition_time
        for one in node.status.conditions
        if (one.type, one.status) == ("Ready", "True")
    ]
    return since[0] if since else None


def _not_ready(node: Node) -> Node:
    """Return a node as the API server creates it: with the taint of a node that is not ready."""
    taints = (*node.spec.taints, Taint(key=NOT_READY, effect="NoSchedule"))
    return replace(node, spec=replace(node.spec, taints=taints))


def _happened(events: ObjectEvents, time: str, item: dict[str, Any], pods: dict[str, dict[str, Any]]) -> None:
    about, reason = map_of(item.get("involvedObject")), item.get("reason")
    seconds = events.seconds(time) if about.get("kind") == "Pod" else None
    if seconds is None:
        return
    key = _key(item)
    if reason == "Killing":
        events.delete(seconds, f"pod/{key}")
    elif reason == "Scheduled" and (found := ASSIGNED.search(str(item.get("message")))):
        if key not in pods:
            events.note("pods left out: no dump has them")
            return
        document = pods[key] | {"spec": map_of(pods[key].get("spec")) | {"nodeName": ""}, "status": {}}
        pod = events.decode(document)
        if pod is not None:
            events.put(seconds, pod)
            events.bind(seconds, f"pod/{key}", found[3])


def _key(event: dict[str, Any]) -> str:
    about = map_of(event.get("involvedObject"))
    return f"{about.get('namespace', 'default')}/{about.get('name')}"


def _items(path: str | Path) -> Iterator[dict[str, Any]]:
    """Iterate over the items of a list that kubectl has written, as JSON or YAML."""
    document = _document(read_file(str(path)), source_name(str(path)))
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise InputError("is not a list of kubectl", source=source_name(str(path)))
    for item in items:
        if isinstance(item, dict):
            kind = str(document.get("kind", "")).removesuffix("List")
            yield item if item.get("kind") else item | {"kind": kind, "apiVersion": "v1"}


def _document(text: bytes, source: str) -> Any:
    try:
        if text.lstrip()[:1] in (b"{", b"["):
            return msgspec.json.decode(text)
        return next(read_yaml(text.decode(), source), None)
    except UNREADABLE as error:
        raise InputError(f"is not JSON: {error}", source=source) from None
