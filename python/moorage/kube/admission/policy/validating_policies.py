"""What ValidatingAdmissionPolicies say of a request: denials and warnings.

Rules: k8s.io/apiserver v0.36, pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ...cel.cel_errors import CompileError, NotKnownError
from ...cel.values import STRING
from ...model.admission_policies import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
    Validation,
)
from ...model.meta import Object
from .bound_policies import BOOLS, BoundPolicy, Parameters, ParamsError, PolicyBinding, bound_policies
from .conversions import converted
from .policy_expressions import (
    BudgetError,
    ExpressionError,
    Facts,
    PolicyRun,
    Program,
    compile_text,
    compile_variables,
    object_value,
)
from .policy_matching import Namespaces, PolicyRequest, VersionedResource, is_exempt

CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_LONGEST = 5 * 1024
_INVALID = "Invalid"


class Denial(NamedTuple):
    """Why a policy denies a request: the first reason of all counts, as the server tells no more.

    Attributes
    ----------
    text : str
        With the names of the policy and the binding.
    reason : str
        One of `CODES`.
    """

    text: str
    reason: str = _INVALID

    @property
    def code(self) -> int:
        """The status of the answer."""
        return CODES.get(self.reason, CODES[_INVALID])


class Judgement(NamedTuple):
    """What policies say of a request.

    Attributes
    ----------
    denials, warnings : list
        In the order of the policies, bindings, params and validations.
    not_known : dict of str to str
        Policies that could not be asked, with what the input does not tell.
    """

    denials: list[Denial]
    warnings: list[str]
    not_known: dict[str, str]


class _Validation(NamedTuple):
    """A validation that is compiled."""

    program: Program
    message: Program | None
    given: Validation


class _ValidatingPolicy(BoundPolicy[ValidatingAdmissionPolicySpec]):
    """A policy that validates."""

    @cached_property
    def _compiled(self) -> tuple[dict[str, Program], list[_Validation]]:
        variables, environment = compile_variables(self.spec.variables, self.environment)
        of_messages = environment._replace(has_authorizer=False)
        return variables, [
            _Validation(
                compile_text(given.expression, environment, BOOLS),
                compile_text(text, of_messages, (STRING,)) if (text := given.message_expression) else None,
                given,
            )
            for given in self.spec.validations
        ]

    def decisions(self, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield messages and reasons of what denies a request, errors included."""
        try:
            if not self.is_met(values):
                return
            variables, validations = self._compiled
        except (ExpressionError, CompileError) as error:
            if not self.ignores_failures:
                yield str(error), _INVALID
            return
        run, failed = PolicyRun(values, variables), list[tuple[_Validation, str]]()
        try:
            for validation in validations:
                try:
                    if run.value(validation.program) is not True:
                        failed.append((validation, ""))
                except ExpressionError as error:
                    if not self.ignores_failures:
                        failed.append((validation, str(error)))
        except BudgetError as error:
            if not self.ignores_failures:
                yield str(error), _INVALID
            return
        for validation, failure in failed:
            yield (
                (failure, _INVALID)
                if failure
                else (
                    self._message(validation, run),
                    validation.given.reason or _INVALID,
                )
            )

    def _message(self, validation: _Validation, run: PolicyRun) -> str:
        """Return the message of a validation that is not true: one line, and not too long."""
        message, given = "", validation.given
        if validation.message is not None:
            try:
                value = run.value(validation.message)
                message = value.strip() if isinstance(value, str) else ""
            except (ExpressionError, BudgetError, NotKnownError):
                message = ""
        if "\n" in message or len(message.encode()) > _LONGEST:
            message = ""
        return message or given.message.strip() or f"failed expression: {given.expression.strip()}"


class _Match(NamedTuple):
    """A policy with a binding that matches, and the resource as which a request is looked at."""

    policy: _ValidatingPolicy
    binding: PolicyBinding
    resource: VersionedResource


class ValidatingPolicies:
    """The ValidatingAdmissionPolicies of a cluster.

    Parameters
    ----------
    objects : iterable of Object
        Policies and bindings; others are ignored.
    namespaces : mapping
        The JSON values of namespaces by name.
    allows : bool or None
        What the authorizer says of everything; None where the rights of users are not known.
    """

    def __init__(
        self,
        objects: Iterable[Object],
        params: Parameters,
        namespaces: Namespaces,
        allows: bool | None = None,
    ) -> None:
        listed = list(objects)
        self._policies = bound_policies(
            [obj for obj in listed if isinstance(obj, ValidatingAdmissionPolicy)],
            [obj for obj in listed if isinstance(obj, ValidatingAdmissionPolicyBinding)],
            _ValidatingPolicy,
        )
        self._params, self._namespaces, self._allows = params, namespaces, allows

    def __bool__(self) -> bool:
        return bool(self._policies)

    def matching(self, request: PolicyRequest) -> list[_Match]:
        """Return the policies that match a request; of its objects, the metadata alone count."""
        if is_exempt(request):
            return []
        return [
            _Match(policy, *match)
            for policy in self._policies
            for match in policy.matching(request, self._namespaces)
        ]

    def judge(self, request: PolicyRequest, matching: Iterable[_Match]) -> Judgement:
        """Return what the policies that match a request say of it."""
        judgement = Judgement([], [], {})
        objects = object_value(request.object), object_value(request.old_object)
        own = request.resource
        namespace = None if request.is_namespace else self._namespaces.get(request.namespace)
        for policy, binding, resource in matching:
            facts = Facts(request, resource, None, namespace, self._allows)
            try:
                seen = objects
                if resource != own:
                    changed = converted(request, resource)
                    seen = object_value(changed.object), object_value(changed.old_object)
                messages = list(self._messages(policy, binding, facts, seen))
            except NotKnownError as error:
                judgement.not_known[policy.name] = str(error)
                continue
            for message, reason in messages:
                _note(judgement, policy.name, binding, message, reason)
        return judgement

    def _messages(
        self, policy: _ValidatingPolicy, binding: PolicyBinding, facts: Facts, objects: tuple[Any, Any]
    ) -> Iterator[tuple[str, str]]:
        try:
            params = self._params.of(policy.spec.param_kind, binding.spec.param_ref, facts.request.namespace)
        except ParamsError as error:
            if not policy.ignores_failures:
                yield f"failed to configure binding: {error}", _ALWAYS
            return
        for param in params:
            yield from policy.decisions(facts._replace(params=param).values(objects))


_ALWAYS = "*"
"""In place of a reason: denied whatever the actions of the binding are."""


def _note(judgement: Judgement, policy: str, binding: PolicyBinding, message: str, reason: str) -> None:
    """Do with a decision what its binding says."""
    named = f"ValidatingAdmissionPolicy '{policy}' with binding '{binding.name}'"
    for action in ("Deny",) if reason == _ALWAYS else binding.actions:
        if action == "Deny":
            text = f"{named} denied request: {message}"
            judgement.denials.append(Denial(text, _INVALID if reason == _ALWAYS else reason))
        elif action == "Warn":
            judgement.warnings.append(f"Validation failed for {named}: {message}")
