"""Which requests the policies of Kyverno and Gatekeeper decide about. Their patterns, templates and
expressions are not evaluated.

What a policy is known to leave alone does not match; what depends on more than the request and its namespace,
such as who makes it, may match.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from ...apiserver.decode import decode
from ...field_errors import Json
from ...model.admission_registration import MatchResources
from ...workloads.kind_rules import map_of
from ..rules.scheduling_rules import selects
from .policy_matching import Namespaces, PolicyRequest, ResourceMatcher, Reviews


def _maps(value: Json, field: str) -> list[Json]:
    return [item for item in _list(value, field) if isinstance(item, dict)]


def _list(value: Json, field: str) -> list[Any]:
    item = value.get(field)
    return item if isinstance(item, list) else []


def _labels(value: Any) -> dict[str, str]:
    return map_of(value, "metadata", "labels")


def _namespace_labels(request: PolicyRequest, namespaces: Namespaces) -> dict[str, str]:
    if request.is_namespace:
        return _labels(request.either)
    own = {"metadata": {"labels": {"kubernetes.io/metadata.name": request.namespace}}}
    return _labels(namespaces.get(request.namespace, own))


# ---- Kyverno -----------------------------------------------------------------------------------------------

_DECIDE = ("ValidatingPolicy", "ImageValidatingPolicy", "MutatingPolicy")
"""Kinds with the constraints of Kubernetes' own policies; with this prefix they are for one namespace."""
_NAMESPACED = "Namespaced"
_MAKERS = (
    *("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet", "CronJob"),
)
"""The kinds for which a rule about pods is written anew, unless an annotation says which."""
_AUTOGEN = "pod-policies.kyverno.io/autogen-controllers"
_BY_USER = ("subjects", "roles", "clusterRoles")


def kyverno_reviews(kind: str, value: Json) -> Reviews | None:
    """Return which requests a policy of Kyverno decides about; None for an object that decides about none.

    Parameters
    ----------
    value : dict
        The policy as a JSON value.
    """
    spec = map_of(value, "spec")
    own = map_of(value, "metadata").get("namespace", "")
    if kind in ("ClusterPolicy", "Policy"):
        rules = [rule for rule in _maps(spec, "rules") if _decides(rule)]
        namespace = own if kind == "Policy" else ""
        return partial(_any_rule, spec, rules, _makers(value), namespace) if rules else None
    if kind.removeprefix(_NAMESPACED) not in _DECIDE:
        return None
    actions = spec.get("validationActions")
    if actions and "Deny" not in actions and not kind.endswith("MutatingPolicy"):
        return None
    matcher = ResourceMatcher(decode(map_of(spec, "matchConstraints"), MatchResources))
    return partial(_constrained, matcher, own if kind.startswith(_NAMESPACED) else "")


def _constrained(
    matcher: ResourceMatcher, namespace: str, request: PolicyRequest, namespaces: Namespaces
) -> bool:
    return namespace in ("", request.namespace) and matcher.resource(request, namespaces) is not None


def _decides(rule: Json) -> bool:
    """Whether a rule refuses or changes the object of a request."""
    mutate = map_of(rule, "mutate")
    return bool(rule.get("validate") or rule.get("verifyImages") or (mutate and not mutate.get("targets")))


def _makers(policy: Json) -> tuple[str, ...]:
    named = map_of(policy, "metadata", "annotations").get(_AUTOGEN)
    if named is None:
        return _MAKERS
    return tuple([kind.strip() for kind in str(named).split(",")])


def _any_rule(
    spec: Json,
    rules: Iterable[Json],
    makers: tuple[str, ...],
    namespace: str,
    request: PolicyRequest,
    namespaces: Namespaces,
) -> bool:
    if namespace not in ("", request.namespace) or (namespace and request.is_namespace):
        return False
    return any(
        _enforces(spec, rule, request.namespace) and _takes(rule, makers, request, namespaces)
        for rule in rules
    )


