"""Claims, classes and slices for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.make import make

from moorage.kube import DeviceClass, Node, ResourceClaim, ResourceSlice

DRIVER = "gpu.example.com"
Json = dict[str, Any]


def request(name: str = "r", count: int = 1, *selectors: str, **more: Any) -> Json:
    """A request for devices of the class gpu."""
    exactly: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    if selectors:
        exactly["selectors"] = _cel(selectors)
    return {"name": name, "exactly": exactly}


def _cel(expressions: Sequence[str]) -> list[Json]:
    return [{"cel": {"expression": each}} for each in expressions]


def claim(
    name: str,
    requests: Sequence[Json],
    constraints: Sequence[Json] = (),
    config: Sequence[Json] = (),
    **status: Any,
) -> ResourceClaim:
    """A claim of the namespace default."""
    devices = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    meta = {"uid": f"uid-{name}"}
    spec, full = {"devices": devices}, f"default/{name}"
    made: ResourceClaim = make("ResourceClaim", full, spec, metadata=meta, status=status)
    return made


def device_class(name: str = "gpu", *selectors: str, **spec: Any) -> DeviceClass:
    """A class whose devices fulfil CEL expressions."""
    made: DeviceClass = make("DeviceClass", name, {"selectors": _cel(selectors), **spec})
    return made


def device(name: str, attributes: Mapping[str, Any] | None = None, **more: Any) -> Json:
    """A device; attributes are integers, texts or booleans."""
    kinds = {bool: "bool", int: "int", str: "string"}
    typed = {key: {kinds[type(value)]: value} for key, value in (attributes or {}).items()}
    return {"name": name, "attributes": typed, **more}


def resource_slice(
    node: str,
    devices: Sequence[Json],
    pool: str = "",
    name: str = "",
    count: int = 1,
    generation: int = 1,
    **spec: Any,
) -> ResourceSlice:
    """One of `count` slices of a pool of a node."""
    pool = pool or f"pool-{node}"
    within = {"name": pool, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "nodeName": node, "pool": within, "devices": list(devices)} | spec
    made: ResourceSlice = make("ResourceSlice", name or f"slice-{pool}", spec)
    return made


def named_node(name: str) -> Node:
    made: Node = make("Node", name)
    return made
