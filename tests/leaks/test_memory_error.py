"""Memory runs out at the first, second, … allocation of an operation: a MemoryError, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from moorage import Profile, Scheduler, default_profile
from moorage.kube import Cluster, ContainerImage, Node
from tests.core.child import limited, outcome_of
from tests.core.placing import place_run
from tests.doors.engine import buffers, bulk_operations, schedule_one
from tests.leaks.world import node, place, plain, pod, scheduler

Operation = Callable[[Scheduler], object]
FULL = 16
"""Rows and pods that fit into the first buffers of a cluster: one more makes them grow."""


class Memory:
    """Lets a number of allocations of buffers pass, and refuses the next one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        monkeypatch.setattr(buffers, "zeros", self.zeros)

    def zeros(self, nbytes: int) -> bytes:
        if self.left == 0:
            raise MemoryError
        self.left -= 1
        return bytes(nbytes)


def full() -> Scheduler:
    """A cluster whose next node, pod and image need more memory."""
    made = scheduler(FULL)
    for at in range(FULL):
        made.cache.add_pod(plain(f"old-{at}", node_name=f"n{at}"))
    while len(made.cache.state.images.names) < 64:
        made.cache.state.images.image(f"seen-{len(made.cache.state.images.names)}")
    made.context.view_order()
    return made


def many_images(name: str, cpu: int = 8) -> Node:
    """A node with more images than the cluster has seen so far."""
    made = node(name, cpu)
    images = tuple(ContainerImage(names=(f"new-{at}",), size_bytes=at) for at in range(40))
    return replace(made, status=replace(made.status, images=images))


def dump(made: Scheduler) -> dict[str, Any]:
    """What decisions can see of a cluster."""
    state = made.cache.state
    table = state.table
    names = table.names
    while names and names[-1] is None:
        names.pop()
    rows = range(len(names))
    return {
        "names": names,
        "columns": {
            (kind, resource): getattr(table, kind)[resource].tolist()[: len(names)]
            for kind in ("allocatable", "requested", "nonzero")
            for resource in getattr(table, kind)
            if any(getattr(table, kind)[resource])
        },
        "nodes": table.objects[: len(names)],
        "present": [table.is_present(row) for row in rows],
        "tree": [state.symbols.names[symbol] for symbol in state.tree.list()],
        "known": [state.has_node(name) for name in names if name],
        "images": {
            name: held for name in state.images.names.names if name and (held := state.images.state(name))
        },
        "pods": [state.ledger.pods_of(row) for row in rows],
        "number of pods": len(state.ledger),
        "assumed": state.assumed_pods(),
        "start": made.placer.decider.start,
    }


def future(made: Scheduler) -> list[Any]:
    """Decisions of all kinds, and the state after them."""
    decisions = [schedule_one(made.context, plain(f"later-{at}", "2")) for at in range(3)]
    last = made.examine(pod("last"))
    chosen = [(d.node, d.start, d.evaluated, d.feasible.tolist()) for d in decisions]
    return [made.context.view_order(), chosen, last.feasible, last.total.tolist(), dump(made)]


def run_of_ports(made: Scheduler) -> object:
    return place(made, [pod(f"p{at}") for at in range(3)])


def run_of_pods(made: Scheduler) -> object:
    return place(made, [plain(f"p{at}", "1") for at in range(FULL + 1)])


def run_of_a_template(made: Scheduler) -> object:
    """What the run has accounted for stays; the pods are entered in the memory that it took."""
    template = plain("web", "1")
    made.cache.state.check_template(template, 0, FULL + 1)
    pod_class = made.context.target_of(template)[0]
    rows = place_run(made.placer, pod_class, FULL + 1)
    made.cache.state.assume_template(pod_class, template, 0, rows)
    return rows.tolist()


