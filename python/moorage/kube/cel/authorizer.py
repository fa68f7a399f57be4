"""The authorizer: what a user may do (k8s.io/apiserver, pkg/cel/library/authz.go)."""

from __future__ import annotations

from typing import Any

from .cel_errors import NotKnownError
from .type_checker import Library
from .values import BOOL, STRING, CelType, MapValue, StructValue

_GROUP = "kubernetes.authorization."
AUTHORIZER = CelType(f"{_GROUP}Authorizer")
RESOURCE_CHECK = CelType(f"{_GROUP}ResourceCheck")
_PATH_CHECK, _GROUP_CHECK = CelType(f"{_GROUP}PathCheck"), CelType(f"{_GROUP}GroupCheck")
_DECISION = CelType(f"{_GROUP}Decision")
_CHECK_COST = 350_000
REQUEST_RESOURCE = "requestResource"


THE_AUTHORIZER = StructValue(
    AUTHORIZER, MapValue([(REQUEST_RESOURCE, StructValue(RESOURCE_CHECK, MapValue()))])
)
"""The rights of users are not known, so it can be named, and says nothing."""


def add_authorizer_functions(library: Library) -> None:
    """Add the overloads of this module."""
    steps = (
        ("path", AUTHORIZER, 1, _PATH_CHECK),
        ("group", AUTHORIZER, 1, _GROUP_CHECK),
        ("serviceAccount", AUTHORIZER, 2, AUTHORIZER),
        ("resource", _GROUP_CHECK, 1, RESOURCE_CHECK),
        *(
            (name, RESOURCE_CHECK, 1, RESOURCE_CHECK)
            for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
        ),
    )
    for name, of, texts, result in steps:
        library.member(name, [of, *[STRING] * texts], result, _step(result))
    for of in (_PATH_CHECK, RESOURCE_CHECK):
        library.member("check", [of, STRING], _DECISION, _step(_DECISION), lambda *_: _CHECK_COST)
    library.member("allowed", [_DECISION], BOOL, _is_allowed)
    library.member("errored", [_DECISION], BOOL, lambda _: False)
    library.member("error", [_DECISION], STRING, lambda _: "")
    library.member("reason", [_DECISION], STRING, lambda _: "")


def _step(result: CelType) -> Any:
    return lambda value, *_: StructValue(result, value.fields)


def _is_allowed(decision: StructValue) -> bool:
    raise NotKnownError("the rights of users")
