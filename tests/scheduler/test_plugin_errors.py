"""Exceptions in plugins: reported once per plugin and kind, then counted; or raised by a scheduler that fails
fast."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.doors.engine import schedule_one
from tests.framework.make import make
from tests.make import node, pod
from tests.scheduler.make import scheduler_with

import moorage as mo
from moorage import default_profile
from moorage.engine.framework import ActionType, Answers, ClusterEvent, ClusterEventWithHint, Plugin
from moorage.errors import InputError, PluginError
from moorage.kube import Pod

ERROR = ValueError("no such shelf")
POINTS: list[Callable[[], Plugin]] = [
    lambda: make(mo.PreFilterPlugin, "Bad", pre_filter=ERROR),
    lambda: make(mo.FilterPlugin, "Bad", filter=ERROR),
    lambda: make(mo.FilterPlugin, "Bad", filter_all=ERROR),
    lambda: make(mo.PreScorePlugin, "Bad", pre_score=ERROR),
    lambda: make(mo.ScorePlugin, "Bad", score=ERROR),
    lambda: make(mo.ReservePlugin, "Bad", reserve=ERROR),
    lambda: make(mo.PermitPlugin, "Bad", permit=ERROR),
    lambda: make(mo.PreBindPlugin, "Bad", pre_bind=ERROR),
    lambda: make(mo.PostBindPlugin, "Bad", post_bind=ERROR),
]


def pods(n: int = 12) -> list[Pod]:
    return [pod(f"p{at}") for at in range(n)]


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """Messages of errors, and whether each came with a traceback."""
    return [(r.getMessage(), bool(r.exc_info)) for r in caplog.records if r.levelno >= logging.ERROR]


def test_an_exception_is_reported_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    one = scheduler_with(make(mo.ReservePlugin, "Bad", reserve=ERROR, unreserve=KeyError("x")), pods=pods())
    assert len(one.run().unschedulable) == 12
    assert logged(caplog) == [
        ('pod default/p0: plugin "Bad" raised ValueError: no such shelf', True),
        ("pod default/p0: plugin \"Bad\" raised KeyError: 'x'", True),
        ('plugin "Bad" raised ValueError 11 more times', False),
        ('plugin "Bad" raised KeyError 11 more times', False),
    ]
    assert one.plugin_errors == {("Bad", "ValueError"): 12, ("Bad", "KeyError"): 12}


@pytest.mark.parametrize(
    ("base", "method"),
    [
        (mo.PreEnqueuePlugin, "pre_enqueue"),
        (mo.FilterPlugin, "filter"),
        (mo.ReservePlugin, "reserve"),
        (mo.PermitPlugin, "permit"),
    ],
)
def test_an_answer_without_form_fails_its_pod_alone(base: type[Plugin], method: str) -> None:
    def answer(*asked: Any) -> Any:
        first = any(isinstance(each, Pod) and each.name == "p0" for each in asked)
        return mo.Status(mo.Code.UNSCHEDULABLE, None) if first else None  # type: ignore[arg-type]

    one = scheduler_with(make(base, "Bad", **{method: answer}), pods=pods(2))
    assert one.run().placements.keys() == {"default/p1"}
    assert one.plugin_errors.keys() == {("Bad", "TypeError")}


def test_a_search_that_ends_with_an_error_has_evaluated_no_node() -> None:
    one = scheduler_with(make(mo.FilterPlugin, "Bad", filter=ERROR), pods=pods(1))
    decision = schedule_one(one.context, one.pods.pending["default/p0"])
    assert (decision.node, decision.evaluated) == (None, 0)
    assert "no such shelf" in decision.error


def test_the_next_run_says_how_many_more_there_were(caplog: pytest.LogCaptureFixture) -> None:
    one = scheduler_with(make(mo.ReservePlugin, "Bad", reserve=ERROR), pods=pods(1))
    one.run()
    one.run()
    one.schedule_pods([pod("x"), pod("y")])
    assert logged(caplog) == [
        ('pod default/p0: plugin "Bad" raised ValueError: no such shelf', True),
        ('plugin "Bad" raised ValueError 1 more times', False),
        ('plugin "Bad" raised ValueError 2 more times', False),
    ]


def test_profiles_count_together(caplog: pytest.LogCaptureFixture) -> None:
    plugins = [make(mo.ReservePlugin, "Bad", reserve=ERROR) for _ in range(2)]
    profiles = [
        mo.Profile((*default_profile().plugins, plugin), scheduler_name=name)
        for plugin, name in zip(plugins, ("default-scheduler", "two"), strict=True)
    ]
    cluster = mo.Cluster(nodes=[node("a")], pods=[pod("p"), pod("q", scheduler_name="two")])
    one = mo.Scheduler(cluster, profiles=profiles)
    one.run()
    assert one.plugin_errors == {("Bad", "ValueError"): 2}
    assert [has_traceback for _, has_traceback in logged(caplog)] == [True, False]


def test_a_hint_that_raises_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(mo.FilterPlugin, mo.EnqueueExtensions):
        name = "Bad"

        def filter(self, state: Any, pod: Pod, node_info: Any) -> Any:
            return mo.Status(mo.Code.UNSCHEDULABLE, ("no",))

        def events_to_register(self) -> Any:
            def hint(pod: Pod, old: Any, new: Any) -> Any:
                raise ERROR

            event = ClusterEvent("Node", ActionType.ADD)
            return [ClusterEventWithHint(event, hint)]

    one = scheduler_with(Bad(), pods=pods(5))
    one.run()
    one.client.create(node("d"))
    one.sync()
    assert one.plugin_errors == {("Bad", "ValueError"): 5}
    assert logged(caplog) == [("pod default/p0: queueing hint of Bad: ValueError: no such shelf", True)]


@pytest.mark.parametrize("make_plugin", POINTS)
def test_failing_fast_raises(make_plugin: Callable[[], Plugin]) -> None:
    one = scheduler_with(make_plugin(), pods=pods(), fail_fast=True)
    with pytest.raises(ValueError, match=r"^no such shelf$"):
        one.run()


def in_words(self: Any, state: Any, pod: Pod, nodes: Any) -> Any:
    return Answers(np.zeros(len(nodes), np.intp), ["no"])  # type: ignore[list-item]


REFUSED: list[tuple[type[Plugin], str, Any, str]] = [
    (mo.ScorePlugin, "score_all", [1000] * 3, "returns an invalid score 1000"),
    (mo.ScorePlugin, "score_all", [1], r"scores of shape \(1,\) for 3 nodes"),
    (mo.ScorePlugin, "score_all", [1.5] * 3, "score 1.5 is not an integer"),
    (mo.FilterPlugin, "filter", True, 'plugin "Bad" answered bool, not a Status'),
    (mo.FilterPlugin, "filter_all", [True], r"answered shape \(1,\) for 3 nodes"),
    (mo.FilterPlugin, "filter_all", in_words, "answered str, not a Status"),
    (mo.ReservePlugin, "reserve", False, "answered bool, not a Status"),
    (mo.PermitPlugin, "permit", 5, "answered int, not a Status"),
]


@pytest.mark.parametrize(("base", "method", "answer", "text"), REFUSED)
def test_an_answer_that_is_refused_counts_as_an_exception(
    base: type[Plugin], method: str, answer: Any, text: str
) -> None:
    def plugin() -> Plugin:
        return make(base, "Bad", **{method: answer})

    with pytest.raises(PluginError, match=text):
        scheduler_with(plugin(), pods=pods(), fail_fast=True).run()
    one = scheduler_with(plugin(), pods=pods(2))
    one.run()
    assert one.plugin_errors == {("Bad", "PluginError"): 2}
    first = '^plugin "Bad" fails on every pod; first on pod default/p0: '
    with pytest.raises(PluginError, match=f"{first}.*{text}"):
        one.context.refuse_failing_plugins(["default-scheduler"] * (base is mo.ScorePlugin))


def test_a_plugin_that_fails_on_some_pods_is_not_refused() -> None:
    def first(self: Any, state: Any, pod: Pod, node_info: Any) -> None:
        if pod.name == "p0":
            raise ERROR

    one = scheduler_with(make(mo.FilterPlugin, "Bad", filter=first), pods=pods(2))
    one.run()
    one.context.refuse_failing_plugins(["default-scheduler"])
    with pytest.raises(PluginError, match=r'"Bad" fails on every pod; .*no such shelf'):
        one.context.refuse_failing_plugins(["another"])


def test_failing_fast_is_not_the_default() -> None:
    one = scheduler_with(make(mo.FilterPlugin, "Bad", filter=ERROR), pods=pods(2))
    assert {failure.error for failure in one.run().unschedulable.values()} == {
        'running "Bad" filter plugin: plugin "Bad" raised ValueError: no such shelf'
    }


def test_all_plugins_are_unreserved_where_one_fails_fast() -> None:
    seen = []
    first = make(mo.ReservePlugin, "First", unreserve=lambda self, *rest: seen.append("First"))
    bad = make(
        mo.ReservePlugin, "Bad", reserve=lambda *rest: mo.Status(mo.Code.UNSCHEDULABLE), unreserve=ERROR
    )
    one = scheduler_with(first, bad, pods=pods(1), fail_fast=True)
    with pytest.raises(ValueError, match=r"^no such shelf$"):
        one.run()
    assert seen == ["First"]


@pytest.mark.parametrize("events", [None, 5, ["x"], [None]])
def test_events_of_another_type_name_their_plugin(events: Any) -> None:
    class Bad(mo.FilterPlugin, mo.EnqueueExtensions):
        name, filter_all = "Bad", None

        def events_to_register(self) -> Any:
            return events

    text = f'plugin "Bad": events_to_register returned {events!r}, not a sequence of ClusterEventWithHint'
    with pytest.raises(InputError) as caught:
        scheduler_with(Bad())
    assert str(caught.value) == text
