"""The expressions of admission policies: what they may name, how they are compiled, and what they come to.

Rules: k8s.io/apiserver v0.36, pkg/admission/plugin/cel (environment, budgets, lazy variables).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from moorage.lazy import NamedTuple

from ...apiserver.unread_fields import is_hidden
from ...cel.authorizer import (
    AUTHORIZER,
    REQUEST_RESOURCE,
    RESOURCE_CHECK,
    THE_AUTHORIZER,
    add_authorizer_functions,
)
from ...cel.cel_errors import (
    CompileError,
    CostError,
    EvaluationError,
    NotKnownError,
    Problem,
    ProgramError,
    begin_work,
)
from ...cel.kubernetes_functions import library
from ...cel.parser import TOO_DEEP, parse
from ...cel.program import Evaluate, Evaluation, compile_expression, literal_problems
from ...cel.type_checker import Fields, Library, TypeChecker
from ...cel.values import (
    BOOL,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    CelType,
    MapValue,
    StructValue,
    list_of,
    map_of,
    of_json,
)
from ...field_errors import Json
from ...model.admission_registration import NamedExpression
from .policy_matching import PolicyRequest, VersionedResource

# ---- environment -------------------------------------------------------------------------------------------

OBJECT, PATCH = CelType("Object"), CelType("JSONPatch")
_VARIABLES, _NAMESPACE = CelType("kubernetes.variables"), CelType("kubernetes.Namespace")
_REQUEST, _USER = CelType("kubernetes.AdmissionRequest"), CelType("kubernetes.UserInfo")
_KIND, _RESOURCE = CelType("kubernetes.GroupVersionKind"), CelType("kubernetes.GroupVersionResource")
_METADATA, _SPEC = CelType("kubernetes.NamespaceMetadata"), CelType("kubernetes.NamespaceSpec")
_STATUS, _CONDITION = CelType("kubernetes.NamespaceStatus"), CelType("kubernetes.NamespaceCondition")
_TEXTS = list_of(STRING)
_STRUCTS: dict[str, dict[str, CelType]] = {
    _KIND.name: dict.fromkeys(("group", "version", "kind"), STRING),
    _RESOURCE.name: dict.fromkeys(("group", "version", "resource"), STRING),
    _USER.name: {"username": STRING, "uid": STRING, "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)},
    _REQUEST.name: {
        "kind": _KIND,
        "requestKind": _KIND,
        "resource": _RESOURCE,
        "requestResource": _RESOURCE,
        **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), STRING),
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
    _NAMESPACE.name: {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
    _METADATA.name: {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), STRING),
        **dict.fromkeys(("labels", "annotations"), map_of(STRING, STRING)),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), INT),
        "finalizers": _TEXTS,
    },
    _SPEC.name: {"finalizers": _TEXTS},
    _STATUS.name: {"phase": STRING, "conditions": list_of(_CONDITION)},
    _CONDITION.name: {
        **dict.fromkeys(("type", "status", "reason", "message"), STRING),
        "lastTransitionTime": TIMESTAMP,
    },
    AUTHORIZER.name: {REQUEST_RESOURCE: RESOURCE_CHECK},
}
_PATCH_FIELDS = {**dict.fromkeys(("op", "path", "from"), STRING), "value": DYN}


class Environment(NamedTuple):
    """What the expressions of a policy may name.

    Attributes
    ----------
    has_params : bool
        Whether the policy has a kind of params.
    has_authorizer : bool
        False for expressions of messages.
    makes_patches : bool
        Whether there are the types of patches.
    variables : tuple of (str, CelType)
        The policy's variables so far; None where there can be none.
    """

    has_params: bool = False
    has_authorizer: bool = True
    makes_patches: bool = False
    variables: tuple[tuple[str, CelType], ...] | None = None

    def names(self) -> dict[str, CelType]:
        """Return the types of all that has a name."""
        names = {"object": DYN, "oldObject": DYN, "request": _REQUEST, "namespaceObject": _NAMESPACE}
        if self.has_params:
            names["params"] = DYN
        if self.has_authorizer:
            names["authorizer"] = AUTHORIZER
        if self.variables is not None:
            names["variables"] = _VARIABLES
        return names

    def fields(self, name: str) -> Fields | None:
        """Return the fields of a type."""
        if name == _VARIABLES.name and self.variables is not None:
            return dict(self.variables).get
        if self.makes_patches and name == PATCH.name:
            return _PATCH_FIELDS.get
        if self.makes_patches and (name == OBJECT.name or name.startswith(f"{OBJECT.name}.")):
            return lambda _: DYN
        fields = _STRUCTS.get(name)
        return None if fields is None else fields.get


@cache
def _functions() -> dict[str, Any]:
    of_policies = Library()
    add_authorizer_functions(of_policies)
    of_policies.function("jsonpatch.escapeKey", [STRING], STRING, _escaped)
    known = {name: overloads for name, overloads in library().functions.items() if name != "includes"}
    for name, overloads in of_policies.functions.items():
        known[name] = [*known.get(name, ()), *overloads]
    return known


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


# ---- compilation -------------------------------------------------------------------------------------------


class Program(NamedTuple):
    """An expression that can be evaluated."""

    text: str
    evaluate: Evaluate
    type: CelType


class _WrongTypeError(CompileError):
    """The result of an expression has a type that it may not have."""

    def __init__(self, results: Sequence[CelType], given: CelType) -> None:
        name = given.name if given == NULL else given
        Exception.__init__(self, f"must evaluate to {results[0]} but got {name}")
        self.problems = []


@lru_cache(1 << 12)
def compile_text(text: str, environment: Environment, results: tuple[CelType, ...] = ()) -> Program:
    """Compile an expression of a policy.

    Parameters
    ----------
    results : tuple of CelType
        The types of which its result may be; by default all.

    Raises
    ------
    CompileError
        The server refuses the policy, with this text.
    """
    try:
        root = parse(text)
        checker = TypeChecker(text, _functions(), environment.names(), environment.fields)
        result = checker.check(root)
        if results and result not in results:
            raise _WrongTypeError(results, result)
        if problems := literal_problems(root, checker.final):
            raise CompileError(text, problems)
        begin_work()
        return Program(text, compile_expression(root), result)
    except EvaluationError as error:
        raise ProgramError(str(error)) from None
    except RecursionError:
        raise CompileError(text, [Problem(0, TOO_DEEP)]) from None


def compile_variables(
    variables: Iterable[NamedExpression], environment: Environment
) -> tuple[dict[str, Program], Environment]:
    """Compile the variables of a policy, of which each may name those before it.

    Raises
    ------
    CompileError
        As for `compile_text`.
    """
    programs: dict[str, Program] = {}
    environment = environment._replace(variables=())
    for variable in variables:
        programs[variable.name] = compile_text(variable.expression, environment)
        types = [(name, program.type) for name, program in programs.items()]
        environment = environment._replace(variables=tuple(types))
    return programs, environment


# ---- evaluation --------------------------------------------------------------------------------------------

BUDGET = 10_000_000
CONDITIONS_BUDGET = 2_500_000
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class ExpressionError(Exception):
    """An expression has no value; the message is the server's."""


