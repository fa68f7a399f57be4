"""YAML in block style: what is read line by line is what the reader of all of YAML gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from bench import kubectl_dump
from hypothesis import example, given
from hypothesis import strategies as st
from tests.doors.kube import UnplacedError, documents, dump_yaml, read_block_style, read_yaml, resolve_plain

from moorage.errors import InputError


def by_lines(text: str) -> list[Any] | None:
    """The documents as read line by line; None where that is refused."""
    try:
        return read_block_style(text, resolve_plain, 200)
    except UnplacedError:
        return None


def as_all_of_yaml(text: str) -> list[Any] | None:
    """The documents as the reader of all of YAML gives them; None where the text is invalid."""
    try:
        return list(documents(text, "f"))
    except InputError:
        return None


def check(text: str) -> None:
    """What is read by lines is valid, and the same to its types."""
    found = by_lines(text)
    if found is not None:
        assert json.dumps(found) == json.dumps(as_all_of_yaml(text))


PLAIN = r"""
a 1 0x1F 017 1_0 1e3 -1 +.5 1.0 .nan -.inf ~ null on yes True 2026-01-01 12:30:45 a:b a#b #a - --x -x ---
... << = ? !x &a *a @ ` % %a {} [] [a] { ] a] "a 'a' 'a''b' ' '' 'a'b | |- |+ |2 > >- : a: a:: ::a (a)
$(A) <a>
"""
SCALARS = (
    *PLAIN.split(),
    *("b c", "a: b", "a :b", "a #b", "? a", "&a b", "{a: b}", "a, b", '"a"', '"a\\n"', 'a"', '""'),
    *("| # x", "\xe9", "\xe9a", "a \xe9", "\x7f", "\t", "a\tb", "\x85", "\u2028a", "\ufeff"),
    *("a\ufeff", "\U0001f600", "a ", " a", "\\", "a\\"),
)
KEYS = (
    *["a", "b", "c", "on", "y", "null", "1", "a.b/c", "f:m", "<<"],
    '"a"',
    "'a'",
    '"1"',
    '"a b"',
    "a b",
    "? a",
    "é",
)
pieces = st.one_of(
    st.sampled_from(SCALARS),
    st.builds("{}: {}".format, st.sampled_from(KEYS), st.sampled_from(SCALARS)),
    st.builds("{}:".format, st.sampled_from(KEYS)),
    st.builds("{}:   {}".format, st.sampled_from(KEYS[:3]), st.sampled_from(SCALARS)),
)
lines = st.builds(
    lambda indent, dashes, piece: " " * indent + dashes + piece,
    st.integers(0, 4),
    st.sampled_from(["", "", "", "- ", "- ", "- - ", "-   ", "-"]),
    pieces,
)
odd_lines = st.sampled_from(
    ["", "", " ", "  ", "---", "--- ", "...", "# c", "  # c", "%YAML 1.1", "-", "\r", "  |"]
)
soup = st.builds(
    lambda parts, end: "\n".join(parts) + end,
    st.lists(st.one_of(lines, lines, lines, odd_lines), max_size=7),
    st.sampled_from(["\n", "", "\n\n"]),
)
# Texts that are mostly valid: plain entries whose columns go up and down.
plain_lines = st.builds(
    lambda indent, dashes, piece: " " * indent + dashes + piece,
    st.sampled_from([0, 0, 2, 2, 4]),
    st.sampled_from(["", "", "- ", "- - "]),
    st.sampled_from(
        ["a: x", "b: 1", "c:", "a:", "b:", "d: |", "e: |-", "f: {}", "x", "text", "# no comment?"]
    ),
)
mostly_valid = st.lists(st.one_of(plain_lines, st.just("")), max_size=8).map(
    lambda parts: "\n".join(parts) + "\n"
)


@given(soup)
@example("a: |\n  x\n\n  y\n\nb: |-\n   x\n     y\n")
@example("a:\n- b\n- c: 1\n  d:\n  - - x\n    - y\n  e: z\nf: 1\n")
@example("- a\n  b\n")
@example("a: b\n  c: d\n")
@example("a: |\n x\n# c\nb: 1\n")
def test_lines_of_all_kinds(text: str) -> None:
    check(text)


@given(mostly_valid)
def test_text_is_read_alike_whatever_its_columns(text: str) -> None:
    check(text)


scalars = st.one_of(
    st.text(max_size=8),
    st.sampled_from(SCALARS),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=5), st.sampled_from(KEYS)), inner),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=4), st.booleans())
def test_what_is_written(value: dict[str, Any], own: bool) -> None:
    text = dump_yaml(value) if own else yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True)
    check(text)
    check(f"---\n{text}---\n{text}")


simple = st.recursive(
    st.sampled_from(["a", "b c", 1, True, None, "on", "x\ny\n", "x\n\ny", "# x\n", "- x\n", "", {}, []]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, min_size=1)
    ),
    max_leaves=8,
)
edits = st.tuples(
    st.integers(0, 30),
    st.sampled_from(["drop", "twice", "deeper", "higher", "dash", "swap", "blank"]),
    st.integers(0, 5),
)


def edited(text: str, changes: list[tuple[int, str, int]]) -> str:
    """A text with some lines changed."""
    lines = text.split("\n")
    for place, how, by in changes:
        at = place % len(lines)
        line, other = lines[at], (at + by) % len(lines)
        if how == "swap":
            lines[at], lines[other] = lines[other], line
        new = {"drop": [], "twice": [line, line], "deeper": [" " * by + line], "blank": ["", line]}
        new |= {"higher": [line[by:] if line[:by].isspace() else line], "dash": [f"- {line}"]}
        lines[at : at + 1] = new.get(how, [lines[at]])
        lines = lines or [""]
    return "\n".join(lines)


@given(st.dictionaries(st.sampled_from("abcd"), simple, min_size=1), st.lists(edits, max_size=3))
def test_text_with_changed_lines_is_read_alike(
    value: dict[str, Any], changes: list[tuple[int, str, int]]
) -> None:
    check(edited(dump_yaml(value), changes))


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [\n",
        "a: &x 1\n",
        "a: !!str 1\n",
        "a: 1\na: 2\n",
        "a: 1 # c\n",
        "y: 1\n",
        "a:\n  b: 1\n c: 1\n",
        "a: x\n  y\n",
        "a: 1\n- b\n",
        "a\n",
        "- \n",
        "a: >\n  x\n",
        "a: |\n  x",
        "a: |\n\n  x\n",
        "m:\am: 1\n",
        f"{'k' * 251}: 1\n",
        "\n".join(" " * at + "a:" for at in range(201)) + "\n",
        "- " * 201 + "a\n",
    ],
)
def test_what_is_left_to_the_other_reader(text: str) -> None:
    assert by_lines(text) is None


@pytest.mark.parametrize(
    "text", ["", "\n", "# c\n", "---\n", "---\n---\n", "a:\n", "a: |\n  x\n\n\n", "- a: 1\n- b\n"]
)
def test_what_is_read_by_lines(text: str) -> None:
    assert by_lines(text) is not None
    check(text)


def test_a_dump_is_read_by_lines() -> None:
    value = {"apiVersion": "v1", "items": list(kubectl_dump.objects(2, 5)), "kind": "List"}
    text = dump_yaml(json.loads(json.dumps(value)))
    assert by_lines(text) == [value] == list(read_yaml(text, "f"))


def test_time_is_linear() -> None:
    """A text that is refused at its end is not read over and over."""
    for line in (
        "a" * 50_000 + ": b: c",
        "- " * 50_000 + "?",
        "a: " + "x " * 50_000 + "#",
        "a: " + "'" * 50_001,
    ):
        assert by_lines(line) is None
