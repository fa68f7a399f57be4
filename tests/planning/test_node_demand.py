"""New nodes are enough, no fewer are by the bound, and proofs hold."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.errors import InputError
from tests.core.make import pinned
from tests.make import ZONE, Json, make, node, pod, port, scheduler, template, workload

WEB = pod("web", requests={"cpu": "1500m"})


def apart(key: str, app: str = "web") -> Json:
    """Anti-affinity to pods of an app."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.fixture(params=[True, False], ids=["lp", "without lp"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param:
        return "linear program"
    monkeypatch.setitem(sys.modules, "highspy", None)
    return "cpu"


def test_replicas_of_a_pod(source: str) -> None:
    one = scheduler([node("a")])
    before = one.fork()
    plan = one.ask.nodes_needed((WEB, 11), like="a")
    assert (plan.status, plan.counts, plan.nodes, bool(plan)) == ("found", {"a": 5}, 5, True)
    assert (plan.lower_bound, plan.bound_by, plan.unplaced) == (5 if source != "cpu" else 4, source, {})
    assert not before.ask.diff(one)


def test_no_node_is_needed() -> None:
    plan = scheduler([node("a")]).ask.nodes_needed([WEB], like="a")
    assert (plan.status, plan.nodes, plan.lower_bound, plan.bound_by) == ("found", 0, 0, "")


def test_pending_pods_by_default() -> None:
    gated = pod("gated", scheduling_gates=[{"name": "g"}])
    pods = [*(pod(f"p{at}", requests={"cpu": 3}) for at in range(3)), gated]
    plan = scheduler([node("a")], pods).ask.nodes_needed(like=node("big", cpu="6"))
    assert (plan.counts, plan.skipped) == ({"big": 1}, {"gated": 1})


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from([500, 1000, 1500, 3000]), max_size=12),
    st.lists(st.integers(1, 8), min_size=1, max_size=2, unique=True),
    st.integers(0, 2),
)
def test_the_nodes_are_enough(requests: list[int], sizes: list[int], existing: int) -> None:
    pods = [pod(f"p{at}", requests={"cpu": f"{cpu}m"}) for at, cpu in enumerate(requests)]
    templates = [node(f"t{size}", cpu=str(size)) for size in sizes]
    one = scheduler([node(f"n{at}") for at in range(existing)])
    plan = one.ask.nodes_needed(pods, like=templates)
    placeable = not pods or max(requests) <= 1000 * max([*sizes, *([4] * bool(existing))])
    if plan.status == "impossible":
        assert plan.proof
        assert plan.unplaced
        return
    assert placeable
    if plan.status == "found":
        assert plan.lower_bound is not None
        assert plan.lower_bound <= plan.nodes
        for template in templates:
            one.change.add_nodes(plan.counts[template.name], template)
        assert not one.schedule_pods(pods).failures


def test_pods_that_go_elsewhere_need_several_templates() -> None:
    nodes = [node("a", labels={"pool": "x"}), node("b", labels={"pool": "y"})]
    pods = [
        pod(f"{pool}{at}", requests={"cpu": 3}, node_selector={"pool": pool})
        for pool in "xy"
        for at in range(3)
    ]
    plan = scheduler().ask.nodes_needed(pods, like=nodes)
    assert (plan.counts, plan.lower_bound) == ({"a": 3, "b": 3}, 6)


