"""Drains that wait for disruption budgets, and go on in each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import cast

from moorage.controllers.sleeping_controllers import SleepingControllers
from moorage.engine.scheduler.scheduler_state import SchedulerState
from moorage.errors import InputError
from moorage.kube import Pod
from moorage.kube.admission.request import RefusedError
from moorage.lazy import NamedTuple
from moorage.store import ApiError, ObjectClient, find_object

from .change import Change
from .node_changes import LASTING, evict_pods


@contextmanager
def changing(context: SchedulerState) -> Iterator[ObjectClient]:
    """Make the writes of the block whole or not at all, with all events processed before and after."""
    with context.lock:
        context.enlist()
        context.sync()
        try:
            with context.writing():
                yield context.client
        except (ApiError, RefusedError) as error:
            raise InputError(str(error)) from error
        context.sync()


def grace_of_evictions(context: SchedulerState) -> Callable[[Pod], int | None]:
    """Return what says the grace period of a pod that is evicted; None for what the server chooses."""
    controllers = cast("SleepingControllers | None", context.controllers)
    return (lambda _: None) if controllers is None else controllers.wake().kubelets.grace_of_eviction


def evict_again(context: SchedulerState, pods: Iterable[Pod]) -> Change:
    """Evict pods, those that are there still, as far as disruption budgets allow it now."""
    pods = [*pods]
    with changing(context) as client:
        stored = [find_object(client, Pod, pod.name, pod.namespace) for pod in pods]
        uids = {pod.metadata.uid for pod in pods}
        left = [pod for pod in stored if pod is not None and pod.metadata.uid in uids]
        return evict_pods(client, left, lambda _: "", grace_of_evictions(context))


class WaitingDrain(NamedTuple):
    """A drain that evicts further pods as soon as their budgets let them go, as ``kubectl drain`` does.

    Attributes
    ----------
    pods : tuple of Pod
        Those that budgets kept at first.
    kept : dict of str to str
        By full name, those that stay, and why.
    evicted : tuple of str
        The full names of those that went.
    """

    pods: tuple[Pod, ...]
    kept: dict[str, str]
    evicted: tuple[str, ...] = ()

    @classmethod
    def of(cls, pods: Iterable[Pod], drained: Change) -> WaitingDrain:
        """Return the drain that goes on after its first evictions among some pods."""
        kept = {name: why for name, why in drained.unfinished.items() if why not in LASTING}
        return cls(tuple([pod for pod in pods if pod.full_name in kept]), kept)

    def go_on(self, context: SchedulerState) -> WaitingDrain:
        """Evict those that may go now. It ends: those that go do not come back."""
        left = [pod for pod in self.pods if pod.full_name in self.kept]
        if not left:
            return self
        again = evict_again(context, left)
        return self._replace(kept=again.kept, evicted=self.evicted + again.deleted)
