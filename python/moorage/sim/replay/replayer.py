"""Replayer: takes a scheduler through a timeline, and notes what happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage._core.queue.in_flight import keys_of
from moorage.answers.asked_pods import reason_not_scheduled
from moorage.answers.scheduler import Scheduler
from moorage.cluster.references import NoSuchObjectError, object_named
from moorage.cluster.verbs import EVENTS
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler import Eviction, Failure
from moorage.engine.scheduler.loop import Loop, Policy
from moorage.errors import InputError, located
from moorage.kube import Node, Object, ObjectMeta, Pod
from moorage.kube.admission.validate_object import validate
from moorage.kube.apiserver.refusals import FieldValidation
from moorage.kube.go_texts import timestamp, timestamps
from moorage.kube.workloads.ownership import FINISHED
from moorage.store import ApiError, NotFoundError
from moorage.store.informer import HandlerFunctions
from moorage.store.pod_binding import PodBinder

from ..event_columns import Event, Verb
from ..timeline import Timeline
from .coming_events import AHEAD, EventCursor, PodsAhead, names_pod
from .recorder import End, Recorder

if TYPE_CHECKING:
    from moorage.autoscalers.autoscaler_protocol import TimedScaler


class VirtualClock:
    """A clock that stands still until somebody sets it; attempts to schedule take no time.

    Parameters
    ----------
    now : float, optional
        Seconds since the start of the timeline.
    """

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def set(self, when: float) -> None:
        """Set the time, in seconds since the start."""
        self.now = when


AFTER_END = 600.0
"""Seconds after the last event for which backing off, waits on Permit and rollouts go on."""
FAILURES = 1000
"""Failures of plugins after which a replay looks for one that has failed on every pod; then after twice as
many."""


class PodTemplate(Struct, frozen=True):
    """A pod of the timeline, of which others are made.

    Attributes
    ----------
    number : int
        Of the template in the recorder.
    """

    pod: Pod
    number: int


class StopCondition(Protocol):
    """What ends a replay, such as `Clauses` about its state."""

    def holds(self, replayer: Replayer, /) -> bool:
        """Whether it holds now."""
        ...

    def due(self, replayer: Replayer, /) -> float:
        """Return the next time at which a part of it begins to hold by itself."""
        ...


class Replayer(Policy):
    """Applies the events of a timeline to a scheduler, has it try the pods, and notes what happens.

    All events of one instant are applied, then pods are tried until none is left to try; that takes no
    virtual time. In between, the time goes on to the next event, or to the next moment at which the queue
    tries a pod again (backoff, and the flush after five minutes).

    While no pod waits, plain pods are placed directly: the core decides and accounts for them, and the
    store, the informers and the queue learn of them before anything else happens (`settle`). That is exact,
    because nothing else looks at them meanwhile. A pod that does not fit takes the long way.

    Parameters
    ----------
    scheduler : Scheduler
        With the clock, over a store of its own.
    at : int, optional
        Index of the first event to apply.

    Attributes
    ----------
    drops : bool
        Whether pods that fit nowhere are deleted instead of waiting.
    condition : StopCondition or None
        At which `advance` stops.
    since : float
        The start of the timeline, in seconds since 1970.
    """

    time_passes = True

    def __init__(
        self,
        scheduler: Scheduler,
        clock: VirtualClock,
        timeline: Timeline,
        recorder: Recorder,
        at: int = 0,
    ) -> None:
        assert scheduler.store is not None
        self.scheduler, self.queue, self.clock = scheduler, scheduler.queue, clock
        self.loop = Loop(scheduler.context, self)
        self.until = math.inf
        self.condition: StopCondition | None = None
        self.autoscaler: TimedScaler | None = None
        self.timeline, self.recorder, self.store = timeline, recorder, scheduler.store
        self.drops = False
        self.since = self.store.now()
        self._next_check = FAILURES
        self._unsettled: dict[str, tuple[Pod, str]] = {}  # pods that the store has not got, and their nodes
        self._ahead = PodsAhead(scheduler.context, (), 0)
        self._bind = PodBinder(timestamp(int(self.since)))  # the clock of the store stands still
        self._row_name = scheduler.table.row_name
        self._victims: set[str] = set()
        self._dropped: list[Pod] = []
        self._cause = End.CONTROLLER
        self._last_join = 0.0
        scheduler.sync()
        pods = {at: pod for at, pod in enumerate(timeline.arguments) if isinstance(pod, Pod)}
        self._templates = dict[int, PodTemplate]()
        for at_pod, pod in pods.items():
            meta = replace(pod.metadata, creation_timestamp=None, resource_version="", uid="")
            kept = replace(pod, metadata=meta)
            self._templates[at_pod] = PodTemplate(kept, self.recorder.template(kept))
        direct = [at in pods and self._is_direct(pods[at]) for at in range(len(timeline.arguments))]
        self.cursor = EventCursor(timeline, np.array(direct, np.bool_), at)
        scheduler.handle.on_eviction.append(self.loop.evicted)
        pods_change = HandlerFunctions(self.pod_added, lambda _, pod: None, self.pod_deleted)
        scheduler.informers.informer(Pod).add_event_handler(pods_change)
        nodes_change = HandlerFunctions(self._node_joined, self._node_updated, self._node_left)
        scheduler.informers.informer(Node).add_event_handler(nodes_change)
        self._idle = self._nothing_waits()

    def advance(self, until: float = math.inf, boundary: Callable[[], None] | None = None) -> None:
        """Apply the events up to a time, that one included, and try pods, until the condition holds.

        Parameters
        ----------
        until : float, optional
            Seconds; by default the run ends with the timeline, or up to ten minutes later if pods are
            backing off.
        boundary : callable, optional
            Called between two instants after some thousand events each.
        """
        cursor, clock = self.cursor, self.clock
        condition, autoscaler = self.condition, self.autoscaler
        self.until = until
        while condition is None or not condition.holds(self):
            due = cursor.time
            now = due if self._idle else min(due, self._next_timer())
            if autoscaler is not None:
                now = min(now, autoscaler.next_time())
            if condition is not None:
                now = min(now, condition.due(self))
            if now == math.inf or now > until:
                return
            clock.set(now)
            if due != now:
                self.try_again()
            elif self._idle and self.cursor.is_direct:
                self._take_directly()
            else:
                self._take()
            if autoscaler is not None and autoscaler.next_time() <= now:
                autoscaler.act()
            if boundary is not None and due == now and cursor.is_at_boundary():
                boundary()

    def _is_direct(self, pod: Pod) -> bool:
        """Whether pods of a template may be placed directly, as far as they themselves decide that."""
        engine = self.scheduler.engines.get(pod.spec.scheduler_name)
        return (
            engine is not None
            and not pod.spec.node_name
            and pod.status.phase not in FINISHED
            and not (pod.metadata.owner_references or pod.metadata.finalizers)
            and engine.framework.run_pre_enqueue_plugins(pod) is None
        )

    # ---- the loop ------------------------------------------------------------------------------------------

    def _nothing_waits(self) -> bool:
        """Whether nothing happens before the next event."""
        scheduler = self.scheduler
        bindings, controllers = scheduler.bindings, scheduler.controllers
        rolls = controllers is not None and controllers.next_time() < math.inf
        return not (len(self.queue) or bindings.waiting or bindings.running or rolls)

    def _next_timer(self) -> float:
        """Return when the queue, a wait on Permit or a rollout goes on; after the last event the queue alone
        does not go on because of pods that fit nowhere."""
        scheduler, now = self.scheduler, self.clock.now
        waits = [started.waiting for started in scheduler.bindings.waiting.values()]
        times = [waiting.deadline() for waiting in waits if waiting is not None]
        if scheduler.controllers is not None:
            times.append(scheduler.controllers.next_time())
        queue, is_over = self.queue.next_event(), self.is_over
        if queue is not None and (not is_over or any(self.queue.pending_pods()[:3])):
            times.append(queue)
        when = max(now, min(times, default=math.inf))
        end = max(self.timeline.end, self._last_join)
        return math.inf if is_over and when > end + AFTER_END else when

    def mark(self) -> tuple[int, ...]:
        """Return numbers that differ if the cluster has changed."""
        recorder = self.recorder
        return recorder.next_pod, recorder.ended, len(recorder.live), self.store.changes

    @property
    def is_over(self) -> bool:
        """Whether no event is to come."""
        return self.cursor.time == math.inf

    def waiting_pods(self) -> list[Pod]:
        """The pods without a node that the scheduler schedules."""
        pods = self.scheduler.pods.pending.values()
        return [pod for pod in pods if not reason_not_scheduled(self.scheduler, pod)]

    def try_again(self) -> None:
        """Try the pods whose time has come."""
        self.settle()
        self.scheduler.sync()
        self.queue.run_periodic(self.clock.now)
        self.try_all()

    # ---- directly ------------------------------------------------------------------------------------------

    def _take_directly(self) -> None:
        """Apply instants that create plain pods and delete pods, while no pod waits."""
        cursor, clock = self.cursor, self.clock
        is_watched = self.condition is not None or self.autoscaler is not None
        while self._apply_directly() and not is_watched:
            if cursor.is_at_boundary() or not cursor.is_direct or cursor.time > self.until:
                break
            clock.set(cursor.time)

    def _apply_directly(self) -> bool:
        """Apply one of these instants; return whether no pod waits afterwards."""
        cursor, recorder, ahead, now = self.cursor, self.recorder, self._ahead, self.clock.now
        names, live, unsettled = recorder.names, recorder.live, self._unsettled
        new: dict[str, tuple[PodsAhead, int]] = {}
        for at in range(cursor.first, cursor.last):
            ordinal = cursor.ordinals[at]
            name = cursor.subjects[at]
            key = names[name] if ordinal < 0 else f"{names[name]}-{ordinal}"
            if cursor.verbs[at] == Verb.CREATE:
                if key in live:
                    raise self._taken(at)
                template = self._templates[cursor.arguments[at]]
                number = recorder.create(now, key, name, ordinal, template.number)
                if number - ahead.first != ahead.used or ahead.used == len(ahead.pods):
                    ahead = self._ahead = self._look_ahead(at, number)
                new[key] = ahead, ahead.used
                ahead.used += 1
            elif key not in live:
                recorder.counts["deleted pods were gone"] += 1
            elif key in new:
                del new[key]
                recorder.end(now, key, End.DELETED)
            elif (placed := unsettled.pop(key, None)) is not None:
                self.scheduler.cache.discard_pod(placed[0])
                recorder.end(now, key, End.DELETED)
            else:
                self._delete_pod(key)
        cursor.advance()
        if new:
            return self._place_directly(new)
        if len(self.queue):  # a controller has replaced a pod
            self.try_again()
            return False
        return True

    def _look_ahead(self, at: int, number: int) -> PodsAhead:
        """Make the next pods that are created directly: from an event and a number on."""
        cursor, names, pods = self.cursor, self.recorder.names, list[Pod]()
        events, times = cursor.creations(at, AHEAD)
        created = timestamps((times + self.since).astype(np.int64))
        for event, when in zip(events.tolist(), created, strict=True):
            template = self._templates[cursor.arguments[event]].pod
            ordinal, name = cursor.ordinals[event], names[cursor.subjects[event]]
            key = name if ordinal < 0 else f"{name}-{ordinal}"
            pods.append(_pod(template, key, number + len(pods), when))
        return PodsAhead(self.scheduler.context, pods, number)

    def _place_directly(self, new: Mapping[str, tuple[PodsAhead, int]]) -> bool:
        """Place plain pods in the order of the queue; those from the first on that fits nowhere take the long
        way. Return whether none did.

        Parameters
        ----------
        new : mapping of str to (PodsAhead, int)
            By ``namespace/name`` where each pod is, and its index there.
        """
        is_alone, placed, keys = len(new) == 1, 0, list(new)
        if not is_alone:
            keys.sort(key=lambda key: _descending_priority(*new[key]))
        if not len(self.queue):
            for key in keys:
                ahead, at = new[key]
                row = ahead.place(at, is_alone)
                if row < 0:
                    break
                self._note_bound(ahead.pods[at], key, row)
                placed += 1
        if not is_alone:
            self._confirm(keys[:placed])
        if placed == len(keys):
            return True
        self._queue_up([new[key][0].pods[new[key][1]] for key in keys[placed:]])
        self.try_all()
        return False

    def _note_bound(self, pod: Pod, key: str, row: int) -> None:
        """Note the node of a pod that the core has placed."""
        node, recorder = self._row_name(row), self.recorder
        recorder.decide(self.clock.now, recorder.live[key], recorder.node(node), 1)
        self._unsettled[key] = pod, node

    def _confirm(self, keys: Iterable[str]) -> None:
        """Have the cache confirm that pods are bound."""
        bind, placed = self._bind, self._unsettled
        self.scheduler.cache.confirm_pods([bind(placed[key][0], "", placed[key][1]) for key in keys])

    def settle(self) -> None:
        """Write the pods that were placed directly to the store, and have the informers report them."""
        if not self._unsettled:
            return
        bind, pods = self._bind, self._unsettled.values()
        self._unsettled = {}
        self.store.create_many([bind(pod, "", node) for pod, node in pods])
        self.scheduler.sync()

    # ---- the long way --------------------------------------------------------------------------------------

    def _take(self) -> None:
        """Apply the events of an instant of any kind, and try pods."""
        self._apply_instant()
        self.queue.run_periodic(self.clock.now)
        self.try_all()

    def _apply_instant(self) -> None:
        """Apply the events of an instant of any kind."""
        self.settle()
        cursor, new = self.cursor, list[Pod]()
        for at in range(cursor.first, cursor.last):
            if cursor.verbs[at] == Verb.CREATE and cursor.arguments[at] in self._templates:
                new.append(self._created(at))
            else:
                if new:
                    self._queue_up(new)
                    new = []
                self.apply(self.timeline.event(cursor.index(at)))
        cursor.advance()
        if new:
            self._queue_up(new)
        self.scheduler.sync()

    def _created(self, at: int) -> Pod:
        """Note and return the pod that an event creates."""
        cursor, recorder, now = self.cursor, self.recorder, self.clock.now
        ordinal, name = cursor.ordinals[at], cursor.subjects[at]
        key = recorder.names[name] if ordinal < 0 else f"{recorder.names[name]}-{ordinal}"
        if key in recorder.live:
            raise self._taken(at)
        template = self._templates[cursor.arguments[at]]
        number = recorder.create(now, key, name, ordinal, template.number)
        return _pod(template.pod, key, number, timestamp(int(self.since + now)))

    def _taken(self, at: int) -> InputError:
        return InputError(
            "there is a pod of this name", source=_name_of(self.timeline.event(self.cursor.index(at)))
        )

    def _queue_up(self, pods: Sequence[Pod]) -> None:
        """Write new pods to the store, so that those without a node wait in the queue."""
        self.settle()
        recorder, now = self.recorder, self.clock.now
        for pod in pods:
            node = pod.spec.node_name
            if node:
                recorder.decide(now, recorder.live[pod.key], recorder.node(node), 0)
            else:
                recorder.pending[pod.key] = now
        self.store.create_many(pods)
        self.scheduler.sync()

    def _delete_pod(self, key: str) -> None:
        """Delete a pod of the store, which may be gone."""
        namespace, _, name = key.partition("/")
        self._cause = End.DELETED
        try:
            self.store.delete(Pod, name, namespace)
        except NotFoundError:
            self.recorder.counts["deleted pods were gone"] += 1
        self.scheduler.sync()
        self._cause = End.CONTROLLER

    def apply(self, event: Event) -> None:
        """Apply one event other than the creation of a pod.

        Raises
        ------
        InputError
            It cannot be applied.
        """
        verb, subject, argument = event.verb, event.subject, cast(Any, event.argument)
        with located(ApiError, source=_name_of(event)):
            if verb is Verb.CREATE:
                self._last_join = event.time
                name = subject.rpartition("/")[2]
                self.store.create(replace(argument, metadata=replace(argument.metadata, name=name)))
            elif verb is Verb.APPLY:
                self.scheduler.change.apply(argument)
            elif verb is Verb.DELETE:
                self._delete(subject)
            elif verb is Verb.PATCH:
                if "status" in argument:
                    raise InputError("a patch does not change the status", path="status")
                obj: Object = object_named(self.store, subject)
                FieldValidation("strict").check(argument, obj.kind, obj.api_version, "", ObjectMeta())
                with self.store.all_or_nothing():
                    validate(self.store.patch(type(obj), obj.name, obj.namespace, argument))
            elif verb is Verb.MEASURE:
                self.recorder.measures.append((event.time, subject))
            else:
                self._change(verb, subject, argument)
        self.scheduler.sync()
        self._cause = End.CONTROLLER

    def join(self, nodes: Sequence[Node]) -> None:
        """Have nodes join at once, as one batch of events."""
        if nodes:
            self._last_join = self.clock.now
            with located(ApiError, path=f"nodes that join at {self.clock.now:g} s"):
                self.store.create_many(nodes)
            self.scheduler.sync()

    def _change(self, verb: Verb, subject: str, argument: Any) -> None:
        """Make a change by the scheduler's method."""
        if verb in (Verb.LEAVE, Verb.DRAIN, Verb.TAINT):
            self._cause = End.NODE
        others = argument if isinstance(argument, tuple) else () if argument is None else (argument,)
        effect = EVENTS[verb.name.lower()].make(self.scheduler, subject, *others)
        if verb is Verb.DRAIN:
            self.recorder.counts["pods that a drain has left"] += len(effect.unfinished)

    def retire_node(self, name: str) -> bool:
        """Evict the pods of a node, as budgets allow, and remove it; it stays if a pod does."""
        scheduler = self.scheduler
        with self.removing():
            done = scheduler.change.drain(name, force=True)
            kept = done.unfinished
            if not kept:
                scheduler.change.remove_nodes(name)
            elif done.changed:  # it was not cordoned before
                scheduler.change.uncordon(name)
        return not kept

    @contextmanager
    def removing(self) -> Iterator[None]:
        """Note that pods which end in the block do so because their node goes."""
        self._cause = End.NODE
        yield
        self.scheduler.sync()
        self._cause = End.CONTROLLER

    def _delete(self, subject: str) -> None:
        """Delete an object, which may be gone."""
        if names_pod(subject):
            self._delete_pod(subject.removeprefix("pod/"))
            return
        try:
            obj: Object = object_named(self.store, subject)
        except NoSuchObjectError:
            kind = "pods" if subject.startswith("pod/") else "objects"
            self.recorder.counts[f"deleted {kind} were gone"] += 1
            return
        if isinstance(obj, Pod):
            self._delete_pod(obj.key)
        else:
            self.store.delete(type(obj), obj.name, obj.namespace)

    # ---- attempts ------------------------------------------------------------------------------------------

    def try_all(self) -> None:
        """Try the pods of the active queue, and those that this moves there, and bind them."""
        self.scheduler.context.enlist()
        while infos := self.loop.take_or_bind():
            self.loop.attempt(infos)
            self._drop()  # before bindings could have them tried again
            self.loop.bind()
        self.loop.result.clear_run()
        self._idle = self._nothing_waits()
        if self.scheduler.handle.plugin_errors.counts.total() >= self._next_check:
            self._next_check *= 2
            self.refuse_failing_plugins()

    def refuse_failing_plugins(self) -> None:
        """Raise a PluginError if a plugin has failed on every pod so far: they would be tried for ever."""
        self.scheduler.context.refuse_failing_plugins(self.recorder.served())

    def on_placed(self, infos: Sequence[QueuedPodInfo], nodes: Sequence[str]) -> None:
        keys, recorder = keys_of(infos), self.recorder
        times, pods = [self.clock.now] * len(keys), [recorder.live[key] for key in keys]
        attempts = [max(info.attempts, 1) for info in infos]
        rows = [recorder.node(node) for node in nodes]
        recorder.decide_all(times, pods, rows, attempts, [-1] * len(keys))
        for key in keys:
            recorder.pending.pop(key, None)

    def on_failed(self, infos: Sequence[QueuedPodInfo], failures: Sequence[Failure]) -> None:
        keys, recorder, reasons = keys_of(infos), self.recorder, dict[int, int]()
        numbers = [recorder.live.get(key, -1) for key in keys]
        if -1 in numbers:
            kept = [at for at, number in enumerate(numbers) if number >= 0]
            numbers = [numbers[at] for at in kept]
            infos, failures = [infos[at] for at in kept], [failures[at] for at in kept]
        for failure in failures:  # which equal pods share
            if id(failure) not in reasons:
                reasons[id(failure)] = recorder.reason(failure.message)
        recorder.decide_all(
            [self.clock.now] * len(numbers),
            numbers,
            [-1] * len(numbers),
            [info.attempts for info in infos],
            [reasons[id(failure)] for failure in failures],
        )
        if self.drops:
            pods = zip(infos, failures, strict=True)
            self._dropped += [info.pod for info, failure in pods if not failure.nominated_node]

    def on_evicted(self, evictions: Mapping[str, Eviction]) -> None:
        self._victims.update(evictions)

    def _drop(self) -> None:
        """Delete the pods that fit nowhere, where they do not wait."""
        if not self._dropped:
            return
        pods, self._dropped = self._dropped, []
        cause, self._cause = self._cause, End.DROPPED
        for pod in pods:
            if pod.key in self.recorder.pending:
                self.store.delete(Pod, pod.name, pod.namespace)
        self.scheduler.sync()
        self._cause = cause

    # ---- what the informers report -------------------------------------------------------------------------

    def pod_added(self, pod: Pod) -> None:
        """Note a pod that the timeline has not created."""
        if pod.key not in self.recorder.live:
            self.recorder.note_pod(self.clock.now, pod)

    def pod_deleted(self, pod: Pod) -> None:
        """Note that a pod is gone."""
        key = pod.key
        if key not in self.recorder.live:
            return
        evicted = key in self._victims
        self._victims.discard(key)
        self.recorder.end(self.clock.now, key, End.EVICTED if evicted else self._cause)

    def _node_joined(self, node: Node) -> None:
        self.recorder.note_node(self.clock.now, node, True)

    def _node_updated(self, old: Node, new: Node) -> None:
        if old is not new:
            self.recorder.note_node(self.clock.now, new, True)

    def _node_left(self, node: Node) -> None:
        self.recorder.note_node(self.clock.now, node, False)


def _descending_priority(ahead: PodsAhead, at: int) -> int:
    return -(ahead.pods[at].spec.priority or 0)


def _name_of(event: Event) -> str:
    """Return an event as errors name it."""
    return f"event at {event.time:g} s: {event.verb.name.lower()} {event.subject}"


def _pod(template: Pod, key: str, number: int, created: str) -> Pod:
    """Make a pod; its UID tells the pods of one name apart."""
    meta = template.metadata
    name, uid = key[len(meta.namespace) + 1 :], f"replay-{number}"
    return replace(template, metadata=replace(meta, name=name, uid=uid, creation_timestamp=created))
