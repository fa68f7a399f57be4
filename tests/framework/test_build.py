"""Building profiles: the errors of kube-scheduler v1.36 in their order, and the order of plugins."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.errors import InputError, MoorageError
from moorage.framework.build import PluginSet, ProfileConfig, build_profile, build_profiles, check_profiles
from moorage.framework.interface import BindPlugin, FilterPlugin, QueueSortPlugin, ScorePlugin
from moorage.framework.profile import Profile
from moorage.framework.registry import Registry
from moorage.plugins.registry import default_profile, in_tree_registry
from tests.framework.make import framework, make


class Sort(QueueSortPlugin):
    name = "Sort"


class OtherSort(QueueSortPlugin):
    name = "OtherSort"


class Bind(BindPlugin):
    name = "Bind"


class Both(FilterPlugin, ScorePlugin):
    name = "Both"


class Filters(FilterPlugin):
    name = "Filters"


class Scores(ScorePlugin):
    name = "Scores"


class Broken(FilterPlugin):
    name = "Broken"

    def __init__(self, *arguments: Any) -> None:
        raise ValueError("boom")


class Alias(ScorePlugin):
    name = "Original"


CLASSES = (Sort, OtherSort, Bind, Both, Filters, Scores, Broken)
REGISTRY = Registry({plugin.name: plugin for plugin in CLASSES} | {"Alias": Alias})


def listed(*names: str, disabled: tuple[str, ...] = (), **weights: int) -> PluginSet:
    return PluginSet(tuple((name, weights.get(name, 0)) for name in names), disabled)


def config(*names: str, plugin_config: Any = (), points: Any = None, **settings: Any) -> ProfileConfig:
    """A profile with a sorter, a binder and these plugins at MultiPoint."""
    everywhere = settings.pop("multi_point", listed("Sort", "Bind", *names))
    return ProfileConfig(multi_point=everywhere, points=points or {}, plugin_config=plugin_config, **settings)


def built(*names: str, **settings: Any) -> Profile:
    return build_profile(config(*names, **settings), REGISTRY)


def refusal(*names: str, **settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        built(*names, **settings)
    return str(caught.value)


# ---- errors ------------------------------------------------------------------------------------------------


def test_repeated_arguments_even_of_a_plugin_that_nobody_needs() -> None:
    assert refusal(plugin_config=(("X", {}), ("X", {}))) == "repeated config for plugin X"


def test_arguments_of_a_plugin_that_nobody_needs_are_ignored() -> None:
    built(plugin_config=(("X", {}),))


def test_a_factory_that_fails() -> None:
    assert refusal("Broken") == 'initializing plugin "Broken": boom'


def test_a_plugin_that_is_not_enabled_is_not_made() -> None:
    assert [plugin.name for plugin in built("Both").plugins] == ["Sort", "Bind", "Both"]


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ({"filter": listed("x")}, 'FilterPlugin "x" does not exist'),
        ({"filter": listed("Scores")}, 'plugin "Scores" does not extend FilterPlugin plugin'),
        ({"filter": listed("Both", "Both")}, 'plugin "Both" already registered as "FilterPlugin"'),
        ({"score": listed("x"), "preFilter": listed("y")}, 'PreFilterPlugin "y" does not exist'),
        ({"queueSort": listed("x"), "permit": listed("y")}, 'PermitPlugin "y" does not exist'),
    ],
)
def test_wrong_lists(points: dict[str, PluginSet], text: str) -> None:
    assert refusal(points=points) == text


def test_wrong_names_at_multi_point() -> None:
    assert refusal("x") == 'PreFilterPlugin "x" does not exist'
    assert refusal("Both", "Both") == 'plugin "Both" already registered as "FilterPlugin"'


def test_one_sorter_and_a_binder() -> None:
    text = 'only one queue sort plugin required for profile with scheduler name "s", but got {}'
    assert refusal(multi_point=listed("Bind"), scheduler_name="s") == text.format(0)
    assert refusal("OtherSort", scheduler_name="s") == text.format(2)
    text = 'at least one bind plugin is needed for profile with scheduler name "s"'
    assert refusal(multi_point=listed("Sort"), scheduler_name="s") == text


def test_weights_that_overflow() -> None:
    text = "score plugins: total score of Score plugins could overflow"
    most = (2**63 - 1) // 100
    built("Scores", "Both", points={"score": listed("Scores", Scores=most - 1)})
    assert refusal("Scores", "Both", points={"score": listed("Scores", Scores=most)}) == text


def test_a_plugin_registered_under_another_name_has_no_weight() -> None:
    assert refusal("Alias") == 'score plugin "Original" is not configured with weight'


def test_errors_come_in_order() -> None:
    wrong = {"points": {"filter": listed("x")}, "multi_point": listed("Broken")}
    assert refusal(plugin_config=(("X", {}), ("X", {})), **wrong) == "repeated config for plugin X"
    assert refusal(**wrong) == 'initializing plugin "Broken": boom'


# ---- what is built -----------------------------------------------------------------------------------------


def test_order_at_a_point() -> None:
    one, two, three = (make(FilterPlugin, name) for name in "ABC")
    registry = REGISTRY | {plugin.name: (lambda args, handle, p=plugin: p) for plugin in (one, two, three)}
    made = build_profile(config("A", "Both", "B", points={"filter": listed("C", "B")}), Registry(registry))
    assert made.filter_plugins == ["B", "A", "Both", "C"]


def test_names_disabled_at_a_point_stay_away_from_it() -> None:
    made = built("Both", "Filters", points={"filter": PluginSet(disabled=("Both",))})
    assert (made.filter_plugins, made.score_plugins) == (["Filters"], ["Both"])
    made = built("Both", "Filters", points={"filter": listed("Filters", disabled=("*",))})
    assert made.filter_plugins == ["Filters"]


def test_weights() -> None:
    made = built(
        multi_point=listed("Sort", "Bind", "Both", "Scores", Both=5, Scores=7),
        points={"score": listed("Scores", Scores=3)},
    )
    assert made.weights == {"Scores": 3, "Both": 5}
    assert built("Both").weights == {"Both": 1}


def test_arguments_reach_the_plugin() -> None:
    made = built("Both", plugin_config=(("Both", {"x": 1}),))
    assert next(plugin for plugin in made.plugins if plugin.name == "Both").args == {"x": 1}


def test_the_default_profile_by_names() -> None:
    weights = {plugin.name: plugin.default_weight for plugin in default_profile().plugins}
    made = build_profile(ProfileConfig(multi_point=listed(*weights, **weights)), in_tree_registry())
    expected = default_profile()
    assert made.weights == expected.weights
    assert made.is_in_core
    for point in ("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score"):
        assert [p.name for p in made.at(point)] == [p.name for p in expected.at(point)]


def test_points_of_a_profile_are_exactly_those_given() -> None:
    made = Profile((Both(), Filters()), points={"filter": ["Filters", "Both"]})
    assert (made.filter_plugins, made.score_plugins) == (["Filters", "Both"], [])


@pytest.mark.parametrize(
    ("plugins", "points", "text"),
    [
        ((Both(),), {"filter": ["x"]}, 'FilterPlugin "x" does not exist'),
        ((Scores(),), {"filter": ["Scores"]}, 'plugin "Scores" does not extend FilterPlugin plugin'),
        ((Both(), Both()), None, 'plugin "Both" already registered as "FilterPlugin"'),
        ((Both(),), {"filters": ["Both"]}, "unknown extension point filters"),
        ((FilterPlugin(),), None, "plugin class FilterPlugin has no name"),
    ],
)
def test_wrong_profiles(plugins: Any, points: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        Profile(plugins, points=points)
    assert str(caught.value) == text


# ---- several profiles --------------------------------------------------------------------------------------


def together(*configs: ProfileConfig) -> str:
    with pytest.raises(InputError) as caught:
        build_profiles(configs, REGISTRY)
    return str(caught.value)


def test_profiles_must_agree() -> None:
    one = config(scheduler_name="one")
    other = ProfileConfig("two", multi_point=listed("OtherSort", "Bind"))
    args = config(scheduler_name="two", plugin_config=(("Sort", {"x": 1}),))
    assert together() == "at least one profile is required"
    assert together(one, config(scheduler_name="")) == "scheduler name is needed"
    assert together(one, one) == 'duplicate profile with scheduler name "one"'
    text = 'different queue sort plugins for profile "two": "OtherSort", first: "Sort"'
    assert together(one, other) == text
    assert together(one, args) == 'different queue sort plugin args for profile "two"'
    assert together(config("x", scheduler_name="s")) == (
        'creating profile for scheduler name s: PreFilterPlugin "x" does not exist'
    )
    with pytest.raises(InputError, match=r'^plugins required for profile with scheduler name "s"$'):
        check_profiles([Profile((), scheduler_name="s")])
    assert len(build_profiles([one, config(scheduler_name="two")], REGISTRY)) == 2


# ---- the framework -----------------------------------------------------------------------------------------


def test_closing_asks_everybody_and_joins_what_failed() -> None:
    closed: list[str] = []
    plugins = [
        make(FilterPlugin, "A", close=ValueError("one")),
        make(FilterPlugin, "B", close=lambda self: closed.append("B")),
        make(FilterPlugin, "C", close=KeyError("two")),
    ]
    with pytest.raises(MoorageError) as caught:
        framework(*plugins).close()
    assert str(caught.value) == "A failed to close: one\nC failed to close: 'two'"
    assert closed == ["B"]
    framework(make(FilterPlugin, "D")).close()


def test_a_framework_without_a_sorter_has_no_order() -> None:
    with pytest.raises(MoorageError, match=r"^No QueueSort plugin is registered in the frameworkImpl\.$"):
        framework().queue_sort_func()


def test_plugins_are_handed_the_handle() -> None:
    plugin = make(FilterPlugin, "A")
    one = framework(plugin)
    assert plugin.handle is one.handle
    assert one.handle.framework is one
