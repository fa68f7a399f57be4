"""Groups in the queue: who is popped together, and which event concerns whom."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from moorage.engine.framework import ActionType, ClusterEvent, QueueSortPlugin
from moorage.engine.queue import QueuedPodInfo
from moorage.kube import ObjectMeta, Pod, PodGroup, PodSchedulingGroup, group_of
from moorage.kube.releases import DEFAULT_GATES
from tests.doors.engine import PodEvents, on, queue_if
from tests.framework.make import make
from tests.make import pod
from tests.queue.make import ASSIGNED_POD_ADD, Clock, gating, make_queue, move, names, places, queued, reject

POD_EVENTS = PodEvents(DEFAULT_GATES)


def member(name: str, group: str = "g", priority: int = 0) -> Pod:
    return queued(name, priority, scheduling_group=PodSchedulingGroup(group))


def made(*pods: Pod, plugins: Any = (), **settings: Any) -> Any:
    queue = make_queue(*plugins, clock=Clock(), **{"groups_pods": True} | settings)
    for one in pods:
        queue.add([one])
    return queue


def popped(queue: Any) -> list[str]:
    return names(queue.pop())


def failed(queue: Any, rejectors: Any = ("Filter",)) -> list[Any]:
    """Pop a group and have it fail."""
    infos: list[Any] = queue.pop()
    end(queue, infos, *rejectors)
    return infos


def end(queue: Any, infos: list[Any], *rejectors: str, succeeded: bool = False) -> None:
    """Return all pods of an attempt."""
    for info in infos:
        reject(queue, info, *rejectors or ("Filter",) * succeeded)
    queue.end_attempts(infos, succeeded, not succeeded and not rejectors)


def test_a_group_is_gated_while_one_of_its_pods_is() -> None:
    """Also where that joins a group that was ready, and after it has left, until the timeout."""
    gate = gating("Gate", lambda one: one.name == "gated")
    queue = made(member("a"), member("gated"), plugins=[gate], release="1.37")
    assert places(queue) == {"gated": ["a", "gated"]}
    queue.delete([member("gated")])
    queue.add([member("b")])
    queue.add([QueuedPodInfo(member("c"))])
    assert places(queue) == {"gated": ["a", "b", "c"]}
    queue.run_periodic(330)
    assert places(queue) == {"active": ["a", "b", "c"]}


def test_a_change_of_a_pod_has_a_gated_group_asked_again() -> None:
    gate = gating("Gate", lambda one: one.name == "gated")
    a = member("a")
    queue = made(a, member("gated"), plugins=[gate])
    queue.delete([member("gated")])
    queue.update(a, replace(a, metadata=replace(a.metadata, labels={"n": "1"})))
    assert places(queue) == {"active": ["a"]}


@pytest.mark.parametrize("by_unit", [True, False])
def test_the_backoff_of_a_group_knows_how_many_were_tried_together(by_unit: bool) -> None:
    queue = made(*[member(name) for name in "abcd"])
    for failures in range(1, 7):
        infos = queue.pop() if by_unit else queue.pop(8)
        assert len(infos) == 4
        now = queue.now()
        end(queue, infos, "Filter")
        ends = {queue.backoff_until(info) for info in infos}
        assert ends == {now + min(2 ** (failures - 1), 20)}, "twice the longest backoff of a single pod"
        queue.activate([info.pod for info in infos])


def test_members_stay_together_when_trees_of_groups_change() -> None:
    queue = made(member("a"), member("b"), member("c", "h"))
    queue.regroup([("default", "g")])
    assert [popped(queue) for _ in range(2)] == [["a", "b"], ["c"]]


def test_pods_of_a_group_that_is_deleted_enter_as_new_ones() -> None:
    """So what the queue knew of the group is gone."""
    queue = made(member("a"), member("b"))
    failed(queue)
    queue.regroup([("default", "g")], ("default", "g"))
    assert places(queue) == {"active": ["a", "b"]}
    assert queue.backoff_until(queue.get(member("a").metadata.uid)) is None


def half_failed() -> tuple[Any, list[Any]]:
    """A queue, and the pods of a group whose attempt has not ended, the first of which was given back."""
    queue = made(member("a"), member("b"), member("c"))
    infos = queue.pop()
    reject(queue, infos[0], "Filter")
    return queue, infos


def end_half(queue: Any, infos: list[Any]) -> None:
    """End the attempt of `half_failed`."""
    end(queue, infos[1:], "Filter")


@pytest.mark.parametrize("others", [[], ["d"]])
def test_a_pod_deleted_before_the_attempt_of_its_group_ends_does_not_return(others: list[str]) -> None:
    queue, infos = half_failed()
    for name in others:
        queue.add([member(name)])
    queue.delete([infos[0].pod])
    end_half(queue, infos)
    assert places(queue) == {"error_backoff": ["b", "c", *others]}
    assert len(queue) == 2 + len(others)


def test_a_pod_changed_before_the_attempt_of_its_group_ends_returns_as_it_is_now() -> None:
    queue, infos = half_failed()
    old = infos[0].pod
    new = replace(old, metadata=replace(old.metadata, labels={"is": "new"}))
    queue.update(old, new)
    end_half(queue, infos)
    assert queue.get(new.metadata.uid).pod is new


def test_a_pod_activated_before_the_attempt_of_its_group_ends_waits_for_the_others() -> None:
    queue, infos = half_failed()
    queue.activate([infos[0].pod])
    assert popped(queue) == []
    end_half(queue, infos)
    assert places(queue) == {"error_backoff": ["a", "b", "c"]}


def test_a_group_counts_each_pod_once_after_an_attempt_was_broken_off() -> None:
    queue, infos = half_failed()
    queue.repair()
    for info in queue.in_flight():
        queue.put_back([info])
    queue.end_attempts(infos, False)
    assert sorted(names(queue.pending_pods().active)) == ["a", "b", "c"]
    assert queue.entry_of(infos[0]).size == 3


def test_pods_that_are_put_back_take_along_the_failed_ones_of_their_group() -> None:
    queue, infos = half_failed()
    queue.put_back(infos[1:])
    queue.end_attempts(infos, False)
    assert places(queue) == {"active": ["a", "b", "c"]}
    assert queue.entry_of(infos[0]).size == 3


def test_a_pod_that_fails_after_others_of_its_group_were_put_back_joins_them() -> None:
    gated = {"d"}
    queue = made(member("a"), member("b"), plugins=[gating("Gate", lambda one: one.name in gated)])
    infos = queue.pop()
    queue.add([member("d")])
    queue.put_back([infos[1]])
    assert places(queue) == {"gated": ["b", "d"], "in_flight": ["a"]}, "PreEnqueue is asked about the others"
    end(queue, infos[:1], "Filter")
    assert sorted(names(queue.pending_pods().gated)) == ["a", "b", "d"]
    gated.clear()
    queue.activate([infos[0].pod])
    assert popped(queue) == ["a", "b", "d"]


def test_pods_that_are_put_back_one_by_one_join_their_gated_group() -> None:
    queue = made(member("a"), member("b"), plugins=[gating("Gate", lambda one: one.name == "d")])
    infos = queue.pop()
    queue.add([member("d")])
    queue.put_back(infos)
    assert sorted(names(queue.pending_pods().gated)) == ["a", "b", "d"]
    queue.delete([infos[1].pod])
    assert sorted(names(queue.pending_pods().gated)) == ["a", "d"]


def test_a_copy_made_during_an_attempt_leaves_the_group_of_the_original_alone() -> None:
    queue, infos = half_failed()
    copy = made()
    copy.copy_from(queue)
    for info in copy.in_flight():
        reject(copy, info, "Filter")
    assert places(copy) == {"active": ["a", "b", "c"]}
    end_half(queue, infos)
    assert [queue.get(info.uid) for info in infos] == infos


def test_pods_whose_tree_changes_during_their_attempt_join_those_of_the_new_tree() -> None:
    tops: dict[Any, Any] = {}
    queue = made(member("a"), top_of=lambda key: tops.get(key, key))
    infos = queue.pop()
    tops["default", "g"] = "default", "root", "CompositePodGroup"
    queue.add([member("b")])
    end(queue, infos, "Filter")
    assert sorted(popped(queue)) == ["a", "b"]


def test_undo_after_a_timeout_forgets_that_gated_pods_were_flushed() -> None:
    clock = Clock()
    queue = make_queue(gating("Gate", lambda one: True), clock=clock, groups_pods=True)
    queue.add([member("a")])
    saved = queue.save()
    clock.advance(400)
    queue.flush_unschedulable_left_over()
    assert queue.get("a").was_flushed
    queue.undo(saved)
    assert not queue.get("a").was_flushed


# ---- events ----------------------------------------------------------------------------------------------


class Gang:
    """Keeps pods out until it is told that their group is complete."""

    def __init__(self) -> None:
        self.complete: set[str] = set()
        self.asked: list[str] = []
        self.hinted: list[str] = []

        def hint(one: Pod, old: Any, new: Any) -> Any:
            self.hinted.append(one.name)
            key = (new.namespace, new.name) if isinstance(new, PodGroup) else group_of(new)
            return queue_if(group_of(one) == key)

        def gated(one: Pod) -> bool:
            self.asked.append(one.name)
            key = group_of(one)
            return key is not None and key[1] not in self.complete

        events = [
            on(kind, ActionType.ADD, hint, of_unit=True) for kind in ("Pod", "scheduling.k8s.io/PodGroup")
        ]
        self.plugin = gating("Gang", gated, *events)


def test_only_mates_are_looked_at() -> None:
    gang = Gang()
    queue = made(member("a"), member("b", "h"), pod("x"), plugins=[gang.plugin])
    gang.complete = {"g", "h"}
    move(queue, ASSIGNED_POD_ADD, None, member("c", "h"))
    assert gang.hinted == ["b"]
    group = PodGroup(metadata=ObjectMeta(name="g", namespace="default"))
    move(queue, ClusterEvent("scheduling.k8s.io/PodGroup", ActionType.ADD), None, group)
    assert gang.hinted == ["b", "a"]
    assert places(queue) == {"active": ["x", "b", "a"]}


def test_mates_stay_where_the_one_that_comes_is_kept_out_too() -> None:
    gang = Gang()
    queue = made(member("a"), member("b"), plugins=[gang.plugin])
    gang.asked.clear()
    move(queue, POD_EVENTS.added, None, member("b"))
    assert gang.asked == ["b"]
    gang.complete = {"g"}
    queue.add([member("c")])
    move(queue, POD_EVENTS.added, None, member("c"))
    assert places(queue) == {"active": ["a", "b", "c"]}


def test_pods_without_a_group_are_popped_together_in_a_plugin_s_order() -> None:
    def less(self: Any, a: Any, b: Any) -> bool:
        return bool(a.pod.name > b.pod.name)

    pods = [pod("d"), pod("c"), member("b"), pod("a"), pod("e")]
    queue = made(*pods, sorter=make(QueueSortPlugin, "Backwards", less=less))
    assert names(queue.pop(2)) == ["e", "d"]
    assert names(queue.pop(9)) == ["c"]
    assert names(queue.pop(9)) == ["b"]
    assert names(queue.pop(9)) == ["a"]
    assert names(queue.pop(9)) == []
