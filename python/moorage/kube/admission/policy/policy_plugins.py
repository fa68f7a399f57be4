"""The steps of the chain of admission that ask the policies of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import msgspec
from msgspec import structs

from moorage.errors import InputError

from ...apiserver.decode import decode_kind
from ...apiserver.refusals import refused_object
from ...cel.cel_errors import NotKnownError
from ...field_errors import Json, part, parts
from ...model.admission_registration import (
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    PolicyBindingSpec,
    PolicyParameter,
    ValidatingAdmissionPolicy,
)
from ...model.meta import Object
from ...model.node import Namespace
from ...model.pod import Pod
from ...plain import plain
from ...read.object_defaults import default_object, other_priority, priority_classes
from ...workloads.ownership import Names
from ..built_in_plugins import ServiceAccounts, switched_plugins
from ..manifest_validation import check_new
from ..request import AdmissionRequest, Decider, NotAdmittedError, StatusCause, creator_of
from ..stored.service_accounts import TOKEN_VOLUME, all_containers, with_account
from ..stored.version_defaults import with_version_defaults
from .bound_policies import Parameters
from .mutating_policies import MutatingPolicies, ServerPanicError
from .policy_matching import PolicyRequest, about
from .validating_policies import ValidatingPolicies

CLOSED = "the server closed the connection"
_UNREAD = "fields of the pod that the input does not tell"
_PARTS = r"spec|status|kind|apiVersion|metadata\s*\.\s*\??(?:labels|annotations|namespace)"
_READS_NAME = re.compile(
    rf"\b(?:object|oldObject)\b(?!\s*\.\s*\??(?:{_PARTS})\b)"
    r"|\brequest\b(?!\s*\.\s*\??(?!name\b|uid\b)[a-zA-Z])",
    re.ASCII,
)
"""Expressions that may depend on what pods of one template do not share."""
_READS_SPEC = re.compile(
    r"\bspec\b|\b(?:object|oldObject)\b(?!\s*\.\s*\??(?:status|kind|apiVersion|metadata)\b)", re.ASCII
)
"""Expressions that may depend on fields of a pod that nothing here reads."""


class AdmissionPolicies:
    """The admission policies of a cluster.

    Parameters
    ----------
    objects : iterable of Object
        Policies, bindings, namespaces, and the params of policies; other kinds are ignored.

    Attributes
    ----------
    not_known : dict of str to str
        Policies that could not be asked, with what the input does not tell.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        listed = list(objects)
        off = switched_plugins(listed).disabled  # by the names of the kinds
        listed = [obj for obj in listed if obj.kind not in off]
        namespaces = {obj.name: plain(obj) for obj in listed if isinstance(obj, Namespace)}
        policies = [
            obj for obj in listed if isinstance(obj, ValidatingAdmissionPolicy | MutatingAdmissionPolicy)
        ]
        is_whole = not any(policy.metadata.uid and policy.metadata.resource_version for policy in policies)
        params = Parameters([obj.value for obj in listed if isinstance(obj, PolicyParameter)], is_whole)
        self.validating = ValidatingPolicies(listed, params, namespaces)
        self.mutating = MutatingPolicies(listed, params, namespaces)
        of_pods = [policy.spec for policy in policies if _is_of_pods(policy.spec.match_constraints)]
        self._asks_about_pods = bool(of_pods)
        self._accounts, self._classes = ServiceAccounts(listed), priority_classes(listed)
        self._reads_name = any(_matches(_READS_NAME, spec) for spec in of_pods)
        self._reads_spec = any(_matches(_READS_SPEC, spec) for spec in of_pods)
        self.not_known: dict[str, str] = {}

    def notes(self) -> Iterator[str]:
        """Yield sentences about policies that could not be asked."""
        for name, why in self.not_known.items():
            yield f"The admission policy {name} is not asked, because the input does not tell {why}."

    def whole(self, request: AdmissionRequest) -> PolicyRequest:
        """Return a request with whole objects; a pod has its account.

        Raises
        ------
        NotKnownError
            The input does not tell all fields of the pod.
        """
        if isinstance(request.obj, Pod) and not request.subresource:
            if request.obj.unread is None and not request.document and self._reads_spec:
                raise NotKnownError(_UNREAD)
            with_account(request.value, self._accounts)
        return about(request, request.value, request.old_value)

    def changed(self, request: AdmissionRequest, value: Json) -> AdmissionRequest:
        """Return a request with another value of its object, which counts as sent: all of it is known.

        Raises
        ------
        NotAdmittedError
            It cannot be decoded.
        """
        meta = {name: item for name, item in value["metadata"].items() if name != "uid"}
        try:  # a pod without a UID is read as a new one: with the fields that are not read
            obj = decode_kind(value | {"metadata": meta}, request.obj.kind)
        except InputError as error:
            raise NotAdmittedError(str(error), 400, "BadRequest", is_whole=True) from None
        obj = structs.replace(obj, metadata=structs.replace(obj.metadata, uid=request.obj.metadata.uid))
        obj = default_object(obj, self._classes, Names(), admitted=True)
        return replace(request, obj=obj, sent=obj, document=value)

    def check_class(self, obj: Object) -> None:
        """Check that a pod which policies have changed has the priority of its class. That of its former
        class counts as if a user had given it.

        Raises
        ------
        NotAdmittedError
            It has another one, or a class that is not there.
        """
        if not isinstance(obj, Pod):
            return
        if (name := obj.spec.priority_class_name) and name not in self._classes:
            raise NotAdmittedError(f"no PriorityClass with name {name} was found")
        if (refusal := other_priority(obj.spec, self._classes)) is not None:
            raise NotAdmittedError(refusal)

    def mark(self, request: AdmissionRequest) -> Hashable:
        """Return what policies may read of a pod beside its namespace and its spec."""
        if not self._asks_about_pods:
            return None
        pod, meta = request.obj, request.obj.metadata
        own = (meta.name, meta.generate_name) if self._reads_name else ()
        unread = pod.unread if isinstance(pod, Pod) else None
        return (
            *own,
            tuple(sorted(meta.labels.items())),
            tuple(sorted(meta.annotations.items())),
            None if unread is None else str(unread),
            request.user,
            id(request.document) if request.document else 0,
        )


