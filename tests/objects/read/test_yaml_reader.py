"""YAML by Kubernetes' rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.kube import read_first, read_yaml

from moorage.errors import InputError


def read(text: str) -> Any:
    documents = list(read_yaml(text, "f"))
    assert len(documents) == 1
    return documents[0]


VALUES = """
yes=true On=true y=true N=false off=false ~=null null=null 12=12 -7=-7 +7=7 0=0 010=8 0o17=15 0x1F=31 0b11=3
-0x10=-16 08=8 1_000=1000 1.5=1.5 .5=0.5 5.=5 2.0=2 1e3=1000 1e30=1e30
99999999999999999999=99999999999999999999
"""
QUOTED = [
    ("'12'", "12"),
    ('"yes"', "yes"),
    ("!!str 12", "12"),
    ("! 12", "12"),
    ('!!int "12"', 12),
    ("", None),
]
TAGGED = [('!!float "1.5"', 1.5), ('!!bool "yes"', True), ('!!null ""', None)]
TEXTS = "yEs 1e400 12:30:45 1:30 2021-06-01 2021-06-01T03:59:14Z 500m 1Gi 1.2.3 . ="
SCALARS = [
    (scalar, json.loads(value)) for pair in VALUES.split() for scalar, _, value in [pair.partition("=")]
]
SCALARS += [*QUOTED, *TAGGED, *((text, text) for text in (*TEXTS.split(), "9" * 500))]


@pytest.mark.parametrize(("scalar", "value"), SCALARS)
def test_scalars_are_read_as_kubernetes_reads_them(scalar: str, value: Any) -> None:
    result = read(f"x: {scalar}\n")["x"]
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x:\n- nothing\n", {"x": ["nothing"]}),
        ("1: a\n", {"1": "a"}),
        ("true: a\n", {"true": "a"}),
        ("off: a\n", {"false": "a"}),
        ("1.5: a\n", {"1.5": "a"}),
        ("'<<': a\n", {"<<": "a"}),
        ("a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x 3\nc: [*x, *x]\n", {"a": 3, "c": [3, 3]}),
        ("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\n", {"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}}),
        (
            "a: &x {p: 1}\nb: &y {p: 2, r: 3}\nc: {<<: [*x, *y]}\n",
            {"a": {"p": 1}, "b": {"p": 2, "r": 3}, "c": {"p": 1, "r": 3}},
        ),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("!!map {a: !!seq [1]}\n", {"a": [1]}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
    ],
)
def test_collections_aliases_and_merges_are_read(text: str, value: Any) -> None:
    assert read(text) == value


def test_empty_documents_are_left_out() -> None:
    assert list(read_yaml("---\n# nothing\n---\na: 1\n---\n---\nb: 2\n...\n", "f")) == [{"a": 1}, {"b": 2}]


def test_anchors_end_with_their_document() -> None:
    with pytest.raises(InputError, match=r"f:3: alias \*x is not defined"):
        list(read_yaml("a: &x 1\n---\nb: *x\n", "f"))


def test_depth_limit_is_exact() -> None:
    assert read("[" * 200 + "]" * 200)
    with pytest.raises(InputError, match="nested more than"):
        read("[" * 201 + "]" * 201)


def test_long_keys_are_shortened_in_errors() -> None:
    with pytest.raises(InputError) as caught:
        read(f"{'k' * 900}: 1\n{'k' * 900}: 2\n")
    assert len(str(caught.value)) < 300


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(st.characters(codec="utf-8")),
    lambda children: st.lists(children) | st.dictionaries(st.text("abc<é ~:#", max_size=5), children),
    max_leaves=20,
)


@settings(deadline=None)
@given(st.dictionaries(st.text("abcxyz", min_size=1), JSON_VALUES, min_size=1))
def test_json_is_yaml(value: Any) -> None:
    """What PyYAML writes, quoted throughout, reads back as it was."""
    text = yaml.safe_dump(value, default_style='"', allow_unicode=False)
    assert read(text) == value


@settings(deadline=None, max_examples=300)
@given(st.text(st.sampled_from("ab:-[]{}&*!<>|'\"#,?%@ \n\t01.yn~"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        documents = list(read_yaml(text, "f"))
    except InputError:
        return
    json.dumps(documents, allow_nan=False)


def test_the_first_document_with_its_duplicate_keys() -> None:
    text = "a: 1\nb:\n  c: 1\n  c: 2\na:\n  - x\n---\n[\n"
    assert read_first(text, "f") == ({"a": ["x"], "b": {"c": 2}}, [(4, ("b", "c")), (6, ("a",))])
    assert read_first("# nothing\n", "f") == (None, [])
    assert read_first("---\n---\na: 1\n", "f") == (None, [])
    with pytest.raises(InputError, match="f:1: "):
        read_first("a: [}", "f")
