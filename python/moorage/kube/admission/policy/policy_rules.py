"""What the API server refuses of admission policies and their bindings, when they are written.

Rules: kubernetes v1.36, pkg/apis/admissionregistration/validation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...cel.cel_errors import CompileError
from ...cel.parser import RESERVED
from ...cel.values import STRING, CelType, list_of
from ...field_errors import Fault, Json, duplicate, invalid, part, parts, required, unsupported
from ..field_checks import Rules, format_causes
from .bound_policies import BOOLS
from .policy_expressions import OBJECT, PATCH, Environment, compile_text

_MOST_CONDITIONS = 64
_ACTIONS = ("Audit", "Deny", "Warn")
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API "
    "response and headers serves no purpose)"
)
_WORD = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_NOT_SPECIFIED = "expression is not specified"


def _text(value: Json, name: str) -> str:
    item = value.get(name)
    return item if isinstance(item, str) else ""


def _compiled(
    value: Json, path: str, environment: Environment, results: tuple[CelType, ...] = (), *, absent: str = ""
) -> Iterator[Fault]:
    """What is wrong with the expression of a part."""
    text = _text(value, "expression")
    if not text.strip():
        yield Fault(f"{path}.expression", required(absent))
        return
    try:
        compile_text(text, environment, results)
    except CompileError as error:
        yield Fault(f"{path}.expression", invalid(text, str(error)))


def _policy_errors(value: Json, path: str, makes_patches: bool) -> Iterator[Fault]:
    """Yield what is wrong with what both kinds of policies have; the environment comes from `_declared`."""
    has_params = isinstance(value.get("paramKind"), dict)
    environment = Environment(has_params=has_params, makes_patches=makes_patches)
    yield from _condition_errors(value, path, environment._replace(makes_patches=False))


def _condition_errors(value: Json, path: str, environment: Environment) -> Iterator[Fault]:
    conditions, names = parts(value, "matchConditions"), set[str]()
    if len(conditions) > _MOST_CONDITIONS:
        text = f"Too many: {len(conditions)}: must have at most {_MOST_CONDITIONS} items"
        yield Fault(f"{path}.matchConditions", text)
        return
    for at, condition in enumerate(conditions):
        field, name = f"{path}.matchConditions[{at}]", _text(condition, "name")
        yield from _compiled(condition, field, environment, BOOLS)
        if not name:
            yield Fault(f"{field}.name", required())
            continue
        yield from format_causes("qualifiedName", name, f"{field}.name")
        if name in names:
            yield Fault(f"{field}.name", duplicate(name))
        names.add(name)


def _declared(value: Json, path: str, makes_patches: bool) -> tuple[list[Fault], Environment]:
    """Return what is wrong with the variables of a policy, and what its expressions may name."""
    faults, types = list[Fault](), dict[str, CelType]()
    has_params = isinstance(value.get("paramKind"), dict)
    environment = Environment(has_params=has_params, makes_patches=makes_patches, variables=())
    for at, variable in enumerate(parts(value, "variables")):
        field, name = f"{path}.variables[{at}]", _text(variable, "name")
        if not name.strip():
            faults.append(Fault(f"{field}.name", required("name is not specified")))
        elif not _WORD.fullmatch(name) or name in RESERVED or name in ("true", "false", "null", "in"):
            faults.append(Fault(f"{field}.name", invalid(name, "name is not a valid CEL identifier")))
        wrong = [*_compiled(variable, field, environment, absent=_NOT_SPECIFIED)]
        faults += wrong
        if not wrong:
            types[name] = compile_text(_text(variable, "expression"), environment).type
            environment = environment._replace(variables=tuple(types.items()))
    return faults, environment


def _validating_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A ValidatingAdmissionPolicy."""
    yield from _policy_errors(value, path, False)
    faults, environment = _declared(value, path, False)
    yield from faults
    for at, validation in enumerate(parts(value, "validations")):
        yield from _validation_errors(validation, f"{path}.validations[{at}]", environment)


def _validation_errors(value: Json, path: str, environment: Environment) -> Iterator[Fault]:
    yield from _compiled(value, path, environment, BOOLS, absent=_NOT_SPECIFIED)
    expression, message = _text(value, "messageExpression"), _text(value, "message")
    if expression and not expression.strip():
        why = "must be non-empty if specified"
        yield Fault(f"{path}.messageExpression", invalid(expression, why))
    elif expression:
        try:
            compile_text(expression, environment._replace(has_authorizer=False), (STRING,))
        except CompileError as error:
            yield Fault(f"{path}.messageExpression", invalid(expression, str(error)))
    if message and not message.strip():
        yield Fault(f"{path}.message", invalid(message, "message must be non-empty if specified"))
    elif "\n" in message.strip():
        yield Fault(f"{path}.message", invalid(message, "message must not contain line breaks"))
    elif not message and "\n" in _text(value, "expression").strip():
        why = "message must be specified if expression contains line breaks"
        yield Fault(f"{path}.message", required(why))


def _mutating_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A MutatingAdmissionPolicy."""
    yield from _policy_errors(value, path, True)
    faults, environment = _declared(value, path, True)
    yield from faults
    forms = {
        "ApplyConfiguration": ("applyConfiguration", OBJECT),
        "JSONPatch": ("jsonPatch", list_of(PATCH)),
    }
    for at, mutation in enumerate(parts(value, "mutations")):
        field, patch_type = f"{path}.mutations[{at}]", _text(mutation, "patchType")
        if patch_type in forms:
            name, result = forms[patch_type]
            if mutation.get(name) is None:
                yield Fault(f"{field}.{name}", required(f"must be specified when patchType is {patch_type}"))
            else:
                patch = part(mutation, name)
                yield from _compiled(patch, f"{field}.{name}", environment, (result,), absent=_NOT_SPECIFIED)


def _rule_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A rule of operations and resources."""
    for name, what in (("operations", "operations"), ("apiGroups", "API groups")):
        yield from _wildcard_errors(value, path, name, what)
    yield from _wildcard_errors(value, path, "apiVersions", "API versions")


def _wildcard_errors(value: Json, path: str, name: str, what: str) -> Iterator[Fault]:
    items = value.get(name) or []
    if not items:
        yield Fault(f"{path}.{name}", required())
    elif len(items) > 1 and "*" in items:
        why = f"if '*' is present, must not specify other {what}"
        yield Fault(f"{path}.{name}", invalid(items, why))


def _action_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    actions, field = value.get("validationActions") or [], f"{path}.validationActions"
    for at, action in enumerate(actions):
        if action not in _ACTIONS:
            yield Fault(f"{field}[{at}]", unsupported(action, _ACTIONS))
        elif action in actions[:at]:
            yield Fault(f"{field}[{at}]", duplicate(action))
    if "Deny" in actions and "Warn" in actions:
        yield Fault(field, invalid(actions, _BOTH))


def _param_ref_errors(value: Json, path: str, _root: Json) -> Iterator[Fault]:
    """A reference to params."""
    has_name, has_selector = bool(_text(value, "name")), value.get("selector") is not None
    if not has_name and not has_selector:
        yield Fault(path, required("one of name or selector must be specified"))


_OF = "admissionregistration.v1."
RULES: Rules = {
    f"{_OF}ValidatingAdmissionPolicySpec": (_validating_errors,),
    f"{_OF}MutatingAdmissionPolicySpec": (_mutating_errors,),
    f"{_OF}ValidatingAdmissionPolicyBindingSpec": (_action_errors,),
    f"{_OF}NamedRuleWithOperations": (_rule_errors,),
    f"{_OF}ParamRef": (_param_ref_errors,),
}
"""By struct, the rules between its fields."""
