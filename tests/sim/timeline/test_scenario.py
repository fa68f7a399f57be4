"""Scenarios: timelines as YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

import moorage as mo
from moorage import Timeline
from moorage.kube import write_cluster
from moorage.sim.timeline import Verb

SCENARIO = """
apiVersion: replay.moorage.dev/v1
kind: Scenario
metadata: {name: test}
spec:
  cluster: [nodes.yaml]
  templates:
    web: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c}]}}
    node: {apiVersion: v1, kind: Node, metadata: {name: big}, status: {allocatable: {cpu: "8"}}}
  arrivals:
  - {template: web, process: poisson, rate: 0.5, until: 1m, seed: 7, lifetime: {exponential: 10s}}
  - {template: web, name: burst, process: bursts, size: 2, every: 30s, until: 1m, lifetime: {constant: 5}}
  - {template: web, name: day, process: diurnal, rate: 0.01, until: 1d, lifetime: {lognormal: [1h, 1.5]}}
  events:
  - {time: 10, create: web, name: solo}
  - {time: 1m, join: node, count: 2}
  - {time: 2m, scale: deploy/web, replicas: 3}
  - {time: 2m, patch: deploy/web, with: {spec: {paused: true}}}
  - {time: 3m, drain: big-0}
  - {time: 3m, cordon: big-1}
  - {time: 3m, uncordon: big-1}
  - {time: 3m, taint: big-1, with: ["a=b:NoSchedule"]}
  - {time: 3m, label: node/big-1, with: [pool=x]}
  - {time: 4m, leave: big-0}
  - {time: 4m, measure: end}
  - {time: 4m, apply: web}
  - {time: 4m, bind: pod/solo, node: big-1}
  - {time: 5m, delete: pod/solo}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    write_cluster(tmp_path / "nodes.yaml", mo.synthetic(nodes=2))
    return tmp_path


def test_a_scenario_has_events_of_every_kind(folder: Path) -> None:
    timeline = Timeline.read(folder / "s.yaml", format="scenario")
    assert len(timeline.cluster.nodes) == 2
    verbs = {event.verb for event in timeline}
    assert verbs == set(Verb)
    drawn = [event for event in timeline if event.verb is Verb.CREATE and "burst" in event.subject]
    assert [event.time for event in drawn] == [0, 0, 30, 30]
    after = [event for event in timeline if 60 <= event.time <= 120 and "web-" not in event.subject]
    assert [(e.verb.name, e.subject) for e in after if "day" not in e.subject] == [
        ("CREATE", "node/big-0"),
        ("CREATE", "node/big-1"),
        ("SCALE", "deploy/web"),
        ("PATCH", "deploy/web"),
    ]


def test_what_is_written_is_read(folder: Path) -> None:
    timeline = Timeline.read(folder / "s.yaml", format="scenario")
    timeline.write(folder / "again.yaml")
    again = Timeline.read(folder / "again.yaml", format="scenario")
    assert list(again) == list(timeline)
    assert [node.name for node in again.cluster.nodes] == [node.name for node in timeline.cluster.nodes]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(mo.InputError, match="cannot be written: No such file or directory"):
        Timeline().write(tmp_path / "no" / "s.yaml")


POD = "{kind: Pod, apiVersion: v1, metadata: {name: a}, spec: {containers: [{name: c}]}}"
HEAD = "apiVersion: replay.moorage.dev/v1\nkind: Scenario\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b", "apiVersion: must be replay.moorage.dev/v1, not None"),
        ("apiVersion: replay.moorage.dev/v1\nkind: X", "kind: must be Scenario, not 'X'"),
        (HEAD + "spec: {evens: []}", "spec: Object contains unknown field `evens`"),
        (
            HEAD + "spec: {events: [{time: 1, make: x}]}",
            "spec.events[0]: Object contains unknown field `make`",
        ),
        (HEAD + "spec: {events: [{time: 1}]}", "spec.events[0]: must have one of create"),
        (HEAD + "spec: {events: [{time: 5x, drain: a}]}", 'spec.events[0]: "5x" is not a duration'),
        (HEAD + "spec: {events: [{time: 1, drain: a, node: b}]}", "spec.events[0]: drain has no field node"),
        (HEAD + "spec: {events: [{time: 1, create: a}]}", 'spec.events[0]: there is no template "a"'),
        (HEAD + "spec: {events: [{time: 1, scale: deploy/a}]}", "spec.events[0].replicas: required"),
        (HEAD + "spec: {events: [{time: 1, bind: pod/a}]}", "spec.events[0].node: required"),
        (HEAD + "spec: {events: [{time: 1, patch: pod/a}]}", "spec.events[0].with: must be a merge patch"),
        (HEAD + "spec: {events: [{time: 1, taint: a}]}", "spec.events[0].with: must be a list of taints"),
        (
            HEAD + "spec: {templates: {a: {apiVersion: v1, kind: Pod, spec: {priority: x}}}}",
            "spec.templates.a.spec.priority: expected integer, got string",
        ),
        (
            HEAD + "spec: {arrivals: [{template: a, process: x, until: 1}], templates: {a: {kind: Pod, "
            "apiVersion: v1, metadata: {name: a}}}}",
            'spec.arrivals[0].process: must be poisson, bursts or diurnal, not "x"',
        ),
        (HEAD + "---\n" + HEAD, "must be one document, not 2"),
        (HEAD + f"spec: {{events: [{{time: 1, join: {POD}}}]}}", "events[0].join: must be a Node, not a Pod"),
        (
            HEAD + f"spec: {{events: [{{time: 1, create: {POD}, count: 0}}]}}",
            "spec.events[0].count: must be at least 1, not 0",
        ),
        (
            HEAD + "spec: {arrivals: [{template: a, process: poisson, until: 1}], "
            "templates: {a: {kind: Node, apiVersion: v1, metadata: {name: a}}}}",
            "spec.arrivals[0].template: must be a Pod, not a Node",
        ),
        (
            HEAD + "spec: {arrivals: [{template: a, process: poisson, until: 1, "
            f"lifetime: {{constant: 1, exponential: 1}}}}], templates: {{a: {POD}}}}}",
            "spec.arrivals[0].lifetime: must have one of constant, exponential, lognormal",
        ),
    ],
)
def test_bad_scenarios_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(mo.InputError) as error:
        Timeline.read(path, format="scenario")
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_scenario_is_one_file(folder: Path) -> None:
    with pytest.raises(mo.InputError, match="a scenario is one file, not 2"):
        Timeline.read(folder / "s.yaml", folder / "s.yaml", format="scenario")


def test_pods_without_a_lifetime_stay(tmp_path: Path) -> None:
    arrivals = "[{template: a, process: bursts, size: 2, every: 30s, until: 1m}]"
    path = tmp_path / "s.yaml"
    path.write_text(f"{HEAD}spec: {{arrivals: {arrivals}, templates: {{a: {POD}}}}}")
    timeline = Timeline.read(path, format="scenario")
    assert [(event.time, event.verb) for event in timeline] == [
        (time, Verb.CREATE) for time in (0, 0, 30, 30)
    ]
