"""A scheduler followed by slow twins of its cache and its queue, which read the store by themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, cast

from tests.doors.engine import Loop, PodEvents, Policy, bound, node_update_events
from tests.queue.make import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, NODE_ADD, NODE_DELETE
from tests.queue.twin import Entry, Registered, Twin
from tests.scheduler.cycle.plain_filter import host_ports, requested

from moorage import Scheduler
from moorage.engine.framework import ClusterEventWithHint, QueueingHint
from moorage.engine.queue import QueuedPodInfo
from moorage.engine.scheduler import Decision, ScheduleResult
from moorage.kube import Node, Pod
from moorage.kube.releases import DEFAULT_GATES
from moorage.store import ObjectStore

POD_EVENTS = PodEvents(DEFAULT_GATES)

FINISHED = ("Succeeded", "Failed")
OURS = ("", "default-scheduler")


def registered_in(scheduler: Scheduler) -> Registered:
    """What the plugins of a scheduler have registered, with their own hints: a queue twin asks the same."""

    def said(one: ClusterEventWithHint) -> Any:
        hint = one.hint
        return lambda pod, old, new: hint is None or hint(pod, old, new) is not QueueingHint.QUEUE_SKIP

    by_plugin = scheduler.queue.hints.by_profile["default-scheduler"]
    return {name: [(one.event, said(one)) for one in events] for name, events in by_plugin.items()}


def is_live(one: Pod | None) -> bool:
    return one is not None and one.status.phase not in FINISHED


class QueueTwin(Twin):
    def seen(self, uid: str) -> list[Any]:
        """An attempt that was over before its binding was refused has seen nothing."""
        return super().seen(uid) if self.is_flying(uid) else []


class Followed(Scheduler):
    """A scheduler that tells its twin when it hears from the store, and what it does with its queue."""

    def __init__(self, store: ObjectStore, clock: Any, **how: Any) -> None:
        self.twin: WholeTwin | None = None
        super().__init__(store, clock=clock, **how)
        self.twin = WholeTwin(store, registered_in(self))
        sync, context = self.context.sync, cast(Any, self.context)

        def follow_sync() -> bool:
            heard = sync()
            self.followed.take(Node)
            self.followed.take(Pod)
            return heard

        context.sync = follow_sync
        follow_attempts(self)

    @property
    def followed(self) -> WholeTwin:
        assert self.twin is not None
        return self.twin

    def run(self) -> ScheduleResult:
        return Loop(self.context, Following(self)).all()

    def pump(self, kind: Any) -> None:
        """Hear of one kind alone."""
        self.informers.informer(kind).run_once()
        self.followed.take(kind)

    def whole_cycle(self, engine: Any, pod: Pod, target: Any) -> Decision:
        decision = super().whole_cycle(engine, pod, target)
        if decision.node is not None:
            self.followed.assume(pod, decision.node)
        elif decision.error and decision.diagnosis is None:
            (freed,) = self.bindings.freed
            self.followed.freed(freed)
        return decision


class Following(Policy):
    """The twin hears of pods that are assumed."""

    def __init__(self, scheduler: Followed) -> None:
        self.followed = scheduler.followed

    def on_placed(self, infos: Sequence[QueuedPodInfo], nodes: Sequence[str]) -> None:
        for info, node in zip(infos, nodes, strict=True):
            self.followed.assume(info.pod, node)


def follow_attempts(scheduler: Followed) -> None:
    """Have the twin of the queue do the same as the queue, and decide by itself what becomes of a pod that
    failed."""
    queue, twin, entries = scheduler.queue, scheduler.followed, dict[str, Entry]()
    activate, pop, put_back, done = queue.activate, queue.pop, queue.put_back, queue.done

    def follow_activate(pods: Iterable[Pod]) -> None:
        listed = list(pods)
        activate(listed)
        twin.queue.activate(listed)

    def follow_pop(limit: int = 1) -> list[QueuedPodInfo]:
        """Of pods without a group, one by one."""
        infos, popped = pop(), twin.queue.pop_unit()
        assert [info.pod for info in infos] == [entry.pod for entry in popped]
        entries.update({entry.uid: entry for entry in popped})
        return infos

    def follow_put_back(infos: Iterable[QueuedPodInfo]) -> None:
        untried = [info for info in infos if info in queue.in_flight()]
        put_back(untried)
        for info in untried:
            twin.queue.put_back([entries.pop(info.pod.metadata.uid)])

    def follow_done(infos: Iterable[QueuedPodInfo]) -> None:
        listed = list(infos)
        for info in listed:
            twin.queue.done(info.uid)
        done(listed)

    followed: Any = queue
    followed.activate, followed.pop = follow_activate, follow_pop
    followed.put_back, followed.done = follow_put_back, follow_done
    follow_failures(queue, twin, entries)


def follow_failures(queue: Any, twin: WholeTwin, entries: dict[str, Entry]) -> None:
    """Have the twin of the queue take back the pods that failed."""
    give_back = queue.give_back

    def follow(infos: list[QueuedPodInfo], *of_each: Any) -> None:
        failed = [info for info in infos if info in queue.in_flight()]
        give_back(infos, *of_each)
        for info in failed:
            if queue.get(info.uid) is info:
                pod = twin.pods[info.pod.key]
                twin.queue.fail(entries.pop(info.uid), pod, info.unschedulable_plugins, info.pending_plugins)
            else:
                twin.queue.done(info.uid)

    queue.give_back = follow


class WholeTwin:
    """What the scheduler has heard of so far, and what its queue makes of it.

    Attributes
    ----------
    nodes, pods : dict
        As last heard, by key.
    assumed : dict of str to Pod
        By UID, with their nodes.
    """

    def __init__(self, store: ObjectStore, registered: Registered) -> None:
        self.watches = {kind: store.watch(kind) for kind in (Node, Pod)}
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, Pod] = {}
        self.queue = QueueTwin(registered, True, 0, 0)

    def assume(self, one: Pod, node: str) -> None:
        self.assumed[one.metadata.uid] = bound(one, node)

    def on(self) -> dict[str, list[Pod]]:
        """The pods on each node, bound and assumed ones."""
        found = defaultdict(list)
        for one in self.pods.values():
            if is_live(one) and one.spec.node_name:
                found[one.spec.node_name].append(one)
        for one in self.assumed.values():
            found[one.spec.node_name].append(one)
        return found

    def waiting(self) -> dict[str, Pod]:
        """The pods without a node that are ours, by UID."""
        pods = [one for one in self.pods.values() if is_live(one) and not one.spec.node_name]
        return {one.metadata.uid: one for one in pods if one.spec.scheduler_name in OURS}

    # ---- what is reported (eventhandlers.go)

    def take(self, kind: Any) -> None:
        """Everything that happened to a kind: first it is known, then one thing after the other is told."""
        held: Any = self.nodes if kind is Node else self.pods
        changes = []
        for event in self.watches[kind].poll():
            one = event.object
            changes.append((event.type, held.pop(one.key, None), one))
            if event.type != "DELETED":
                held[one.key] = one
        for change in changes:
            (self.node if kind is Node else self.pod)(*change)

    def node(self, what: str, old: Node | None, new: Node) -> None:
        if what == "DELETED":
            self.queue.move(NODE_DELETE, new, None, None)
        elif old is None:
            self.queue.move(NODE_ADD, None, new, None)
        else:
            for event in node_update_events(old, new):
                self.queue.move(event, old, new, None)

    def pod(self, what: str, old: Pod | None, new: Pod) -> None:
        """Finished pods are not shown to a scheduler: to finish is to go."""
        if old is not None and is_live(old):
            if what == "DELETED":
                self.gone(new)
            elif not is_live(new):
                self.gone(old)
            else:
                self.changed(old, new)
        elif what != "DELETED" and is_live(new):
            self.came(new)

    def came(self, one: Pod) -> None:
        if one.spec.node_name:
            self.assumed.pop(one.metadata.uid, None)
            self.queue.move(ASSIGNED_POD_ADD, None, one, None)
        elif one.spec.scheduler_name in OURS:
            self.queue.add(one)

    def changed(self, old: Pod, new: Pod) -> None:
        assumed = self.assumed.get(new.metadata.uid)
        if old.spec.node_name:
            for event in POD_EVENTS.of_update(old, new):
                self.queue.move(event, old, new, None)
        elif new.spec.node_name:
            self.came(new)
            self.queue.delete(new.metadata.uid)
        elif new.spec.scheduler_name not in OURS:
            pass
        elif assumed is None:
            self.queue.update(old, new)
            if old.status.nominated_node_name not in ("", new.status.nominated_node_name):
                self.nomination_ended(old)
        elif new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            del self.assumed[new.metadata.uid]
            self.queue.move(ASSIGNED_POD_DELETE, assumed, None, None)

    def gone(self, one: Pod) -> None:
        self.queue.delete(one.metadata.uid)
        assumed = self.assumed.pop(one.metadata.uid, None)
        if one.spec.node_name or assumed:
            self.queue.move(ASSIGNED_POD_DELETE, assumed or one, None, None)
        elif one.spec.scheduler_name in OURS and one.status.nominated_node_name:
            self.nomination_ended(one)

    def freed(self, one: Pod) -> None:
        """Its binding failed."""
        self.queue.move(ASSIGNED_POD_DELETE, one, None, lambda other: other.metadata.uid != one.metadata.uid)

    def nomination_ended(self, one: Pod) -> None:
        priority = one.spec.priority or 0
        self.queue.move(ASSIGNED_POD_DELETE, one, None, lambda other: (other.spec.priority or 0) <= priority)

    # ---- what must hold

    def check_cache(self, scheduler: Scheduler) -> None:
        """The cache has the nodes and the pods on them, and the sums are those of their pods."""
        on, dump = self.on(), scheduler.cache.snapshot()
        assert dump.assumed_pods.keys() == self.assumed.keys()
        assert dump.nodes.keys() == self.nodes.keys() | on.keys()
        for name, info in dump.nodes.items():
            assert info.node == self.nodes.get(name)
            assert len(info.pods) == len(on[name])
            assert {one.metadata.uid: one for one in info.pods} == {o.metadata.uid: o for o in on[name]}
            total = {"cpu": info.requested.milli_cpu, "memory": info.requested.memory, "pods": len(info.pods)}
            assert total == requested(on[name])
            assert {(protocol, port) for _, protocol, port in info.used_ports} == {
                port for one in on[name] for port in host_ports(one)
            }

    def check_once(self, scheduler: Scheduler) -> None:
        """Every pod that waits is in the queue or in flight, once; nobody else is in the queue."""
        listed = [info.pod.metadata.uid for infos in scheduler.queue.pending_pods() for info in infos]
        flying = {info.pod.metadata.uid for info in scheduler.queue.in_flight()}
        assert len(listed) == len(set(listed)) == len(scheduler.queue)
        assert not flying & set(listed)
        waiting = self.waiting()
        assert not set(listed) - waiting.keys(), "queued, but does not wait"
        for uid, one in waiting.items():
            tried = one.metadata.deletion_timestamp or uid in self.assumed
            assert tried or uid in flying or uid in listed, f"{one.key} is lost"

    def check_nominations(self, scheduler: Scheduler) -> None:
        """Only pods that wait are nominated, and to the node that their status names."""
        nominator = scheduler.handle.nominator
        waiting = {uid: one for uid, one in self.waiting().items() if uid not in self.assumed}
        for name in (*self.nodes, *self.on()):
            for one in nominator.nominated_pods_for_node(name):
                assert one.metadata.uid in waiting
                assert nominator.nominated_node(one) == name
