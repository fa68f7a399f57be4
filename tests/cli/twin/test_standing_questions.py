"""Standing questions become metrics."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.doors.cli import AskedTwin, StandingAnswers, read_questions
from tests.house.source import ROOT

from moorage.errors import InputError

SHOP, KARPENTER = ROOT / "examples/shop/cluster.yaml", ROOT / "examples/karpenter"
RELEASE = ROOT / "examples/shop/release/web.yaml"
QUESTIONS = """
seconds: 30
templates:
  web: {pod: deploy/shop/web, largestGang: 5}
  large:
    manifest:
      apiVersion: v1
      kind: Pod
      metadata: {name: p}
      spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
  absent: {pod: deploy/shop/absent}
survive: [node]
nodesLike: [new-a]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "questions.yaml"


def asked(file: Path, twin: AskedTwin) -> CollectorRegistry:
    answers, registry = (
        StandingAnswers(twin.alone(), read_questions(str(file)), lambda: 7.0),
        CollectorRegistry(),
    )
    registry.register(answers)
    answers.ask_all()
    return registry


def test_answers_are_metrics(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(QUESTIONS)
    registry = asked(file, AskedTwin(None, [str(SHOP), str(RELEASE)]))
    value = registry.get_sample_value
    assert value("moorage_fits", {"template": "web"}) == 3
    assert value("moorage_largest_gang", {"template": "web"}) == 3
    assert value("moorage_fits", {"template": "large"}) == 3
    assert value("moorage_survives", {"by": "node"}) == 0
    assert value("moorage_lost_pods", {"by": "node"}) == 3
    assert value("moorage_nodes_needed", {"like": "new-a"}) == 1
    assert value("moorage_coming_nodes") is None
    assert value("moorage_unanswered_questions_total", {"question": "template absent"}) == 1
    assert value("moorage_fits", {"template": "absent"}) is None
    assert "question='template absent'" in caplog.text


def test_node_pools_tell_the_price_that_would_come(file: Path) -> None:
    file.write_text("{}")
    types = [("instance-types", str(KARPENTER / "instance_types.yaml"))]
    registry = asked(file, AskedTwin(None, [str(KARPENTER / "cluster.yaml")], defaults=types))
    assert registry.get_sample_value("moorage_coming_nodes") == 6
    assert registry.get_sample_value("moorage_coming_price") == pytest.approx(6 * 0.1428)


def test_rounds_are_asked_until_the_twin_ends(file: Path) -> None:
    file.write_text("seconds: 1\nsurvive: [node]")
    stop = Event()
    answers = StandingAnswers(AskedTwin(None, [str(SHOP)]).alone(), read_questions(str(file)), lambda: 7.0)
    registry = CollectorRegistry()
    registry.register(answers)
    assert registry.get_sample_value("moorage_standing_answers_seconds") is None
    ask = answers.ask_all

    def once() -> None:
        ask()
        stop.set()

    answers.ask_all = once  # type: ignore[method-assign]
    answers.keep_asking(stop)
    assert registry.get_sample_value("moorage_standing_answers_seconds") == 0
    assert registry.get_sample_value("moorage_survives", {"by": "node"}) == 1


class Hasty(Event):
    """Nobody waits for it."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


class Odd(AskedTwin):
    """Answers some questions with what is no JSON, or lacks fields; its first round fails, and the second is
    the last."""

    def __init__(self, stop: Event) -> None:
        super().__init__(None, [str(SHOP)])
        self.rounds, self.stop = 0, stop

    def ask(self, question: Any, max_age: float | None = None) -> Any:
        answer = super().ask(question, max_age)
        if "--survive=zone" in question.options or question.words == ("plan", "nodes"):
            text = b"a banner\n{}" if question.words == ("plan", "nodes") else b"{}"
            return answer._replace(output=answer.output._replace(stdout=text))
        return answer

    def moment(self) -> None:
        self.rounds += 1
        if self.rounds == 1:
            raise RuntimeError("a defect")
        self.stop.set()


def test_no_defect_ends_the_rounds(file: Path) -> None:
    """An odd answer leaves the other questions theirs."""
    file.write_text("survive: [node, zone]\nnodesLike: [new-a]")
    stop, registry = Hasty(), CollectorRegistry()
    answers = StandingAnswers(Odd(stop).alone(), read_questions(str(file)), lambda: 7.0)
    registry.register(answers)
    assert answers.age() == "no round has ended yet"
    answers.keep_asking(stop)
    value = registry.get_sample_value
    assert value("moorage_survives", {"by": "node"}) == 1
    assert value("moorage_survives", {"by": "zone"}) is None
    for question in ("survive zone", "nodes like new-a", "round"):
        assert value("moorage_unanswered_questions_total", {"question": question}) == 1
    assert answers.age() == "the last round has ended 0 s ago"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("template: {}", "unknown field `template`"),
        ("templates: {a: {}}", "templates.a: give either pod or manifest"),
        ("seconds: 0", "seconds: must be 1 to 86400"),
        ("- a", "Expected `object`"),
    ],
)
def test_a_file_that_is_wrong_is_refused(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_questions(str(file))


def test_a_file_that_is_missing_is_refused(file: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_questions(str(file))
