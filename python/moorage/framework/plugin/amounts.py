"""What pods request under feature gates, and amounts of resources as quantities, for texts."""

from __future__ import annotations

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import PodGates, pod_requests
from moorage.objects.model.pod import Pod
from moorage.releases import FeatureGates

_ZERO = Quantity("0")
_BINARY = Quantity("1Ki")


def asked_by(pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a pending pod asks for, as the scheduler computes it (fit.go, computePodResourceRequest).

    Returns
    -------
    dict of str to Quantity
        By resource name.
    """
    return pod_requests(pod, gates, resizes=False)


def held_by(pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a pod on a node holds of it: resizes in progress count, and what its devices take.

    Returns
    -------
    dict of str to Quantity
        By resource name.
    """
    return pod_requests(pod, gates, claims=gates.node_allocatable_claims)


def gates_of_changes(gates: FeatureGates) -> PodGates:
    """Return how requests are counted where a pod before and after a change is compared.

    spec.resources counts in any case (kube-scheduler v1.36, framework/events.go
    extractPodResourceRequestEvents, fit.go isSchedulableAfterPodScaleDown).
    """
    return PodGates(
        pod_level_resizing=gates["InPlacePodLevelResourcesVerticalScaling"],
        resizes_by_sums=gates.release.resizes_by_sums,
    )


def unit(resource: str) -> str:
    """Return the unit in which a resource is counted."""
    if resource == "cpu":
        return "millicores"
    if resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-"):
        return "bytes"
    return "count"


def quantity_text(resource: str, amount: int) -> str:
    """Return an amount of a resource as the shortest quantity, in binary multiples for bytes.

    Parameters
    ----------
    amount : int
        Millicores, bytes, or the resource's own unit.
    """
    match unit(resource):
        case "millicores":
            return str(Quantity(f"{amount}m") + _ZERO)
        case "bytes":
            return str(_BINARY + Quantity(amount) - _BINARY)
    return str(amount)
