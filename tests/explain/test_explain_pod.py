"""Explaining one pod: groups of nodes, needs, ranks, changes, conflicts, and that nothing of it stays."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from tests.controllers.workloads.make import job, machine, replicas
from tests.core.make import pinned
from tests.doors.cluster import finer_constraints, term_constraints
from tests.doors.engine import schedule_one
from tests.make import ZONE, Json, make, node, pod, port, scheduler
from tests.scheduler.cycle.test_examine import MALFORMED, named

from moorage import Scheduler
from moorage.answers.explain import Explanation
from moorage.kube import Affinity, Pod, PodAffinity, Taint, Toleration, build_cluster
from moorage.store import NotFoundError

NOT_READY = "node.kubernetes.io/not-ready"
SPOT = Taint(key="spot", value="yes", effect="NoSchedule")


def needs(seen: Explanation, node_name: str) -> list[str]:
    return [fact.text for fact in seen.node(node_name).evidence if fact.is_need]


def texts(one: Scheduler, asked: Pod) -> list[tuple[str, int]]:
    return [(change.text, change.feasible_nodes) for change in one.ask.explain(asked).changes]


# ---- verdicts, groups, needs -----------------------------------------------------------------------------


def test_all_that_a_node_lacks() -> None:
    one = scheduler(
        node("a", cpu=1, labels={"disk": "hdd"}, taints=[SPOT], unschedulable=True, pods="1"),
        node("b", labels={"disk": "ssd", "rack": "r1"}),
        [pod("web", on="a", requests={"memory": "8000Mi"}, ports=[port(80), port(81, "10.0.0.1")])],
    )
    asked = pod(
        "p",
        requests={"cpu": "1500m", "memory": "1Gi"},
        ports=[port(80, "10.0.0.9"), port(81, "10.0.0.2"), port(82)],
        node_selector={"disk": "ssd", "rack": "r1"},
    )
    assert needs(one.ask.explain(asked), "a") == [
        "untolerated taint spot=yes:NoSchedule",
        "cordoned (node.kubernetes.io/unschedulable:NoSchedule)",
        "label disk=ssd",
        "label rack=r1",
        "host port 10.0.0.9:80/TCP",
        "it has 1 of 1 pods",
        "500m more cpu",
        "832Mi more memory",
    ]
    assert needs(one.ask.explain(asked), "b") == []
    with pytest.raises(KeyError):
        one.ask.explain(asked).node("c")


def test_of_several_terms_the_nearest_one_is_lacking() -> None:
    seen = scheduler(node("a"), node("b")).ask.explain(pod("p", affinity=named(("b", "c"), ("b",))))
    assert needs(seen, "a") == ["field metadata.name In [b]"]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


def on_labels(*terms: dict[str, str]) -> Json:
    """Required node affinity: per term, one In requirement for each of its labels."""
    listed = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in term.items()
            ]
        }
        for term in terms
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}


def near(key: str, side: str = "podAffinity") -> Json:
    """A term about pods of the app web."""
    return {side: {REQUIRED: [WEB | {"topologyKey": key}]}}


def test_labels_of_a_term_that_a_node_lacks() -> None:
    seen = scheduler(node("a", labels={"disk": "ssd"})).ask.explain(
        pod("p", affinity=on_labels({"disk": "ssd", "rack": "r"}))
    )
    assert needs(seen, "a") == ["label rack In [r]"]


def test_the_table_has_no_rank_and_no_total_where_the_pod_does_not_fit() -> None:
    seen = scheduler(node("a"), node("small", cpu=1)).ask.explain(pod("p", requests={"cpu": 2}))
    table = seen.table().to_dict()
    assert (table["node"], table["rank"]) == (["a", "small"], [1, 0])
    assert table["total"] == [seen.ranking()[0].total, 0]
    assert table["reasons"] == [None, "Insufficient cpu"]


def test_ranks_are_those_of_the_totals() -> None:
    one = scheduler(node("a", cpu=4), node("b", cpu=8), node("c", cpu=4), node("d", cpu=1))
    seen = one.ask.explain(pod("p", requests={"cpu": 2, "memory": "1Gi"}))
    assert [(row.rank, row.node) for row in seen.ranking()] == [(1, "b"), (2, "a"), (2, "c")]
    best = seen.ranking(1)
    assert [row.node for row in best] == seen.examination.best
    assert best[0].total == sum(seen.weights[name] * score for name, score in best[0].normalized.items())
    assert best[0].raw["NodeResourcesFit"] == seen.examination.raw["NodeResourcesFit"][1]
    assert seen.node("c").score == seen.ranking()[2]
    assert seen.node("d").score is None


# ---- PreFilter, and pods that are not waiting ------------------------------------------------------------


def test_nodes_that_pre_filter_leaves_out() -> None:
    seen = scheduler(node("a"), node("b", cpu=1), node("c")).ask.explain(
        pod("p", affinity=pinned("b"), requests={"cpu": 2})
    )
    assert [(group.nodes, group.verdicts[0].plugin) for group in seen.groups] == [
        (["a", "c"], "NodeAffinity"),
        (["b"], "NodeResourcesFit"),
    ]
    assert seen.groups[0].verdicts[0].reasons == ("node(s) didn't satisfy plugin(s) [NodeAffinity]",)
    assert [(change.kind, change.feasible_nodes) for change in seen.changes] == [
        ("lower-request", 1),
        ("drop", 2),
    ]


def test_a_rejection_by_pre_filter_is_every_nodes() -> None:
    seen = scheduler(node("a"), node("b")).ask.explain(pod("p", affinity=named(("a", "b"))))
    assert seen.message == "0/2 nodes are available: pod affinity terms conflict."
    assert [(group.nodes, group.verdicts[0].message()) for group in seen.groups] == [
        (["a", "b"], "pod affinity terms conflict")
    ]
    assert [(change.text, change.feasible_nodes) for change in seen.changes] == [
        ("drop node-affinity all required terms", 2),
        ("drop node-affinity metadata.name In [a]", 1),
        ("drop node-affinity metadata.name In [b]", 1),
    ]


def test_a_bound_pod_is_explained_without_what_it_uses() -> None:
    big = pod("big", on="a", requests={"cpu": 4}, ports=[port(80)])
    one = scheduler(node("a"), node("b"), [big, pod("other", on="b", requests={"cpu": 1})])
    for asked in (big, "default/big"):
        seen = one.ask.explain(asked)
        assert (seen.bound_to, seen.feasible, seen.pod.spec.node_name) == ("a", ["a"], "")
        assert needs(seen, "b") == ["1 more cpu"]
    assert one.cache.get_pod(big).spec.node_name == "a"
    assert one.ask.explain(pod("next", requests={"cpu": 1})).feasible == ["b"]


def test_an_assumed_pod_too() -> None:
    one = scheduler(node("a"))
    assert schedule_one(one.context, pod("p", requests={"cpu": 4})).node == "a"
    seen = one.ask.explain(pod("p", requests={"cpu": 4}))
    assert (seen.bound_to, seen.feasible) == ("a", ["a"])
    assert one.cache.is_assumed_pod(pod("p"))


def test_a_cluster_without_nodes_has_no_changes_to_offer() -> None:
    seen = scheduler().ask.explain(pod("p", requests={"cpu": 1}))
    assert (seen.message, seen.order, seen.groups, seen.changes) == (
        "no nodes available to schedule pods",
        [],
        [],
        [],
    )


def test_a_cycle_that_fails_with_an_error() -> None:
    seen = scheduler(node("a"), node("b")).ask.explain(MALFORMED)
    assert seen.message.startswith('running PreScore plugin "NodeAffinity": ')
    assert (seen.ranking(), seen.changes, seen.conflicts) == ([], [], [])


# ---- changes ---------------------------------------------------------------------------------------------


def test_changes_come_by_kind_then_by_amount() -> None:
    one = scheduler(node("a", taints=[SPOT]), node("b", cpu=3), node("c", cpu=3), node("d", memory="6Gi"))
    asked = pod("p", requests={"cpu": 4, "memory": "8Gi"}, node_selector={})
    assert texts(one, asked) == [
        ("lower the cpu request of container c from 4 to 3", 2),
        ("lower the memory request of container c from 8Gi to 6Gi", 1),
        ("tolerate spot=yes:NoSchedule", 1),
        ("remove the taint spot=yes:NoSchedule from node a", 1),
    ]
    amounts = [change.amount for change in one.ask.explain(asked).changes]
    assert amounts == [0.25, 0.25, 0.0, 0.0]
    one = scheduler(node("b", cpu=2), node("d", memory="7Gi"))
    changes = one.ask.explain(pod("p", requests={"cpu": 4, "memory": "8Gi"})).changes
    assert [(change.values["resource"], change.amount) for change in changes] == [
        ("memory", 0.125),
        ("cpu", 0.5),
    ]


def test_one_toleration_covers_taints_of_one_key() -> None:
    both = [Taint(key=NOT_READY, effect="NoSchedule"), Taint(key=NOT_READY, effect="NoExecute")]
    one = scheduler(node("a", taints=both), node("b", taints=[*both, SPOT]))
    seen = one.ask.explain(pod("p"))
    found = [change for change in seen.changes if change.kind == "add-toleration"]
    assert [(change.text, change.feasible_nodes) for change in found] == [(f"tolerate {NOT_READY}:*", 1)]
    assert found[0].pod.spec.tolerations == (Toleration(key=NOT_READY, operator="Equal"),)


def test_too_many_pods_ask_for_another_node() -> None:
    held = [pod("b0", on="small"), pod("b1", on="large")]
    small = node("small", cpu=2, pods="1", labels={"kubernetes.io/hostname": "small", "x": "y"})
    one = scheduler(node("large", cpu=8, pods="1"), small, held)
    (change,) = one.ask.explain(pod("p", requests={"cpu": 1})).changes
    assert (change.kind, change.values["like"], change.feasible_nodes) == ("add-node", "small", 1)
    new = change.edits[0].change(None)
    assert new.metadata.labels == {"kubernetes.io/hostname": "small-copy", "x": "y"}


def test_a_new_node_does_not_have_the_state_of_its_template() -> None:
    taints = [Taint(key=NOT_READY, effect="NoSchedule"), SPOT]
    one = scheduler(node("a", taints=taints, unschedulable=True))
    spot = Toleration(key="spot", operator="Exists")
    (change,) = [c for c in one.ask.explain(pod("p", tolerations=(spot,))).changes if c.kind == "add-node"]
    new = change.edits[0].change(None)
    assert (new.spec.taints, new.spec.unschedulable) == ((SPOT,), False)


def test_a_node_can_join_the_domain_that_it_lacks() -> None:
    labels = {"app": "web"}
    spread = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    held = [pod("web", on="a", labels=labels)]
    one = scheduler(node("a", labels={"rack": "r1"}, pods="1"), node("b"), node("c"), held)
    asked = pod("p", labels=labels, topologySpreadConstraints=[spread | WEB])
    assert [change.text for change in one.ask.explain(asked).changes] == [
        "drop topology-spread rack (maxSkew 1)",
        "add a node like a (4 cpu, 8Gi memory), with rack=another",
    ]
    one.cache.remove_pod(held[0])
    one.cache.add_pod(pod("db", on="a"))
    (label, *_) = one.ask.explain(asked).changes
    assert (label.text, label.values["eligibleNodes"]) == ("label node b with rack=r1", 2)


def test_only_so_much_is_tried() -> None:
    kinds = [{"taints": [Taint(key=f"k{at}", effect="NoSchedule")]} for at in range(40)]
    tainted = scheduler(*(node(f"n{at}", pods="1", **each) for at, each in enumerate(kinds)))
    changes = tainted.ask.explain(pod("p")).changes
    assert [change.kind for change in changes] == ["add-toleration"] * 32 + ["remove-taint"] * 32
    asked = pod("p", node_selector={"disk": "ssd"}, affinity=near(ZONE, "podAntiAffinity"))
    (label, *_) = scheduler(*(node(f"n{at}") for at in range(40))).ask.explain(asked).changes
    assert (label.text, label.values["eligibleNodes"]) == ("label node n0 with disk=ssd", 32)


@pytest.mark.parametrize(("others", "labels"), [(31, ["disk=ssd", "rack=r1"]), (32, ["disk=ssd"])])
def test_the_labels_of_all_keys_share_one_limit(others: int, labels: list[str]) -> None:
    both = {"disk": "ssd", "rack": "r1"}
    asked = pod("p", node_selector=both, affinity=near(ZONE, "podAntiAffinity"))
    nodes = [node(f"n{at}", labels={"rack": "r1"}) for at in range(others)]
    changes = scheduler(*nodes, node("m", labels={"disk": "ssd"})).ask.explain(asked).changes
    assert [one.text.rpartition(" ")[2] for one in changes if one.kind == "add-label"] == labels


def test_the_largest_domains_are_tried_and_of_equal_ones_the_first_by_name() -> None:
    racks = [node(f"n{at}", labels={"rack": f"r{at}"}, pods="1") for at in (5, 1, 2, 3, 4)]
    web = [pod(f"web{at}", on=f"n{at}", labels={"app": "web"}) for at in (4, 5)]
    asked = pod("p", requests={"cpu": 1}, affinity=near("rack"))
    changes = scheduler(*racks, node("free"), web).ask.explain(asked).changes
    assert [one.text for one in changes if one.kind == "add-label"] == ["label node free with rack=r4"]


@pytest.mark.parametrize(("kinds", "is_found"), [(63, True), (64, False)])
def test_so_many_kinds_of_new_nodes_are_tried(kinds: int, is_found: bool) -> None:
    small = [node(f"n{at}", cpu=2, taints=[Taint(key=f"k{at}", effect="NoSchedule")]) for at in range(kinds)]
    full = pod("full", on="large", requests={"cpu": 4})
    changes = (
        scheduler(*small, node("large", cpu=4), [full]).ask.explain(pod("p", requests={"cpu": 2})).changes
    )
    assert ("add-node" in [one.kind for one in changes]) == is_found


def test_a_host_port_can_be_dropped() -> None:
    one = scheduler(node("a"), [pod("web", on="a", ports=[port(80)])])
    asked = pod("p", ports=[port(80), port(443)])
    (_, drop) = one.ask.explain(asked).changes
    assert drop.text == "drop host-port 80/TCP"
    assert [each.host_port for each in drop.pod.spec.containers[0].ports] == [0, 443]
    (_, drop) = one.ask.explain(replace(asked, spec=replace(asked.spec, host_network=True))).changes
    assert drop.text == "drop host-network (80/TCP, 443/TCP)"
    assert not drop.pod.spec.host_network
    assert [each.host_port for each in drop.pod.spec.containers[0].ports] == [0, 0]


def test_terms_about_other_pods_are_constraints() -> None:
    spread = WEB | {"maxSkew": 1, "topologyKey": ZONE}
    spreads = [spread | {"whenUnsatisfiable": when} for when in ("DoNotSchedule", "ScheduleAnyway")]
    affinity = near(ZONE) | near(ZONE, "podAntiAffinity")
    asked = pod("p", topologySpreadConstraints=spreads, affinity=affinity)
    found = list(term_constraints(asked))
    assert [constraint.text for constraint in found] == [
        f"topology-spread {ZONE} (maxSkew 1)",
        f"pod-affinity app=web per {ZONE}",
        f"pod-anti-affinity app=web per {ZONE}",
    ]
    bare = asked
    for constraint in found:
        bare = constraint.drop(bare)
    assert bare.spec.topology_spread_constraints == asked.spec.topology_spread_constraints[1:]
    assert bare.spec.affinity == Affinity(pod_affinity=PodAffinity(), pod_anti_affinity=PodAffinity())


def test_requirements_of_one_of_several_terms_are_constraints_of_their_own() -> None:
    asked = pod("p", affinity=on_labels({"a": "1"}, {"b": "2", "c": "3"}))
    finer = list(finer_constraints(asked))
    assert len(finer) == 2, "of the second term alone"
    assert list(finer_constraints(pod("q", affinity=on_labels({"a": "1"}, {"b": "2"})))) == []


# ---- conflicts -------------------------------------------------------------------------------------------


def test_very_many_taints_count_as_one_constraint() -> None:
    nodes = [
        node(f"n{at}", cpu=1, taints=[Taint(key=f"k{at}", effect="NoSchedule"), SPOT]) for at in range(40)
    ]
    (first, second) = scheduler(*nodes).ask.explain(pod("p", requests={"cpu": 2})).conflicts
    assert ([each.text for each in first], [each.text for each in second]) == (
        ["request cpu"],
        ["taint every taint"],
    )


# ---- nothing stays ---------------------------------------------------------------------------------------


def test_an_explanation_changes_no_later_decision() -> None:
    def world() -> Scheduler:
        pods = [pod(f"p{at}", requests={"cpu": 1}) for at in range(6)]
        pods += [pod("held", on="n1", requests={"cpu": 1}), pod("big", requests={"cpu": 9})]
        nodes = [node(f"n{at}", zone=f"z{at % 2}", taints=[SPOT] * (at == 3)) for at in range(4)]
        return scheduler(*nodes, pods)

    untouched, asked = world(), world()
    for name in ("big", "p0", "held"):
        asked.ask.explain(f"default/{name}")
    assert asked.cache.state.log.head == untouched.cache.state.log.head
    assert len(asked.cache.state.ledger) == len(untouched.cache.state.ledger)
    assert asked.context.view_order() == untouched.context.view_order()
    assert asked.placer.decider.start == untouched.placer.decider.start
    assert list(asked.run().placements.items()) == list(untouched.run().placements.items())
    for resource in ("cpu", "memory", "pods"):
        np.testing.assert_array_equal(asked.table.requested[resource], untouched.table.requested[resource])


# ---- names -----------------------------------------------------------------------------------------------


def test_a_workload_is_explained_by_its_first_pod_without_a_node() -> None:
    full = replicas("Deployment", "web", 3, "3")
    one = Scheduler(build_cluster([machine("a"), machine("b"), full, job("once", 1)]))
    one.run()
    listed: list[Pod] = one.client.list(Pod)[0]
    (waiting,) = (each for each in listed if not each.spec.node_name)
    for name in ("deploy/web", "deployment.apps/web", "deploy/default/web"):
        assert one.ask.explain(name).pod.key == waiting.key
    assert one.ask.explain(f"pod/{waiting.name}").pod.key == waiting.key
    (owner,) = waiting.metadata.owner_references
    assert one.ask.explain(f"rs/{owner.name}").pod.key == waiting.key
    assert one.ask.explain("job/once").pod.key.startswith("default/once-")


def test_a_pod_precedes_a_workload_of_that_name() -> None:
    namesake = make("Pod", "web", {"containers": [{"name": "c"}]}, metadata={"namespace": "deploy"})
    one = Scheduler(build_cluster([machine("a"), replicas("Deployment", "web", 1), namesake]))
    assert one.ask.explain("deploy/web").pod.key == "deploy/web"


ABSENT = {"nothing/web": 'there is no kind "nothing"', "web": 'no node, workload or pod is named "web"'}
ABSENT |= {"pod/web": 'there is no Pod "default/web"'}
ABSENT |= {"deploy/web": 'there is no Deployment "default/web"'}
ABSENT |= {"deploy/n/web": 'there is no Deployment "n/web"'}


@pytest.mark.parametrize("name", ABSENT)
def test_a_name_that_nothing_has(name: str) -> None:
    with pytest.raises(NotFoundError, match=f"^{ABSENT[name]}"):
        scheduler(node("a")).ask.explain(name)


def test_a_workload_that_is_not_there_is_told_with_those_like_it() -> None:
    one = Scheduler(build_cluster([machine("a"), replicas("Deployment", "web", 1)]))
    with pytest.raises(NotFoundError, match=r'no Deployment "default/wep"; nearest: web$'):
        one.ask.explain("deploy/wep")


def test_dry_runs_of_preemption_end_with_enough_candidates() -> None:
    nodes = [node(f"n{at}", cpu=1) for at in range(150)]
    victims = [pod(f"v{at}", on=f"n{at}", requests={"cpu": 1}) for at in range(150)]
    found = scheduler(*nodes, victims).ask.explain(pod("p", requests={"cpu": 1}, priority=5)).preemption
    assert found is not None
    assert len(found.dry_run.candidates) == 100
