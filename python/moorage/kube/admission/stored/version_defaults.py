"""Sets the defaults that an API server gives a manifest in all of its fields, read by scheduling or not.

Most are in apiserver/version_defaults.txt; those that are computed are functions.
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
    Default,
    default_lines,
    host_port,
    limits_of_item,
    planned_parts,
    requests_of_limits,
    value_at,
)
from ...apiserver.unknown_fields import LISTS, MAPS, struct_of
from ...apiserver.unread_fields import pull_policy
from ...field_errors import Json, part, parts
from ...model.meta import in_thousandths
from ...model.pod import Pod
from ...read.object_defaults import default_pod_spec
from ...releases import DEFAULT_GATES, FeatureGates

_QUANTITIES: dict[str, Callable[[Any], Any]] = {
    "quantity": lambda value: str(Quantity(value)),
    "quantities": lambda value: _amounts(value),
    "milli": lambda value: _amounts(in_thousandths(value)),
}


def _amounts(value: Json) -> Json:
    return {name: str(Quantity(0 if raw is None else raw)) for name, raw in value.items()}


class _StructDefaults(NamedTuple):
    """What is set in a struct: what is computed, values, forms of quantities, structs in fields."""

    function: Callable[[Json], None] | None
    values: tuple[Default, ...]
    quantities: tuple[tuple[str, Callable[[Any], Any]], ...]
    structs: tuple[tuple[str, str, str], ...]


@cache
def _plan(struct: str) -> _StructDefaults:
    lines = default_lines().get(struct, ())
    return _StructDefaults(
        _FUNCTIONS.get(struct),
        tuple(line for line in lines if line.text not in _QUANTITIES),
        tuple((line.path[0], _QUANTITIES[line.text]) for line in lines if line.text in _QUANTITIES),
        planned_parts(struct, _plan),
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
    if plan.function is not None:
        plan.function(value)
    for line in plan.values:
        if line.when.holds(gates) and line.is_due(value):
            given = value_at(value, line.source) if line.source else json.loads(line.text)
            _put(value, line.path, dict(given) if isinstance(given, dict) else given)
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


def _put(value: Json, path: tuple[str, ...], new: Any) -> None:
    *parents, name = path
    for parent in parents:
        value = _held(value, parent)
    value[name] = new


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


def _stateful_set(stateful_set: Json) -> None:
    for claim in parts(_held(stateful_set, "spec"), "volumeClaimTemplates"):
        claim.update(kind="PersistentVolumeClaim", apiVersion="v1")


def _job(job: Json) -> None:
    labels = part(part(part(_held(job, "spec"), "template"), "metadata"), "labels")
    meta = _held(job, "metadata")
    if labels and not meta.get("labels"):
        meta["labels"] = labels  # the same map, as in the server: what is added to it is in both


# ---- other kinds -------------------------------------------------------------------------------------------


def _service(service: Json) -> None:
    spec = _held(service, "spec")
    if spec.get("sessionAffinity") in (None, "", "None"):
        spec.pop("sessionAffinityConfig", None)


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
    "core.v1.Service": _service,
    "core.v1.LimitRangeItem": lambda item: item.update(limits_of_item(item.get)),
    "apps.v1.StatefulSet": _stateful_set,
    "batch.v1.Job": _job,
}
