"""What ValidatingAdmissionPolicies say of a request: denials and warnings.

Rules: k8s.io/apiserver v0.36, pkg/admission/plugin/policy/validating.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from moorage.lazy import NamedTuple

from ...cel.cel_errors import CompileError, NotKnownError
from ...cel.values import STRING
from ...model.admission_registration import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
    Validation,
)
from .bound_policies import BOOLS, BoundPolicies, BoundPolicy, Match, ParamsError, PolicyBinding
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
from .policy_matching import PolicyRequest

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


class ValidatingPolicies(BoundPolicies[_ValidatingPolicy]):
    """The ValidatingAdmissionPolicies of a cluster."""

    kinds = ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
    bound = _ValidatingPolicy

    def judge(self, request: PolicyRequest, matching: Iterable[Match[_ValidatingPolicy]]) -> Judgement:
        """Return what the policies that match a request say of it."""
        judgement = Judgement([], [], {})
        objects = object_value(request.object), object_value(request.old_object)
        for policy, binding, resource in matching:
            try:
                facts, seen = self.facts(request, resource), objects
                if resource != request.resource:
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
            params = self.params.of(policy.spec.param_kind, binding.spec.param_ref, facts.request.namespace)
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
