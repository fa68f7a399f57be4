"""Compiles the expressions of classes, claims and templates when they are read, as an API server does."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.errors import InputError
from moorage.kube import Object
from moorage.kube.cel.cel_errors import CompileError
from moorage.kube.model.resource_claims import (
    DeviceClass,
    DeviceSelector,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)


class SelectorValidation:
    """Refuses manifests with expressions that do not compile.

    Objects of a server, which has accepted them, only warn: pods that need them fail.

    Attributes
    ----------
    warnings : list of str
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def check(self, obj: Object) -> None:
        """Compile the expressions of an object.

        Parameters
        ----------
        obj : Object
            Of any kind.

        Raises
        ------
        InputError
            The object is a manifest, and an expression does not compile.
        """
        for path, selector in _selectors(obj):
            from .device_selector import compile_selector

            expression = "" if selector.cel is None else selector.cel.expression
            found = compile_selector(expression, list_attributes=True)  # gates are not known here
            if not isinstance(found, CompileError):
                continue
            path, message = f"{path}.cel.expression", str(found).partition("\n")[0]
            if not (obj.metadata.uid or obj.metadata.resource_version):
                raise InputError(message, path=path)
            self.warnings.append(f"{obj.kind} {obj.key}: {path}: {message}: pods that need it fail.")


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
        for number, one in enumerate(request.first_available):
            yield from _listed(f"{start}.firstAvailable[{number}].selectors", one.selectors)


def _listed(path: str, selectors: tuple[DeviceSelector, ...]) -> Iterator[tuple[str, DeviceSelector]]:
    return ((f"{path}[{at}]", one) for at, one in enumerate(selectors))
