"""Karpenter in a replay: passes over pods that fit nowhere, and the way of a claim to a node."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from moorage.autoscaling import read_instance_types
from moorage.autoscaling.launched_nodes import claim_and_node
from moorage.autoscaling.pending_provisioning import provision_pods
from moorage.changes.change import with_own_uids
from moorage.objects import Node, NodeClaim, NodePool, Object, Taint
from moorage.objects.read.object_defaults import defaults
from moorage.planning.pending import pending_pods
from moorage.sim.timeline import Event, Verb

if TYPE_CHECKING:
    from moorage.autoscaling import NewClaim
    from moorage.sim.replay.replayer import Replayer
    from moorage.sim.timeline.autoscaler_spec import KarpenterTimes

REQUEUE = 10.0
"""Seconds after which Karpenter looks again at a pod that it has planned a node for, and that still waits."""
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
_INITIALIZED = "karpenter.sh/initialized"


class Launching(msgspec.Struct):
    """A node that is on its way: what happens next, when, and the node as it is once it is ready."""

    time: float
    node: Node
    is_registered: bool = False


class KarpenterState(msgspec.Struct):
    """What is remembered.

    Attributes
    ----------
    launching : list of Launching
    first, last : float
        When the first and the last pod came since the last pass; infinite without one.
    passed : float
        When the last pass was.
    waiting : frozenset of str
        Pods that fit nowhere, of which Karpenter knows.
    serials : dict of str to int
        Number of the last node of each pool.
    mark : tuple of int
        State of the cluster when it was last looked at.
    """

    launching: list[Launching] = []
    first: float = math.inf
    last: float = math.inf
    passed: float = -math.inf
    waiting: frozenset[str] = frozenset()
    serials: dict[str, int] = {}
    mark: tuple[int, ...] = ()

    def copy(self) -> KarpenterState:
        """Return an independent copy."""
        return copy.deepcopy(self)


class KarpenterScaler:
    """Karpenter in a replay.

    A pass begins when no pod has come for a while, or some time after the first. A claim becomes a node once
    it is launched and registered, and takes pods once it is initialized.
    """

    def __init__(
        self, times: KarpenterTimes, replayer: Replayer, state: KarpenterState | None = None
    ) -> None:
        self.times, self._replayer = times, replayer
        self.state = KarpenterState() if state is None else state
        file = times.instance_types
        self._types = None if file is None else read_instance_types(file)

    # ---- time ----------------------------------------------------------------------------------------------

    def next_time(self) -> float:
        """Return when it acts next, in seconds from the start; infinite if it waits for a change."""
        times = [one.time for one in self.state.launching]
        times.append(self._due())
        if self._replayer.mark() != self.state.mark:
            times.append(float(self._replayer.clock.now))
        return min(times)

    def _due(self) -> float:
        """Return when the next pass is."""
        idle, most = float(self.times.batch_idle), float(self.times.batch_max)
        return min(self.state.last + idle, self.state.first + most)

    # ---- acts ----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Have nodes come whose time it is, look for pods, and make claims for them if it is time for it."""
        replayer, state, now = self._replayer, self.state, float(self._replayer.clock.now)
        ready = [one for one in state.launching if one.time <= now]
        if ready:
            replayer.settle()
            state.launching = [one for one in state.launching if one.time > now]
            for one in ready:
                self._go_on(one, now)
            replayer.try_again()
        self._look(now)
        if self._due() <= now and not replayer.scheduler.bindings.running:
            self._pass(now)
        state.mark = self._replayer.mark()

    def _go_on(self, one: Launching, now: float) -> None:
        """Have a node register, or become ready."""
        wait, node, client = float(self.times.initialization_time), one.node, self._replayer.scheduler.client
        if one.is_registered:
            node = replace(client.get(Node, node.name), spec=node.spec, metadata=node.metadata)
            client.update(replace(node, metadata=replace(node.metadata, resource_version="")))
            return
        if wait > 0:
            self.state.launching.append(Launching(now + wait, node, True))
            labels = {key: value for key, value in node.metadata.labels.items() if key != _INITIALIZED}
            (claim,) = (each for each in client.list(NodeClaim)[0] if each.name == node.name)
            taints = (*node.spec.taints, *claim.spec.startup_taints, NOT_READY)
            metadata = replace(node.metadata, labels=labels)
            node = replace(node, metadata=metadata, spec=replace(node.spec, taints=taints))
        self._replayer.apply(Event(now, Verb.CREATE, f"node/{node.name}", node))

    def _look(self, now: float) -> None:
        """Note new pods that fit nowhere. Pods that wait on are looked at again."""
        state = self.state
        waiting = frozenset(pod.key for pod in pending_pods(self._replayer.scheduler)[0])
        if waiting - state.waiting:
            state.first, state.last = min(state.first, now), now
        elif waiting and state.first == math.inf:
            state.first = state.last = max(now, state.passed + REQUEUE)
        state.waiting = waiting

    def _pass(self, now: float) -> None:
        replayer, state = self._replayer, self.state
        replayer.settle()
        scheduler, client = replayer.scheduler, replayer.scheduler.client
        state.first = state.last = math.inf
        state.passed = now
        listed: list[NodePool] = client.list(NodePool)[0]
        pools = {pool.name: pool for pool in listed}
        if not (state.waiting and pools):
            return
        answer = provision_pods(scheduler, sorted(state.waiting), self._types, seed=self.times.seed)
        ready = now + float(self.times.launch_time) + float(self.times.registration_time)
        for claim in answer.claims:
            if claim.launched is not None:
                self._launch(claim, pools[claim.pool], now, ready)
        scheduler.sync()

    def _launch(self, claim: NewClaim, pool: NodePool, now: float, ready: float) -> None:
        client, made = self._replayer.scheduler.client, list[Object]()
        for one in claim_and_node(claim, self._name(pool.name), pool):
            made += with_own_uids(client, defaults([one]))
        own, node = made
        client.create(own)
        assert isinstance(node, Node)
        self.state.launching.append(Launching(ready, node))
        why = f"{len(claim.pods)} pods"
        self._replayer.recorder.scalings.append((now, "add", pool.name, 1, why))

    def _name(self, pool: str) -> str:
        """Return the name of a new node."""
        serials, client = self.state.serials, self._replayer.scheduler.client
        taken = {one.name for kind in (Node, NodeClaim) for one in client.list(kind)[0]}
        while True:
            serials[pool] = serials.get(pool, 0) + 1
            if f"{pool}-{serials[pool]}" not in taken:
                return f"{pool}-{serials[pool]}"