def test_a_pod_that_fits_on_no_template_is_a_proof(source: str) -> None:
    plan = scheduler().ask.nodes_needed((WEB, 2), like=node("small", cpu="1"))
    assert (plan.status, plan.lower_bound) == ("impossible", None)
    assert (
        plan.proof
        == "default/web#0 fits on none of the templates: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert list(plan.unplaced) == ["default/web#0", "default/web#1"]


def test_a_pod_that_fits_on_no_template_leaves_a_number_for_the_others(source: str) -> None:
    pods = [pod("big", requests={"cpu": 9}), *(pod(f"p{at}", requests={"cpu": 3}) for at in range(5))]
    plan = scheduler([node("a")]).ask.nodes_needed(pods, like=[node("b"), node("c", cpu="1")])
    assert (plan.status, plan.counts, plan.lower_bound) == ("impossible", {"b": 4, "c": 0}, None)
    reason = "0/6 nodes are available: 6 Insufficient cpu."
    assert plan.unplaced == {"default/big": reason}
    assert plan.proof == f"default/big fits on none of the templates: {reason}"
    assert plan.headline() == f"impossible: with 4 nodes 1 pod has no place; {plan.proof}"


def test_a_plan_has_at_most_the_given_number_of_nodes() -> None:
    plan = scheduler().ask.nodes_needed((WEB, 9), like=node("a"), max=2)
    assert (plan.status, plan.nodes, len(plan.unplaced), plan.proof) == ("not found", 2, 5, "")
    assert plan.headline() == "not found: with 2 nodes 5 pods have no place, at least 5 are needed"


def test_nothing_is_evicted() -> None:
    one = scheduler([node("a")], [pod("low", on="a", requests={"cpu": 4}, priority=0)])
    assert one.ask.nodes_needed([pod("high", requests={"cpu": 4}, priority=5)], like="a").nodes == 1


@pytest.mark.parametrize(
    ("workload", "like", "settings", "message"),
    [
        ([WEB], "x", {}, "x"),
        ([WEB], [], {}, "like must be nodes, or names of nodes"),
        ([WEB], [1], {}, "dict or object of Kubernetes, not int"),
        ([WEB], WEB, {}, "must be a Node"),
        ([WEB], ["a", node("a")], {}, "like has several templates of one name"),
        (["web"], "a", {}, "no such file, and no workload or pod is named"),
        ([node("a")], "a", {}, "must be a Pod, not Node"),
        ((WEB, -1), "a", {}, "give pods, or pairs of a Pod and a count"),
        ((WEB, True), "a", {}, "give pods, or pairs of a Pod and a count"),
        ([WEB], "a", {"max": -1}, "max must be a whole number of at least 0, not -1"),
    ],
)
def test_a_bad_workload_or_template_is_refused(
    workload: Any, like: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((InputError, TypeError)) as error:
        scheduler([node("a")]).ask.nodes_needed(workload, like=like, **settings)
    assert message in str(error.value)


def test_given_pods_are_placed_in_their_order() -> None:
    pods = [pod("p", requests={"cpu": 4}), pod("q", requests={"cpu": 1})]
    assert scheduler([node("a")]).ask.nodes_needed(pods, like="a").nodes == 1


@pytest.mark.parametrize("key", ["host", "other"])
def test_pods_that_keep_one_another_away_need_a_node_each_if_it_has_the_label(key: str) -> None:
    web = pod("web", requests={"cpu": 1}, labels={"app": "web"}, affinity=apart(key))
    one = scheduler([node("a", labels={"host": "a"}), node("b", labels={"host": "b"})])
    plan = one.ask.nodes_needed((web, 3), like=node("small", cpu="500m", labels={"host": "c"}))
    if key == "other":
        assert (plan.status, plan.nodes) == ("found", 0)
    else:
        assert plan.headline() == (
            "impossible: with 0 nodes 1 pod has no place; 3 pods like default/web#0: the existing "
            "nodes have room for 2, and no template takes any"
        )


def test_pods_that_the_templates_do_not_take_are_a_proof(source: str) -> None:
    one = scheduler([node("a", labels={"pool": "x"})])
    alone = pod("web", requests={"cpu": 1}, node_selector={"pool": "x"})
    plan = one.ask.nodes_needed((alone, 5), like=node("b"))
    if source == "cpu":
        assert (plan.status, plan.lower_bound) == ("not found", 1)
    else:
        assert plan.status == "impossible"
        assert plan.proof == (
            "5 pods like default/web#0: the existing nodes have room for 4, and no template takes any"
        )
    gpu = [pod(f"p{at}", requests={"cpu": 1, "example.com/gpu": 1}) for at in range(2)]
    plan = scheduler([node("a", **{"example.com/gpu": "1"})]).ask.nodes_needed(gpu, like=node("b"))
    assert plan.status == "impossible"
    assert (plan.proof == "example.com/gpu is in none of the templates: 2 requested, 1 free") == (
        source == "cpu"
    )


# ---- with DaemonSets ---------------------------------------------------------------------------------------

AGENT = workload("DaemonSet", "agent", requests={"cpu": 1})
ONE = node("a", labels={"host": "a"}, cpu=1)


def test_pods_of_daemon_sets_take_their_room_on_new_nodes() -> None:
    one = scheduler(AGENT, ONE)
    assert one.ask.nodes_needed((pod("web", requests={"cpu": 1}), 4), like=node("b", cpu="2")).nodes == 3


def test_a_template_without_room_for_a_daemon_set_is_left_out() -> None:
    one, tiny, big = scheduler(AGENT, ONE), node("tiny", cpu="500m"), node("big", cpu="8")
    small = (pod("web", requests={"cpu": "100m"}), 15)
    plan = one.ask.nodes_needed(small, like=[tiny, big])
    assert (plan.status, plan.counts, plan.packed) == ("found", {"tiny": 0, "big": 1}, {"tiny": 0, "big": 1})
    (note,) = [text for text in plan.notes if "tiny" in text]
    why = "it has no room for the pod of DaemonSet default/agent: 0/2 nodes are "
    assert note.startswith(f"The template tiny is left out: {why}")
    assert one.ask.nodes_needed(small, like=tiny).status == "impossible"


def test_pending_pods_are_placed_as_a_run_places_them() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "host"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    near = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    webs = [pod(f"web{at}", labels={"app": "web"}, affinity=near, requests={"cpu": 1}) for at in range(3)]
    like = node("b", cpu="2", labels={"host": "b"})
    one = scheduler(AGENT, ONE, webs)
    given = one.ask.nodes_needed(webs, like=like, max=5)
    assert (given.status, given.nodes) == ("found", 2)  # pods of DaemonSets come first
    queued = one.ask.nodes_needed(like=like, max=5)
    assert (queued.status, queued.nodes, queued.packed) == ("found", 3, {"b": 3})
    for nodes, left in ((2, 1), (3, 0)):
        with one.transaction():
            one.change.add_nodes(nodes, like)
            assert len(one.run().unschedulable) == left


def test_the_share_of_daemons_is_that_of_the_lacking_resource_and_no_other() -> None:
    """It is told where pods have no place."""
    gpu, shared = "example.com/gpu", "example.com/gpu.shared"
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {gpu: "1"}}}
    inside = template("d") | {"spec": {"containers": [container]}}
    one = scheduler(node("a", cpu=1, **{gpu: 2, shared: 1}), workload("DaemonSet", "d", template=inside))
    one.run()
    for resource, amount, taken in (
        ("cpu", "950m", "100m of the 1 cpu"),
        ("cpu", "900m", ""),
        (gpu, "2", f"1 of the 2 {gpu}"),
        (shared, "2", ""),
    ):
        needed = one.ask.nodes_needed((pod("p", requests={resource: amount}), 1), like="a")
        assert needed.notes == ((f"DaemonSets take {taken} of a new node like a.",) if taken else ())


