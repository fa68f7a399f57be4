"""How much of a device's capacity a request takes (KEP-5075)."""

from __future__ import annotations

from collections.abc import Mapping

from moorage._core.base.quantity import Quantity
from moorage.objects.model.resource_slices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
)

from .device_pools import PublishedDevice

Amounts = Mapping[str, Quantity]
"""Amount by capacity."""


def consumed_amount(requested: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    """Return the amount of a capacity that a request takes.

    Parameters
    ----------
    requested : Quantity or None
    capacity : DeviceCapacity

    Returns
    -------
    Quantity
        The policy's default, or all, without a request; else the request, rounded up as the policy says.
    """
    policy = capacity.request_policy
    if requested is None:
        if policy is not None and policy.default is not None:
            return Quantity(policy.default)
        return Quantity(capacity.value)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _up_to_step(requested, policy.valid_range)
    for value in policy.valid_values:
        if requested <= Quantity(value):
            return Quantity(value)
    return requested


def _up_to_step(requested: Quantity, valid: CapacityRequestPolicyRange) -> Quantity:
    least = Quantity(valid.min or 0)
    if requested < least:
        return least
    if valid.step is None or (step := Quantity(valid.step).value()) <= 0:
        return requested
    start = least.value()
    steps = -((start - requested.value()) // step)
    return _binary(start + step * steps)


def _binary(value: int) -> Quantity:
    """A quantity that is written with Ki, Mi, … where that is possible."""
    return Quantity("1Ki") + Quantity(value - 1024)  # a sum is written as its first term


def violates(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    """Whether a policy forbids an amount; its default is always allowed.

    Parameters
    ----------
    amount : Quantity
    policy : CapacityRequestPolicy or None

    Returns
    -------
    bool
    """
    if policy is None or (policy.default is not None and amount == Quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        valid = policy.valid_range
        if valid.max is not None and amount > Quantity(valid.max):
            return True
        step = 0 if valid.step is None else Quantity(valid.step).value()
        return step > 0 and (amount.value() - Quantity(valid.min or 0).value()) % step != 0
    if policy.valid_values:
        return all(amount != Quantity(value) for value in policy.valid_values)
    return False


def consumed_amounts(device: PublishedDevice, requests: Amounts) -> dict[str, Quantity]:
    """Return what a request takes of each capacity of a device.

    Parameters
    ----------
    device : PublishedDevice
    requests : Amounts

    Returns
    -------
    dict of str to Quantity
    """
    return {
        name: consumed_amount(requests.get(name), capacity)
        for name, capacity in device.device.capacity.items()
    }


def possible_amounts(device: PublishedDevice, requests: Amounts) -> list[Quantity] | None:
    """Return what a request takes of each capacity of a device, if the device can be used at all.

    Parameters
    ----------
    device : PublishedDevice
    requests : Amounts

    Returns
    -------
    list of Quantity or None
        In the order of the capacities; empty if there are neither requests nor policies, so that the request
        takes all. None if a requested capacity is missing, or a policy forbids the amount.
    """
    capacities = device.device.capacity
    if not requests.keys() <= capacities.keys():
        return None
    if not requests and not any(one.request_policy for one in capacities.values()):
        return []
    amounts = [consumed_amount(requests.get(name), capacity) for name, capacity in capacities.items()]
    if any(map(violates, amounts, [capacity.request_policy for capacity in capacities.values()])):
        return None
    return amounts


def has_capacity(device: PublishedDevice, requests: Amounts, consumed: Amounts, taken: Amounts) -> bool:
    """Whether a device has room for a request.

    Parameters
    ----------
    device : PublishedDevice
    requests : mapping of str to Quantity
        Requested capacities.
    consumed, taken : mapping of str to Quantity
        What allocations consume, and what a search has taken.
    """
    capacities = device.device.capacity
    if not requests.keys() <= capacities.keys():
        return False
    if (
        not requests
        and not consumed
        and not taken
        and not any(one.request_policy for one in capacities.values())
    ):
        return True
    for name, capacity in capacities.items():
        amount = consumed_amount(requests.get(name), capacity)
        if violates(amount, capacity.request_policy):
            return False
        for more in (consumed, taken):
            if name in more:
                amount += more[name]
        if amount > device.capacity[name]:
            return False
    return True
