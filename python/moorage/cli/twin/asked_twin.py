"""AskedTwin: answers questions about a cluster that is followed, or about files."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

from moorage.cli.app import run
from moorage.errors import InputError, MoorageError
from moorage.objects.read.load import Listed
from moorage.report import Page
from moorage.serve.twin import FollowedCluster, Forks, Limits, Output, Reply, TwinRefusalError
from moorage.serve.twin.followed_cluster import Moment
from moorage.serve.twin.twin_server import refusal

from .questions import Question, question_of

DUMP = "cluster.json"
"""What a question calls the cluster: the file that `moorage dump -o cluster.json` writes."""
MOST_NOTES = 20
_ROOMS = ("cli.commands", "cli.output", "cli.runs", "autoscaling", "changes", "explain", "planning", "report")
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
    ) -> None:
        self._cluster, self._defaults = cluster, list(defaults)
        self._named = [word for file in (files or [DUMP]) for word in ("-f", file)] + ["-R"] * is_recursive
        self._readable = [Path(one) for one in (*files, *(value for _, value in defaults))]
        self.forks = Forks(limits or Limits(), self._readable)
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
        other.forks = Forks(self.forks.limits._replace(at_once=1), self._readable)
        return other

    def ask(self, question: Question) -> Answer:
        """Answer a question, by its command in a child process.

        Raises
        ------
        TwinRefusalError
            It is beyond the limits.
        """
        arguments = question.arguments(self._named)
        cluster, moments = self._cluster, list[Moment]()
        held: AbstractContextManager[object] = nullcontext()
        if cluster is not None:
            cluster.apply_news()
            held = _held(cluster, moments)

        def work() -> int:
            listed = {} if cluster is None else {DUMP: Listed(DUMP, list(cluster.objects()))}
            return run(arguments, listed=listed)

        output = self.forks.run(work, question.stdin, held)
        return Answer(output, moments[0] if moments else None, question.command(self._named))

    def question(self, path: str, query: Sequence[tuple[str, str]], body: bytes = b"") -> Question:
        """Return the command of a request; see `question_of`."""
        defaults = self._defaults
        if path == "compare" and any(text.startswith("kubernetes") for _, text in query):
            defaults = [one for one in defaults if one[0] not in _OF_NO_RELEASES]
        return question_of(path, query, body, defaults)

    def reply(self, path: str, query: Sequence[tuple[str, str]], body: bytes) -> Reply:
        """Return the answer to a request, or why there is none."""
        if path == "state":
            return Reply(200, json.dumps(state_document(self.moment())).encode() + b"\n")
        if path == "differences" and self._cluster is not None and self._cluster.bindings is not None:
            with self._cluster.lock:
                kept = list(self._cluster.bindings.differences)
            return Reply(200, json.dumps({"differences": kept}).encode() + b"\n")
        try:
            question = self.question(path, query, body)
            answer = self.ask(question)
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


@contextmanager
def _held(cluster: FollowedCluster, moments: list[Moment]) -> Iterator[None]:
    """Hold the lock of a cluster, and note how far it is followed meanwhile."""
    with cluster.lock:
        moments.append(cluster.moment())
        yield