def test_fewer_nodes_are_enough_if_the_pods_are_packed() -> None:
    small, large = pod("small", requests={"cpu": 1}), pod("large", requests={"cpu": 4})
    plan = scheduler().ask.nodes_needed([(small, 4), (large, 3)], like=node("a"))
    assert (plan.status, plan.packed, plan.lower_bound) == ("found", {"a": 4}, 4)
    assert plan.nodes > 4
    assert plan.headline() == f"found: {plan.nodes} nodes, 4 if the pods are packed, at least 4 are needed"


def test_a_packing_is_one_that_all_filters_let_be() -> None:
    webs = [pod(f"web{at}", labels={"app": "web"}, affinity=apart(ZONE)) for at in range(2)]
    plan = scheduler().ask.nodes_needed(webs, like=[node("a", "y"), node("b", "z")])
    assert (plan.status, plan.nodes, plan.packed) == ("found", 2, plan.counts)
    assert scheduler().ask.nodes_needed(webs, like=node("a", "y"), max=3).packed is None
    ports = [pod(f"p{at}", ports=[port(80)], labels={"at": str(at)}) for at in range(3)]
    assert scheduler().ask.nodes_needed(ports, like=node("a")).packed == {"a": 3}


def test_pods_of_a_new_daemon_set_need_no_new_node(source: str) -> None:
    nodes = [node(f"n{at}") for at in range(3)]
    agents = [pod(f"agent-{one.name}", requests={"cpu": "2500m"}, affinity=pinned(one.name)) for one in nodes]
    plan = scheduler(nodes).ask.nodes_needed(agents, like="n0")
    assert (plan.status, plan.nodes) == ("found", 0)
    agents[0] = pod("agent-n0", requests={"cpu": "4500m"}, affinity=pinned("n0"))
    assert scheduler(nodes).ask.nodes_needed(agents, like=node("big", cpu="8")).status == "impossible"


