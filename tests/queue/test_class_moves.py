"""Events and pods of one class: hints are called for one of them."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.engine.framework import ActionType, EnqueueExtensions, FilterPlugin, Plugin, QueueingHint
from moorage.engine.queue import SchedulingQueue
from moorage.kube import Pod
from tests.doors.engine import index_of, indexed, of_class, on, pod_labels, queue_if, unschedulable_pods
from tests.make import pod
from tests.queue.make import ASSIGNED_POD_ADD, fail, make_queue, move, places, queued
from tests.scheduler.test_calls import calls


def rejecting(answer: Any, keys: Any = None, by_class: bool = True) -> tuple[Plugin, list[str]]:
    """A plugin with a hint for added pods, and the names of the pods that the hint was called for."""
    asked = list[str]()

    class Rejecting(FilterPlugin, EnqueueExtensions):
        name, filter_all = "R", None  # which nobody calls

        def hint(self, one: Pod, old: Any, new: Any) -> QueueingHint:
            asked.append(one.name)
            return queue_if(answer(one, new))

        hint = of_class(hint) if keys is None else indexed(keys, pod_labels, by_class)(hint)

        def events_to_register(self) -> Any:
            return [on("Pod", ActionType.ADD, self.hint)]

    return Rejecting(), asked


def filled(plugin: Plugin, *labels: dict[str, str]) -> SchedulingQueue:
    """Unschedulable pods a, b, … with these labels."""
    queue: SchedulingQueue = make_queue(plugin)
    for name, of in zip("abcdefghijkl", labels, strict=False):
        queue.add([queued(name, labels=of)])
        fail(queue, "R")
    return queue


def added(name: str, **labels: str) -> Pod:
    return pod(name, on="n", labels=labels)


def test_one_pod_of_a_class_is_asked_and_all_move() -> None:
    plugin, asked = rejecting(lambda one, new: new.name == "y")
    queue = filled(plugin, {}, {"l": "1"}, {}, {"l": "1"})
    move(queue, ASSIGNED_POD_ADD, None, added("x"))
    assert asked == ["a", "b"]
    assert places(queue) == {"unschedulable": ["a", "b", "c", "d"]}
    move(queue, ASSIGNED_POD_ADD, None, added("y"))
    assert asked == ["a", "b"] * 2
    assert places(queue) == {"backoff": ["a", "b", "c", "d"]}


def test_pods_that_an_event_moves_together_take_no_calls_of_their_own() -> None:
    def calls_of(pods: int) -> int:
        queue = filled(rejecting(lambda one, new: True)[0], *[{}] * pods)
        move(queue, ASSIGNED_POD_ADD, None, added("x"))
        for _ in range(pods):
            fail(queue, "R")
        found = calls(lambda: move(queue, ASSIGNED_POD_ADD, None, added("x")))
        assert len(places(queue)["backoff"]) == pods
        return found.total()

    assert calls_of(3) == calls_of(12) <= 30


@pytest.mark.parametrize("about", ["a", "b"])
def test_the_pod_that_an_event_is_about_has_an_answer_of_its_own(about: str) -> None:
    plugin, asked = rejecting(lambda one, new: one.name == new.name)
    queue = filled(plugin, {}, {}, {})
    move(queue, ASSIGNED_POD_ADD, None, added(about))
    assert sorted(asked) == sorted([about, "b" if about == "a" else "a"])
    assert places(queue) == {"backoff": [about], "unschedulable": [one for one in "abc" if one != about]}
    queue = filled(rejecting(lambda one, new: one.name != new.name)[0], {}, {}, {})
    move(queue, ASSIGNED_POD_ADD, None, added(about))
    assert places(queue) == {"unschedulable": [about], "backoff": [one for one in "abc" if one != about]}


def test_the_pod_that_an_event_is_about_is_asked_once() -> None:
    plugin, asked = rejecting(lambda one, new: one.name == new.name)
    queue = filled(plugin, {}, {}, {})
    move(queue, ASSIGNED_POD_ADD, queued("b"), added("b"))
    assert asked == ["a", "b"]
    assert places(queue) == {"backoff": ["b"], "unschedulable": ["a", "c"]}


def test_pods_of_other_classes_than_before_are_asked_anew() -> None:
    plugin, _ = rejecting(lambda one, new: one.metadata.labels == new.metadata.labels)
    queue = filled(plugin, {}, {})
    changed = queued("a", labels={"l": "1"})
    queue.update(queued("a"), changed)
    move(queue, ASSIGNED_POD_ADD, None, added("x", l="1"))
    assert places(queue) == {"backoff": ["a"], "unschedulable": ["b"]}


def test_a_hint_that_fails_fails_for_each_pod() -> None:
    def answer(one: Pod, new: Pod) -> bool:
        raise ValueError("malformed")

    plugin, asked = rejecting(answer)
    queue = filled(plugin, {}, {}, {})
    move(queue, ASSIGNED_POD_ADD, None, added("x"))
    assert asked == ["a", "b", "c"]
    assert places(queue) == {"backoff": ["a", "b", "c"]}


def keys_of(plugin: object, one: Pod) -> frozenset[Any] | None:
    if "odd" in one.metadata.labels:
        raise ValueError("malformed")
    return frozenset(one.metadata.labels.items()) or None


def test_only_classes_with_a_key_of_the_event_are_asked() -> None:
    """And those without keys, and the pod that the event is about."""
    plugin, asked = rejecting(lambda one, new: False, keys_of)
    labels = [{"l": str(number)} for number in range(8)]
    queue = filled(plugin, *labels, {}, {"odd": ""})
    assert len(labels) >= unschedulable_pods.FEW

    def asked_by(new: Pod) -> list[str]:
        asked.clear()
        move(queue, ASSIGNED_POD_ADD, None, new)
        return sorted(asked)

    assert asked_by(added("x")) == ["i", "j"]
    assert asked_by(added("x", l="3")) == ["d", "i", "j"]
    assert asked_by(added("a", l="3")) == ["a", "d", "i", "j"]
    queue.update(queued("d", labels={"l": "3"}), queued("d", labels={"l": "z"}))
    assert asked_by(added("x", l="3")) == ["i", "j"]
    assert asked_by(added("x", l="z")) == ["d", "i", "j"]
    queue.delete([queued("e")])
    queue.delete([queued("j")])
    assert asked_by(added("x", l="4")) == ["i"]
    queue.add([queued("k", labels={"l": "9"})])
    fail(queue, "R")
    assert asked_by(added("x", l="9")) == ["i", "k"]


def test_a_hint_that_is_indexed_pod_by_pod_is_asked_for_those_with_a_key() -> None:
    """And for those without keys, and the pod that the event is about."""

    def name_of(plugin: object, one: Pod) -> frozenset[Any] | None:
        return None if one.name == "i" else frozenset({("l", one.name)})

    plugin, asked = rejecting(lambda one, new: new.name == "y", name_of, False)
    queue = filled(plugin, *[{} for _ in range(10)])

    def asked_by(new: Pod) -> list[str]:
        asked.clear()
        move(queue, ASSIGNED_POD_ADD, None, new)
        return sorted(asked)

    assert asked_by(added("x")) == ["i"]
    assert asked_by(added("x", l="c")) == ["c", "i"]
    assert asked_by(added("a", l="c")) == ["a", "c", "i"]
    queue.delete([queued("c")])
    assert asked_by(added("x", l="c")) == ["i"]
    queue.add([queued("c")])
    fail(queue, "R")
    assert asked_by(added("x", l="c")) == ["c", "i"]
    assert asked_by(added("y", l="d")) == ["d", "i"]
    assert places(queue)["backoff"] == ["d", "i"]


def test_hints_of_a_plugin_with_one_index_share_it() -> None:
    plugin, _ = rejecting(lambda one, new: False, keys_of)
    first, second = (index_of(plugin.events_to_register()[0].hint) for _ in range(2))  # type: ignore[attr-defined]
    assert first == second
    assert hash(first) == hash(second)
