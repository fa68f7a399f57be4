"""Building profiles from configurations and plugins, and what profiles refuse."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import (
    check_profiles,
    in_tree_registry,
    make_profiles,
    read_configuration,
)
from tests.framework.make import UNSCHEDULABLE, framework, make, status
from tests.make import configuration, node, pod

from moorage import Scheduler
from moorage.engine.framework import (
    BindPlugin,
    FilterPlugin,
    Plugin,
    Profile,
    QueueSortPlugin,
    Registry,
    ScorePlugin,
)
from moorage.errors import ConfigurationError, InputError, MoorageError
from moorage.kube import Cluster


class Sort(QueueSortPlugin):
    name = "Sort"


class OtherSort(QueueSortPlugin):
    name = "OtherSort"


class Bind(BindPlugin):
    name = "Bind"


class Both(FilterPlugin, ScorePlugin):
    name, filter_all, score_all = "Both", None, None  # which nobody calls here


class Filters(FilterPlugin):
    name, filter_all = "Filters", None


class Scores(ScorePlugin):
    name, score_all = "Scores", None


class Broken(FilterPlugin):
    name = "Broken"

    def __init__(self, *arguments: Any) -> None:
        raise ValueError("boom")


class Alias(ScorePlugin):
    name, score_all = "Original", None


REGISTRY = Registry(
    {plugin.name: plugin for plugin in (Sort, OtherSort, Bind, Both, Filters, Scores, Broken)}
    | {"Alias": Alias}
)


def names(profile: Profile, base: type[Plugin]) -> list[str]:
    return [plugin.name for plugin in profile.at(base)]


def profile(*names: str, name: str = "s", args: Any = None, **points: Any) -> dict[str, Any]:
    """A profile of a configuration with a sorter, a binder and these plugins at multiPoint only."""
    everywhere = {"disabled": [{"name": "*"}], "enabled": [{"name": n} for n in ("Sort", "Bind", *names)]}
    plugins = {"multiPoint": everywhere} | {
        point: {"enabled": [{"name": n, "weight": weight} for n, weight in listed.items()]}
        for point, listed in points.items()
    }
    given = [{"name": plugin, "args": value} for plugin, value in (args or {}).items()]
    return {"schedulerName": name, "plugins": plugins, "pluginConfig": given}


def built(*profiles: dict[str, Any], handles: Any = ()) -> list[Profile]:
    read = read_configuration(configuration(profiles=list(profiles)))
    return make_profiles(read, Registry(in_tree_registry() | REGISTRY), handles)


def refusal(*profiles: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        built(*profiles)
    return str(caught.value)


# ---- from a configuration ----------------------------------------------------------------------------------


def test_plugins_that_no_list_enables_are_not_made() -> None:
    made = built(profile("Both"))[0]
    assert [plugin.name for plugin in made.plugins] == ["Sort", "Bind", "Both"]
    assert made.scheduler_name == "s"
    assert names(made, FilterPlugin) == names(made, ScorePlugin) == ["Both"]


def test_a_factory_that_fails() -> None:
    head = "initializing profiles: creating profile for scheduler name s: "
    assert refusal(profile("Broken")).endswith(f'{head}initializing plugin "Broken": boom')


def test_weights_of_plugins_that_do_not_score_here() -> None:
    point = {"disabled": [{"name": "Scores"}]}
    given = profile("Both", "Scores")
    given["plugins"]["score"] = point
    given["plugins"]["multiPoint"]["enabled"][-1]["weight"] = 3
    assert built(given)[0].weight_overrides == {"Both": 1, "Scores": 3}  # as kube-scheduler lists them


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ({"weight_overrides": {"x": 5}}, '^ScorePlugin "x" does not exist$'),
        ({"weight_overrides": {"Filters": 5}}, '^plugin "Filters" does not extend ScorePlugin plugin$'),
        ({"placement_weights": {"x": 1}}, '^PlacementScorePlugin "x" does not exist$'),
    ],
)
def test_weights_of_other_plugins(weights: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        Profile((Both(), Filters()), **weights)


def test_a_plugin_registered_under_another_name_has_no_weight() -> None:
    assert refusal(profile("Alias")).endswith('score plugin "Original" is not configured with weight')


def test_arguments_and_handles_reach_the_plugins() -> None:
    handles = [framework().handle, framework().handle]
    first, second = built(
        profile("Both", name="one", args={"Both": {"x": 1}}), profile("Both", name="two"), handles=handles
    )
    assert [plugin.args for plugin in (first.plugins[-1], second.plugins[-1])] == [{"x": 1}, {}]
    assert [plugin.handle for plugin in (first.plugins[-1], second.plugins[-1])] == handles
    assert first.plugins[-1] is not second.plugins[-1]


def test_a_scheduler_takes_plugins_that_its_configuration_names() -> None:
    class NotA(FilterPlugin):
        name = "NotA"

        def filter(self, state: Any, pod: Any, node_info: Any) -> Any:
            forbidden = self.args["node"] == node_info.name
            return status(UNSCHEDULABLE, f"not {node_info.name}") if forbidden else None

    wanted = {
        "plugins": {"multiPoint": {"enabled": [{"name": "NotA"}]}},
        "pluginConfig": [{"name": "NotA", "args": {"node": "a"}}],
    }
    cluster = Cluster(nodes=[node("a"), node("b")], pods=[pod("p")])
    one = Scheduler(cluster, config=configuration(profiles=[wanted]), registry=Registry(NotA=NotA))
    assert one.run().placements == {"default/p": "b"}
    assert "NodeResourcesFit" in names(one.profile, FilterPlugin)


# ---- profiles ----------------------------------------------------------------------------------------------


def test_points_of_a_profile_are_exactly_those_given() -> None:
    made = Profile((Both(), Filters()), points={"filter": ["Filters", "Both"]})
    assert (names(made, FilterPlugin), names(made, ScorePlugin)) == (["Filters", "Both"], [])


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
def test_a_profile_of_wrong_plugins_is_refused(plugins: Any, points: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        Profile(plugins, points=points)
    assert str(caught.value) == text


# ---- several profiles --------------------------------------------------------------------------------------


def together(*profiles: Profile) -> str:
    with pytest.raises(InputError) as caught:
        check_profiles(profiles)
    return str(caught.value)


def test_a_configuration_without_profiles_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^at least one profile is required$"):
        Scheduler(Cluster(nodes=[node("a")]), config=type(read_configuration(configuration()))())


def test_profiles_must_agree() -> None:
    one, two = Profile((Sort(),), scheduler_name="one"), Profile((Sort(),), scheduler_name="two")
    other = Profile((OtherSort(),), scheduler_name="two")
    args = Profile((Sort({"x": 1}),), scheduler_name="two")
    assert together() == "at least one profile is required"
    for wrong in (Profile, Profile((Both(),)), [Profile], "profile", [(Both(),)]):
        with pytest.raises(TypeError, match=r"^profiles are a sequence of Profile, not "):
            check_profiles(wrong)  # type: ignore[arg-type]
    assert together(one, Profile((Sort(),), scheduler_name="")) == "scheduler name is needed"
    assert together(Profile((), scheduler_name="s")) == (
        'plugins required for profile with scheduler name "s"'
    )
    assert together(one, one) == 'duplicate profile with scheduler name "one"'
    text = 'different queue sort plugins for profile "two": "OtherSort", first: "Sort"'
    assert together(one, other) == text
    assert together(one, args) == 'different queue sort plugin args for profile "two"'
    assert check_profiles([one, two]) == [one, two]


# ---- the framework -----------------------------------------------------------------------------------------


def test_closing_asks_everybody_and_joins_what_failed() -> None:
    closed: list[str] = []
    plugins = [
        make(FilterPlugin, "A", filter_all=None, close=ValueError("one")),
        make(FilterPlugin, "B", filter_all=None, close=lambda self: closed.append("B")),
        make(FilterPlugin, "C", filter_all=None, close=KeyError("two")),
    ]
    with pytest.raises(MoorageError) as caught:
        framework(*plugins).close()
    assert str(caught.value) == "A failed to close: one\nC failed to close: 'two'"
    assert closed == ["B"]
    framework(make(FilterPlugin, "D", filter_all=None)).close()


def test_a_framework_without_a_sorter_has_no_order() -> None:
    with pytest.raises(MoorageError, match=r"^No QueueSort plugin is registered in the frameworkImpl\.$"):
        framework().queue_sort_func()


def test_plugins_are_handed_the_handle() -> None:
    plugin = make(FilterPlugin, "A", filter_all=None)
    one = framework(plugin)
    assert plugin.handle is one.handle
    assert one.handle.framework is one
