"""A plugin with a misspelt method, or without one, is refused when its profile is made."""

from __future__ import annotations

from typing import Any

import pytest

import moorage as mo


def answer(*given: Any) -> None:
    """Any method of a plugin."""


@pytest.mark.parametrize(
    ("bases", "methods", "named"),
    [
        ((mo.ScorePlugin,), ["scoreall"], ("scoreall", "score_all")),
        ((mo.ScorePlugin,), ["Score"], ("Score", "score")),
        ((mo.ScorePlugin,), ["scor_all"], ("scor_all", "score_all")),
        ((mo.ScorePlugin,), ["score", "NormalizeScore"], ("NormalizeScore", "normalize_score")),
        ((mo.FilterPlugin, mo.PreFilterPlugin), ["filter", "prefilter"], ("prefilter", "pre_filter")),
        ((mo.PermitPlugin,), ["permits"], ("permits", "permit")),
        ((mo.FilterPlugin,), ["filtr"], ("filtr", "filter")),
        ((mo.ScorePlugin,), ["scores"], ("scores", "score")),
        (
            (mo.EnqueueExtensions, mo.FilterPlugin),
            ["filter", "eventsToRegister"],
            ("eventsToRegister", "events_to_register"),
        ),
        ((mo.FilterPlugin,), ["filter", "events_to_register"], ("events_to_register", mo.EnqueueExtensions)),
        ((mo.FilterPlugin,), ["filter_all", "score"], ("score", mo.ScorePlugin)),
        ((mo.RowPlugin, mo.FilterPlugin), ["filter_row"], ("filter_row", "filter_rows")),
        ((mo.RowPlugin, mo.FilterPlugin), ["filter_rows", "score_rows"], ("score_rows", mo.ScorePlugin)),
        (
            (mo.RowPlugin, mo.ScorePlugin),
            ["score_rows", "NormalizeRows"],
            ("NormalizeRows", "normalize_rows"),
        ),
    ],
)
def test_a_misspelt_method_is_named_with_the_right_one(
    bases: tuple[type, ...], methods: list[str], named: tuple[str, str | type]
) -> None:
    plugin = type("Mine", bases, {"name": "Mine", **dict.fromkeys(methods, answer)})()
    name, meant = named
    meant = f"did you mean {meant}?" if isinstance(meant, str) else f"it must extend {meant.__name__}"
    text = f"plugin Mine has a method {name}, which nobody calls; {meant}"
    with pytest.raises(mo.InputError) as caught:
        mo.Profile((*mo.default_profile().plugins, plugin))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("bases", "methods", "missing"),
    [
        ((mo.FilterPlugin,), [], "filter or filter_all, which FilterPlugin"),
        ((mo.FilterPlugin, mo.ScorePlugin), ["filter"], "score or score_all, which ScorePlugin"),
        ((mo.RowPlugin, mo.ScorePlugin), ["begin", "score"], "score_rows, which ScorePlugin"),
    ],
)
def test_a_method_that_is_missing_is_named(bases: tuple[type, ...], methods: list[str], missing: str) -> None:
    plugin = type("Mine", bases, {"name": "Mine", **dict.fromkeys(methods, answer)})()
    with pytest.raises(mo.InputError, match=f"^plugin Mine has no method {missing} needs$"):
        mo.Profile((*mo.default_profile().plugins, plugin))


@pytest.mark.parametrize(
    ("bases", "methods"),
    [
        ((mo.ScorePlugin,), ["score", "scores", "score_of_zone"]),
        ((mo.FilterPlugin,), ["filter_all", "filters", "_filter"]),
        ((mo.FilterPlugin,), ["filter", "begin", "follow", "reasons", "clone"]),
        ((mo.FilterPlugin, mo.ScorePlugin), ["filter", "score_all", "read"]),
        ((mo.RowPlugin, mo.FilterPlugin), ["filter_rows", "begin"]),
    ],
)
def test_other_methods_are_a_plugin_s_own_business(bases: tuple[type, ...], methods: list[str]) -> None:
    plugin = type("Mine", bases, {"name": "Mine", **dict.fromkeys(methods, answer)})()
    assert "Mine" in mo.Profile((*mo.default_profile().plugins, plugin)).names


@pytest.mark.parametrize(
    ("given", "text"), [(mo.FilterPlugin, "the class FilterPlugin"), (3, "3")], ids=["a class", "a number"]
)
def test_what_is_no_plugin_is_named(given: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"^a profile takes objects of plugin classes, not {text}$"):
        mo.Profile((*mo.default_profile().plugins, given))
