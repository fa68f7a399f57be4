"""What `schedule_pods`, `schedule_workload` and `schedule_by_template` place is bound, or released."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.inside import dump
from tests.make import node, pod, written

import moorage as mo
from moorage.engine.scheduler import ScheduleResult
from moorage.errors import CacheError
from moorage.kube import Cluster
from moorage.store import AlreadyExistsError, ObjectStore

SMALL = {"cpu": "2"}
GROUP = written(
    "scheduling.k8s.io/v1beta1/PodGroup",
    {"name": "g", "namespace": "default"},
    {"schedulingPolicy": {"gang": {"minCount": 2}}},
)


def scheduler(*pods: mo.Pod, others: tuple[Any, ...] = (), **options: Any) -> mo.Scheduler:
    """A scheduler of one node on which two of `made` fit."""
    nodes = [node("n")]
    return mo.Scheduler(Cluster(nodes=nodes, pods=list(pods), others=list(others)), **options)


def made(name: str, **fields: Any) -> mo.Pod:
    return mo.edit(pod(name, requests=SMALL), fields) if fields else pod(name, requests=SMALL)


def stored(of: mo.Scheduler) -> dict[str, str]:
    return {one.name: one.spec.node_name for one in of.client.list(mo.Pod)[0]}


def free(of: mo.Scheduler) -> int:
    return int(of.table.allocatable["cpu"][0] - of.table.requested["cpu"][0])


@pytest.mark.parametrize("is_stored", [True, False])
def test_placed_pods_are_assumed_then_bound_then_gone(is_stored: bool) -> None:
    pods = [made("a"), made("b")]
    of = scheduler(*pods) if is_stored else scheduler()
    result = of.schedule_pods(list(of.pods.pending.values()) if is_stored else pods)
    assert (len(result.placements), dict(of.pods.pending), free(of)) == (2, {}, 0)
    assert stored(of) == ({"a": "", "b": ""} if is_stored else {})
    bound = of.bind(result)
    assert [(one.key, one.spec.node_name) for one in bound] == [("default/a", "n"), ("default/b", "n")]
    assert (stored(of), dict(of.pods.pending), free(of)) == ({"a": "n", "b": "n"}, {}, 0)
    assert not of.cache.is_assumed_pod(bound[0])
    assert [one.key for one in of.bind(bound)] == ["default/a", "default/b"]  # already so
    of.release(bound)
    assert (stored(of), dict(of.pods.pending), free(of)) == ({}, {}, 4000)


def test_a_released_pod_of_the_store_is_pending_again_also_after_a_run() -> None:
    of = scheduler(made("a"), made("b"))
    result = of.schedule_pods([of.pods.pending["default/a"]])
    assert list(of.pods.pending) == ["default/b"]
    assert list(of.run().placements) == ["default/b"]  # and drops the assumed one from the queue
    of.release(result)
    assert (list(of.pods.pending), free(of)) == (["default/a"], 2000)
    assert dict(of.run().placements) == {"default/a": "n"}


def test_a_release_lets_a_pod_run_that_did_not_fit() -> None:
    of = scheduler(made("late"))
    first = [made("a"), made("b")]
    of.schedule_pods(first)
    assert list(of.run().unschedulable) == ["default/late"]
    of.release(first[:1])
    assert list(of.run().placements) == ["default/late"]


def test_only_placed_pods_of_a_result_are_meant() -> None:
    of = scheduler()
    result = of.schedule_pods([made("a"), made("b"), made("c")])
    assert len(result.unschedulable) == 1
    assert len(of.bind(result)) == 2
    of.release(result)
    assert free(of) == 4000


def test_replicas_get_objects_when_they_are_bound() -> None:
    of = scheduler()
    result = of.schedule_by_template(made("t"), 2)
    assert stored(of) == {}
    of.bind(result)
    assert stored(of) == {"t-0": "n", "t-1": "n"}
    of.release(result)
    assert (stored(of), free(of)) == ({}, 4000)


def test_the_pods_of_a_group_are_bound_together() -> None:
    group = mo.read_object(GROUP)
    pods = [made(name, **{"spec.schedulingGroup": {"podGroupName": "g"}}) for name in "ab"]
    of = scheduler(*pods, others=(group,))
    result = of.schedule_workload("podgroup/g")
    assert (len(result.placements), dict(of.pods.pending)) == (2, {})
    assert of.run().warnings == []  # nothing of the group is tried, so nothing of it is ignored
    of.bind(result)
    assert stored(of) == {"a": "n", "b": "n"}


@pytest.mark.parametrize("verb", ["bind", "release"])
def test_a_pod_on_no_node_is_named_and_nothing_changes(verb: str) -> None:
    of = scheduler()
    of.schedule_pods([made("a")])
    before = dump(of.cache.state)
    with pytest.raises(
        CacheError, match=r"^pod default/b is on no node: nothing has placed it, or it has left$"
    ):
        getattr(of, verb)([made("a"), made("b")])
    assert dump(of.cache.state, before) == before
    with pytest.raises(TypeError, match=r"^a run has bound its pods: pass those that you mean$"):
        getattr(of, verb)(of.run())


def test_bindings_are_all_or_none() -> None:
    of = scheduler()
    of.schedule_pods([made("a"), made("b")])
    assert isinstance(of.client, ObjectStore)
    of.client.create(mo.edit(made("b"), {"metadata.uid": "other"}))
    with pytest.raises(AlreadyExistsError):
        of.bind([made("a"), made("b")])
    assert stored(of) == {"b": ""}
    assert of.cache.is_assumed_pod(made("a"))


def test_both_verbs_are_undone_with_their_transaction() -> None:
    of = scheduler(made("a"))
    placed = of.schedule_pods([of.pods.pending["default/a"], made("b")])
    with of.transaction():
        of.bind(placed)
        of.release(placed)
        assert free(of) == 4000
    assert (stored(of), free(of), dict(of.pods.pending)) == ({"a": ""}, 0, {})
    assert all(of.cache.is_assumed_pod(made(name)) for name in "ab")


def test_a_pod_that_waits_on_permit_goes_on_waiting() -> None:
    class Waits(mo.PermitPlugin):
        name = "Waits"

        def permit(self, state: Any, pod: mo.Pod, node_name: str) -> tuple[mo.Status, float]:
            return mo.Status(mo.Code.WAIT), 60.0

    profile = mo.Profile((*mo.default_profile().plugins, Waits()))
    of = scheduler(made("a"), profile=profile)
    of.schedule_pods([of.pods.pending["default/a"]])
    assert (dict(of.pods.pending), of.bind([made("a")])) == ({}, [])
    assert stored(of) == {"a": ""}


def test_an_api_server_that_gives_its_own_uid_leaves_nothing_assumed() -> None:
    class Server(ObjectStore):
        def create(self, obj: Any) -> Any:
            return super().create(mo.edit(obj, {"metadata.uid": ""}) if isinstance(obj, mo.Pod) else obj)

    server = Server()
    server.create(node("n"))
    of = mo.Scheduler(server)
    result: ScheduleResult = of.schedule_pods([made("a")])
    of.bind(result)
    assert (stored(of), free(of), of.cache.state.has_pod(made("a"))) == ({"a": "n"}, 2000, False)
