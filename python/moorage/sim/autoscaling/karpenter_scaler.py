"""Karpenter in a replay: nodes come for pods that fit nowhere, and go as their pools say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from moorage.answers.asked_pods import pending_pods
from moorage.answers.pod_moves import pods_to_move
from moorage.errors import number_of
from moorage.kube import NodePool

from .karpenter_disruption import Disrupter
from .karpenter_nodes import NOMINATED, KarpenterNodes
from .karpenter_state import KarpenterState

if TYPE_CHECKING:
    from ..replay.replayer import Replayer
    from ..timeline.autoscaler_spec import KarpenterTimes

REQUEUE = 10.0
"""Seconds after which Karpenter looks again at a pod that it has planned a node for, and that still waits."""


class KarpenterScaler:
    """Karpenter in a replay.

    A pass over pods begins when no pod has come for a while, or some time after the first. A claim becomes a
    node once it is launched and registered, and takes pods once it is initialized. Passes over nodes are
    those of the `Disrupter`.
    """

    def __init__(
        self, times: KarpenterTimes, replayer: Replayer, state: KarpenterState | None = None
    ) -> None:
        self.times, self._replayer = times, replayer
        self.state = KarpenterState() if state is None else state
        self._nodes = KarpenterNodes(times, replayer, self.state)
        self._disrupter = Disrupter(self._nodes)

    # ---- time ----------------------------------------------------------------------------------------------

    def next_time(self) -> float:
        """Return when it acts next, in seconds from the start; infinite if it waits for a change."""
        times = [one.time for one in self.state.launching]
        times += [self._due(), self._disrupter.next_time()]
        if self._replayer.mark() != self.state.mark:
            times.append(float(self._replayer.clock.now))
        return min(times)

    def _due(self) -> float:
        """Return when the next pass over pods is."""
        idle, most = float(self.times.batch_idle), float(self.times.batch_max)
        return min(self.state.last + idle, self.state.first + most)

    # ---- acts ----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Have nodes come and go whose time it is, look for pods, and make claims for them if it is time."""
        replayer, state, now = self._replayer, self.state, float(self._replayer.clock.now)
        has_changed = replayer.mark() != state.mark
        replayer.settle()
        if self._nodes.go_on(now):
            replayer.try_again()
        self._nodes.note_pod_events(now)
        self._look(now)
        can_decide = not replayer.scheduler.bindings.running
        if self._due() <= now and can_decide:
            self._pass(now)
        moves = can_decide and self._disrupter.act(now)
        if moves:
            replayer.try_again()
            self._nodes.note_pod_events(now)
        self._disrupter.plan(now, has_changed or moves)
        state.mark = () if moves else replayer.mark()  # what moved is looked at again

    def _look(self, now: float) -> None:
        """Note new pods that need another node. Pods that wait on are looked at again."""
        state, scheduler = self.state, self._replayer.scheduler
        leaving = [pod for node in state.leaving.values() for pod in pods_to_move(scheduler, node)]
        waiting = frozenset(pod.key for pod in (*pending_pods(scheduler)[0], *leaving))
        if waiting - state.waiting:
            state.first, state.last = min(state.first, now), now
        elif waiting and state.first == math.inf:
            state.first = state.last = max(now, state.passed + REQUEUE)
        state.waiting = waiting

    def _pass(self, now: float) -> None:
        state = self.state
        state.first = state.last = math.inf
        state.passed = now
        if not (state.waiting and self._nodes.client.list(NodePool)[0]):
            return
        self._nodes.note_hashes()
        answer = self._nodes.question(now).answer()
        state.nominated |= dict.fromkeys(answer.existing, now + NOMINATED)
        for claim in answer.claims:
            if claim.launched is not None:
                self._nodes.launch(claim, now, number_of(len(claim.pods), "pod", "pods"))
        self._replayer.scheduler.sync()
