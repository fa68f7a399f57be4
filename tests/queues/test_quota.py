"""Quota in trees has a twin, which adds up anew what the tree carries upwards."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moorage.kube import (
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    CohortSpec,
    FlavorQuotas,
    ObjectMeta,
    QueueResourceQuota,
    ResourceGroup,
)
from moorage.queues import Settings
from tests.doors.queues import QueueSnapshot, Undo

KEY = ("f", "pods")
LIMIT = st.none() | st.integers(0, 8)
COHORTS = 4


def groups(nominal: int, borrowing: int | None, lending: int | None) -> tuple[ResourceGroup, ...]:
    quota = QueueResourceQuota(
        name="pods", nominal_quota=nominal, borrowing_limit=borrowing, lending_limit=lending
    )
    flavor = FlavorQuotas(name="f", resources=(quota,))
    return (ResourceGroup(covered_resources=("pods",), flavors=(flavor,)),)


@st.composite
def trees(draw: st.DrawFn) -> QueueSnapshot:
    """Up to four cohorts below one another, in any form, and up to five queues."""
    objects: list[Cohort | ClusterQueue] = []
    for at in range(COHORTS):
        parent = f"co{draw(st.integers(0, at - 1))}" if at else ""
        quotas = groups(draw(st.integers(0, 6)), draw(LIMIT), draw(LIMIT)) if draw(st.booleans()) else ()
        spec = CohortSpec(parent_name=parent, resource_groups=quotas)
        objects.append(Cohort(metadata=ObjectMeta(name=f"co{at}"), spec=spec))
    for at in range(draw(st.integers(1, 5))):
        spec_of_queue = ClusterQueueSpec(
            cohort_name=f"co{draw(st.integers(0, COHORTS - 1))}",
            resource_groups=groups(draw(st.integers(0, 10)), draw(LIMIT), draw(LIMIT)),
        )
        objects.append(ClusterQueue(metadata=ObjectMeta(name=f"q{at}"), spec=spec_of_queue))
    return QueueSnapshot(objects, Settings())


CHANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.booleans()), max_size=25)


class Twin:
    """What each node has and uses, from the quotas and the usage of the queues alone."""

    def __init__(self, snapshot: QueueSnapshot) -> None:
        self._nodes: list[Any] = [*snapshot.queues.values(), *snapshot.cohorts.values()]

    def children(self, node: Any) -> list[Any]:
        return [each for each in self._nodes if each.parent is node]

    def quota(self, node: Any) -> int:
        return node.cell(KEY).nominal + sum(
            self.quota(each) - self.local(each) for each in self.children(node)
        )

    def local(self, node: Any) -> int:
        lending = node.cell(KEY).lending
        return 0 if lending is None else max(0, self.quota(node) - lending)

    def usage(self, node: Any, used: dict[str, int]) -> int:
        if node.name in used:
            return used[node.name]
        return sum(max(0, self.usage(each, used) - self.local(each)) for each in self.children(node))

    def available(self, node: Any, used: dict[str, int]) -> int:
        quota, usage, local = self.quota(node), self.usage(node, used), self.local(node)
        if node.parent is None:
            return quota - usage
        above = self.available(node.parent, used)
        borrowing = node.cell(KEY).borrowing
        if borrowing is not None:
            above = min(above, (quota - local) - max(0, usage - local) + borrowing)
        return max(0, local - usage) + above


@given(trees(), CHANGES)
def test_a_tree_counts_as_its_twin(snapshot: QueueSnapshot, changes: list[tuple[int, int, bool]]) -> None:
    twin, queues = Twin(snapshot), list(snapshot.queues.values())
    used = {queue.name: 0 for queue in queues}
    nodes = [*queues, *snapshot.cohorts.values()]
    for at, value, adds in changes:
        queue = queues[at % len(queues)]
        if adds:
            queue.cell(KEY).add(value, [])
        else:
            value = min(value, used[queue.name])
            queue.cell(KEY).remove(value, [])
        used[queue.name] += value if adds else -value
        for node in nodes:
            cell = node.cell(KEY)
            assert (cell.subtree, cell.local) == (twin.quota(node), twin.local(node))
            assert cell.usage == twin.usage(node, used)
            assert cell.available() == twin.available(node, used)


@given(trees(), CHANGES)
def test_no_more_is_used_than_there_is(snapshot: QueueSnapshot, changes: list[tuple[int, int, bool]]) -> None:
    """If only what is available is taken, no root exceeds its quota, and no node what it could ever have."""
    queues = list(snapshot.queues.values())
    for at, value, _ in changes:
        cell = queues[at % len(queues)].cell(KEY)
        if value <= cell.available():
            cell.add(value, Undo())
    for node in [*queues, *snapshot.cohorts.values()]:
        cell = node.cell(KEY)
        assert cell.usage <= cell.potential() or not cell.usage
        if node.parent is None:
            assert cell.usage <= cell.subtree
        elif cell.borrowing is not None:
            assert cell.usage <= cell.subtree + cell.borrowing


@given(trees(), CHANGES, CHANGES)
def test_undoing_restores_every_cell(
    snapshot: QueueSnapshot, first: list[tuple[int, int, bool]], then: list[tuple[int, int, bool]]
) -> None:
    queues = list(snapshot.queues.values())
    nodes = [*queues, *snapshot.cohorts.values()]

    def change(changes: list[tuple[int, int, bool]], record: Undo) -> None:
        for at, value, adds in changes:
            cell = queues[at % len(queues)].cell(KEY)
            cell.add(value, record) if adds else cell.remove(value, record)

    change(first, Undo())
    before = [node.cell(KEY).usage for node in nodes]
    with Undo() as record:
        change(then, record)
    assert [node.cell(KEY).usage for node in nodes] == before
    assert record == []
