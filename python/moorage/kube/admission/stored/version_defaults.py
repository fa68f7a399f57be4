"""Sets the defaults that an API server gives a manifest in all of its fields, read by scheduling or not.

Defaults of single fields are in apiserver/version_defaults.txt; those that depend on others are functions.
Structs come before what they hold, as in the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from moorage._core.base.quantity import Quantity
from moorage.lazy import NamedTuple

from ...apiserver.decode import decode
from ...apiserver.struct_tables import (
    DEPENDENT,
    Dependent,
    default_lines,
    host_port,
    job_defaults,
    planned_parts,
    requests_of_limits,
)
from ...apiserver.unknown_fields import LISTS, MAPS, struct_of
from ...apiserver.unread_fields import pull_policy
from ...field_errors import Json, part, parts
from ...model.meta import in_thousandths
from ...model.pod import Pod
from ...read.object_defaults import default_pod_spec
from ...releases import DEFAULT_GATES, Condition, FeatureGates

_QUANTITIES: dict[str, Callable[[Any], Any]] = {
    "quantity": lambda value: str(Quantity(value)),
    "quantities": lambda value: _amounts(value),
    "milli": lambda value: _amounts(in_thousandths(value)),
}


def _amounts(value: Json) -> Json:
    return {name: str(Quantity(0 if raw is None else raw)) for name, raw in value.items()}


_ZERO_IS_ABSENT = frozenset({"core.v1.Probe"})
"""Structs whose numbers are no pointers: a zero is as if the field were absent."""


class _StructDefaults(NamedTuple):
    """What is set in a struct: what depends on other fields, values by their paths, forms of quantities,
    structs in fields."""

    dependent: Dependent | None
    function: Callable[[Json], None] | None
    values: tuple[tuple[tuple[str, ...], bytes, Condition], ...]
    quantities: tuple[tuple[str, Callable[[Any], Any]], ...]
    structs: tuple[tuple[str, str, str], ...]
    zero_is_absent: bool


@cache
def _plan(struct: str) -> _StructDefaults:
    lines = default_lines().get(struct, ())
    return _StructDefaults(
        DEPENDENT.get(struct),
        _FUNCTIONS.get(struct),
        tuple(
            (tuple(path.split(".")), value.encode(), when)
            for path, value, when in lines
            if value not in _QUANTITIES
        ),
        tuple((path, _QUANTITIES[value]) for path, value, _ in lines if value in _QUANTITIES),
        planned_parts(struct, _plan),
        struct in _ZERO_IS_ABSENT,
    )


def with_version_defaults(
    value: Json, kind: str, api_version: str, gates: FeatureGates = DEFAULT_GATES
) -> Json:
    """Return a manifest with the defaults of its version.

    Parameters
    ----------
    value : dict
        A manifest that can be decoded. It is not changed.
    gates : FeatureGates
        Those of the API server, with its release.

    Returns
    -------
    dict
        A copy. Quantities are canonical.
    """
    filled: Json = msgspec.json.decode(msgspec.json.encode(value))
    if struct := struct_of(kind, api_version):
        _fill(filled, struct, gates)
    return filled


def _fill(value: Json, struct: str, gates: FeatureGates) -> None:
    plan = _plan(struct)
    if plan.dependent is not None:
        value |= plan.dependent(value.get)
    if plan.function is not None:
        plan.function(value)
    for path, default, when in plan.values:
        if when.holds(gates):
            _set(value, path, default, plan.zero_is_absent)
    for name, canonical in plan.quantities:
        if value.get(name):
            value[name] = canonical(value[name])
    for name, held, form in plan.structs:
        item = value.get(name)
        if form == LISTS:
            items: Any = [{} if each is None else each for each in item or ()]  # as Go decodes null
            if item:
                value[name] = items
        elif form == MAPS:
            items = (item or {}).values()
        else:
            items = () if item is None else (item,)
        for each in items:
            _fill(each, held, gates)


def _set(value: Json, path: tuple[str, ...], default: bytes, zero_is_absent: bool) -> None:
    *parents, name = path
    for parent in parents:
        if value.get(parent) is None:
            value[parent] = {}
        value = value[parent]
    present = value.get(name)
    if present is None or present == "" or (zero_is_absent and present == 0):
        value[name] = json.loads(default)


# ---- pods --------------------------------------------------------------------------------------------------


def _container(container: Json) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(str(container.get("image") or ""))


def _image_volume(source: Json) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = pull_policy(str(source.get("reference") or ""))


def _pod(pod: Json) -> None:
    """Requests that limits give, of containers and of the pod, and ports of the host."""
    spec = _held(pod, "spec")
    containers = [*parts(spec, "containers"), *parts(spec, "initContainers")]
    for container in containers:
        resources = part(container, "resources")
        resources |= requests_of_limits(resources.get)
        for port in parts(container, "ports") if spec.get("hostNetwork") else ():
            port |= host_port(port.get)
    if (spec.get("resources") or {}).get("limits"):
        held = {name: spec[name] for name in ("containers", "initContainers", "resources") if name in spec}
        decoded = decode(msgspec.json.encode({"kind": "Pod", "apiVersion": "v1", "spec": held}), Pod)
        of_pod = default_pod_spec(decoded.spec, {}, tolerate=False).resources
        spec["resources"]["requests"] = dict(of_pod.requests) if of_pod is not None else {}


def _volume(volume: Json) -> None:
    if all(value is None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}


def _pod_spec(spec: Json) -> None:
    """The name of the service account has an older field, too."""
    if name := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = name


# ---- workloads ---------------------------------------------------------------------------------------------


def _controller(controller: Json) -> None:
    """A ReplicationController selects, and has, the labels of its template."""
    spec, meta = _held(controller, "spec"), _held(controller, "metadata")
    if labels := part(part(part(spec, "template"), "metadata"), "labels"):
        spec["selector"] = spec.get("selector") or dict(labels)
        meta["labels"] = meta.get("labels") or dict(labels)


def _deployment(deployment: Json) -> None:
    strategy = _held(_held(deployment, "spec"), "strategy")
    if (strategy.get("type") or "RollingUpdate") == "RollingUpdate":
        rolling = _held(strategy, "rollingUpdate")
        for name in ("maxUnavailable", "maxSurge"):
            _set(rolling, (name,), b'"25%"', False)


def _stateful_set(stateful_set: Json) -> None:
    spec = _held(stateful_set, "spec")
    strategy = _held(spec, "updateStrategy")
    kind = strategy.get("type")
    if not kind or (kind == "RollingUpdate" and strategy.get("rollingUpdate") is not None):
        _set(strategy, ("rollingUpdate", "partition"), b"0", False)
    strategy["type"] = kind or "RollingUpdate"  # one that is given has no partition by default
    for claim in parts(spec, "volumeClaimTemplates"):
        claim.update(kind="PersistentVolumeClaim", apiVersion="v1")


def _daemon_set(daemon_set: Json) -> None:
    strategy = _held(_held(daemon_set, "spec"), "updateStrategy")
    if (strategy.get("type") or "RollingUpdate") == "RollingUpdate":
        rolling = _held(strategy, "rollingUpdate")
        _set(rolling, ("maxUnavailable",), b"1", False)
        _set(rolling, ("maxSurge",), b"0", False)


def _job(job: Json) -> None:
    spec = _held(job, "spec")
    spec |= job_defaults(spec.get)
    labels, meta = part(part(part(spec, "template"), "metadata"), "labels"), _held(job, "metadata")
    if labels and not meta.get("labels"):
        meta["labels"] = labels  # the same map, as in the server: what is added to it is in both


# ---- other kinds -------------------------------------------------------------------------------------------

_OUTSIDE = ("NodePort", "LoadBalancer")
_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def _service(service: Json) -> None:
    spec = _held(service, "spec")
    kind = spec.get("type") or "ClusterIP"
    if spec.get("sessionAffinity") == "ClientIP":
        _set(spec, ("sessionAffinityConfig", "clientIP", "timeoutSeconds"), b"10800", False)
    elif not spec.get("sessionAffinity") or spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    for port in parts(spec, "ports"):
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port")
    if kind in _OUTSIDE or spec.get("externalIPs"):
        _set(spec, ("externalTrafficPolicy",), b'"Cluster"', False)
    if kind != "ExternalName":
        _set(spec, ("internalTrafficPolicy",), b'"Cluster"', False)
    if kind == "LoadBalancer":
        _set(spec, ("allocateLoadBalancerNodePorts",), b"true", False)


def complete_limits(item: Json) -> None:
    """Defaults of containers: of limits the maximum; of requests the default limit, then the minimum."""
    if item.get("type") == "Container":
        default = (item.get("max") or {}) | (item.get("default") or {})
        request = (item.get("min") or {}) | default | (item.get("defaultRequest") or {})
        item.update(default=default, defaultRequest=request)


def _autoscaler(autoscaler: Json) -> None:
    spec = _held(autoscaler, "spec")
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior:
        for name, rules in (("scaleUp", _SCALE_UP), ("scaleDown", _SCALE_DOWN)):
            own = behavior.get(name) or {}
            given = {key: value for key, value in own.items() if value not in (None, [])}
            behavior[name] = json.loads(json.dumps(rules)) | given


def _held(value: Json, name: str) -> Json:
    """Return the struct of a field, which is made where it is absent."""
    if value.get(name) is None:
        value[name] = {}
    held: Json = value[name]
    return held


_FUNCTIONS: dict[str, Callable[[Json], None]] = {
    "core.v1.Pod": _pod,
    "core.v1.PodSpec": _pod_spec,
    "core.v1.Container": _container,
    "core.v1.EphemeralContainer": _container,
    "core.v1.Volume": _volume,
    "core.v1.ImageVolumeSource": _image_volume,
    "core.v1.ReplicationController": _controller,
    "core.v1.Service": _service,
    "core.v1.LimitRangeItem": complete_limits,
    "apps.v1.Deployment": _deployment,
    "apps.v1.StatefulSet": _stateful_set,
    "apps.v1.DaemonSet": _daemon_set,
    "batch.v1.Job": _job,
    "autoscaling.v2.HorizontalPodAutoscaler": _autoscaler,
}
