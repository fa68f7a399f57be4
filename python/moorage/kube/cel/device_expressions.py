"""Expressions about a device, as far as their types tell
(k8s.io/dynamic-resource-allocation, cel/compile.go)."""

from __future__ import annotations

from collections.abc import Collection

from .cel_errors import CompileError, ResultTypeError
from .kubernetes_functions import library
from .parser import Expression, parse
from .program import literal_problems
from .type_checker import TypeChecker
from .values import ANY, BOOL, DEVICE, DYN, QUANTITY, STRING, map_of

FIELDS = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, ANY)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
LISTS = {"attributes": map_of(STRING, map_of(STRING, DYN))}


def checked_device_expression(
    text: str,
    list_attributes: bool = False,
    includes: bool = True,
    suggestions: Collection[str] | None = None,
) -> Expression:
    """Parse an expression about a device, and check its types.

    Parameters
    ----------
    list_attributes : bool
        Attributes may be lists (the feature gate DRAListTypeAttributes).
    includes : bool
        The function ``includes`` is declared, as in each release since 1.36.
    suggestions : collection of str, optional
        The names that errors may suggest.

    Raises
    ------
    CompileError, EvaluationError, RecursionError
        It is malformed, or has another type than bool.
    """
    root = parse(text)
    fields = FIELDS | LISTS if list_attributes else FIELDS
    functions = library().functions
    if not includes:
        functions = {name: overloads for name, overloads in functions.items() if name != "includes"}
    checker = TypeChecker(text, functions, {"device": DEVICE}, {DEVICE.name: fields.get}.get, suggestions)
    result = checker.check(root)
    if problems := literal_problems(root, checker.final):
        raise CompileError(text, problems)
    if result not in (BOOL, ANY, *([DYN] if list_attributes else ())):
        raise ResultTypeError(str(result))
    return root
