"""Writes to subresources of a stored pod, which no file asks for (kubernetes v1.36, validation of pods).

The rules of pods are moorage's; what a resize may change is said here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.doors.kube import (
    OF_NEW_PODS,
    Fault,
    manifest_causes,
    part,
    parts,
    quality_of_service,
    with_version_defaults,
)
from tests.make import Json

_LISTS = ("containers", "initContainers")
QUALITY = "Pod QOS Class may not change as a result of resizing"


def subresource_causes(old: Json, new: Json, subresource: str) -> list[Fault]:
    """Return what an API server finds wrong with a write to a subresource of a stored pod.

    Parameters
    ----------
    old, new : dict
        The pod with all its fields, before and as it is sent.
    subresource : {"resize", "ephemeralcontainers"}
    """
    before, after = [
        with_version_defaults(value, "Pod", "v1") for value in (old, _written(old, new, subresource))
    ]
    causes = [cause for cause in manifest_causes(after, "Pod", "v1") if cause.text not in OF_NEW_PODS]
    if subresource == "resize" and not (causes and not causes[0].field):  # it can be decoded
        causes += _resize_causes(before, after)
    return [*dict.fromkeys(causes)]


_COMPUTE, _SIZES = ("cpu", "memory"), ("resources", "resizePolicy")


def _written(old: Json, new: Json, subresource: str) -> Json:
    """Return a stored pod with the part of a new one that a write to a subresource sets."""
    before, after = part(old, "spec"), part(new, "spec")
    if subresource == "ephemeralcontainers":
        return old | {"spec": before | {"ephemeralContainers": after.get("ephemeralContainers")}}
    changes: Json = {"resources": after.get("resources")}
    for name in _LISTS:
        sent = {container.get("name"): container for container in parts(after, name)}
        changes[name] = [
            own | {key: sent.get(own.get("name"), own).get(key) for key in _SIZES}
            for own in parts(before, name)
        ]
    return old | {"spec": before | changes}


def _resize_causes(old: Json, new: Json) -> Iterator[Fault]:
    """What a resize of a pod may not change; of the new pod only resources and their policies count."""
    before, after = part(old, "spec"), part(new, "spec")
    quality = quality_of_service(before)
    if quality != quality_of_service(after):
        yield Fault("spec", f'Invalid value: "{quality}": {QUALITY}')
    running = [
        status
        for status in parts(part(old, "status"), "containerStatuses")
        if part(status, "state").get("running") is not None
    ]
    if running and running[0].get("resources") is None:
        yield Fault("spec", "Forbidden: Pod running on node without support for resize")
    for name in _LISTS:
        pairs = zip(parts(before, name), parts(after, name), strict=True)
        for at, (own, changed) in enumerate(pairs):
            for which in ("requests", "limits"):
                amounts = [part(part(container, "resources"), which) for container in (own, changed)]
                if not amounts[0].keys() <= amounts[1].keys():
                    field = f"spec.{name}[{at}].resources.{which}"
                    yield Fault(field, f"Forbidden: resource {which} cannot be removed")
    if _bare(_without_compute(before)) != _bare(_without_compute(after)):
        yield Fault("spec", "Forbidden: only cpu and memory resources are mutable")


def _without_compute(spec: Json) -> Json:
    """Return a spec without the processors and memory that a resize may change."""
    lists = {
        name: [
            item if name == "initContainers" and item.get("restartPolicy") != "Always" else _sized(item)
            for item in parts(spec, name)
        ]
        for name in _LISTS
    }
    return _sized(spec) | lists


def _sized(holder: Json) -> Json:
    amounts = {
        name: _without(part(part(holder, "resources"), name), *_COMPUTE) for name in ("limits", "requests")
    }
    return holder | {"resources": part(holder, "resources") | amounts}


def _without(value: Json, *names: str) -> Json:
    return {name: item for name, item in value.items() if name not in names and item not in (None, {}, [])}


def _bare(value: Any) -> Any:
    """Return a value without fields that are empty."""
    if isinstance(value, dict):
        bare = {name: _bare(item) for name, item in value.items()}
        return {name: item for name, item in bare.items() if item not in (None, "", {}, [], False)}
    return [_bare(item) for item in value] if isinstance(value, list) else value
