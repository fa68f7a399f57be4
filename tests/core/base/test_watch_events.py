"""Events whose objects are made when they are read, and maps that hold them, against plain dicts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.doors.engine import Cause, IndexedObjects, Notice, ObjectMap, of_dependents
from tests.doors.kube import with_condition
from tests.doors.store import with_version
from tests.make import pod

from moorage.kube import Condition, OwnerReference, Pod, Volume
from moorage.store import DeletedFinalStateUnknown, WatchEvent

NAMES = ["a", "b", "c"]


class Maker:
    """Makes pods with another version, and counts how often."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, before: Pod, version: str, node: str) -> Pod:
        self.made += 1
        meta = replace(before.metadata, resource_version=version)
        return replace(before, metadata=meta, spec=replace(before.spec, node_name=node))


def conditioned(obj: Pod, version: str, condition: Condition) -> Pod:
    status = replace(obj.status, conditions=with_condition(obj.status.conditions, condition))
    return replace(with_version(obj, version), status=status)


def last_state(obj: Pod, version: str, _: object) -> Pod:
    return with_version(obj, version)


def stored(name: str, uid: str = "u", **fields: Any) -> Pod:
    one = pod(name, **fields)
    return replace(one, metadata=replace(one.metadata, uid=uid))


def test_events_are_compared_and_shown_by_their_fields() -> None:
    one = stored("a")
    late = WatchEvent.deferred("MODIFIED", one, 7, Maker(), "n")
    made = Maker()(one, "7", "n")
    assert late == WatchEvent("MODIFIED", made, "7", one)
    assert late != WatchEvent("MODIFIED", made, "8", one)
    assert late != "event"
    assert repr(late) == f"WatchEvent(type='MODIFIED', object={made!r}, resource_version='7', old={one!r})"


def test_a_notice_has_the_cause_of_its_event_where_it_follows_the_known_object() -> None:
    known, other, objects = stored("a"), stored("b"), IndexedObjects[Pod]()
    objects.replace({"default/a": known, "default/b": other})
    store, make, events = ObjectMap({"default/a": known, "default/b": stored("b")}), Maker(), list[Any]()
    store.bind([known, other], ["n", "n"], ["default/a", "default/b"], make, 5, events)
    notices: list[Notice[Pod]] = []
    objects.apply(events, tuple, notices)
    assert [event.cause for event in events] == [Cause.BOUND, Cause.BOUND]
    assert [notice.cause for notice in notices] == [Cause.BOUND, Cause.OTHER], "an event of b may be missing"


def test_as_many_nodes_as_pods() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ObjectMap({"default/a": stored("a")}).bind([stored("a")], [], ["default/a"], Maker(), 1, [])


DISRUPTED = Condition(type="DisruptionTarget", status="True", reason="r")
known_conditions = st.lists(
    st.sampled_from(
        [DISRUPTED, replace(DISRUPTED, last_transition_time="t"), replace(DISRUPTED, status="x")]
    ),
    max_size=1,
)
evicted = st.tuples(st.sampled_from([*NAMES, "gone"]), st.sampled_from(["u", "other"]))


@given(
    st.dictionaries(st.sampled_from(NAMES), st.tuples(known_conditions, st.booleans(), st.booleans())),
    st.lists(evicted, max_size=4),
)
def test_evictions_are_changes_and_deletions(
    kept: dict[str, tuple[list[Condition], bool, bool]], asked: list[tuple[str, str]]
) -> None:
    """Up to the first pod with finalizers, or of a name that was evicted before."""
    objects, bare = ObjectMap[Pod]({}), dict[str, Pod]()
    for name, (conditions, has_finalizers, is_deferred) in kept.items():
        one = stored(name)
        status = replace(one.status, conditions=(Condition(type="Ready"), *conditions))
        meta = replace(one.metadata, finalizers=("f",) if has_finalizers else ())
        one = replace(one, metadata=meta, status=status)
        held = WatchEvent.deferred("MODIFIED", one, 1, Maker(), "n") if is_deferred else one
        objects[one.key], bare[one.key] = held, held.object if isinstance(held, WatchEvent) else held
    expected, found, version, alive = list[WatchEvent[Pod]](), list[bool](), 7, bare.copy()
    for name, uid in asked:
        current = alive.get(f"default/{name}")
        if current is None or current.metadata.uid != uid:
            if current is None and f"default/{name}" in bare and uid == "u":
                break
            found.append(False)
            continue
        if current.metadata.finalizers:
            break
        conditions_after = with_condition(current.status.conditions, DISRUPTED)
        last = current
        if conditions_after != current.status.conditions:
            last = conditioned(current, str(version), DISRUPTED)
            expected.append(WatchEvent("MODIFIED", last, str(version), current))
            version += 1
        expected.append(WatchEvent("DELETED", with_version(last, str(version)), str(version), last))
        version += 1
        del alive[current.key]
        found.append(True)
    events: list[WatchEvent[Pod]] = []
    pods = [stored(name, uid) for name, uid in asked]
    assert objects.evict(pods, DISRUPTED, conditioned, last_state, 7, events) == found
    assert (events, objects.to_dict()) == (expected, alive)