def _is_of_pods(resources: MatchResources) -> bool:
    """Whether pods may match."""
    rules = resources.resource_rules
    return not rules or any(not {"*", "pods", "*/*"}.isdisjoint(rule.resources) for rule in rules)


def _matches(pattern: re.Pattern[str], spec: Any) -> bool:
    """Whether one of the expressions of a policy matches."""
    texts = msgspec.json.decode(msgspec.json.encode(spec))
    return any(map(pattern.search, _expressions(texts)))


def _expressions(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _expressions(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _expressions(item, key)
    elif key.lower().endswith("expression") and isinstance(value, str):
        yield value


class ValidatingAdmissionPolicies(Decider):
    """What ValidatingAdmissionPolicies forbid, and warn of."""

    def __init__(self, policies: AdmissionPolicies) -> None:
        self._policies = policies

    def mark(self, request: AdmissionRequest) -> Hashable:
        """Return what policies may read beside namespace and spec."""
        return self._policies.mark(request)

    def validate(self, request: AdmissionRequest) -> Sequence[str]:
        """Refuse an object that a policy denies; return warnings."""
        policies = self._policies
        matching = policies.validating.matching(about(request))
        if not matching:
            return ()
        try:
            whole = policies.whole(request)
        except NotKnownError as error:
            policies.not_known.update({match.policy.name: str(error) for match in matching})
            return ()
        judgement = policies.validating.judge(whole, matching)
        policies.not_known.update(judgement.not_known)
        if judgement.denials:
            denial = judgement.denials[0]
            raise NotAdmittedError(
                denial.text, denial.code, denial.reason, [StatusCause("", "", denial.text)]
            )
        return judgement.warnings


class MutatingAdmissionPolicies(Decider):
    """What MutatingAdmissionPolicies make of objects.

    Parameters
    ----------
    again : callable
        Runs the steps before this one once more, after it has changed an object.
    """

    def __init__(
        self, policies: AdmissionPolicies, again: Callable[[AdmissionRequest], AdmissionRequest]
    ) -> None:
        self._policies, self._again = policies, again

    def mark(self, request: AdmissionRequest) -> Hashable:
        """Return what policies may read beside namespace and spec."""
        return self._policies.mark(request)

    def mutate(self, request: AdmissionRequest) -> AdmissionRequest:
        """Return a request with the object that policies make of its own."""
        policies = self._policies
        matching = policies.mutating.matching(about(request))
        if not matching:
            return request
        if request.subresource:
            why = f"what it makes of {request.resource}/{request.subresource}"
            policies.not_known.update({match.policy.name: why for match in matching})
            return request

        def between(value: Json) -> Json:
            changed = policies.changed(request, value)
            policies.check_class(changed.obj)
            return policies.whole(self._again(changed)).either

        try:
            mutated = policies.mutating.mutate(policies.whole(request), defaulted, between)
        except NotKnownError as error:
            policies.not_known.update({match.policy.name: str(error) for match in matching})
            return request
        except ServerPanicError:
            raise NotAdmittedError(CLOSED, 0, "NoResponse", is_whole=True) from None
        policies.not_known.update(mutated.not_known)
        if mutated.refusal:
            cause = StatusCause("", "", mutated.refusal)
            raise NotAdmittedError(mutated.refusal, 403, "Invalid", [cause], is_whole=True)
        if mutated.value == request.value:
            return request
        if isinstance(request.obj, Pod):
            _drop_token(mutated.value, {volume.name for volume in request.obj.spec.volumes})
        changed = policies.changed(request, mutated.value)
        _check(changed.obj, mutated.value)
        return changed


def as_each_makes_it(objects: Sequence[Object], pod: Pod) -> Iterator[Pod]:
    """Yield a new pod as each MutatingAdmissionPolicy makes it by itself, as if it were bound, and met its
    conditions; none where that is not known."""
    bindings = [obj for obj in objects if isinstance(obj, MutatingAdmissionPolicyBinding)]
    kinds = MutatingAdmissionPolicy | ValidatingAdmissionPolicy | MutatingAdmissionPolicyBinding
    others = [obj for obj in objects if not isinstance(obj, kinds)]
    for policy in objects:
        if isinstance(policy, MutatingAdmissionPolicy):
            refs = (each.spec.param_ref for each in bindings if each.spec.policy_name == policy.name)
            binding = MutatingAdmissionPolicyBinding(
                spec=PolicyBindingSpec(policy_name=policy.name, param_ref=next(refs, None))
            )
            rules = structs.replace(
                policy.spec.match_constraints, namespace_selector=None, object_selector=None
            )
            spec = structs.replace(policy.spec, match_conditions=(), match_constraints=rules)
            alone = AdmissionPolicies([*others, structs.replace(policy, spec=spec), binding])
            with suppress(NotAdmittedError):
                plugin = MutatingAdmissionPolicies(alone, lambda request: request)
                yield cast("Pod", plugin.mutate(AdmissionRequest(pod, user=creator_of(pod))).obj)


def defaulted(value: Json) -> Json:
    return with_version_defaults(value, value["kind"], value["apiVersion"])


def _drop_token(pod: Json, own: Container[str]) -> None:
    """Take the volume of the token off a pod again, which no other pod has here."""

    def is_kept(item: Json) -> bool:
        return not str(item.get("name")).startswith(TOKEN_VOLUME) or item.get("name") in own

    spec = part(pod, "spec")
    for holder, name in ((spec, "volumes"), *((each, "volumeMounts") for each in all_containers(spec))):
        kept = list(filter(is_kept, parts(holder, name)))
        holder.pop(name, None)
        if kept:
            holder[name] = kept


def _check(obj: Object, value: Json) -> None:
    """Check what policies have made of an object, as one that a user sends."""
    try:
        check_new(obj, msgspec.json.encode(value))
    except InputError as error:
        names = obj.kind, obj.api_version, obj.namespace, obj.name or obj.metadata.generate_name
        text = refused_object(error, names, "").message
        raise NotAdmittedError(text, 422, "Invalid", is_whole=True) from None
