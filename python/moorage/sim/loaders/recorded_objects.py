"""Records of clusters: audit logs, SimKube, and events of kubectl."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube import Node, Object, Pod, Taint
from moorage.kube.apiserver.decode import UNREADABLE, decode_object, is_known
from moorage.kube.plain import object_to_dict
from moorage.kube.read.documents import read_yaml
from moorage.kube.read.files import read_file, source_name
from moorage.kube.read.object_defaults import NOT_READY, default_namespace
from moorage.kube.workloads.ownership import FINISHED

from ..event_columns import Verb, reference_of
from .trace_builder import json_rows, list_of, map_of

if TYPE_CHECKING:
    from ..event_columns import EventColumns


# ---- audit rows --------------------------------------------------------------------------------------------

_LISTS = ("records", "events", "logEvents")
_INNER = ("jsonPayload", "properties", "log", "message", "@message")
"""Fields in which Azure, CloudWatch, Google and collectors of logs have requests."""
_METHOD = re.compile(r"io\.k8s\.core\.v1\.([a-z]+)(?:\.([a-z]+))?\.([a-z]+)")
_NAME = re.compile(r"core/v1/(?:namespaces/([^/]+)/)?([a-z]+)(?:/([^/]+))?")


def audit_rows(paths: Sequence[str | Path], note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Iterate over the requests of audit logs: JSON lines, or one JSON list.

    Parameters
    ----------
    note : callable
        Gets what is left out.

    Yields
    ------
    dict
        Events of audit.k8s.io.
    """
    for path in paths:
        for row in _rows(path):
            requests = list(_unwrapped(row))
            if not requests:
                note("lines left out: not an event of an audit log")
            yield from requests


def _rows(path: str | Path) -> Iterator[Any]:
    rows = (row for _, row in json_rows(path))
    for first in rows:
        if first is None:  # the beginning of a document of several lines, such as that of gcloud and aws
            with suppress(*UNREADABLE):
                yield msgspec.json.decode(read_file(str(path)))
                return
        yield first
        break
    yield from rows


def _unwrapped(row: Any) -> Iterator[dict[str, Any]]:
    """Iterate over the requests in a value of any depth."""
    pending = [row]
    while pending:
        value = pending.pop()
        if isinstance(value, str) and "{" in value:
            try:
                value = msgspec.json.decode(value[value.index("{") :])
            except UNREADABLE:
                continue
        if isinstance(value, list):
            pending += value[::-1]
        if not isinstance(value, dict):
            continue
        if "protoPayload" in value:
            if (event := _of_google(value)) is not None:
                yield event
        elif "objectRef" in value or "auditID" in value or "stage" in value:
            yield value
        else:
            inner = [value[name] for name in _INNER if name in value]
            pending += inner[::-1] + [part for name in _LISTS for part in list_of(value.get(name))][::-1]


