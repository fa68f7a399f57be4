"""Assumed pods that expire: by hand, by the clock, and in the background."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cache.threads import LIMIT
from tests.house.source import ROOT
from tests.make import node, pod

from moorage.engine.cache import SchedulerCache, new_scheduler_cache
from moorage.errors import CacheError


def assumed(*names: str, ttl: float | None = 10.0) -> SchedulerCache:
    """A cache with assumed pods on node a."""
    one = SchedulerCache(ttl)
    one.add_node(node("a"))
    one.assume_pods([pod(name, on="a", requests={"cpu": 1}) for name in names])
    return one


def expire(one: SchedulerCache, now: float) -> list[str]:
    return [held.name for held in one.cleanup_assumed_pods(now)]


def cpu(one: SchedulerCache) -> int:
    return one.snapshot().nodes["a"].requested.milli_cpu


def test_a_pod_expires_strictly_after_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    one = assumed("p")
    one.finish_binding(pod("p"), 5.0)
    assert (expire(one, 14.9), expire(one, 15.0), one.is_assumed_pod(pod("p"))) == ([], [], True)
    assert (expire(one, 15.001), caplog.messages) == (["p"], ["Pod default/p expired"])
    assert caplog.records[0].levelname == "WARNING"
    assert (cpu(one), one.is_assumed_pod(pod("p")), one.snapshot().assumed_pods) == (0, False, {})
    with pytest.raises(CacheError, match="does not exist in scheduler cache"):
        one.get_pod(pod("p"))
    assert expire(one, 99.0) == []


def test_a_pod_whose_binding_has_not_finished_stays(caplog: pytest.LogCaptureFixture) -> None:
    one = assumed("q", "p", "done")
    one.finish_binding(pod("done"), 0.0)
    one.add_pod(pod("added", on="a"))
    with caplog.at_level(logging.DEBUG, "moorage.cache"):
        assert expire(one, 1e9) == ["done"]
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("DEBUG", "Couldn't expire cache for pod default/p. Binding is still in progress."),
        ("DEBUG", "Couldn't expire cache for pod default/q. Binding is still in progress."),
        ("WARNING", "Pod default/done expired"),
    ]
    assert one.snapshot().assumed_pods == {"p": True, "q": True}


def test_nothing_is_said_of_finished_bindings_where_nothing_expires(caplog: pytest.LogCaptureFixture) -> None:
    one = assumed("p", "q", ttl=None)
    one.finish_bindings([pod("p"), pod("q")])
    with caplog.at_level(logging.DEBUG, "moorage.cache"):
        assert (expire(one, 1e300), caplog.messages) == ([], [])
    assert set(one.snapshot().assumed_pods) == {"p", "q"}


def test_pods_expire_from_a_node_that_is_gone_and_from_one_that_never_came() -> None:
    one = assumed("p")
    one.assume_pod(pod("early", on="b"))
    one.finish_bindings([pod("p"), pod("early")], 0.0)
    one.remove_node(node("a"))
    assert (expire(one, 99.0), one.snapshot().nodes) == (["p", "early"], {})


@pytest.mark.parametrize(
    ("finished", "now", "expired"),
    [
        ("p=0 q=0 p=20", 25.0, "q"),
        ("p=20 p=5", 16.0, "p"),  # finishing again moves the deadline
        ("p=3 q=1 r=2 s=50", 20.0, "qrp"),  # earliest first
        ("unknown=0", 99.0, ""),
        ("p=0 p=again", 99.0, ""),
        ("p=0 p=added p=0", 99.0, ""),
    ],
)
def test_which_pods_expire(finished: str, now: float, expired: str) -> None:
    """A pod that was assumed again, or added, has no deadline."""
    one = assumed(*"pqrs")
    for step in finished.split():
        name, _, what = step.partition("=")
        if what == "again":
            one.forget_pod(pod(name, on="a"))
            one.assume_pod(pod(name, on="a"))
        elif what == "added":
            one.add_pod(pod(name, on="a"))
        else:
            one.finish_binding(pod(name), float(what))
    assert "".join(expire(one, now)) == expired


@pytest.mark.parametrize("ttl", [1.0, 30.0])
def test_the_clock_gives_the_moment(stop: threading.Event, ttl: float) -> None:
    stop.set()
    for one in (SchedulerCache(ttl, clock=lambda: 7.0), new_scheduler_cache(ttl, stop, 0.0, lambda: 7.0)):
        one.assume_pod(pod("p", on="a"))
        one.finish_binding(pod("p"))
        assert (expire(one, 7.0 + ttl), expire(one, 7.5 + ttl)) == ([], ["p"])


# ---- in the background -----------------------------------------------------------------------------------


class Clock:
    """A clock that says what a test sets, and how often it was asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = threading.Semaphore(0)

    def __call__(self) -> float:
        self.asked.release()
        return self.now

    def wait(self, times: int) -> None:
        """Wait until it has been asked so often from now on."""
        while self.asked.acquire(blocking=False):
            pass
        for _ in range(times):
            assert self.asked.acquire(timeout=LIMIT)


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Stops the cleaner at the end of a test, whatever happens."""
    event = threading.Event()
    yield event
    event.set()


def cleaner(before: set[threading.Thread]) -> threading.Thread:
    (thread,) = set(threading.enumerate()) - before
    return thread


def test_a_thread_cleans_until_it_is_told_to_stop(stop: threading.Event) -> None:
    before, clock = set(threading.enumerate()), Clock()
    one = new_scheduler_cache(10.0, period=0.0, stop=stop, clock=clock)
    thread = cleaner(before)
    one.assume_pods([pod("p", on="a"), pod("q", on="a"), pod("unfinished", on="a")])
    one.finish_binding(pod("p"), 0.0)
    one.finish_binding(pod("q"), 90.0)
    clock.wait(3)
    assert set(one.snapshot().assumed_pods) == {"p", "q", "unfinished"}
    clock.now = 10.5
    clock.wait(3)  # a round that began before the change, and a whole one after it
    assert set(one.snapshot().assumed_pods) == {"q", "unfinished"}
    stop.set()
    thread.join(LIMIT)
    assert not thread.is_alive()
    clock.now = 1e9
    assert set(one.snapshot().assumed_pods) == {"q", "unfinished"}


def test_a_cleaning_that_fails_is_reported_and_the_next_one_cleans(
    stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    clock, failures = Clock(), [KeyError("broken"), KeyError("broken")]

    class Fails(SchedulerCache):
        def clean(self, now: float) -> None:
            if failures:
                raise failures.pop()
            super().clean(now)

    one = Fails(10.0, clock)
    one.run(0.0, stop)
    one.assume_pod(pod("p", on="a"))
    one.finish_binding(pod("p"), 0.0)
    clock.now = 10.5
    clock.wait(5)
    assert one.snapshot().assumed_pods == {}
    said = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.message for record in said] == ["cleaning the cache failed"] * 2
    assert all(record.exc_info is not None and record.exc_info[0] is KeyError for record in said)


def test_a_cache_cleans_every_second(stop: threading.Event) -> None:
    periods: list[float | None] = []
    waited = threading.Event()

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            periods.append(timeout)
            waited.set()
            return True

    new_scheduler_cache(10.0, stop=Stop())
    assert waited.wait(LIMIT)
    assert periods == [1.0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"period": "1"}, "period must be a number, not str"),
        ({"ttl": None}, "ttl must be a number, not NoneType"),
        ({"ttl": "5"}, "ttl must be a number, not str"),
        ({"stop": 1.0}, "what stops the thread is a threading.Event, not 1.0"),
    ],
)
def test_arguments_of_other_types_are_refused_where_they_are_given(arguments: Any, text: str) -> None:
    before = set(threading.enumerate())
    with pytest.raises(TypeError, match=text):
        new_scheduler_cache(**{"ttl": 1.0} | arguments)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("ttl", [-1, -0.5, float("nan"), float("inf")])
def test_a_time_to_live_that_is_none_is_refused(ttl: float) -> None:
    for make in (new_scheduler_cache, SchedulerCache):
        with pytest.raises(ValueError, match=r"^ttl "):
            make(ttl)


def test_the_thread_does_not_keep_the_process_alive() -> None:
    code = "from moorage.engine.cache import new_scheduler_cache; new_scheduler_cache(30.0, period=3600.0)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", check=True, timeout=LIMIT)


def test_a_cache_that_is_only_made_has_no_thread() -> None:
    before = set(threading.enumerate())  # those of other tests may end meanwhile
    assumed("p")
    assert set(threading.enumerate()) <= before
