"""Operations that a state must refuse: asked of ClusterState itself and through SchedulerCache."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.inside import dump
from tests.doors.engine import ClusterState
from tests.make import pod

from moorage.engine.cache import SchedulerCache

ASSUMED, ADDED, NEW = (pod(name, on="a", requests={"cpu": 1}) for name in ("assumed", "added", "new"))
ADDED_ON_B = pod("added", on="b")
CORRUPTED = "Schedulercache is corrupted and can badly affect scheduling decisions"

Refusal = tuple[str, tuple[Any, ...], str]

# Of nodes a and b; on a the pod `assumed` is assumed and the pod `added` is added.
REFUSED: list[Refusal] = [
    ("assume_pod", (ASSUMED,), "pod default/assumed is in the cache, so can't be assumed"),
    ("assume_pod", (ADDED_ON_B,), "pod default/added is in the cache, so can't be assumed"),
    (
        "forget_pod",
        (pod("assumed", on="b"),),
        "pod default/assumed is on a in the cache, so it cannot be forgotten on b",
    ),
    ("forget_pod", (ADDED_ON_B,), "pod default/added is on a in the cache, so it cannot be forgotten on b"),
    ("forget_pod", (ADDED,), "pod default/added wasn't assumed so cannot be forgotten"),
    ("forget_pod", (NEW,), "pod default/new wasn't assumed so cannot be forgotten"),
    ("add_pod", (ADDED,), "pod default/added was already in added state"),
    ("add_pod", (ADDED_ON_B,), "pod default/added was already in added state"),
    ("update_pod", (NEW, NEW), "pod default/new is not added to scheduler cache, so cannot be updated"),
    ("remove_pod", (NEW,), "pod default/new is not found in scheduler cache, so cannot be removed from it"),
    (
        "remove_pod",
        (ASSUMED,),
        "pod default/assumed is not found in scheduler cache, so cannot be removed from it",
    ),
    ("get_pod", (NEW,), "pod default/new does not exist in scheduler cache"),
]
CORRUPTING: list[Refusal] = [
    (
        "update_pod",
        (ADDED, ADDED_ON_B),
        "Pod default/added updated on a different node than previously added to.",
    ),
    ("remove_pod", (ADDED_ON_B,), "Pod default/added was assumed to be on b but got added to a"),
]


def assert_refused(
    one: ClusterState | SchedulerCache, error: type[Exception], text: str, operation: str, *args: Any
) -> None:
    """The operation ends in this error with this text, and the state stays as it was."""
    state = one if isinstance(one, ClusterState) else one.state
    before, head = dump(state), state.log.head
    with pytest.raises(error) as refusal:
        getattr(one, operation)(*args)
    assert refusal.value.args == (text,)
    assert dump(state, before) == before
    assert state.log.head == head
