"""The backoff queue against a computation with integers of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.doors.engine import BackoffQueue, pods_of
from tests.make import pod

from moorage.engine.queue import Place, QueuedPodInfo

SECOND = 1_000_000
PLACES = Place.BACKOFF, Place.ERROR_BACKOFF
SECONDS = st.integers(-4 * SECOND, 4 * SECOND).map(lambda micros: micros / SECOND)
COUNTS = st.one_of(st.integers(0, 5), st.integers(60, 80))


def backoff_queue(initial: float, maximum: float, in_windows: bool) -> BackoffQueue:
    return BackoffQueue(initial, maximum, in_windows, lambda info: (info.order,))


def end_of(info: QueuedPodInfo, initial: int, maximum: int, window: int) -> int:
    count = info.consecutive_errors_count or info.unschedulable_count
    if count == 0 or maximum == 0:
        return 0
    longest = int(maximum * max(1, info.size) ** 0.5)
    end: int = round(info.timestamp * SECOND) + min(initial * 2 ** (count - 1), longest)
    return end // window * window


@st.composite
def entries(draw: st.DrawFn) -> list[QueuedPodInfo]:
    infos = []
    for order in range(draw(st.integers(1, 6))):
        info = QueuedPodInfo(pod(f"p{order}"), draw(SECONDS))
        info.unschedulable_count, info.consecutive_errors_count = draw(COUNTS), draw(COUNTS)
        info.order, info.place = order, draw(st.sampled_from(PLACES))
        info.size = draw(st.integers(0, 5))
        infos.append(info)
    return infos


@given(entries(), st.integers(0, 4), st.integers(0, 30), st.booleans(), SECONDS)
def test_ends_and_orders(
    infos: list[QueuedPodInfo], initial: int, maximum: int, in_windows: bool, now: float
) -> None:
    queue, window = backoff_queue(initial, maximum, in_windows), SECOND if in_windows else 1
    ends = {info.uid: end_of(info, initial * SECOND, maximum * SECOND, window) for info in infos}
    this_window = round(now * SECOND) // window * window
    for info in infos:
        assert queue.until(info) == ends[info.uid]
        assert queue.is_backing_off(info, now) == (ends[info.uid] != 0 and ends[info.uid] >= this_window)
        queue.add(info)
    assert queue.next_end() == min(ends.values())
    ranked = sorted(infos, key=lambda info: (PLACES.index(info.place), ends[info.uid], info.order))
    gone, *left = ranked
    queue.remove(gone)
    assert [*queue.rejected, *queue.failed] == left


def test_the_end_is_computed_once_for_each_attempt() -> None:
    queue, info = backoff_queue(1, 10, False), QueuedPodInfo(pod("p"), 5.0)
    info.unschedulable_count = 1
    assert queue.until(info) == info.until == 6 * SECOND
    info.unschedulable_count = 2
    assert queue.until(info) == 6 * SECOND
    info.until = 0
    assert queue.until(info) == 7 * SECOND
    assert backoff_queue(1, 10, False).next_end() is None


def test_the_pods_of_entries() -> None:
    infos = [QueuedPodInfo(pod(name), 0.0) for name in "ab"]
    assert pods_of(iter(infos)) == [info.pod for info in infos]
