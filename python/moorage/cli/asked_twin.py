"""AskedTwin: answers about a cluster that is followed, or about files; standing answers are metrics."""

from __future__ import annotations

import importlib
import json
import logging
import os
import pkgutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import click
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from moorage.answers.page import Page
from moorage.answers.runs.loaded_cluster import PreparedInput
from moorage.errors import InputError, MoorageError, located
from moorage.kube.read.files import source_name
from moorage.kube.read.read_objects import Listed
from moorage.kube.strict_documents import Strict, decode_part, read_value
from moorage.lazy import NamedTuple
from moorage.live.shares import Limits
from moorage.live.twin_server import JSON, Forks, Template, TwinRefusalError, Work, refusal
from moorage.live.web_server import Reply

from .app import app, run
from .commands.check import check
from .options.inputs import prepare
from .questions import TwinQuestion, question_of
from .twin_overview import Changes, TwinAnswer, TwinOverview

if TYPE_CHECKING:
    from moorage.live.followed_cluster import FollowedCluster, Moment

DUMP = "cluster.json"
"""What a question calls the cluster: the file that `moorage dump -o cluster.json` writes."""
MOST_NOTES = 20
_ROOMS = ("kube", "cli.commands", "cluster", "autoscalers", "answers")
"""What questions import and read: once, before the first fork, and not in each child."""

_OF_NO_RELEASES = ("kubernetes-version", "instance-types", "node-groups", "group-sizes")
"""Options that a comparison of releases does not take."""


class AskedTwin:
    """Answers questions. Thread-safe.

    Parameters
    ----------
    files : sequence of str
        In place of a cluster, what the commands are given by ``-f``. They are read again when they change.
    defaults : sequence of (str, str)
        Options of every question; see `question_of`.
    max_age : float
        How old a state may be that questions are answered on while the cluster changes, in seconds.
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
            Path(path) for path in (*files, *(value for _, value in defaults)) if os.path.isabs(path)
        ]
        self.forks = Forks(limits or Limits())
        prepared = partial(_prepare, cluster, self._defaults, files[0] if files else DUMP, is_recursive)
        self._states = _States(cluster, prepared, max_age, self._readable)
        for name in _ROOMS:
            room = importlib.import_module(f"moorage.{name}")
            for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
                with suppress(MoorageError, ImportError):  # of an extra that is not installed
                    importlib.import_module(module.name)
        with suppress(MoorageError):
            Page("", "").html()
        self._alone = alone = self.alone()
        self.overview = TwinOverview(
            lambda path, max_age: alone.ask(alone.question(path, ()), max_age), self._states.changes
        )

    def alone(self) -> AskedTwin:
        """Return a twin of the same cluster that answers one question at a time, whatever this one does."""
        other = copy(self)
        other.forks = Forks(self.forks.limits._replace(at_once=1))
        return other

    def ask(self, question: TwinQuestion, max_age: float | None = None) -> TwinAnswer:
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
        return TwinAnswer(output, self._states.moment(state), question.command(self._named))

    def end(self) -> None:
        """End the processes that answer."""
        self.forks.end()
        self._alone.forks.end()
        self._states.end()

    def question(self, path: str, query: Sequence[tuple[str, str]], body: bytes = b"") -> TwinQuestion:
        """Return the command of a request; see `question_of`."""
        defaults = self._defaults
        if path == "compare" and any(text.startswith("kubernetes") for _, text in query):
            defaults = [option for option in defaults if option[0] not in _OF_NO_RELEASES]
        return question_of(path, query, body, defaults)

    def reply(self, path: str, query: Sequence[tuple[str, str]], body: bytes) -> Reply:
        """Return the answer to a request, or why there is none."""
        ages = [value for name, value in query if name == "max-age"]
        query = [pair for pair in query if pair[0] != "max-age"]
        if path == "state":
            document = state_document(self.moment())
            document |= {"answering": self.forks.answering, "waiting": self.forks.waiting}
            document["overview"] = self.overview.about()
            return Reply(200, json.dumps(document).encode() + b"\n", JSON)
        if path == "differences" and self._cluster is not None and self._cluster.bindings is not None:
            with self._cluster.lock:
                kept = list(self._cluster.bindings.differences)
            return Reply(200, json.dumps({"differences": kept}).encode() + b"\n", JSON)
        try:
            max_age = _seconds(ages[-1]) if ages else None
            if path == "overview":
                reading = self.overview.get(max_age)
                return Reply(200, self.overview.document(reading), JSON, _headers(reading.nodes))
            question = self.question(path, query, body)
            answer = self.ask(question, max_age)
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


def _headers(answer: TwinAnswer) -> list[tuple[str, str]]:
    """Return what stands beside an answer, whose body has the bytes of the command alone."""
    output = answer.output
    headers = {"Repeat": answer.command, "Exit-Code": str(output.code), "Before": str(output.before)}
    if notes := output.stderr.splitlines()[:MOST_NOTES]:
        headers["Notes"] = json.dumps(notes)
    if (moment := answer.moment) is not None:
        headers["Staleness"] = f"{moment.staleness:.3f}"
        headers["Resource-Versions"] = " ".join(f"{kind}={at}" for kind, at in moment.versions.items() if at)
        headers |= {"Unreadable": " ".join(moment.unreadable)} if moment.unreadable else {}
        headers |= {"Left-Out": " ".join(moment.left_out)} if moment.left_out else {}
    return [(f"Moorage-{name}", text.encode().decode("latin-1")) for name, text in headers.items()]


def _prepare(
    cluster: FollowedCluster | None, defaults: Sequence[tuple[str, str]], name: str, is_recursive: bool
) -> Work:
    """Return what answers questions about the present state, in a process that forks for each. Of several
    files the first one, `name`, is prepared."""
    listed = None if cluster is None else Listed(DUMP, list(cluster.objects()))
    held = {name: PreparedInput(listed)}
    words = question_of("check", (), b"", defaults).arguments(["-f", name] + ["-R"] * is_recursive)
    with suppress(MoorageError), click.Context(app, obj=held) as root:  # the command tells what is wrong
        context = check.make_context(words[0], words[1:], parent=root)
        with context.scope(cleanup=False):
            prepare(held[name], context.params)
    return lambda arguments: run([*arguments], held=held)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) < inf:
            return seconds
    raise InputError(f"must be a number of seconds, not {text!r}", source="max-age")


def _stamps(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield when a file, or each in a folder, was written, and its size; nothing of what is not there."""
    for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
        with suppress(OSError):
            stat = file.stat()
            yield str(file), stat.st_mtime_ns, stat.st_size


