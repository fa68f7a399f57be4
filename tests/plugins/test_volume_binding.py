"""VolumeBinding: what it says of pods and nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.make import node, pod
from tests.plugins.volume_binding_kit import (
    LATE,
    MADE,
    OWNED,
    Bench,
    asking,
    bound,
    disk,
    unresolvable,
    waiting,
)
from tests.volume.binding.test_volume_topology import term, wants
from tests.volume.make import ZONE, claim, storage_class, uses
from tests.words import UNBOUND_IMMEDIATE

from moorage.engine.framework import Code, CycleState, Status
from moorage.kube import Object, OwnerReference, PersistentVolumeClaim, PersistentVolumeClaimStatus

STATE = "VolumeBinding"

# ---- PreFilter ---------------------------------------------------------------------------------------------


def in_phase(one: PersistentVolumeClaim, phase: str) -> PersistentVolumeClaim:
    return replace(one, status=PersistentVolumeClaimStatus(phase=phase))


def deleting(one: PersistentVolumeClaim) -> PersistentVolumeClaim:
    stamp = "2026-01-01T00:00:00Z"
    return replace(one, metadata=replace(one.metadata, deletion_timestamp=stamp, finalizers=("f",)))


MISSING_EPHEMERAL = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'
NOT_OWNED = "PVC default/p-e was not created for pod default/p (pod is not owner)"


@pytest.mark.parametrize(
    ("source", "objects", "text"),
    [
        ({"claim": "c"}, [], 'persistentvolumeclaim "c" not found'),
        ({"ephemeral": "e"}, [], MISSING_EPHEMERAL),
        ({"ephemeral": "e"}, [claim("p-e")], NOT_OWNED),
        ({"ephemeral": "e"}, [claim("p-e", owners=(OwnerReference(uid="p"),))], NOT_OWNED),
        ({"ephemeral": "e"}, [claim("p-e", owners=(OwnerReference(uid="q", controller=True),))], NOT_OWNED),
        ({"ephemeral": "e"}, [claim("p-e", owners=OWNED)], UNBOUND_IMMEDIATE),
        (
            {"claim": "c"},
            [in_phase(claim("c", "v"), "Lost")],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            {"claim": "c"},
            [deleting(in_phase(claim("c", "v"), "Lost"))],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ({"claim": "c"}, [deleting(claim("c"))], 'persistentvolumeclaim "c" is being deleted'),
        ({"ephemeral": "e"}, [deleting(claim("p-e"))], 'persistentvolumeclaim "p-e" is being deleted'),
        ({"claim": "c"}, [claim("c")], UNBOUND_IMMEDIATE),
        ({"claim": "c"}, [claim("c", of_class="gone")], UNBOUND_IMMEDIATE),
        ({"claim": "c"}, [claim("c", "v", of_class="late"), LATE], UNBOUND_IMMEDIATE),  # not complete
    ],
)
def test_pods_that_cannot_be_scheduled(source: dict[str, str], objects: list[Object], text: str) -> None:
    asked = pod("p", volumes=(uses(claim="fine"), uses(**source)))  # type: ignore[arg-type]
    assert Bench(bound("fine", "v"), *objects).pre_filter(asked) == unresolvable(text)


def test_errors_of_the_binder() -> None:
    bench = Bench(claim("c", of_class="bad"), storage_class("bad", mode=None))
    status = bench.pre_filter(asking("p", "c"))
    assert status is not None
    assert (status.code, status.message()) == (Code.ERROR, 'VolumeBindingMode not set for StorageClass "bad"')


def test_pods_without_claims_are_passed_over() -> None:
    bench = Bench()
    for asked in (pod("p"), pod("p", volumes=(uses(), uses(csi="d"), uses(gce="x")))):
        state, status = bench.begin(asked)
        assert status is not None
        assert status.is_skip
        assert bench.plugin.filter(state, asked, bench.info("a")) is None
        assert bench.plugin.reserve(state, asked, "a") is None
        flight = bench.plugin.pre_bind_pre_flight(state, asked, "a")
        assert flight is not None
        assert flight.is_skip
        assert bench.pre_bind(state, asked, "a") is None
        bench.plugin.unreserve(state, asked, "a")
    assert bench.waits == []


def test_pods_of_which_pre_filter_was_not_asked() -> None:
    bench, asked, state = Bench(), pod("p"), CycleState()
    assert bench.plugin.filter(state, asked, bench.info("a")) is None
    assert bench.plugin.score(state, asked, bench.info("a")) == 0
    assert bench.plugin.reserve(state, asked, "a") is None
    assert bench.pre_bind(state, asked, "a") is None
    bench.plugin.unreserve(state, asked, "a")


# ---- Filter ------------------------------------------------------------------------------------------------


def test_errors_while_nodes_are_looked_at() -> None:
    bench = Bench(LATE, waiting("c"))
    asked = asking("p", "c")
    state, _ = bench.begin(asked)
    bench.store.delete("StorageClass", "late")
    bench.scheduler.sync()
    status = bench.plugin.filter(state, asked, bench.info("a"))
    assert status is not None
    assert (status.code, status.message()) == (Code.ERROR, 'failed to find storage class "late"')


def test_clones_of_the_state_share_it() -> None:
    bench = Bench(LATE, waiting("c"), disk("v"))
    asked = asking("p", "c")
    state, _ = bench.begin(asked)
    clone = state.clone()
    assert clone.read(STATE) is state.read(STATE)
    assert bench.plugin.filter(clone, asked, bench.info("a")) is None
    assert state.read(STATE).volumes.keys() == {"a"}


KEYS = (ZONE, "rank")
VALUES = ("z1", "z2", "", "1", "5", "not a value")
requirements = st.builds(
    lambda key, operator, values: wants(key, operator, *values),
    st.sampled_from((*KEYS, "not a key")),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"]),
    st.lists(st.sampled_from(VALUES), max_size=2),
)
good = st.sampled_from(
    [
        *[wants(ZONE, operator, value) for operator in ("In", "NotIn") for value in ("z1", "z2")],
        *[wants("rank", operator) for operator in ("Exists", "DoesNotExist")],
        *[wants("rank", operator, value) for operator in ("Gt", "Lt") for value in ("1", "4")],
    ]
)
terms = st.lists(good | requirements, max_size=2).map(lambda found: term(*found))
node_labels = st.fixed_dictionaries(
    {}, optional={ZONE: st.sampled_from(VALUES[:3]), "rank": st.sampled_from(VALUES[1:5])}
)
claims = st.lists(
    st.sampled_from([*[f"b{at}" for at in range(4)], "lost", "late", "late2", "made", "chosen"]),
    min_size=1,
    max_size=4,
    unique=True,
)


@settings(deadline=None, max_examples=100)
@given(
    nodes=st.lists(node_labels, min_size=1, max_size=4),
    affinities=st.lists(st.lists(terms, max_size=2), min_size=6, max_size=6),
    asked=st.lists(claims, min_size=1, max_size=3),
    only_bound=st.booleans(),
)
def test_all_at_once_is_one_by_one(nodes: Any, affinities: Any, asked: Any, only_bound: bool) -> None:
    volumes = [
        disk(f"v{at}", *found, its_class="x" if at < 4 else "late") for at, found in enumerate(affinities)
    ]
    bench = Bench(
        *(LATE, MADE, *volumes, *[bound(f"b{at}", f"v{at}") for at in range(4)], bound("lost", "gone")),
        *(waiting("late"), waiting("late2", size="2Gi"), waiting("made", "made")),
        waiting("chosen", "made", selected="n0"),
        nodes=[node(f"n{at}", labels=found) for at, found in enumerate(nodes)],
    )
    framework = bench.scheduler.engines["default-scheduler"].framework
    for names in asked:
        names = [name for name in names if name[0] in "b" or name == "lost"] if only_bound else names
        wanting = asking("p", *names)
        whole, one_by_one = bench.begin(wanting)[0], bench.begin(wanting)[0]
        shown = framework.all_nodes()
        answers = bench.plugin.filter_all(whole, wanting, shown)
        for at, info in enumerate(shown):
            expected = bench.plugin.filter(one_by_one, wanting, info)
            assert answers.statuses[answers.numbers[at]] == expected, info.name
        if any(name in ("late", "late2", "made", "chosen") for name in names):
            assert whole.read(STATE).volumes == one_by_one.read(STATE).volumes


# ---- PreBind


def flight(bench: Bench, state: CycleState, on: str = "a") -> Status | None:
    return bench.plugin.pre_bind_pre_flight(state, pod("p"), on)


def test_a_node_for_which_nothing_was_found() -> None:
    bench = Bench(LATE, waiting("c"), disk("v"))
    state = bench.reserve(asking("p", "c"))
    assert flight(bench, state) is None
    expected = Status(Code.ERROR, ('no pod volumes found for node "b"',))
    assert flight(bench, state, "b") == expected
    assert bench.pre_bind(state, asking("p", "c"), "b") == expected
