"""What a scheduler is given: options, controllers, a clock, and pods, each checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, Protocol, TypeGuard, cast

import msgspec
from msgspec import Struct

from moorage._core.decide.bulk_operations import check_new
from moorage._core.queue.entrance import CreationClock
from moorage._core.state.cluster_state import ClusterState
from moorage.arguments import naming
from moorage.errors import ClockError, InputError
from moorage.kube.model.cluster import Cluster, newest_timestamp, seconds
from moorage.kube.model.meta import Object
from moorage.kube.model.node import Node
from moorage.kube.model.pod import Pod
from moorage.kube.model.pod_group import AnyGroup
from moorage.kube.model.workload import PriorityClass
from moorage.kube.read.load import read_object
from moorage.kube.read.python_values import Source, is_path, is_single
from moorage.kube.releases import FeatureGates
from moorage.kube.releases import feature_gates as all_gates
from moorage.store import ObjectClient
from moorage.store.pod_binding import why_unreadable
from moorage.store.selectors import parse_reference

from ..framework.configuration import KubeSchedulerConfiguration
from ..framework.plugin_registry import Registry

Wait = Callable[[float], object]
"""Takes seconds, and lets them pass while pods are being bound."""


class Options(Struct, frozen=True, kw_only=True):
    """The options of a scheduler as it was made; see the parameters of `Scheduler`.

    Attributes
    ----------
    gates : FeatureGates
        All feature gates, and their release.
    percentage : int or None
        percentageOfNodesToScore, in place of the configuration's.
    threads : int or None
        Number of threads that search very many nodes; None for the configuration's parallelism.
    binding_threads : int
        Number of threads that run steps of binding cycles.
    """

    configuration: KubeSchedulerConfiguration | None = None
    registry: Registry | None = None
    gates: FeatureGates = msgspec.field(default_factory=all_gates)
    percentage: int | None = None
    tie_break: str = "go-heap"
    seed: int = 0
    clock: Callable[[], float] | None = None
    wait: Wait | None = None
    threads: int | None = None
    binding_threads: int = 0
    fail_fast: bool = False


# ---- controllers -------------------------------------------------------------------------------------------
# What works on a cluster besides the scheduler, as the scheduler sees it.
#
# It works between pods, and says when it wants to be asked again. `cluster` makes the controllers themselves.


class Undoable(Protocol):
    """State that can be saved, and restored any number of times."""

    def save(self) -> object:
        """Return the state, for `undo`."""

    def undo(self, saved: Any) -> None:
        """Restore the state of `save`."""


class ClaimControllers(Undoable, Protocol):
    """The controllers of claims, and the time that passes while they work."""

    is_instant: bool
    """Whether waiting takes no real time, so that nothing else is done meanwhile."""
    can_wait: bool
    """Whether the scheduler can let time pass."""

    def copy_from(self, other: Any) -> None:
        """Take the state of the controllers of another store, of which this one's is a clone."""

    def now(self) -> float:
        """Return the time in seconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass, and process what happens then."""

    def reach(self, when: float) -> None:
        """Record that the time is at least `when`, in seconds, and process what happens then."""

    def settle(self) -> bool:
        """Bind and release the claims that can be, and return whether anything was written."""


class WorkloadControllers(Undoable, Protocol):
    """The controllers of workloads, which create and delete pods."""

    @property
    def deletions(self) -> int:
        """Number of pods that they have deleted so far."""

    def work(self) -> bool:
        """Do one round for everything that has changed, and return whether anything was written."""

    def next_time(self) -> float:
        """Return the time in seconds at which something happens without an event; infinity for never."""

    def next_stop(self) -> float:
        """Return the time in seconds at which the next pod is gone that was deleted; infinity for never."""

    def end_back_off(self) -> bool:
        """Look in the next round at the workloads that were refused, and return whether there are any."""


# ---- clocks ------------------------------------------------------------------------------------------------
# That of a caller, which is checked, and that of a cluster.

MOST = 1e12  # seconds; less than the time that means "never" to the timers of the queue


