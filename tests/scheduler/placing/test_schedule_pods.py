"""What `Scheduler.schedule_pods` leaves behind, and where it ends."""

from __future__ import annotations

import pytest
from tests.make import node, pod
from tests.scheduler.make import profile_with
from tests.scheduler.transactions.test_transactions import everything

import moorage as mo
from moorage import Scheduler
from moorage.engine.framework import CycleState, ReservePlugin
from moorage.kube import Node, Pod


def pods() -> list[Pod]:
    sizes = {"p": "1", "q": "1", "big": "8", "r": "1"}
    return [pod(name, requests={"cpu": cpu}) for name, cpu in sizes.items()]


def world(apart: bool) -> Scheduler:
    class Idle(ReservePlugin):
        name = "Idle"

        def reserve(self, state: CycleState, pod: Pod, node: str) -> None:
            pass

        def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
            pass

    settings = {"profile": profile_with(Idle())} if apart else {}
    one = Scheduler(mo.Cluster(nodes=[node("a"), node("b")]), **settings)  # type: ignore[arg-type]
    if apart:
        one.client.create_many(pods())
        one.sync()
    return one


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("stops", [False, True])
def test_a_dry_run_leaves_nothing(apart: bool, stops: bool) -> None:
    one, twin = world(apart), world(apart)
    before = everything(one)
    tried = one.schedule_pods(pods(), dry_run=True, stop_on_failure=stops)
    assert everything(one) == before
    done = twin.schedule_pods(pods(), stop_on_failure=stops)
    assert tried.rows.tolist() == done.rows.tolist()
    assert list(tried.failures) == list(done.failures) == [2]


@pytest.mark.parametrize("apart", [False, True])
def test_a_result_names_the_nodes_as_they_were(apart: bool) -> None:
    one = world(apart)
    result = one.schedule_pods(pods()[:2], dry_run=True)
    nodes = {one.cache.state.table.row_name(row) for row in result.rows.tolist()}
    for name in nodes:
        one.client.delete(Node, name)
    one.sync()
    one.client.create_many([node("x"), node("y")])
    one.sync()
    assert set(result.nodes) == nodes


@pytest.mark.parametrize("apart", [False, True])
def test_it_ends_with_the_first_failure(apart: bool) -> None:
    one = world(apart)
    result = one.schedule_pods(pods(), stop_on_failure=True)
    assert [row >= 0 for row in result.rows.tolist()] in ([True, True], [True, True, False])
    assert list(result.failures) == [2]
    assert {each.name for each in one.cache.state.pods()} == {"p", "q"}
    assert one.schedule_pods(pods()[3:], stop_on_failure=True).rows.tolist()[0] >= 0
