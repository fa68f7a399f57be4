"""On which nodes a pod would fit without others, and without whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from tests.doors.engine import PreemptionDryRuns
from tests.framework.make import UNSCHEDULABLE, make, status
from tests.make import ZONE, node, pod, port
from tests.preemption.test_evaluator import Asked
from tests.preemption.twin import Twin
from tests.preemption.world import (
    HOST,
    budget,
    cycle,
    find,
    full,
    handle,
    preemptor,
    terminating,
    victim,
    victims,
)

import moorage as mo
from moorage import default_profile
from moorage.engine.framework import Code, Victims
from moorage.engine.preemption import Candidate
from moorage.engine.scheduler import Profile
from moorage.kube import Affinity, LabelSelector, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from moorage.kube.releases import RELEASES, default_gates

LABELS = {"app": "x"}


def selected(asked: Pod, *pods: Pod, budgets: Any = (), **settings: Any) -> tuple[list[str], int, str]:
    """Victims on node a, violations, and why not."""
    one = full(*pods, **settings)
    its, state, _ = cycle(one, asked)
    info = one.cache.node_info("a")
    assert info is not None
    runs = PreemptionDryRuns(its, state, asked, budgets)
    there, violations, failed = runs.select_victims_on_node(info)
    return [each.name for each in there], violations, "" if failed is None else failed.message()


def test_a_pod_that_comes_back_brings_the_port_that_another_has_freed() -> None:
    """On the node the port is free by now, since one of two pods with it has gone."""
    one = full(
        *[victim(name, ports=[port(80)], priority=2) for name in ("gone", "stays")],
        victim("other", cpu=2, priority=1),
        victim("more", priority=0),
    )
    one.client.delete("Pod", "gone", "default")
    one.sync()
    asked = preemptor(1, ports=[port(80)])
    its, state, _ = cycle(one, asked)
    info = one.cache.node_info("a")
    assert info is not None
    there, *rest = PreemptionDryRuns(its, state, asked, ()).select_victims_on_node(info)
    assert ([each.name for each in there], rest) == (["stays"], [0, None])


def spread(selector: LabelSelector, key: str = HOST) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=1, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=selector
    )


# ---- plugins in Python -------------------------------------------------------------------------------------


class Counts(mo.PreFilterPlugin, mo.FilterPlugin):
    """At most so many pods, counted in PreFilter and kept up to date by its extensions."""

    name = "Counts"

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> None:
        state.write("counts", Counted({info.name: len(info.pods) for info in nodes}))

    def pre_filter_extensions(self) -> Any:
        return self

    def add_pod(self, state: Any, pod: Pod, other: Pod, info: Any) -> None:
        state.read("counts").by_node[info.name] += 1

    def remove_pod(self, state: Any, pod: Pod, other: Pod, info: Any) -> Any:
        if other.name == "stuck":
            return status(UNSCHEDULABLE, "stuck")
        state.read("counts").by_node[info.name] -= 1
        return None

    def filter(self, state: Any, pod: Pod, info: Any) -> Any:
        there = state.read("counts").by_node[info.name]
        return None if there == len(info.pods) and there < 2 else status(UNSCHEDULABLE, f"{there} pods")


class Counted:
    def __init__(self, by_node: dict[str, int]) -> None:
        self.by_node = by_node

    def clone(self) -> Counted:
        return Counted(dict(self.by_node))


def counting() -> Any:
    return {"profile": Profile((*default_profile().plugins, Counts()))}


def test_extensions_of_plugins_follow() -> None:
    pods = [victim("v", priority=2), victim("w", priority=1)]
    assert selected(preemptor(1), *pods, **counting()) == (["w"], 0, "")
    one = full(*pods, **counting())
    assert victims(find(one, preemptor(1))) == {"a": ["w"]}
    assert victims(find(one, preemptor(1))) == {"a": ["w"]}, "each node has a copy of the state"


def test_a_plugin_that_cannot_follow_is_an_error_of_the_node() -> None:
    text = 'running RemovePod on PreFilter plugin "Counts": stuck'
    assert selected(preemptor(1), victim("stuck"), victim("w"), **counting()) == ([], 0, text)
    found = find(full(victim("stuck"), victim("w"), **counting()), preemptor(1))
    assert (found.rejected["a"].code, found.error) == (Code.ERROR, text)


def test_victims_that_are_all_reprieved_are_an_error() -> None:
    """A filter that changes its mind."""
    answers = iter([status(UNSCHEDULABLE, "no")])
    fickle = make(mo.FilterPlugin, "Fickle", filter=lambda *rest: next(answers, None))
    one = full(victim("v"), profile=Profile((*default_profile().plugins, fickle)))
    found = find_after_rejection(one)
    assert found == 'expected at least one victim pod on node "a"'


def test_victims_that_are_all_reprieved_reject_the_node_since_1_38() -> None:
    answers = iter([status(UNSCHEDULABLE, "no")])
    fickle = make(mo.FilterPlugin, "Fickle", filter=lambda *rest: next(answers, None))
    plugins = (*default_profile(default_gates(RELEASES["1.38"])).plugins, fickle)
    one = full(victim("v"), profile=Profile(plugins), kubernetes_version="1.38")
    its, state, statuses = cycle(one, preemptor(1))
    _, rejected = PreemptionDryRuns(its, state, preemptor(1), ()).run(list(statuses), 0, 9)
    assert rejected["a"].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert rejected["a"].reasons == ("No preemption victims found for incoming pod",)


@pytest.mark.parametrize("version", ["1.37", "1.38"])
@pytest.mark.parametrize("interested", [True, False])
@pytest.mark.parametrize("in_core", [True, False])
def test_extenders_that_preempt_are_offered_nodes_without_victims_since_1_38(
    version: str, interested: bool, in_core: bool
) -> None:
    plugins = default_profile(default_gates(RELEASES[version])).plugins
    answers = iter([status(UNSCHEDULABLE, "no")])
    fickle = make(mo.FilterPlugin, "Fickle", filter=lambda *rest: next(answers, None))
    profile = Profile(plugins if in_core else (*plugins, fickle))
    one = full(victim("v"), profile=profile, kubernetes_version=version)
    one.engines["default-scheduler"].handle.extenders = [Asked(interested=interested)]
    its, state, _ = cycle(one, preemptor(1))
    candidates, rejected = PreemptionDryRuns(its, state, preemptor(1), ()).run(["a"], 0, 9)
    expected = [Candidate("a", Victims(()))] if interested and version == "1.38" else []
    assert (candidates, bool(rejected)) == (expected, not expected)


def find_after_rejection(one: Any) -> str:
    its, state, statuses = cycle(one, preemptor(1))
    candidates, rejected = PreemptionDryRuns(its, state, preemptor(1), ()).run(list(statuses), 0, 9)
    assert candidates == []
    return str(rejected["a"].message())


# ---- several nodes -----------------------------------------------------------------------------------------

NAMES = "abcde"


def five(**settings: Any) -> Any:
    pods = [victim(f"v{name}", on=name, cpu=4, labels=LABELS if name in "bd" else {}) for name in NAMES]
    return full(*pods, nodes=[node(name) for name in NAMES], **settings)


@pytest.mark.parametrize(
    ("offset", "wanted", "names"), [(0, 5, "acebd"), (1, 1, "cb"), (1, 2, "cb"), (3, 1, "ed"), (0, 1, "a")]
)
def test_those_that_violate_come_last_and_are_not_enough(offset: int, wanted: int, names: str) -> None:
    one = five(others=[budget(0, LABELS)])
    handle(one).preemption_offset = lambda pod, nodes: offset
    found = find(one, preemptor(), limits=(0, wanted))
    assert [each.name for each in found.candidates] == list(names)
    assert [each.victims.num_pdb_violations for each in found.candidates] == [int(n in "bd") for n in names]


# ---- the twin ----------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: Any) -> tuple[Twin, list[Any]]:
    names = "abc"
    nodes = [node(name, zone=draw(st.sampled_from(["y", "z"])), pods=5) for name in names]
    pods: dict[str, list[Pod]] = {name: [] for name in names}
    starts = st.sampled_from(["2026-03-11T10:00:00Z", "2026-03-11T10:00:01Z", None])
    labels = st.sampled_from([{}, {"app": "x"}, {"app": "y"}, {"app": "x", "tier": "1"}])
    claims = st.sampled_from([(), (), (), (port(80),)])
    for at in range(draw(st.integers(1, 12))):
        on = draw(st.sampled_from(names))
        one = victim(
            f"v{at}",
            on=on,
            cpu=draw(st.integers(0, 3)),
            priority=draw(st.integers(-1, 3)),
            start=draw(starts),
            labels=draw(labels),
            ports=draw(claims),
        )
        pods[on].append(terminating(one) if draw(st.booleans()) and draw(st.booleans()) else one)
    spreading = draw(st.sampled_from([None, None, {}, {"app": "x"}]))
    apart = draw(st.sampled_from([None, None, {"app": "y"}]))
    spec: dict[str, Any] = {"labels": draw(labels), "ports": draw(claims)}
    if spreading is not None:
        spec["topology_spread_constraints"] = (spread(LabelSelector(match_labels=spreading), ZONE),)
    if apart is not None:
        term = PodAffinityTerm(label_selector=LabelSelector(match_labels=apart), topology_key=ZONE)
        spec["affinity"] = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    asked = preemptor(draw(st.integers(0, 4)), draw(st.integers(0, 4)), **spec)
    waiting: dict[str, list[Pod]] = {}
    for at in range(draw(st.integers(0, 2))):
        to = draw(st.sampled_from(names))
        other = pod(f"n{at}", requests={"cpu": 1}, priority=draw(st.integers(0, 4)), labels=draw(labels))
        waiting.setdefault(to, []).append(other)
    budgets = [budget(draw(st.integers(0, 2)), draw(labels), name=f"b{at}") for at in range(2)]
    kept = [one for one in budgets if one.spec.selector.match_labels]
    return Twin(nodes, pods, asked, spreading, apart, waiting), kept[: draw(st.integers(0, 2))]
