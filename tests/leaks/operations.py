"""What is repeated: each operation leaves the cluster as it found it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
from msgspec.structs import replace

from moorage import CycleState, FilterPlugin, NodesView, ScorePlugin
from moorage.engine.cache import Snapshot
from moorage.errors import MoorageError
from moorage.kube import (
    LabelSelector,
    LabelSelectorMatcher,
    Pod,
    PodStatus,
    Quantity,
    decode_object,
    dump,
    parse_selector,
)
from tests.core import placing
from tests.doors.engine import schedule_pods
from tests.leaks.world import node, place, plain, pod, scheduler, terms

Operation = Callable[[], object]


def assume_and_forget() -> Operation:
    cache = scheduler().cache
    one = pod("p", "n0")

    def run() -> None:
        cache.assume_pod(one)
        cache.forget_pod(one)

    return run


def assume_and_expire() -> Operation:
    cache = scheduler().cache
    one, clock = pod("p", "n0"), count()

    def run() -> None:
        now = float(next(clock))
        cache.assume_pod(one)
        cache.state.finish_binding(one, now)
        cache.cleanup_assumed_pods(now + 0.5)

    return run


def assume_without_deadline_and_confirm() -> Operation:
    cache = scheduler().cache
    one = pod("p", "n0")

    def run() -> None:
        cache.assume_pod(one)
        cache.state.finish_binding(one, float("inf"))
        cache.add_pod(one)
        cache.remove_pod(one)

    return run


def assume_and_confirm() -> Operation:
    cache = scheduler().cache
    one, clock = pod("p", "n0"), count()

    def run() -> None:
        cache.assume_pod(one)
        cache.state.finish_binding(one, float(next(clock)) + 30)
        cache.add_pod(one)
        cache.remove_pod(one)
        cache.cleanup_assumed_pods(float(next(clock)))

    return run


def add_update_and_remove_pod() -> Operation:
    cache = scheduler().cache
    old, new = pod("p", "n0"), plain("p", "2", "n0")

    def run() -> None:
        cache.add_pod(old)
        cache.update_pod(old, new)
        cache.get_pod(old)
        cache.remove_pod(new)

    return run


def set_and_remove_node() -> Operation:
    sched = scheduler()
    small, large = node("extra", 2), node("extra", 9, labels={"zone": "other"})

    def run() -> None:
        sched.cache.add_node(small)
        sched.cache.update_node(small, large)
        sched.cache.remove_node(large)

    return run


def pod_on_a_ghost() -> Operation:
    cache = scheduler().cache
    ghost, one = node("ghost"), pod("p", "ghost")

    def run() -> None:
        cache.add_pod(one)
        cache.add_node(ghost)
        cache.remove_node(ghost)
        cache.remove_pod(one)

    return run


def refresh() -> Operation:
    sched = scheduler()
    extra = node("extra")

    def run() -> None:
        sched.cache.add_node(extra)
        sched.context.view_order()
        sched.cache.remove_node(extra)
        sched.context.view_rows()

    return run


def schedule_one() -> Operation:
    sched = scheduler()
    pending, bound = plain("p"), {name: plain("p", node_name=name) for name in ("n0", "n1", "n2")}

    def run() -> None:
        found = schedule_pods.schedule_one(sched.context, pending).node
        sched.cache.forget_pod(bound[found or ""])

    return run


def schedule_one_that_fits_nowhere() -> Operation:
    sched = scheduler()
    huge = plain("p", "1000")
    return lambda: schedule_pods.schedule_one(sched.context, huge).fit_error


def place_run() -> Operation:
    return _place(3)


def place_run_until_full() -> Operation:
    return _place(1000)


def _place(pods: int) -> Operation:
    sched = scheduler(2)
    state, one = sched.cache.state, plain("p", "2")
    target = sched.context.target_of(one)

    def run() -> None:
        mark = state.begin()
        placing.place_run(sched.placer, target[0], pods)
        state.rollback(mark)
        sched.context.view_rows()  # an undone refresh is done again, from where it began

    return run


def pods_of_a_template() -> Operation:
    """Runs without objects, seen by a snapshot, confirmed, given objects, forgotten."""
    sched = scheduler()
    state, snapshot, template = sched.cache.state, Snapshot(), plain("web")
    target = sched.context.target_of(template)

    def run() -> None:
        for first in (0, 3):
            rows = placing.place_run(sched.placer, target[0], 3)
            state.assume_template(target[0], template, first, rows)
        sched.cache.update_snapshot(snapshot)
        sched.cache.finish_template(template, 1, 2, 0.0)
        sched.cache.confirm_template(template, 1, 2)
        held = [one for one in state.pods() if not state.is_assumed_pod(one)]
        for one in held:
            state.update_pod(one, replace(one, metadata=replace(one.metadata, annotations={"a": "b"})))
        mark = state.begin()
        sched.cache.forget_template(template, 3, 3)
        state.rollback(mark)
        sched.cache.forget_template(template, 3, 3)
        sched.cache.forget_template(template, 0, 1)
        for one in held:
            state.remove_pod(one)
        sched.cache.cleanup_assumed_pods(1e9)
        sched.context.view_rows()

    return run


def run_of_equal_pods() -> Operation:
    sched = scheduler()
    pods = [plain(f"p{index}") for index in range(3)]
    bound = {(at.name, on): plain(at.name, node_name=on) for at in pods for on in ("n0", "n1", "n2")}

    def run() -> None:
        for at, on in zip(pods, place(sched, pods), strict=True):
            sched.cache.forget_pod(bound[at.name, on])
        place(sched, [plain("huge", "1000")])

    return run


def examine() -> Operation:
    sched = scheduler()
    one = pod("p", affinity={"nodeAffinity": PREFERRED})
    return lambda: sched.examine(one)


def counters_follow_pods_and_nodes() -> Operation:
    sched = scheduler()
    cache, one = sched.cache, terms("p", "n0")
    seeker, moved = terms("q"), node("n1", labels={"zone": "elsewhere"})
    back = node("n1")

    def run() -> None:
        cache.add_pod(one)
        cache.update_node(back, moved)
        sched.examine(seeker)
        cache.update_node(moved, back)
        cache.remove_pod(one)

    return run


def counters_that_a_transaction_made() -> Operation:
    sched = scheduler()
    seeker, one = terms("q"), terms("p", "n0")

    def run() -> None:
        with sched.cache.transaction():
            sched.cache.add_pod(one)
            sched.examine(seeker)

    return run


def run_of_spread_pods() -> Operation:
    sched = scheduler()
    pods = [terms(f"p{index}") for index in range(3)]

    def run() -> None:
        with sched.cache.transaction():
            place(sched, pods)

    return run


def nominated_pods() -> Operation:
    sched = scheduler()
    waiting = replace(terms("n"), status=PodStatus(nominated_node_name="n1"))
    sched.client.create(waiting)
    sched.sync()
    seeker = terms("q")
    return lambda: sched.examine(seeker)


def python_plugins() -> Operation:
    sched = scheduler(plugins=(Picky(),))
    one = plain("p")
    return lambda: sched.examine(one)


class Picky(FilterPlugin, ScorePlugin):
    """Takes no node that ends with 1, and prefers the others by their place."""

    name = "Picky"

    def filter_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> Any:
        return np.array([not name.endswith("1") for name in nodes.names])

    def score_all(self, state: CycleState, pod: Pod, nodes: NodesView) -> Any:
        return np.arange(len(nodes))


def transaction() -> Operation:
    sched = scheduler()
    state, extra, one = sched.cache.state, node("extra"), pod("p", "n0")

    def run() -> None:
        for end in (state.rollback, state.commit):
            mark = state.begin()
            state.set_node(extra)
            state.assume_pod(one)
            state.forget_pod(one)
            state.remove_node("extra")
            end(mark)

    return run


def errors() -> Operation:
    cache = scheduler().cache
    held, stranger, nameless = pod("p", "n0"), pod("q", "n0"), decode_object({"kind": "Pod"})
    bad = decode_object({"kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "x"}}})
    cache.add_pod(held)
    attempts: list[Operation] = [
        lambda: cache.add_pod(held),
        lambda: cache.assume_pod(held),
        lambda: cache.forget_pod(held),
        lambda: cache.remove_pod(stranger),
        lambda: cache.assume_pod(nameless),  # type: ignore[arg-type]
        lambda: cache.add_node(bad),  # type: ignore[arg-type]
        lambda: cache.remove_node(node("unknown")),
    ]

    def run() -> None:
        for attempt in attempts:
            with suppress(MoorageError, ValueError):
                attempt()

    return run


def decode_and_intern() -> Operation:
    """New objects every time, all of one class."""
    sched = scheduler()
    text = dump([pod("p")]).encode()
    return lambda: sched.context.target_of(decode_object(text))  # type: ignore[arg-type]


def parse() -> Operation:
    labels = {"a": "b"}
    selector = LabelSelector(match_labels=labels)

    def run() -> None:
        Quantity("1.5Gi") + Quantity("100m")
        with suppress(ValueError):
            Quantity("1K")
        parse_selector("a in (b, c), !d").matches(labels)
        with suppress(ValueError):
            parse_selector("a in (")
        LabelSelectorMatcher(selector).matches(labels)

    return run


PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {
            "weight": 5,
            "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1"]}]},
        }
    ]
}
OPERATIONS: dict[str, Callable[[], Operation]] = {
    make.__name__: make
    for make in (
        assume_and_forget,
        assume_and_expire,
        assume_without_deadline_and_confirm,
        assume_and_confirm,
        add_update_and_remove_pod,
        set_and_remove_node,
        pod_on_a_ghost,
        refresh,
        schedule_one,
        schedule_one_that_fits_nowhere,
        place_run,
        place_run_until_full,
        pods_of_a_template,
        run_of_equal_pods,
        examine,
        counters_follow_pods_and_nodes,
        counters_that_a_transaction_made,
        run_of_spread_pods,
        nominated_pods,
        python_plugins,
        transaction,
        errors,
        decode_and_intern,
        parse,
    )
}
