"""FollowedCluster: the objects of a cluster, kept by watches; PredictedBindings: decisions before it."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import compress
from math import inf
from operator import attrgetter
from threading import Event, RLock, Thread
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from moorage._core.decide.decider import num_feasible_nodes_to_find
from moorage.answers.scheduler import Scheduler
from moorage.cluster.examine import Examination
from moorage.engine.cache import SchedulerCache
from moorage.errors import CacheError
from moorage.kube import Node, Object, Pod
from moorage.kube.model.event import Event as ClusterEvent
from moorage.kube.workloads.ownership import FINISHED
from moorage.lazy import NamedTuple
from moorage.store import ApiError, DeletedFinalStateUnknown
from moorage.store.informer import Informer, InformerFactory, last_state
from moorage.store.protocol import WatchEvent

from .client import ApiClient
from .client.cluster_objects import REQUIRED, events_of_nodes, kinds_of_clusters, without_contents
from .client.reflector import Reflector
from .health import UNREADABLE_LIMIT, LiveMetrics, follower_checks
from .web_server import Check

logger = logging.getLogger("moorage.serve")

SAME, TIE, SAMPLED, RACED, OTHER = "same", "tie", "sampled", "raced", "other"
MATCHES = (SAME, TIE, SAMPLED, RACED, OTHER)
"""The node is the only best one; one of several; feasible, where a scheduler does not look at all feasible
nodes; one of the best of another state that the scheduler may have seen; none of these."""
RACE, NEAR, TRIED = 10.0, 256, 128
"""Seconds between a decision and the event of its binding at most; how many changes before a binding, and
after it, the scheduler may have seen in another order; how many of them are tried."""
KEPT = 100
"""Differences that are kept, the last ones."""
SHARE, START = 0.1, 1.0
"""What predictions may take of a processor, and seconds of it that they may take beforehand."""
_SHOWN = 5


class SeenChange(NamedTuple):
    """A pod or a node before and after an event, with the time and the resource version of the event."""

    old: Pod | Node | None
    new: Pod | Node | None
    seen: float
    version: int

    @property
    def begins(self) -> int:
        """The version from which on the scheduler may have known of it: that of the pod before, for a
        binding."""
        is_binding = isinstance(self.old, Pod) and not self.old.spec.node_name
        return int(self.old.metadata.resource_version) if self.old and is_binding else self.version


class SeenBinding(NamedTuple):
    """A pod without a node, the node that it gets, the change, and how the pod is examined before."""

    pod: Pod
    node: str
    change: SeenChange
    seen: Examination

    def better(self, seen: Examination) -> list[str]:
        """Return the nodes that are better; all, if the node is not feasible."""
        if self.node not in seen.feasible:
            return seen.order
        mine = seen.total[seen.feasible.index(self.node)]
        return list(compress(seen.feasible, (seen.total > mine).tolist()))


class PredictedBindings:
    """Compares each binding with the state before it. Not thread-safe.

    A scheduler knows its own bindings before their events, and not each event in time. So where another node
    is better, the verdict waits for more events. Then it is tried whether the state without some of the last
    changes, and with some of the next ones, explains the node.

    Parameters
    ----------
    scheduler : Scheduler
        Over the client that is followed. It schedules nothing; its cache is the state.
    clock, work : callable, optional
        Return seconds, of real time and of processor time of this thread.

    Attributes
    ----------
    skipped : int
        Bindings that were not predicted, because predictions took their share of the processor.
    differences : deque of dict
        The last bindings that match `OTHER`, each with both reasons.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Callable[[], float] = time.monotonic,
        work: Callable[[], float] = time.thread_time,
    ) -> None:
        self.scheduler, self._clock, self._work = scheduler, clock, work
        self.counts, self.skipped = Counter(dict.fromkeys(MATCHES, 0)), 0
        self.differences: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._began, self._spent = clock(), 0.0
        self._changes: list[SeenChange] = []
        self._open: deque[SeenBinding] = deque()  # bindings without a verdict
        self._pods = scheduler.informers.informer(Pod)
        scheduler.informers.informer(Node).add_event_handler(self)

    @staticmethod
    def matters(event: WatchEvent[Pod]) -> bool:
        """Whether the event of a pod may take or free room of a node, so that the state before it counts."""
        pod = event.object
        is_settled = event.type == "MODIFIED" and pod.status.phase == "Running"
        return bool(pod.spec.node_name) and not is_settled

    def precede(self, event: WatchEvent[Pod]) -> None:
        """Compare an event that will be applied next, if it is a binding."""
        if not self.matters(event):
            return
        self.settle()
        new = None if event.type == "DELETED" else event.object
        old: Pod | None = self._pods.indexer.get(event.object.key)
        if _room(old) == _room(new):
            return
        change = SeenChange(old, new, self._clock(), int(event.resource_version))
        if old and new and not old.spec.node_name and old.spec.scheduler_name in self.scheduler.engines:
            self._sparing(old, lambda: self._compare(old, new.spec.node_name, change))
        self._changes.append(change)

    def settle(self) -> None:
        """Judge the bindings after which enough has happened. To be called when all events are applied."""
        while self._open:
            change = self._open[0].change
            at = next(at for at, earlier in enumerate(self._changes) if earlier is change)
            if len(self._changes) - at <= NEAR and self._clock() - change.seen <= RACE:
                break
            binding = self._open.popleft()
            self._sparing(binding.pod, partial(self._judge, binding, at))
        else:
            at = len(self._changes)
        del self._changes[: max(0, at - NEAR)]

    def _sparing(self, pod: Pod, work: Callable[[], None]) -> None:
        """Do some work on a binding, unless such work has had its share of the processor."""
        if self._spent > START + SHARE * (self._clock() - self._began):
            self.skipped += 1
            return
        began = self._work()
        try:
            work()
        except Exception:  # what follows the cluster goes on
            logger.exception("a binding was not predicted: pod=%s", pod.key)
            self.skipped += 1
        self._spent += self._work() - began

    def _compare(self, pod: Pod, node: str, change: SeenChange) -> None:
        binding = SeenBinding(pod, node, change, self.scheduler.examine(pod))
        if match := self._match(binding, binding.seen):
            self.counts[match] += 1
        else:
            self._open.append(binding)

    def _match(self, binding: SeenBinding, seen: Examination) -> str:
        """Return how a binding matches an examination of its pod; "" if another node is better."""
        if binding.node in seen.best:
            return SAME if len(seen.best) == 1 else TIE
        percentage = self.scheduler.context.engine_for(binding.pod).decider.percentage
        enough = num_feasible_nodes_to_find(percentage, len(seen.order))
        return SAMPLED if binding.node in seen.feasible and len(seen.feasible) > enough else ""

    def _judge(self, binding: SeenBinding, at: int) -> None:
        if self._is_explained(binding, at):
            self.counts[RACED] += 1
            return
        self.counts[OTHER] += 1
        self.differences.append(_difference(binding))
        names = binding.pod.key, binding.node, binding.seen.best[:1]
        logger.warning("a binding is not as predicted: pod=%s node=%s best=%s", *names)

    def _is_explained(self, binding: SeenBinding, at: int) -> bool:
        """Whether the node is one of the best in another state that the scheduler may have seen. Changes
        of the nodes concerned are tried first, then the nearest; those that leave no more better nodes are
        kept."""
        cache, better = self.scheduler.cache, binding.better(binding.seen)
        least = len(better)
        with cache.transaction():
            for change in reversed(self._changes[at:]):
                _put(cache, change.new, change.old)
            concerned = {binding.node, *better}
            changes = sorted(self._uncertain(at), key=lambda change: not concerned & _nodes(*change))
            for old, new in changes[:TRIED]:
                with cache.transaction() as attempt:
                    _put(cache, old, new)
                    seen = self.scheduler.examine(binding.pod)
                    if self._match(binding, seen):
                        return True
                    if (left := len(binding.better(seen))) <= least:
                        least = left
                        attempt.commit()
        return False

    def _uncertain(self, at: int) -> Iterator[tuple[Pod | Node | None, Pod | Node | None]]:
        """Yield what to put in place of what: the changes before a binding, undone, and those after it, of
        which the scheduler may not have known, or may have known. Events of pods come in their order, and the
        last one of the pod came before its decision."""
        binding = self._changes[at]
        near = range(max(0, at - NEAR), min(len(self._changes), at + NEAR + 1))
        for place in sorted(near, key=lambda place: abs(place - at))[1:]:
            change = self._changes[place]
            is_node = isinstance(change.new or change.old, Node)
            if abs(change.seen - binding.seen) > RACE:
                continue
            if place < at and (is_node or change.version > binding.begins):
                yield change.new, change.old
            elif place > at and change.begins < binding.version:
                yield change.old, change.new

    # ---- nodes (the handler of an informer) ----

    def on_add(self, obj: Node, is_in_initial_list: bool) -> None:
        """Note that a node has come."""
        if not is_in_initial_list:
            self._note(obj, None, obj)

    def on_update(self, old: Node, new: Node) -> None:
        """Note that a node has changed, but for its heartbeat."""
        if _parts(old) != _parts(new):
            self._note(new, old, new)

    def on_delete(self, obj: Node | DeletedFinalStateUnknown[Node]) -> None:
        """Note that a node has gone."""
        node = last_state(obj)
        self._note(node, node, None)

    def _note(self, node: Node, old: Node | None, new: Node | None) -> None:
        self._changes.append(SeenChange(old, new, self._clock(), int(node.metadata.resource_version)))

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        text = "Bindings of the cluster's scheduler, by how they match the prediction from the state before."
        family = CounterMetricFamily("moorage_predicted_bindings", text, labels=["match"])
        for match in MATCHES:
            family.add_metric([match], self.counts[match])
        yield family
        text = "Bindings that were not predicted, to spare the processor."
        yield CounterMetricFamily("moorage_skipped_predictions", text, value=self.skipped)


