"""Which requests a policy or webhook is for: its rules, and its selectors of namespaces and objects.

Rules: k8s.io/apiserver v0.36, pkg/admission/plugin: policy/matching and webhook/predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from moorage._core.base.selectors import LabelSelectorMatcher
from moorage.lazy import NamedTuple

from ...field_errors import Json
from ...model.admission_registration import ADMISSION_GROUP, EXACT, MatchResources, ResourceRule
from ...model.meta import LabelSelector, Object, plural_of
from ..request import ADMIN, AdmissionRequest, UserInfo

_ANY, _NAME = "*", "kubernetes.io/metadata.name"
_EXEMPT = (
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    *("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
)
_EQUIVALENT = (
    (
        ("autoscaling", "v2", "horizontalpodautoscalers"),
        ("autoscaling", "v1", "horizontalpodautoscalers"),
    ),
)
"""Resources that are stored as one kind, as far as a default server serves several of them."""


class VersionedResource(NamedTuple):
    """A resource in a version of its group."""

    group: str
    version: str
    name: str


@cache
def _resource_of(api_version: str, kind: str) -> VersionedResource:
    group, _, version = api_version.rpartition("/")
    return VersionedResource(group, version, plural_of(kind))


class PolicyRequest(NamedTuple):
    """A request, as policies and webhooks see it.

    Attributes
    ----------
    object : dict or None
        The JSON value of the object with defaults and mutations; None for a deletion.
    old_object : dict or None
        What is stored; None for a creation.
    subresource : str
        To which the object is sent, of one of another kind.
    parent : (str, str)
        Version and kind of that one.
    """

    operation: str
    object: Json | None
    old_object: Json | None = None
    user: UserInfo = ADMIN
    subresource: str = ""
    parent: tuple[str, str] = ("", "")

    @property
    def either(self) -> Json:
        """The object, or the old one of a deletion."""
        value = self.old_object if self.object is None else self.object
        assert value is not None
        return value

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.either.get("kind", ""))

    @property
    def resource(self) -> VersionedResource:
        """The resource of the object, or of the one to whose subresource it is sent."""
        if self.subresource:
            return _resource_of(*self.parent)
        return _resource_of(str(self.either.get("apiVersion", "")), self.kind)

    @property
    def name(self) -> str:
        """The name of the object; "" where the server makes one up."""
        return str(self._meta.get("name") or "")

    @property
    def namespace(self) -> str:
        """The namespace of the object; of a Namespace its own name."""
        return self.name if self.is_namespace else str(self._meta.get("namespace") or "")

    @property
    def is_namespace(self) -> bool:
        """Whether the object is a Namespace."""
        return self.kind == "Namespace" and self.resource.group == ""

    @property
    def _meta(self) -> Json:
        return self.either.get("metadata") or {}


def about(
    request: AdmissionRequest, value: Json | None = None, old_value: Json | None = None
) -> PolicyRequest:
    """Return a request as policies and webhooks see it.

    Parameters
    ----------
    value, old_value : dict, optional
        Those of the request; by default the metadata alone, which tell who is asked.
    """
    obj, old = request.obj, request.old
    if value is None:
        value = _head(obj) if request.sent_to is None else request.sent_to
        old_value = request.was if old is None else _head(old)
    if request.operation == "DELETE":
        value, old_value = None, value
    parent = (obj.api_version, obj.kind) if request.subresource else ("", "")
    return PolicyRequest(request.operation, value, old_value, request.user, request.subresource, parent)


def _head(obj: Object) -> Json:
    meta = obj.metadata
    named = {"name": meta.name, "namespace": meta.namespace, "labels": meta.labels}
    return {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": named}


Namespaces = Mapping[str, Mapping[str, Any]]
"""The JSON values of namespaces by name."""
Reviews = Callable[[PolicyRequest, Namespaces], bool]
"""Whether a request is one of those that somebody decides about."""


class ResourceMatcher:
    """The requests that a policy, a binding or a webhook is for.

    Parameters
    ----------
    resources : MatchResources
        With the match policy Equivalent, a request may match as another version than that of its object.
    """

    def __init__(self, resources: MatchResources) -> None:
        self._rules, self._excluded = resources.resource_rules, resources.exclude_resource_rules
        self._is_exact = resources.match_policy == EXACT
        self._of_namespaces = _selector(resources.namespace_selector)
        self._of_objects = _selector(resources.object_selector)

    def resource(self, request: PolicyRequest, namespaces: Namespaces) -> VersionedResource | None:
        """Return the resource as which a request matches; None where it does not."""
        if self._of_namespaces is not None and not _is_in(self._of_namespaces, request, namespaces):
            return None
        if self._of_objects is not None and not _is_selected(self._of_objects, request):
            return None
        if first_match(self._excluded, request, self._is_exact) is not None:
            return None
        return first_match(self._rules, request, self._is_exact) if self._rules else request.resource


def is_exempt(request: PolicyRequest) -> bool:
    """Whether policies never see an object: it is one that configures admission itself."""
    own = request.resource
    return own.group == ADMISSION_GROUP and own.name in _EXEMPT


def first_match(
    rules: Sequence[ResourceRule], request: PolicyRequest, is_exact: bool
) -> VersionedResource | None:
    """Return the resource as which a request matches the first of some rules; None where it matches none."""
    resources = [request.resource]
    if not is_exact:
        resources += _equivalents(request.resource)
    for resource in resources:
        for rule in rules:
            if _matches(rule, resource, request):
                return resource
    return None


def _equivalents(own: VersionedResource) -> Iterator[VersionedResource]:
    for alike in _EQUIVALENT:
        if own in alike:
            yield from (VersionedResource(*other) for other in alike if other != own)


def _matches(rule: ResourceRule, resource: VersionedResource, request: PolicyRequest) -> bool:
    return (
        _is_in_scope(rule.scope, request)
        and _has(rule.operations, request.operation)
        and _has(rule.api_groups, resource.group)
        and _has(rule.api_versions, resource.version)
        and any(_is_named(name, resource.name, request.subresource) for name in rule.resources)
        and (not rule.resource_names or request.name in rule.resource_names)
    )


def _is_in_scope(scope: str, request: PolicyRequest) -> bool:
    if scope in ("", _ANY):
        return True
    return (scope == "Namespaced") == (bool(request.namespace) and not request.is_namespace)


def _has(allowed: Sequence[str], value: str) -> bool:
    return _ANY in allowed or value in allowed


def _is_named(rule: str, name: str, subresource: str) -> bool:
    wanted, _, its = rule.partition("/")
    return wanted in (_ANY, name) and its in (_ANY, subresource)


def selects(selector: LabelSelector, value: Json) -> bool:
    """Whether a selector selects an object by its labels."""
    matcher = _selector(selector)
    return matcher is None or bool(matcher.matches(_labels(value)))


def _selector(selector: LabelSelector | None) -> LabelSelectorMatcher | None:
    """A parsed selector; None for one that selects everything."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    return LabelSelectorMatcher(selector)


def _is_in(selector: LabelSelectorMatcher, request: PolicyRequest, namespaces: Namespaces) -> bool:
    """Whether the namespace of a request is selected; objects without a namespace are in all."""
    name = request.namespace
    if not name:
        return True
    is_own = request.is_namespace and request.object is not None
    namespace = request.object if is_own else namespaces.get(name)
    return bool(selector.matches({_NAME: name} if namespace is None else _labels(namespace)))


def _is_selected(selector: LabelSelectorMatcher, request: PolicyRequest) -> bool:
    """Whether the object or the old one is selected."""
    values = (request.object, request.old_object)
    return any(selector.matches(_labels(value)) for value in values if value is not None)


def _labels(value: Mapping[str, Any]) -> dict[str, str]:
    return (value.get("metadata") or {}).get("labels") or {}
