"""Forks of a scheduler: they decide as the original would, and share nothing that changes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from random import Random
from types import BuiltinFunctionType, FunctionType, ModuleType

import pytest
from tests.conftest import NIGHTLY
from tests.doors.engine import AT_ONCE, PodGates
from tests.make import configuration, node, pod
from tests.plugins.volume_binding_kit import LATE, MADE, asking, disk, waiting
from tests.preemption.world import budget
from tests.scheduler.groups.gang_kit import GATES, gang
from tests.scheduler.make import Clock, profile_with
from tests.scheduler.transactions.test_transaction_machine import Machine, Step, draw
from tests.scheduler.transactions.test_transactions import everything
from tests.store.informers.lossy import LossyClient
from tests.volume.make import storage_class, uses

import moorage as mo
from moorage import Quantity, Scheduler
from moorage.engine.framework import Code, CycleState, PermitPlugin, ReservePlugin, Status
from moorage.errors import InputError, MoorageError
from moorage.kube import Node, Object, PersistentVolumeClaim, Pod, PodDisruptionBudget, PodSchedulingGroup
from moorage.saved_fields import SavedFields
from moorage.store import ObjectStore


class ForkMachine(Machine):
    """A scheduler that is replaced by its fork now and then, and its twin, which never is."""

    others: list[Scheduler]

    def go(self, steps: int) -> None:
        self.others = []
        while self.steps < steps:
            if self.rng.random() < 0.3:
                self.fork()
            if self.others and self.rng.random() < 0.5:
                draw(self.rng)(self.rng.choice(self.others))
            super().go(self.steps + 1)

    def fork(self) -> None:
        """Go on with either of the two; random steps of the other change nothing here."""
        both = [self.one, self.one.fork()]
        self.rng.shuffle(both)
        self.one, other = both
        self.others = [other, *self.others[:2]]

    def _step(self) -> Step:
        if self.one.cache.transactions and self.rng.random() < 0.2:
            draw(self.rng)(self.one.fork())
        return super()._step()


@pytest.mark.parametrize("seed", range(6 if NIGHTLY else 2))
def test_a_fork_decides_as_the_original_would(seed: int) -> None:
    ForkMachine(seed).go(150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_fork_decides_as_the_original_would_in_many_steps(seed: int) -> None:
    ForkMachine(seed).go(1000)


# ---- what both can reach ---------------------------------------------------------------------------------

FIXED = (
    str, int, float, bytes, Enum, type, type(None), ModuleType, BuiltinFunctionType, Object, PodGates,
    Quantity,
)  # fmt: skip
SHARED = {
    "Symbols", "PortSets", "TaintSets", "PodClasses", "Shape", "OrderedMap", "WatchEvent", "AlikeEvents",
    "BoundPods",
}  # fmt: skip
"""Append-only tables; keys of the values of indexes, which are copied before they change; events, victims."""


def reachable(root: object) -> dict[int, object]:
    """The objects that can be reached from an object, by id; closures are followed, globals are not."""
    found: dict[int, object] = {}
    todo = [root]
    while todo:
        one = todo.pop()
        if id(one) in found or isinstance(one, FIXED) or type(one).__name__ in SHARED:
            continue
        found[id(one)] = one
        if isinstance(one, FunctionType):
            todo += [cell.cell_contents for cell in one.__closure__ or ()]
        else:
            todo += gc.get_referents(one)
    return found


def state_in_common(one: Scheduler, other: Scheduler) -> list[str]:
    """The types of moorage's own objects that two schedulers can both reach and that can change; AT_ONCE has
    nothing to change."""
    both = reachable(one).keys() & (others := reachable(other)).keys()
    kinds = {type(others[key]) for key in both if others[key] is not AT_ONCE}
    return sorted(
        kind.__qualname__
        for kind in kinds
        if kind.__module__.startswith("moorage")
        and not issubclass(kind, tuple)
        and not getattr(getattr(kind, "__struct_config__", None), "frozen", False)
        and not getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    )


def busy_scheduler() -> Scheduler:
    """A scheduler with pods of all kinds: bound, waiting, nominated, of a gang, with volumes."""
    cluster = mo.Cluster(nodes=[node(name, cpu="2") for name in "ab"], others=[MADE, waiting("c", "made")])
    one = Scheduler(cluster, feature_gates=GATES)
    one.client.create_many([
        gang("g", 3),
        *[pod(f"g{n}", requests={"cpu": "500m"}, scheduling_group=PodSchedulingGroup("g")) for n in range(2)],
        *[pod(f"low{n}", requests={"cpu": "1"}) for n in range(5)],
        pod("v", requests={"cpu": "1m"}, volumes=(uses(claim="c"),)),
    ])  # fmt: skip
    one.run()
    one.client.create(pod("high", requests={"cpu": "2"}, priority=9))
    one.run()
    return one


def test_nothing_that_changes_is_shared() -> None:
    one = busy_scheduler()
    assert state_in_common(one, one)
    fork = one.fork()
    fork.run()
    one.run()
    assert state_in_common(one, fork) == []


# ---- what takes part -----------------------------------------------------------------------------------


def test_a_fork_sees_what_the_original_sees() -> None:
    one = busy_scheduler()
    one.client.create(pod("late"))  # nobody has heard of it yet
    fork = one.fork()
    assert everything(fork) == everything(one)
    assert fork.run().placements == one.run().placements
    assert everything(fork) == everything(one)


class Waits(PermitPlugin):
    """Holds every pod for a minute; keeps nothing."""

    name = "Waits"

    def permit(self, state: CycleState, pod: Pod, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 60.0


def test_a_pod_that_waits_on_permit_is_decided_in_each_alone() -> None:
    clock = Clock()
    one = Scheduler(
        mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(Waits()), clock=clock
    )
    assert one.run().waiting == {"default/p": "a"}
    fork, late = one.fork(), one.fork()
    with pytest.raises(ValueError, match="has shown 0 s already"):
        late.advance(-1)
    waiting = fork.handle.get_waiting_pod(next(iter(fork.bindings.waiting)))
    assert waiting is not None
    assert waiting.get_pending_plugins() == ["Waits"]
    waiting.allow("Waits")
    assert fork.advance().placements == {"default/p": "a"}
    assert one.advance().waiting == {"default/p": "a"}
    clock.now = 61.0
    assert list(late.advance().unschedulable) == list(one.advance().unschedulable) == ["default/p"]
    assert fork.client.get(Pod, "p", "default").spec.node_name == "a"


def test_a_decided_pod_is_bound_in_both() -> None:
    one = Scheduler(
        mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(Waits()), clock=Clock()
    )
    one.run()
    one.handle.iterate_over_waiting_pods(lambda each: each.allow("Waits"))
    fork = one.fork()
    assert fork.advance().placements == one.advance().placements == {"default/p": "a"}


def test_the_volume_of_a_pod_that_waits_is_taken_in_both() -> None:
    cluster = mo.Cluster(
        nodes=[node("a", "z1")],
        pods=[asking("p", "c")],
        others=[LATE, disk("v", on="z1"), waiting("c"), waiting("d")],
    )
    one = Scheduler(cluster, profile=profile_with(Waits()), clock=Clock())
    assert one.run().waiting == {"default/p": "a"}
    for each in (one, one.fork()):
        each.client.create(asking("q", "d"))
        assert list(each.run().unschedulable) == ["default/q"]


def test_the_volume_controller_resyncs_when_the_other_does() -> None:
    claim, plugin = waiting("c", "own"), storage_class("own", "kubernetes.io/no-provisioner")
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[asking("p", "c")], others=[plugin, claim]))
    one.run()
    found = []
    for each in (one, one.fork()):
        each.client.create(disk("v", its_class="own"))
        found.append([volume_after(each, seconds) for seconds in (1.0, 15.0)])
    assert found == [["", "v"], ["", "v"]]


def volume_after(one: Scheduler, seconds: float) -> str:
    """The volume of the claim after some seconds."""
    one.volumes.wait(seconds)
    return one.client.get(PersistentVolumeClaim, "c", "default").spec.volume_name


class Counts(ReservePlugin):
    """Counts the pods it has reserved."""

    name = "Counts"

    def __init__(self) -> None:
        self.pods: list[str] = []

    def reserve(self, state: CycleState, pod: Pod, node: str) -> None:
        self.pods.append(pod.name)

    def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
        self.pods.remove(pod.name)


class Cloned(Counts):
    def clone(self) -> Cloned:
        out = Cloned()
        out.pods = self.pods.copy()
        return out


class Saved(Counts):
    def save(self) -> object:
        return self.pods.copy()

    def undo(self, saved: list[str]) -> None:
        self.pods = saved.copy()


class Part(SavedFields):
    fields = ("pods",)

    def __init__(self) -> None:
        self.pods: list[str] = []


class Parted(SavedFields, Counts):
    """Keeps its pods in a part."""

    fields = ("part",)

    def __init__(self) -> None:
        self.part = Part()

    @property
    def pods(self) -> list[str]:  # type: ignore[override]
        return self.part.pods


def counts(one: Scheduler) -> list[str]:
    return next(plugin.pods for plugin in one.profile.plugins if isinstance(plugin, Counts))


def test_a_fork_keeps_the_status_of_budgets() -> None:
    one = Scheduler(mo.Cluster(nodes=[node("n")], others=[budget(0, {"app": "x"}, name="keep")]))
    for each in (one, one.fork()):
        each.client.create(pod("a", labels={"app": "x"}))
        each.run()
        assert each.client.get(PodDisruptionBudget, "keep", "default").status.current_healthy == 1


def test_a_plugin_with_clone_goes_on_from_where_it_was() -> None:
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(Cloned()))
    one.run()
    fork = one.fork()
    fork.client.create(pod("q"))
    fork.run()
    assert (counts(one), counts(fork)) == (["p"], ["p", "q"])


@pytest.mark.parametrize("kind", [Saved, Parted])
def test_a_plugin_of_a_configuration_receives_the_state(kind: type[Counts]) -> None:
    config = configuration(profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "Counts"}]}}}])
    registry = {"Counts": lambda args, handle: kind()}
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), config=config, registry=registry)
    one.run()
    fork = one.fork()
    fork.client.create(pod("q"))
    fork.run()
    assert (counts(one), counts(fork)) == (["p"], ["p", "q"])


def test_a_plugin_that_cannot_be_copied_is_refused_by_name() -> None:
    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(Counts()))
    with pytest.raises(InputError, match='plugin "Counts" keeps state'):
        one.fork()
    assert one.run().placements == {"default/p": "a"}
    assert all(plugin.handle is not None for plugin in one.profile.plugins)


def test_the_history_of_the_store_can_be_watched_in_both() -> None:
    one = Scheduler(mo.Cluster(nodes=[node("a")]))
    version = one.client.list(Node)[1]
    watch = one.client.watch(Node, resource_version=version)
    fork = one.fork()
    fork.client.create(node("b"))
    assert watch.poll() == []
    assert fork.client.create(node("c")).metadata.resource_version == str(int(version) + 2)
    assert one.client.create(node("d")).metadata.resource_version == str(int(version) + 1)
    assert [event.object.name for event in watch.poll()] == ["d"]


def test_counts_of_failed_plugins_go_on() -> None:
    class Fails(ReservePlugin):
        name = "Fails"

        def reserve(self, state: CycleState, pod: Pod, node: str) -> None:
            raise ValueError

        def unreserve(self, state: CycleState, pod: Pod, node: str) -> None:
            pass

    one = Scheduler(mo.Cluster(nodes=[node("a")], pods=[pod("p")]), profile=profile_with(Fails()))
    one.run()
    fork = one.fork()
    assert fork.plugin_errors == {("Fails", "ValueError"): 1}
    fork.client.create(pod("q"))
    fork.run()
    assert one.plugin_errors == {("Fails", "ValueError"): 1}
    assert fork.plugin_errors[("Fails", "ValueError")] > 1


def test_only_an_object_store_is_copied() -> None:
    one = Scheduler(LossyClient(ObjectStore(), Random(0)))
    with pytest.raises(MoorageError, match="a scheduler over LossyClient cannot be copied: only one over"):
        one.fork()


def test_pods_that_are_being_bound_prevent_a_fork() -> None:
    class Slow(mo.PreBindPlugin):
        name = "Slow"

        def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node: str) -> None:
            return None

        def pre_bind(self, state: CycleState, pod: Pod, node: str) -> Iterator[float]:
            yield 5.0

    store = ObjectStore()
    store.create_many([node("a"), pod("p")])
    one = Scheduler(store, profile=profile_with(Slow()), clock=Clock())
    assert one.run().binding == {"default/p": "a"}
    with pytest.raises(MoorageError, match="a scheduler cannot be copied while pods are being bound"):
        one.fork()


def test_forks_run_side_by_side_in_threads() -> None:
    one = Scheduler(mo.Cluster(nodes=[node(f"n{n}", cpu="8") for n in range(40)]))
    forks = [one.fork() for _ in range(4)]
    for fork in forks:
        fork.client.create_many(pod(f"p{n}", requests={"cpu": "1"}) for n in range(200))
    with ThreadPoolExecutor(4) as pool:
        results = [result.placements for result in pool.map(Scheduler.run, forks)]
    assert results.count(results[0]) == 4
    assert len(results[0]) == 200
    assert not one.run().placements


# ---- differences -----------------------------------------------------------------------------------------


def test_difference_of_forks() -> None:
    one = Scheduler(mo.Cluster(nodes=[node("a", cpu="2"), node("b"), node("c")], pods=[pod("p"), pod("q")]))
    one.run()
    fork = one.fork()
    assert not one.ask.diff(fork)
    fork.client.delete(Node, "b")
    fork.client.create(node("d", cpu="2"))
    fork.client.update(node("a", cpu="3"))
    fork.client.delete(Pod, "p", "default")
    fork.client.create(pod("r", requests={"cpu": "1"}, on="d"))
    found = one.ask.diff(fork)
    assert (found.nodes_added, found.nodes_removed, found.nodes_changed) == (("d",), ("b",), ("a",))
    assert (found.pods_added, found.pods_removed) == (("default/r",), ("default/p",))
    was = one.client.get(Pod, "p", "default").spec.node_name
    assert found.placements == {"default/p": (was, None), "default/r": (None, "d")}
    assert found.requested == {"cpu": (0, 1000)}
    assert found.allocatable["cpu"][1] - found.allocatable["cpu"][0] == 3000 - int(
        one.table.allocatable["cpu"][one.table.find_row("b")]
    )
    back = fork.ask.diff(one)
    assert (back.nodes_added, back.placements["default/r"]) == (("b",), ("d", None))


def test_assumed_pods_are_on_their_nodes() -> None:
    one = Scheduler(mo.Cluster(nodes=[node("a")]))
    fork = one.fork()
    fork.schedule_pods([pod("p")])
    assert one.ask.diff(fork).placements == {"default/p": (None, "a")}
    assert one.ask.diff(fork).pods_added == ("default/p",)
