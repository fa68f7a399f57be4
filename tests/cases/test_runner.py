"""The runner of text cases: what it accepts, and which differences it sees."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.console import Printed, run
from tests.cases.test_cases import lines_of, played
from tests.house.source import ROOT

FILE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "1", pods: "9"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
"""
CASE = f"""\
# A cluster of one pod

It passes.

```yaml in.yaml
{FILE}```

```console
$ moorage check -f in.yaml
PASS: 1 pod has found a node
rests on: Kubernetes 1.36 by default
$ moorage check -f missing.yaml
stderr: error: missing.yaml: no such file
[exit 2]
```
"""


def play(tmp_path: Path, text: str) -> str:
    case, folder = tmp_path / "case.md", tmp_path / "in"
    folder.mkdir()
    case.write_text(text)
    return played(case, folder)


def test_a_case_that_holds_stays_as_it_is(tmp_path: Path) -> None:
    assert play(tmp_path, CASE) == CASE


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(CASE.replace("PASS: 1 pod", "PASS: 2 pods"), id="stdout"),
        pytest.param(CASE.replace("stderr: error: missing.yaml", "stderr: other"), id="stderr"),
        pytest.param(CASE.replace("[exit 2]\n", ""), id="exit code"),
        pytest.param(CASE.replace("default\n$", "default\n\n$"), id="an empty line"),
        pytest.param(re.sub(r"PASS.*\n.*\n", "", CASE), id="no output yet"),
    ],
)
def test_outputs_are_written_as_they_are(tmp_path: Path, changed: str) -> None:
    assert play(tmp_path, changed) == CASE != changed


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        (CASE.replace("PASS: 1 pod has found a node", "…"), "whole outputs"),
        (CASE.replace("It passes.\n\n", ""), "says why it exists"),
        (CASE.replace("$ moorage check -f in.yaml\n", ""), "no command stands above 'PASS: 1 pod"),
        (CASE.replace("$ moorage check -f in.yaml", "$ rm in.yaml"), "a case runs moorage and cat alone"),
        (CASE.replace("It passes", "It passes [in.yaml](../gone.yaml)"), "gone.yaml: no such file"),
    ],
)
def test_a_case_that_is_not_one_is_refused(tmp_path: Path, changed: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        play(tmp_path, changed)


def test_inputs_are_linked_piped_and_printed(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(FILE)
    answer = "PASS: 1 pod has found a node\nrests on: Kubernetes 1.36 by default"
    console = f"```console\n$ moorage check -f - < in.yaml\n{answer}\n"
    text = f"# Links\n\nOf [in.yaml](node.yaml).\n\n{console}$ cat in.yaml\n{FILE}```\n"
    assert play(tmp_path, text) == text


def test_a_terminal_has_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text(FILE.replace("name: a", f"name: {'a' * 70}"))
    piped = run("moorage nodes -f in.yaml", tmp_path).out
    assert run("moorage nodes -f in.yaml", tmp_path, 300).out == piped
    assert run("moorage nodes -f in.yaml", tmp_path, 80).out != piped


def test_masks_stand_for_paths_the_version_and_timings(tmp_path: Path) -> None:
    out = run("moorage --version", tmp_path).out + f"{tmp_path}/x {tmp_path}: moorage in 0.123 s\n"
    assert lines_of(Printed(out, "", 0), tmp_path) == [
        "moorage <version>",
        "<folder>/x <folder>: moorage in <seconds> s",
    ]


@pytest.mark.parametrize("text", ["{}0/x", "{}.old", "<folder>/x", "moorage <version>"])
def test_a_mask_hides_nothing_but_what_its_rule_says(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="name"):
        lines_of(Printed(text.format(tmp_path), "", 0), tmp_path)


@pytest.mark.parametrize("line", ["$ moorage", "stderr: x", "[exit 1]", "…"])
def test_a_line_that_could_be_read_as_another_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match="cannot show"):
        lines_of(Printed(line, "", 0), tmp_path)


CHANGES = """\
# Changes

Each line is one.

```yaml pod.yaml
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}
```

```changes pod.yaml
spec.priority: high → spec.priority: expected integer, got string
{metadata.name: null, 'spec.containers[1]': {name: d}} → Pod (document 1): metadata.name: Required value: name or generateName is required
metadata.labels[a.b/c]: d → pods: p
```

```changes pod.yaml after pod.yaml
spec.activeDeadlineSeconds: 9 → pods: p
spec.priority: 1 → Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)
```

```changes
{kind: ConfigMap, metadata: {name: a}} → Left out, because scheduling does not read these kinds: ConfigMap (1)
{kind: Node, metadata: {name: a}} → nothing
```
"""  # noqa: E501


@pytest.mark.parametrize("changed", [CHANGES, re.sub(r"^(\{.*|\w+\..*) → .*", r"\1", CHANGES, flags=re.M)])
def test_a_change_shows_what_is_told_of_it(tmp_path: Path, changed: str) -> None:
    assert play(tmp_path, changed) == CHANGES


def test_the_tests_that_contributors_are_shown_pass(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    fences = re.findall(r"^(`{3,4})(markdown|python)\n(.*?)^\1$", page, re.DOTALL | re.MULTILINE)
    (_, _, case), (_, _, code) = fences
    assert "\npod/tolerant\n" in play(tmp_path, case)
    found: dict[str, Callable[[], None]] = {}
    exec(code, found)
    found["test_a_cordoned_node_takes_no_pod"]()
