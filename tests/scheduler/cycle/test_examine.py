"""Examining one pod, single cycles, and the texts of a diagnosis."""

from __future__ import annotations

import numpy as np
import pytest
from tests.doors.engine import schedule_one
from tests.make import node, pod, scheduler

from moorage import Scheduler, default_profile
from moorage.engine.framework import Code, CycleState, NodesView, PreFilterPlugin, Status
from moorage.engine.scheduler import Profile
from moorage.errors import CacheError
from moorage.kube import (
    Affinity,
    Cluster,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    Taint,
)


def named(*terms: tuple[str, ...]) -> Affinity:
    """Required node affinity: per term, one metadata.name In field for each of its names."""
    return Affinity(
        node_affinity=NodeAffinity(
            required=NodeSelector(
                node_selector_terms=tuple(
                    NodeSelectorTerm(
                        match_fields=tuple(
                            NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,))
                            for name in term
                        )
                    )
                    for term in terms
                )
            )
        )
    )


def prefers(key: str, operator: str, *values: str, weight: int = 10) -> Affinity:
    need = NodeSelectorRequirement(key=key, operator=operator, values=values)
    term = PreferredSchedulingTerm(weight=weight, preference=NodeSelectorTerm(match_expressions=(need,)))
    return Affinity(node_affinity=NodeAffinity(preferred=(term,)))


def test_an_examination_changes_nothing() -> None:
    one = scheduler(node("a"), node("b"))
    head = one.cache.state.log.head
    seen = one.examine(pod("p", requests={"cpu": 1}))
    assert (seen.order, seen.feasible, seen.best, seen.rejected) == (["a", "b"], ["a", "b"], ["a", "b"], {})
    assert (one.cache.state.log.head, one.placer.decider.start, len(one.cache.state.ledger)) == (head, 0, 0)


def test_a_question_with_a_limit_ends_with_the_first_nodes() -> None:
    one = scheduler(*(node(f"n{at}", cpu="1" if at % 3 else "4") for at in range(90)))
    wanted = pod("p", requests={"cpu": 2})
    one.placer.decider.start = 40
    every = one.can_schedule_pod(wanted).nodes
    assert len(every) == 30
    for limit in (1, 7, 30, 500):
        assert one.can_schedule_pod(wanted, limit=limit).nodes == every[:limit]
    assert one.placer.decider.start == 40
    large = pod("q", requests={"cpu": 9})
    assert one.can_schedule_pod(large, limit=1) == one.can_schedule_pod(large)
    placed = pod("r", affinity=named(("n3",), ("n4",)), requests={"cpu": 2})
    assert one.can_schedule_pod(placed, limit=2).nodes == ("n3",)
    with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
        one.can_schedule_pod(wanted, limit=0)


def test_an_examination_is_never_sampled() -> None:
    one = scheduler(*(node(f"n{at}") for at in range(300)), percentage_of_nodes_to_score=10)
    assert len(one.examine(pod("p")).feasible) == 300


def test_totals_are_weighted_sums_of_the_normalized_scores() -> None:
    soft = [Taint(key="t", effect="PreferNoSchedule")]
    one = scheduler(node("a", cpu=9, labels={"d": "x"}), node("b", cpu=3), node("c", taints=soft))
    seen = one.examine(pod("p", requests={"cpu": 1, "memory": "1Gi"}, affinity=prefers("d", "Exists")))
    weights = one.profile.weights
    total = sum(weights[name] * column for name, column in seen.normalized.items())
    np.testing.assert_array_equal(total, seen.total)
    assert (seen.raw["NodeAffinity"].tolist(), seen.normalized["NodeAffinity"].tolist()) == (
        [10, 0, 0],
        [100, 0, 0],
    )
    assert (seen.raw["TaintToleration"].tolist(), seen.normalized["TaintToleration"].tolist()) == (
        [0, 0, 1],
        [100, 100, 0],
    )
    assert seen.best == ["a"]
    assert seen.normalized.keys() | set(seen.skipped_score) == weights.keys()


def test_a_cluster_without_nodes_is_an_error_of_its_own() -> None:
    one = scheduler()
    seen = one.examine(pod("p"))
    assert (seen.order, seen.error, seen.fit_error) == ([], "no nodes available to schedule pods", "")
    decision = schedule_one(one.context, pod("p"))
    assert (decision.node, decision.error, decision.fit_error) == (
        None,
        "no nodes available to schedule pods",
        "",
    )


