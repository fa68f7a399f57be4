"""Selection of nodes by names or labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest
from operator import eq
from typing import TypeVar

from moorage.errors import InputError, shorten
from moorage.objects import LabelSelectorMatcher, Node, Object, parse_selector
from moorage.store import NotFoundError, ObjectClient

T = TypeVar("T", bound=Object)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_OPERATOR = re.compile(r"[=!,()\s]")
_CANDIDATES, _NEAREST, _LEAST_RATIO = 100, 3, 0.5
_TOPOLOGY = {"zone": "topology.kubernetes.io/zone", "region": "topology.kubernetes.io/region"}


def select_nodes(client: ObjectClient, nodes: str | Iterable[str]) -> list[Node]:
    """Return nodes by their names, or by a label selector.

    Parameters
    ----------
    client : ObjectClient
    nodes : str or iterable of str
        A name, names, or a selector such as ``pool=gpu,zone in (a,b)``. A text that can be a name is one.
        ``zone`` and ``region`` stand for the topology labels on nodes without labels of these names.

    Returns
    -------
    list of Node
        In the order of the given names; those of a selector by name.

    Raises
    ------
    InputError
        A node does not exist, or the selector is malformed or selects none.
    """
    if isinstance(nodes, str) and _NAME.fullmatch(nodes) is None:
        return _selected(client.list(Node)[0], nodes)
    return [get(client, Node, name) for name in ([nodes] if isinstance(nodes, str) else dict.fromkeys(nodes))]


def get(client: ObjectClient, kind: type[T], name: str, namespace: str = "") -> T:
    """Return an object that a user has named.

    Parameters
    ----------
    client : ObjectClient
    kind : type
    name : str
    namespace : str

    Returns
    -------
    Object

    Raises
    ------
    InputError
        It does not exist.
    """
    try:
        return client.get(kind, name, namespace)
    except NotFoundError:
        key = f"{namespace}/{name}" if namespace else name
        near = nearest(name, [obj.name for obj in client.list(kind, namespace)[0]])
        raise InputError(f'there is no {kind.__name__} "{shorten(key, 80)}"{near}') from None


def select_objects(client: ObjectClient, kind: type[T], namespace: str, selector: str) -> list[T]:
    """Return the objects of a kind that a label selector matches.

    Parameters
    ----------
    client : ObjectClient
    kind : type
    namespace : str
        "" for all namespaces.
    selector : str
        "" for all objects.

    Returns
    -------
    list of Object

    Raises
    ------
    InputError
        The selector is malformed.
    """
    objects: list[T] = client.list(kind, namespace, label_selector=_parsed(selector))[0]
    return objects


def _parsed(selector: str) -> LabelSelectorMatcher:
    try:
        return parse_selector(selector)
    except ValueError as error:
        raise InputError(f'selector "{shorten(selector, 80)}": {error}') from None


def _selected(nodes: Iterable[Node], text: str) -> list[Node]:
    nodes = list(nodes)
    matcher, selected = _parsed(text), []
    for node in nodes:
        labels = node.metadata.labels
        aliases = {name: labels[key] for name, key in _TOPOLOGY.items() if key in labels}
        if matcher.matches(aliases | labels):
            selected.append(node)
    if not selected:
        near = nearest(text, [node.name for node in nodes]) if _OPERATOR.search(text) is None else ""
        raise InputError(
            f'no Node has the {"labels" if not near else "label or the name"} "{shorten(text, 80)}"{near}'
        )
    return selected


def nearest(text: str, names: Iterable[str]) -> str:
    """Return what an error adds about the names that are most like one that does not exist.

    Of many names, those with the most equal characters from either end are compared by their difference.

    Parameters
    ----------
    text : str
    names : iterable of str

    Returns
    -------
    str
        "" if none is like it.
    """

    def alike(name: str) -> int:
        return [*map(eq, text, name), *map(eq, reversed(text), reversed(name))].count(True)

    candidates = nlargest(_CANDIDATES, sorted(names), key=alike)
    found = get_close_matches(text, candidates, _NEAREST, _LEAST_RATIO)
    return f"; nearest: {', '.join(found)}" if found else ""
