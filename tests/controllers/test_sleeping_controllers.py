"""Controllers that are made at the first object that concerns them."""

from __future__ import annotations

from tests.make import node, pod, scheduler, workload

from moorage import Scheduler


def plain() -> Scheduler:
    nodes = [node(f"n{at}", cpu="4", pods="10") for at in range(2)]
    one = scheduler(*nodes, pod("p0", requests={"cpu": "1"}))
    one.run()
    return one


def test_a_transaction_that_woke_them_can_be_undone_and_repeated() -> None:
    one, outcomes = plain(), []
    for _ in range(2):
        with one.transaction():
            one.change.apply(workload("Deployment", "default/web", 3, {"cpu": "1"}))
            outcomes.append(sorted(one.run().placements.items()))
        assert len(one.cache.state.ledger) == 1
    one.change.apply(workload("Deployment", "default/web", 3, {"cpu": "1"}))
    outcomes.append(sorted(one.run().placements.items()))
    assert outcomes == [outcomes[0]] * 3
    assert len(outcomes[0]) == 3


def test_a_fork_is_woken_by_itself() -> None:
    one = plain()
    other = one.fork()
    other.change.apply(workload("Deployment", "default/web", 3, {"cpu": "1"}))
    assert len(other.run().placements) == 3
    again = other.fork()
    again.change.scale("deployment/web", 1)
    again.run()
    assert [len(each.cache.state.ledger) for each in (one, other, again)] == [1, 4, 2]
