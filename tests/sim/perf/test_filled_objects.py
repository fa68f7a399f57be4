"""Objects of one template are decoded once and filled in: each is as if it had been read alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.errors import InputError
from moorage.objects import Object
from moorage.sim.perf import object_templates
from moorage.sim.perf.filled_objects import MARK, MOST_NUMBERS
from moorage.sim.perf.go_template import parse
from moorage.sim.perf.object_templates import ObjectTemplate

TEMPLATES = sorted(Path("tests/data/scheduler_perf").rglob("templates/*.yaml"))
PARAMS = {"size": 2, "Index": 0}
POD = """\
kind: Pod
metadata: {{name: 'pod-{{{{.Index}}}}', labels: {labels}}}
spec: {{containers: {containers}{more}}}
"""
ONE = "[{name: c, image: i}]"


def pod(labels: str = "{}", containers: str = ONE, more: str = "") -> str:
    return POD.format(labels=labels, containers=containers, more=more)


FILLED = {
    "name": pod(),
    "label": pod("{a: 'x-{{.Index}}', b: c}"),
    "several": pod("{a: 'x-{{DivideInt .Index 3}}-{{Mod .Index 3}}'}"),
    "in a list of one": pod(containers="[{name: 'c-{{.Index}}', image: i}]"),
    "beside another argument": pod("{a: 'x-{{.size}}-{{.Index}}'}"),
    "length of a label": pod("{a: '" + "x" * 50 + "-{{.Index}}'}"),
}
READ = {
    "without a hyphen": pod("{a: 'x{{.Index}}'}"),
    "before a letter": pod("{a: 'x-{{.Index}}y'}"),
    "a number": pod(more=", priority: {{.Index}}"),
    "a quantity": pod(containers="[{name: c, resources: {requests: {memory: '{{.Index}}Mi'}}}]"),
    "a key": pod("{'x-{{.Index}}': a}"),
    "a resource": pod(containers="[{name: c, resources: {limits: {'example.com/x-{{.Index}}': 1}}}]"),
    "in a list of two": pod(containers="[{name: 'c-{{.Index}}'}, {name: c-5}]"),
    "a field that is not read": pod() + "other: {a: 'x-{{.Index}}'}\n",
    "too many": pod("{a: 'x" + "-{{.Index}}" * (MOST_NUMBERS + 1) + "'}"),
    "a text of marks": pod(f"{{a: 'x-{MARK}1'}}"),
    "a label that is too long for a mark": pod("{a: '" + "x" * 60 + "-{{.Index}}'}"),
}


def template(text: str) -> ObjectTemplate:
    return ObjectTemplate(parse(text, "t.yaml"), PARAMS, 20)


def alone(text: str) -> ObjectTemplate:
    """A template that reads each object."""
    made = template(text)
    made._fillers = dict.fromkeys(range(object_templates.MOST_TEXTS))  # type: ignore[assignment, arg-type]
    return made


def outcome(made: ObjectTemplate, index: int) -> Object | str:
    """The object of an index, or the error: some parameters of files are not known here."""
    try:
        return made.complete(index, "ns")
    except InputError as error:
        return str(error)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were read."""
    texts: list[str] = []
    read_yaml = object_templates.read_yaml

    def noted(text: str, source: str) -> Any:
        texts.append(text)
        return read_yaml(text, source)

    monkeypatch.setattr(object_templates, "read_yaml", noted)
    return texts


@pytest.mark.parametrize("name", FILLED)
def test_objects_that_differ_in_numbers_are_read_once(name: str, reads: list[str]) -> None:
    made = template(FILLED[name])
    found = [made.complete(index, "ns") for index in (7, 0, 19, 7)]
    assert len(reads) == 1
    assert found == [alone(FILLED[name]).complete(index, "ns") for index in (7, 0, 19, 7)]
    assert found[0].metadata.name == "pod-7"


@pytest.mark.parametrize("name", READ)
def test_objects_that_may_differ_in_more_are_read_each(name: str, reads: list[str]) -> None:
    made = template(READ[name])
    reads.clear()
    found = [made.complete(index, "ns") for index in (7, 0, 9)]
    assert len([text for text in reads if MARK not in text or "text of marks" in name]) >= 3
    assert found == [alone(READ[name]).complete(index, "ns") for index in (7, 0, 9)]
    assert [one.metadata.name for one in found] == ["pod-7", "pod-0", "pod-9"]


@given(
    st.lists(st.integers(0, 10**10), min_size=1, max_size=5),
    st.sampled_from([*FILLED.values(), *READ.values()]),
)
def test_a_filled_object_is_as_one_that_was_read(indices: list[int], text: str) -> None:
    made = template(text)
    for index in indices:
        assert outcome(made, index) == outcome(alone(text), index)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_of_scheduler_perf_make_what_they_would_make_alone(path: Path) -> None:
    text = path.read_text()
    made = template(text)
    for index in (3, 0, 3, 19):
        assert outcome(made, index) == outcome(alone(text), index)


def test_an_invalid_object_is_named_as_it_is() -> None:
    made = template(pod().replace("pod-", "Pod-"))
    with pytest.raises(InputError, match="Pod-4"):
        made.make(4, "Pod", "ns")


def test_kinds_and_namespaces_are_kept_apart() -> None:
    made = template(pod())
    assert {made.make(1, namespace=name).metadata.namespace for name in ("a", "b")} == {"a", "b"}
    assert made.complete(1, "a") != made.make(1, namespace="a")
    with pytest.raises(InputError, match="a Pod, not a Node"):
        made.make(1, "Node")


def test_texts_beyond_a_number_are_read_each(monkeypatch: pytest.MonkeyPatch, reads: list[str]) -> None:
    monkeypatch.setattr(object_templates, "MOST_TEXTS", 2)
    made = template("{{$x := Mod .Index 4}}" + pod("{a: '{{if .Index}}x{{end}}{{$x}}', b: 'b-{{.Index}}'}"))
    found = [made.complete(index, "ns") for index in range(8)]
    assert len(made._fillers) == 2
    assert len(reads) == 2 + 5, "0 and 1 are filled in, and 5 as 1 is"
    assert [one.metadata.labels["a"] for one in found] == ["0", "x1", "x2", "x3", "x0", "x1", "x2", "x3"]
