"""Preemptions whose victims are deleted beside the scheduling, while the preemptor is held back.

kube-scheduler v1.36, framework/preemption/executor.go (prepareCandidateAsync, IsPodRunningPreemption).
Upstream lets a preemptor go before its last victim is deleted. Here it is held back until all are known to
leave, so that it never evicts on a second node because of what its scheduler has not yet seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from moorage.kube import AnyGroup, Pod

from ..framework import FrameworkHandle

RETRY = 5.0
"""Seconds after which a preemptor is tried again of which a victim could not be deleted."""
UNSEEN = 60.0
"""Seconds after the last answer for which the news is awaited that the victims leave."""


class RunningPreemption:
    """The preemption of a pod, or of the pods of a group.

    Attributes
    ----------
    victims : dict of str to Pod
        By UID, those that are not known to leave.
    unanswered : int
        The number of victims whose deletion has not been answered.
    has_failed : bool
        Whether a victim could not be deleted.
    until : float
        When the wait ends in any case, after the last answer.
    """

    def __init__(self, victims: Sequence[Pod]) -> None:
        self.preemptors: list[Pod] = []
        self.victims = {victim.metadata.uid: victim for victim in victims}
        self.unanswered, self.has_failed, self.until = 0, False, 0.0

    def follow(self, known: Callable[[str], Pod | None], now: float) -> bool:
        """Drop the victims that leave; return whether the preemption is over."""
        for uid, victim in [*self.victims.items()]:
            latest = known(victim.key)
            if latest is None or latest.metadata.uid != uid or latest.metadata.deletion_timestamp is not None:
                del self.victims[uid]
        return not self.unanswered and (now >= self.until or not (self.victims or self.has_failed))


class RunningPreemptions:
    """The preemptions of a live scheduler that are not complete.

    Attributes
    ----------
    held : set of str
        UIDs of the preemptors. PreEnqueue rejects them.
    """

    def __init__(self, handle: FrameworkHandle) -> None:
        self._handle = handle
        self._running: list[RunningPreemption] = []
        self.held: set[str] = set()

    def begin(
        self, preemptor: Pod | AnyGroup, victims: Sequence[Pod], evict: Callable[[Pod], object]
    ) -> None:
        """Have victims evicted, and hold the preemptor back; `hold` takes the pods of a group.

        Parameters
        ----------
        victims : sequence of Pod
            Those that another preemption evicts already are only waited for.
        evict : callable
            Evicts a victim; is called by a thread.
        """
        now, preemption = self._handle.clock(), RunningPreemption(victims)
        preemption.until = now + UNSEEN
        evicted = {uid for earlier in self._running for uid in earlier.victims}
        self._running.append(preemption)
        self.hold([preemptor] if isinstance(preemptor, Pod) else [])
        for victim in victims:
            if victim.metadata.uid not in evicted:
                preemption.unanswered += 1
                answer = partial(self._answered, preemption, victim.metadata.uid)
                self._handle.writes.submit("pod_eviction", victim, partial(evict, victim), answer)

    def hold(self, pods: Sequence[Pod]) -> None:
        """Hold pods back while the preemption runs that was begun last."""
        self._running[-1].preemptors += pods
        self.held.update(pod.metadata.uid for pod in pods)

    def _answered(self, preemption: RunningPreemption, uid: str, error: Exception | None) -> None:
        now = self._handle.clock()
        preemption.unanswered -= 1
        preemption.until = now + UNSEEN
        for running in self._running if error is not None else ():
            if running.victims.pop(uid, None) is not None:
                running.has_failed, running.until = True, now + RETRY

    def next_time(self) -> float | None:
        """Return when a preemption is over in any case, in seconds; None without one."""
        return min(
            (preemption.until for preemption in self._running if not preemption.unanswered), default=None
        )

    def settle(self, known: Callable[[str], Pod | None]) -> list[RunningPreemption]:
        """Return the preemptions that are over; their preemptors are held back no longer.

        Parameters
        ----------
        known : callable
            Returns the latest state of a pod by ``namespace/name``; None without one.
        """
        now = self._handle.clock()
        over = [preemption for preemption in self._running if preemption.follow(known, now)]
        self._running = [preemption for preemption in self._running if preemption not in over]
        self.held -= {pod.metadata.uid for preemption in over for pod in preemption.preemptors}
        return over