class BudgetError(Exception):
    """The expressions of a policy have cost too much together."""


class Facts(NamedTuple):
    """The values of what expressions name."""

    request: PolicyRequest
    resource: VersionedResource
    params: Json | None = None
    namespace: Mapping[str, Any] | None = None

    def values(self, objects: tuple[Any, Any]) -> dict[str, Any]:
        """Return the values by name.

        Parameters
        ----------
        objects : tuple
            The object and the old one as values of CEL.
        """
        return {
            "object": objects[0],
            "oldObject": objects[1],
            "request": of_json(_request(self.request, self.resource)),
            "params": of_json(self.params),
            "namespaceObject": of_json(_exposed(self.namespace)),
            "authorizer": THE_AUTHORIZER,
        }


def object_value(value: Any) -> Any:
    """Return an object as a value of CEL; what digests stand for is not known."""
    kind = type(value)
    if kind is dict:
        return MapValue.lazy(value, object_value)
    if kind is list:
        return tuple([object_value(item) for item in value])
    return _HIDDEN if kind is str and is_hidden(value) else value


_HIDDEN = NotKnownError("arguments, commands and values of environment variables")


class PolicyRun:
    """One evaluation of a policy: values, variables that were needed, and the budget that is left.

    Parameters
    ----------
    variables : mapping of str to Program
        Of the policy. Each is evaluated when it is first needed, and once.
    """

    def __init__(
        self, values: Mapping[str, Any], variables: Mapping[str, Program], budget: int = BUDGET
    ) -> None:
        self._values = dict(values)
        self._values["variables"] = StructValue(_VARIABLES, _LazyFields(variables, self._of_variable))
        self._budget = budget

    def _of_variable(self, name: str, program: Program) -> Any:
        try:
            return self._evaluated(program)
        except NotKnownError:
            raise
        except EvaluationError as error:
            raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from None

    def _evaluated(self, program: Program) -> Any:
        evaluation = Evaluation(self._values)
        try:
            return program.evaluate(evaluation)
        finally:
            self._budget -= evaluation.cost

    def value(self, program: Program) -> Any:
        """Return the value of an expression.

        Raises
        ------
        ExpressionError
            It has none.
        NotKnownError
            It depends on what the input does not tell.
        BudgetError
            All expressions so far have cost too much.
        """
        begin_work()
        try:
            value = self._evaluated(program)
            if isinstance(value, EvaluationError):
                raise value
            failure = ""
        except NotKnownError:
            raise
        except (EvaluationError, CostError) as error:
            failure = str(error)
        except RecursionError:
            failure = TOO_DEEP
        if self._budget < 0:
            raise BudgetError(OUT_OF_BUDGET)
        if failure:
            raise ExpressionError(f"expression '{program.text}' resulted in error: {failure}")
        return value