OPERATIONS: dict[str, tuple[list[Operation], Operation]] = {
    "new node": ([], lambda made: made.cache.add_node(many_images("new"))),
    "node changes": (
        [],
        lambda made: made.cache.add_node(many_images("n3", 9)),
    ),
    "node goes": ([], lambda made: made.cache.remove_node(node("n3"))),
    "assume": ([], lambda made: made.cache.assume_pod(plain("p", node_name="n3"))),
    "assume before its node": ([], lambda made: made.cache.assume_pod(pod("p", "unknown"))),
    "add": ([], lambda made: made.cache.add_pod(pod("p", "unknown"))),
    "update": ([], lambda made: made.cache.update_pod(plain("old-3", node_name="n3"), pod("old-3", "n3"))),
    "confirm elsewhere": (
        [lambda made: made.cache.assume_pod(plain("p", node_name="n3"))],
        lambda made: made.cache.add_pod(plain("p", node_name="unknown")),
    ),
    "forget": (
        [lambda made: made.cache.assume_pod(plain("p", node_name="n3"))],
        lambda made: made.cache.forget_pod(plain("p", node_name="n3")),
    ),
    "remove": ([], lambda made: made.cache.remove_pod(plain("old-3", node_name="n3"))),
    "refresh": (
        [lambda made: made.cache.add_node(many_images("new"))],
        lambda made: made.context.view_order(),
    ),
    "schedule one": (
        [lambda made: made.cache.add_node(many_images("new"))],
        lambda made: schedule_one(made.context, pod("p")).node,
    ),
    "schedule one that fits nowhere": (
        [],
        lambda made: schedule_one(made.context, plain("p", "100")).fit_error,
    ),
    "examine": (
        [lambda made: made.cache.add_node(many_images("new"))],
        lambda made: made.examine(pod("p")).best,
    ),
    "run": ([lambda made: made.cache.add_node(many_images("new"))], run_of_pods),
    "run with host ports": ([], run_of_ports),
    "run of a template": ([], run_of_a_template),
    "assume several": (
        [],
        lambda made: made.cache.assume_pods(
            [plain(f"p{at}", node_name=f"n{at % 3}") for at in range(FULL + 1)]
        ),
    ),
    "assume several before their nodes": (
        [],
        lambda made: made.cache.assume_pods([pod(f"p{at}", f"new-{at}") for at in range(3)]),
    ),
    "forget several": (
        [lambda made: made.cache.assume_pods([pod(f"p{at}", f"n{at}") for at in range(3)])],
        lambda made: made.cache.forget_pods([pod(f"p{at}", f"n{at}") for at in range(3)]),
    ),
    "finish several": (
        [lambda made: made.cache.assume_pods([pod(f"p{at}", f"n{at % 3}") for at in range(FULL + 1)])],
        lambda made: bulk_operations.finish_bindings(
            made.cache.state, [pod(f"p{at}") for at in range(FULL + 1)], 1.0
        ),
    ),
    "finish, confirm and forget a template": (
        [run_of_a_template],
        lambda made: [
            bulk_operations.finish_template(made.cache.state, plain("web"), 0, FULL + 1, 1.0),
            made.cache.confirm_template(plain("web"), 0, 2),
            made.cache.forget_template(plain("web"), 2, FULL - 1),
        ],
    ),
}


GROWING = {"new node", "node changes", "assume before its node", "add", "refresh", "examine", "run"}
GROWING |= {"run of a template", "assume several", "assume several before their nodes", "finish several"}
"""Operations that surely need more memory than there is."""


def fits(memory: Memory, allocations: int, made: Scheduler, operation: Operation) -> bool:
    """Let one allocation after so many fail; true if the operation needs none. Else nothing changed."""
    held = dump(made)
    memory.left = allocations
    try:
        operation(made)
    except MemoryError:
        memory.left = -1
        assert dump(made) == held, f"allocation {allocations}"
        return False
    memory.left = -1
    return True


@pytest.mark.share(2)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("transaction", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_failed_allocation_changes_nothing(
    name: str, transaction: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(monkeypatch)
    before, operation = OPERATIONS[name]

    def prepared() -> Scheduler:
        made = full()
        for step in before:
            step(made)
        return made

    untouched = prepared()
    expected = [operation(untouched), dump(untouched), future(untouched)]
    undone = [dump(other := prepared()), future(other)]
    allocations = 0
    while True:
        made = prepared()
        mark = made.cache.state.begin() if transaction else None
        if fits(memory, allocations, made, operation):
            break
        assert [operation(made), dump(made), future(made)] == expected, f"allocation {allocations}"
        if mark is not None:
            made.cache.state.rollback(mark)
            assert [dump(made), future(made)] == undone
        allocations += 1
    assert allocations or name not in GROWING


def test_after_a_run_of_more_pods_than_there_is_memory_for() -> None:
    """Their records find memory, and the list of their objects does not."""
    plugins = [one for one in default_profile().plugins if one.name != "NodeResourcesFit"]
    cluster = Cluster(nodes=[node(f"n{at}") for at in range(3)])
    made, pods = Scheduler(cluster, profile=Profile(plugins)), 1 << 22
    pod_class = made.context.target_of(plain("web"))[0]

    def work() -> None:
        limited(55 * pods)  # 4 bytes for its row, 48 for its record, and 16 for its place among the objects
        with pytest.raises(MemoryError):
            place_run(made.placer, pod_class, pods)
        assert len(place_run(made.placer, pod_class, 100)) == 100

    assert outcome_of(work) == 0