def checked(clock: Callable[[], float]) -> Callable[[], float]:
    """Wrap a clock so that every failure of it is a ClockError.

    Parameters
    ----------
    clock : callable
        Returns seconds.

    Returns
    -------
    callable
        Returns seconds between -1e12 and 1e12. Raises ClockError if the clock raises, or returns anything
        else.
    """

    def now() -> float:
        try:
            seconds: Any = clock()
        except Exception as error:
            raise ClockError(f"clock raised {type(error).__name__}: {error}") from error
        if type(seconds) is float and -MOST <= seconds <= MOST:
            return seconds
        if not (issubclass(type(seconds), Real) and abs(seconds) <= MOST):
            raise ClockError(f"clock must return a number of seconds up to {MOST:g}, not {seconds!r}")
        return float(seconds)

    return now


def time_of(cluster: Cluster | None) -> CreationClock:
    """Return a clock that shows when the newest object of a cluster was created, until time passes in it.

    An object without a timestamp that is created in a store of this time is at least as new as all others.

    Parameters
    ----------
    cluster : Cluster or None
        None for a store that others write to as well, whose pods set the clock as they come.
    """
    clock, newest = CreationClock(seconds), None if cluster is None else newest_timestamp(cluster)
    clock.now = 0.0 if newest is None else seconds(newest)
    return clock


# ---- check arguments ---------------------------------------------------------------------------------------
# Checks of the pods that callers pass, and of quantities in pods and nodes that nobody has checked.

_PODS = frozenset({Pod})

Counted = Source | tuple[Source, int]
"""A pod, or a pod and how many of it."""


def check_readable(objects: Iterable[Object]) -> None:
    """Find the object whose quantities cannot be read. For many objects, call it where a ValueError was
    raised.

    Raises
    ------
    InputError
        A pod or node has something else where a quantity belongs.
    """
    for obj in objects:
        if why := why_unreadable(obj):
            raise InputError(why, obj=obj.full_name) from None


def check_pod(pod: object, name: str = "pod") -> None:
    """Check the type of an argument.

    Raises
    ------
    TypeError
        It is no Pod.
    """
    if not isinstance(pod, Pod):
        raise TypeError(f"{name} must be a Pod, not {type(pod).__name__}")


def pod_of(client: ObjectClient, pod: Source, name: str = "pod") -> Pod:
    """Return a pod that a caller passes, read as by `load` if it is none of moorage's objects.

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
        try:
            with naming(name):
                pod = read_object(pod, classes=client.list(PriorityClass)[0])
        except InputError as error:
            if not isinstance(pod, str) or error.message != "no such file":
                raise
            wanted = "give the pod itself, such as scheduler.pods.pending[key], or its manifest"
            raise InputError(f"no such file; {wanted}", source=error.source) from None
    check_pod(pod, name)
    return cast("Pod", pod)


def check_sequence(pods: object) -> None:
    """Check the type of pods that a caller passes.

    Raises
    ------
    TypeError
        They are no sequence.
    """
    if not isinstance(pods, Sequence) or isinstance(pods, str | bytes):
        raise TypeError(f"pods must be a sequence of Pod, not {type(pods).__name__}")


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
    is_name = isinstance(like, str) and is_path(like)
    with naming("like"):
        return cast("str", like) if is_name else read_object(like, Node)


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
        `load` would refuse it, or there is not exactly one.
    NotFoundError
        There is no group of this name.
    TypeError
        It is no group.
    """
    if isinstance(group, str):
        with suppress(InputError):
            kind, namespace, name = parse_reference(group)
            if issubclass(kind, AnyGroup):
                group = client.get(kind, name, namespace)
    with naming("pod_group"):
        read = group if isinstance(group, Object) else read_object(group)
    if not isinstance(read, AnyGroup):
        raise TypeError(f"pod_group must be a PodGroup or CompositePodGroup, not {type(read).__name__}")
    return read


def check_pods(state: ClusterState, pods: Sequence[Pod]) -> None:
    """Check pods that are to be placed.

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
            raise TypeError(f"pods must be a sequence of Pod, not {type(pods).__name__}") from None
        for pod in pods:
            check_pod(pod, "pods")
        raise