def test_new_pods_are_admitted_and_pods_of_the_cluster_are_not() -> None:
    limits = {"limits": [{"type": "Container", "defaultRequest": {"cpu": 2}}]}
    policies = (
        make("LimitRange", "default/l", limits),
        make("ResourceQuota", "default/q", {"hard": {"pods": 3}}),
    )
    one = scheduler(policies, node("a"), pod("old"))
    plan = one.ask.nodes_needed((pod("web"), 2), like="a")
    assert (plan.status, plan.nodes) == ("found", 0)
    assert one.ask.nodes_needed([pod("x", requests={"cpu": 3}), pod("y")], like="a").nodes == 1
    assert one.ask.nodes_needed([pod("old"), pod("x"), pod("y")], like="a").status == "found"
    plan = one.ask.nodes_needed((pod("web"), 4), like="a")
    assert (plan.status, plan.counts, plan.lower_bound) == ("impossible", {"a": 0}, None)
    assert [*plan.unplaced] == ["default/web#2", "default/web#3"]
    text = "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"
    assert plan.proof == f'The API server refuses 2 pods: pods "web#2" is forbidden: {text}'
    assert plan.unplaced["default/web#3"].endswith(text)
    assert one.ask.nodes_needed((pod("web"), 3), like="a").proof.startswith(
        "The API server refuses 1 pod: pods"
    )
    assert one.ask.nodes_needed(like="a").status == "found"
    plan = one.ask.nodes_needed((pod("web", requests={"cpu": 3}), 4), like="a")  # two are refused
    assert (plan.status, plan.counts, plan.lower_bound) == ("impossible", {"a": 1}, None)
    assert plan.headline().startswith("impossible: with 1 node 2 pods have no place; The API server")


def test_domains_without_a_template_are_named() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    constraint["labelSelector"] = {"matchLabels": {"app": "x"}}
    wanted = pod("p", labels={"app": "x"}, topology_spread_constraints=[constraint])
    one = scheduler([node(f"n{zone}", zone, pods=0) for zone in "abc"], node("big", "a", pods=0))
    needed = one.ask.nodes_needed((wanted, 3), like=node("like", "a", pods=1))
    assert needed.notes == (
        f"No template is in {ZONE} b, c, on which pods without a place depend; --like NODE,zone=b adds one.",
    )
    zones = [node(f"like-{zone}", zone, pods=1) for zone in "abc"]
    assert one.ask.nodes_needed((wanted, 3), like=zones).notes == ()
