"""Queueing hints that are called for one pod of a class, and the indexes of hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doors.engine import index_of, of_class, queue_if
from tests.make import in_tree
from tests.queue.ask import node, pod

from moorage import Scheduler
from moorage.engine.framework import ClusterEventWithHint, QueueingHint
from moorage.kube import Pod

KEYS, VALUES = ("a", "b"), ("0", "1")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
SELECTORS = st.one_of(
    LABELS.map(lambda labels: {"matchLabels": labels}),
    st.builds(
        lambda key, operator, values: {
            "matchExpressions": [{"key": key, "operator": operator, "values": values}]
        },
        st.sampled_from(KEYS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True),
    ),
    st.sampled_from(
        [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "a", "operator": "In"}]},  # malformed
            None,
        ]
    ),
)
TERMS = st.lists(
    st.builds(
        lambda selector, key: {"labelSelector": selector, "topologyKey": key},
        SELECTORS,
        st.sampled_from(["zone", "host"]),
    ),
    max_size=2,
)
CONSTRAINTS = st.lists(
    st.builds(
        lambda selector, when, keys: {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": when,
            "labelSelector": selector,
            "matchLabelKeys": keys,
        },
        SELECTORS,
        st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        st.sampled_from([[], ["b"]]),
    ),
    max_size=2,
)
NODE_TERMS = st.sampled_from(
    [
        None,
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]},
        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]},  # malformed
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]},
    ]
)


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a pod that its class depends on."""
    affinity: dict[str, Any] = {}
    for side in ("podAffinity", "podAntiAffinity"):
        if terms := draw(TERMS):
            affinity[side] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if (term := draw(NODE_TERMS)) is not None:
        required = {"nodeSelectorTerms": [term]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    ports = draw(st.sampled_from([[], [{"containerPort": 1, "hostPort": 80}]]))
    requests = draw(st.sampled_from([{}, {"cpu": "1"}, {"example.com/gpu": "1"}]))
    return {
        "labels": draw(LABELS),
        "namespace": draw(st.sampled_from(["x", "y"])),
        "affinity": affinity or None,
        "topologySpreadConstraints": draw(CONSTRAINTS),
        "tolerations": draw(st.sampled_from([[], [{"key": "t", "operator": "Exists"}]])),
        "containers": [{"name": "c", "ports": ports, "resources": {"requests": requests}}],
    }


def waiting(name: str, more: dict[str, Any], **spec: Any) -> Pod:
    return pod(name, **more, **spec)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Any, Any]:
    """A pod or a node before and after an event."""
    if draw(st.booleans()):
        of = st.builds(
            node,
            st.just("n"),
            labels=LABELS,
            unschedulable=st.booleans(),
            cpu=st.sampled_from(["0", "4"]),
        )
        old, new = draw(of), draw(of)
    else:
        name, on, first = draw(st.sampled_from(["q", "p"])), draw(st.sampled_from(["", "n"])), draw(fields())
        second = first | {"labels": draw(LABELS)}
        if draw(st.booleans()):
            second["containers"] = [{"name": "c"}]
        old, new = waiting(name, first, nodeName=on), waiting(name, second, nodeName=on)
    return draw(st.sampled_from([(None, new), (old, new), (old, None)]))


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler()


def hints_of(scheduler: Scheduler, resource: str, old: Any, new: Any) -> Iterator[ClusterEventWithHint]:
    """The hints that may be called for an addition, a deletion or some update."""
    for registered in scheduler.queue.hints.by_profile["default-scheduler"].values():
        for one in registered:
            bits = int(one.event.action)
            fits = bits & 1 if old is None else bits & 2 if new is None else bits & ~3
            if one.event.resource == resource and fits and one.hint is not None:
                yield one


def answer(hint: Any, one: Pod, old: Any, new: Any) -> str:
    """What a hint returns or raises."""
    try:
        return str(hint(one, old, new).value)
    except ValueError as error:
        return str(error)


