"""Kinds of dynamic resource allocation that queueing hints read; files are not decoded into them."""

from __future__ import annotations

from typing import Any

from .meta import Object, Struct


class ResourceClaimStatus(Struct, frozen=True):
    """Status of a resource claim."""

    allocation: dict[str, Any] | None = None
    reserved_for: tuple[dict[str, Any], ...] = ()


class ResourceClaim(Object, frozen=True):
    """A resource claim (resource.k8s.io)."""

    kind: str = "ResourceClaim"
    api_version: str = "resource.k8s.io/v1"
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceSlice(Object, frozen=True):
    """A resource slice (resource.k8s.io)."""

    kind: str = "ResourceSlice"
    api_version: str = "resource.k8s.io/v1"


class DeviceClassSpec(Struct, frozen=True):
    """Spec of a device class."""

    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A device class (resource.k8s.io)."""

    kind: str = "DeviceClass"
    api_version: str = "resource.k8s.io/v1"
    spec: DeviceClassSpec = DeviceClassSpec()
