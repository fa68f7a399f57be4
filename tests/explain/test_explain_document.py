"""The document of an explanation: its schema, and that it stays readable."""

from __future__ import annotations

from tests.core.make import pinned
from tests.explain.explain_world import document
from tests.make import container, node, pod
from tests.scheduler.cycle.test_examine import named, scheduler

from moorage.kube import Taint

API_VERSION = "explain.moorage.dev/v1"

SPOT = Taint(key="spot", value="yes", effect="NoSchedule")

FIELDS = (
    "apiVersion kind pod boundTo skipped situation fits message nodes sampling preFilter skippedFilters "
    "skippedScores groups weights ranking changes tried nothingPlaces changePairs conflicts blocked notes "
    "preemption claims extenders group details"
)


NEED = {
    "kind": "resource",
    "name": "cpu",
    "nodes": 1,
    "text": "1 more cpu",
    "requested": "2",
    "least": "1",
    "most": "1",
    "allocatable": "1",
}


def test_the_document_has_its_fields_in_order() -> None:
    one = scheduler(node("a", cpu=1), node("b", cpu=1, taints=[SPOT]))
    made = document(one.ask.explain(pod("p", requests={"cpu": 2, "memory": "1Gi"})), nodes=["a"])
    assert " ".join(made) == FIELDS
    assert (made["apiVersion"], made["kind"], made["pod"]) == (API_VERSION, "Explanation", "default/p")
    assert made["groups"][0] == {
        "nodes": 1,
        "names": ["a"],
        "verdicts": [
            {
                "plugin": "NodeResourcesFit",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["Insufficient cpu"],
            }
        ],
        "needs": [NEED],
        "otherNeeds": 0,
        "blockers": [],
        "otherBlockers": 0,
    }
    assert made["changes"] == [
        {
            "kind": "lower-request",
            "text": "lower the cpu request of container c from 2 to 1",
            "feasibleNodes": 1,
            "resource": "cpu",
            "from": "2",
            "to": "1",
            "reduction": 0.5,
            "edits": [
                {
                    "path": "spec.containers[0].resources.requests[cpu]",
                    "container": "c",
                    "from": "2",
                    "to": "1",
                }
            ],
        }
    ]
    assert made["details"][0]["verdicts"]["NodeName"] is None
    assert made["details"][0]["needs"] == [NEED | {"missing": "1"}]


def test_every_kind_of_change_in_the_document() -> None:
    spare = container("c", {"cpu": 1})
    one = scheduler(
        node("a", taints=[SPOT], labels={"d": "x"}), node("b"), node("c", labels={"d": "x"}, pods="1", cpu=2)
    )
    one.cache.add_pod(pod("held", on="c"))
    made = document(one.ask.explain(pod("p", containers=(spare,), node_selector={"d": "x"})))["changes"]
    assert [{key: change[key] for key in list(change)[3:]} for change in made] == [
        {"toleration": {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}},
        {"node": "a", "eligibleNodes": 1},
        {"label": {"d": "x"}, "node": "b", "eligibleNodes": 1},
        {"like": "c", "allocatable": {"cpu": 2, "memory": "8Gi", "pods": "1"}},
        {"constraint": {"kind": "node-selector", "name": "d=x"}},
    ]


def test_large_clusters_stay_readable() -> None:
    one = scheduler(*(node(f"n{at}", cpu=1 + at % 2) for at in range(400)))
    seen = one.ask.explain(pod("p", requests={"cpu": 2}))
    made = document(seen, limit=4)
    assert (made["groups"][0]["nodes"], made["groups"][0]["names"]) == (200, ["n0", "n2", "n4"])
    assert len(made["ranking"]) == 4
    whole = document(seen, limit=None)
    assert (len(whole["groups"][0]["names"]), len(whole["ranking"])) == (200, 200)


def test_needs_that_few_nodes_have_are_left_out() -> None:
    taints = [[Taint(key=f"k{at}", effect="NoSchedule")] for at in range(30)]
    seen = scheduler(*(node(f"n{at}", taints=each) for at, each in enumerate(taints))).ask.explain(pod("p"))
    (group,) = document(seen)["groups"]
    assert (len(group["needs"]), group["otherNeeds"]) == (20, 10)
    (group,) = document(seen, limit=None)["groups"]
    assert (len(group["needs"]), group["otherNeeds"]) == (30, 0)


def test_pre_filter_in_the_document() -> None:
    one = scheduler(node("a"), node("b"))
    narrowed = document(one.ask.explain(pod("p", affinity=pinned("b"))))["preFilter"]
    assert narrowed == {"plugins": ["NodeAffinity"], "code": "Success", "reasons": [], "nodeNames": ["b"]}
    torn = document(one.ask.explain(pod("p", affinity=named(("a", "b")))))["preFilter"]
    assert (torn["plugins"], torn["reasons"]) == (["NodeAffinity"], ["pod affinity terms conflict"])


def test_preemption_in_the_document() -> None:
    low = [pod(f"low-{name}", on=name, requests={"cpu": 4}, priority=at) for at, name in enumerate("ab")]
    one = scheduler(node("a"), node("b"), *low)
    seen = document(one.ask.explain(pod("p", requests={"cpu": 2}, priority=9)))["preemption"]
    victims = [
        {"pod": f"default/low-{name}", "priority": at, "startTime": None} for at, name in enumerate("ab")
    ]
    candidates = [
        {
            "node": name,
            "victims": [victims[at]],
            "pdbViolations": 0,
            "sumOfPriorities": at,
            "violatedBudgets": [],
        }
        for at, name in enumerate("ab")
    ]
    assert seen == {
        "message": "",
        "potential": 2,
        "candidates": candidates,
        "otherCandidates": 0,
        "rejected": {},
        "chosen": "a",
        "criterion": "highest priority",
        "tied": ["a"],
        "raisedPriority": None,
    }
    short = document(one.ask.explain(pod("p", requests={"cpu": 2}, priority=9)), limit=1)["preemption"]
    assert (len(short["candidates"]), short["otherCandidates"]) == (1, 1)
    never = pod("p", requests={"cpu": 2}, priority=9, preemption_policy="Never")
    seen = document(one.ask.explain(never))["preemption"]
    assert (seen["message"], seen["chosen"]) == ("not eligible due to preemptionPolicy=Never.", None)
    equal = document(one.ask.explain(pod("p", requests={"cpu": 2}, priority=1)))["preemption"]
    assert equal["rejected"] == {"No preemption victims found for incoming pod": 1}
    assert document(one.ask.explain(pod("p")))["preemption"] is None, "it is only asked where nothing fits"
