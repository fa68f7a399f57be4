"""How much of a device's capacity a request takes (KEP-5075)."""

from __future__ import annotations

from collections.abc import Mapping

from moorage._core.base.quantity import Quantity
from moorage.errors import MoorageError
from moorage.kube.model.resource_slices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
)

from ..features import Features
from .device_pools import PublishedDevice

Amounts = Mapping[str, Quantity]
"""Amount by capacity."""
_MOST = Quantity(2**63 - 1)
_UNREPRESENTABLE = "capacity request cannot be represented in the device's range arithmetic"


class CapacityError(MoorageError):
    """A request that takes no valid amount of a capacity; no device can be allocated then (v1.37)."""


def consumed_amount(requested: Quantity | None, capacity: DeviceCapacity, features: Features) -> Quantity:
    """Return the amount of a capacity that a request takes.

    Returns
    -------
    Quantity
        The policy's default, or all, without a request; else the request, rounded up as the policy says.

    Raises
    ------
    CapacityError
        The request cannot be rounded exactly.
    """
    policy = capacity.request_policy
    if requested is None:
        if policy is not None and policy.default is not None:
            return Quantity(policy.default)
        return Quantity(capacity.value)
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _up_to_step(requested, policy.valid_range, features)
    for value in policy.valid_values:
        if requested <= Quantity(value):
            return Quantity(value)
    return requested


def _up_to_step(requested: Quantity, valid: CapacityRequestPolicyRange, features: Features) -> Quantity:
    least = Quantity(valid.min or 0)
    if requested < least:
        return least
    if valid.step is None or (step := Quantity(valid.step)).value() <= 0:
        return requested
    in_thousandths = _is_in_thousandths(valid, features)
    if features.release.checks_amounts:
        if in_thousandths and _thousandths(requested) is None:
            raise CapacityError(f"{_UNREPRESENTABLE}: request {requested} is not a representable milli value")
        if not in_thousandths and requested > _MOST:
            raise CapacityError(f"{_UNREPRESENTABLE}: request {requested} exceeds MaxInt64")
    start, wanted, by = [_units(amount, in_thousandths) for amount in (least, requested, step)]
    rounded = start - (start - wanted) // by * by
    if not features.release.checks_amounts:
        return _written_like(Quantity("1Ki"), f"{rounded}")
    if start >= 0 and rounded > _MOST.value():
        limit = "the milli-value range" if in_thousandths else "MaxInt64"
        text = f"rounding request {requested} up to the next step passes {limit}"
        raise CapacityError(f"{_UNREPRESENTABLE}: {text}")
    return _written_like(step, f"{rounded}m" if in_thousandths else f"{rounded}")


def _written_like(one: Quantity, amount: str) -> Quantity:
    """An amount as another one is written, with Ki, Mi, … or k, M, …"""
    return one + (Quantity(amount) - one)  # a sum is written as its first term


def _thousandths(amount: Quantity) -> int | None:
    """The thousandths of an amount; None if this is not exact."""
    value: int = amount.milli_value()
    return value if Quantity(f"{value}m") == amount else None


def _units(amount: Quantity, in_thousandths: bool) -> int:
    return int(amount.milli_value() if in_thousandths else amount.value())


def _is_in_thousandths(valid: CapacityRequestPolicyRange, features: Features) -> bool:
    """Whether a range is one of thousandths: all of its bounds are."""
    if not features.fractional_capacity:
        return False
    bounds = [_thousandths(Quantity(text)) for text in (valid.min, valid.max, valid.step) if text is not None]
    return None not in bounds and (valid.step is None or Quantity(valid.step).milli_value() >= 1)


def violates(amount: Quantity, policy: CapacityRequestPolicy | None, features: Features) -> bool:
    """Whether a policy forbids an amount; its default is always allowed."""
    if policy is None or (policy.default is not None and amount == Quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        return _leaves_range(amount, policy.valid_range, features)
    if policy.valid_values:
        return all(amount != Quantity(value) for value in policy.valid_values)
    return False


def _leaves_range(amount: Quantity, valid: CapacityRequestPolicyRange, features: Features) -> bool:
    if valid.max is not None and amount > Quantity(valid.max):
        return True
    if valid.step is None:
        return False
    in_thousandths = _is_in_thousandths(valid, features)
    if in_thousandths and _thousandths(amount) is None:
        return True
    by = _units(Quantity(valid.step), in_thousandths)
    distance = _units(amount, in_thousandths) - _units(Quantity(valid.min or 0), in_thousandths)
    return by > 0 and distance % by != 0


def consumed_amounts(device: PublishedDevice, requests: Amounts, features: Features) -> dict[str, Quantity]:
    """Return what a request takes of each capacity of a device.

    Raises
    ------
    CapacityError
        The request cannot be rounded exactly, or is negative. Of several capacities the first tells.
    """
    found: dict[str, Quantity] = {}
    for name, capacity in device.device.capacity.items():
        try:
            found[name] = consumed_amount(requests.get(name), capacity, features)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if found[name].sign() < 0 and features.release.checks_amounts:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    return found


def possible_amounts(device: PublishedDevice, requests: Amounts, features: Features) -> list[Quantity] | None:
    """Return what a request takes of each capacity of a device, if the device can be used at all.

    Returns
    -------
    list of Quantity or None
        In the order of the capacities; empty if there are neither requests nor policies, so that the request
        takes all. None if a requested capacity is missing, or a policy forbids the amount.

    Raises
    ------
    CapacityError
        See `consumed_amounts`.
    """
    capacities = device.device.capacity
    if not requests.keys() <= capacities.keys():
        return None
    amounts = [*consumed_amounts(device, requests, features).values()]
    policies = [capacity.request_policy for capacity in capacities.values()]
    if not requests and not any(policies):
        return []
    is_forbidden = any(violates(*pair, features) for pair in zip(amounts, policies, strict=True))
    return None if is_forbidden else amounts


def has_capacity(
    device: PublishedDevice, requests: Amounts, features: Features, consumed: Amounts, taken: Amounts
) -> bool:
    """Whether a device has room for a request.

    Parameters
    ----------
    requests : mapping of str to Quantity
        Requested capacities.
    consumed, taken : mapping of str to Quantity
        What allocations consume, and what a search has taken.

    Raises
    ------
    CapacityError
        See `consumed_amounts`.
    """
    amounts = possible_amounts(device, requests, features)
    if amounts is None:
        return False
    if not amounts and not consumed and not taken:
        return True
    for (name, whole), amount in zip(
        device.capacity.items(), amounts or device.capacity.values(), strict=True
    ):
        for more in (consumed, taken):
            if name in more:
                amount += more[name]
        if amount > whole:
            return False
    return True