@settings(deadline=None, max_examples=400)
@given(fields=fields(), change=changes())
def test_a_marked_hint_answers_alike_for_all_pods_of_a_class(
    scheduler: Scheduler, fields: dict[str, Any], change: tuple[Any, Any]
) -> None:
    """Apart from the pod that the event is about, and pods that are pinned to different nodes."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    one, other = waiting("p1", fields), waiting("p2", fields, volumes=volumes)
    intern = scheduler.cache.state.classes.intern
    assert intern(one) == intern(other)
    resource = "Node" if type(change[0] or change[1]).__name__ == "Node" else "Pod"
    for registered in hints_of(scheduler, resource, *change):
        if getattr(registered.hint, "of_class", False):
            assert answer(registered.hint, one, *change) == answer(registered.hint, other, *change)


@settings(deadline=None, max_examples=400)
@given(first=fields(), second=fields(), change=changes())
def test_a_class_has_one_answer_whatever_its_pods_say(
    scheduler: Scheduler, first: dict[str, Any], second: dict[str, Any], change: tuple[Any, Any]
) -> None:
    """Also pods with different specs may be of one class."""
    one, other = waiting("p1", first), waiting("p2", second | {"labels": first["labels"]})
    intern, pinned = scheduler.cache.state.classes.intern, scheduler.cache.state.classes.pinned_symbol
    key, other_key = ((intern(pod), pinned(intern(pod), pod)) for pod in (one, other))
    resource = "Node" if type(change[0] or change[1]).__name__ == "Node" else "Pod"
    for registered in hints_of(scheduler, resource, *change):
        if key == other_key and getattr(registered.hint, "of_class", False):
            assert answer(registered.hint, one, *change) == answer(registered.hint, other, *change)


@settings(deadline=None, max_examples=600)
@given(fields=fields(), change=changes())
def test_an_indexed_hint_moves_only_pods_with_a_key_of_the_event(
    scheduler: Scheduler, fields: dict[str, Any], change: tuple[Any, Any]
) -> None:
    one = waiting("p1", fields)
    resource = "Node" if type(change[0] or change[1]).__name__ == "Node" else "Pod"
    for registered in hints_of(scheduler, resource, *change):
        assert registered.hint is not None
        index = index_of(registered.hint)
        if index is None or answer(registered.hint, one, *change) == "QueueSkip":
            continue
        try:
            keys = index.keys(one)
        except ValueError:
            continue
        event_keys = index.event_keys(*change)
        assert keys is None or event_keys is None or keys.intersection(event_keys)


def test_the_indexes_are_of_use(scheduler: Scheduler) -> None:
    """A term that asks for labels makes keys of them; what it excludes makes none."""
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"a": "1"}}, "topologyKey": "zone"}
            ]
        }
    }
    for plugin, resource in (("InterPodAffinity", "Pod"), ("PodTopologySpread", "Pod")):
        registered = scheduler.queue.hints.by_profile["default-scheduler"][plugin]
        (hint,) = [one.hint for one in registered if one.event.resource == resource and one.hint]
        index = index_of(hint)
        assert index is not None
        spread = [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {
            "matchLabels": {"a": "1"}
        }}]  # fmt: skip
        waits = pod(affinity=affinity, topologySpreadConstraints=spread)
        assert index.keys(waits) == {("a", "1")}
        assert index.event_keys(None, pod(labels={"b": "2"})) == {("b", "2")}
        for selector, keys in (({}, None), (None, frozenset())):
            term = {"labelSelector": selector, "topologyKey": "zone"}
            required = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            spread = [term | {"whenUnsatisfiable": "DoNotSchedule"}]
            assert index.keys(pod(affinity=required, topologySpreadConstraints=spread)) == keys


def test_an_override_of_a_marked_hint_is_called_for_every_pod() -> None:
    class Mine(in_tree("InterPodAffinity")):  # type: ignore[misc]
        def after_pod_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
            return queue_if(pod.name == "a")

    (registered, _) = Mine().events_to_register()
    assert not getattr(registered.hint, "of_class", False)
    assert registered.hint is not None
    assert index_of(registered.hint) is None
    (registered, _) = in_tree("InterPodAffinity")().events_to_register()
    assert getattr(registered.hint, "of_class", False)


def test_a_hint_is_marked_by_itself() -> None:
    @of_class
    def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
        return queue_if(True)

    assert hint.of_class  # type: ignore[attr-defined]
    assert index_of(hint) is None


@pytest.mark.parametrize("plugin", ["NodeUnschedulable", "TaintToleration", "SchedulingGates"])
def test_an_update_of_a_pod_is_no_question_to_other_classes(scheduler: Scheduler, plugin: str) -> None:
    registered = scheduler.queue.hints.by_profile["default-scheduler"][plugin]
    (index,) = [index for one in registered if one.hint is not None and (index := index_of(one.hint))]
    assert (index.keys(pod()), [*index.event_keys(pod(), pod())]) == (frozenset(), [])
