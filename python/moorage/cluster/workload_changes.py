"""Changes of workloads: their requests, replicas of autoscalers, restarts, the end of a suspension."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import StringIO
from typing import Any, Literal

from msgspec.structs import replace

from moorage._core.base.quantity import Quantity
from moorage.controllers.api_server import admitted
from moorage.errors import InputError, located
from moorage.kube import Object
from moorage.kube.admission.request import ADMIN, UserInfo, controller_account, scaling
from moorage.kube.apiserver.decode import decode, is_known
from moorage.kube.model.autoscaling import HorizontalPodAutoscaler, ScaledObject, VerticalPodAutoscaler
from moorage.kube.model.cluster import Suspended
from moorage.kube.model.meta import quantity
from moorage.kube.model.pod import Container, Pod
from moorage.kube.model.workload import (
    PARENTS,
    CloneSet,
    CronJob,
    DaemonSet,
    Deployment,
    DeploymentConfig,
    Job,
    LeaderWorkerSet,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    Rollout,
    StatefulSet,
    full_kind,
)
from moorage.kube.read.files import read_text, source_name
from moorage.kube.workloads.ownership import is_active
from moorage.kube.workloads.seen_failures import RESTARTED_AT
from moorage.lazy import NamedTuple
from moorage.store import ObjectClient, ServerError, find_object, kind_named, parse_reference

from .change import Change, updated
from .references import object_named
from .requirements import with_containers

# ---- autoscaled replicas -----------------------------------------------------------------------------------
#
# The replicas that autoscalers give their targets at least, or at most.

Bound = Literal["min", "max"]
SCALABLE = (Deployment, ReplicaSet, ReplicationController, StatefulSet, CloneSet, *PARENTS)
PAUSED = "autoscaling.keda.sh/paused-replicas"
_MAX_OF_KEDA = 100


class Bounds(NamedTuple):
    """What an autoscaler says of its target.

    Attributes
    ----------
    api_version, kind, name : str
        The target, in the namespace of the autoscaler.
    wakes : bool
        Whether a target without replicas is scaled too.
    """

    autoscaler: Object
    api_version: str
    kind: str
    name: str
    least: int
    most: int
    wakes: bool


def scale_to(client: ObjectClient, bound: Bound) -> Change:
    """Give each target of an autoscaler its least or its most replicas: see `ClusterChanges.autoscale_to`."""
    wanted: dict[tuple[type[Object], str, str], tuple[Object, int]] = {}
    kept: dict[str, str] = {}
    for bounds in autoscalers(client):
        number = bounds.least if bound == "min" else bounds.most
        target = _target(client, bounds)
        if isinstance(target, str):
            kept[bounds.autoscaler.full_name] = target
            continue
        key = type(target), target.namespace, target.name
        _, other = wanted.get(key, (target, number))
        wanted[key] = target, min(number, other) if bound == "min" else max(number, other)
    changed: tuple[str, ...] = ()
    for target, number in wanted.values():
        try:
            changed += scaled(client, target, number, controller_account("horizontal-pod-autoscaler"))
        except ServerError as error:
            kept[target.full_name] = str(error)
    return Change(changed=changed, kept=kept)


def scaled(client: ObjectClient, obj: Any, replicas: int, user: UserInfo = ADMIN) -> tuple[str, ...]:
    """Give a workload another number of replicas; return its name where that changes it."""
    new = replace(obj, spec=replace(obj.spec, replicas=replicas))
    if new == obj:
        return ()
    admitted(client, scaling(obj, replicas, user))
    return (client.update(new).full_name,)


def autoscalers(client: ObjectClient) -> Iterator[Bounds]:
    """Yield the bounds of all autoscalers; a HorizontalPodAutoscaler that KEDA has made has none of its
    own."""
    of_keda: list[ScaledObject] = client.list(ScaledObject)[0]
    listed = {(scaled.namespace, scaled.name) for scaled in of_keda}
    for scaled in of_keda:
        spec, target = scaled.spec, scaled.spec.scale_target_ref
        floor = spec.min_replica_count or 0
        least = floor if spec.idle_replica_count is None else min(floor, spec.idle_replica_count)
        most = _MAX_OF_KEDA if spec.max_replica_count is None else spec.max_replica_count
        if (paused := scaled.metadata.annotations.get(PAUSED, "")).isdecimal():
            least = most = int(paused)
        kind, version = target.kind or "Deployment", target.api_version
        yield Bounds(
            scaled, version or ("" if target.kind else "apps/v1"), kind, target.name, least, most, True
        )
    hpas: list[HorizontalPodAutoscaler] = client.list(HorizontalPodAutoscaler)[0]
    for hpa in hpas:
        owner = hpa.metadata.controller()
        if owner is not None and owner.kind == "ScaledObject" and (hpa.namespace, owner.name) in listed:
            continue
        ref = hpa.spec.scale_target_ref
        least = 1 if hpa.spec.min_replicas is None else hpa.spec.min_replicas
        yield Bounds(hpa, ref.api_version, ref.kind, ref.name, least, hpa.spec.max_replicas, not least)


def _target(client: ObjectClient, bounds: Bounds) -> Object | str:
    """Return the target of an autoscaler, or why it is not scaled."""
    namespace = bounds.autoscaler.namespace
    kind, name = full_kind(bounds.kind, bounds.api_version), f"{namespace}/{bounds.name}"
    struct = kind_named(bounds.kind) if is_known(bounds.kind, bounds.api_version) else None
    if struct not in SCALABLE:
        return f"moorage does not simulate the replicas of its target {kind} {name}"
    target: Any = find_object(client, struct, bounds.name, namespace)
    if target is None:
        return f"there is no {kind} {name}"
    if target.spec.replicas == 0 and not bounds.wakes:
        return f"its target {kind} {name} has 0 replicas, which switches it off"
    scalable: Object = target
    return scalable


# ---- restarts ----------------------------------------------------------------------------------------------
#
# Restarts of workloads, as ``kubectl rollout restart`` makes them.

RESTARTABLE = (DaemonSet, Deployment, StatefulSet)


def restarted(workload: Any) -> Any:
    """Return a workload whose template differs from that of its pods in the annotation of a restart."""
    template = workload.spec.template
    annotations = template.metadata.annotations
    # A time in a real cluster; here a text that depends on the workload alone, and differs from the last one.
    again = f"after {annotations.get(RESTARTED_AT, 'the first rollout')}"
    meta = replace(template.metadata, annotations=annotations | {RESTARTED_AT: again})
    return replace(workload, spec=replace(workload.spec, template=replace(template, metadata=meta)))


# ---- requested resources -----------------------------------------------------------------------------------
#
# Other requests of the containers of workloads, such as a VerticalPodAutoscaler recommends.

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
    without : dict of str to str
        The VerticalPodAutoscalers that recommend nothing, and why.
    source : str
        The name of the file, for errors.
    """

    requests: list[ResourceRequest]
    without: dict[str, str]
    source: str = ""


