"""Registry: names to factories, and what installed packages offer."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from tests.doors.engine import IN_TREE, in_tree_registry

from moorage.engine.framework import FilterPlugin, Plugin, Registry, installed_plugins
from moorage.errors import InputError


class Offered(FilterPlugin):
    name = "Offered"


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "moorage.plugins")


def test_register_and_unregister() -> None:
    registry = Registry()
    registry.register("Offered", Offered)
    with pytest.raises(InputError, match=r"^a plugin named Offered already exists$"):
        registry.register("Offered", Offered)
    registry.unregister("Offered")
    assert registry == {}
    with pytest.raises(InputError, match=r"^no plugin named Offered exists$"):
        registry.unregister("Offered")


def test_merge_stops_at_the_first_name_that_is_taken() -> None:
    registry = Registry(b=Offered)
    with pytest.raises(InputError, match=r"^a plugin named b already exists$"):
        registry.merge({"a": Offered, "b": Offered, "c": Offered})
    assert list(registry) == ["b", "a"]


def test_a_class_of_plugins_is_a_factory() -> None:
    made = Registry(Offered=Offered)["Offered"]({"x": 1}, None)
    assert isinstance(made, Offered)
    assert made.args == {"x": 1}


def test_arguments_stand_over_their_defaults() -> None:
    registry = in_tree_registry()
    assert list(registry) == [plugin.name for plugin in IN_TREE]
    made = registry["InterPodAffinity"]({"hardPodAffinityWeight": 7}, None)
    assert made.args == {"hardPodAffinityWeight": 7, "ignorePreferredTermsOfExistingPods": False}
    assert registry["InterPodAffinity"](None, None).args["hardPodAffinityWeight"] == 1


def test_installed_plugins_are_found_by_their_entry_points() -> None:
    found = installed_plugins([point("Z", f"{__name__}:Offered"), point("A", "builtins:dict")])
    assert list(found) == ["A", "Z"]
    assert isinstance(found["Z"](None, None), Plugin)
    assert installed_plugins() == {}  # nothing of that group is installed here


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("moorage.nowhere:X", "No module named 'moorage.nowhere'"),
        ("moorage.errors:Nothing", "module 'moorage.errors' has no attribute 'Nothing'"),
        (
            "moorage.engine.framework.plugin_registry:ENTRY_POINTS",
            "moorage.engine.framework.plugin_registry:ENTRY_POINTS is not callable",
        ),
    ],
)
def test_a_wrong_entry_point_is_named(value: str, text: str) -> None:
    with pytest.raises(InputError, match=rf"^moorage.plugins entry point Bad: {text}$"):
        installed_plugins([point("Bad", value)])


def test_two_packages_may_not_offer_the_same_name() -> None:
    twice = [point("A", "builtins:dict"), point("A", "builtins:list")]
    with pytest.raises(InputError, match=r"^a plugin named A already exists$"):
        installed_plugins(twice)
