"""What requests compare of a device: expressions, taints, attributes, and the capacity that is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from moorage._core.base.quantity import Quantity
from moorage.errors import InputError, MoorageError
from moorage.kube import Object
from moorage.kube.cel.cel_errors import CompileError
from moorage.kube.model.node import REJECTING_EFFECTS
from moorage.kube.model.resource_claims import (
    DeviceClass,
    DeviceSelector,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from moorage.kube.model.resource_slices import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceCapacity,
    DeviceTaint,
)

from .claim_requests import Features, SelectorError
from .device_pools import PublishedDevice


def tolerates_taints(tolerations: Sequence[DeviceToleration], taints: Sequence[DeviceTaint]) -> bool:
    """Whether tolerations fit all taints that prevent an allocation."""
    return all(
        any(_fits(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect in REJECTING_EFFECTS
    )


def _fits(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


# ---- device capacity ---------------------------------------------------------------------------------------
# How much of a device's capacity a request takes (KEP-5075).

Amounts = Mapping[str, Quantity]
"""Amount by capacity."""
_MOST = Quantity(2**63 - 1)
_NEGATIVE = "capacity value is negative"
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
        The request cannot be rounded exactly, or is negative.
    """
    policy = capacity.request_policy
    if requested is None:
        if policy is not None and policy.default is not None:
            return Quantity(policy.default)
        return Quantity(capacity.value)
    if requested.sign() < 0 and features.release.negative_capacity_fails:
        raise CapacityError(_NEGATIVE)
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


def _written_like(quantity: Quantity, amount: str) -> Quantity:
    """An amount as another one is written, with Ki, Mi, … or k, M, …"""
    return quantity + (Quantity(amount) - quantity)  # a sum is written as its first term


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
    amounts: dict[str, Quantity] = {}
    requests = _as_spelt(device, requests, features)
    for name, capacity in device.device.capacity.items():
        try:
            amounts[name] = consumed_amount(requests.get(name), capacity, features)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amounts[name].sign() < 0 and features.release.checks_amounts:
            raise CapacityError(f'capacity "{name}": {_NEGATIVE}')
    return amounts


def _as_spelt(device: PublishedDevice, requests: Amounts, features: Features) -> Amounts:
    """Return requests of capacity by the names of a device: with or without the domain of its driver
    (`Release.capacity_names_have_domains`).

    Raises
    ------
    CapacityError
        Both spellings of a name are requested.
    """
    if not features.release.capacity_names_have_domains or not requests:
        return requests
    names = {_in_full(device, name): name for name in device.device.capacity}
    spelt: dict[str, Quantity] = {}
    for name, amount in requests.items():
        own = names.get(_in_full(device, name), name)
        if own in spelt:
            raise CapacityError(f'capacity "{own}" is requested twice, with and without the domain')
        spelt[own] = amount
    return spelt


def _in_full(device: PublishedDevice, name: str) -> str:
    return name if "/" in name else f"{device.id[0]}/{name}"


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
    requests = _as_spelt(device, requests, features)
    if not requests.keys() <= capacities.keys():
        return None
    amounts = [*consumed_amounts(device, requests, features).values()]
    policies = [capacity.request_policy for capacity in capacities.values()]
    if not requests and not any(policies):
        return []
    is_forbidden = any(violates(*pair, features) for pair in zip(amounts, policies, strict=True))
    return None if is_forbidden else amounts


# ---- selector cache ----------------------------------------------------------------------------------------
# The results of expressions for devices: each is evaluated once for devices of equal properties.

_LIMIT = 1 << 20


