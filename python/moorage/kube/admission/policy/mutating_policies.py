"""What MutatingAdmissionPolicies make of an object.

Rules: k8s.io/apiserver v0.36, pkg/admission/plugin/policy/mutating.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from moorage.lazy import NamedTuple

from ...apiserver.json_patch import PatchError, PatchTestError, patched
from ...cel.cel_errors import CompileError, EvaluationError, NotKnownError
from ...cel.values import MapValue, StructValue, list_of
from ...field_errors import Json
from ...model.admission_registration import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    MutatingAdmissionPolicySpec,
)
from .apply_configuration import applied, atomic_parts
from .bound_policies import BoundPolicies, BoundPolicy, ParamsError
from .policy_expressions import (
    OBJECT,
    PATCH,
    BudgetError,
    ExpressionError,
    Facts,
    PolicyRun,
    Program,
    compile_text,
    compile_variables,
    object_value,
)
from .policy_matching import PolicyRequest, is_exempt

_APPLY = "ApplyConfiguration"


class ServerPanicError(Exception):
    """The server of this release ends without an answer."""


class _PatchedError(Exception):
    """A patch cannot be made or applied; the message is the server's."""


class _CompiledMutation(NamedTuple):
    program: Program
    is_applied: bool


class _MutatingPolicy(BoundPolicy[MutatingAdmissionPolicySpec]):
    """A policy that mutates."""

    @cached_property
    def compiled(self) -> tuple[dict[str, Program], list[_CompiledMutation]]:
        """Variables and mutations."""
        environment = self.environment._replace(makes_patches=True)
        variables, environment = compile_variables(self.spec.variables, environment)
        mutations: list[_CompiledMutation] = []
        for mutation in self.spec.mutations:
            is_applied = mutation.patch_type == _APPLY
            given = mutation.apply_configuration if is_applied else mutation.json_patch
            result = OBJECT if is_applied else list_of(PATCH)
            text = "" if given is None else given.expression
            mutations.append(_CompiledMutation(compile_text(text, environment, (result,)), is_applied))
        return variables, mutations


class Mutated(NamedTuple):
    """What policies make of an object.

    Attributes
    ----------
    refusal : str
        Why the request is denied; "" where it is not.
    not_known : dict of str to str
        Policies that could not be asked, with what the input does not tell.
    """

    value: Json
    refusal: str
    not_known: dict[str, str]


class MutatingPolicies(BoundPolicies[_MutatingPolicy]):
    """The MutatingAdmissionPolicies of a cluster."""

    kinds = MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding
    bound = _MutatingPolicy

    def mutate(
        self,
        request: PolicyRequest,
        default: Callable[[Json], Json],
        between: Callable[[Json], Json] = lambda value: value,
    ) -> Mutated:
        """Return what the policies make of the object of a request.

        Parameters
        ----------
        default : callable
            Sets the defaults of a version.
        between : callable
            Runs the plugins before the policies once more, if these have changed the object.

        Raises
        ------
        ServerPanicError
            The server would end without an answer.
        """
        if is_exempt(request) or request.object is None:
            return Mutated(request.object or {}, "", {})
        turn = _Turn(self, default)
        value = turn.run(request, request.object, None)
        if not turn.refusal and value != request.object:
            again, before = between(value), value
            due = turn.previously if again != before else set()
            value = turn.run(request, again, turn.due | due)
        return Mutated(value, turn.refusal, turn.not_known)


_Key = tuple[str, str, int]


