"""Several profiles in one scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import schedule_one
from tests.framework.make import make, status
from tests.make import configuration, node, pod

import moorage as mo
from moorage import Scheduler, default_profile
from moorage.engine.framework import Code
from moorage.engine.scheduler import Profile
from moorage.errors import InputError
from moorage.kube import Pod


def profiles() -> list[Profile]:
    """The default one, and one whose pods go to node b alone."""

    def filter(self: Any, state: Any, pod: Any, info: Any) -> Any:
        return None if info.name == "b" else status(Code.UNSCHEDULABLE, "not b")

    only = make(mo.FilterPlugin, "Only", filter=filter)
    return [
        default_profile(),
        Profile((*default_profile().plugins, only), scheduler_name="picky"),
    ]


def test_each_pod_is_decided_by_the_profile_that_it_names() -> None:
    pods = [pod("p"), pod("q", scheduler_name="picky"), pod("r", scheduler_name="nobody")]
    one = Scheduler(mo.Cluster(nodes=[node(name) for name in "ab"], pods=pods), profiles=profiles())
    result = one.run()
    assert result.placements == {"default/q": "b", "default/p": "a"}
    assert result.skipped == {"default/r": "other scheduler"}
    assert one.pods.pending.keys() == {"default/r"}


def test_the_rotation_is_shared_and_a_transaction_takes_it_back() -> None:
    nodes = [node(f"n{at}", zone=f"z{at % 3}") for at in range(300)]
    two = [default_profile(), Profile(default_profile().plugins, scheduler_name="two")]
    one = Scheduler(mo.Cluster(nodes=nodes), profiles=two)
    first, second = pod("p"), pod("q", scheduler_name="two")
    assert (
        schedule_one(one.context, first).start,
        schedule_one(one.context, second).start,
    ) == (0, 144)
    with one.cache.transaction():
        assert schedule_one(one.context, pod("r")).start == 288
    assert schedule_one(one.context, pod("t")).start == 288


def test_profiles_must_agree_on_the_queue() -> None:
    with pytest.raises(InputError, match=r'^duplicate profile with scheduler name "default-scheduler"$'):
        Scheduler(profiles=[default_profile(), default_profile()])


# ---- whose a plugin is -------------------------------------------------------------------------------------


def passing() -> Any:
    return make(mo.FilterPlugin, "Passing", filter=lambda self, state, pod, info: None)


def bound_in(one: Scheduler) -> dict[str, str]:
    return {pod.name: pod.spec.node_name for pod in one.client.list(Pod)[0] if pod.spec.node_name}


def three(*names: str) -> mo.Cluster:
    return mo.Cluster(nodes=[node(name) for name in "abc"], pods=[pod(name) for name in names])


def test_a_profile_of_in_tree_plugins_serves_several_schedulers() -> None:
    profile = default_profile()
    first, second = Scheduler(three("p"), profile=profile), Scheduler(three("q"), profile=profile)
    assert (second.run().placements.keys(), first.run().placements.keys()) == ({"default/q"}, {"default/p"})
    assert (bound_in(first).keys(), bound_in(second).keys()) == ({"p"}, {"q"})


def test_in_tree_plugins_of_another_scheduler_bind_in_the_store_of_their_own() -> None:
    in_tree = default_profile().plugins
    first = Scheduler(three("p"), profile=Profile((*in_tree, passing())))
    second = Scheduler(three("q"), profile=Profile((*in_tree, passing())))
    assert second.run().placements.keys() == {"default/q"}
    assert (bound_in(first), bound_in(second).keys()) == ({}, {"q"})


class Counting(mo.FilterPlugin):
    name = "Counting"

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def filter(self, state: Any, pod: Pod, node_info: Any) -> None:
        self.asked += 1


REFUSED = (
    r'^plugin "Counting" keeps state and belongs to another scheduler already: '
    r"make an instance for each scheduler, or give it a method clone\(\)$"
)


def test_a_plugin_with_state_belongs_to_one_scheduler() -> None:
    counting = Counting()
    profile = Profile((*default_profile().plugins, counting))
    first = Scheduler(three("p"), profile=profile)
    with pytest.raises(InputError, match=REFUSED):
        Scheduler(three("q"), profile=profile)
    first.run()
    assert (bound_in(first).keys(), counting.asked) == ({"p"}, 3)


def test_a_plugin_with_state_that_a_factory_makes_only_once_is_refused() -> None:
    counting = Counting()
    registry = mo.Registry({"Counting": lambda args, handle: counting})
    config = configuration(profiles=[{"plugins": {"filter": {"enabled": [{"name": "Counting"}]}}}])
    Scheduler(config=config, registry=registry)
    with pytest.raises(InputError, match=REFUSED):
        Scheduler(config=config, registry=registry)


def test_a_scheduler_that_could_not_be_made_keeps_no_plugin() -> None:
    profile = Profile((*default_profile().plugins, Counting()))
    with pytest.raises(mo.MoorageError):
        Scheduler(mo.Cluster(nodes=[node("a"), node("a")]), profile=profile)
    assert Scheduler(three("p"), profile=profile).run().placements.keys() == {"default/p"}


def test_an_engine_that_could_not_be_made_keeps_no_plugin() -> None:
    plugins = (*default_profile().plugins, Counting())
    two = Profile(plugins, scheduler_name="two", percentage_of_nodes_to_score=101)
    with pytest.raises(ValueError, match=r"percentage_of_nodes_to_score must be from 0 .* not 101"):
        Scheduler(profiles=[Profile(plugins), two])
    assert Scheduler(three("p"), profile=Profile(plugins)).run().placements.keys() == {"default/p"}
