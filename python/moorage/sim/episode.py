"""Episode: a replay in which somebody else chooses the nodes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import cast

import numpy as np
import numpy.typing as npt

from moorage._core.decide.pod_batch import Route
from moorage.answers.asked_pods import pending_pods
from moorage.answers.scheduler import Scheduler
from moorage.engine.framework import CycleState
from moorage.engine.scheduler.cycle.engine import Engine
from moorage.errors import InputError, MoorageError
from moorage.kube import Pod

from .autoscaler import autoscale
from .replay.coming_events import PodsAhead
from .replay.recorder import End, Recorder
from .replay.replay_timeline import Clauses
from .replay.replayer import Replayer, VirtualClock
from .timeline import Timeline

PYTHON, REJECTED = int(Route.PYTHON), int(Route.REJECTED)
REFUSED = {
    int(Route.VOLUMES): "volumes or resource claims",
    int(Route.WAITS): "a pod group",
    int(Route.EXTENDERS): "an extender",
}
"""Route bits of pods whose nodes cannot be chosen by an agent, and what they have."""

LEFT = "left pending"

Mask = npt.NDArray[np.int8]


class OfferedPod:
    """A pod whose node is wanted.

    Parameters
    ----------
    key : str
        ``namespace/name``.
    is_stored : bool
        Whether the store has it.

    Attributes
    ----------
    attempts : int
        How often it was offered and left pending.
    """

    __slots__ = ("attempts", "is_stored", "key", "pod")

    def __init__(self, pod: Pod, key: str, is_stored: bool) -> None:
        self.pod, self.key, self.is_stored = pod, key, is_stored
        self.attempts = 0


class PodAtHand(Clauses, frozen=True):
    """The node of a pod is wanted."""

    def holds(self, replayer: Replayer) -> bool:
        """Whether an episode has pods to offer."""
        return cast(Episode, replayer).has_offers

    def due(self, replayer: Replayer) -> float:
        """Return infinity: time alone brings no pod."""
        return math.inf


class Episode(Replayer):
    """A replay that stops at each pod and asks for its node.

    The pods of an instant are offered by descending priority. A pod that is left pending is offered again
    after the next instant at which something else happens than the creation of pods, if it fits somewhere
    then, or when the autoscaler has brought a node. Preemption, Permit and binding cycles do not take place.

    Parameters
    ----------
    scheduler : Scheduler
        With the clock, over a store of its own.

    Attributes
    ----------
    mask : (n,) int8 array
        1 for each row of the node table where the pod at hand fits; set by the owner, with room for all rows.
    """

    def __init__(self, scheduler: Scheduler, clock: VirtualClock, timeline: Timeline) -> None:
        self._at_hand: deque[OfferedPod] = deque()
        self._left: dict[str, OfferedPod] = {}
        self._asked: tuple[Engine, CycleState] | None = None
        if timeline.autoscaler is not None and timeline.autoscaler.karpenter is None:
            raise InputError("only Karpenter makes nodes where an agent chooses them", path="autoscaler")
        super().__init__(scheduler, clock, timeline, Recorder(timeline))
        self.condition = PodAtHand("a pod is at hand", ())
        self.mask: Mask = np.zeros(scheduler.table.used, np.int8)
        autoscale(self)
        self.try_all()

    @property
    def pending(self) -> int:
        """Number of pods that were left pending."""
        return len(self._left)

    # ---- for the owner -------------------------------------------------------------------------------------

    def next_pod(self) -> Pod | None:
        """Go on to the next pod whose node is wanted, and mark where it fits.

        Returns
        -------
        Pod or None
            None at the end of the timeline. A pod that is offered for the first time may fit nowhere.

        Raises
        ------
        InputError
            An event cannot be applied, or nobody can choose a node for the pod.
        """
        futile: set[object] = set()
        while True:
            while self._at_hand:
                offered = self._at_hand[0]
                if offered.attempts == 0:
                    self._mark(offered.pod)
                    return offered.pod
                target = self.scheduler.context.target_of(offered.pod)
                if target not in futile and self._mark(offered.pod):
                    return offered.pod
                futile.add(target)
                self._at_hand.popleft()
            futile.clear()
            self.advance()
            if self.scheduler.table.used > len(self.mask):
                used, room = self.scheduler.table.used, len(self.mask)
                raise InputError(f"{used} nodes, where the spaces have room for {room}", path="nodes")
            if not self._at_hand:
                self.mask.fill(0)
                return None

    def place_on(self, row: int) -> str:
        """Place the pod at hand on the node of a row.

        Raises
        ------
        MoorageError
            A Reserve plugin refuses.
        """
        offered = self._at_hand.popleft()
        pod, key = offered.pod, offered.key
        node = self.scheduler.table.row_name(row)
        self._reserve(pod, node)
        if self._left.pop(key, None) is not None:
            self.recorder.pending.pop(key, None)
        if not offered.is_stored:
            self._note_bound(pod, key, row)
            self._confirm((key,))
            return node
        recorder = self.recorder
        recorder.decide(self.clock.now, recorder.live[key], recorder.node(node), offered.attempts + 1)
        recorder.pending.pop(key, None)
        self.store.bind(pod, node)
        self.try_all()
        return node

    def leave_pending(self) -> None:
        """Leave the pod at hand pending."""
        offered = self._at_hand.popleft()
        recorder, now = self.recorder, self.clock.now
        offered.attempts += 1
        self._left[offered.key] = offered
        recorder.pending.setdefault(offered.key, now)
        number, reason = recorder.live[offered.key], recorder.reason(LEFT)
        recorder.decide(now, number, -1, offered.attempts, reason)
        if self.autoscaler is not None:
            self.settle()  # it looks for pending pods in the store

    # ---- filters and Reserve -------------------------------------------------------------------------------

    def _mark(self, pod: Pod) -> int:
        """Mark the rows where a pod fits, and return their number."""
        context = self.scheduler.context
        batch = context.batch_of((pod,))
        route = batch.route(0)
        for bit, what in REFUSED.items():
            if route & bit:
                raise InputError(f"has {what}, for which an agent chooses no node", obj=f"Pod {pod.key}")
        engine = context.engine_of_route(route)
        self._asked = None
        if route & PYTHON:
            return self._ask_plugins(engine, pod, batch.target(0))
        if route & REJECTED:
            self.mask.fill(0)
            return 0
        return engine.search.mark_feasible(self.mask, *batch.target(0))

    def _ask_plugins(self, engine: Engine, pod: Pod, target: tuple[int, int, int]) -> int:
        """Mark the rows where plugins outside the core pass a pod, too."""
        framework = engine.framework
        state = framework.state_of(target)
        engine.begin_cycle(target)
        engine.nodes_in_view()
        ran = framework.run_pre_filter_plugins(state, pod)
        self._asked = engine, state
        if ran.error:
            raise MoorageError(ran.error)
        if ran.rejection is not None:
            self.mask.fill(0)
            return 0
        engine.begin_search(state, pod, ran)
        try:
            framework.searching(True)
            return engine.search.mark_feasible(self.mask, *target)
        finally:
            framework.searching(False)

    def _reserve(self, pod: Pod, node: str) -> None:
        """Run the Reserve plugins outside the core for a pod whose filters have just been run."""
        if self._asked is None:
            return
        engine, state = self._asked
        status = engine.framework.run_reserve_plugins_reserve(state, pod, node)
        if status is not None and not status.is_success:
            raise MoorageError(f"Pod {pod.key} on node {node}: {status.message()}")

    # ---- pods that become known ----------------------------------------------------------------------------

    @property
    def has_offers(self) -> bool:
        """Whether pods are at hand."""
        return bool(self._at_hand)

    def _place_directly(self, new: Mapping[str, tuple[PodsAhead, int]]) -> bool:
        """Offer the new pods of an instant."""
        offered = [OfferedPod(ahead.pods[at], key, False) for key, (ahead, at) in new.items()]
        self._at_hand.extend(sorted(offered, key=_descending_priority))
        return True

    def _take_directly(self) -> None:
        ended = self.recorder.ended
        super()._take_directly()
        if self.recorder.ended != ended:
            self._offer_again()

    def _take(self) -> None:
        super()._take()
        self._offer_again()

    def _offer_again(self) -> None:
        """Offer the pods that were left pending, with those at hand."""
        if self._left:
            self._at_hand = deque(sorted((*self._left.values(), *self._at_hand), key=_descending_priority))

    def waiting_pods(self) -> list[Pod]:
        """The pods without a node; those that the agent decides about are in the store alone."""
        return pending_pods(self.scheduler)[0]

    def try_again(self) -> None:
        """Offer the pods whose time has come, and those that were left pending."""
        super().try_again()
        if self.autoscaler is not None:
            self._offer_again()

    def try_all(self) -> None:
        """Offer the pods that wait in the queue."""
        self.scheduler.sync()
        while infos := self.loop.take():
            for info in infos:
                self.queue.done([info])
                known = self._left.get(info.pod.key)
                if known is None:
                    self._at_hand.append(OfferedPod(info.pod, info.pod.key, True))
                else:
                    known.pod = info.pod
        self._idle = self._nothing_waits()

    def settle(self) -> None:
        """Write the pods of the core to the store, those that are left pending too."""
        super().settle()
        new = [offered for offered in self._left.values() if not offered.is_stored]
        if new:
            for offered in new:
                offered.is_stored = True
            self.store.create_many([offered.pod for offered in new])
            self.scheduler.sync()

    def _delete_pod(self, key: str) -> None:
        offered = self._left.get(key)
        if offered is None or offered.is_stored:
            super()._delete_pod(key)
        else:
            del self._left[key]
            self.recorder.end(self.clock.now, key, End.DELETED)

    def pod_deleted(self, pod: Pod) -> None:
        """Note that a pod is gone."""
        super().pod_deleted(pod)
        self._left.pop(pod.key, None)
        if any(offered.key == pod.key for offered in self._at_hand):
            self._at_hand = deque(offered for offered in self._at_hand if offered.key != pod.key)


def _descending_priority(offered: OfferedPod) -> int:
    return -(offered.pod.spec.priority or 0)