class _Turn:
    """The turn of the policies in one request: who ran, and who has to run again.

    Attributes
    ----------
    previously : set
        Policies with IfNeeded that ran since the object was last changed; with binding and param.
    due : set
        Those of them after which another one has changed the object.
    """

    def __init__(self, policies: MutatingPolicies, default: Callable[[Json], Json]) -> None:
        self._policies, self._default = policies, default
        self.previously: set[_Key] = set()
        self.due: set[_Key] = set()
        self.refusal = ""
        self.not_known: dict[str, str] = {}

    def run(self, request: PolicyRequest, value: Json, only: set[_Key] | None) -> Json:
        """Return an object as policies change it, one after the other; if `only` is given, those of it."""
        namespaces, params_of = self._policies.namespaces, self._policies.params.of
        for policy in self._policies.listed:
            for binding, resource in policy.matching(request._replace(object=value), namespaces):
                named = f"policy '{policy.name}' with binding '{binding.name}' denied request"
                try:
                    params = params_of(policy.spec.param_kind, binding.spec.param_ref, request.namespace)
                except ParamsError as error:
                    self._fail(policy, f"{named}: failed to configure binding: {error}")
                    continue
                except NotKnownError as error:
                    self.not_known[policy.name] = str(error)
                    continue
                for at, param in enumerate(params):
                    key = policy.name, binding.name, at
                    if only is not None and key not in only:
                        continue
                    facts = self._policies.facts(request._replace(object=value), resource)
                    facts, before = facts._replace(params=param), value
                    try:
                        value = self._mutated(policy, facts, value)
                    except (ExpressionError, CompileError, BudgetError, _PatchedError) as error:
                        self._fail(policy, f"{named}: {error}")
                    except NotKnownError as error:
                        self.not_known[policy.name] = str(error)
                    if value != before:
                        self.due |= self.previously
                        self.previously = set()
                    if policy.spec.reinvocation_policy == "IfNeeded":
                        self.previously.add(key)
        return value

    def _fail(self, policy: _MutatingPolicy, text: str) -> None:
        if not policy.ignores_failures:
            self.refusal = self.refusal or text

    def _mutated(self, policy: _MutatingPolicy, facts: Facts, value: Json) -> Json:
        if facts.resource != facts.request.resource:
            raise NotKnownError("how an object is changed in another version")
        old = object_value(facts.request.old_object)
        if not policy.is_met(facts.values((object_value(value), old))):
            return value
        variables, mutations = policy.compiled
        for mutation in mutations:
            values = facts.values((object_value(value), old))
            result = PolicyRun(values, variables).value(mutation.program)
            changed = _applied(value, result) if mutation.is_applied else _patched(value, result)
            value = self._default(changed)
        return value


# ---- patches -----------------------------------------------------------------------------------------------


def _applied(value: Json, configuration: StructValue) -> Json:
    """Return an object with a configuration applied."""
    _check_names(configuration, OBJECT.name)
    patch = _json(configuration)
    kind, version = str(value["kind"]), str(value["apiVersion"])
    if atomic := atomic_parts(patch, kind, version):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise _PatchedError(f"error applying patch: invalid ApplyConfiguration: {text}")
    return applied(value, patch, kind, version)


def _patched(value: Json, operations: Iterable[StructValue]) -> Json:
    """Return an object with a JSON patch applied."""
    plain: list[Json] = []
    for operation in operations:
        fields: dict[str, Any] = dict(operation.fields.items())
        if "value" in fields:
            if isinstance(given := fields["value"], StructValue):
                _check_names(given, given.of.name)
            elif isinstance(given, tuple) and any(isinstance(item, StructValue) for item in given):
                raise ServerPanicError  # kubernetes v1.36.2
            fields["value"] = _json(given)
        plain.append(fields)
    try:
        changed: Json = patched(value, plain)
    except PatchTestError:
        return value
    except PatchError as error:
        raise _PatchedError(f"JSON Patch: {error}") from None
    return changed


def _check_names(value: Any, path: str) -> None:
    """Check that the types of a configuration are named after the fields that they are in."""
    if isinstance(value, StructValue):
        if value.of.name != path:
            text = f'type mismatch: unexpected type name "{value.of.name}", expected "{path}"'
            raise _PatchedError(f"{text}, which matches field name path from root Object type")
        for name, item in value.fields.items():
            _check_names(item, f"{path}.{name}")
    elif isinstance(value, tuple):
        for item in value:
            _check_names(item, path)
    elif isinstance(value, MapValue):
        for _, item in value.items():
            _check_names(item, path)


def _json(value: Any) -> Any:
    """Return a value of CEL as a JSON value."""
    if isinstance(value, StructValue):
        return _json(value.fields)
    if isinstance(value, MapValue):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if isinstance(value, EvaluationError):
        raise value
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    raise _PatchedError(f"a value of {type(value).__name__} could not be written")
