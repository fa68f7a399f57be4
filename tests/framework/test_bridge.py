"""The bridge from the search to plugins outside the core, by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moorage._core.plan import REASONS, VERDICT_SHIFT
from moorage._core.plan import UNRESOLVABLE as UNRESOLVABLE_BIT
from moorage.framework.bridge import Bridge
from moorage.framework.call import StatusError
from moorage.framework.cycle_state import CycleState
from moorage.framework.interface import FilterPlugin, PreScorePlugin, ScorePlugin
from tests.core.make import node, pod
from tests.framework.make import SKIPPED, UNRESOLVABLE, UNSCHEDULABLE, framework, make, status

ROWS = np.array([2, 0, 1], dtype=np.int32)


def bridge(*plugins: Any) -> Bridge:
    one = Bridge(framework(*plugins, nodes=[node(name) for name in "abc"]))
    one.begin(CycleState(), pod("p"))
    return one


def by_name(**answers: Any) -> Any:
    return lambda self, state, pod, info: answers.get(info.name)


def test_codes_per_row() -> None:
    plugin = make(
        FilterPlugin, "F", filter=by_name(a=status(UNSCHEDULABLE, "x"), c=status(UNRESOLVABLE, "y"))
    )
    one = bridge(plugin)
    codes = one.filter(plugin, ROWS)
    assert (codes.tolist(), codes.dtype) == ([3, 2, 0], np.uint8)
    assert [one.status("F", row) for row in range(3)] == [
        status(UNSCHEDULABLE, "x").with_plugin("F"),
        None,
        status(UNRESOLVABLE, "y").with_plugin("F"),
    ]


def test_no_row_is_asked_twice_about_one_pod() -> None:
    asked: list[list[str]] = []

    def filter_all(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
        asked.append(nodes.names)
        return [True] * len(nodes)

    plugin = make(FilterPlugin, "F", filter_all=filter_all)
    one = bridge(plugin)
    for rows in (ROWS[:2], ROWS, ROWS):
        assert one.filter(plugin, rows).tolist() == [0] * len(rows)
    assert asked == [["c", "a"], ["b"]]
    one.begin(CycleState(), pod("q"))
    one.filter(plugin, ROWS)
    assert asked[2:] == [["c", "a", "b"]]


def test_a_filter_that_pre_filter_skips_passes_everything() -> None:
    plugin = make(FilterPlugin, "F", filter=AssertionError("not asked"))
    one, state = bridge(plugin), CycleState()
    state.skip_filter_plugins = {"F"}
    one.begin(state, pod("p"))
    assert one.filter(plugin, ROWS).tolist() == [0, 0, 0]


def test_errors_come_out() -> None:
    plugin = make(FilterPlugin, "F", filter=ValueError("boom"))
    with pytest.raises(StatusError, match=r'^running "F" filter plugin: plugin "F" raised ValueError: boom$'):
        bridge(plugin).filter(plugin, ROWS)


def test_pre_score_runs_once_before_the_first_score() -> None:
    log: list[str] = []

    def pre_score(self: Any, state: Any, pod: Any, nodes: Any) -> None:
        log.append(f"pre {' '.join(nodes.names)}")

    def score_all(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
        log.append(self.name)
        return np.arange(len(nodes))

    scorers = [make(ScorePlugin, name, score_all=score_all) for name in "ST"]
    one = bridge(make(PreScorePlugin, "P", pre_score=pre_score), *scorers)
    for plugin in scorers:
        scores = one.score(plugin, ROWS)
        assert (scores.tolist(), scores.dtype) == ([0, 1, 2], np.int64)
    assert log == ["pre c a b", "S", "T"]
    one.begin(CycleState(), pod("q"))
    one.pre_score(ROWS[:1])
    assert log[3:] == ["pre c"]


def test_a_score_that_pre_score_skips_is_zero() -> None:
    class Skips(PreScorePlugin, ScorePlugin):
        name = "S"

        def pre_score(self, state: Any, pod: Any, nodes: Any) -> Any:
            return status(SKIPPED)

    plugin = Skips()
    assert bridge(plugin).score(plugin, ROWS).tolist() == [0, 0, 0]


def test_normalizing_in_place_leaves_the_raw_scores() -> None:
    def normalize(self: Any, state: Any, pod: Any, scores: Any) -> Any:
        scores[:] = 1
        return scores

    plugin = make(ScorePlugin, "S", score_all=[5, 6, 7], normalize_score=normalize)
    raw, normalized = bridge(plugin).raw_and_normalized(plugin, ROWS)
    assert (raw.tolist(), normalized.tolist()) == ([5, 6, 7], [1, 1, 1])


def test_statuses_are_numbered() -> None:
    plugins = [
        make(FilterPlugin, "F", filter=by_name(a=status(UNSCHEDULABLE, "x"))),
        make(FilterPlugin, "G", filter=by_name(b=status(UNSCHEDULABLE, "x"), c=status(UNSCHEDULABLE, "y"))),
    ]
    one = bridge(*plugins)
    for plugin in plugins:
        one.filter(plugin, ROWS)
    verdicts = np.array(
        [2 << VERDICT_SHIFT | 1, 1 << VERDICT_SHIFT | UNRESOLVABLE_BIT | 1, 0], dtype=np.uint64
    )
    statuses = one.number_statuses(ROWS, verdicts)
    assert statuses == (
        status(UNSCHEDULABLE, "y").with_plugin("G"),
        status(UNSCHEDULABLE, "x").with_plugin("F"),
    )
    assert [int(verdict) & REASONS for verdict in verdicts] == [0, 1, 0]
    assert [int(verdict) >> VERDICT_SHIFT for verdict in verdicts] == [2, 1, 0]


def test_a_plugin_is_one_external_at_filter_and_at_score() -> None:
    class Both(FilterPlugin, ScorePlugin):
        name = "B"

    plugin = Both()
    one = bridge(plugin)
    assert one.external(plugin) is one.external(plugin)
    assert one.external(plugin).name == "B"
