"""Whatever a request asks, its answer is that of a command or a refusal, and no file is read."""

from __future__ import annotations

import json
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.cli import ASKED, AskedTwin, command_of, named_questions, parameters_of, question_of
from tests.house.source import ROOT

from moorage.errors import InputError

PATHS = ["/".join(words) for words, _ in named_questions()]
NAMES = sorted({name for path in PATHS for name in parameters_of(command_of(path)[1])})
paths = st.sampled_from([*PATHS, *ASKED, "", "/", "serve", "plan", "../check", "check/x"]) | st.text(
    max_size=8
)
names = st.sampled_from([*NAMES, "file", "f", "kubeconfig", "--drain", "synthetic", "help"]) | st.text(
    max_size=8
)
values = (
    st.sampled_from(
        ["", "-", "a", "old-a", "deploy/shop/web", "zone", "1", "-1", "true", "1e9", "json", "html"]
    )
    | st.sampled_from(
        ["/etc/passwd", "README.md", "a b", "a=b", "--help", "-h", "http://x", "a\nb", "\udc00", "'"]
    )
    | st.text(max_size=8)
)
queries = st.lists(st.tuples(names, values), max_size=4)
bodies = st.sampled_from(
    [b"", b"{}", b"kind: [", b"\xff\xfe", b"kind: Pod\nmetadata: {name: a}\n"]
) | st.binary(max_size=20)


@cache
def twin() -> AskedTwin:
    return AskedTwin(None, [str(ROOT / "examples/shop/cluster.yaml")])


@given(paths, queries, bodies)
def test_a_question_is_a_command_or_refused(path: str, query: list[tuple[str, str]], body: bytes) -> None:
    try:
        question = question_of(path, query, body)
    except (InputError, LookupError):
        return
    arguments = question.arguments(["-f", "own.json"])
    assert arguments[0] in ASKED
    assert arguments[: len(question.words) + 2] == [*question.words, "-f", "own.json"]
    others = [
        one for one in arguments[len(question.words) + 2 :] if one.startswith(("-f", "--file", "--kube"))
    ]
    assert all(one == "-f" for one in others)
    assert question.command(["-f", "own.json"]).isprintable()


@pytest.mark.nightly
@settings(max_examples=300)
@given(paths, queries, bodies)
def test_a_twin_answers_or_refuses(path: str, query: list[tuple[str, str]], body: bytes) -> None:
    reply = twin().reply(path, query, body)
    assert reply.status in (200, 400, 404), (path, query, body, reply)
    if reply.status != 200:
        assert json.loads(reply.body)["error"]
    assert b"root:" not in reply.body