class _State(NamedTuple):
    """A state of the cluster that questions are answered about."""

    template: Template
    prepared_at: float
    changes: Changes
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
        changes = self.changes()  # not under the lock, as folders may be large
        with self._lock:
            now = self._now
            is_old = now is not None and now.changes != changes and self._age(now) > most
            if now is None or is_old or now.template.has_ended:
                now = self._now = None  # it is given up first: the memory is for one
                now = self._now = self._prepared()
            return now

    def moment(self, state: _State) -> Moment | None:
        """Return how far the cluster was followed: now, if the state is still true."""
        if self._cluster is None or state.moment is None:
            return None
        with self._cluster.lock:
            if state.changes[0] == self._cluster.changes:
                return self._cluster.moment()
            return state.moment._replace(staleness=state.moment.staleness + self._age(state))

    def end(self) -> None:
        """End the processes."""
        with self._lock:
            self._now = None

    def _age(self, state: _State) -> float:
        """Return for how long a state may not have been true."""
        if state.changes == self.changes():
            return 0.0
        return inf if self._cluster is None else self._clock() - state.prepared_at

    def changes(self) -> Changes:
        """Return what differs once the cluster, or a file, has changed."""
        of_cluster = 0 if self._cluster is None else self._cluster.changes
        return of_cluster, *chain.from_iterable(map(_stamps, self._readable))

    def _clock(self) -> float:
        return 0.0 if self._cluster is None else self._cluster.client.connection.clock()

    def _prepared(self) -> _State:
        cluster = self._cluster
        with nullcontext() if cluster is None else cluster.lock:
            changes = self.changes()  # before the files are read
            template = Template(self._prepare, nullcontext(), self._readable)
            return _State(template, self._clock(), changes, None if cluster is None else cluster.moment())


# ---- standing questions ------------------------------------------------------------------------------------
#
# Questions that a twin asks itself again and again, whose answers are metrics.

logger = logging.getLogger("moorage.serve")

Query = list[tuple[str, str]]
GAUGES = {
    "moorage_fits": ("template", "How many more replicas of a template fit now."),
    "moorage_largest_gang": ("template", "The largest gang of a template that fits now as a whole."),
    "moorage_survives": (
        "by",
        "Whether each pod finds a node after the loss of any one node, zone or other domain.",
    ),
    "moorage_lost_pods": ("by", "How many pods have no node after the loss of the worst domain."),
    "moorage_nodes_needed": (
        "like",
        "How many nodes like this the waiting pods need; absent where more do not help.",
    ),
    "moorage_coming_nodes": ("", "How many nodes NodePools would make now for pods that wait."),
    "moorage_coming_price": ("", "What these nodes cost per hour at most, where the prices are known."),
}
"""The label of each metric, and what it tells."""


class QuestionTemplate(Strict, frozen=True):
    """Pods that are asked about: KIND/NAME of the cluster, or a manifest.

    Attributes
    ----------
    largest_gang : int
        Up to which size gangs are tried; 0 for none.
    """

    pod: str = ""
    manifest: Mapping[str, Any] | None = None
    largest_gang: int = 0


class StandingQuestions(Strict, frozen=True):
    """What a file of questions has.

    Attributes
    ----------
    seconds : float
        From one round of questions to the next; a round is left out while the cluster stays as it is.
    templates : dict of str to QuestionTemplate
        By the name that the metrics show.
    survive : list of str
        Values of ``--survive``.
    nodes_like : list of str
        Values of ``--like``.
    """

    seconds: float = 60.0
    templates: dict[str, QuestionTemplate] = {}
    survive: list[str] = []
    nodes_like: list[str] = []


