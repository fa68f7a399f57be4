"""What a caller gives: pods, nodes and groups, as objects or as anything that `load` reads, and a clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard, cast

from moorage.arguments import naming
from moorage.engine.scheduler.options import check_pod, check_sequence
from moorage.errors import InputError
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import AnyGroup, CompositePodGroup, PodGroup
from moorage.kube.model.workload import PriorityClass
from moorage.kube.read.load import read_object
from moorage.kube.read.python_values import Source, is_path, is_single
from moorage.store import ObjectClient

_PODS = frozenset({Pod})

Counted = Source | tuple[Source, int]
"""A pod, or a pod and how many of it."""


def pod_of(client: ObjectClient, pod: Source, name: str = "pod") -> Pod:
    """Return a pod that a caller passes or names, read as by `load` if it is none of moorage's objects.

    Returns
    -------
    Pod
        With the API server's defaults.

    Raises
    ------
    InputError
        `load` would refuse it, or there is not exactly one.
    TypeError
        It is no pod.
    """
    pod = cast("Pod", _read_or_named(client, pod, (Pod,), name))
    check_pod(pod, name)
    return pod


def _read_or_named(client: ObjectClient, given: Source, kinds: Sequence[type[Object]], name: str) -> Object:
    """Return an object that a caller passes, as anything that `load` reads or as a reference."""
    if isinstance(given, Object):
        return given
    try:
        with naming(name):
            return read_object(given, classes=client.list(PriorityClass)[0])
    except InputError as error:
        if not isinstance(given, str) or error.message != "no such file":
            raise
        from .references import object_named  # most callers give pods

        try:
            return cast("Object", object_named(client, given, kinds, "is none"))
        except InputError as absent:
            raise InputError(f"no such file, and {absent.message}", source=error.source) from None


def pods_of(client: ObjectClient, pods: Sequence[Source]) -> Sequence[Pod]:
    """Return the pods that a caller passes; see `pod_of`.

    Returns
    -------
    sequence of Pod
        The sequence itself where all are pods.

    Raises
    ------
    InputError, TypeError
        As for `pod_of`.
    """
    # Only types are compared, as a call with one pod takes a few microseconds as a whole.
    if isinstance(pods, list | tuple) and _PODS.issuperset(map(type, pods)):
        return cast("Sequence[Pod]", pods)
    check_sequence(pods)
    if not isinstance(pods, list | tuple):
        return cast("Sequence[Pod]", pods)
    return [pod_of(client, pod, "pods") for pod in pods]


def counted_pods(
    client: ObjectClient, given: Counted | Sequence[Counted], name: str
) -> list[Pod | tuple[Pod, int]]:
    """Return the pods that a caller passes, each with its number where there is one; see `pod_of`.

    Parameters
    ----------
    given : pod, (pod, int), or sequence of these
        A pod is a Pod, a dict, a text, or anything else that `load` reads.

    Returns
    -------
    list of Pod or (Pod, int)
        Numbers are not checked.

    Raises
    ------
    InputError, TypeError
        As for `pod_of`.
    """
    is_one = is_single(given) or _is_counted(given)
    listed = [cast("Counted", given)] if is_one else list(cast("Sequence[Counted]", given))
    return [
        (pod_of(client, listed_pod[0], name), listed_pod[1])
        if _is_counted(listed_pod)
        else pod_of(client, cast("Source", listed_pod), name)
        for listed_pod in listed
    ]


def _is_counted(value: object) -> TypeGuard[tuple[Source, int]]:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int | float)


def node_like(like: Source) -> str | Node:
    """Return the name of a node, or a template of one that a caller passes.

    Parameters
    ----------
    like : str, Node, dict, text, or anything else that `load` reads
        A string in one line that is no JSON is a name.

    Raises
    ------
    InputError
        `load` would refuse it, there is not exactly one, or it is no node.
    TypeError
        It is nothing that `load` reads.
    """
    if isinstance(like, str) and is_path(like):
        from .references import node_name

        name, comma, labels = str(like).partition(",")
        return node_name(name) + comma + labels
    with naming("like"):
        return read_object(like, Node)


def nodes_like(like: Source | Sequence[Source]) -> list[str | Node]:
    """Return the names of nodes, or the templates of some, that a caller passes; see `node_like`.

    Raises
    ------
    InputError, TypeError
        As for `node_like`.
    """
    listed = cast("Sequence[Source]", [like] if is_single(like) else like)
    return [node_like(node) for node in listed]


def group_like(client: ObjectClient, group: Source) -> AnyGroup:
    """Return a group that a caller passes or names, read as by `load` if it is none of moorage's objects.

    Parameters
    ----------
    client : ObjectClient
        Has the groups that a name may mean.
    group : PodGroup, CompositePodGroup, dict, text, or anything else that `load` reads
        Or a reference, such as ``podgroup/train``.

    Raises
    ------
    InputError
        `load` would refuse it, there is not exactly one, or no group has this name.
    TypeError
        It is no group.
    """
    read = _read_or_named(client, group, (PodGroup, CompositePodGroup), "pod_group")
    if not isinstance(read, AnyGroup):
        raise TypeError(f"pod_group must be a PodGroup or CompositePodGroup, not {type(read).__name__}")
    return read
