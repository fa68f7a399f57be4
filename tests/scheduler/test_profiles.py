"""Several profiles in one scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.make import node, pod
from tests.framework.make import make, status

import moorage as mo
from moorage.errors import InputError
from moorage.framework.status import Code
from moorage.plugins.registry import default_profile
from moorage.scheduler import Profile, Scheduler


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


def test_examining_follows_the_profile() -> None:
    one = Scheduler(mo.Cluster(nodes=[node(name) for name in "ab"]), profiles=profiles())
    assert one.examine(pod("p")).feasible == ["a", "b"]
    assert one.examine(pod("p", scheduler_name="picky")).feasible == ["b"]


def test_the_rotation_is_shared_and_a_transaction_takes_it_back() -> None:
    nodes = [node(f"n{at}", zone=f"z{at % 3}") for at in range(300)]
    two = [default_profile(), Profile(default_profile().plugins, scheduler_name="two")]
    one = Scheduler(mo.Cluster(nodes=nodes), profiles=two)
    first, second = pod("p"), pod("q", scheduler_name="two")
    assert (one.schedule_one(first).start, one.schedule_one(second).start) == (0, 144)
    with one.cache.transaction():
        assert one.schedule_one(pod("r")).start == 288
    assert one.schedule_one(pod("t")).start == 288


def test_profiles_must_agree_on_the_queue() -> None:
    with pytest.raises(InputError, match=r'^duplicate profile with scheduler name "default-scheduler"$'):
        Scheduler(profiles=[default_profile(), default_profile()])


def test_waiting_pods_and_nominations_are_shared() -> None:
    one = Scheduler(profiles=profiles())
    handles = [engine.handle for engine in one.engines.values()]
    assert handles[0].waiting_pods is handles[1].waiting_pods is one.handle.waiting_pods
    assert handles[0].nominator is handles[1].nominator
    assert handles[0].framework is not handles[1].framework
