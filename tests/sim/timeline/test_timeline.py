"""Timelines: events in the order of time, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import moorage as mo
from moorage import Timeline, bursts, diurnal, exponential, lognormal, poisson
from moorage.kube import Pod
from moorage.sim.timeline import Event, Verb
from tests.doors.kube import parse_duration

CLUSTER = mo.synthetic(nodes=3, pods=2)
POD: Pod = CLUSTER.pods[0]


def test_events_are_in_the_order_of_time_and_then_of_addition() -> None:
    timeline = Timeline()
    timeline.create(5, POD, "b")
    timeline.delete(5, "pod/a")
    timeline.scale(2, "deploy/prod/web", 3)
    timeline.drain(5, "pool=gpu")
    assert [(e.time, e.verb, e.subject, e.argument) for e in timeline if e.verb is not Verb.CREATE] == [
        (2, Verb.SCALE, "deploy/prod/web", 3),
        (5, Verb.DELETE, "pod/a", None),
        (5, Verb.DRAIN, "pool=gpu", None),
    ]
    assert timeline.event(1)[1:3] == (Verb.CREATE, "pod/default/b")
    assert (len(timeline), timeline.end) == (4, 5.0)


def test_pods_of_a_template_share_it_and_die() -> None:
    timeline = Timeline()
    timeline.add_pods(POD, [1, 2, 4], [10, np.inf, 1], "web")
    timeline.add_pods(POD, [3], name="web")
    assert [event[:3] for event in timeline] == [
        (1, Verb.CREATE, "pod/default/web-0"),
        (2, Verb.CREATE, "pod/default/web-1"),
        (3, Verb.CREATE, "pod/default/web-3"),
        (4, Verb.CREATE, "pod/default/web-2"),
        (5, Verb.DELETE, "pod/default/web-2"),
        (11, Verb.DELETE, "pod/default/web-0"),
    ]
    assert len(timeline.arguments) == 1


def test_repetitions_have_names_of_their_own() -> None:
    timeline = Timeline(CLUSTER)
    timeline.create(1, POD, "a")
    timeline.delete(3, "pod/a")
    together, apart = timeline.repeat(2), timeline.repeat(2, every=10)
    assert [event[:3] for event in together] == [
        (1, Verb.CREATE, "pod/default/a-0"),
        (1, Verb.CREATE, "pod/default/a-1"),
        (3, Verb.DELETE, "pod/default/a-0"),
        (3, Verb.DELETE, "pod/default/a-1"),
    ]
    assert [(e.time, e.subject[-3:]) for e in apart] == [(1, "a-0"), (3, "a-0"), (11, "a-1"), (13, "a-1")]
    assert together.cluster is CLUSTER
    with pytest.raises(mo.InputError, match="names of their own"):
        together.repeat(2)
    timeline.drain(3, "n")
    with pytest.raises(mo.InputError, match="names of their own"):
        timeline.repeat(2)


def test_a_window_keeps_times() -> None:
    timeline = Timeline()
    timeline.add_pods(POD, range(10), name="a")
    assert [event.time for event in timeline.window(2, 5)] == [2, 3, 4]


def test_columns_that_somebody_holds_stay_as_they_are() -> None:
    timeline = Timeline()
    timeline.create(1, POD, "a")
    held = timeline.columns()["time"]
    timeline.create(2, POD, "b")
    timeline.add_pods(POD, [3])
    assert (held.tolist(), timeline.columns()["time"].tolist()) == ([1], [1, 2, 3])


def test_a_timeline_becomes_a_table_and_events() -> None:
    timeline = Timeline(CLUSTER)
    timeline.create(1, POD, "a")
    assert timeline.to_dict() == {"time": [1.0], "verb": ["create"], "subject": ["pod/default/a"]}
    assert timeline.to_pandas().shape == (1, 3)
    assert repr(timeline).startswith("1 events in 1 s, 3 nodes at the start")
    assert isinstance(timeline.event(0), Event)


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda t: t.create(-1, POD), "time: must be a number of seconds of at least 0, not -1"),
        (
            lambda t: t.create(1, POD, "A_b"),
            'Pod default/A_b: metadata.name: Invalid value: "A_b"',
        ),
        (
            lambda t: t.create(1, Pod(spec=POD.spec)),
            "Pod: metadata.name: required",
        ),
        (lambda t: t.delete(1, "a/b/c/d"), "is not a reference such as"),
        (lambda t: t.add_pods(POD, [1, 2], [1]), "lifetimes: must be as many as there are times"),
        (lambda t: t.add_pods(POD, [1, -2]), "times: must be numbers of seconds of at least 0"),
        (lambda t: Timeline.read(), "give at least one file"),
        (lambda t: Timeline.read("x", format="y"), 'there is no format "y"; known are'),
        (lambda t: Timeline.read("x.yaml", format="scenario", a=1), 'has no option "a"; it has none'),
    ],
)
def test_bad_events_are_refused(add: Any, message: str) -> None:
    timeline = Timeline()
    with pytest.raises(mo.InputError) as error:
        add(timeline)
    assert message in str(error.value)
    assert len(timeline) == 0


# ---- arrivals ----------------------------------------------------------------------------------------------


def test_poisson_arrivals_have_the_rate() -> None:
    times = poisson(5, 2000, start=1000, seed=3)
    assert len(times) == pytest.approx(5000, rel=0.05)
    assert times.min() >= 1000
    assert times.max() < 2000
    assert (np.diff(times) >= 0).all()
    # The variance of the counts of a Poisson process is their mean.
    counts = np.histogram(times, 200)[0]
    assert counts.var() == pytest.approx(counts.mean(), rel=0.35)
    assert (poisson(5, 2000, start=1000, seed=3) == times).all()
    assert len(poisson(5, 2000, start=1000, seed=4)) != len(times)


def test_bursts_come_together() -> None:
    assert bursts(2, 10, 25).tolist() == [0, 0, 10, 10, 20, 20]
    spread = bursts(3, 10, 25, spread=4, seed=1)
    assert (spread % 10 < 4).all()
    assert len(set(spread.tolist())) == 9


def test_diurnal_arrivals_follow_the_day() -> None:
    times = diurnal(0.1, 10 * 86400, amplitude=0.8, seed=2)
    hours = np.histogram(times % 86400, 24, (0, 86400))[0] / 10
    assert len(times) == pytest.approx(86400, rel=0.02)
    expected = 360 * (1 + 0.8 * np.cos(2 * np.pi * (np.arange(24) + 0.5 - 14) / 24))
    assert hours == pytest.approx(expected, rel=0.25)


def test_lifetimes_follow_their_distribution() -> None:
    assert exponential(60, 20000, seed=1).mean() == pytest.approx(60, rel=0.05)
    spans = lognormal(60, 1.5, 20000, seed=1)
    assert np.median(spans) == pytest.approx(60, rel=0.05)
    assert np.log(spans).std() == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: poisson(0, 10), "the rate must be positive"),
        (lambda: poisson(1e9, 10), "more than 100000000 arrivals"),
        (lambda: poisson(1, 10, start=20), "must not be before the start"),
        (lambda: bursts(-1, 1, 1), "must not be negative"),
        (lambda: diurnal(1, 1, amplitude=2), "amplitude must be between 0 and 1"),
        (lambda: exponential(-1, 1), "mean and count"),
        (lambda: lognormal(0, 1, 1), "median must be positive"),
    ],
)
def test_bad_distributions_are_refused(draw: Any, message: str) -> None:
    with pytest.raises(mo.InputError, match=message):
        draw()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), (1.5, 1.5), ("1h30m", 5400), ("500ms", 0.5), ("2d", 172800), (0, 0)]
)
def test_durations_are_read_in_seconds(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5x", "m5", "-5", "1h 30m", float("nan"), -1, "5m3"])
def test_a_bad_duration_is_refused(text: str | float) -> None:
    with pytest.raises(mo.InputError):
        parse_duration(text)
