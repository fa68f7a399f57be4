"""Documents of explanations whose texts stand in cases, `tests/cases/answers/evidence_of_*.md` among them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.cases.console import blocks
from tests.cases.test_cases import HERE
from tests.explain.explain_world import document

from moorage import Scheduler, load
from moorage.answers.explain import Explanation
from moorage.kube import build_cluster, decode_object

HOST = "kubernetes.io/hostname"


def explained(text: str, key: str = "default/new") -> Explanation:
    """The explanation of a pod in a cluster of YAML documents."""
    objects = [decode_object(item) for item in yaml.safe_load_all(text) if item]
    return Scheduler(build_cluster(objects)).ask.explain(key)


def node(name: str, labels: dict[str, str] | None = None, **more: Any) -> str:
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name} | (labels or {})},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"} | more.pop("allocatable", {})},
    }
    return yaml.safe_dump(made | more) + "---\n"


def pod(name: str, on: str = "", cpu: str = "", **more: Any) -> str:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    meta = {"name": name, "namespace": "default"} | more.pop("metadata", {})
    spec = {"containers": [container]} | ({"nodeName": on} if on else {}) | more.pop("spec", {})
    status = more.pop("status", {"phase": "Running"} if on else {})
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}
    return yaml.safe_dump(made) + "---\n"


def of_case(case: str, file: str) -> Scheduler:
    """A scheduler over an input of a case."""
    page = (HERE / f"answers/{case}.md").read_text()
    (text,) = [block.body for block in blocks(page) if block.info == ["yaml", file]]
    return Scheduler(load(text))


PODS = ["default/web-n1", "default/web-n2"]


@pytest.mark.parametrize(
    ("case", "path", "expected"),
    [
        (
            "evidence_of_room/preemptor",
            "groups.0.blockers.0",
            {
                "kind": "nominated-pod",
                "name": "default/preemptor",
                "detail": "priority 100, nominated to n1, keeps 2 cpu",
                "nodes": 1,
                "text": "nominated pod default/preemptor (priority 100, nominated to n1, keeps 2 cpu)",
                "node": "n1",
                "resource": "cpu",
                "amount": "2",
                "priority": 100,
            },
        ),
        (
            "evidence_of_spreading/few",
            "changes.0",
            {
                "kind": "change-spread",
                "text": "set minDomains: 1 (now 2) in topology-spread zone (maxSkew 1)",
                "feasibleNodes": 2,
                "constraint": {"kind": "topology-spread", "name": "zone (maxSkew 1)"},
                "field": "minDomains",
                "from": "2",
                "to": "1",
            },
        ),
        (
            "evidence_of_priority/classes1",
            "preemption.raisedPriority",
            {
                "text": "with priority 8 (PriorityClass high has 1000) it would evict default/f1 (7) on n1",
                "priority": 8,
                "priorityClass": "high",
                "node": "n1",
                "victims": [{"pod": "default/f1", "priority": 7, "startTime": None}],
                "violatedBudgets": [],
            },
        ),
        ("evidence_of_priority/budgets1", "preemption.candidates.0.pdbViolations", 1),
        ("evidence_of_priority/budgets1", "preemption.candidates.0.violatedBudgets", ["default/keep"]),
        ("evidence_of_priority/budgets2", "preemption.raisedPriority.violatedBudgets", ["default/keep"]),
        (
            "evidence_of_volumes/several",
            "changes.0",
            {
                "kind": "smaller-claim",
                "text": "lower the request of claim default/data from 4Gi to 2Gi",
                "feasibleNodes": 1,
                "claim": "default/data",
                "request": "",
                "from": "4Gi",
                "to": "2Gi",
            },
        ),
        ("rollouts_that_wait/apart", "notes.0.kind", "own-old-pods"),
        ("rollouts_that_wait/apart", "notes.0.pods", PODS),
        ("rollouts_that_wait/apart", "changes.0.kind", "change-rollout"),
        ("rollouts_that_wait/apart", "changes.0.workload", "deployment/web"),
        ("rollouts_that_wait/apart", "changes.0.field", "maxSurge"),
        ("rollouts_that_wait/apart", "changes.0.from", "25%"),
        ("rollouts_that_wait/apart", "changes.0.to", "0"),
        ("notes_of_explanations/selected1", "changes.0.claim", "default/data"),
        ("notes_of_explanations/selected1", "changes.0.from", "gone"),
        ("notes_of_explanations/system1", "notes.0.kind", "other-os"),
        ("notes_of_explanations/system1", "notes.0.nodes", ["linux"]),
        ("notes_of_explanations/devices", "notes.0.kind", "held-devices"),
        ("notes_of_explanations/devices", "notes.0.pods", ["default/low"]),
    ],
)
def test_the_document_has_what_the_text_says(case: str, path: str, expected: Any) -> None:
    name, _, file = case.partition("/")
    found: Any = document(of_case(name, f"{file}.yaml").ask.explain("default/new"))
    for step in path.split("."):
        found = found[int(step) if step.isdigit() else step]
    assert found == expected


def test_facts_of_spreading_and_of_attached_volumes() -> None:
    seen = of_case("evidence_of_spreading", "pools.yaml").ask.explain("default/new")
    (fact,) = next(group.evidence for group in seen.groups if group.nodes == ["a-x"])
    assert fact.facts() == {
        "topologyKey": "zone",
        "value": "a",
        "withPod": 2,
        "matchesItself": True,
        "nominated": 0,
        "fewest": 0,
        "fewestIn": "b",
        "fewestNodes": ["b-x: 900m more cpu"],
        "otherFewest": 0,
        "terminating": 0,
        "domains": 2,
        "minDomains": 1,
        "maxSkew": 1,
        "matchLabelKeys": [],
        "isDefault": False,
    }
    (group,) = of_case("evidence_of_volumes", "attached1.yaml").ask.explain("default/new").groups
    held = {name: group.evidence[0].facts()[name] for name in ("pods", "attachments", "attachedVolumes")}
    assert held == {"pods": ["default/user"], "attachments": ["att-left"], "attachedVolumes": ["pv-left"]}


def test_a_claim_is_as_it_was_after_an_explanation() -> None:
    one = of_case("evidence_of_volumes", "several.yaml")
    assert [one.ask.explain("default/new").feasible for _ in range(2)] == [[], []]