def write_requests(client: ObjectClient, requests: RequestFile) -> Change:
    """Change templates of workloads, whose controllers roll them out: see `ClusterChanges.set_requests`."""
    kept = dict(requests.without)
    wanted: dict[str, tuple[Any, dict[str, Mapping[str, str]]]] = {}
    for request in requests.requests:
        for resource, amount in request.requests.items():
            with located(obj=request.workload, path=f"{request.container}.{resource}"):
                quantity(amount)
        try:
            obj = _workload(client, request.workload)
            containers = wanted.setdefault(obj.full_name, (obj, {}))[1]
            spec = _template(obj).spec
            names = [each.name for each in (*spec.containers, *spec.init_containers)]
            if request.container not in names:
                there = f"there is no such container; the workload has {', '.join(names)}"
                raise InputError(there, obj=request.workload, path=request.container)
            if request.container in containers:
                raise InputError("is listed twice", obj=request.workload, path=request.container)
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
            changed.append(updated(client, obj, _with_template(obj, template)).full_name)
    return Change(changed=tuple(changed), kept=kept)


def _workload(client: ObjectClient, reference: str) -> Any:
    """Return the workload of a reference, whose next pods have the requests of its template."""
    obj: Any = object_named(client, reference, _TAKEN, _KEEPS.get(_kind(reference), "has no containers"))
    if isinstance(obj, Job) and not obj.spec.suspend:
        raise InputError("a Job that is not suspended keeps its template; name its CronJob", obj=reference)
    return obj


