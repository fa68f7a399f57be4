"""What each extension point makes of answers that it does not take, in the texts of kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from tests.framework.make import (
    ERROR,
    PENDING,
    SKIPPED,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    WAIT,
    framework,
    make,
    said,
    status,
)
from tests.make import pod

import moorage.engine.framework as fwk
from moorage.engine.framework import Code, CycleState, Status

POD = pod("p", on="a")
SCORES = 'running Score plugins: plugin "P" failed with: {}'
POINTS: dict[str, tuple[str, type[fwk.Plugin], Code, str, str]] = {
    "pre_filter": ("pre_filter_plugins", fwk.PreFilterPlugin, WAIT, 'running PreFilter plugin "P": {}', "P"),
    "filter": ("filter_plugins", fwk.FilterPlugin, SKIPPED, 'running "P" filter plugin: {}', "P"),
    "post_filter": ("post_filter_plugins", fwk.PostFilterPlugin, WAIT, "{}", "P"),
    "pre_score": ("pre_score_plugins", fwk.PreScorePlugin, WAIT, 'running PreScore plugin "P": {}', ""),
    "score": ("score_plugins", fwk.ScorePlugin, UNSCHEDULABLE, SCORES, ""),
    "score_all": ("score_plugins", fwk.ScorePlugin, UNSCHEDULABLE, SCORES, ""),
    "reserve": ("reserve_plugins_reserve", fwk.ReservePlugin, SKIPPED, 'running Reserve plugin "P": {}', ""),
    "permit": ("permit_plugins", fwk.PermitPlugin, SKIPPED, 'running Permit plugin "P": {}', "P"),
    "pre_bind_pre_flight": (
        "pre_bind_pre_flights",
        fwk.PreBindPlugin,
        ERROR,
        'running PreBindPreFlight "P": {}',
        "",
    ),
    "pre_bind": ("pre_bind_plugins", fwk.PreBindPlugin, WAIT, 'running PreBind plugin "P": {}', ""),
    "bind": ("bind_plugins", fwk.BindPlugin, WAIT, 'running Bind plugin "P": {}', ""),
}
"""By the method of a plugin: how it runs, its class, a code that is an error, its text and plugin."""


def answered(name: str, answer: Any) -> tuple[Code, str, str] | None:
    """What a point says where a plugin answers so; the plugin after it is not asked."""
    run, base, *_ = POINTS[name]
    plugins = [make(base, "P", **{name: answer}), make(base, "Q", **{name: AssertionError("not reached")})]
    one = framework(*plugins)
    nodes = one.all_nodes()
    asked = {"filter": [nodes.node_info(0)], "post_filter": [{}], "pre_filter": []}
    arguments = asked.get(name, [nodes] if "score" in name else ["a"])
    said_of = getattr(one, f"run_{run}")(CycleState(), POD, *arguments)
    if isinstance(said_of, tuple):
        said_of = next(each for each in said_of if isinstance(each, Status))
    return said(getattr(said_of, "rejection", said_of))


@pytest.mark.parametrize("name", POINTS)
def test_an_error_ends_the_point_with_its_text(name: str) -> None:
    _, _, code, told, plugin = POINTS[name]
    answers: list[tuple[Any, str]] = [
        (status(ERROR, "broken"), "broken"),
        (status(code), str(code)),
        (ValueError("boom"), 'plugin "P" raised ValueError: boom'),
    ]
    for answer, text in answers:
        given = (None, answer) if name == "post_filter" and isinstance(answer, Status) else answer
        assert answered(name, given) == (ERROR, told.format(text), plugin)


@pytest.mark.parametrize("code", [UNSCHEDULABLE, UNRESOLVABLE, PENDING])
@pytest.mark.parametrize("name", ["reserve", "permit", "pre_bind", "bind"])
def test_rejections_keep_their_code(name: str, code: Code) -> None:
    assert answered(name, status(code, "no")) == (code, "no", "P")


@pytest.mark.parametrize(
    ("name", "answer", "text"),
    [
        ("pre_filter", frozenset("a"), "frozenset, not a PreFilterResult or a Status"),
        ("filter", True, "bool, not a Status"),
        ("pre_score", 5, "int, not a Status"),
        ("reserve", False, "bool, not a Status"),
        ("pre_bind", "x", "str, not a Status"),
        ("bind", True, "bool, not a Status"),
        ("post_filter", status(UNSCHEDULABLE), "Status, not (PostFilterResult, Status)"),
        ("permit", ("yes", 5), "tuple, not (Status, seconds)"),
        ("permit", 5, "int, not a Status"),
        ("pre_bind_pre_flight", 7, "int, not a Status"),
        ("pre_bind_pre_flight", (7, None), "tuple, not (PreBindPreFlightResult, Status)"),
    ],
)
def test_answers_of_another_type(name: str, answer: Any, text: str) -> None:
    *_, told, plugin = POINTS[name]
    assert answered(name, answer) == (ERROR, told.format(f'plugin "P" answered {text}'), plugin)


def test_a_pre_flight_does_not_reject() -> None:
    text = 'PreBindPreFlight P returned "Unschedulable", which is unsupported. '
    text += "It is supposed to return Success, Skip, or Error status"
    assert answered("pre_bind_pre_flight", status(UNSCHEDULABLE, "no")) == (ERROR, text, "")
