"""Names that the store makes up for ``generateName``."""

from __future__ import annotations

from tests.make import pod
from tests.store.test_contract import refused

from moorage.kube import Pod
from moorage.store import AlreadyExistsError, ObjectStore


def unnamed(base: str = "a-", namespace: str = "default") -> Pod:
    return pod(f"{namespace}/", metadata={"generateName": base, "uid": ""})


def test_generated_names_follow_from_the_writes_before() -> None:
    store = ObjectStore()
    copy, mark = store.clone(), store.save()
    many = [unnamed(), unnamed(), unnamed(namespace="x")]
    store.create_many(many)
    names = [obj.name for obj in store.list(Pod)[0]]
    assert len(set(names)) == 3
    store.undo(mark)
    for one in (store, copy, ObjectStore(seed=1)):
        one.create_many(many)
        assert [obj.name for obj in one.list(Pod)[0]] == names


def test_equal_objects_are_those_that_would_be_created_one_by_one() -> None:
    """Also where one of them would get a name that is taken."""
    store = ObjectStore()
    taken = [obj.name for obj in store.clone().create_equal(unnamed(), 3)][1]
    store.create(pod(taken))
    copy = store.clone()
    equal = store.create_equal(unnamed(), 3)
    assert equal == [copy.create(unnamed()) for _ in range(3)]
    assert store.list(Pod) == copy.list(Pod)


def second_name(first: str) -> str:
    """The name that the second write generates."""
    store = ObjectStore()
    store.create(pod(first))
    return store.create(unnamed()).name


def test_a_generated_name_that_is_taken_is_passed_over() -> None:
    name = second_name("b")
    assert second_name("c") == name
    other = second_name(name)
    assert other != name
    assert other.startswith("a-")


def test_a_generated_name_is_taken() -> None:
    name = second_name("b")
    store = ObjectStore()
    with refused(AlreadyExistsError, f'pods "{name}" already exists'):
        store.create_many([pod("b"), unnamed(), pod(name)])
    assert store.list(Pod) == ([], "1")


def test_the_names_of_new_objects_are_known_before() -> None:
    """Also where an earlier one of them, or an object of the store, has the first candidate."""
    named = [unnamed() for _ in range(3)]
    first = ObjectStore().names_of_new(named)
    assert len(set(first)) == 3
    for there in ([], [pod(name) for name in first], [pod(first[0])]):
        for new in (named, [pod(first[1]), *named], [pod(first[2]), *named, pod("z")]):
            new = [one for one in new if one.name not in {each.name for each in there} or not one.name]
            store = ObjectStore()
            store.create_many(there)
            names = store.names_of_new(new)
            assert names == tuple(store.create(one).name for one in new)


def test_objects_may_get_other_names_than_they_have() -> None:
    store, new = ObjectStore(), [unnamed() for _ in range(2)]
    names = store.names_of_new([pod("x", metadata={"generateName": "a-"}) for _ in new], keeps=False)
    assert names == store.names_of_new(new)
    assert store.names_of_new([]) == ()
