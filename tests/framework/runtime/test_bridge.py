"""The bridge from the search to plugins outside the core, by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.doors.engine import REASONS, VERDICT_SHIFT, SearchCalls
from tests.doors.engine import UNRESOLVABLE as UNRESOLVABLE_BIT
from tests.framework.make import ERROR, SKIPPED, UNRESOLVABLE, UNSCHEDULABLE, framework, make, status
from tests.make import node, pod

from moorage.engine.framework import (
    Answers,
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    StatusError,
)

ROWS = np.array([2, 0, 1], dtype=np.int32)


def bridge(*plugins: Any) -> SearchCalls:
    one = SearchCalls(framework(*plugins, nodes=[node(name) for name in "abc"]))
    one.begin(CycleState(), pod("p"))
    return one


def node_info() -> Any:
    return framework(nodes=[node("a")]).all_nodes().node_info(0)


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


def in_words(*numbers: Any, words: Any = None) -> Any:
    """A filter that answers with three statuses of its own, or others."""
    known = (None, status(UNSCHEDULABLE, "x"), status(UNRESOLVABLE, "y", "z")) if words is None else words
    return make(FilterPlugin, "F", filter_all=lambda *asked: Answers(np.array(numbers), known))


@pytest.mark.parametrize("each", [True, False])
def test_no_row_is_asked_twice_if_one_fails(each: bool) -> None:
    """The search asks again about the rows of a block that fails, one after the other."""
    asked: list[str] = []
    answers = {"c": None, "a": status(ERROR, "boom"), "b": None}

    def filter(self: Any, state: Any, pod: Any, info: Any) -> Any:
        asked.append(info.name)
        return answers[info.name]

    def filter_all(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
        asked.extend(nodes.names)
        return Answers(np.arange(len(nodes)), [answers[name] for name in nodes.names])

    plugin = make(FilterPlugin, "F", **({"filter": filter} if each else {"filter_all": filter_all}))
    one = bridge(plugin)
    for rows in (ROWS, ROWS[1:2]):
        with pytest.raises(StatusError, match=r'^running "F" filter plugin: boom$'):
            one.filter(plugin, rows)
    assert one.filter(plugin, ROWS[:1]).tolist() == [0]
    assert asked == (["c", "a"] if each else ["c", "a", "b"])


def test_answers_in_words_of_its_own() -> None:
    plugin = in_words(2, 0, 1)
    one = bridge(plugin)
    codes = one.filter(plugin, ROWS)
    assert (codes.tolist(), codes.dtype) == ([3, 0, 2], np.uint8)
    assert [one.status("F", row) for row in range(3)] == [
        None,
        status(UNSCHEDULABLE, "x").with_plugin("F"),
        status(UNRESOLVABLE, "y", "z").with_plugin("F"),
    ]
    assert in_words(2).filter(CycleState(), pod("p"), node_info()) == status(UNRESOLVABLE, "y", "z")


def test_words_of_another_type() -> None:
    plugin = in_words(0, 1, 0, words=(None, "no"))
    with pytest.raises(StatusError, match='plugin "F" answered str, not a Status'):
        bridge(plugin).filter(plugin, ROWS)


def test_words_of_one_block_after_the_other() -> None:
    said = iter([("x", "y"), ("y", "z")])

    def filter_all(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
        return Answers(np.arange(len(nodes)), [status(UNSCHEDULABLE, text) for text in next(said)])

    plugin = make(FilterPlugin, "F", filter_all=filter_all)
    one = SearchCalls(framework(plugin, nodes=[node(name) for name in "abcd"]))
    one.begin(CycleState(), pod("p"))
    rows = np.arange(4, dtype=np.int32)
    assert [*one.filter(plugin, rows[:2]), *one.filter(plugin, rows[2:])] == [2, 2, 2, 2]
    verdicts = np.full(4, 1 << VERDICT_SHIFT, dtype=np.uint64)
    assert [one.reasons for one in one.number_statuses(rows, verdicts)] == [("x",), ("y",), ("z",)]
    assert [int(verdict) & REASONS for verdict in verdicts] == [0, 1, 1, 2]


def test_words_that_change_in_place() -> None:
    """A plugin that fills one list as it goes, or puts another reason into it."""
    words: list[Any] = [None]
    plugin = make(
        FilterPlugin, "F", filter_all=lambda *asked: Answers(np.array([0, len(words) - 1, 0]), words)
    )
    one = bridge(plugin)
    assert one.filter(plugin, ROWS).tolist() == [0, 0, 0]
    for reason in ("x", "y"):
        words[1:] = [status(UNSCHEDULABLE, reason)]
        one.begin(CycleState(), pod("p"))
        assert one.filter(plugin, ROWS).tolist() == [0, 2, 0]
        assert one.status("F", int(ROWS[1])) == status(UNSCHEDULABLE, reason).with_plugin("F")
    words.append(status(ERROR, "boom"))
    one.begin(CycleState(), pod("p"))
    with pytest.raises(StatusError, match="boom"):
        one.filter(plugin, ROWS)


def test_an_error_counts_where_a_node_has_it() -> None:
    failing = status(ERROR, "boom"), None, status(UNSCHEDULABLE, "x")
    plugin = in_words(1, 2, 1, words=failing)
    assert bridge(plugin).filter(plugin, ROWS).tolist() == [0, 2, 0]
    plugin = in_words(1, 2, 0, words=failing)
    with pytest.raises(StatusError, match=r'^running "F" filter plugin: boom$'):
        bridge(plugin).filter(plugin, ROWS)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ([0, 1], r"answered shape \(2,\) for 3 nodes"),
        ([0, 1, 3], "answered numbers of no status"),
        ([0, 1, -1], "answered numbers of no status"),
        ([0.0, 1.0, 1.0], "answered numbers of no status"),
    ],
)
def test_numbers_must_be_places_of_statuses(numbers: list[Any], why: str) -> None:
    plugin = in_words(*numbers)
    with pytest.raises(StatusError, match=why):
        bridge(plugin).filter(plugin, ROWS)


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


def test_a_row_is_asked_again_with_nominated_pods() -> None:
    added: list[str] = []

    class Extensions:
        def add_pod(self, state: Any, pod: Any, pod_to_add: Any, node_info: Any) -> None:
            added.append(pod_to_add.name)
            state.write("added", len(added))

    class Counts(PreFilterPlugin, FilterPlugin):
        name = "C"

        def pre_filter(self, state: Any, pod: Any, nodes: Any) -> None:
            return None

        def pre_filter_extensions(self) -> Any:
            return Extensions()

        def filter(self, state: Any, pod: Any, node_info: Any) -> Any:
            return status(UNSCHEDULABLE, f"{state.read('added')} more") if state.read("added") else None

    plugin, state = Counts(), CycleState()
    one = bridge(plugin)
    state.write("added", 0)
    one.begin(state, pod("p"))
    one.set_nominated_pods(1, [pod("m"), pod("n")])
    assert one.filter(plugin, ROWS[2:]).tolist() == [2]
    one.set_nominated_pods(1, None)
    assert added == ["m", "n"]
    assert one.filter(plugin, ROWS).tolist() == [0, 0, 0]
    rejection = one.status("C", 1)
    assert rejection is not None
    assert rejection.reasons == ("2 more",)  # why the row fails, though alone it passes
    one.begin(state, pod("q"))
    one.set_nominated_pods(1, None)  # where taking the pods up failed, they are taken off all the same
    one.filter(plugin, ROWS)
    assert one.status("C", 1) is None


def test_statuses_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np, "unique")  # its first call imports numpy.ma: 15 ms of the first pod that fails
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
        status(UNSCHEDULABLE, "x").with_plugin("F"),
        status(UNSCHEDULABLE, "y").with_plugin("G"),
    )
    assert [int(verdict) & REASONS for verdict in verdicts] == [1, 0, 0]
    assert [int(verdict) >> VERDICT_SHIFT for verdict in verdicts] == [2, 1, 0]


def test_a_plugin_is_one_external_at_filter_and_at_score() -> None:
    class Both(FilterPlugin, ScorePlugin):
        name = "B"

    plugin = Both()
    one = bridge(plugin)
    assert one.external(plugin) is one.external(plugin)
    assert one.external(plugin).name == "B"
