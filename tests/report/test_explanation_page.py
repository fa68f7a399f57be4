"""The page of explanations: what the command prints, by section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.answers import explanation_page
from moorage.cli import main
from tests.explain.test_evidence_of_filters import node, pod
from tests.report.pages import Read


def test_no_explanation_is_no_pod_without_a_node() -> None:
    text = Read(explanation_page([], []).html()).text
    assert "Every pod has a node or gets one." in text
    assert "Nothing to explain." in text


FULL = node("n1", allocatable={"cpu": "2"}) + pod("f1", "n1", "2")
TWO = node("n1") + node("n2", allocatable={"cpu": "8"}) + pod("there", "n1", "2")


@pytest.mark.parametrize(
    ("text", "options", "said", "tables"),
    [
        (
            node("n1", allocatable={"pods": "0"}) + pod("new", cpu="1"),
            (),
            ("default/new fits 0 of 1 nodes.", "no single change places it", "even without its constraints"),
            {"Nodes that reject it"},
        ),
        (
            FULL + pod("new", cpu="2", spec={"priority": 9}),
            (),
            ("default/new fits 0 of 1 nodes.", "preemption: would evict pods on n1"),
            {"Nodes that reject it", "Candidates", "What would help, each tried on the engine"},
        ),
        (
            TWO + pod("new", cpu="1"),
            ("--node", "n1", "--node", "n2"),
            ("default/new fits 2 of 2 nodes.", "n1 is "),
            {"The best nodes", "Verdicts of node n1", "Scores of node n1", "Verdicts of node n2"},
        ),
    ],
)
def test_a_page_has_what_the_command_prints(
    text: str, options: Any, said: Any, tables: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(text)
    command = ["explain", "new", "-f", str(tmp_path / "cluster.yaml"), *options]
    main(command)
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if line and "  " not in line and not line.startswith("rests on: ")]
    main([*command, "-o", "html"])
    page = Read(capsys.readouterr().out)
    assert [one for one in (*said, *printed) if one not in page.text] == []
    assert page.tables.keys() == tables
