"""Dynamic resource allocation, as far as queueing hints read it; files are not read into these structs."""

from __future__ import annotations

from typing import Any

from .meta import Object, Struct


class ResourceClaimStatus(Struct, frozen=True):
    allocation: dict[str, Any] | None = None
    reserved_for: tuple[dict[str, Any], ...] = ()


class ResourceClaim(Object, frozen=True):
    kind: str = "ResourceClaim"
    api_version: str = "resource.k8s.io/v1"
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceSlice(Object, frozen=True):
    kind: str = "ResourceSlice"
    api_version: str = "resource.k8s.io/v1"


class DeviceClassSpec(Struct, frozen=True):
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    kind: str = "DeviceClass"
    api_version: str = "resource.k8s.io/v1"
    spec: DeviceClassSpec = DeviceClassSpec()
