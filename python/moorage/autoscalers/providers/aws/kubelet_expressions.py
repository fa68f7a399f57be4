"""Expressions of CEL in the kubelet settings of a node class, about an instance type.

Rules: Karpenter's provider for AWS v1.15.0, pkg/cel/environment.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite

from moorage.kube.cel.cel_errors import CompileError, CostError, EvaluationError, begin_work
from moorage.kube.cel.parser import parse
from moorage.kube.cel.program import Evaluate, Evaluation, compile_expression
from moorage.kube.cel.standard_functions import add_standard_functions
from moorage.kube.cel.type_checker import Library, TypeChecker
from moorage.kube.cel.values import DOUBLE, INT, STRING

Variables = Mapping[str, int | str]
_VARIABLES = dict.fromkeys(("vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods"), INT)
_VARIABLES |= {"instance_type": STRING}
_STEPS = {"cpu": (10, "m"), "memory": (16, "Mi"), "ephemeral-storage": (1, "Gi")}
"""To which multiples results are rounded up, and their units, by resource."""


def _number(choose: Callable[..., float], is_double: bool) -> Callable[[float, float], float]:
    def apply(left: float, right: float) -> float:
        return choose(float(left), float(right)) if is_double else choose(left, right)

    return apply


@cache
def _library() -> Library:
    library = Library()
    add_standard_functions(library)
    for name, choose in (("max", max), ("min", min)):
        for parameters in ((INT, INT), (DOUBLE, DOUBLE), (INT, DOUBLE), (DOUBLE, INT)):
            is_double = DOUBLE in parameters
            result = DOUBLE if is_double else INT
            library.function(name, parameters, result, _number(choose, is_double))
    return library


@cache
def _compiled(text: str) -> Evaluate | None:
    """The program of an expression; None for one that is not valid."""
    try:
        root = parse(text)
        result = TypeChecker(text, _library().functions, dict(_VARIABLES)).check(root)
        return compile_expression(root) if result in (INT, DOUBLE) else None
    except (CompileError, EvaluationError, RecursionError):
        return None


def evaluate(text: str, variables: Variables) -> int | None:
    """Return what an expression comes to, cut to a whole number; None if it fails or is below 0."""
    program = _compiled(text)
    if program is None:
        return None
    begin_work()
    try:
        result = program(Evaluation(dict(variables)))
    except (EvaluationError, CostError, RecursionError):
        return None
    if isinstance(result, int | float) and isfinite(result) and int(result) >= 0:
        return int(result)
    return None


def reserved(resource: str, text: str, variables: Variables) -> str | None:
    """Return the quantity of a resource that an expression means: millicores of cpu, Mi of memory."""
    number = evaluate(text, variables)
    if number is None:
        return None
    step, unit = _STEPS.get(resource, (1, ""))
    return f"{-(-number // step) * step}{unit}"
