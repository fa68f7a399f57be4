"""Objects in another version of their group, for policies whose rules name that version.

Rules: kubernetes v1.36, pkg/apis/autoscaling/v1/conversion.go.
"""

from __future__ import annotations

from typing import Any

from ...cel.cel_errors import NotKnownError
from ...field_errors import Json
from .policy_matching import PolicyRequest, VersionedResource

_KEPT = ("scaleTargetRef", "minReplicas", "maxReplicas")
_TARGET = "targetCPUUtilizationPercentage"


def converted(request: PolicyRequest, resource: VersionedResource) -> PolicyRequest:
    """Return a request with its objects as a resource.

    Raises
    ------
    NotKnownError
        It is not known here what a server makes of a field.
    """
    values = (request.object, request.old_object)
    new, old = (None if value is None else _scaler(value, resource) for value in values)
    return request._replace(object=new, old_object=old)


def _scaler(value: Json, resource: VersionedResource) -> Json:
    """A HorizontalPodAutoscaler in another version."""
    spec = value.get("spec") or {}
    kept = {name: spec[name] for name in _KEPT if name in spec}
    if resource.version == "v1":
        metrics = spec.get("metrics") or []
        shares = [share for metric in metrics if (share := _cpu_share(metric)) is not None]
        if len(shares) < len(metrics) or len(shares) > 1 or spec.get("behavior"):
            raise NotKnownError("how metrics and behavior of an autoscaler look in autoscaling/v1")
        kept |= {_TARGET: shares[0]} if shares else {}
    elif _TARGET in spec:
        target = {"type": "Utilization", "averageUtilization": spec[_TARGET]}
        kept["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return value | {"apiVersion": f"{resource.group}/{resource.version}", "spec": kept}


def _cpu_share(metric: Any) -> int | None:
    """The target of a metric, if it is the utilization of cpu."""
    resource = metric.get("resource") or {} if metric.get("type") == "Resource" else {}
    share = (resource.get("target") or {}).get("averageUtilization")
    return share if resource.get("name") == "cpu" and isinstance(share, int) else None
