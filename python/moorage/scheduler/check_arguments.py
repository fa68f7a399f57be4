"""Checks of the pods that callers pass, and of quantities in pods and nodes that nobody has checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from moorage._core.decide.bulk_operations import check_new
from moorage._core.state.cluster_state import ClusterState
from moorage.errors import InputError
from moorage.objects.model.meta import Object
from moorage.objects.model.pod import Pod
from moorage.objects.model.workload import PriorityClass
from moorage.objects.read.one_object import read_object
from moorage.objects.read.python_values import Source
from moorage.store import ObjectClient
from moorage.store.quantities import why_unreadable

_PODS = frozenset({Pod})


def check_readable(objects: Iterable[Object]) -> None:
    """Find the object whose quantities cannot be read. For many objects, call it where a ValueError was
    raised.

    Parameters
    ----------
    objects : iterable of Object

    Raises
    ------
    InputError
        A pod or node has something else where a quantity belongs.
    """
    for obj in objects:
        if why := why_unreadable(obj):
            raise InputError(why, obj=f"{obj.kind} {obj.key}") from None


def check_pod(pod: object) -> None:
    """Check the type of an argument.

    Parameters
    ----------
    pod : object

    Raises
    ------
    TypeError
        It is no Pod.
    """
    if not isinstance(pod, Pod):
        raise TypeError(f"a Pod is wanted, not {type(pod).__name__}")


def pod_of(client: ObjectClient, pod: Source) -> Pod:
    """Return a pod that a caller passes, read as by `load` if it is none of moorage's objects.

    Parameters
    ----------
    client : ObjectClient
        Has the priority classes.
    pod : Pod, dict, text, or anything else that `load` reads

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
    if not isinstance(pod, Object):
        pod = read_object(pod, classes=client.list(PriorityClass)[0])
    check_pod(pod)
    return cast("Pod", pod)


def pods_of(client: ObjectClient, pods: Sequence[Source]) -> Sequence[Pod]:
    """Return the pods that a caller passes; see `pod_of`.

    Parameters
    ----------
    client : ObjectClient
    pods : sequence of Pod, dict, text, or anything else that `load` reads

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
    if not isinstance(pods, list | tuple) or _PODS.issuperset(map(type, pods)):
        return cast("Sequence[Pod]", pods)
    return [pod_of(client, pod) for pod in pods]


def check_pods(state: ClusterState, pods: Sequence[Pod]) -> None:
    """Check pods that are to be placed.

    Parameters
    ----------
    state : ClusterState
    pods : sequence of Pod

    Raises
    ------
    CacheError
        A pod is in the cache or appears twice.
    TypeError
        They are no sequence of Pod.
    """
    try:
        check_new(state, pods)
    except (AttributeError, TypeError):
        if not isinstance(pods, Sequence):
            raise TypeError(f"a sequence of Pod is wanted, not {type(pods).__name__}") from None
        for pod in pods:
            check_pod(pod)
        raise