class _LazyFields(MapValue):
    """Fields whose values are calculated when they are first read."""

    __slots__ = ("_make", "_programs")

    def __init__(self, programs: Mapping[str, Program], make: Callable[[str, Program], Any]) -> None:
        super().__init__()
        self._programs, self._make = programs, make

    def find(self, key: Any) -> tuple[Any, Any] | None:
        entry = self._entries.get(key)
        if entry is None and key in self._programs:
            entry = self._entries[key] = key, self._make(key, self._programs[key])
        return entry


def _request(request: PolicyRequest, resource: VersionedResource) -> Json:
    """The variable ``request`` as a JSON value."""
    own, user = request.resource, request.user
    of_kind, of_own = resource, own
    if request.subresource:
        group, _, version = str(request.either["apiVersion"]).rpartition("/")
        of_kind = of_own = VersionedResource(group, version, "")
    value = {
        "uid": "",
        "kind": {"group": of_kind.group, "version": of_kind.version, "kind": request.kind},
        "resource": {"group": resource.group, "version": resource.version, "resource": resource.name},
        "requestKind": {"group": of_own.group, "version": of_own.version, "kind": request.kind},
        "requestResource": {"group": own.group, "version": own.version, "resource": own.name},
        "operation": request.operation,
        "userInfo": {"username": user.username, "groups": [*user.groups]},
        "dryRun": False,
        "options": {"kind": f"{request.operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    named = {"name": request.name, "namespace": request.namespace}
    named |= dict.fromkeys(("subResource", "requestSubResource"), request.subresource)
    return value | {name: text for name, text in named.items() if text}


_EXPOSED = frozenset(_STRUCTS[_METADATA.name])


def _exposed(namespace: Mapping[str, Any] | None) -> Json | None:
    """What expressions see of a namespace."""
    if namespace is None:
        return None
    meta = {name: item for name, item in (namespace.get("metadata") or {}).items() if name in _EXPOSED}
    parts = {part: namespace[part] for part in ("spec", "status") if part in namespace}
    return {"metadata": meta} | parts