def _room(pod: Pod | None) -> tuple[Any, ...] | None:
    """Return what matters of a pod on a node; None for one that takes no room."""
    if pod is None or not pod.spec.node_name or pod.status.phase in FINISHED:
        return None
    meta = pod.metadata
    return meta.uid, meta.labels, meta.deletion_timestamp is None, pod.spec


def _parts(node: Node) -> tuple[Any, ...]:
    """Return what matters of a node."""
    return node.spec, node.metadata.labels, node.status.allocatable, node.status.images


def _nodes(*objects: Pod | Node | None) -> set[str]:
    """Return the names of the nodes that a change concerns."""
    return {obj.name if isinstance(obj, Node) else obj.spec.node_name for obj in objects if obj}


def _put(cache: SchedulerCache, old: Pod | Node | None, new: Pod | Node | None) -> None:
    """Put an object in place of another one."""
    with suppress(CacheError):  # of a node that is not there, or there already
        if isinstance(old, Node):
            cache.update_node(old, new) if isinstance(new, Node) else cache.remove_node(old)
        elif isinstance(new, Node):
            cache.add_node(new)
    if isinstance(old, Pod) and cache.state.has_pod(old):
        cache.discard_pod(cache.state.get_pod(old))
    if isinstance(new, Pod) and _room(new) and not cache.state.has_pod(new):
        cache.add_pod(new)


