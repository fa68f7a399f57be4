"""Replays of openb's list: creations and deletions per second, the history included."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

from moorage import Timeline, replay

DATA = Path(__file__).parents[2] / "tests/data/openb"
EVENTS = 1_000_000


def test_replay(benchmark: Any, report: Any) -> None:
    """The excerpt many times, one after another, up to a million creations and deletions."""
    openb = Timeline.read(DATA / "nodes.csv", DATA / "pods.csv")
    timeline = openb.repeat(EVENTS // len(openb), every=openb.end + 1)
    report("`mo.replay`, openb's list repeated to a million events, per event", len(timeline))
    history = benchmark.pedantic(replay, args=(timeline,), rounds=2)
    assert history.summary()["placed"] > 0.49 * len(timeline)
    benchmark.extra_info["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
