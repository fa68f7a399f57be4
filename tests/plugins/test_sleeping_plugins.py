"""Plugins about volumes and claims become whole when a pod needs them."""

from __future__ import annotations

import sys
from copy import copy
from itertools import count
from threading import Thread
from types import FrameType
from typing import Any

import pytest
from tests.doors.engine import IN_TREE_CLASSES, VolumeBinding, interface
from tests.make import node, pod

from moorage import Cluster, Scheduler

ASLEEP = [kind for kind in IN_TREE_CLASSES if hasattr(kind, "awake")]


def by_name(scheduler: Scheduler, name: str) -> interface.Plugin:
    return next(plugin for plugin in scheduler.profile.plugins if plugin.name == name)


@pytest.mark.parametrize("kind", ASLEEP, ids=lambda kind: kind.__name__)
def test_facts_answer_as_the_whole_plugin(kind: Any) -> None:
    """What a class of the whole plugin overrides of a base class is a call that makes it whole."""
    asleep = kind()
    points, weight, args = asleep.extension_points, asleep.default_weight, asleep.args
    whole = type(asleep.awake())
    assert whole is not kind
    assert (asleep.extension_points, asleep.default_weight, asleep.args) == (points, weight, args)
    facts = next(base for base in whole.__mro__ if base in kind.__mro__)
    own = {name for base in whole.__mro__[: whole.__mro__.index(facts)] for name in vars(base)}
    overridden = {name for name in own if hasattr(facts, name) and callable(getattr(facts, name))}
    known = {name for name in overridden if name[0] != "_"} - {"another"}  # which has no state to keep
    assert known == {name for name in known if name in vars(kind)}


@pytest.mark.parametrize("kind", ASLEEP, ids=lambda kind: kind.__name__)
def test_hints_are_those_of_the_whole_plugin(kind: Any) -> None:
    one = Scheduler()
    asleep, whole = kind(handle=one.handle), kind(handle=one.handle).awake()
    for late, hinted in zip(asleep.events_to_register(), whole.events_to_register(), strict=True):
        assert late.event == hinted.event
        assert type(asleep) is kind or not late.hint
        if late.hint is not None and hinted.hint is not None:
            assert late.hint.name == hinted.hint.__name__  # type: ignore[attr-defined]


def test_a_hint_of_a_plugin_that_is_not_whole_can_be_copied() -> None:
    asleep = ASLEEP[0]()
    hints = [each.hint for each in asleep.events_to_register() if each.hint is not None]
    assert [vars(copy(hint)) for hint in hints] == [vars(hint) for hint in hints]
    assert type(asleep) is ASLEEP[0]


def test_a_pod_with_a_volume_makes_plugins_whole() -> None:
    one = Scheduler(Cluster(nodes=[node("n")], pods=[pod("plain")]))
    one.run()
    plugin = by_name(one, "VolumeBinding")
    assert type(plugin) in ASLEEP
    one.client.create(pod("p", volumes=({"name": "v", "persistentVolumeClaim": {"claimName": "c"}},)))
    one.run()
    assert type(plugin) is VolumeBinding
    assert by_name(one, "VolumeBinding") is plugin


def test_a_plugin_that_is_whole_already_keeps_its_state() -> None:
    """Another thread is first at some line of the call that wakes a plugin."""
    for line in count(1):
        plugin: Any = by_name(Scheduler(), "VolumeBinding")
        lines = iter(range(line, 0, -1))

        def trace(frame: FrameType, event: str, _: object, plugin: Any = plugin, lines: Any = lines) -> Any:
            if frame.f_code.co_name != "awake":
                return None
            if event == "line" and next(lines, 0) == 1:
                other = Thread(target=plugin.awake)
                other.start()
                other.join()
                plugin.args = {"of": "the first"}
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert plugin.awake() is plugin
        finally:
            sys.settrace(before)
        assert type(plugin) is VolumeBinding
        if next(lines, 0):
            break  # it has fewer lines
        assert plugin.args == {"of": "the first"}
    assert line > 5


def test_a_second_scheduler_takes_copies_of_whole_plugins() -> None:
    one = Scheduler()
    whole = [plugin.awake() for plugin in one.profile.plugins if type(plugin) in ASLEEP]
    other = Scheduler(profile=one.profile)
    assert [by_name(other, plugin.name) is plugin for plugin in whole] == [False] * len(whole)