def test_a_bound_pod_is_evicted_without_being_made() -> None:
    first = stored("a")
    objects, make, events = ObjectMap({"default/a": first}), Maker(), list[WatchEvent[Pod]]()
    objects.bind([stored("a")], ["n"], ["default/a"], make, 5, events)
    assert objects.evict([stored("a")], DISRUPTED, conditioned, last_state, 6, events) == [True]
    informed, notices = IndexedObjects[Pod](), list[Notice[Pod]]()
    informed.replace({"default/a": first})
    informed.apply(events, tuple, notices)
    assert (make.made, [event.type for event in events]) == (0, ["MODIFIED", "MODIFIED", "DELETED"])
    bound = make(stored("a"), "5", "n")
    assert [notice.identity for notice in notices] == [stored("a")] * 3
    assert [notice.cause for notice in notices] == [Cause.BOUND, Cause.EVICTED, Cause.EVICTED]
    assert (notices[1].old, notices[1].new) == (bound, conditioned(bound, "6", DISRUPTED))
    assert events[2].object == with_version(conditioned(bound, "7", DISRUPTED), "7")


@given(
    st.dictionaries(st.sampled_from(NAMES), st.tuples(known_conditions, st.booleans())),
    st.lists(st.sampled_from([*NAMES, "gone"]), max_size=4, unique=True),
)
def test_a_condition_of_several_objects(
    kept: dict[str, tuple[list[Condition], bool]], asked: list[str]
) -> None:
    objects, after = ObjectMap[Pod]({}), dict[str, Pod]()
    for name, (conditions, is_deferred) in kept.items():
        one = stored(name)
        one = replace(one, status=replace(one.status, conditions=(Condition(type="Ready"), *conditions)))
        held = WatchEvent.deferred("MODIFIED", one, 1, Maker(), "n") if is_deferred else one
        objects[one.key], after[one.key] = held, held.object if isinstance(held, WatchEvent) else held
    expected, found, version = list[WatchEvent[Pod]](), [f"default/{name}" in after for name in asked], 7
    for name in asked:
        current = after.get(f"default/{name}")
        if (
            current is None
            or with_condition(current.status.conditions, DISRUPTED) == current.status.conditions
        ):
            continue
        after[current.key] = conditioned(current, str(version), DISRUPTED)
        expected.append(WatchEvent("MODIFIED", after[current.key], str(version), current))
        version += 1
    events: list[WatchEvent[Pod]] = []
    pods = [stored(name) for name in asked]
    assert objects.set_condition(pods, DISRUPTED, conditioned, 7, events) == found
    assert (events, objects.to_dict()) == (expected, after)


OWNED = replace(
    stored("o"), metadata=replace(stored("o").metadata, owner_references=(OwnerReference(name="o"),))
)
MOUNTING = stored("m", volumes=(Volume(name="v"),))


@pytest.mark.parametrize(
    ("notice", "is_selected"),
    [
        (Notice(None, stored("a")), False),
        (Notice(None, OWNED), True),
        (Notice(stored("a"), stored("a")), False),
        (Notice(OWNED, stored("o")), True),
        (Notice(stored("o"), OWNED), True),
        (Notice(MOUNTING, MOUNTING), False),
        (Notice(stored("a"), None), False),
        (Notice(OWNED, None), True),
        (Notice(MOUNTING, None), True),
        (Notice(DeletedFinalStateUnknown("default/a", stored("a")), None), True),
        (Notice(WatchEvent.deferred("MODIFIED", OWNED, 1, Maker(), "n"), None), True),
        (Notice(WatchEvent.deferred("MODIFIED", stored("a"), 1, Maker(), "n"), None), False),
    ],
)
def test_notices_that_owners_and_dependents_may_care_about(notice: Notice[Pod], is_selected: bool) -> None:
    other = Notice(None, stored("x"))
    assert of_dependents([other, notice, other]) == (3, [notice] if is_selected else [])
