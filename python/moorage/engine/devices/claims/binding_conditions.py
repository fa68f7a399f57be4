"""Conditions that drivers report about allocated devices, and for which a pod's binding waits (KEP-5007)."""

from __future__ import annotations

from datetime import datetime

from moorage.errors import MoorageError
from moorage.kube.model.meta import Condition
from moorage.kube.model.resource_claims import DeviceRequestAllocationResult, ResourceClaim

POLL_INTERVAL = 5.0
"""Seconds between two looks at the conditions."""


class BindingError(MoorageError):
    """A device cannot be used on the chosen node."""


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether a device of a claim has binding conditions."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all binding conditions of a claim are true.

    The first device that is not ready decides: those after it are not looked at, even if they have failed.

    Returns
    -------
    bool
        False without an allocation.

    Raises
    ------
    BindingError
        A failure condition is true.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions_of(claim, result)
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                raise BindingError(
                    f"device binding failed: claim={claim.name}, reason={failed.reason}, "
                    f'message="{failed.message}"'
                )
        if not all(
            name in conditions and conditions[name].status == "True" for name in result.binding_conditions
        ):
            return False
    return True


def _conditions_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, Condition]:
    """The conditions of a device by type; of several shares of it the first that is reported counts."""
    device = result.driver, result.pool, result.device
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == device:
            return {condition.type: condition for condition in status.conditions}
    return {}


def is_overdue(claim: ResourceClaim, timeout: float, now: float) -> bool:
    """Whether the binding of a claim has taken too long.

    Parameters
    ----------
    timeout : float
        Seconds.
    now : float
        Seconds since 1970.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    return datetime.fromisoformat(allocation.allocation_timestamp).timestamp() + timeout <= now
