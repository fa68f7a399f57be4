"""Scheduler, controller and store together: claims that wait for their first consumer are bound where the
pods go, whatever happens in between, and in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    ScriptedProvisioner,
    parameters,
    pv,
    pvc,
    settle,
)
from tests.controllers.persistent_volume.test_crashes import Killed, Mortal
from tests.doors.controllers import PersistentVolumeController, new_controller
from tests.doors.engine import is_fully_bound, reaches_node
from tests.make import node, pod
from tests.volume.make import storage_class, uses

from moorage import Scheduler
from moorage.engine.volume import is_volume_bound_to_claim
from moorage.kube import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeNodeAffinity,
)
from moorage.store import InformerFactory, ObjectStore

HOSTNAME = "kubernetes.io/hostname"
WAITS = "WaitForFirstConsumer"
MADE = "made.example.com"

# What happens when there is time for it, or just before a scheduler writes.
ACTIONS = ("nothing", "controller", "killed before", "killed after", "restart", "other scheduler", "resync")


def disk(name: str, host: str, size: str = "10Gi") -> PersistentVolume:
    """A free volume on one node."""
    wanted = NodeSelectorRequirement(key=HOSTNAME, operator="In", values=(host,))
    term = NodeSelectorTerm(match_expressions=(wanted,))
    there = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    free = pv(f"{name} {size} Available class=local")
    return replace(free, spec=replace(free.spec, node_affinity=there))


def late(name: str, class_name: str) -> PersistentVolumeClaim:
    return pvc(f"{name} 1Gi uid=uid-{name} class={class_name}")


class Hooked:
    """A client that calls back before it writes."""

    def __init__(self, store: ObjectStore, before: Callable[[], None]) -> None:
        self._store, self._before = store, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def update(self, obj: Any) -> Any:
        self._before()
        return self._store.update(obj)


class Town:
    """Two schedulers, a controller that may die, and storage, over one store; time passes when all wait.

    Parameters
    ----------
    actions : list of (str, int)
        What happens, one after the other, at the points where something can; the number is the write at which
        a controller dies. Then the controller alone works.
    """

    def __init__(self, nodes: list[Node], others: list[Any], actions: list[tuple[str, int]]) -> None:
        self.now = 0.0
        self.store = ObjectStore()
        self.actions = list(actions)
        self.storage = ScriptedProvisioner(MADE, topology_keys=(HOSTNAME,))
        classes = [
            storage_class("local", "kubernetes.io/no-provisioner", WAITS),
            storage_class("late", MADE, WAITS),
        ]
        for obj in (*nodes, *classes, *others):
            self.store.create(obj)
        self.busy: list[str] = []
        self.deaths: list[tuple[int, bool]] = []
        self.controller = self.new_controller()
        self.schedulers = {name: self.new_scheduler(name) for name in ("a", "b")}

    def new_scheduler(self, name: str) -> Scheduler:
        profile = {"schedulerName": name}
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        client: Any = Hooked(self.store, self.act)
        return Scheduler(client, config=config, clock=lambda: self.now, wait=self.wait)

    def new_controller(self) -> PersistentVolumeController:
        client: Any = Mortal(self.store, self.deaths)
        self.informers = InformerFactory(client)
        plugins = {"volume_plugins": [self.storage], "enable_dynamic_provisioning": True}
        return new_controller(parameters(client, self.informers, **plugins), clock=lambda: self.now)

    def wait(self, seconds: float) -> None:
        """A scheduler waits for the volumes of a pod."""
        self.now += seconds
        if self.actions:
            self.act()
        else:
            self.control()
        for scheduler in self.schedulers.values():
            scheduler.sync()

    def act(self) -> None:
        """The next thing happens."""
        if not self.actions:
            return
        action, number = self.actions.pop(0)
        match action:
            case "controller":
                self.control()
            case "killed before" | "killed after":
                self.deaths = [(number, action == "killed after")]
                self.controller = self.new_controller()
                self.control()
                self.deaths = []
                self.controller = self.new_controller()
            case "restart":
                self.controller = self.new_controller()
            case "resync":
                self.now += 15.0
                self.control()
            case "other scheduler":
                idle = [name for name in self.schedulers if name not in self.busy]
                if idle:
                    self.run(idle[0])

    def control(self) -> None:
        with suppress(Killed):
            settle(self.informers, self.controller)

    def run(self, name: str) -> None:
        self.busy.append(name)
        self.schedulers[name].run()
        self.busy.remove(name)

    def live(self) -> None:
        """Everybody works until nothing happens any more."""
        for _ in range(12):
            for name in self.schedulers:
                self.run(name)
            self.control()
            self.now += 30.0
            if all(pod.spec.node_name for pod in self.pods()) and all(map(is_fully_bound, self.claims())):
                break

    def pods(self) -> list[Pod]:
        return self.store.list(Pod)[0]

    def claims(self) -> list[PersistentVolumeClaim]:
        return self.store.list(PersistentVolumeClaim)[0]

    def check(self) -> None:
        """Nothing is bound twice, nothing is half bound to a pod that runs, and nothing was made in vain."""
        volumes = {one.name: one for one in self.store.list(PersistentVolume)[0]}
        claims = {one.key: one for one in self.claims()}
        bound = [one.spec.volume_name for one in claims.values() if one.spec.volume_name]
        assert len(bound) == len(set(bound))
        holders = [one.spec.claim_ref.uid for one in volumes.values() if one.spec.claim_ref is not None]
        assert len(holders) == len(set(holders))
        labels = {one.name: one.metadata.labels for one in self.store.list(Node)[0]}
        for one in self.pods():
            for volume in one.spec.volumes if one.spec.node_name else ():
                assert volume.persistent_volume_claim is not None
                claim = claims[f"default/{volume.persistent_volume_claim.claim_name}"]
                assert is_fully_bound(claim)
                its = volumes[claim.spec.volume_name]
                assert is_volume_bound_to_claim(its, claim)
                assert reaches_node(its, labels[one.spec.node_name])
        made = {name for name in volumes if name.startswith("pvc-")}
        assert set(self.storage.volumes) == made


def town(
    disks: list[PersistentVolume],
    pods: list[tuple[str, str, str]],
    actions: list[tuple[str, int]] | None = None,
) -> Town:
    """Pods, each by its name, its scheduler and the class of its claim."""
    nodes = [node(name, labels={HOSTNAME: name}) for name in ("n1", "n2")]
    claims = [late(f"of-{name}", class_name) for name, _, class_name in pods]
    waiting = [
        replace(one, spec=replace(one.spec, scheduler_name=scheduler))
        for name, scheduler, _ in pods
        for one in [pod(name, volumes=(uses(claim=f"of-{name}"),))]
    ]
    return Town(nodes, [*disks, *claims, *waiting], actions or [])


actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 6)), max_size=12)
unhurried = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def lives(
    disks: list[PersistentVolume],
    pods: list[tuple[str, str, str]],
    actions: list[tuple[str, int]] | None = None,
    failures: int = 0,
) -> tuple[Town, list[str]]:
    """A town to its end, and the nodes of its pods; "" for none."""
    world = town(disks, pods, actions)
    world.storage.fail("provision", "no space", failures)
    world.live()
    world.check()
    return world, [each.spec.node_name for each in world.pods()]


def test_a_pod_goes_where_its_volume_is_or_a_volume_is_made_where_it_goes() -> None:
    assert lives([disk("d", "n2")], [("p", "a", "local")])[1] == ["n2"]
    world, where = lives([], [("p", "a", "late")])
    assert (where, len(world.storage.volumes)) == (["n1"], 1)


@unhurried
@given(actions)
def test_static_volumes_are_bound_whatever_happens_meanwhile(happens: list[tuple[str, int]]) -> None:
    disks = [disk("d1", "n1"), disk("d2", "n2"), disk("d3", "n2", "20Gi")]
    assert all(lives(disks, [(name, "a", "local") for name in ("p", "q", "r")], happens)[1])


@unhurried
@given(actions, st.integers(0, 4))
def test_volumes_that_are_made(happens: list[tuple[str, int]], failures: int) -> None:
    """By a provisioner that fails and recovers."""
    world, where = lives([], [(name, "a", "late") for name in ("p", "q")], happens, failures)
    assert (all(where), len(world.storage.volumes)) == (True, 2)


@unhurried
@given(actions, st.booleans())
def test_two_schedulers_race_for_volumes(happens: list[tuple[str, int]], are_enough: bool) -> None:
    disks = [disk("d1", "n1"), disk("d2", "n2")][: 1 + are_enough]
    _, where = lives(disks, [("p", "a", "local"), ("q", "b", "local")], happens)
    assert sorted(where) == (["n1", "n2"] if are_enough else ["", "n1"])


def test_the_other_scheduler_was_faster() -> None:
    """Both have chosen the volume; the one that writes second is refused, and its pod takes another."""
    disks = [disk("d1", "n1"), disk("d2", "n2")]
    world = town(disks, [("p", "a", "local"), ("q", "b", "local")], [("other scheduler", 1)])
    world.run("a")
    failed = [e for e in world.schedulers["a"].handle.recorder.events if e.reason == "FailedScheduling"]
    assert len(failed) == 1
    assert "the object has been modified" in failed[0].note
    world.live()
    world.check()
    assert [each.spec.node_name for each in world.pods()] == ["n2", "n1"]