def _difference(binding: SeenBinding) -> dict[str, Any]:
    """Return why the prediction is another one, as JSON: what rejects the node, or the scores of both."""
    pod, node, seen = binding.pod, binding.node, binding.seen
    difference: dict[str, Any] = {"pod": pod.key, "node": node, "predicted": seen.best[:_SHOWN]}
    if node in seen.rejected:
        return difference | {"rejected": seen.rejected[node].message()}
    if node not in seen.feasible:
        return difference | {"rejected": seen.error or seen.fit_error or "the node is not known"}
    at, best = seen.feasible.index(node), seen.feasible.index(seen.best[0])
    scores = {plugin: [int(values[at]), int(values[best])] for plugin, values in seen.normalized.items()}
    return difference | {"total": [int(seen.total[at]), int(seen.total[best])], "scores": scores}


PAUSE = 0.05
"""Seconds in which events are collected: what is done for each round is shared by them."""
LOOK = 1.0
"""Seconds between two looks at a cluster that tells nothing."""
EVENTS_EVERY = 60.0
"""Seconds after which the events of nodes are listed again."""
_key = attrgetter("key")


class Moment(NamedTuple):
    """How far a cluster was followed when a question was asked.

    Attributes
    ----------
    versions : dict of str to str
        By kind, the resource version of its last event or list; "" for a kind without objects in the server.
    staleness : float
        Seconds since the server has sent anything; where a kind cannot be read now, since it last could.
    unreadable : dict of str to str
        By kind, why it cannot be read now.
    left_out : list of str
        The kinds that the user may not list, which are as if they had no objects.
    """

    versions: Mapping[str, str]
    staleness: float
    unreadable: Mapping[str, str]
    left_out: list[str]


