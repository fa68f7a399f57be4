"""Other requests of the containers of workloads, such as a VerticalPodAutoscaler recommends."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from io import StringIO
from typing import Any, NamedTuple

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, located
from moorage.kube.model.autoscaling import VerticalPodAutoscaler
from moorage.kube.model.meta import Object, quantity
from moorage.kube.model.pod import Container, Pod
from moorage.kube.model.workload import (
    CloneSet,
    CronJob,
    Job,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
)
from moorage.kube.read.decode import decode
from moorage.kube.read.files import read_text, source_name
from moorage.kube.workloads.deployment_rollout import PARENTS
from moorage.store import ObjectClient, parse_reference

from .change import Change, full_name
from .restarts import RESTARTABLE
from .selection import workload_named

RESOURCES = ("cpu", "memory")
COLUMNS = ("namespace", "workload", "container", *RESOURCES)
_VPA = "VerticalPodAutoscaler"
_NO_RECOMMENDATION = "its status has no recommendation"


class ResourceRequest(NamedTuple):
    """The requests that a container of a workload is to have.

    Attributes
    ----------
    workload : str
        A Deployment, StatefulSet, DaemonSet, CronJob, or suspended Job: ``deploy/web``, ``deploy/prod/web``.
    container : str
        Its name; an init container has one too.
    requests : mapping of str to str
        Quantity of ``cpu``, ``memory``, or both; others stay.
    by : str
        The VerticalPodAutoscaler that recommends them; it has no effect where its target is not there, or
        is of another kind.
    """

    workload: str
    container: str
    requests: Mapping[str, str]
    by: str = ""


class RequestFile(NamedTuple):
    """What a file says.

    Attributes
    ----------
    requests : list of ResourceRequest
    without : dict of str to str
        The VerticalPodAutoscalers that recommend nothing, and why.
    source : str
        The name of the file, for errors.
    """

    requests: list[ResourceRequest]
    without: dict[str, str]
    source: str = ""


def write_requests(client: ObjectClient, requests: RequestFile) -> Change:
    """Change the templates of workloads, whose controllers roll them out.

    Returns
    -------
    Change
        What has changed; `kept` has the VerticalPodAutoscalers without effect, and why.

    Raises
    ------
    InputError
        A workload or a container does not exist or is there twice, or a quantity is none.
    """
    kept = dict(requests.without)
    wanted: dict[str, tuple[Any, dict[str, Mapping[str, str]]]] = {}
    for request in requests.requests:
        for resource, amount in request.requests.items():
            with located(obj=request.workload, path=f"{request.container}.{resource}"):
                quantity(amount)
        try:
            obj = _workload(client, request.workload)
            containers = wanted.setdefault(full_name(obj), (obj, {}))[1]
            _check_container(obj, request, containers)
        except InputError as error:
            if not request.by:
                raise
            kept[request.by] = str(error)
            continue
        containers[request.container] = request.requests
    changed = []
    for name, (obj, containers) in wanted.items():
        with located(obj=name):
            template = _with_requests(_template(obj), containers)
        if template != _template(obj):
            changed.append(full_name(client.update(_with_template(obj, template))))
    return Change(changed=tuple(changed), kept=kept)


def _workload(client: ObjectClient, reference: str) -> Any:
    """Return the workload of a reference, whose next pods have the requests of its template."""
    obj: Any = workload_named(client, reference, _TAKEN, _KEEPS.get(_kind(reference), "has no containers"))
    if isinstance(obj, Job) and not obj.spec.suspend:
        raise InputError("a Job that is not suspended keeps its template; name its CronJob", obj=reference)
    return obj


def _kind(reference: str) -> type[Object] | None:
    with suppress(InputError):
        return parse_reference(reference)[0]
    return None


_TAKEN = (*RESTARTABLE, CronJob, Job)
_KEEPS: dict[type[Object] | None, str] = {
    Pod: "keeps its requests",
    **dict.fromkeys((ReplicaSet, ReplicationController), "does not replace its pods"),
    **dict.fromkeys((CloneSet, *PARENTS), "is not rolled out, as its strategy is not simulated"),
}
"""Why other kinds do not take requests."""


def _template(obj: Any) -> Any:
    return obj.spec.job_template.spec.template if isinstance(obj, CronJob) else obj.spec.template


def _with_template(obj: Any, template: PodTemplateSpec) -> Any:
    if not isinstance(obj, CronJob):
        return replace(obj, spec=replace(obj.spec, template=template))
    job = obj.spec.job_template
    job = replace(job, spec=replace(job.spec, template=template))
    return replace(obj, spec=replace(obj.spec, job_template=job))


def _check_container(obj: Any, one: ResourceRequest, known: Collection[str]) -> None:
    """Raise an InputError if the workload has no such container, or its requests are listed already."""
    spec = _template(obj).spec
    names = [each.name for each in (*spec.containers, *spec.init_containers)]
    if one.container not in names:
        there = f"there is no such container; the workload has {', '.join(names)}"
        raise InputError(there, obj=one.workload, path=one.container)
    if one.container in known:
        raise InputError("is listed twice", obj=one.workload, path=one.container)


def _with_requests(template: PodTemplateSpec, wanted: Mapping[str, Mapping[str, str]]) -> PodTemplateSpec:
    """Return a template with the requests of some containers."""
    spec = template.spec

    def changed(containers: Iterable[Container]) -> tuple[Container, ...]:
        return tuple(_requesting(container, wanted.get(container.name, {})) for container in containers)

    containers, first = changed(spec.containers), changed(spec.init_containers)
    return replace(template, spec=replace(spec, containers=containers, init_containers=first))


def _requesting(container: Container, requests: Mapping[str, str]) -> Container:
    """Return a container with other requests; a limit that is lower than its request is raised to it."""
    old = container.resources
    limits = {
        name: requests[name] if name in requests and Quantity(limit) < Quantity(requests[name]) else limit
        for name, limit in old.limits.items()
    }
    resources = replace(old, requests={**old.requests, **requests}, limits=limits)
    return replace(container, resources=resources)


# ---- files -------------------------------------------------------------------------------------------------


def read_requests(file: str) -> RequestFile:
    """Read requests from a file: VerticalPodAutoscalers with a recommendation, whose target counts, or rows.

    Parameters
    ----------
    file : str
        CSV, as its name ``.csv`` or its first line says, with the columns workload, container, cpu, memory,
        and namespace if a workload names none; or JSON or YAML: a list of maps with these fields, or
        VerticalPodAutoscalers.

    Raises
    ------
    InputError
        The file cannot be read, or has something else.
    """
    from moorage.kube.read.yaml_reader import read_yaml  # few need it

    source = source_name(file)
    text, found = read_text(file), RequestFile([], {}, source)
    with located(source=source):
        if file.endswith(".csv") or _is_header(text):
            _read_csv(text, found)
            return found
        for document in read_yaml(text, source):
            _read_document(document, found)
        if not found.requests and not found.without:
            raise InputError("this file has no requests")
    return found


def _is_header(text: str) -> bool:
    """Tell whether a text begins with names of columns."""
    names = text.partition("\n")[0].strip().split(",")
    return len(names) > 1 and set(names).issubset(COLUMNS)


def _read_csv(text: str, found: RequestFile) -> None:
    rows = csv.DictReader(StringIO(text, newline=""))
    _check_fields(rows.fieldnames or (), "line 1")
    for row in rows:
        where = f"line {rows.line_num}"
        if None in row or None in row.values():
            raise InputError(f"{len(rows.fieldnames or ())} fields are expected", path=where)
        found.requests.append(_row(row, where))
    if not found.requests:
        raise InputError("this file has no rows")


def _read_document(document: Any, found: RequestFile) -> None:
    """Add what a JSON value says: rows, an object, or a list of objects."""
    if isinstance(document, list):
        for at, row in enumerate(document):
            if not isinstance(row, dict):
                raise InputError("expected a map", path=f"[{at}]")
            if "kind" in row:
                _read_document(row, found)
                continue
            _check_fields(row, f"[{at}]")
            texts = {name: "" if value is None else str(value) for name, value in row.items()}
            found.requests.append(_row(texts, f"[{at}]"))
        return
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind in ("List", f"{_VPA}List"):
        _read_document([{"kind": _VPA} | item for item in document.get("items") or ()], found)
    elif kind == _VPA:
        _read_vpa(document, found)
    else:
        what = f"a {kind}" if isinstance(kind, str) else "something else"
        raise InputError(f"expected a list of requests, or {_VPA}s, not {what}")


def _check_fields(names: Iterable[str], where: str) -> None:
    given = list(names)
    if unknown := [name for name in given if name not in COLUMNS]:
        raise InputError(f"unknown; known are {', '.join(COLUMNS)}", path=f"{where}: {unknown[0]}")
    for name in ("workload", "container"):
        if name not in given:
            raise InputError("is missing", path=f"{where}: {name}")


def _row(row: Mapping[str, str], where: str) -> ResourceRequest:
    for name in ("workload", "container"):
        if not row[name]:
            raise InputError("is empty", path=f"{where}: {name}")
    requests = {name: row[name] for name in RESOURCES if row.get(name)}
    if not requests:
        raise InputError("give cpu or memory", path=where)
    workload, namespace = row["workload"], row.get("namespace", "")
    if namespace and workload.count("/") > 1:
        raise InputError("the workload has one already", path=f"{where}: namespace")
    return ResourceRequest(_in(namespace, workload), row["container"], requests)


def _in(namespace: str, workload: str) -> str:
    """Return the reference to a workload of a namespace; "" is that of the reference."""
    kind, _, name = workload.partition("/")
    return f"{kind}/{namespace}/{name}" if namespace else workload


def _read_vpa(document: Any, found: RequestFile) -> None:
    one = decode(document, VerticalPodAutoscaler)
    namespace = one.metadata.namespace or "default"
    name = f"{_VPA} {namespace}/{one.metadata.name}"
    target, advice = one.spec.target_ref, one.status.recommendation
    workload = f"{target.kind.lower()}/{namespace}/{target.name}" if target is not None else ""
    rows = [
        ResourceRequest(workload, each.container_name, requests, name)
        for each in (() if advice is None or target is None else advice.containers)
        if (requests := {key: str(each.target[key]) for key in RESOURCES if key in each.target})
    ]
    found.requests.extend(rows)
    if not rows:
        found.without[name] = _NO_RECOMMENDATION