def read_questions(path: str) -> StandingQuestions:
    """Read a file of questions.

    Raises
    ------
    InputError
        It cannot be read, or is no such file.
    """
    with located(source=source_name(path)):
        read = decode_part(read_value(path) or {}, StandingQuestions)
        for name, template in read.templates.items():
            if bool(template.pod) == (template.manifest is not None):
                raise InputError("give either pod or manifest", path=f"templates.{name}")
        if not 1 <= read.seconds <= 86400:
            raise InputError("must be 1 to 86400", path="seconds")
    return read


class StandingAnswers:
    """Asks standing questions, and tells the answers to Prometheus.

    Parameters
    ----------
    twin : AskedTwin
        Of this alone: its limit of questions at once is not shared.
    clock : callable, optional
        Returns seconds.
    """

    def __init__(
        self, twin: AskedTwin, questions: StandingQuestions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._twin, self._questions, self._clock = twin, questions, clock
        self._values: dict[str, dict[str, float]] = {}
        self._failures = Counter[str]()
        self._last_round: float | None = None
        self._versions: Mapping[str, str] | None = None

    def keep_asking(self, stop: Event) -> None:
        """Ask in rounds until an event is set, whatever a round ends with."""
        while not stop.is_set():
            with self._counted("round"):
                moment = self._twin.moment()
                versions = None if moment is None else moment.versions
                if versions is None or versions != self._versions:
                    self.ask_all()
                    self._versions = versions
                self._last_round = self._clock()
            stop.wait(self._questions.seconds)

    def age(self) -> str:
        """Return how long ago the last round has ended; a line of ``/readyz?verbose``."""
        if self._last_round is None:
            return "no round has ended yet"
        return f"the last round has ended {self._clock() - self._last_round:.0f} s ago"

    def ask_all(self) -> None:
        """Ask each question once."""
        values: dict[str, dict[str, float]] = {name: {} for name in GAUGES}
        for name, template in self._questions.templates.items():
            with self._counted(f"template {name}"):
                self._ask_template(name, template, values)
        for by in self._questions.survive:
            with self._counted(f"survive {by}"):
                survival = self._ask("check", [("survive", by)])["survival"]
                values["moorage_survives"][by] = float(survival["survived"])
                lost = (len(loss["lost"]) for loss in survival["losses"])
                values["moorage_lost_pods"][by] = max(lost, default=0)
        for like in self._questions.nodes_like:
            with self._counted(f"nodes like {like}"):
                needed = self._ask("plan/nodes", [("like", like)])
                if needed["status"] == "found":
                    values["moorage_nodes_needed"][like] = needed["nodes"]
        with self._counted("coming nodes"):
            if (coming := self._ask("check", []).get("newNodes")) is not None:
                values["moorage_coming_nodes"][""] = len(coming["nodes"])
                if coming["pricePerHour"] is not None:
                    values["moorage_coming_price"][""] = coming["pricePerHour"]
        self._values = values

    def _ask_template(
        self, name: str, template: QuestionTemplate, values: dict[str, dict[str, float]]
    ) -> None:
        """Ask how many replicas fit, and which gang does: by bisection, as one that fits has room for each
        smaller one."""
        body = b"" if template.manifest is None else json.dumps(template.manifest).encode()
        pod = [("pod", template.pod or "-")]
        count = self._ask("capacity", pod, body)["count"]
        values["moorage_fits"][name] = count
        if not template.largest_gang:
            return
        fits, too_many = 0, min(template.largest_gang, count) + 1
        while too_many - fits > 1:
            size = (fits + too_many) // 2
            if self._ask("capacity", [*pod, ("gang", str(size)), ("max-limit", "1")], body)["rounds"]:
                fits = size
            else:
                too_many = size
        values["moorage_largest_gang"][name] = fits

    def _ask(self, path: str, query: Query, body: bytes = b"") -> dict[str, Any]:
        """Return the document of an answer; an InputError says why there is none."""
        output = self._twin.ask(self._twin.question(path, query, body)).output
        if output.code not in (0, 1):
            raise InputError(output.stderr.strip())
        document: dict[str, Any] = json.loads(output.stdout)
        return document

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        """Log and count whatever ends the block: the thread has other questions to ask."""
        try:
            yield
        except Exception as error:
            self._failures[what] += 1
            defect = None if isinstance(error, MoorageError) else error  # another one is a defect
            logger.warning(
                "a standing question has no answer: question=%r error=%s", what, error, exc_info=defect
            )

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families (prometheus_client's interface of collectors)."""
        for name, (label, text) in GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=[label] if label else [])
            for value, number in self._values.get(name, {}).items():
                family.add_metric([value] if label else [], number)
            yield family
        text = "Standing questions that had no answer; the log says why."
        failures = CounterMetricFamily("moorage_unanswered_questions", text, labels=["question"])
        for what, number in self._failures.items():
            failures.add_metric([what], number)
        yield failures
        text = "Time since the last round of standing questions has ended."
        age = GaugeMetricFamily("moorage_standing_answers_seconds", text)
        if self._last_round is not None:
            age.add_metric([], self._clock() - self._last_round)
        yield age
