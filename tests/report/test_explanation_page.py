"""The page of explanations: what it says of each thing that an explanation may have."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.explain.explain_document import document
from moorage.report.explanation_page import explanation_page
from tests.explain.test_evidence_of_filters import explained, node, pod
from tests.report.pages import Read

FULL = node("n1", allocatable={"cpu": "2"}) + pod("f1", "n1", "2")
MISFIT = "default/new fits 0 of 1 nodes."


def shown(text: str, nodes: list[str] | None = None) -> Read:
    """The page of the explanation of a pod in a cluster of YAML documents."""
    seen: Any = document(explained(text), nodes=nodes or ())
    item = {"namespace": "default", "workload": "Pod new", "pods": ["default/new"], "explanation": seen}
    return Read(explanation_page([item]).html())


def test_no_explanation_is_no_pod_without_a_node() -> None:
    text = Read(explanation_page([]).html()).text
    assert "Every pod has a node or gets one." in text
    assert "Nothing to explain." in text


@pytest.mark.parametrize(
    ("text", "said", "unsaid"),
    [
        (
            node("n1", allocatable={"pods": "0"}) + pod("new", cpu="1"),
            (
                MISFIT,
                "It fits no node even without its constraints: 0/1 nodes are available: 1 Too many pods.",
                "No change of one or two things places it.",
            ),
            ("As at its turn", "Pods would be evicted"),
        ),
        (
            FULL + pod("new", cpu="2", spec={"priority": 9}),
            (MISFIT, "Pods would be evicted on n1.", "default/f1 (0)"),
            ("It fits no node even", "No change of one or two"),
        ),
        (
            node("n1") + pod("new", cpu="2"),
            ("default/new fits 1 of 1 nodes.", "The best nodes"),
            ("No change of one or two", "Nodes that reject it", "Preemption"),
        ),
    ],
)
def test_what_a_page_says_of_a_pod(text: str, said: tuple[str, ...], unsaid: tuple[str, ...]) -> None:
    page = shown(text)
    found = " ".join([page.text, *page.tables])
    assert [one for one in said if one not in found] == []
    assert [one for one in unsaid if one in found] == []


def test_a_node_that_is_not_the_best_is_compared_with_it() -> None:
    text = node("n1") + node("n2", allocatable={"cpu": "8"}) + pod("there", "n1", "2") + pod("new", cpu="1")
    table = shown(text, ["n1", "n2"]).tables
    assert [row[0] for row in table["Verdicts of node n1"]].count("compared") == 1
    assert [row[0] for row in table["Verdicts of node n2"]].count("compared") == 0