def _kind(reference: str) -> type[Object] | None:
    with suppress(InputError):
        return parse_reference(reference)[0]
    return None


_TAKEN = (*RESTARTABLE, CronJob, Job, Rollout)
_KEEPS: dict[type[Object] | None, str] = {
    Pod: "keeps its requests",
    **dict.fromkeys((ReplicaSet, ReplicationController), "does not replace its pods"),
    **dict.fromkeys(
        (CloneSet, DeploymentConfig, LeaderWorkerSet), "is not rolled out, as its strategy is not simulated"
    ),
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


def _with_requests(template: PodTemplateSpec, wanted: Mapping[str, Mapping[str, str]]) -> PodTemplateSpec:
    """Return a template with the requests of some containers; a limit that is lower than its request is
    raised to it."""

    def requesting(container: Container) -> Container:
        old, requests = container.resources, wanted.get(container.name, {})
        limits = {
            name: requests[name] if name in requests and Quantity(limit) < Quantity(requests[name]) else limit
            for name, limit in old.limits.items()
        }
        resources = replace(old, requests={**old.requests, **requests}, limits=limits)
        return replace(container, resources=resources)

    return replace(template, spec=with_containers(template.spec, requesting))


# ---- files -------------------------------------------------------------------------------------------------


def read_requests(file: str) -> RequestFile:
    """Read requests from a file: VerticalPodAutoscalers with a recommendation, whose target counts, or rows.

    Parameters
    ----------
    file : str
        CSV, as its name ``.csv`` or its first line says, with the columns workload, container, cpu, memory,
        and namespace if a workload names none; or JSON or YAML: a list of maps with these fields, or
        VerticalPodAutoscalers, also among other objects, as in a dump.

    Raises
    ------
    InputError
        The file cannot be read, or has something else.
    """
    from moorage.kube.read.documents import read_yaml  # few need it

    source = source_name(file)
    text, read = read_text(file), RequestFile([], {}, source)
    with located(source=source):
        names = text.partition("\n")[0].strip().split(",")
        if file.endswith(".csv") or (len(names) > 1 and {*names}.issubset(COLUMNS)):
            rows = csv.DictReader(StringIO(text, newline=""))
            _check_fields(rows.fieldnames or (), "line 1")
            for row in rows:
                where = f"line {rows.line_num}"
                if None in row or None in row.values():
                    raise InputError(f"{len(rows.fieldnames or ())} fields are expected", path=where)
                read.requests.append(_row(row, where))
            if not read.requests:
                raise InputError("this file has no rows")
            return read
        others = [what for document in read_yaml(text, source) for what in _read_document(document, read)]
        if not read.requests and not read.without:
            expected = f"expected a list of requests, or {_VPA}s, not {others[0]}" if others else ""
            raise InputError(expected or "this file has no requests")
    return read


def _read_document(document: Any, into: RequestFile) -> Iterator[str]:
    """Add what a JSON value says: rows, an object, or a list of objects; yield what has no requests."""
    if isinstance(document, list):
        for at, row in enumerate(document):
            if not isinstance(row, dict):
                raise InputError("expected a map", path=f"[{at}]")
            if "kind" in row:
                yield from _read_document(row, into)
                continue
            _check_fields(row, f"[{at}]")
            texts = {name: "" if value is None else str(value) for name, value in row.items()}
            into.requests.append(_row(texts, f"[{at}]"))
        return
    kind = document.get("kind") if isinstance(document, dict) else None
    if isinstance(document, dict) and not kind and (rows := [*_recommended(document)]):
        into.requests.extend(rows)
    elif kind in ("List", f"{_VPA}List"):
        yield from _read_document([{"kind": _VPA} | item for item in document.get("items") or ()], into)
    elif kind == _VPA:
        _read_vpa(document, into)
    elif isinstance(kind, str):
        yield f"a {kind}"
    else:
        raise InputError(
            f"expected {_VPA}s, the JSON of krr or goldilocks, or a list of maps with {', '.join(COLUMNS)}"
        )


def _recommended(document: Mapping[str, Any]) -> Iterator[ResourceRequest]:
    """Yield what the JSON of krr or of ``goldilocks summary`` recommends."""

    def rows(kind: str, namespace: str, name: str, container: str, amounts: Any) -> Iterator[ResourceRequest]:
        requests = {key: str(amounts[key]) for key in RESOURCES if amounts.get(key) not in (None, "?")}
        if requests:
            yield ResourceRequest(f"{kind.lower()}/{namespace}/{name}", container, requests)

    try:
        for scan in document.get("scans") or ():
            obj, amounts = scan["object"], scan["recommended"]["requests"]
            values = {name: amount["value"] for name, amount in amounts.items()}
            yield from rows(obj["kind"], obj["namespace"], obj["name"], obj["container"], values)
        for namespace, space in (document.get("Namespaces") or {}).items():
            for name, workload in space["workloads"].items():
                kind = workload.get("controllerType") or "Deployment"
                for container, of_it in workload["containers"].items():
                    yield from rows(kind, namespace, name, container, of_it["target"])
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is not as krr or goldilocks write it: {error!r}") from None


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
    if namespace:
        kind, _, name = workload.partition("/")
        workload = f"{kind}/{namespace}/{name}"
    return ResourceRequest(workload, row["container"], requests)


def _read_vpa(document: Any, into: RequestFile) -> None:
    vpa = decode(document, VerticalPodAutoscaler)
    namespace = vpa.metadata.namespace or "default"
    name = f"{_VPA} {namespace}/{vpa.metadata.name}"
    target, advice = vpa.spec.target_ref, vpa.status.recommendation
    workload = f"{target.kind.lower()}/{namespace}/{target.name}" if target is not None else ""
    rows = [
        ResourceRequest(workload, each.container_name, requests, name)
        for each in (() if advice is None or target is None else advice.containers)
        if (requests := {key: str(each.target[key]) for key in RESOURCES if key in each.target})
    ]
    into.requests.extend(rows)
    if not rows:
        into.without[name] = _NO_RECOMMENDATION


# ---- suspended workloads -----------------------------------------------------------------------------------
#
# Workloads of other projects that are suspended: which still are, and what they make when they run.


def still_suspended(client: ObjectClient, workloads: Iterable[Suspended]) -> list[Suspended]:
    """Return the workloads of which nothing runs."""
    listed = [*workloads]
    if not listed:
        return []
    running: list[Object] = [pod for pod in client.list(Pod)[0] if is_active(pod)]
    running += [job for job in client.list(Job)[0] if not job.spec.suspend]
    owners = {
        (dependent.namespace, full_kind(owner.kind, owner.api_version), owner.name)
        for dependent in running
        if (owner := dependent.metadata.controller()) is not None
    }
    return [
        workload
        for workload in listed
        if (workload.namespace, workload.full_kind, workload.name) not in owners
        and not any(
            obj.name and find_object(client, type(obj), obj.name, obj.namespace) is not None
            for obj in workload.objects  # one without a name has an owner, which says it
        )
    ]
