"""Work grows with the cluster, not with its square: what belongs together is found by an index.

Steps are counted, not timed: how often each line of moorage runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.make import make, manifest, node, scheduler, template, workload

import moorage
from moorage import Scheduler
from moorage.kube import Object, load

SOURCES = str(Path(moorage.__file__).parent)
FEW = 12
ALLOWED = 2.6
"""By how much the steps of a line may grow where the cluster is twice as large; three are too many."""
Line = tuple[str, int]


def count(act: Callable[[], object]) -> Counter[Line]:
    """Run a function, and count how often each line of the product runs, comprehensions included."""
    steps = Counter[Line]()

    def in_function(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            steps[frame.f_code.co_filename.removeprefix(SOURCES), frame.f_lineno] += 1
        return in_function

    def enter(frame: FrameType, event: str, _: object) -> Any:
        return in_function if frame.f_code.co_filename.startswith(SOURCES) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        act()
    finally:
        sys.settrace(before)
    return steps


def selecting(name: str, how: str) -> dict[str, Any]:
    if how == "labels":
        return {"matchLabels": {"app": name}}
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": [name]}]}


def workloads(number: int) -> Iterator[Object]:
    for at in range(number):
        yield workload("Deployment", f"default/app-{at}", 2, {"cpu": "1m"})


def pods_and(number: int, *more: Object) -> list[Object]:
    """Nodes and workloads with their pods, ready, in a namespace, and more objects."""
    nodes = [node(f"n{at}", cpu="100", pods="1000") for at in range(4)]
    first = scheduler(*nodes, *workloads(number))
    first.run()
    kinds = ("Node", "Deployment", "ReplicaSet", "Pod")
    return [*(obj for kind in kinds for obj in first.client.list(kind)[0]), *more]


def budgets(number: int, how: str, most: int) -> list[Object]:
    return [
        make(
            "PodDisruptionBudget",
            f"default/b{at}",
            {"maxUnavailable": most, "selector": selecting(f"app-{at}", how)},
        )
        for at in range(number)
    ]


def with_budgets(number: int, how: str) -> Scheduler:
    return scheduler(*pods_and(number), *budgets(number, how, 1))


def files_with_budgets(number: int) -> Callable[[], object]:
    ranges = make("LimitRange", "default/l", {"limits": [{"type": "Container", "default": {"cpu": "1"}}]})
    image = {"name": "c", "image": "app:1"}
    missing = (
        workload("Deployment", f"default/new-{at}", 1, template=template(f"new-{at}", containers=[image]))
        for at in range(number)
    )
    objects = [*pods_and(number, ranges, *missing), *budgets(number, "labels", 1)]
    manifests = list(map(manifest, objects))
    return lambda: load(*manifests)


def budgets_change(number: int) -> Callable[[], object]:
    made = with_budgets(number, "expressions")
    return lambda: (made.change.apply(budgets(number, "expressions", 2)), made.run())


def nodes_are_drained(number: int) -> Callable[[], object]:
    made = with_budgets(number, "labels")
    return lambda: (made.change.drain("n0"), made.run())


def workloads_are_rolled_out(number: int) -> Callable[[], object]:
    made = with_budgets(number, "labels")
    return lambda: (made.change.restart_all(), made.run())


@pytest.mark.parametrize(
    "acting", [files_with_budgets, budgets_change, nodes_are_drained, workloads_are_rolled_out]
)
def test_twice_as_many_of_all_take_twice_as_many_steps(acting: Callable[[int], Callable[[], object]]) -> None:
    acting(2 * FEW)()  # what is imported, and remembered of times and texts: else few of them may be known
    few, many = (count(acting(number)) for number in (FEW, 2 * FEW))
    many &= count(acting(2 * FEW))  # the second time, what a memo has forgotten in between is known again
    assert few.total() > 100 * FEW
    grown = {line: (few[line], steps) for line, steps in many.items() if steps > 4 * FEW}
    assert not {line: steps for line, steps in grown.items() if steps[1] > ALLOWED * steps[0]}
