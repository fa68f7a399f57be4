"""Policies with their bindings and params: what both kinds of admission policies have in common.

Rules: k8s.io/apiserver v0.36, pkg/admission/plugin/policy/generic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from moorage.lazy import NamedTuple

from ...cel.cel_errors import NotKnownError
from ...cel.values import BOOL
from ...field_errors import Json, aggregate
from ...model.admission_registration import IGNORE, ParamKind, ParamRef, PolicyBindingSpec, PolicySpec
from ...model.meta import Object
from .policy_expressions import (
    CONDITIONS_BUDGET,
    BudgetError,
    Environment,
    ExpressionError,
    Facts,
    PolicyRun,
    Program,
    compile_text,
)
from .policy_matching import (
    Namespaces,
    PolicyRequest,
    ResourceMatcher,
    VersionedResource,
    is_exempt,
    selects,
)

# ---- params ------------------------------------------------------------------------------------------------

_WITH_NAMESPACE = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
_NO_PARAMS = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ParamsError(Exception):
    """A policy or binding cannot be evaluated; the message is the server's."""


class Parameters:
    """The objects that parametrise policies.

    Parameters
    ----------
    objects : iterable of dict
        JSON values of objects of any kind.
    is_whole : bool
        Whether a kind without objects here has none in the cluster either; else nothing is known of it.
    """

    def __init__(self, objects: Iterable[Json] = (), is_whole: bool = True) -> None:
        self._is_whole = is_whole
        self._objects: defaultdict[tuple[str, str], list[Json]] = defaultdict(list)
        for value in objects:
            self._objects[value.get("apiVersion", ""), value.get("kind", "")].append(value)

    def of(self, kind: ParamKind | None, ref: ParamRef | None, namespace: str) -> list[Json | None]:
        """Return the params of a binding; None stands for a binding without any.

        Raises
        ------
        ParamsError
            There have to be some.
        NotKnownError
            The input has no objects of the kind.
        """
        if kind is None or ref is None:
            return [None]
        listed = self._objects.get((kind.api_version, kind.kind), [])
        if not listed and not self._is_whole:
            raise NotKnownError(f"objects of the kind {kind.kind}")
        if not listed or any(_of_meta(value, "namespace") for value in listed):
            listed = self._within(listed, ref.namespace or namespace)
        elif ref.namespace:
            raise ParamsError(_WITH_NAMESPACE)
        if ref.name:
            listed = [value for value in listed if _of_meta(value, "name") == ref.name]
        elif ref.selector is not None:
            listed = [value for value in listed if selects(ref.selector, value)]
        if not listed and ref.parameter_not_found_action == "Deny":
            raise ParamsError(_NO_PARAMS)
        return [*listed]

    def _within(self, listed: list[Json], namespace: str) -> list[Json]:
        if not namespace:
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise ParamsError(text)
        return [value for value in listed if _of_meta(value, "namespace") == namespace]


def _of_meta(value: Json, name: str) -> str:
    return str((value.get("metadata") or {}).get(name) or "")


# ---- policies with bindings --------------------------------------------------------------------------------

S = TypeVar("S", bound=PolicySpec)


BOOLS = (BOOL,)


class PolicyBinding(NamedTuple):
    """A binding with what it matches; None matches all."""

    name: str
    spec: PolicyBindingSpec
    matcher: ResourceMatcher | None

    @property
    def actions(self) -> tuple[str, ...]:
        """What a denial does."""
        return getattr(self.spec, "validation_actions", ())


class BoundPolicy(Generic[S]):
    """A policy with its bindings, compiled when it first matches."""

    def __init__(self, name: str, spec: S, bindings: Sequence[Any]) -> None:
        self.name, self.spec = name, spec
        self.ignores_failures = spec.failure_policy == IGNORE
        self.matcher = ResourceMatcher(spec.match_constraints)
        self._bindings = [
            PolicyBinding(binding.name, binding.spec, resources and ResourceMatcher(resources))
            for binding in bindings
            for resources in (binding.spec.match_resources,)
        ]

    @cached_property
    def environment(self) -> Environment:
        """What expressions may name, but for variables."""
        return Environment(has_params=self.spec.param_kind is not None)

    @cached_property
    def _conditions(self) -> list[Program]:
        expressions = [condition.expression for condition in self.spec.match_conditions]
        return [compile_text(expression, self.environment, BOOLS) for expression in expressions]

    def matching(
        self, request: PolicyRequest, namespaces: Namespaces
    ) -> Iterator[tuple[PolicyBinding, VersionedResource]]:
        """Yield the bindings that match a request, with the resource as which it is looked at.

        Of its objects, the metadata alone count.
        """
        resource = self.matcher.resource(request, namespaces)
        if resource is None:
            return
        for binding in self._bindings:
            if binding.matcher is None or binding.matcher.resource(request, namespaces) is not None:
                yield binding, resource

    def is_met(self, values: Mapping[str, Any]) -> bool:
        """Whether the match conditions are met.

        Raises
        ------
        ExpressionError
            None is false, and some have no value.
        """
        run, failures = PolicyRun({**values, "namespaceObject": None}, {}, CONDITIONS_BUDGET), list[str]()
        try:
            for condition in self._conditions:
                try:
                    if run.value(condition) is False:
                        return False
                except ExpressionError as error:
                    failures.append(str(error))
        except BudgetError as error:
            failures = [str(error)]
        if failures and not self.ignores_failures:
            raise ExpressionError(aggregate(failures))
        return not failures


B = TypeVar("B", bound=BoundPolicy[Any])


class Match(NamedTuple, Generic[B]):
    """A policy with a binding that matches, and the resource as which a request is looked at."""

    policy: B
    binding: PolicyBinding
    resource: VersionedResource


class BoundPolicies(Generic[B]):
    """The policies of one kind that have bindings, in the order of their names.

    Parameters
    ----------
    objects : iterable of Object
        Policies and bindings; others are ignored.
    namespaces : mapping
        The JSON values of namespaces by name.

    Attributes
    ----------
    kinds : tuple of type
        Of policies, and of their bindings.
    """

    kinds: ClassVar[tuple[type[Object], type[Object]]]
    bound: type[B]

    def __init__(self, objects: Iterable[Object], params: Parameters, namespaces: Namespaces) -> None:
        of_kinds: dict[type[Object], list[Any]] = {kind: [] for kind in self.kinds}
        for obj in objects:
            if (same := of_kinds.get(type(obj))) is not None:
                same.append(obj)
        policies, bindings = (sorted(same, key=attrgetter("name")) for same in of_kinds.values())
        of_policy: defaultdict[str, list[Any]] = defaultdict(list)
        for binding in bindings:
            of_policy[binding.spec.policy_name].append(binding)
        self.listed = [
            self.bound(policy.name, policy.spec, of_policy[policy.name])
            for policy in policies
            if policy.name in of_policy
        ]
        self.params, self.namespaces = params, namespaces

    def matching(self, request: PolicyRequest) -> list[Match[B]]:
        """Return the policies that match a request; of its objects, the metadata alone count."""
        policies = () if is_exempt(request) else self.listed
        return [
            Match(policy, *match)
            for policy in policies
            for match in policy.matching(request, self.namespaces)
        ]

    def facts(self, request: PolicyRequest, resource: VersionedResource) -> Facts:
        """Return what expressions may know of a request as a resource, without params."""
        namespace = None if request.is_namespace else self.namespaces.get(request.namespace)
        return Facts(request, resource, namespace=namespace)
