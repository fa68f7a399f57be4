"""What a scheduler is given: options, controllers, a clock, and pods, each checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct

from moorage._core.decide.bulk_operations import check_new
from moorage._core.state.cluster_state import ClusterState
from moorage.engine.cache.scheduler_cache import Undoable
from moorage.errors import ClockError, InputError
from moorage.kube.model.meta import Object
from moorage.kube.model.pod import Pod
from moorage.kube.releases import FeatureGates
from moorage.kube.releases import feature_gates as all_gates
from moorage.store.pod_binding import why_unreadable

from ..framework.plugin_registry import Registry

if TYPE_CHECKING:
    from ..framework.configuration import KubeSchedulerConfiguration

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


class Controllers(Undoable, Protocol):
    """Controllers that a fork takes over."""

    def copy_from(self, other: Any) -> None:
        """Take the state of the controllers of another store, of which this one's is a clone."""


class ClaimControllers(Controllers, Protocol):
    """The controllers of claims, and the time that passes while they work."""

    is_instant: bool
    """Whether waiting takes no real time, so that nothing else is done meanwhile."""
    can_wait: bool
    """Whether the scheduler can let time pass."""

    def now(self) -> float:
        """Return the time in seconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass, and process what happens then."""

    def reach(self, when: float) -> None:
        """Record that the time is at least `when`, in seconds, and process what happens then."""

    def settle(self) -> bool:
        """Bind and release the claims that can be, and return whether anything was written."""


class WorkloadControllers(Controllers, Protocol):
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


class Drain(Protocol):
    """A drain that waits for disruption budgets. It never changes: what it has come to is another one."""

    @property
    def evicted(self) -> tuple[str, ...]:
        """Who has gone since it began to wait."""

    def go_on(self, context: Any) -> Drain:
        """Evict the pods of a scheduler that may go now."""


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


# ---- check arguments ---------------------------------------------------------------------------------------
# Checks of the pods that callers pass, and of quantities in pods and nodes that nobody has checked.


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


def check_sequence(pods: object) -> None:
    """Check the type of pods that a caller passes.

    Raises
    ------
    TypeError
        They are no sequence.
    """
    if not isinstance(pods, Sequence) or isinstance(pods, str | bytes):
        raise TypeError(f"pods must be a sequence of Pod, not {type(pods).__name__}")


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
