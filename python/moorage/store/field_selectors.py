"""Field selectors, and one predicate for the namespace, label selector and field selector of a list or
watch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from moorage.kube import Node, Object, Pod, parse_selector

from .errors import BadRequestError
from .protocol import Selector

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


def _label_term(selector: Selector) -> Predicate[Object]:
    """Return the predicate of a label selector. Raises BadRequestError if it is malformed."""
    if isinstance(selector, str):
        try:
            selector = parse_selector(selector)
        except ValueError as error:
            raise BadRequestError(str(error)) from error
    matches = selector.matches
    return lambda obj: matches(obj.metadata.labels)


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
        terms.insert(0, _label_term(label_selector))
    if namespace:
        terms.insert(0, _field_term(_COMMON["metadata.namespace"], namespace, True))
    if len(terms) < 2:
        return terms[0] if terms else None
    return lambda obj: all(term(obj) for term in terms)
