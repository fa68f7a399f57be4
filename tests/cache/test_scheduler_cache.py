"""SchedulerCache: the life of pods, their errors, lists; each rule of v1.13's Cache, with its text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.inside import dump
from tests.core.refusals import (
    ADDED,
    ADDED_ON_B,
    ASSUMED,
    CORRUPTED,
    CORRUPTING,
    NEW,
    REFUSED,
    assert_refused,
)
from tests.make import node, pod, port

from moorage.engine.cache import SchedulerCache
from moorage.errors import CacheCorruptedError, CacheError
from moorage.kube import Pod, parse_selector


def cache() -> SchedulerCache:
    one = SchedulerCache(ttl=10.0)
    one.add_node(node("a"))
    return one


def requested(one: SchedulerCache) -> dict[str, int]:
    """Millicores requested, by node."""
    return {name: info.requested.milli_cpu for name, info in one.snapshot().nodes.items()}


def names(one: SchedulerCache, on: str) -> list[str]:
    info = one.node_info(on)
    return [held.name for held in info.pods] if info is not None else []


def known() -> SchedulerCache:
    """Nodes a and b; on a an assumed pod and an added one."""
    one = cache()
    one.add_node(node("b"))
    one.assume_pod(ASSUMED)
    one.add_pod(ADDED)
    return one


def test_a_pod_is_discarded_in_either_state() -> None:
    one = known()
    for each in (ASSUMED, ADDED):
        one.discard_pod(each)
        assert not one.state.has_pod(each)
    assert requested(one) == {"a": 0, "b": 0}
    with pytest.raises(CacheError, match="cannot be removed"):
        one.discard_pod(ADDED)


def test_pods_that_leave_a_node_together_are_one_change_of_its_row() -> None:
    one = cache()
    one.add_node(node("b"))
    held = [pod(f"p{number}", on=name) for number, name in enumerate("aaabba")]
    one.add_pods(held)
    head = one.state.log.head
    one.remove_added(held)
    assert one.state.log.head == head + 3  # a, b, a
    assert requested(one) == {"a": 0, "b": 0}


def test_all_or_no_pods_are_removed_in_bulk() -> None:
    one = cache()
    held = [pod("p", on="a", ports=[port(80)]), pod("q", on="a", ports=[port(81)])]
    one.add_pods(held)
    before = dump(one.state)
    with one.transaction():
        assert one.remove_added([*held, held[0]]) == [held[0]]
        assert requested(one) == {"a": 0}
    assert dump(one.state, before) == before
    with pytest.raises(AttributeError):
        one.remove_added([*held, None])
    assert dump(one.state, before) == before


NAMELESS = replace(NEW, metadata=replace(NEW.metadata, uid=""))


# ---- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "arguments", "text"),
    [
        *REFUSED,
        (
            "update_pod",
            (ASSUMED, ADDED),
            "pod default/assumed is not added to scheduler cache, so cannot be updated",
        ),
        ("update_pod", (ADDED_ON_B, ADDED), "no corresponding pod default/added in pods of node b"),
        ("remove_node", (node("c"),), "node c is not found"),
    ],
)
def test_a_refused_operation_changes_nothing(operation: str, arguments: tuple[Any, ...], text: str) -> None:
    assert_refused(known(), CacheError, text, operation, *arguments)


@pytest.mark.parametrize(("operation", "arguments", "text"), CORRUPTING)
def test_a_broken_invariant_changes_nothing(operation: str, arguments: tuple[Any, ...], text: str) -> None:
    assert_refused(known(), CacheCorruptedError, f"{text}\n{CORRUPTED}", operation, *arguments)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        *[(name, (NAMELESS,)) for name in ("assume_pod", "finish_binding", "forget_pod", "add_pod")],
        *[(name, (NAMELESS,)) for name in ("remove_pod", "get_pod", "is_assumed_pod")],
        ("update_pod", (NAMELESS, ADDED)),
        ("update_pod", (ADDED, NAMELESS)),
        ("assume_pods", ([NEW, NAMELESS],)),
        ("finish_bindings", ([ASSUMED, NAMELESS],)),
        ("forget_pods", ([ASSUMED, NAMELESS],)),
        ("add_pods", ([NEW, NAMELESS],)),
    ],
)
def test_a_pod_without_uid_is_an_error(operation: str, arguments: tuple[Any, ...]) -> None:
    assert_refused(known(), CacheError, "Cannot get cache key for pod with empty UID", operation, *arguments)


# ---- the life of a pod -----------------------------------------------------------------------------------


def test_a_confirmation_keeps_the_place_and_takes_the_new_object() -> None:
    one = cache()
    one.assume_pod(NEW)
    info = one.node_info("a")
    assert info is not None
    generation = info.generation
    reported = pod("new", on="a", requests={"cpu": 2}, labels={"app": "web"})
    one.add_pod(reported)
    assert (one.is_assumed_pod(NEW), one.snapshot().assumed_pods) == (False, {})
    assert one.get_pod(NEW) is reported
    assert (info.pods, info.requested.milli_cpu) == ([reported], 2000)
    assert info.generation > generation


def test_a_confirmation_from_another_node_moves_the_pod(caplog: pytest.LogCaptureFixture) -> None:
    one = known()
    one.add_pod(pod("assumed", on="b", requests={"cpu": 2}))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "Pod default/assumed was assumed to be on b but got added to a")
    ]
    assert (requested(one), names(one, "b")) == ({"a": 1000, "b": 2000}, ["assumed"])
    assert not one.is_assumed_pod(ASSUMED)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assume", "forget", "finish", "add", "update", "remove", "expire"]),
            st.sampled_from("pqr"),
        ),
        max_size=40,
    )
)
def test_a_pod_moves_between_its_states_as_upstream_allows(steps: list[tuple[str, str]]) -> None:
    """Initial → Assumed → Added → Deleted, with Add from Initial, and Forget and Expire from Assumed."""
    one, states, finished = cache(), dict.fromkeys("pqr", "none"), set[str]()
    moves = {
        ("assume", "none"): "assumed",
        ("forget", "assumed"): "none",
        ("add", "none"): "added",
        ("add", "assumed"): "added",
        ("update", "added"): "added",
        ("remove", "added"): "none",
    }
    for now, (step, name) in enumerate(steps):
        which = pod(name, on="a", requests={"cpu": 1})
        if step == "finish":
            one.finish_binding(which, now - 100.0)
            finished |= {name} if states[name] == "assumed" else set()
        elif step == "expire":
            gone = {held for held in finished if states[held] == "assumed"}
            assert {held.name for held in one.cleanup_assumed_pods(now)} == gone
            states |= dict.fromkeys(gone, "none")
        elif after := moves.get((step, states[name])):
            getattr(one, f"{step}_pod")(*[which] * (2 if step == "update" else 1))
            states[name] = after
        else:
            with pytest.raises(CacheError):
                getattr(one, f"{step}_pod")(*[which] * (2 if step == "update" else 1))
        finished = {held for held in finished if states[held] == "assumed"}
        there = {held for held, state in states.items() if state != "none"}
        assert one.snapshot().assumed_pods == {held: True for held in there if states[held] == "assumed"}
        assert set(names(one, "a")) == there
        assert requested(one) == {"a": 1000 * len(there)}
        assert all(one.get_pod(pod(held)).name == held for held in there)


# ---- batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "batch", "text"),
    [
        ("assume_pods", [NEW, ADDED], "pod default/added is in the cache, so can't be assumed"),
        ("assume_pods", [NEW, NEW], "pod default/new is in the cache, so can't be assumed"),
        ("forget_pods", [ASSUMED, ADDED], "pod default/added wasn't assumed so cannot be forgotten"),
        ("forget_pods", [ASSUMED, ASSUMED], "pod default/assumed wasn't assumed so cannot be forgotten"),
        (
            "forget_pods",
            [pod("assumed", on="b")],
            "pod default/assumed is on a in the cache, so it cannot be forgotten on b",
        ),
        ("add_pods", [ASSUMED, NEW, ADDED], "pod default/added was already in added state"),
        ("add_pods", [NEW, NEW], "pod default/new was already in added state"),
    ],
)
def test_a_batch_is_all_or_nothing(operation: str, batch: list[Pod], text: str) -> None:
    assert_refused(known(), CacheError, text, operation, batch)


@pytest.mark.parametrize("operation", ["assume_pods", "add_pods"])
def test_a_batch_with_a_bad_quantity_changes_nothing(operation: str) -> None:
    one = known()
    before = dump(one.state)
    with pytest.raises(ValueError, match="quantit"):
        getattr(one, operation)([NEW, pod("bad", on="c", requests={"cpu": "1K"})])
    assert dump(one.state, before) == before


# ---- lists -----------------------------------------------------------------------------------------------


def listed() -> SchedulerCache:
    """Pods on a node, on a ghost, before their node, assumed, and one that has expired."""
    one = known()
    one.add_pod(pod("ghost", on="b", labels={"app": "web"}))
    one.remove_node(node("b"))
    one.add_pod(pod("early", on="c", labels={"app": "web"}))
    one.assume_pod(pod("late", on="a"))
    one.finish_binding(pod("late"), 0.0)
    one.cleanup_assumed_pods(99.0)
    return one


def test_list_has_every_pod_of_every_node() -> None:
    one = listed()
    assert [held.name for held in one.list(parse_selector(""))] == ["assumed", "added", "ghost", "early"]
    assert [held.name for held in one.list(parse_selector("app=web"))] == ["ghost", "early"]
    assert one.list(parse_selector("app=db")) == []
    assert SchedulerCache().list(parse_selector("")) == []


def test_the_filter_is_asked_before_the_selector() -> None:
    asked: list[tuple[str, str]] = []

    class Selector:
        def matches(self, labels: dict[str, str]) -> bool:
            asked.append(("selector", labels.get("app", "")))
            return bool(labels)

    def keep(held: Pod) -> bool:
        asked.append(("filter", held.name))
        return held.name in ("added", "early")

    one = listed()
    assert [held.name for held in one.filtered_list(keep, Selector())] == ["early"]
    assert asked == [
        ("filter", "assumed"),
        ("filter", "added"),
        ("selector", ""),
        ("filter", "ghost"),
        ("filter", "early"),
        ("selector", "web"),
    ]
