"""Listers and indexes."""

from __future__ import annotations

from threading import RLock

import pytest
from tests.doors.store import KeyLog
from tests.make import node, pod

from moorage.kube import Condition, Node, Pod, ReplicaSet, parse_selector
from moorage.store import Indexer, Informer, Lister, NotFoundError, ObjectStore


def labelled(key: str, on: str = "", **labels: str) -> Pod:
    return pod(key, on, labels=labels)


def by_node(obj: Pod) -> tuple[str, ...]:
    return (obj.spec.node_name,) if obj.spec.node_name else ()


def names(objects: list[Pod]) -> str:
    return "".join(obj.name for obj in objects)


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    store.create_many(
        [
            labelled("x/a", "n", app="1"),
            labelled("x/b"),
            labelled("y/a", "n"),
            labelled("y/c", "m", app="2"),
            labelled("y/d"),
        ]
    )
    return store


@pytest.fixture
def informer(store: ObjectStore) -> Informer[Pod]:
    informer: Informer[Pod] = Informer(store, Pod, indexers={"node": by_node})
    informer.run_once()
    return informer


def test_list_and_get(informer: Informer[Pod]) -> None:
    lister = informer.lister
    assert not lister.is_empty
    assert Informer(ObjectStore(), Pod).lister.is_empty
    assert names(lister.list()) == "abacd"
    assert names(lister.list(parse_selector("app"))) == "ac"
    assert lister.get("y/a").namespace == "y"
    with pytest.raises(NotFoundError, match=r'^pod "z" not found$'):
        lister.get("y/z")


def test_a_lister_of_a_namespace_has_its_objects_alone(informer: Informer[Pod]) -> None:
    lister = informer.lister.by_namespace("y")
    assert names(lister.list()) == "acd"
    assert names(lister.list(parse_selector("app=2"))) == "c"
    assert lister.get("a").namespace == "y"
    assert names(lister.by_index("node", "n")) == "a"
    assert informer.lister.by_namespace("none").list() == []
    with pytest.raises(NotFoundError, match=r'^pod "b" not found$'):
        lister.get("b")


def test_not_found_names_the_group() -> None:
    lister: Lister[ReplicaSet] = Lister(ReplicaSet, Indexer({}))
    with pytest.raises(NotFoundError, match=r'^replicaset.apps "r" not found$'):
        lister.by_namespace("x").get("r")


def test_objects_without_a_namespace_are_listed() -> None:
    store = ObjectStore()
    stored = store.create(node("n"))
    informer: Informer[Node] = Informer(store, "Node")
    informer.run_once()
    assert informer.lister.get("n") is stored
    assert informer.lister.by_index("namespace", "") == [stored]


def test_an_index_is_kept_current(store: ObjectStore, informer: Informer[Pod]) -> None:
    assert names(informer.lister.by_index("node", "n")) == "aa"
    assert names(informer.lister.by_index("namespace", "x")) == "ab"
    store.bind(labelled("x/b"), "n")
    store.bind(labelled("y/d"), "m")
    store.delete(Pod, "a", "x")
    store.delete(Pod, "c", "y")
    store.create(labelled("z/e", "k"))
    store.update(labelled("y/a", "m"))
    informer.run_once()
    found = {node: names(informer.lister.by_index("node", node)) for node in "nmk"}
    assert found == {"n": "b", "m": "da", "k": "e"}
    assert names(informer.lister.by_index("namespace", "x")) == "b"
    assert informer.lister.by_index("node", "") == []


