"""The queue holds its lock while it touches what that guards."""

from __future__ import annotations

from functools import partial

from moorage.engine.queue import QueuedPodInfo, SchedulingQueue
from moorage.kube import PodSchedulingGroup
from tests.doors.engine import Notice
from tests.locks import check_locked
from tests.make import pod
from tests.queue.make import NODE_ADD, make_queue, reject


class NotingQueue(SchedulingQueue):
    """Writes an attribute when its lock is taken, as nobody sees what the core reads and writes."""

    _entered = False

    def __enter__(self) -> None:
        super().__enter__()
        self._entered = True


def test_a_queue_holds_its_lock_in_every_operation() -> None:
    one = make_queue(groups_pods=True)
    one.add([pod("g", scheduling_group=PodSchedulingGroup("g"), priority=1)])
    p, popped, saved = pod("p"), list[QueuedPodInfo](), one.save()
    one.__class__ = NotingQueue

    def pop() -> None:
        popped.extend(one.pop())

    def fail() -> None:
        pop()
        reject(one, popped.pop(), "Some")

    def end() -> None:
        (info,) = one.pop()
        one.give_back([info], [info.pod], [(frozenset(), frozenset())])
        one.end_attempts([info])

    calls = {
        "add": lambda: one.add([p]),
        **{name: getattr(one, name) for name in ("pending_pods", "inactive", "in_flight", "count_incoming")},
        "end_attempts": end,
        "pop": pop,
        "in_flight_events": one.in_flight_events,
        "put_back": lambda: one.put_back([popped.pop()]),
        "give_back": fail,
        "update": lambda: one.update(p, p),
        "activate": lambda: one.activate([p]),
        "move_all": lambda: one.move_all(NODE_ADD, [Notice(None, None)]),
        **{name: partial(getattr(one, name), []) for name in ("follow_nominations", "done")},
        "may_react": lambda: one.may_react(NODE_ADD),
        **{name: getattr(one, name) for name in ("flush_backoff_completed", "next_event")},
        "flush_unschedulable_left_over": one.flush_unschedulable_left_over,
        "run_periodic": lambda: one.run_periodic(1.0),
        "regroup": lambda: one.regroup([("default", "g")]),
        "in_flight_pod": lambda: one.in_flight_pod("p"),
        "delete": lambda: one.delete([p]),
        "requeue": lambda: one.requeue([], ""),
        "save": one.save,
        "undo": lambda: one.undo(saved),
        "copy_from": lambda: one.copy_from(one),
        **{name: getattr(one, name) for name in ("repair", "close")},
    }
    parts = ["active", "backoff", "changes", "fired", "flights", "groups", "infos", "unschedulable"]
    settled = ["groups_pods", "hints", "lock", "nominator", "now", "pod_events", "settings", "waiting"]
    one_look_up = ["backoff_until", "entry_of", "get", "has_unschedulable", "is_listening"]
    exempt = [*parts, *settled, *one_look_up]
    check_locked(one, "lock", ["_entered", "_listeners", *parts], calls, exempt)
