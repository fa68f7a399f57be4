"""Changes that are offered, made by the verbs with which a user makes them; all is undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeVar

from msgspec.structs import replace

from moorage.errors import InputError
from moorage.kube import Pod
from moorage.store import find_object

from .changing_scheduler import ChangingScheduler
from .helpful_changes import HelpfulChange, Kind, write

T = TypeVar("T")
MOST_ATTEMPTS = 20_000
"""Of how many pods all runs together may try to place."""


class PlayedChanges:
    """Makes changes on a scheduler, runs it, and looks which pods have a node.

    Parameters
    ----------
    make : callable
        Returns the scheduler: before the run in which pods are explained, or in the state in which they are.
    """

    def __init__(self, make: Callable[[], ChangingScheduler]) -> None:
        self._make, self._left = make, MOST_ATTEMPTS

    @cached_property
    def _scheduler(self) -> ChangingScheduler:
        return self._make()

    def others(self, pods: Sequence[Pod]) -> int:
        """Return how many other pods are pending beside some, and may take what they would get."""
        return len(self._scheduler.pods.pending.keys() - {pod.key for pod in pods})

    def may_run(self, times: int) -> bool:
        """Whether so many runs are worth their time."""
        self._left -= times * (len(self._scheduler.pods.pending) + 1)
        return self._left >= 0

    def placed(
        self, pods: Sequence[Pod], running: int, *changes: Callable[[ChangingScheduler], object]
    ) -> int:
        """Return how many of some pods, of one controller or none, have a node after changes and a run.

        Parameters
        ----------
        running : int
            How many other pods of the controller have one before. Which pods there are then is not asked, as
            some may be made again.
        """
        given = partial(_with_pod, pods[0])
        with_node = sum(pod.spec.node_name != "" for pod in self.pods_like(pods[0], given, *changes))
        return min(len(pods), max(0, with_node - running))

    def pods_like(self, pod: Pod, *changes: Callable[[ChangingScheduler], object]) -> list[Pod]:
        """Return the pods of the controller of a pod, or that pod, after changes and a run."""

        def read(scheduler: ChangingScheduler) -> list[Pod]:
            listed: list[Pod] = scheduler.client.list(Pod, pod.namespace)[0]
            return [each for each in listed if has_owner_of(pod, each)]

        return self.after(read, *changes)

    def after(
        self, read: Callable[[ChangingScheduler], T], *changes: Callable[[ChangingScheduler], object]
    ) -> T:
        """Return what is read after changes and a run."""
        scheduler = self._scheduler
        with scheduler.transaction():
            with suppress(InputError):  # of a change that the API server refuses
                for change in changes:
                    change(scheduler)
                scheduler.run()
            return read(scheduler)


def _with_pod(pod: Pod, scheduler: ChangingScheduler) -> None:
    """Create a pod that a caller has given, and that the cluster does not have."""
    if find_object(scheduler.client, Pod, pod.name, pod.namespace) is None:
        scheduler.change.apply([pod])


def make(change: HelpfulChange, owner: Any, scheduler: ChangingScheduler) -> None:
    """Make a change as a user would: one of pods in the template of their owner, if they have one."""
    if change.kind == Kind.NODE:
        labels = [f"{key}={value}" for key, value in change.values.get("label", {}).items()]
        like = ",".join([change.values["like"], *labels])
        scheduler.change.add_nodes(change.values.get("nodes", 1), like)
        return
    write(scheduler.client, change.edits)
    scheduler.sync()
    if change.changes_pods and owner is not None:
        template = owner.spec.template
        changed = change.of(Pod(metadata=template.metadata, spec=template.spec)).spec
        scheduler.change.apply(
            replace(owner, spec=replace(owner.spec, template=replace(template, spec=changed)))
        )


def has_owner_of(pod: Pod, other: Pod) -> bool:
    """Whether two pods of a namespace have one controller; without one, whether they have one name."""
    owner, its = pod.metadata.controller(), other.metadata.controller()
    if owner is None or its is None:
        return pod.name == other.name
    return (owner.kind, owner.name) == (its.kind, its.name)
