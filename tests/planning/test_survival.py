"""Survival: every domain is lost in turn, and the answer is that of `remove_nodes` and a run."""

from __future__ import annotations

import gc
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage import Scheduler
from moorage.answers import Survival
from moorage.errors import InputError
from moorage.kube import Pod
from tests.make import make, node, owned, pod, scheduler, workload


def lost(survival: Survival) -> dict[str, list[str]]:
    return {"+".join(one.domains): [lost.pod for lost in one.lost] for one in survival.losses}


def test_nodes_whose_pods_fit_elsewhere_can_be_lost() -> None:
    pods = [
        pod(name, on=on, requests={"cpu": cpu}, owner="web")
        for name, on, cpu in (("p", "a", 3), ("q", "b", 2))
    ]
    one = scheduler([node("a"), node("b"), node("c", cpu="2")], pods)
    found = one.ask.survive()
    assert lost(found) == {"a": ["default/p"]}
    assert not found
    (loss,) = found.losses
    assert (loss.nodes, loss.pods, loss.lost[0].workload) == (1, 1, "replicaset/web")
    assert loss.lost[0].reason == "0/2 nodes are available: 2 Insufficient cpu."
    assert found.headline() == "1 loss leaves pods out; tried each of 3 alone"
    assert one.client.get(Pod, "p", "default").spec.node_name == "a"  # nothing has changed


def test_the_losses_with_the_most_pods_come_first() -> None:
    pods = [pod(name, on=name[0], owner="web", requests={"cpu": 2}) for name in ("a1", "b1", "b2")]
    found = scheduler([node("a", cpu="2"), node("b")], pods).ask.survive()
    assert lost(found) == {"b": ["default/b1", "default/b2"], "a": ["default/a1"]}
    assert [len(loss.lost) for loss in found.losses] == [2, 1]


def test_a_domain_is_all_nodes_with_a_value_of_the_label() -> None:
    nodes = [node("a1", "a"), node("a2", "a"), node("b", "b", cpu="5"), node("c")]
    pods = [pod(f"p{at}", on=on, requests={"cpu": 4}, owner="web") for at, on in enumerate(("a1", "a2"))]
    found = scheduler(nodes, pods).ask.survive("zone")
    assert (found.by, found.domains, found.without_label) == ("topology.kubernetes.io/zone", 2, 1)
    assert found
    found = scheduler(nodes[:3], pods).ask.survive("topology.kubernetes.io/zone")
    assert lost(found) == {"a": ["default/p1"]}
    with pytest.raises(InputError, match='no node has the label "rack"'):
        scheduler(nodes, pods).ask.survive("rack")
    with pytest.raises(InputError, match=r"\"topology/zone\"; nearest: topology\.kubernetes\.io/zone"):
        scheduler(nodes, pods).ask.survive("topology/zone")
    with pytest.raises(InputError, match=r'"eks\.amazonaws\.com/nodegroup" or '):
        scheduler(nodes, pods).ask.survive("pool")


def test_pods_without_a_controller_are_lost_and_those_of_daemon_sets_go_with_their_node() -> None:
    daemon = pod("log", "a", metadata=owned("DaemonSet", "log"))
    assert scheduler([node("a"), node("b")], [daemon]).ask.survive()
    found = scheduler([node("a"), node("b")], [daemon, pod("bare", on="b")]).ask.survive()
    assert lost(found) == {"b": ["default/bare"]}
    assert found.losses[0].lost[0].reason == "no controller would replace it"


def test_pods_that_are_evicted_for_lost_ones_are_placed_or_lost_too() -> None:
    pods = [
        pod("high", on="a", requests={"cpu": 4}, owner="db", priority=9),
        pod("low", on="b", requests={"cpu": 4}, owner="batch", priority=0),
    ]
    found = scheduler([node("a"), node("b")], pods).ask.survive()
    assert lost(found) == {"a": ["default/low"], "b": ["default/low"]}
    assert scheduler([node("a"), node("b"), node("c")], pods).ask.survive()


def test_simulated_controllers_make_their_pods_again_and_ordered_ones_wait() -> None:
    one = scheduler(node("a"), node("b"), workload("StatefulSet", "db", 2, {"cpu": 3}))
    one.run()
    found = one.ask.survive()
    assert sorted(pods[0] for pods in lost(found).values()) == ["default/db-0", "default/db-1"]
    assert found.losses[0].lost[0].workload == "statefulset/db"


def test_pods_without_a_place_before_any_loss_do_not_count() -> None:
    big = pod("big", requests={"cpu": 9}, owner="web")
    found = scheduler(
        [node("a"), node("b")], [big, pod("p", on="a", requests={"cpu": 1}, owner="web")]
    ).ask.survive()
    assert found


def test_several_domains_are_lost_together_until_the_search_is_stopped() -> None:
    nodes = [node("a"), node("b"), node("c"), node("d", cpu="1")]
    pods = [pod(f"p-{name}", on=name, requests={"cpu": 3}, owner="web") for name in "bc"]
    found = scheduler(nodes, pods).ask.survive(at_once=2)
    found_sets = {"+".join(sorted(key.split("+"))): gone for key, gone in lost(found).items()}
    assert found_sets == {"a+b": ["default/p-b"], "a+c": ["default/p-c"], "b+c": ["default/p-c"]}
    assert (found.sets, found.possible, found.worst) == (6, 6, 4)
    assert found.searched == "each of 4 alone, and 6 of 6 sets of 2"
    calls = iter([True, True, False])
    found = scheduler(nodes, pods).ask.survive(at_once=2, go_on=lambda: next(calls))
    assert (found.sets, found.worst) == (2, 2)
    assert found.searched == "each of 4 alone, and 2 of 6 sets of 2: all among the 2 fullest"
    found = scheduler(nodes, pods).ask.survive(at_once=3)
    assert found.possible == 10
    assert found.searched == "each of 4 alone, and 10 of 10 sets of 2 to 3"
    for wrong in (0, 5):
        with pytest.raises(
            InputError, match=f"at_once: must be from 1 to 4, the number of nodes, not {wrong}"
        ):
            scheduler(nodes, pods).ask.survive(at_once=wrong)


