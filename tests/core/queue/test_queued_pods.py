"""Entries of the scheduling queue, when they came, and where rejected ones wait."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import ClusterState, CreationClock, unschedulable_pods
from tests.doors.kube import seconds
from tests.make import pod

from moorage.engine.queue import Place, QueuedPodInfo
from moorage.kube import Pod

# ---- an entry ----------------------------------------------------------------------------------------------


def test_an_entry_and_its_copy() -> None:
    one = QueuedPodInfo(pod("a"), 1.5, attempts=2, place=Place.BACKOFF, unit=("n", "g"), until=7, size=3)
    assert (one.initial_attempt_timestamp, one.gating_plugin, one.rejectors) == (None, "", frozenset())
    one.pending_plugins = one.unschedulable_plugins = frozenset({"P"})
    one.unschedulable_plugins |= {"Q"}
    one.initial_attempt_timestamp, one.was_flushed = 3.0, True
    other = copy(one)
    fields = (
        "pod uid timestamp attempts unschedulable_count consecutive_errors_count initial_attempt_timestamp "
        "unschedulable_plugins pending_plugins gating_plugin was_flushed place order until unit "
        "group size rejectors"
    )
    assert [getattr(one, name) for name in fields.split()] == [
        getattr(other, name) for name in fields.split()
    ]
    assert one.rejectors == {"P", "Q"}
    assert one != other
    with pytest.raises(AttributeError):
        QueuedPodInfo(pod("a"), 1.0, colour="blue")


def test_the_clock_shows_the_newest_creation() -> None:
    def created(text: str | None) -> Any:
        one = pod("a")
        return replace(one, metadata=replace(one.metadata, creation_timestamp=text))

    clock = CreationClock(seconds)
    found = []
    for text in (None, "1970-01-01T00:00:05Z", "1970-01-01T00:00:03Z", None, "1970-01-01T00:00:09Z"):
        info = clock.entry(created(text))
        found.append((info.timestamp, clock.now, clock()))
    assert found == [(0, 0, 0), (5, 5, 5), (3, 5, 5), (5, 5, 5), (9, 9, 9)]


def created_at(text: str | None) -> Pod:
    return pod("a", metadata={"creationTimestamp": text})


@pytest.mark.parametrize("year", ["0001", "1969", "1970", "2000", "2023", "2024", "2100", "9999"])
def test_timestamps_of_a_server_are_read_as_python_reads_them(year: str) -> None:
    for day in (
        "01-01",
        "02-28",
        "02-29",
        "03-01",
        "04-30",
        "07-31",
        "12-31",
        "04-31",
        "13-01",
        "00-01",
        "01-00",
    ):
        for time in ("00:00:00", "23:59:59", "12:34:56", "24:00:00", "10:60:00", "10:00:60", "1a:00:00"):
            text = f"{year}-{day}T{time}Z"
            try:
                expected = seconds(text)
            except ValueError:
                with pytest.raises(ValueError, match=r"must be|out of range|Invalid"):
                    CreationClock(seconds).entry(created_at(text))
            else:
                assert CreationClock(seconds).entry(created_at(text)).timestamp == expected
    for text in (f"{year}-01-02 03:04:05Z", f"{year}-01-02T03:04:05+01:00", f"{year}-01-02T03:04:05.25Z"):
        assert CreationClock(seconds).entry(created_at(text)).timestamp == seconds(text)


def test_a_pod_whose_timestamp_is_none_has_no_entry() -> None:
    clock, wrong = CreationClock(seconds), created_at("2026-02-30T00:00:00Z")
    for _ in range(2):
        with pytest.raises(ValueError, match="out of range"):
            clock.entry(wrong)
    assert (clock.entry(created_at("1970-01-01T00:00:05Z")).timestamp, clock.now) == (5, 5)


# ---- unschedulable pods ------------------------------------------------------------------------------------


def test_rejected_pods_move_along_when_classes_get_new_numbers() -> None:
    state = ClusterState()
    state.classes.intern(pod("gone", labels={"app": "gone"}))
    waiting = unschedulable_pods.UnschedulablePods(state.classes)
    a, b = (QueuedPodInfo(pod(name), 0.0) for name in "ab")
    waiting.add(a)
    assert state.number_classes_anew()
    waiting.add(b)
    (rejected,) = waiting.by_rejection.values()
    assert list(rejected.by_class.values()) == [{"a": a, "b": b}]
    waiting.remove(a)
    assert list(rejected.by_class.values()) == [{"b": b}]