def _enforces(spec: Json, rule: Json, namespace: str) -> bool:
    """Whether a rule refuses what is wrong in a namespace, and does not only report it."""
    validate = rule.get("validate")
    if not isinstance(validate, dict):
        return True  # it changes the object
    holders = ((validate, "failureAction"), (spec, "validationFailureAction"))
    for holder, field in holders:
        for override in _maps(holder, f"{field}Overrides"):
            if any(fnmatchcase(namespace, str(name)) for name in override.get("namespaces") or ()):
                return str(override.get("action", "")).lower() == "enforce"
        if action := holder.get(field):
            return str(action).lower() == "enforce"
    return False


def _takes(rule: Json, makers: tuple[str, ...], request: PolicyRequest, namespaces: Namespaces) -> bool:
    match, exclude = map_of(rule, "match"), map_of(rule, "exclude")
    filters = [*_maps(match, "any"), *_maps(match, "all"), match]
    kinds = {str(kind) for each in filters for kind in map_of(each, "resources").get("kinds") or ()}
    takes = partial(_filter_takes, makers if kinds == {"Pod"} else (), request, namespaces)
    if not _combined(match, takes):
        return False
    return not (exclude and _combined(exclude, takes, knows_user=False))


def _combined(block: Json, takes: Any, knows_user: bool = True) -> bool:
    """Whether a request is in the filters of a match or an exclusion.

    Parameters
    ----------
    knows_user : bool, optional
        False where a filter by users counts as one that does not hold.
    """

    def holds(each: Json) -> bool:
        by_user = any(each.get(field) for field in _BY_USER)
        return (knows_user or not by_user) and takes(map_of(each, "resources"))

    if "any" in block:
        return any(map(holds, _maps(block, "any")))
    if "all" in block:
        return all(map(holds, _maps(block, "all")))
    return holds(block)


def _filter_takes(
    makers: tuple[str, ...], request: PolicyRequest, namespaces: Namespaces, resources: Json
) -> bool:
    """Whether the filter of a rule takes a request; one without a field takes all."""
    kinds = [*map(str, resources.get("kinds") or ())]
    name, namespace = request.name, "" if request.is_namespace else request.namespace
    names = [resources["name"]] if resources.get("name") else resources.get("names")
    operations, spaces = resources.get("operations") or (request.operation,), resources.get("namespaces")
    return (
        (not kinds or any(_is_of_kind(kind, request) for kind in (*kinds, *makers)))
        and (not names or any(fnmatchcase(name, str(each)) for each in names))
        and (not spaces or any(fnmatchcase(namespace, str(each)) for each in spaces))
        and request.operation in operations
        and _has_labels(resources.get("selector"), _labels(request.either))
        and _has_annotations(resources.get("annotations"), request.either)
        and (
            not namespace
            or _has_labels(resources.get("namespaceSelector"), _namespace_labels(request, namespaces))
        )
    )


def _is_of_kind(text: str, request: PolicyRequest) -> bool:
    """Whether a text such as ``Pod``, ``apps/v1/Deployment``, ``Pod.status`` or ``*`` names a kind."""
    *head, kind = text.split("/")
    if "." in kind:  # subresources of pods are no requests of a change
        return False
    if head and head[-1][:1].isupper():  # Pod/exec
        return False
    resource = request.resource
    version, group = head[-1] if head else "*", head[0] if len(head) > 1 else "*"
    return all(
        fnmatchcase(*pair)
        for pair in ((request.kind, kind), (resource.version, version), (resource.group, group))
    )


def _has_labels(selector: Any, labels: dict[str, str]) -> bool:
    """Whether labels are selected; a wildcard of Kyverno in a selector stands for any value."""
    if not isinstance(selector, dict) or not selector:
        return True
    wanted = map_of(selector, "matchLabels")
    wild = {key: text for key, text in wanted.items() if "*" in f"{key}{text}" or "?" in f"{key}{text}"}
    if not all(
        any(fnmatchcase(key, name) and fnmatchcase(label, str(text)) for key, label in labels.items())
        for name, text in wild.items()
    ):
        return False
    plain = {key: text for key, text in wanted.items() if key not in wild}
    return selects(selector | {"matchLabels": plain}, labels)


