"""Runs of pods: their names, and which of them are as their template says."""

from __future__ import annotations

import pytest
from bench.scheduler_perf.go_template import parse
from bench.scheduler_perf.object_templates import ObjectTemplate
from bench.scheduler_perf.pods import PodNames, PodRun, runs_of
from tests.benchmarks.scheduler_perf.make import POD

from moorage.errors import InputError


def made(text: str, count: int, names: PodNames | None = None, signature: int = 0) -> list[PodRun]:
    template = ObjectTemplate(parse(text, "t.yaml"), {"size": 2}, count)
    return list(runs_of(template, count, "ns", names or PodNames(), signature))


def names_of(runs: list[PodRun]) -> list[str]:
    return [one.name(number) for one in runs for number in range(len(one))]


def test_pods_of_a_template_without_index_are_one_run() -> None:
    (one,) = made(POD, 3)
    assert names_of([one]) == ["pod-0", "pod-1", "pod-2"]
    assert one.template.namespace == "ns"
    assert one.template.spec.scheduler_name == "default-scheduler"
    assert (one.template.name, one.template.metadata.uid) == ("", "")
    assert made(POD, 0) == []


def test_names_go_on_where_the_last_operation_ended() -> None:
    names = PodNames()
    made(POD, 3, names)
    assert names_of(made(POD, 2, names)) == ["pod-3", "pod-4"]
    assert names_of(made(POD.replace("pod-", "other-"), 1, names)) == ["other-0"]


def test_neighbours_that_differ_in_their_number_alone_are_a_run() -> None:
    named = POD.replace("generateName: pod-", "name: 'pod-{{.Index}}'")
    (one,) = made(named, 12)
    assert names_of([one]) == [f"pod-{number}" for number in range(12)]
    labelled = named.replace("}'}", "}', labels: {group: 'g{{DivideInt .Index .size}}'}}")
    runs = made(labelled, 5)
    assert [len(one) for one in runs] == [2, 2, 1]
    assert names_of(runs) == [f"pod-{number}" for number in range(5)]
    assert [one.template.metadata.labels["group"] for one in runs] == ["g0", "g1", "g2"]


def test_a_prefix_that_depends_on_the_index_makes_runs_of_one() -> None:
    runs = made(POD.replace("pod-", "'pod-{{.Index}}-'"), 3)
    assert names_of(runs) == ["pod-0-0", "pod-1-0", "pod-2-0"]
    assert [len(one) for one in runs] == [1, 1, 1]


def test_equal_signatures_are_a_run() -> None:
    runs = made(POD, 5, signature=2)
    assert names_of(runs) == [f"pod-{number}" for number in range(5)]
    assert [one.template.metadata.labels for one in runs] == [{"signature": str(n)} for n in range(3)]
    assert [len(one) for one in runs] == [2, 2, 1]


def test_a_name_is_given_once() -> None:
    fixed = POD.replace("generateName: pod-", "name: pod-1")
    names = PodNames()
    assert names_of(made(fixed, 1, names)) == ["pod-1"]
    assert names_of(made(POD, 1, names)) == ["pod-2"]
    with pytest.raises(InputError, match=r"^t.yaml: Pod ns/pod-1: metadata.name: one name for several pods$"):
        made(fixed, 2)


def test_pods_of_a_run_have_its_names() -> None:
    (one,) = made(POD, 3)
    assert [pod.key for pod in one.pods()] == [one.key(number) for number in range(3)]
    (named,) = made(POD.replace("generateName: pod-", "name: alone"), 1)
    (pod,) = named.pods()
    assert (pod.name, pod.key) == ("alone", named.key(0))
