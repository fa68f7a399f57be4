"""The nodes of Karpenter in a replay: their way from a claim, and what passes are asked about them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace as with_values
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec.structs import asdict, replace

from moorage.autoscalers.autoscaler_protocol import AutoscalerSettings, Made
from moorage.autoscalers.karpenter.disrupt import Method
from moorage.autoscalers.karpenter.disruption_candidates import HASH, HASH_VERSION
from moorage.autoscalers.karpenter.disruption_moves import Command
from moorage.autoscalers.karpenter.existing_nodes import INITIALIZED
from moorage.autoscalers.karpenter.karpenter_options import KarpenterOptions
from moorage.autoscalers.karpenter.new_nodes_result import NewClaim
from moorage.autoscalers.karpenter.pod_validation import is_terminal, owned_by
from moorage.autoscalers.launched_nodes import READY_CLAIM, claim_and_node, ready_since
from moorage.autoscalers.node_maker import NodeNames
from moorage.autoscalers.pool_scaler import PassQuestion, PoolScaler
from moorage.autoscalers.providers.instance_type import POOL
from moorage.autoscalers.providers.type_files import given_types
from moorage.autoscalers.scale_up_answer import nodes_price
from moorage.cluster.change import with_own_uids
from moorage.errors import number_of
from moorage.kube import Condition, Node, NodeClaim, NodePool, Object, Pod, Taint
from moorage.kube.go_texts import timestamp
from moorage.kube.read.object_defaults import defaults
from moorage.kube.read.python_values import Source
from moorage.kube.strict_documents import parse_moment
from moorage.store import find_object
from moorage.store.informer import HandlerFunctions

if TYPE_CHECKING:
    from .event_columns import KarpenterTimes
    from .replay.replayer import Replayer


class Launching(msgspec.Struct, frozen=True):
    """A node that is on its way: what happens next, when, and the node as it is once it is ready."""

    time: float
    node: Node
    is_registered: bool = False


class Proposal(msgspec.Struct, frozen=True):
    """A command of a method, and when it is validated."""

    time: float
    method: Method
    command: Command


class Replacing(msgspec.Struct, frozen=True):
    """Nodes that go once those that replace them are ready: claims with their nodes, and new claims."""

    begun: float
    going: dict[str, str]
    coming: tuple[str, ...]
    reason: str


class Departure(msgspec.Struct, frozen=True):
    """A node that is drained: since when, when its pods were last evicted, and when the next is deleted
    whatever budgets say."""

    node: str
    since: float
    tried: float = -math.inf
    forced: float = math.inf


class KarpenterState(msgspec.Struct):
    """What is remembered; times are seconds from the start of the timeline.

    Attributes
    ----------
    first, last, passed : float
        When the first and the last pod came since the last pass over pods, and when that was.
    waiting : frozenset of str
        Pods that need another node, of which Karpenter knows.
    serials : dict of str to int
        Number of the last node of each pool.
    mark, passed_mark : tuple of int
        State of the cluster when it was last looked at, and after a pass over nodes that found nothing.
    next_pass, due, wakes : float
        The earliest time of the next pass over nodes, when it is, and when it may find something though
        nothing has changed.
    nominated : dict of str to float
        Until when pods are expected on nodes.
    departures : dict of str to Departure
        By the name of the claim.
    again, expires : float
        When nodes are drained again, or a replacement is given up; and when the next claim expires.
    """

    launching: list[Launching] = []
    first: float = math.inf
    last: float = math.inf
    passed: float = -math.inf
    waiting: frozenset[str] = frozenset()
    serials: dict[str, int] = {}
    mark: tuple[int, ...] = ()
    next_pass: float = 0.0
    due: float = math.inf
    passed_mark: tuple[int, ...] = ()
    wakes: float = -math.inf
    nominated: dict[str, float] = {}
    proposal: Proposal | None = None
    replacing: list[Replacing] = []
    departures: dict[str, Departure] = {}
    again: float = math.inf
    expires: float = math.inf

    def copy(self) -> KarpenterState:
        """Return an independent copy; what it holds is never changed."""
        return KarpenterState(**{name: copy.copy(value) for name, value in asdict(self).items()})

    @property
    def leaving(self) -> dict[str, str]:
        """The nodes that are being removed, by the names of their claims."""
        replaced = {claim: node for command in self.replacing for claim, node in command.going.items()}
        return replaced | {claim: departure.node for claim, departure in self.departures.items()}


NOMINATED = 20.0
"""Seconds for which pods are expected on a node."""
OURS = "moorage"
"""The version of our hashes of templates."""
NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
K = TypeVar("K", bound=Object)


class KarpenterNodes(PoolScaler):
    """Makes nodes of claims, and keeps claims up to date; times are seconds from the start."""

    def __init__(self, times: KarpenterTimes, replayer: Replayer, state: KarpenterState) -> None:
        self.times, self.replayer, self.state = times, replayer, state
        names, start = times.type_names, times.start_time
        self.began = replayer.since if start is None else parse_moment(start, "startTime")
        options = KarpenterOptions(
            spot_to_spot=times.spot_to_spot, ignore_dra_requests=times.ignore_dra_requests
        )
        types = given_types(*names) if names else None
        super().__init__(replayer.scheduler, AutoscalerSettings(types, options, times.seed))
        self._touched: set[str] = set()
        self._running: dict[int, tuple[Pod, Pod]] = {}
        handler = HandlerFunctions(self._touch, self._updated, self._touch)
        self.scheduler.informers.informer(Pod).add_event_handler(handler)
        self.scheduler.sync()
        self._touched.clear()  # pods that are there have not come now

    def stamp(self, now: float) -> str:
        """A time as objects have it."""
        return timestamp(int(self.began + now))

    def find(self, kind: type[K], name: str) -> K | None:
        """An object of the cluster; None if it is gone."""
        return find_object(self.client, kind, name)

    def question(self, pods: Sequence[Source] | None) -> PassQuestion:
        """What a pass is asked about pods, in the cluster as it is now."""
        now, state = float(self.replayer.clock.now), self.state
        self.now, self.marked = self.began + now, frozenset(state.leaving.values())
        self.nominated = frozenset(name for name, end in state.nominated.items() if end > now)
        question = super().question(pods)
        before, pods = self._running, cast("list[Pod]", question.stored[Pod])
        self._running = {id(pod): before.get(id(pod)) or (pod, _running(pod)) for pod in pods}
        running: list[Object] = [as_it_runs for _, as_it_runs in self._running.values()]
        return with_values(question, stored=question.stored | {Pod: running})

    # ---- from a claim to a node ----------------------------------------------------------------------------

    def make(self, claims: Iterable[NewClaim], turn: int) -> Made:
        """Create claims for pods that wait; none of their nodes is there at once."""
        for claim in claims:
            self.launch(claim, number_of(len(claim.pods), "pod", "pods"))
        return {}, []

    def launch(self, new: NewClaim, why: str) -> str:
        """Create a claim, and return its name; its node comes later."""
        times, now = self.times, float(self.replayer.clock.now)
        pool = self.client.get(NodePool, new.pool)
        name = NodeNames(self.client, set(), self.state.serials).new(pool.name, pool.name)
        claim, node = (
            obj
            for document in claim_and_node(new, name, pool)
            for obj in with_own_uids(self.client, defaults([document]))
        )
        assert isinstance(claim, NodeClaim)
        assert isinstance(node, Node)
        hashes = {key: pool.metadata.annotations[key] for key in (HASH, HASH_VERSION)}
        metadata = replace(claim.metadata, creation_timestamp=self.stamp(now), annotations=hashes)
        status = replace(claim.status, conditions=READY_CLAIM[:1])
        self.client.create(replace(claim, metadata=metadata, status=status))
        ready = now + float(times.launch_time) + float(times.registration_time)
        self.state.launching.append(Launching(ready, node))
        self.state.nominated[name] = now + NOMINATED
        if new.launched is not None:
            why += f": {new.launched.named}, {nodes_price([new.launched])}"
        self.replayer.recorder.scalings.append((now, "add", pool.name, 1, why))
        return name

    def go_on(self, now: float) -> bool:
        """Have nodes register or become ready whose time has come; return whether there were any."""
        state = self.state
        ready = [launching for launching in state.launching if launching.time <= now]
        state.launching = [launching for launching in state.launching if launching.time > now]
        for launching in ready:
            claim = self.find(NodeClaim, launching.node.name)
            if claim is not None and claim.name not in state.departures:
                self._register(launching, claim, now)
        return bool(ready)

    def _register(self, launching: Launching, claim: NodeClaim, now: float) -> None:
        wait, node = float(self.times.initialization_time), launching.node
        if not launching.is_registered and wait > 0:
            self.state.launching.append(Launching(now + wait, node, True))
            labels = {key: value for key, value in node.metadata.labels.items() if key != INITIALIZED}
            taints = (*node.spec.taints, *claim.spec.startup_taints, NOT_READY)
            metadata = replace(node.metadata, labels=labels)
            self.replayer.join([replace(node, metadata=metadata, spec=replace(node.spec, taints=taints))])
            return
        if not launching.is_registered:
            self.replayer.join([node])
        elif (there := self.find(Node, node.name)) is not None:
            metadata = replace(node.metadata, resource_version="")
            self.client.update(replace(there, spec=node.spec, metadata=metadata))
        else:  # the timeline has deleted it
            self.client.delete(NodeClaim, claim.name)
            return
        self.client.update(ready_since(claim, self.stamp(now)))

    # ---- what controllers write on claims ------------------------------------------------------------------

    def note_hashes(self) -> None:
        """Give pools the hash of their template, from which claims drift when it changes."""
        pools: list[NodePool] = self.client.list(NodePool)[0]
        for pool in pools:
            template, notes = pool.spec.template, pool.metadata.annotations
            counted = replace(template, spec=replace(template.spec, requirements=()))
            digest = sha256(msgspec.json.encode(counted)).hexdigest()[:16]
            hashes = {HASH: digest, HASH_VERSION: OURS}
            if notes.get(HASH_VERSION) != OURS:  # claims that had not drifted get the hash of this version
                claims: list[NodeClaim] = self.client.list(NodeClaim)[0]
                for claim in claims:
                    if claim.metadata.labels.get(POOL) == pool.name:
                        was = claim.metadata.annotations.get(HASH, notes.get(HASH))
                        self._annotate(claim, hashes if was == notes.get(HASH) else {HASH_VERSION: OURS})
            if not hashes.items() <= notes.items():
                self._annotate(pool, hashes)

    def _annotate(self, obj: Object, notes: dict[str, str]) -> None:
        annotations = obj.metadata.annotations | notes
        self.client.update(replace(obj, metadata=replace(obj.metadata, annotations=annotations)))

    def set_condition(self, claim: NodeClaim, kind: str, now: float) -> None:
        """Write on a claim that a condition holds since now."""
        new = Condition(type=kind, status="True", last_transition_time=self.stamp(now))
        conditions = (*(condition for condition in claim.status.conditions if condition.type != kind), new)
        self.client.update(replace(claim, status=replace(claim.status, conditions=conditions)))

    def note_pod_events(self, now: float) -> None:
        """Write on claims that pods came to their nodes or left them."""
        touched, self._touched = self._touched, set()
        if not touched:
            return
        claims: list[NodeClaim] = self.client.list(NodeClaim)[0]
        nodes = {node.spec.provider_id for name in touched if (node := self.find(Node, name)) is not None}
        for claim in claims:
            if claim.status.provider_id in nodes:
                status = replace(claim.status, last_pod_event_time=self.stamp(now))
                self.client.update(replace(claim, status=status))

    def _updated(self, old: Pod, new: Pod) -> None:
        ends = is_terminal(new) and not is_terminal(old)
        is_going = new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None
        if ends or is_going or old.spec.node_name != new.spec.node_name:
            self._touch(new)

    def _touch(self, pod: Pod) -> None:
        if pod.spec.node_name and not owned_by(pod, "DaemonSet", "apps/v1"):
            self._touched.add(pod.spec.node_name)


def _running(pod: Pod) -> Pod:
    """A pod as it is in a replay, where it runs as soon as it has a node."""
    if not pod.spec.node_name or pod.status.phase not in ("", "Pending"):
        return pod
    return replace(pod, status=replace(pod.status, phase="Running"))