def _has_annotations(wanted: Any, value: Json) -> bool:
    annotations = map_of(value, "metadata", "annotations")
    pairs = wanted.items() if isinstance(wanted, dict) else ()
    return all(
        any(fnmatchcase(key, name) and fnmatchcase(str(item), str(text)) for key, item in annotations.items())
        for name, text in pairs
    )


# ---- Gatekeeper --------------------------------------------------------------------------------------------

_CONSTRAINTS, _MUTATIONS = "constraints.gatekeeper.sh", "mutations.gatekeeper.sh"
_ONLY_REPORTS = ("dryrun", "warn")
_PROCESSES = {"*", "webhook"}


def gatekeeper_reviews(group: str, value: Json, configs: Sequence[Json]) -> Reviews | None:
    """Return which requests an object of Gatekeeper decides about; None for one that decides about none.

    Parameters
    ----------
    value : dict
        The object as a JSON value.
    configs : sequence of dict
        The configurations of Gatekeeper, which exempt namespaces.
    """
    spec = map_of(value, "spec")
    actions = [spec.get("enforcementAction") or "deny"]
    if actions == ["scoped"]:
        actions = [entry.get("action") for entry in _maps(spec, "scopedEnforcementActions")]
    if group not in (_CONSTRAINTS, _MUTATIONS) or all(action in _ONLY_REPORTS for action in actions):
        return None
    exempt = [
        str(name)
        for config in configs
        for entry in _maps(map_of(config, "spec"), "match")
        if not _PROCESSES.isdisjoint(_list(entry, "processes"))
        for name in _list(entry, "excludedNamespaces")
    ]
    applies = [  # kinds of a mutator as those of a constraint; it names versions, too
        {"apiGroups": _list(entry, "groups"), "kinds": _list(entry, "kinds")}
        for entry in (_maps(spec, "applyTo") if group == _MUTATIONS else ())
    ]
    return partial(_matches, map_of(spec, "match"), applies, exempt)


def _matches(
    match: Json,
    applies: Sequence[Json],
    exempt: Sequence[str],
    request: PolicyRequest,
    namespaces: Namespaces,
) -> bool:
    namespace = request.namespace
    kinds, scope = _maps(match, "kinds"), match.get("scope") or "*"
    wanted, excluded = _list(match, "namespaces"), _list(match, "excludedNamespaces")
    is_namespaced = bool(namespace) and not request.is_namespace
    if request.operation not in ("CREATE", "UPDATE"):
        return False
    return (
        (not applies or any(_is_of(entry, request) for entry in applies))
        and (not kinds or any(_is_of(entry, request) for entry in kinds))
        and scope in ("*", "Namespaced" if is_namespaced else "Cluster")
        and not _is_named(exempt, namespace)
        and (not wanted or not namespace or _is_named(wanted, namespace))
        and not (namespace and _is_named(excluded, namespace))
        and (not match.get("name") or _is_named([match["name"]], request.name))
        and selects(map_of(match, "labelSelector"), _labels(request.either))
        and (
            not namespace
            or selects(map_of(match, "namespaceSelector"), _namespace_labels(request, namespaces))
        )
    )


def _is_of(entry: Json, request: PolicyRequest) -> bool:
    groups, kinds = _list(entry, "apiGroups"), _list(entry, "kinds")
    is_of_group = not groups or "*" in groups or request.resource.group in groups
    return is_of_group and (not kinds or "*" in kinds or request.kind in kinds)


def _is_named(names: Sequence[Any], name: str) -> bool:
    """Whether a name is among some, which may begin or end with ``*``."""
    return any(_is_alike(str(each), name) for each in names)


def _is_alike(text: str, name: str) -> bool:
    inner = text.strip("*")
    if text.startswith("*") and text.endswith("*"):
        return inner in name
    if text.startswith("*"):
        return name.endswith(inner)
    return name.startswith(inner) if text.endswith("*") else name == text