def test_sets_with_a_domain_that_fails_alone_are_not_tried() -> None:
    nodes = [node("a", cpu="9"), node("b"), node("c")]
    found = scheduler(nodes, [pod("p", on="a", requests={"cpu": 8}, owner="web")]).ask.survive(at_once=2)
    assert lost(found) == {"a": ["default/p"]}
    assert (found.sets, found.possible) == (1, 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=7))
def test_each_answer_is_that_of_remove_nodes_and_a_run(placed: list[tuple[str, int]]) -> None:
    def make() -> Scheduler:
        pods = [
            pod(f"p{at}", on=on, requests={"cpu": cpu}, owner="web") for at, (on, cpu) in enumerate(placed)
        ]
        return scheduler([node(name, cpu="6") for name in "abc"], pods)

    found = lost(make().ask.survive())
    for name in "abc":
        one = make()
        one.change.remove_nodes([name])
        assert len(one.run().unschedulable) == len(found.get(name, ()))


def test_the_table_and_the_document_have_the_losses() -> None:
    found = scheduler([node("a")], [pod("p", on="a", owner="web")]).ask.survive()
    assert found.table().to_dict() == {"domains": ["a"], "nodes": [1], "pods": [1], "lost": [1]}
    lost_pod = {
        "pod": "default/p",
        "workload": "replicaset/web",
        "reason": "no nodes available to schedule pods",
        "problem": "unschedulable",
        "asBefore": False,
    }
    assert found.to_dict() == {
        "by": "node",
        "domains": 1,
        "withoutLabel": 0,
        "only": "",
        "withinBudgets": False,
        "isCompared": False,
        "grows": False,
        "detaches": False,
        "survived": False,
        "losses": [{"domains": ["a"], "nodes": 1, "pods": 1, "lost": [lost_pod]}],
        "searched": {"atOnce": 1, "sets": 0, "possible": 0, "worst": 0},
    }


# ---- beside the cluster before a change --------------------------------------------------------------------


def full(*on: str) -> list[Pod]:
    return [pod(f"p-{name}", on=name, requests={"cpu": 4}, owner="web") for name in on]


def test_a_domain_that_is_new_is_compared_with_the_worst_loss() -> None:
    before = scheduler([node("a"), node("b")], full("a", "b"))
    after = scheduler([node("a"), node("c")], full("a", "c"))
    found = after.ask.survive(before=before)
    assert found
    assert lost(found) == {"a": ["default/p-a"], "c": ["default/p-c"]}
    assert found.headline().startswith(
        "the loss of no node leaves more pods out than before; tried each of 2"
    )
    assert not after.ask.survive(before=scheduler([node("a"), node("b")], full("a")))


def test_a_pod_that_waited_before_may_wait_after_a_loss() -> None:
    waiting = [pod("p-c", requests={"cpu": 4}, owner="job")]
    before = scheduler([node("a"), node("b")], [*full("a", "b"), *waiting])
    after = scheduler([node("a"), node("b"), node("c")], [*full("a", "b"), *waiting])
    found = after.ask.survive(before=before)
    (loss,) = [one for one in found.losses if one.domains == ("c",)]
    assert [(one.pod, one.as_before) for one in loss.lost] == [("default/p-c", True)]
    assert not after.ask.survive()


def test_losses_by_a_label_that_no_node_had_are_new() -> None:
    before = scheduler([node("a"), node("b")], [])
    after = scheduler([node("a", "z"), node("b", "y")], full("a", "b"))
    assert [loss.is_worse for loss in after.ask.survive("zone", before=before).losses] == [True, True]


def test_pods_may_be_lost_while_their_budget_holds() -> None:
    pods = [
        pod(name, on=name, requests={"cpu": 4}, owner="web", labels={"app": "web"})
        for name in ("a", "b", "c")
    ]
    for least, holds in ((2, True), (3, False)):
        spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": least}
        budget = make("PodDisruptionBudget", "default/b", spec)
        found = scheduler(node("a"), node("b"), node("c"), pods, budget)
        assert bool(found.ask.survive(within_budgets=True)) == holds
        assert not found.ask.survive()


def test_a_loss_leaves_nothing_of_each_host_behind() -> None:
    hosts, apps = 1000, range(8)
    nodes = [node(f"n{at}", labels={"kubernetes.io/hostname": f"n{at}"}) for at in range(hosts)]
    sets = [workload("ReplicaSet", f"w{at}", 1, metadata={"uid": f"w{at}"}) for at in apps]
    pods = [pod(f"p{at}", f"n{at}", owner=f"w{at}", labels={"app": f"w{at}"}) for at in apps]
    one = scheduler(nodes, sets, pods)
    assert one.can_schedule_pod(pod("new"))
    left = []
    with one.transaction():
        for at in apps:
            with one.transaction():
                one.change.remove_nodes([f"n{at}"])
                assert len(one.run().placements) == 1
            gc.collect(1)  # of what the loss has made; all that there is takes seconds to look at
            left.append((one.cache.state.mark()[0], sys.getallocatedblocks()))
    (journal, blocks), (journal_at_end, blocks_at_end) = left[1], left[-1]
    assert journal_at_end - journal < 4 * hosts  # not one column of the node list
    assert blocks_at_end - blocks < hosts