def _of_google(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return the request of an entry of Cloud Logging; None for one that is not about the core group."""
    payload = map_of(entry["protoPayload"])
    method = _METHOD.fullmatch(str(payload.get("methodName")))
    named = _NAME.match(str(payload.get("resourceName")))
    if method is None or named is None:
        return None
    resource, part, verb = method.groups()
    failed = map_of(payload.get("status")).get("code")
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": {
            "resource": resource,
            "namespace": named[1],
            "name": named[3],
            "subresource": part,
        },
        "responseStatus": {"code": 500 if failed else 200},
        "stageTimestamp": entry.get("timestamp"),
        "requestObject": payload.get("request"),
        "responseObject": payload.get("response"),
    }


class UnnamedPods:
    """Pods whose names the server has made, and which a log of level Request does not have."""

    def __init__(self) -> None:
        self._waiting: defaultdict[tuple[str, str], list[tuple[float, Pod]]] = defaultdict(list)
        self._known: set[tuple[str, str]] = set()

    def add(self, time: float, pod: Pod, namespace: str) -> None:
        """Keep a pod until a request has its name.

        Parameters
        ----------
        pod : Pod
            With ``generateName``.
        """
        self._waiting[namespace, pod.metadata.generate_name].append((time, pod))

    def named(self, about: dict[str, Any], name: Any) -> tuple[float, Pod] | None:
        """Return the oldest pod that may have the name which a request is about; it is kept no longer.

        Parameters
        ----------
        about : dict
            The reference of the request.

        Returns
        -------
        (float, Pod) or None
            Time and pod, with its name.
        """
        namespace = str(about.get("namespace") or "default")
        if about.get("resource") != "pods" or not isinstance(name, str) or (namespace, name) in self._known:
            return None
        waiting = self._waiting.get((namespace, f"{name.rpartition('-')[0]}-"))
        if not waiting:
            return None
        self._known.add((namespace, name))
        time, pod = waiting.pop(0)
        return time, replace(pod, metadata=replace(pod.metadata, name=name, namespace=namespace))

    def rest(self) -> Iterator[tuple[float, Pod]]:
        """Iterate over the pods that no request has named; they get names of their own."""
        for (namespace, base), waiting in self._waiting.items():
            for number, (time, pod) in enumerate(waiting):
                yield (
                    time,
                    replace(
                        pod,
                        metadata=replace(pod.metadata, name=f"{base}unknown-{number}", namespace=namespace),
                    ),
                )


class ObjectEvents:
    """Adds recorded objects to a timeline: equal ones under one template, at the time of their record.

    Parameters
    ----------
    timeline : EventColumns
        An empty one.
    """

    def __init__(self, timeline: EventColumns) -> None:
        self.timeline = timeline
        self._first: float | None = None
        self._live: dict[str, bool] = {}  # by reference, whether the pod has a node
        self._templates: dict[bytes, int] = {}

    def note(self, what: str) -> None:
        """Count something that is left out or repaired."""
        self.timeline.notes[what] += 1

    def seconds(self, time: Any) -> float | None:
        """Return a time as seconds since that of the first record.

        Parameters
        ----------
        time : str, int or float
            A timestamp (RFC 3339), or seconds.

        Returns
        -------
        float or None
            None, and a note, where it is neither.
        """
        now = _number(time)
        if now is None:
            self.note("records left out: the time is missing")
            return None
        if self._first is None:
            self._first = now
        if now < self._first:
            self.note("records before the first one: moved to its time")
        return max(now - self._first, 0.0)

    def seconds_of_age(self, time: Any) -> float:
        """Return when an object came to be, as seconds since the first record; 0 for an older one.

        Parameters
        ----------
        time : object
            A timestamp; 0 without one.
        """
        now = _number(time)
        return 0.0 if now is None or self._first is None else max(now - self._first, 0.0)

    def decode(self, document: Any) -> Object | None:
        """Decode an object.

        Returns
        -------
        Object or None
            None, and a note, for what scheduling does not read.
        """
        if not isinstance(document, dict):
            self.note("records left out: the object is missing")
            return None
        kind, version = str(document.get("kind", "")), str(document.get("apiVersion", ""))
        if not is_known(kind, version):
            self.note(f"records left out: {kind or 'no kind'} is not read")
            return None
        try:
            return decode_object(document)
        except InputError:
            self.note(f"records left out: {kind} cannot be decoded")
            return None

    def put(self, time: float, obj: Object) -> None:
        """Create an object, or change it; note a pod that got a node, and one that has ended.

        Parameters
        ----------
        time : float
            Seconds.
        """
        namespace = default_namespace(obj)
        reference = "/".join(part for part in (obj.kind.lower(), namespace, obj.name) if part)
        if isinstance(obj, Pod):
            self._put_pod(time, obj, reference)
            return
        try:
            number = self._template(_stripped(obj, obj.name))
        except InputError:
            self.note(f"records left out: {obj.kind} is not valid")
            return
        verb = Verb.APPLY if reference in self._live else Verb.CREATE
        self._live[reference] = True
        self.timeline.add(time, verb, self.timeline.subject(reference), number)

    def _put_pod(self, time: float, pod: Pod, reference: str) -> None:
        node, has_ended = pod.spec.node_name, pod.status.phase in FINISHED
        if reference not in self._live and not has_ended:
            stripped = replace(_stripped(pod, ""), spec=replace(pod.spec, node_name=node))
            try:
                number = self._template(stripped)
            except InputError:
                self.note("records left out: Pod is not valid")
                return
            self.timeline.add(time, Verb.CREATE, self.timeline.subject(reference), number)
            self._live[reference] = bool(node)
        elif reference in self._live and has_ended:
            self.delete(time, reference)
        elif reference in self._live and node:
            self.bind(time, reference, node)

    def bind(self, time: float, reference: str, node: str) -> None:
        """Record the binding of a pod, once.

        Parameters
        ----------
        reference : str
            ``pod/namespace/name``.
        """
        if self._live.get(reference) is False:
            self._live[reference] = True
            self.timeline.bind(time, reference, node)

    def delete(self, time: float, reference: str) -> None:
        """Delete an object; one that is unknown is noted."""
        if self._live.pop(reference, None) is None:
            self.note("deletions left out: there is no object of this name")
            return
        if reference.startswith("node/"):
            self.timeline.leave(time, reference.partition("/")[2])
        else:
            self.timeline.add(time, Verb.DELETE, self.timeline.subject(reference))

    def _template(self, obj: Object) -> int:
        """Return the number of an object's template."""
        key = msgspec.json.encode(object_to_dict(obj))
        known = self._templates.get(key)
        if known is None:
            known = self._templates[key] = self.timeline.template(obj)
        return known


def _stripped(obj: Object, name: str) -> Any:
    """Return an object without what a server has added: UID, versions, and for a pod name, status and owner.

    Nobody has recorded the owners of pods, so they would be collected as garbage.
    """
    meta = replace(
        obj.metadata,
        name=name,
        generate_name="",
        uid="",
        resource_version="",
        creation_timestamp=None,
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
        finalizers=(),
    )
    changed: dict[str, Any] = {"metadata": meta}
    if isinstance(obj, Pod):
        changed = {"metadata": replace(meta, owner_references=()), "status": type(obj.status)()}
    return replace(obj, **changed)


def _number(time: Any) -> float | None:
    """Return a timestamp (RFC 3339), or seconds, as seconds; None for anything else."""
    try:
        return float(time) if isinstance(time, int | float) else datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return None


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
    reference = "/".join(str(part) for part in names if part)
    if (created := unnamed.named(about, name)) is not None:
        events.put(*created)
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
                events.delete(time, reference_of(obj, obj.name))


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
    happened.sort(key=itemgetter(0))
    for time, _ in happened[:1]:
        events.seconds(time)
    scheduled = {_key(item) for _, item in happened if item.get("reason") == "Scheduled"}
    older = [
        pod for key, pod in pods.items() if key not in scheduled and map_of(pod.get("spec")).get("nodeName")
    ]
    for item in (*nodes, *older):
        if (obj := events.decode(item)) is not None:
            created = events.seconds_of_age(obj.metadata.creation_timestamp)
            if isinstance(obj, Node):
                conditions = (each for each in obj.status.conditions if each.type == "Ready")
                since = [each.last_transition_time for each in conditions if each.status == "True"]
                if since and (ready := events.seconds_of_age(since[0])) > created:
                    events.put(created, _not_ready(obj))
                    created = ready
            events.put(created, obj)
    for time, item in happened:
        _happened(events, time, item, pods)


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
    elif reason == "Scheduled" and (assigned := ASSIGNED.search(str(item.get("message")))):
        if key not in pods:
            events.note("pods left out: no dump has them")
            return
        document = pods[key] | {"spec": map_of(pods[key].get("spec")) | {"nodeName": ""}, "status": {}}
        pod = events.decode(document)
        if pod is not None:
            events.put(seconds, pod)
            events.bind(seconds, f"pod/{key}", assigned[3])


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