@pytest.mark.parametrize("built", [False, True], ids=["before", "after"])
def test_a_lasting_index_makes_no_objects(store: ObjectStore, informer: Informer[Pod], built: bool) -> None:
    seen = list[str]()

    def by_app(obj: Pod) -> tuple[str, ...]:
        seen.append(obj.spec.node_name)
        return tuple(obj.metadata.labels.values())

    store.update(labelled("x/b", app="1"))
    informer.run_once()
    informer.indexer.add_index("app", by_app, is_lasting=True)
    assert not built or names(informer.lister.by_index("app", "1")) == "ab"
    seen.clear()
    store.bind_many([store.get(Pod, "b", "x")], ["n"])
    informer.run_once()
    assert informer.indexer.count("app", "1") == 2
    identities = [one.name + one.spec.node_name for one in informer.indexer.identities()]
    assert identities == ["an", "b", "an", "cm", "d"], "the bound pod b is not made"
    on_nodes = informer.indexer.select("app", ["2", "1"], lambda pod: bool(pod.spec.node_name))
    assert [[pod.name for pod in pods] for pods in on_nodes] == [["c"], ["a"]], "the bound pod b is not made"
    found = informer.indexer.select("app", ["1", "1"], lambda pod: pod.name == "b")
    assert [[pod.spec.node_name for pod in pods] for pods in found] == [["n"], ["n"]]
    assert seen == ([] if built else ["n", "", "n", "m", ""]), "the bound pod b is not made"
    assert [obj.spec.node_name for obj in informer.lister.by_index("app", "1")] == ["n", "n"]
    store.evict(store.list(Pod)[0][:2], Condition(type="DisruptionTarget", status="True"))
    store.update(labelled("y/c", "m", app="1"))
    informer.run_once()
    assert names(informer.lister.by_index("app", "1")) == "c"
    assert informer.lister.by_index("app", "2") == []


def test_an_update_keeps_the_order_of_an_index(store: ObjectStore, informer: Informer[Pod]) -> None:
    assert [obj.key for obj in informer.lister.by_index("node", "n")] == ["x/a", "y/a"]
    store.update(labelled("x/a", "n", app="2"))
    informer.run_once()
    assert [obj.key for obj in informer.lister.by_index("node", "n")] == ["x/a", "y/a"]
    assert informer.lister.by_index("node", "n")[0].metadata.labels == {"app": "2"}


def test_several_values_and_an_index_added_later(informer: Informer[Pod]) -> None:
    informer.indexer.add_index("labels", lambda obj: obj.metadata.labels.values())
    assert names(informer.lister.by_index("labels", "1")) == "a"
    with pytest.raises(ValueError, match=r"^indexer conflict: labels$"):
        informer.indexer.add_index("labels", by_node)
    with pytest.raises(KeyError, match="Index with name nothing does not exist"):
        informer.lister.by_index("nothing", "x")


def test_the_indexer_gives_copies(informer: Informer[Pod]) -> None:
    informer.lister.list().clear()
    informer.indexer.items().clear()
    informer.lister.by_index("node", "n").clear()
    assert names(informer.lister.list()) == "abacd"
    assert names(informer.lister.by_index("node", "n")) == "aa"


def test_empty_values_leave_nothing_behind() -> None:
    indexer: Indexer[Pod] = Indexer({"node": by_node})
    assert indexer.by_index("node", "n") == []
    assert indexer.put("x/a", labelled("x/a", "n")) is None
    assert indexer.put("x/a", labelled("x/a", "m")) == labelled("x/a", "n")
    assert indexer.list_index_func_values("node") == ["m"]
    assert indexer.remove("x/a") == labelled("x/a", "m")
    assert indexer.remove("x/a") is None
    assert indexer.list_index_func_values("node") == []


def test_an_index_that_changes_read_is_not_built_for_each() -> None:
    built = list[str]()
    indexer: Indexer[Pod] = Indexer({"node": lambda obj: built.append(obj.key) or by_node(obj)})
    indexer.put("x/a", labelled("x/a", "n"))
    for _ in range(4):
        saved = indexer.save()
        assert names(indexer.by_index("node", "n")) == "a"
        indexer.undo(saved)
    assert built == ["x/a"] * 2


def test_keys_of_what_has_changed() -> None:
    indexer = Indexer[Pod]({})
    indexer.put("x/a", labelled("x/a"))
    log = indexer.follow()
    assert indexer.follow() is log
    assert (log.head, log.since(0)) == (0, [])
    indexer.put("x/b", labelled("x/b"))
    cursor = log.head
    indexer.remove("x/a")
    indexer.put("x/b", labelled("x/b"))
    assert log.since(0) == ["x/b", "x/a", "x/b"]
    assert log.since(cursor) == ["x/b", "x/a"]
    cursor = log.head
    indexer.replace({})
    assert log.since(cursor) is None
    assert log.since(log.head) == []


def test_keys_that_were_too_many_are_forgotten() -> None:
    log = KeyLog(RLock(), capacity=2)
    log.extend(["a", "b"])
    log.extend(["c"])
    assert log.since(0) is None
    assert log.since(1) == ["c", "b"]
