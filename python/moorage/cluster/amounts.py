"""What pods request, and amounts of resources as quantities, for texts."""

from __future__ import annotations

from collections.abc import Iterable

from moorage._core.base.quantity import Quantity
from moorage._core.base.resources import ZERO, PodGates, pod_requests
from moorage.kube import Pod
from moorage.kube.admission.validate_object import QUOTA_OF_CLASS

_BINARY = Quantity("1Ki")
_MULTIPLES = "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"
_SHOWN_FIRST = ("cpu", "memory", "pods", "ephemeral-storage")


def asked_by(pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a pending pod asks for, as the scheduler computes (fit.go, computePodResourceRequest)."""
    return pod_requests(pod, gates, resizes=False)


def held_by(pod: Pod, gates: PodGates) -> dict[str, Quantity]:
    """Return what a pod on a node holds of it: resizes in progress count, and what its devices take."""
    return pod_requests(pod, gates, claims=gates.node_allocatable_claims)


def in_shown_order(resources: Iterable[str]) -> list[str]:
    """Return names of resources in the order in which summaries and pages show them."""
    names = set(resources)
    return [name for name in _SHOWN_FIRST if name in names] + sorted(names.difference(_SHOWN_FIRST))


def of_quota(name: str) -> str:
    """Return the resource that a quota counts by a name such as requests.cpu; a name of its own else."""
    resource = name.partition(QUOTA_OF_CLASS)[2] or name
    return resource.removeprefix("requests.").removeprefix("limits.")


def unit(resource: str) -> str:
    """Return the unit in which a resource is counted, also by the names that quotas have for it."""
    resource = of_quota(resource)
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
            return str(Quantity(f"{amount}m") + ZERO)
        case "bytes":
            return str(_BINARY + Quantity(amount) - _BINARY)
    return str(amount)


def readable(resource: str, amount: int) -> str:
    """Return an amount as people write it, in about three digits: ``3.5`` cpu, ``500m``, ``14.5Gi``.

    Parameters
    ----------
    amount : int
        As for `quantity_text`.
    """
    if unit(resource) == "millicores" and abs(amount) > 1000:
        return f"{amount / 1000:g}"
    if unit(resource) != "bytes" or not amount:
        return quantity_text(resource, amount)
    at = min((abs(amount).bit_length() - 1) // 10, len(_MULTIPLES) - 1)
    value = amount / (1 << 10 * at)
    digits = f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}".removesuffix(".0")
    return f"{digits}{_MULTIPLES[at]}"


def offered(resource: str, amount: int) -> str:
    """Return an amount that is to be written into a manifest: as people write it if that is exactly it."""
    text, exact = readable(resource, amount), quantity_text(resource, amount)
    return text if Quantity(text) == Quantity(exact) else exact


def compared(resource: str, *amounts: int) -> tuple[str, ...]:
    """Return amounts as people write them, exactly where two that differ would read alike."""
    texts = tuple(readable(resource, amount) for amount in amounts)
    if len(set(texts)) == len(set(amounts)):
        return texts
    return tuple(quantity_text(resource, amount) for amount in amounts)