# ---- PreScore --------------------------------------------------------------------------------------------

MALFORMED = pod("p", affinity=prefers("d", "Gt", "-5"), requests={"cpu": 1})


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_malformed_preferred_term_fails_the_cycle_where_two_nodes_are_feasible(nodes: int) -> None:
    def fresh(*pods: Pod) -> Scheduler:
        return Scheduler(Cluster(nodes=[node(f"n{at}") for at in range(nodes)], pods=list(pods)))

    seen, decision = fresh().examine(MALFORMED), schedule_one(fresh().context, MALFORMED)
    result = fresh(MALFORMED).run()
    if nodes == 1:
        assert (seen.error, seen.feasible, decision.node, decision.error) == ("", ["n0"], "n0", "")
        assert result.placements == {"default/p": "n0"}
    else:
        assert seen.error.startswith('running PreScore plugin "NodeAffinity": ')
        assert (decision.node, decision.error, decision.fit_error) == (None, seen.error, "")
        assert result.unschedulable["default/p"].message == seen.error
        assert result.unschedulable["default/p"].reasons == {}


# ---- one cycle -------------------------------------------------------------------------------------------


def test_a_cycle_assumes_the_pod() -> None:
    one = scheduler(node("a"), node("b"))
    decision = schedule_one(one.context, pod("p", requests={"cpu": 1}))
    assert (decision.node, decision.feasible.tolist(), len(decision.totals)) == ("a", [0, 1], 2)
    assert one.cache.get_pod(pod("p")).spec.node_name == "a"
    with pytest.raises(CacheError, match="is in the cache, so can't be assumed"):
        schedule_one(one.context, pod("p", requests={"cpu": 1}))


def test_whether_a_pod_can_be_scheduled() -> None:
    """On which nodes, or why on none, also for a pod that could evict another. Nothing has changed then."""
    one = Scheduler(Cluster(nodes=[node("a", cpu=2), node("b", cpu=4)], pods=[pod("there", on="b")]))
    head, start = one.cache.state.log.head, one.context.rotation.start
    fits = one.can_schedule_pod(pod("p", requests={"cpu": 3}))
    assert (bool(fits), fits.nodes, fits.message) == (True, ("b",), "")
    large = one.can_schedule_pod(pod("q", priority=9, requests={"cpu": 5}))
    assert (bool(large), large.nodes) == (False, ())
    assert large.message == "0/2 nodes are available: 2 Insufficient cpu."
    nowhere = Scheduler(Cluster()).can_schedule_pod(pod("p"))
    assert (bool(nowhere), nowhere.message) == (False, "no nodes available to schedule pods")
    assert (one.cache.state.log.head, one.context.rotation.start) == (head, start)


class Broken(PreFilterPlugin):
    name = "Broken"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodesView) -> Status | None:
        return Status(Code.ERROR, ("broken",))


def test_an_error_of_prefilter_leaves_what_was_skipped_before() -> None:
    one = scheduler(node("a"), profile=Profile([*default_profile().plugins, Broken()]))
    seen = one.examine(pod("p"))
    assert seen.error == 'running PreFilter plugin "Broken": broken'
    assert "NodePorts" in seen.skipped_filter
    assert seen.pre_filter is None


def test_a_decision_stays_as_it_was_when_the_engine_goes_on() -> None:
    """Equal pods take nodes of the list that the first cycle has scored; the names of rows change hands."""
    one = scheduler(*[node(f"n{at}", cpu=2 + at) for at in range(6)])
    first = schedule_one(one.context, pod("p", requests={"cpu": 2}))
    failed = schedule_one(one.context, pod("q", requests={"cpu": 9}))
    names, totals = [f"n{at}" for at in range(6)], first.totals.tolist()
    for at in range(5):
        schedule_one(one.context, pod(f"r{at}", requests={"cpu": 2}))
    for at in range(6):
        one.store.delete(Node, f"n{at}")
        one.store.create(node(f"m{at}"))
    one.sync()
    assert one.cache.state.table.find_row("n0") is None
    assert (first.feasible_nodes, first.totals.tolist()) == (names, totals)
    assert (failed.failure.reasons, failed.feasible_nodes) == ({"Insufficient cpu": 6}, [])
