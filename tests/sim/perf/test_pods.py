"""Runs of pods, the queue, and backoff."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from moorage.errors import InputError
from moorage.objects.meta import ObjectMeta
from moorage.objects.pod import Affinity, Container, Pod, PodAffinity, PodAffinityTerm, PodSpec
from moorage.sim.perf.go_template import parse
from moorage.sim.perf.object_templates import ObjectTemplate
from moorage.sim.perf.pods import (
    FAILED,
    GATED,
    GONE,
    Batch,
    PodNames,
    PodQueue,
    PodRun,
    Unschedulable,
    runs_of,
)
from tests.sim.perf.make import POD


def run(priority: int = 0, count: int = 10) -> PodRun:
    meta = ObjectMeta(generate_name="p-", namespace="ns")
    return PodRun(Pod(metadata=meta, spec=PodSpec(priority=priority, containers=(Container(),))), 0, count)


def popped(queue: PodQueue, limit: int = 100) -> list[tuple[PodRun, int, int]]:
    found = []
    while (batch := queue.pop(limit)) is not None:
        found.append((batch.run, batch.start, batch.stop))
    return found


def test_higher_priority_goes_first_then_who_came_first() -> None:
    low, high, late, queue = run(), run(5), run(), PodQueue()
    for one in (low, high, late):
        queue.push(Batch(one, 0, 10))
    assert popped(queue) == [(high, 0, 10), (low, 0, 10), (late, 0, 10)]


def test_what_is_left_of_a_batch_keeps_its_place() -> None:
    first, second, queue = run(), run(), PodQueue()
    queue.push(Batch(first, 0, 10))
    queue.push(Batch(second, 0, 10))
    assert popped(queue, 6) == [(first, 0, 6), (first, 6, 10), (second, 0, 6), (second, 6, 10)]


def test_pods_that_are_gone_or_gated_are_passed_over() -> None:
    one, queue = run(), PodQueue()
    one.state[[0, 3, 4, 9]] = GONE
    one.state[1] = GATED
    one.state[2] = FAILED
    one.holes = True
    queue.push(Batch(one, 0, 10))
    assert popped(queue, 3) == [(one, 2, 3), (one, 5, 8), (one, 8, 9)]
    queue.push(Batch(one, 3, 5))
    assert popped(queue) == []


def test_what_waits_is_taken_when_something_happens() -> None:
    waiting, plain, attracted = Unschedulable(), run(), run()
    terms = (PodAffinityTerm(topology_key="zone"),)
    affinity = Affinity(pod_affinity=PodAffinity(required=terms))
    attracted.template = replace(attracted.template, spec=replace(attracted.template.spec, affinity=affinity))
    for one in (plain, attracted):
        waiting.add(Batch(one, 0, 10), Fraction(0), "why")
    assert [one.batch.run for one in waiting.take(only_for_pods=True)] == [attracted]
    assert [one.batch.run for one in waiting.take(only_for_pods=False)] == [plain]
    assert list(waiting) == []


def test_backoff_doubles_up_to_ten_seconds_for_each_batch() -> None:
    waiting, one = Unschedulable(), run()
    pauses = []
    for _ in range(6):
        waiting.add(Batch(one, 0, 10), Fraction(7), "why")
        pauses += [taken.ready - 7 for taken in waiting.take(only_for_pods=False)]
    assert pauses == [1, 2, 4, 8, 10, 10]
    waiting.add(Batch(one, 5, 10), Fraction(7), "why")
    assert [taken.ready for taken in waiting] == [8]


# ---- names and runs ----------------------------------------------------------------------------------------


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
    with pytest.raises(InputError, match=r"^Pod ns/pod-1: there is a pod of this name$"):
        made(fixed, 1, names)
    with pytest.raises(InputError, match=r"^t.yaml: Pod ns/pod-1: metadata.name: one name for several pods$"):
        made(fixed, 2)
