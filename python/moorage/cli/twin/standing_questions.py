"""Questions that a twin asks itself again and again, whose answers are metrics."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from moorage.errors import InputError, MoorageError, located
from moorage.kube.read.files import source_name
from moorage.kube.strict_documents import Strict, decode_part, read_value

from .asked_twin import AskedTwin

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
    "moorage_coming_price": ("", "What these nodes cost per hour, where the prices are known."),
}
"""The label of each metric, and what it tells."""


class Template(Strict, frozen=True):
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
    templates : dict of str to Template
        By the name that the metrics show.
    survive : list of str
        Values of ``--survive``.
    nodes_like : list of str
        Values of ``--like``.
    """

    seconds: float = 60.0
    templates: dict[str, Template] = {}
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
        self._asked: float | None = None
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
                self._asked = self._clock()
            stop.wait(self._questions.seconds)

    def age(self) -> str:
        """Return how long ago the last round has ended; a line of ``/readyz?verbose``."""
        if self._asked is None:
            return "no round has ended yet"
        return f"the last round has ended {self._clock() - self._asked:.0f} s ago"

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

    def _ask_template(self, name: str, template: Template, values: dict[str, dict[str, float]]) -> None:
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
            told = None if isinstance(error, MoorageError) else error  # another one is a defect
            logger.warning(
                "a standing question has no answer: question=%r error=%s", what, error, exc_info=told
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
        if self._asked is not None:
            age.add_metric([], self._clock() - self._asked)
        yield age