class SelectorCache:
    """Results by expression and properties of a device.

    Parameters
    ----------
    list_attributes, multiple_allocations : bool, optional
        See `device_value`.
    includes, suggests : bool, optional
        See `compile_selector`.
    """

    def __init__(
        self,
        *,
        list_attributes: bool = False,
        multiple_allocations: bool = True,
        includes: bool = True,
        suggests: bool = False,
    ) -> None:
        self._list_attributes, self._multiple_allocations = list_attributes, multiple_allocations
        self._dialect = {"list_attributes": list_attributes, "includes": includes, "suggests": suggests}
        self._results: dict[tuple[str, bytes], bool | SelectorError] = {}
        self._by_driver: dict[tuple[str, str], bool] = {}  # of expressions that read nothing else

    def matches(self, expression: str, device: PublishedDevice) -> bool:
        """Evaluate an expression for a device.

        Raises
        ------
        CompileError
            The expression cannot be compiled.
        SelectorError
            It has no result for the device.
        """
        key = expression, device.properties
        result = self._results.get(key)
        if result is None:
            result = self._evaluate(expression, device)
            if len(self._results) >= _LIMIT:
                self._results.clear()
                self._by_driver.clear()
            self._results[key] = result
        if isinstance(result, SelectorError):
            raise result.with_traceback(None)  # it is kept; each time would add to its traceback
        return result

    def _evaluate(self, expression: str, device: PublishedDevice) -> bool | SelectorError:
        from .device_selector import check_values, compile_selector, device_value

        selector = compile_selector(expression, **self._dialect)
        if isinstance(selector, CompileError):
            raise selector.with_traceback(None)  # as above
        driver, lists, multiple = device.id[0], self._list_attributes, self._multiple_allocations
        try:
            if not selector.reads_driver_alone:
                return selector.matches(device_value(driver, device.device, lists, multiple))
            check_values(device.device, lists)
            key = expression, driver
            if key not in self._by_driver:
                self._by_driver[key] = selector.matches(device_value(driver, device.device, lists, multiple))
            return self._by_driver[key]
        except SelectorError as error:
            return error


# ---- selector validation -----------------------------------------------------------------------------------
# Compiles the expressions of classes, claims and templates when they are read, as an API server does.


class SelectorValidation:
    """Refuses manifests with expressions that do not compile.

    Objects of a server, which has accepted them, only warn: pods that need them fail.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def check(self, obj: Object) -> None:
        """Compile the expressions of an object.

        Raises
        ------
        InputError
            The object is a manifest, and an expression does not compile.
        """
        if type(obj) not in _WITH_SELECTORS:
            return
        for path, selector in _selectors(obj):
            from .device_selector import compile_selector

            expression = "" if selector.cel is None else selector.cel.expression
            compiled = compile_selector(expression, list_attributes=True)  # gates are not known here
            if not isinstance(compiled, CompileError):
                continue
            path, message = f"{path}.cel.expression", str(compiled).partition("\n")[0]
            if not (obj.metadata.uid or obj.metadata.resource_version):
                raise InputError(message, path=path)
            self.warnings.append(f"{obj.full_name}: {path}: {message}: pods that need it fail.")


_WITH_SELECTORS = DeviceClass, ResourceClaim, ResourceClaimTemplate


def _selectors(obj: Object) -> Iterator[tuple[str, DeviceSelector]]:
    if isinstance(obj, DeviceClass):
        yield from _listed("spec.selectors", obj.spec.selectors)
    elif isinstance(obj, ResourceClaim):
        yield from _of_claim("spec", obj.spec)
    elif isinstance(obj, ResourceClaimTemplate):
        yield from _of_claim("spec.spec", obj.spec.spec)


def _of_claim(path: str, spec: ResourceClaimSpec) -> Iterator[tuple[str, DeviceSelector]]:
    for at, request in enumerate(spec.devices.requests):
        start = f"{path}.devices.requests[{at}]"
        if request.exactly is not None:
            yield from _listed(f"{start}.exactly.selectors", request.exactly.selectors)
        for number, alternative in enumerate(request.first_available):
            yield from _listed(f"{start}.firstAvailable[{number}].selectors", alternative.selectors)


def _listed(path: str, selectors: tuple[DeviceSelector, ...]) -> Iterator[tuple[str, DeviceSelector]]:
    return ((f"{path}[{at}]", selector) for at, selector in enumerate(selectors))
