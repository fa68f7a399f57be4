"""Which objects a client means: references as kubectl's, and selectors of a list or watch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias, TypeVar

from moorage.errors import InputError, nearest, shorten
from moorage.kube import Node, Object, Pod, parse_selector
from moorage.kube.model.meta import plural

from .errors import BadRequestError, is_namespaced, structs
from .protocol import Selector

# ---- references --------------------------------------------------------------------------------------------
#
# References to objects in kubectl's form: ``deploy/web``, ``pod/prod/web-1``, ``node/n1``.

_SHORT = {
    "cj": "CronJob", "clone": "CloneSet", "cm": "ConfigMap", "dc": "DeploymentConfig", "deploy": "Deployment",
    "ds": "DaemonSet", "hpa": "HorizontalPodAutoscaler", "lws": "LeaderWorkerSet", "no": "Node",
    "ns": "Namespace", "pc": "PriorityClass", "pdb": "PodDisruptionBudget", "po": "Pod",
    "pv": "PersistentVolume", "pvc": "PersistentVolumeClaim", "rc": "ReplicationController",
    "rs": "ReplicaSet", "sc": "StorageClass",
    "so": "ScaledObject", "sts": "StatefulSet", "svc": "Service", "vpa": "VerticalPodAutoscaler",
}  # fmt: skip


@cache
def _kinds() -> dict[str, type[Object]]:
    """Kinds by the names that kubectl accepts, in small letters."""
    kinds: dict[str, type[Object]] = {}
    for struct in structs():
        for name in (struct.__name__.lower(), plural(struct)):
            kinds.setdefault(name, struct)
    short = {name: kinds[kind.lower()] for name, kind in _SHORT.items() if kind.lower() in kinds}
    return kinds | short


def kind_named(text: str) -> type[Object]:
    """Return the struct of a kind by a name that kubectl accepts.

    Parameters
    ----------
    text : str
        Singular, plural or short name, in any case, with the API group or without: ``deployment``, ``pods``,
        ``sts``, ``deployments.apps``.

    Raises
    ------
    InputError
        There is no such kind.
    """
    name, _, group = text.lower().partition(".")
    struct = _kinds().get(name)
    if struct is None or (group and struct().api_version.partition("/")[0] != group):
        raise InputError(f'there is no kind "{shorten(text, 80)}"{nearest(name, _kinds())}')
    return struct


def parse_reference(text: str) -> tuple[type[Object], str, str]:
    """Parse a reference to an object.

    Parameters
    ----------
    text : str
        ``KIND/NAME``, or ``KIND/NAMESPACE/NAME``; without a namespace it is ``default``.

    Returns
    -------
    kind : type
        The struct of the kind.
    namespace : str
        "" for kinds without namespaces.

    Raises
    ------
    InputError
        The reference is malformed, or there is no such kind.
    """
    kind, _, rest = text.partition("/")
    parts = rest.split("/")
    if not (kind and all(parts)) or len(parts) > 2:
        message = f'"{shorten(text, 80)}" is not a reference such as deploy/web or pod/NAMESPACE/NAME'
        raise InputError(message)
    struct = kind_named(kind)
    if not is_namespaced(struct):
        if len(parts) > 1:
            raise InputError(f'"{shorten(text, 80)}": a {struct.__name__} has no namespace')
        return struct, "", parts[0]
    return struct, parts[0] if len(parts) > 1 else "default", parts[-1]


def only_namespace(spaces: Iterable[str], reference: str) -> str:
    """Return the namespace of the object that a reference without a namespace means: ``default``, as for
    kubectl, or else that of the only one; "" for none.

    Raises
    ------
    InputError
        There are several, none of them in ``default``.
    """
    places = sorted({*spaces})
    if "default" in places:
        return "default"
    if len(places) > 1:
        text = f"there are several, in namespaces {', '.join(places)}: choose one of these"
        raise InputError(text, obj=shorten(reference, 80))
    return next(iter(places), "")


# ---- field selectors ---------------------------------------------------------------------------------------
#
# Field selectors, and one predicate for the namespace, label selector and field selector of a list or
# watch.

T = TypeVar("T", bound=Object)
Predicate: TypeAlias = Callable[[T], bool]
Field: TypeAlias = Callable[[T], str]


def _flag(value: bool) -> str:
    """Return a boolean as field selectors spell it."""
    return "true" if value else "false"


_COMMON: dict[str, Field[Object]] = {
    "metadata.name": lambda obj: obj.metadata.name,
    "metadata.namespace": lambda obj: obj.metadata.namespace,
}
_POD: dict[str, Field[Pod]] = {
    "spec.hostNetwork": lambda pod: _flag(pod.spec.host_network),
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.restartPolicy": lambda pod: pod.spec.restart_policy,
    "spec.schedulerName": lambda pod: pod.spec.scheduler_name,
    "status.nominatedNodeName": lambda pod: pod.status.nominated_node_name,
    "status.phase": lambda pod: pod.status.phase,
}
_NODE: dict[str, Field[Node]] = {"spec.unschedulable": lambda node: _flag(node.spec.unschedulable)}
_FIELDS: dict[type[Object], dict[str, Field[Pod]] | dict[str, Field[Node]]] = {Pod: _POD, Node: _NODE}

_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)


def _field(struct: type[Object], label: str) -> Callable[..., str]:
    """Return the function that reads a field of a kind. Raises BadRequestError if the kind cannot be selected
    by it."""
    fields = _FIELDS.get(struct)
    if label in _COMMON:
        return _COMMON[label]
    if fields is None:
        raise BadRequestError(
            f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    if label not in fields:
        raise BadRequestError(f"field label not supported: {label}")
    return fields[label]


def _field_terms(struct: type[Object], text: str) -> list[Predicate[Object]]:
    """Parse a field selector: terms with ``=``, ``==`` or ``!=``, separated by commas (apimachinery
    v0.36)."""
    matches: list[re.Match[str]] = []
    for part in filter(None, text.split(",")):
        match = _TERM.fullmatch(part)
        if match is None:
            raise BadRequestError(f"invalid selector: '{text}'; can't understand '{part}'")
        matches.append(match)
    return [_field_term(_field(struct, match[1]), match[3], match[2] != "!=") for match in matches]


def _field_term(field: Callable[..., str], value: str, equal: bool) -> Predicate[Object]:
    """Return the predicate of one term of a field selector."""
    return lambda obj: (field(obj) == value) is equal


def predicate(
    struct: type[T], namespace: str, label_selector: Selector, field_selector: str
) -> Predicate[T] | None:
    """Compile the selection of a list or a watch.

    Parameters
    ----------
    namespace : str
        "" for all namespaces.
    label_selector : str or LabelSelectorMatcher
        "" for all labels.
    field_selector : str
        Terms with ``=``, ``==`` or ``!=``, separated by commas (apimachinery v0.36).

    Returns
    -------
    callable or None
        True for objects that are selected; None where every object is.

    Raises
    ------
    BadRequestError
        A selector is malformed, or names a field that the kind cannot be selected by.
    """
    terms = _field_terms(struct, field_selector)
    if label_selector != "":
        if isinstance(label_selector, str):
            try:
                label_selector = parse_selector(label_selector)
            except ValueError as error:
                raise BadRequestError(str(error)) from error
        matches = label_selector.matches
        terms.insert(0, lambda obj: matches(obj.metadata.labels))
    if namespace:
        terms.insert(0, _field_term(_COMMON["metadata.namespace"], namespace, True))
    if len(terms) < 2:
        return terms[0] if terms else None
    return lambda obj: all(term(obj) for term in terms)
