"""Names of resources, by what counts or limits them (kubernetes v1.36, pkg/apis/core/validation)."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from moorage._core.base.label_syntax import requirement_errors

from ..model.meta import is_native

Use = Literal["container", "quota", "claim"]
"""What a resource is of, or what counts it."""
HUGE_PAGES = "hugepages-"
COMPUTE = {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
"""Quotas of processors and memory."""
_COUNTED = {
    *("pods", "resourcequotas", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"),
    *("services", "services.nodeports", "services.loadbalancers"),
}
_REQUESTS = "requests."
_STORAGE = {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"}
_QUOTAS = COMPUTE | _COUNTED | _STORAGE
_CONTAINERS = {"cpu", "memory", "ephemeral-storage"}


def is_quota(name: str) -> bool:
    """Whether a quota has a resource as one of Kubernetes."""
    return name in _QUOTAS or name.startswith((HUGE_PAGES, _REQUESTS + HUGE_PAGES))


def is_counted(name: str) -> bool:
    """Whether amounts of a resource are integers."""
    return name in _COUNTED or _is_extended(name)


def can_exceed(name: str) -> bool:
    """Whether a limit may be above the request: the resource can be overcommitted."""
    return is_native(name) and not name.startswith(HUGE_PAGES)


@lru_cache(maxsize=4096)
def name_errors(name: str, use: Use) -> tuple[str, ...]:
    """Return what is wrong with the name of a resource."""
    if text := _syntax_error(name):
        return (text,)
    if "/" in name:
        is_wrong = use == "container" and not (is_native(name) or _is_extended(name))
        return ("doesn't follow extended resource name standard",) if is_wrong else ()
    errors = []
    if not (is_quota(name) or name == "storage"):
        errors.append("must be a standard resource type or fully qualified")
    if use == "container" and not (name in _CONTAINERS or name.startswith(HUGE_PAGES)):
        errors.append("must be a standard resource for containers")
    if use == "quota" and not is_quota(name):
        errors.append("must be a standard resource for quota")
    return tuple(errors)


def _is_extended(name: str) -> bool:
    """Whether a resource is none of Kubernetes; a quota names it with a prefix, once."""
    return not (is_native(name) or name.startswith(_REQUESTS) or _syntax_error(_REQUESTS + name))


def _syntax_error(name: str) -> str:
    """Return what makes a name no qualified name: its rules are those of label keys."""
    return "; ".join([text for _, _, text in requirement_errors(name, "Exists", ())])
