"""Autoscaler: adds nodes for pods that fit nowhere, and removes nodes that are not needed, in a replay."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings
from moorage.autoscalers.cluster_autoscaler.cluster_autoscaler import LoopDecision
from moorage.autoscalers.cluster_autoscaler.flags import Memory, ScaleUpRequest
from moorage.autoscalers.cluster_autoscaler.pods_to_help import created, scale_up_delay
from moorage.autoscalers.cluster_autoscaler.scale_down_pass import ScaleDownResult
from moorage.autoscalers.group_scaler import GroupScaler, group_node
from moorage.autoscalers.group_settings import NodeGroup
from moorage.autoscalers.node_maker import NodeNames
from moorage.cluster.node_changes import NodeCopies
from moorage.errors import number_of
from moorage.kube import Pod

from .event_columns import AutoscalerSpec
from .karpenter_nodes import KarpenterState
from .karpenter_scaler import KarpenterScaler

if TYPE_CHECKING:
    from .replay.replayer import Replayer


class Upcoming(msgspec.Struct):
    """A node that was requested and has not joined yet: when it joins, its group and its name."""

    time: float
    group: str
    name: str


class AutoscalerState(Memory):
    """What is remembered, by cluster-autoscaler and of its nodes.

    Attributes
    ----------
    due, delayed : list of float
        When system pods that keep their nodes may go, and when pods are old enough to be helped.
    changed : float
        When a scan last found a change.
    serials : dict of str to int
        Number of the last node of each group.
    tick : int
        Number of the last scan.
    mark : tuple of int
        State of the cluster after the last scan that changed nothing.
    """

    upcoming: list[Upcoming] = []
    due: list[float] = []
    delayed: list[float] = []
    changed: float = -math.inf
    serials: dict[str, int] = {}
    tick: int = -1
    mark: tuple[int, ...] = ()

    def copy(self) -> AutoscalerState:
        """Return an independent copy."""
        return copy.deepcopy(self)


def autoscale(replayer: Replayer, state: AutoscalerState | KarpenterState | None = None) -> None:
    """Have the autoscaler of its timeline, if there is one, add and remove nodes in a replay.

    Parameters
    ----------
    state : AutoscalerState, optional
        Of another autoscaler, which this one continues.
    """
    spec = replayer.timeline.autoscaler
    if spec is None:
        return
    if spec.karpenter is not None:
        assert not isinstance(state, AutoscalerState)
        replayer.autoscaler = KarpenterScaler(spec.karpenter, replayer, state)
    else:
        assert not isinstance(state, KarpenterState)
        replayer.autoscaler = Autoscaler(spec, replayer, state)


class Autoscaler(GroupScaler):
    """The autoscaler of a replay.

    It scans the cluster at multiples of the interval, after the events and the attempts of that instant. A
    scan at which nothing has changed and no time has run out would change nothing, and is left out. Once the
    timeline has ended, nodes are added for pods that wait, but none is removed.

    Parameters
    ----------
    spec : AutoscalerSpec
        Checked (`moorage.sim.event_columns.checked`).
    state : AutoscalerState, optional
        Of another autoscaler, which this one continues.
    """

    def __init__(
        self, spec: AutoscalerSpec, replayer: Replayer, state: AutoscalerState | None = None
    ) -> None:
        super().__init__(replayer.scheduler, AutoscalerSettings(groups=spec))
        self.spec, self._replayer = spec, replayer
        self.state = AutoscalerState() if state is None else state
        self._interval = float(spec.scan_interval)
        self.state.interval = self._interval  # scans that would change nothing are left out
        if state is None:
            self._start()
        self._foresee()

    def _start(self) -> None:
        """Give each group its minimum of nodes at once."""
        lacking, names = self._lacking(self.sizes()), self._names()
        groups = [group for group, count in lacking for _ in range(count)]
        self._join([(group.name, names.new(group.name, group.stem)) for group in groups])

    # ---- time ----------------------------------------------------------------------------------------------

    def next_time(self) -> float:
        """Return when the autoscaler acts next: a node joins, or a scan.

        Returns
        -------
        float
            Seconds from the start; infinite if it waits for a change.
        """
        return min(self._next_scan(), self._next_join)

    def _next_scan(self) -> float:
        state, interval = self.state, self._interval
        later = self._after_delays if self._replayer.is_over else self._after_waits
        if self._replayer.mark() == state.mark:
            return later
        return min(max(math.ceil(self._replayer.clock.now / interval), state.tick + 1) * interval, later)

    def _foresee(self) -> None:
        """Note when nodes join, and the scans at which pods are old enough, or any time has run out; these
        change by acts alone."""
        state, interval = self.state, self._interval
        delays = [math.floor(end / interval) + 1 for end in state.delayed]
        self._next_join = min((upcoming.time for upcoming in state.upcoming), default=math.inf)
        self._after_delays, self._after_waits = (
            min((tick * interval for tick in ticks if tick > state.tick), default=math.inf)
            for ticks in (delays, delays + self._ticks())
        )

    def _ticks(self) -> list[int]:
        """Return the scans at which times that rules set have run out."""
        state, flags, interval = self.state, self.flags, self._interval
        ends = list(state.due)
        ticks: list[int] = []
        if self.spec.scale_down is not None:
            timeout = flags.unremovable_node_recheck_timeout
            own = [group.flags(flags) for group in self.provided]
            waits = {of_group.scale_down_unneeded_time for of_group in own}
            waits |= {of_group.scale_down_unready_time for of_group in own}
            ends += [since + wait for since in state.unneeded.values() for wait in waits]
            # Without a change, a node that could not be removed cannot be removed later.
            delays = [until for until in state.recheck.values() if until - timeout < state.changed]
            if state.unneeded:
                delays.append(state.added + flags.scale_down_delay_after_add)
                delays.append(state.deleted + flags.scale_down_delay_after_delete)
            ticks += [math.ceil(time / interval) for time in delays if time > 0]
        ticks += [math.floor(end / interval) + 1 for end in ends]
        return ticks

    # ---- acts ----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Have nodes join whose time has come, and scan if it is time for a scan."""
        replayer, now = self._replayer, self._replayer.clock.now
        ready = [upcoming for upcoming in self.state.upcoming if upcoming.time <= now]
        if ready:
            replayer.settle()
            self.state.upcoming = [upcoming for upcoming in self.state.upcoming if upcoming.time > now]
            self._join([(upcoming.group, upcoming.name) for upcoming in ready])
            replayer.try_again()
        if self._next_scan() <= now and not replayer.scheduler.bindings.running:
            self._scan(now)
        self._foresee()

    def _scan(self, now: float) -> None:
        """Request the nodes that a group lacks of its minimum, else have cluster-autoscaler decide."""
        replayer, state = self._replayer, self.state
        replayer.settle()
        replayer.scheduler.sync()
        state.tick = math.ceil(now / self._interval)
        if replayer.mark() != state.mark:
            state.changed = now
        members = self.group_of()
        lacking = self._lacking(self._sizes(members))
        for group, count in lacking:
            self._request(group, count, now, "minimum size")
            state.added = now
        has_changed = bool(lacking) or self._run_once(members, now)
        state.mark = () if has_changed else replayer.mark()

    def _sizes(self, members: dict[str, str]) -> Counter[str]:
        """Return the number of nodes of each group, with those that were requested."""
        sizes = Counter(dict.fromkeys(self.groups, 0))
        sizes.update(members.values())
        sizes.update(upcoming.group for upcoming in self.state.upcoming)
        return sizes

    # ---- as cluster-autoscaler decides ---------------------------------------------------------------------

    def _lacking(self, sizes: Mapping[str, int]) -> list[tuple[NodeGroup, int]]:
        """Return the groups below their minimum, and how many nodes they lack."""
        lacking = [(group, group.min_size - sizes[group.name]) for group in self.spec.node_groups]
        return [(group, count) for group, count in lacking if count > 0]

    def _run_once(self, members: dict[str, str], now: float) -> bool:
        """Have one loop add nodes for pods that fit nowhere, and remove those that are not needed."""
        removes = self.spec.scale_down is not None and not self._replayer.is_over
        replayer, state = self._replayer, self.state
        if not (replayer.recorder.pending or removes):
            return False
        upcoming = Counter(node.group for node in state.upcoming)
        state.targets = dict(self._sizes(members))
        state.requests = {name: ScaleUpRequest(count, now) for name, count in upcoming.items()}

        def draw(options: int) -> int:
            return int(np.random.default_rng([self.spec.seed, state.tick]).integers(options))

        *tried, _ = replayer.queue.pending_pods()  # without those that are gated
        waiting = [info.pod for info in chain(*tried)]
        waiting.sort(key=lambda pod: int(pod.metadata.resource_version or 0))
        waiting.sort(key=lambda pod: pod.metadata.creation_timestamp or "")
        player = self.player(state, removes)
        loop = player.run_once(replayer.scheduler, members, now, waiting, draw)
        for growth in loop.up.growths:
            why = number_of(len(loop.up.triggered), "pod", "pods")
            self._request(self.groups[growth.group], growth.new_size - growth.size, now, why)
        self._note_due(loop, waiting, now)
        gone = self._remove(loop.down, members)
        return bool(loop.up.growths) or gone or loop.down.is_cut

    def _note_due(self, loop: LoopDecision, waiting: Sequence[Pod], now: float) -> None:
        """Note when system pods that keep their nodes are old enough to go, and pods to be helped."""
        flags = self.flags
        timeout = flags.blocking_system_pod_disruption_timeout
        blockers = loop.down.blockers
        self.state.due = [
            max(created(pod) + timeout, self.state.recheck.get(name, 0.0))
            for name, (pod, rule) in blockers.items()
            if rule == "UnmovableKubeSystemPod"
        ]
        ends = {created(pod) + delay for pod in waiting if (delay := scale_up_delay(pod, flags))}
        self.state.delayed = sorted(end for end in ends if end >= now)

    def _request(self, group: NodeGroup, count: int, now: float, why: str) -> None:
        names, ready = self._names(), now + float(group.provision_time)
        new = [names.new(group.name, group.stem) for _ in range(count)]
        self.state.upcoming += [Upcoming(ready, group.name, name) for name in new]
        self._replayer.recorder.scalings.append((now, "add", group.name, count, why))

    def _names(self) -> NodeNames:
        """Return what names new nodes; it knows those that were requested."""
        coming = {upcoming.name for upcoming in self.state.upcoming}
        return NodeNames(self._replayer.scheduler.client, coming, self.state.serials)

    def _join(self, new: Iterable[tuple[str, str]]) -> None:
        """Have nodes join, given by group and name."""
        copies, groups = NodeCopies(self._replayer.scheduler.client), self.groups
        nodes = [group_node(copies, groups[group], name, groups[group].template) for group, name in new]
        self._replayer.join(nodes)

    # ---- fewer nodes ---------------------------------------------------------------------------------------

    def _remove(self, down: ScaleDownResult, members: dict[str, str]) -> bool:
        """Remove nodes; those that keep a pod stay."""
        replayer = self._replayer
        now, recorder = replayer.clock.now, replayer.recorder
        gone = [name for name in down.deleted if replayer.retire_node(name)]
        for group, count in Counter(members[name] for name in gone).items():
            recorder.scalings.append((now, "remove", group, count, "unneeded"))
        for name in gone:
            reason = "Underutilized" if name in down.drained else "Empty"
            recorder.disruptions.append((now, name, reason))
            self.state.unneeded.pop(name, None)
        if down.deleted:
            replayer.try_again()
        return bool(gone)
