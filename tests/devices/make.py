"""Claims, classes and slices for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moorage.objects import DeviceClass, Node, ResourceClaim, ResourceSlice, decode_object

DRIVER = "gpu.example.com"
Json = dict[str, Any]


def request(name: str = "r", count: int = 1, *selectors: str, **more: Any) -> Json:
    """A request for devices of the class gpu."""
    exactly: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    return {"name": name, "exactly": exactly}


def claim(
    name: str,
    requests: Sequence[Json],
    constraints: Sequence[Json] = (),
    config: Sequence[Json] = (),
    **status: Any,
) -> ResourceClaim:
    """A claim of the namespace default."""
    found = decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {
                "devices": {
                    "requests": list(requests),
                    "constraints": list(constraints),
                    "config": list(config),
                }
            },
            "status": status,
        }
    )
    assert isinstance(found, ResourceClaim)
    return found


def device_class(name: str = "gpu", *selectors: str, **spec: Any) -> DeviceClass:
    """A class whose devices fulfil CEL expressions."""
    found = decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": one}} for one in selectors], **spec},
        }
    )
    assert isinstance(found, DeviceClass)
    return found


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
    found = decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name or f"slice-{pool}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                "devices": list(devices),
                **spec,
            },
        }
    )
    assert isinstance(found, ResourceSlice)
    return found


def named_node(name: str) -> Node:
    found = decode_object({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    assert isinstance(found, Node)
    return found
