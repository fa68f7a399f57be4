"""Expressions about a device: compiled once, evaluated for a device's properties
(k8s.io/dynamic-resource-allocation, cel/compile.go)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields as parts_of
from functools import cache, lru_cache
from typing import Any

from moorage._core.base.quantity import Quantity
from moorage.kube.cel.authorizer import add_authorizer_functions
from moorage.kube.cel.cel_errors import (
    CompileError,
    CostError,
    EvaluationError,
    Problem,
    ProgramError,
    begin_work,
)
from moorage.kube.cel.device_expressions import checked_device_expression
from moorage.kube.cel.kubernetes_functions import library
from moorage.kube.cel.parser import TOO_DEEP, Expression, Identifier, Select
from moorage.kube.cel.program import Evaluate, Evaluation, compile_expression
from moorage.kube.cel.text_formats import parse_semver
from moorage.kube.cel.type_checker import Library
from moorage.kube.cel.values import MapValue, type_of_value
from moorage.kube.model.resource_slices import Device, DeviceAttribute

from .claim_requests import SelectorError


class CompiledSelector:
    """A compiled expression.

    Parameters
    ----------
    reads_driver_alone : bool
        Whether the expression reads nothing else of a device.
    """

    def __init__(self, evaluate: Evaluate, reads_driver_alone: bool) -> None:
        self._evaluate, self.reads_driver_alone = evaluate, reads_driver_alone

    def matches(self, device: MapValue) -> bool:
        """Evaluate the expression for a device.

        Parameters
        ----------
        device : MapValue
            Result of `device_value`.

        Raises
        ------
        SelectorError
            There is no result, or one of another type, or it costs too much.
        """
        begin_work()
        try:
            result = self._evaluate(Evaluation({"device": device}))
            if isinstance(result, EvaluationError):
                raise result
        except (EvaluationError, CostError) as error:
            raise SelectorError(str(error)) from None
        except RecursionError:
            raise SelectorError(TOO_DEEP) from None
        if type(result) is bool:
            return result
        name = type_of_value(result).name
        raise SelectorError(
            f"CEL result of type {name} could not be converted to bool: {_REASONS.get(name, '')}"
        )


_REASONS = {
    "int": "unsupported type conversion from 'int' to bool",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
}


@lru_cache(4096)
def compile_selector(
    text: str, *, list_attributes: bool = False, includes: bool = True, suggests: bool = False
) -> CompiledSelector | CompileError:
    """Compile an expression about a device.

    Parameters
    ----------
    list_attributes : bool, default False
        Attributes may be lists (the feature gate DRAListTypeAttributes).
    includes : bool, default True
        The function ``includes`` is declared, as in each release since 1.36.
    suggests : bool, default False
        Errors about names may suggest others, as since 1.38.
    """
    try:
        suggestions = _suggestions() if suggests else None
        root = checked_device_expression(text, list_attributes, includes, suggestions)
        begin_work()
        return CompiledSelector(compile_expression(root), _reads_driver_alone(root))
    except CompileError as error:
        # It is kept: with its traceback, so would be all that the callers had in hand.
        error.__context__ = None
        return error.with_traceback(None)
    except EvaluationError as error:
        return ProgramError(str(error))
    except RecursionError:
        return CompileError(text, [Problem(0, TOO_DEEP)])


@cache
def _suggestions() -> Collection[str]:
    """The names in the environment of expressions upstream, which has those of an authorizer, too."""
    of_authorizer = Library()
    add_authorizer_functions(of_authorizer)
    return {"device", *library().functions, *of_authorizer.functions}


def _reads_driver_alone(root: Expression) -> bool:
    """Whether an expression reads nothing of a device but its driver."""
    left: list[Any] = [root]
    while left:
        node = left.pop()
        if isinstance(node, list | tuple):
            left += node
        elif isinstance(node, Select) and _is_device(node.operand) and node.name == "driver":
            continue
        elif _is_device(node):
            return False
        elif isinstance(node, Expression):
            left += [getattr(node, part.name) for part in parts_of(node)]
    return True


def _is_device(node: object) -> bool:
    return isinstance(node, Identifier) and node.name == "device"


def check_values(device: Device, list_attributes: bool = False) -> None:
    """Raise the error that `device_value` has for a device, if there is one.

    Parameters
    ----------
    list_attributes : bool, default False
        See `device_value`.

    Raises
    ------
    SelectorError
    """
    for name, attribute in device.attributes.items():
        read_attribute(name, attribute, list_attributes)


def device_value(
    driver: str, device: Device, list_attributes: bool = False, multiple_allocations: bool = True
) -> MapValue:
    """Return a device as the variable of expressions.

    Names without a domain belong to the driver's domain. An unknown domain has an empty map.

    Parameters
    ----------
    list_attributes : bool, default False
        Attributes may be lists (the feature gate DRAListTypeAttributes).
    multiple_allocations : bool, default True
        Whether expressions see that a device allows several allocations.

    Raises
    ------
    SelectorError
        A version is malformed, or an attribute is a list and may not be one.
    """
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in device.attributes.items():
        domain, identifier = _split(name, driver)
        attributes.setdefault(domain, {})[identifier] = read_attribute(name, attribute, list_attributes)
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in device.capacity.items():
        domain, identifier = _split(name, driver)
        capacity.setdefault(domain, {})[identifier] = Quantity(amount.value)
    return MapValue(
        {
            "driver": driver,
            "allowMultipleAllocations": multiple_allocations and bool(device.allow_multiple_allocations),
            "attributes": _by_domain(attributes),
            "capacity": _by_domain(capacity),
        }.items()
    )


def _by_domain(values: Mapping[str, Mapping[str, Any]]) -> MapValue:
    return MapValue([(domain, MapValue(inner.items())) for domain, inner in values.items()], gives_empty=True)


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def read_attribute(name: str, attribute: DeviceAttribute, list_attributes: bool = True) -> Any:
    """Return the value of an attribute.

    Raises
    ------
    SelectorError
        See `device_value`.
    """
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    if attribute.version is not None:
        return _version(name, attribute.version)
    if list_attributes and attribute.versions is not None:
        return tuple([_version(name, version) for version in attribute.versions])
    for values in (attribute.ints, attribute.bools, attribute.strings) if list_attributes else ():
        if values is not None:
            return values
    raise SelectorError(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> Any:
    try:
        return parse_semver(text)
    except EvaluationError as error:
        raise SelectorError(f"attribute {name}: parse semantic version: {error}") from None
