"""AskedTwin: answers questions about a cluster that is followed, or about files."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from functools import partial
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import click

from moorage.answers.page import Page
from moorage.errors import InputError, MoorageError
from moorage.kube.read.load import Listed
from moorage.live.twin import FollowedCluster, Forks, Limits, Output, Reply, Template, TwinRefusalError
from moorage.live.twin.followed_cluster import Moment
from moorage.live.twin.forked_answers import Work
from moorage.live.twin.twin_server import JSON, refusal

from ..app import app, run
from ..commands.check import check
from ..options.inputs import PreparedInput
from ..runs.beginning import prepare
from .questions import Question, question_of

DUMP = "cluster.json"
"""What a question calls the cluster: the file that `moorage dump -o cluster.json` writes."""
MOST_NOTES = 20
_ROOMS = ("cli.commands", "cli.output", "cli.runs", "cluster", "autoscalers", "answers")
"""What questions import and read: once, before the first fork, and not in each child."""

_OF_NO_RELEASES = ("kubernetes-version", "instance-types", "node-groups", "group-sizes")
"""Options that a comparison of releases does not take."""


class Answer(NamedTuple):
    """An answer.

    Attributes
    ----------
    output : Output
    moment : Moment or None
        How far the cluster was followed; None for files.
    command : str
        That repeats the answer, over a dump of that moment.
    """

    output: Output
    moment: Moment | None
    command: str


class AskedTwin:
    """Answers questions. Thread-safe.

    Parameters
    ----------
    cluster : FollowedCluster or None
    files : sequence of str
        In place of a cluster, what the commands are given by ``-f``. They are read for each question.
    defaults : sequence of (str, str)
        Options of every question; see `question_of`.
    limits : Limits, optional
    max_age : float
        How old a state may be that questions are answered on while the cluster changes, in seconds.

    Attributes
    ----------
    forks : Forks
    """

    def __init__(
        self,
        cluster: FollowedCluster | None,
        files: Sequence[str] = (),
        *,
        is_recursive: bool = False,
        defaults: Sequence[tuple[str, str]] = (),
        limits: Limits | None = None,
        max_age: float = 0.0,
    ) -> None:
        self._cluster, self._defaults = cluster, list(defaults)
        files = [os.path.abspath(file) for file in files]  # an answer is worked out in another folder
        self._named = [word for file in (files or [DUMP]) for word in ("-f", file)] + ["-R"] * is_recursive
        self._readable = [
            Path(one) for one in (*files, *(value for _, value in defaults)) if os.path.isabs(one)
        ]
        self.forks = Forks(limits or Limits())
        self._states = _States(cluster, partial(_prepare, cluster, self._defaults), max_age, self._readable)
        for name in _ROOMS:
            room = importlib.import_module(f"moorage.{name}")
            for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
                with suppress(MoorageError, ImportError):  # of an extra that is not installed
                    importlib.import_module(module.name)
        with suppress(MoorageError):
            Page("", "").html()

    def alone(self) -> AskedTwin:
        """Return a twin of the same cluster that answers one question at a time, whatever this one does."""
        other = copy(self)
        other.forks = Forks(self.forks.limits._replace(at_once=1))
        return other

    def ask(self, question: Question, max_age: float | None = None) -> Answer:
        """Answer a question, by its command in a child process.

        Parameters
        ----------
        max_age : float, optional
            How old the state may be, in seconds; by default that of the twin.

        Raises
        ------
        TwinRefusalError
            It is beyond the limits.
        """
        state = self._states.get(max_age)
        output = self.forks.run(state.template, question.arguments(self._named), question.stdin)
        return Answer(output, self._states.moment(state), question.command(self._named))

    def end(self) -> None:
        """End the processes that answer."""
        self.forks.end()
        self._states.end()

    def question(self, path: str, query: Sequence[tuple[str, str]], body: bytes = b"") -> Question:
        """Return the command of a request; see `question_of`."""
        defaults = self._defaults
        if path == "compare" and any(text.startswith("kubernetes") for _, text in query):
            defaults = [one for one in defaults if one[0] not in _OF_NO_RELEASES]
        return question_of(path, query, body, defaults)

    def reply(self, path: str, query: Sequence[tuple[str, str]], body: bytes) -> Reply:
        """Return the answer to a request, or why there is none."""
        ages, query = _split(query, "max-age")
        if path == "state":
            return Reply(200, json.dumps(state_document(self.moment())).encode() + b"\n", JSON)
        if path == "differences" and self._cluster is not None and self._cluster.bindings is not None:
            with self._cluster.lock:
                kept = list(self._cluster.bindings.differences)
            return Reply(200, json.dumps({"differences": kept}).encode() + b"\n", JSON)
        try:
            question = self.question(path, query, body)
            answer = self.ask(question, _seconds(ages[-1]) if ages else None)
        except LookupError as error:
            return refusal(404, str(error.args[0]))
        except InputError as error:
            return refusal(400, str(error))
        except TwinRefusalError as error:
            reply = refusal(error.status, str(error))
            return reply._replace(headers=[("Retry-After", "1")]) if error.status == 503 else reply
        output = answer.output
        if output.code not in (0, 1):
            status = 400 if output.code == 2 else 500
            return refusal(status, output.stderr.strip().removeprefix("error: "))._replace(
                headers=_headers(answer)
            )
        return Reply(200, output.stdout, question.type, _headers(answer))

    def moment(self) -> Moment | None:
        """Return how far the cluster is followed now; None for files."""
        if self._cluster is None:
            return None
        self._cluster.apply_news()
        with self._cluster.lock:
            return self._cluster.moment()


def state_document(moment: Moment | None) -> dict[str, Any]:
    """Return how far a cluster is followed, as JSON; empty for files."""
    if moment is None:
        return {}
    return {
        "resourceVersions": moment.versions,
        "stalenessSeconds": round(moment.staleness, 3),
        "unreadable": moment.unreadable,
        "leftOut": moment.left_out,
    }


def _headers(answer: Answer) -> list[tuple[str, str]]:
    """Return what stands beside an answer, whose body has the bytes of the command alone."""
    found = {"Repeat": answer.command, "Exit-Code": str(answer.output.code)}
    if notes := answer.output.stderr.splitlines()[:MOST_NOTES]:
        found["Notes"] = json.dumps(notes)
    if (moment := answer.moment) is not None:
        found["Staleness"] = f"{moment.staleness:.3f}"
        found["Resource-Versions"] = " ".join(f"{kind}={at}" for kind, at in moment.versions.items() if at)
        found |= {"Unreadable": " ".join(moment.unreadable)} if moment.unreadable else {}
        found |= {"Left-Out": " ".join(moment.left_out)} if moment.left_out else {}
    return [(f"Moorage-{name}", text.encode().decode("latin-1")) for name, text in found.items()]


def _prepare(cluster: FollowedCluster | None, defaults: Sequence[tuple[str, str]]) -> Work:
    """Return what answers questions about the present state, in a process that forks for each."""
    if cluster is None:
        return lambda arguments: run([*arguments])
    held = {DUMP: PreparedInput(Listed(DUMP, list(cluster.objects())))}
    words = question_of("check", (), b"", defaults).arguments(["-f", DUMP])
    with suppress(MoorageError), click.Context(app, obj=held) as root:  # the command tells what is wrong
        prepare(held[DUMP], check.make_context(words[0], words[1:], parent=root).params)
    return lambda arguments: run([*arguments], held=held)


def _split(query: Sequence[tuple[str, str]], name: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the values of one parameter of a query, and the others."""
    return [value for key, value in query if key == name], [one for one in query if one[0] != name]


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) < inf:
            return seconds
    raise InputError(f"must be a number of seconds, not {text!r}", source="max-age")


