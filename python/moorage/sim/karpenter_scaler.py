"""Karpenter in a replay: nodes come for pods that fit nowhere, and go as their pools say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage.answers.pod_moves import pods_to_move
from moorage.autoscalers.karpenter.cluster_view import ClusterView
from moorage.autoscalers.karpenter.disrupt import DRIFT, METHODS, VALIDATION_DELAY, DisruptionPass, Method
from moorage.autoscalers.karpenter.disruption_candidates import (
    consolidatable_at,
    expires_at,
    next_change,
    nodes_of_pools,
)
from moorage.autoscalers.karpenter.disruption_moves import Command
from moorage.autoscalers.karpenter.existing_nodes import is_true
from moorage.autoscalers.karpenter.pod_validation import (
    DISRUPTED,
    is_protected,
    is_terminal,
    tolerates_disruption,
)
from moorage.autoscalers.launched_nodes import assume_claims, remove_claims
from moorage.autoscalers.providers.instance_type import POOL
from moorage.cluster.node_changes import stays
from moorage.controllers.api_server import may_delete
from moorage.errors import number_of
from moorage.kube import Node, NodeClaim, NodePool, Pod
from moorage.kube.admission.request import controller_account
from moorage.kube.go_texts import parse_duration
from moorage.kube.read.object_defaults import GRACE_PERIOD
from moorage.store.informer import HandlerFunctions

from .karpenter_nodes import NOMINATED, Departure, KarpenterNodes, KarpenterState, Proposal, Replacing

if TYPE_CHECKING:
    from .event_columns import KarpenterTimes
    from .replay.replayer import Replayer


PERIOD = 10.0
"""Seconds between passes that find nothing."""
TIMEOUT = 600.0
"""Seconds after which a replacement that is not ready is given up."""
RETRY = 1.0
"""Seconds after which the pods of a node are evicted again."""
_ACCOUNT = controller_account("karpenter")
_TAINT = f"{DISRUPTED.key}:{DISRUPTED.effect}"


class Disrupter:
    """Has nodes go, by passes that Karpenter makes every 10 s.

    Rules: Karpenter v1.15.0, pkg/controllers/disruption (controller.go, queue.go, validation.go),
    pkg/controllers/nodeclaim/expiration and pkg/controllers/node/termination.

    A pass at which nothing has changed and no time has run out would find nothing, and is left out. Without
    an event to come no pass begins and no claim expires, but nodes that are going do go.
    """

    def __init__(self, nodes: KarpenterNodes) -> None:
        self._nodes, self.state = nodes, nodes.state
        self._replayer, self._client = nodes.replayer, nodes.client
        self._scheduler = nodes.replayer.scheduler
        self._expiries: dict[str, float] = {}  # by the name of a claim
        self._changed: set[str] = set()  # claims that may have lost their nodes, or be deleted
        informers = self._scheduler.informers
        claims = HandlerFunctions(self._note, lambda _, claim: self._note(claim), self._forget)
        informers.informer(NodeClaim).add_event_handler(claims)
        nodes_go = HandlerFunctions(lambda _: None, lambda *_: None, self._note_loss)
        informers.informer(Node).add_event_handler(nodes_go)
        self._scheduler.sync()

    def _note(self, claim: NodeClaim) -> None:
        self._changed.add(claim.name)
        self._expiries[claim.name] = expires_at(claim) - self._nodes.began

    def _forget(self, claim: NodeClaim) -> None:
        self._expiries.pop(claim.name, None)

    def _note_loss(self, node: Node) -> None:
        self._changed |= self._expiries.keys()

    # ---- time ----------------------------------------------------------------------------------------------

    def next_time(self) -> float:
        """Return when it acts next, in seconds from the start; infinite if it waits for a change."""
        state = self.state
        if self._replayer.is_over:
            return state.again
        return min(state.again, state.expires, state.proposal.time if state.proposal else state.due)

    def plan(self, now: float, has_changed: bool) -> None:
        """Note when it acts next."""
        state = self.state
        again = [replacing.begun + TIMEOUT for replacing in state.replacing]
        for departure in state.departures.values():
            again.append(departure.forced)
            if has_changed:
                again.append(departure.tried + RETRY)
        state.again = min((time for time in again if time > now), default=math.inf)
        staying = (end for name, end in self._expiries.items() if name not in state.departures)
        state.expires = max(now, min(staying, default=math.inf))
        since = now if self._replayer.mark() != state.passed_mark else state.wakes
        late = max(0.0, since - state.next_pass)
        state.due = state.next_pass + PERIOD * math.ceil(late / PERIOD) if late < math.inf else math.inf

    def _wakes(self, view: ClusterView, now: float) -> float:
        """Return when a pass may find something though nothing has changed."""
        began = self._nodes.began
        times = [began + end for end in self.state.nominated.values()]
        times += [next_change(pool, began + now) for pool in view.objects.list(NodePool)]
        for pool, node in nodes_of_pools(view):
            times += [consolidatable_at(pool, node), node.offered_until]
        return min((time - began for time in times if time > began + now), default=math.inf)

    # ---- acts ----------------------------------------------------------------------------------------------

    def act(self, now: float) -> bool:
        """Do what is due; return whether pods or nodes have gone."""
        state = self.state
        state.nominated = {name: end for name, end in state.nominated.items() if end > now}
        changed, self._changed = self._changed, set()
        self._terminate(self._nodes_of(changed, self._is_lost), "Deleted", now)
        if not self._replayer.is_over:
            expired = [name for name, end in self._expiries.items() if end <= now]
            self._terminate(self._nodes_of(expired), "Expired", now)
            self._pass(now)
        self._replace(now)
        return self._drain(now)

    def _nodes_of(
        self, names: Iterable[str], goes: Callable[[NodeClaim], bool] = lambda _: True
    ) -> dict[str, str]:
        """The nodes of those of some claims that go."""
        claims = (self._nodes.find(NodeClaim, name) for name in sorted(names))
        return {claim.name: claim.status.node_name for claim in claims if claim is not None and goes(claim)}

    def _is_lost(self, claim: NodeClaim) -> bool:
        """Whether a claim is deleted, or its node is."""
        is_registered = is_true(claim, "Registered")
        has_no_node = is_registered and self._nodes.find(Node, claim.status.node_name) is None
        return has_no_node or claim.metadata.deletion_timestamp is not None

    # ---- a pass --------------------------------------------------------------------------------------------

    def _pass(self, now: float) -> None:
        """Look for a command, or see whether the one of 15 s ago still holds."""
        state, proposal, methods = self.state, self.state.proposal, list(METHODS)
        if now < (proposal.time if proposal is not None else state.due):
            return
        disruption = self._disruption(now)
        if proposal is not None:
            state.proposal = None
            command = proposal.method.validated(disruption, proposal.command)
            if command is not None and self._begin(proposal.method, command, now):
                return
            methods = methods[methods.index(proposal.method) + 1 :]
        for method in methods:
            result = disruption.propose(method)
            if method == DRIFT:
                for candidate in result.candidates:
                    if not is_true(candidate.claim, "Drifted"):
                        self._nodes.set_condition(candidate.claim, "Drifted", now)
            if result.command is None:
                continue
            if method != DRIFT:
                state.proposal = Proposal(now + VALIDATION_DELAY, method, result.command)
                return
            if self._begin(method, result.command, now):
                return
        state.next_pass, state.passed_mark = now + PERIOD, self._replayer.mark()
        state.wakes = self._wakes(disruption.view, now)

    def _disruption(self, now: float) -> DisruptionPass:
        came = self._nodes.stamp(now) if now else ""
        assume_claims(self._scheduler, came)  # of nodes that the timeline has made since
        self._nodes.note_hashes()
        return DisruptionPass(self._nodes.question(sorted(self.state.waiting)).view(), tells=False)

    def _begin(self, method: Method, command: Command, now: float) -> bool:
        """Taint nodes that go, and launch what comes in their place; False if that is not possible."""
        if not command.is_launchable:
            return False
        state, claims = self.state, command.new_claims()
        going = command.going
        self._scheduler.change.taint([*going.values()], _TAINT)
        why = f"replaces {number_of(len(going), 'node', 'nodes')}: {method.reason}"
        coming = tuple([self._nodes.launch(claim, why) for claim in claims])
        state.replacing.append(Replacing(now, going, coming, method.reason))
        state.nominated |= dict.fromkeys(command.moves, now + NOMINATED)
        state.next_pass, state.passed_mark = now, ()
        return True

    def _replace(self, now: float) -> None:
        """Have nodes go whose replacements are ready; those whose replacement does not come stay."""
        state, left = self.state, list[Replacing]()
        on_the_way = {launching.node.name for launching in state.launching}
        for replacing in state.replacing:
            if any(self._nodes.find(NodeClaim, name) is None for name in replacing.coming) or (
                now - replacing.begun >= TIMEOUT and not on_the_way.isdisjoint(replacing.coming)
            ):
                self._taint(replacing.going, f"{_TAINT}-")
            elif on_the_way.isdisjoint(replacing.coming):
                self._terminate(replacing.going, replacing.reason, now)
            else:
                left.append(replacing)
        state.replacing = left

    # ---- nodes that go -------------------------------------------------------------------------------------

    def _terminate(self, going: Mapping[str, str], reason: str, now: float) -> None:
        """Have the nodes of claims go, unless they do already."""
        departures, counts = self.state.departures, Counter[str]()
        new = {name: node for name, node in going.items() if name not in departures}
        for name, node in new.items():
            claim = self._nodes.find(NodeClaim, name)
            if claim is not None:
                departures[name] = Departure(node, now)
                if self._nodes.find(Node, node) is not None:
                    counts[claim.metadata.labels.get(POOL, "")] += 1
                    self._replayer.recorder.disruptions.append((now, node, reason))
        self._taint(new, _TAINT)
        for pool, count in counts.items():
            self._replayer.recorder.scalings.append((now, "remove", pool, count, reason))

    def _taint(self, going: Mapping[str, str], taint: str) -> None:
        there = [node for node in going.values() if node and self._nodes.find(Node, node) is not None]
        if there:
            self._scheduler.change.taint(there, taint)

    def _drain(self, now: float) -> bool:
        """Evict pods of nodes that go, and delete those nodes that are empty then."""
        departures, has_changed = self.state.departures, False
        for name, departure in [*departures.items()]:
            if now < departure.tried + RETRY and now < departure.forced:
                continue
            claim, before = self._nodes.find(NodeClaim, name), self._replayer.mark()
            with self._replayer.removing():
                forced = self._evict(departure, claim, now)
                if forced < 0:
                    remove_claims(self._scheduler, {name: departure.node})
                    del departures[name]
                else:
                    departures[name] = replace(departure, tried=now, forced=forced)
            has_changed |= self._replayer.mark() != before
        return has_changed

    def _evict(self, departure: Departure, claim: NodeClaim | None, now: float) -> float:
        """Evict the pods of a node as budgets allow it.

        Returns when the next pod is deleted whatever budgets say, infinite if never; or -1 if none is left.
        """
        state = self._scheduler.cache.state
        row = state.find_row(departure.node)
        pods: list[Pod] = [] if row is None else state.pods_of(row)
        grace = claim.spec.termination_grace_period if claim is not None else None
        end = departure.since + parse_duration(grace) / 1e9 if grace else math.inf
        evicted, ends, has_left = list[Pod](), [math.inf], False
        for pod in pods:
            if stays(pod) or is_terminal(pod) or tolerates_disruption(pod):
                continue
            period = pod.spec.termination_grace_period_seconds
            last = end - (GRACE_PERIOD if period is None else period)
            if pod.metadata.deletion_timestamp is not None:
                has_left = True
            elif last <= now:
                if may_delete(self._client, pod, _ACCOUNT):
                    self._client.delete(Pod, pod.name, pod.namespace)
                else:
                    has_left = True
            elif is_protected(pod, self._nodes.began + now):
                has_left = True
                ends.append(last)
            else:
                evicted.append(pod)
                ends.append(last)
        left = self._scheduler.change.evict(evicted).unfinished if evicted else {}
        return min(ends) if has_left or left else -1.0


REQUEUE = 10.0
"""Seconds after which Karpenter looks again at a pod that it has planned a node for, and that still waits."""


class KarpenterScaler(KarpenterNodes):
    """Karpenter in a replay.

    A pass over pods begins when no pod has come for a while, or some time after the first. A claim becomes a
    node once it is launched and registered, and takes pods once it is initialized. Passes over nodes are
    those of the `Disrupter`.
    """

    def __init__(
        self, times: KarpenterTimes, replayer: Replayer, state: KarpenterState | None = None
    ) -> None:
        super().__init__(times, replayer, KarpenterState() if state is None else state)
        self._disrupter = Disrupter(self)

    # ---- time ----------------------------------------------------------------------------------------------

    def next_time(self) -> float:
        """Return when it acts next, in seconds from the start; infinite if it waits for a change."""
        times = [launching.time for launching in self.state.launching]
        times += [self._due(), self._disrupter.next_time()]
        if self.replayer.mark() != self.state.mark:
            times.append(float(self.replayer.clock.now))
        return min(times)

    def _due(self) -> float:
        """Return when the next pass over pods is."""
        idle, most = float(self.times.batch_idle), float(self.times.batch_max)
        return min(self.state.last + idle, self.state.first + most)

    # ---- acts ----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Have nodes come and go whose time it is, look for pods, and make claims for them if it is time."""
        replayer, state, now = self.replayer, self.state, float(self.replayer.clock.now)
        has_changed = replayer.mark() != state.mark
        replayer.settle()
        if self.go_on(now):
            replayer.try_again()
        self.note_pod_events(now)
        self._look(now)
        can_decide = not replayer.scheduler.bindings.running
        if self._due() <= now and can_decide:
            self._pass(now)
        moves = can_decide and self._disrupter.act(now)
        if moves:
            replayer.try_again()
            self.note_pod_events(now)
        self._disrupter.plan(now, has_changed or moves)
        state.mark = () if moves else replayer.mark()  # what moved is looked at again

    def _look(self, now: float) -> None:
        """Note new pods that need another node. Pods that wait on are looked at again."""
        state, scheduler = self.state, self.replayer.scheduler
        leaving = [pod for node in state.leaving.values() for pod in pods_to_move(scheduler, node)]
        waiting = frozenset(pod.key for pod in (*self.replayer.waiting_pods(), *leaving))
        if waiting - state.waiting:
            state.first, state.last = min(state.first, now), now
        elif waiting and state.first == math.inf:
            state.first = state.last = max(now, state.passed + REQUEUE)
        state.waiting = waiting

    def _pass(self, now: float) -> None:
        state = self.state
        state.first = state.last = math.inf
        state.passed = now
        if not (state.waiting and self.client.list(NodePool)[0]):
            return
        self.note_hashes()
        decision = self.decide(sorted(state.waiting))
        state.nominated |= dict.fromkeys(decision.existing, now + NOMINATED)
        if decision.make is not None:
            decision.make(0)
        self.replayer.scheduler.sync()