class FollowedCluster:
    """Follows all kinds that scheduling reads, and has their objects as `moorage dump` would list them now.

    Parameters
    ----------
    bindings : PredictedBindings, optional
        Compares bindings with the state before; its scheduler shares the informers.

    Attributes
    ----------
    lock : lock
        Held while events are applied, and by whoever forks: a child sees no event half applied.
    changes : int
        How many events were applied.
    events : list of Event
        Of nodes, which are listed now and then.
    metrics : LiveMetrics
        A step is a round of `follow`.
    """

    def __init__(self, client: ApiClient, bindings: PredictedBindings | None = None) -> None:
        self.client, self.lock, self.metrics = client, RLock(), LiveMetrics(client)
        self.bindings, self.changes = bindings, 0
        self.events: list[ClusterEvent] = []
        self._follower: Thread | None = None
        factory = InformerFactory(client) if bindings is None else bindings.scheduler.informers
        self.informers: dict[type[Object], Informer[Any]] = {
            kind: factory.informer(kind) for kind in kinds_of_clusters()
        }
        self._reflectors: dict[type[Object], Reflector[Any]] = {}
        for kind, informer in self.informers.items():
            reflector = informer.begin()
            assert isinstance(reflector, Reflector)
            self._reflectors[kind] = reflector
        if bindings is not None:
            self._reflectors[Pod].ends_before = bindings.matters

    def apply_news(self) -> None:
        """Apply the events that have arrived."""
        with self.lock:
            for kind, informer in self.informers.items():
                if self._reflectors[kind].is_listed:
                    if kind is Pod and self.bindings is not None:
                        while (event := self._reflectors[kind].peek()) is not None:
                            self.bindings.precede(event)
                            self.changes += informer.run_once()
                    self.changes += informer.run_once()
            if self.bindings is not None:
                self.bindings.settle()
        self.metrics.has_stepped()

    def start(self, stop: Event) -> Thread:
        """Return a thread that has begun to `follow`."""
        self._follower = Thread(target=self.follow, args=(stop,), name="twin", daemon=True)
        self._follower.start()
        return self._follower

    def follow(self, stop: Event) -> None:
        """Apply events as they arrive, until an event is set."""
        seen, listed, clock = -1, -inf, self.client.connection.clock
        while not stop.wait(PAUSE):
            seen = self.client.arrivals.wait(seen, LOOK)
            try:
                self.apply_news()
                if clock() - listed >= EVENTS_EVERY:
                    listed = clock()
                    self.list_events()
            except Exception as error:
                self.metrics.failed_steps += 1
                defect = None if isinstance(error, ApiError) else error  # another one is a defect
                logger.warning("the cluster is not followed now: error=%s", error, exc_info=defect)

    def is_listed(self) -> bool:
        """Whether all kinds were listed, but for optional ones that cannot be."""
        return all(
            reflector.is_listed or (kind not in REQUIRED and reflector.error)
            for kind, reflector in self._reflectors.items()
        )

    def await_lists(self, stop: Event) -> bool:
        """Wait until the cluster is listed; False if an event is set before."""
        while not stop.is_set():
            seen = self.client.arrivals.count
            if self.is_listed():
                self.apply_news()
                return True
            self.client.arrivals.wait(seen, LOOK)
        return False

    def list_events(self) -> None:
        """List the events of nodes anew."""
        self.events = events_of_nodes(self.client)

    def objects(self) -> Iterator[Object]:
        """Yield the objects in the order of `list_cluster`."""
        for informer in self.informers.values():
            yield from map(without_contents, sorted(informer.indexer.values(), key=_key))
        yield from self.events

    def moment(self) -> Moment:
        """Return how far the cluster is followed. To be called with the lock."""
        now = self.client.connection.clock()
        listed = {kind: reflector for kind, reflector in self._reflectors.items() if reflector.is_listed}
        times = {kind: reflector.unreadable_since for kind, reflector in listed.items()}
        failing = {kind: since for kind, since in times.items() if since is not None}
        heard = max(reflector.heard for reflector in self._reflectors.values())
        ends = (min(since, listed[kind].heard) for kind, since in failing.items())  # a refusal is heard, too
        heard = min(ends, default=heard)
        return Moment(
            {kind.__name__: self.informers[kind].resource_version for kind in listed},
            max(0.0, now - heard),
            {kind.__name__: listed[kind].error for kind in failing},
            [kind.__name__ for kind in self._reflectors if kind not in listed],
        )

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the checks of liveness and of readiness.

        Ready is a twin that has listed the cluster, and can read each kind that it has listed. One that
        cannot is alive all the same: it answers, which a new process could not.
        """

        def are_readable() -> bool:
            now = self.client.connection.clock()
            listed = (reflector for reflector in self._reflectors.values() if reflector.is_listed)
            times = (reflector.unreadable_since for reflector in listed)
            return self.is_listed() and all(at is None or now - at <= UNREADABLE_LIMIT for at in times)

        checks = follower_checks(self.client, self.metrics)
        alive = {"steps": checks["steps"], "follower": self._follows}
        return alive, {**alive, **checks, "kinds": are_readable}

    def _follows(self) -> bool:
        """Whether the thread lives, where there is to be one."""
        return self._follower is None or self._follower.is_alive()
