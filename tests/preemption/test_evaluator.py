"""Preemption from its beginning to its end: answers, texts, extenders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.doors.engine import call_extenders, num_candidates, schedule_one
from tests.framework.make import make
from tests.make import node
from tests.preemption.world import LEAVING, cycle, find, full, preemptor, terminating, victim

from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, FilterPlugin, NominatingInfo, Profile, Status, Victims
from moorage.engine.preemption import Candidate, DefaultPreemption, Evaluator
from moorage.errors import ExtenderError
from moorage.kube import Pod

NODES = [node("a"), node("b"), node("c", cpu=1)]


def ask(one: Scheduler, asked: Pod) -> tuple[NominatingInfo | None, Status | None]:
    handle, state, statuses = cycle(one, asked)
    return Evaluator(handle, "DefaultPreemption").preempt(state, asked, statuses)


def text(answer: tuple[NominatingInfo | None, Status | None]) -> str:
    assert answer[1] is not None
    return answer[1].message()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (preemptor(preemption_policy="Never"), "not eligible due to preemptionPolicy=Never."),
        (preemptor(nominated="a"), "not eligible due to a terminating pod on the nominated node."),
    ],
)
def test_who_is_not_eligible_keeps_its_nomination(asked: Pod, message: str) -> None:
    one = full(terminating(victim("v", cpu=4), LEAVING))
    assert ask(one, asked) == (None, Status(Code.UNSCHEDULABLE, (message,)))


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [(0, 0), (1, 1), (99, 99), (100, 100), (101, 100), (1000, 100), (1019, 101), (5000, 500)],
)
def test_the_number_of_candidates_is_of_potential_nodes(nodes: int, wanted: int) -> None:
    assert num_candidates(nodes, 10, 100) == wanted


def test_the_number_of_candidates_follows_the_arguments() -> None:
    assert num_candidates(50, 0, 7) == 7
    assert num_candidates(50, 100, 0) == 50
    assert num_candidates(50, 0, 0) == 0


def test_a_random_offset_is_always_the_same() -> None:

    def offsets(asked: Pod) -> list[int]:
        some = [full(nodes=NODES, tie_break="random", seed=seed).handle for seed in range(50)]
        return [handle.preemption_offset(asked, 1000) for handle in some]

    found = offsets(preemptor())
    assert found == offsets(preemptor()) != offsets(victim("other"))
    assert len(set(found)) > 40
    assert all(0 <= offset < 1000 for offset in found)


# ---- extenders ---------------------------------------------------------------------------------------------


@dataclass
class Asked:
    """An extender that answers what it is told to."""

    answer: Any = None
    name: str = "http://x"
    weight: int = 1
    is_ignorable: bool = False
    supports_preemption: bool = True
    interested: bool = True
    is_filter: bool = False
    is_prioritizer: bool = False
    is_binder: bool = False
    heard: Any = None

    def is_interested(self, pod: Pod) -> bool:
        return self.interested

    def filter(self, pod: Pod, nodes: Any) -> Any:
        raise AssertionError

    def prioritize(self, pod: Pod, nodes: Any) -> Any:
        raise AssertionError

    def bind(self, pod: Pod, node: str) -> None:
        raise AssertionError

    def process_preemption(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, Victims]:
        self.heard = dict(victims)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(victims) if callable(self.answer) else self.answer  # type: ignore[no-any-return]


A, B = Victims((victim("v"),), 1), Victims((victim("w", on="b"),))
BOTH = [Candidate("a", A), Candidate("b", B)]


def left(*extenders: Asked) -> Any:
    checked: list[Any] = list(extenders)
    found, failed = call_extenders(checked, preemptor(), BOTH)
    return [one.name for one in found] if failed is None else failed.message()


def test_without_extenders_all_are_left() -> None:
    assert left() == ["a", "b"]


def test_extenders_hear_of_the_candidates_one_after_the_other() -> None:
    first, second = Asked({"b": A}), Asked(lambda victims: dict(victims))
    found, _ = call_extenders([first, second], preemptor(), BOTH)
    assert found == [Candidate("b", A)], "with the victims that it wants"
    assert (first.heard, second.heard) == ({"a": A, "b": B}, {"b": A})


def test_candidates_keep_their_order() -> None:
    assert left(Asked(lambda victims: dict(reversed(victims.items())))) == ["a", "b"]
    assert left(Asked({"z": A, "a": A})) == ["a", "z"]


def test_who_is_not_asked() -> None:
    uninterested, without = Asked(interested=False), Asked(supports_preemption=False)
    assert left(uninterested, without) == ["a", "b"]
    assert (uninterested.heard, without.heard) == (None, None)


def test_an_extender_that_fails() -> None:
    assert left(Asked(ExtenderError("broken"))) == "broken"
    assert left(Asked(ExtenderError("broken"), is_ignorable=True), Asked({"b": B})) == ["b"]


def test_a_node_without_victims() -> None:
    answer = {"a": Victims(()), "b": B}
    assert left(Asked(answer)) == 'expected at least one victim pod on node "a"'
    assert left(Asked(answer, is_ignorable=True)) == ["b"]


def test_a_node_that_came_without_victims() -> None:
    """An extender may leave it so, add victims, or leave the node out; without victims it is dropped last."""
    offered = [Candidate("a", A), Candidate("b", Victims(()))]
    as_is, adding = Asked(lambda victims: dict(victims)), Asked({"a": A, "b": B})
    assert call_extenders([as_is, as_is], preemptor(), offered) == ([Candidate("a", A)], None)
    assert as_is.heard == {"a": A, "b": Victims(())}
    assert call_extenders([as_is, adding], preemptor(), offered) == (BOTH, None)
    found, failed = call_extenders([adding, Asked({"b": Victims(())})], preemptor(), offered)
    assert (found, str(failed)) == ([], 'expected at least one victim pod on node "b"')


def test_once_nothing_is_left_nobody_is_asked() -> None:
    second = Asked({"a": A})
    assert left(Asked({}), second) == []
    assert second.heard is None


def test_extenders_leave_nothing_and_nothing_happens() -> None:
    one = full(victim("v", cpu=4))
    one.engines["default-scheduler"].handle.extenders = [Asked({})]
    assert ask(one, preemptor()) == (None, Status(Code.UNSCHEDULABLE, ("no candidate node for preemption",)))
    failing = Asked(ExtenderError("broken"))
    one.engines["default-scheduler"].handle.extenders = [failing]
    result, status = ask(one, preemptor())
    assert (result, str(status)) == (None, "broken")
    assert [each.name for each in one.client.list(Pod)[0]] == ["v"]


@pytest.mark.parametrize(("texts", "error"), [("x", "{}x"), ("xyy", "[{0}x, {0}y]")])
def test_failed_dry_runs_give_one_error(texts: str, error: str) -> None:
    """A plugin fails once the victim of a node is gone."""
    names = "abc"[: len(texts)]

    def fails(self: Any, state: Any, pod: Pod, node_info: Any) -> Status | None:
        text = texts[names.index(node_info.name)]
        return None if node_info.pods else Status(Code.ERROR, (text,))

    failing = make(FilterPlugin, "Failing", filter=fails)
    there = [victim(f"v{name}", name, cpu=4) for name in names]
    profile = Profile((*default_profile().plugins, failing))
    found = find(full(*there, nodes=[node(name) for name in names], profile=profile), preemptor())
    assert len(found.rejected) == len(texts)
    assert found.error == error.format('running "Failing" filter plugin: ')


# ---- the plugin --------------------------------------------------------------------------------------------


def test_a_pod_is_kept_back_while_its_victims_leave() -> None:
    one = full()
    plugin = next(p for p in one.profile.plugins if isinstance(p, DefaultPreemption))
    assert plugin.pre_enqueue(preemptor()) is None
    plugin.preempting.add("p")
    status = plugin.pre_enqueue(preemptor())
    assert status is not None
    assert (status.code, status.message(), status.plugin) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "waiting for the preemption for this pod to be finished",
        "DefaultPreemption",
    )


def test_the_text_without_asking_is_that_of_asking() -> None:
    """Where nobody could be evicted, PostFilter is not run, and what it would have said is made later."""
    for asked in (preemptor(), preemptor(9), preemptor(preemption_policy="Never")):
        one = full(victim("v", cpu=3, priority=20), victim("w", on="b", cpu=4, priority=20), nodes=NODES)
        decision = schedule_one(one.context, asked)
        assert decision.diagnosis is not None
        assert decision.diagnosis.futile_plugins
        handle, state, statuses = cycle(one, asked)
        framework = handle.framework
        assert framework is not None
        result, status = framework.run_post_filter_plugins(state, asked, statuses)
        assert status is not None
        assert decision.diagnosis.post_filter_message() == status.message()
        assert decision.nominating == result


def test_without_a_scheduler_it_says_so() -> None:
    with pytest.raises(Exception, match=r'^plugin "DefaultPreemption" is not part of a scheduler$'):
        DefaultPreemption().post_filter(None, preemptor(), {})  # type: ignore[arg-type]