class _State(NamedTuple):
    """A state of the cluster that questions are answered about."""

    template: Template
    made: float
    changes: int
    moment: Moment | None


class _States:
    """Prepares states of a cluster, one at a time. Thread-safe.

    While the cluster changes, questions about it are answered on one that is not older than they allow.
    """

    def __init__(
        self,
        cluster: FollowedCluster | None,
        prepare: Callable[[], Work],
        max_age: float,
        readable: Sequence[Path],
    ) -> None:
        self._cluster, self._prepare, self._readable, self._max_age = cluster, prepare, readable, max_age
        self._lock = Lock()
        self._now: _State | None = None

    def get(self, max_age: float | None) -> _State:
        """Return a state that is at most so old, or that is still true."""
        most = self._max_age if max_age is None else max_age
        if self._cluster is not None:
            self._cluster.apply_news()
        with self._lock:
            if self._now is None or self._age(self._now) > most or self._now.template.has_ended:
                self._now = None  # it is given up first: the memory is for one
                self._now = self._made()
            return self._now

    def moment(self, state: _State) -> Moment | None:
        """Return how far the cluster was followed: now, if the state is still true."""
        if self._cluster is None or state.moment is None:
            return None
        with self._cluster.lock:
            if state.changes == self._cluster.changes:
                return self._cluster.moment()
            return state.moment._replace(staleness=state.moment.staleness + self._age(state))

    def end(self) -> None:
        """End the processes."""
        with self._lock:
            self._now = None

    def _age(self, state: _State) -> float:
        """Return for how long a state may not have been true."""
        is_true = self._cluster is None or state.changes == self._cluster.changes
        return 0.0 if is_true else self._clock() - state.made

    def _clock(self) -> float:
        return 0.0 if self._cluster is None else self._cluster.client.connection.clock()

    def _made(self) -> _State:
        cluster = self._cluster
        if cluster is None:
            return _State(Template(self._prepare, nullcontext(), self._readable), 0.0, 0, None)
        with cluster.lock:
            template = Template(self._prepare, nullcontext(), self._readable)
            return _State(template, self._clock(), cluster.changes, cluster.moment())
