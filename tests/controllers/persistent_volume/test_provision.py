"""Provisioning: the tables of upstream's provision_test.go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.persistent_volume.controller_kit import (
    BBC,
    CHOSEN,
    DP,
    EXTERNAL,
    NODE1,
    PLUGIN,
    Case,
    ScriptedProvisioner,
    World,
    check_result,
    check_sync_claim,
    free,
    known,
    made_by,
    make_world,
    pv,
    pvc,
)
from tests.doors.controllers import VolumeOptions

from moorage.objects import (
    CSIPersistentVolumeSource,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
)
from moorage.store import AlreadyExistsError, ApiError, ObjectStore

MADE = made_by()
SUCCEEDED = (
    "Normal ProvisioningSucceeded Successfully provisioned volume pvc-uid using kubernetes.io/mock-volume"
)
NODE = Node(metadata=ObjectMeta(name="node1"))


def gold(*annotations: dict[str, str], class_name: str = "gold", **more: Any) -> PersistentVolumeClaim:
    return pvc("c", "uid", "1Gi", more.pop("volume", ""), "Pending", class_name, *annotations, **more)


def made(class_name: str = "gold") -> PersistentVolume:
    """What the plugin makes for the claim."""
    volume = pv("pvc-uid", "1Gi", "uid", "c", "Bound", "Delete", class_name, BBC | DP)
    csi = CSIPersistentVolumeSource(driver=PLUGIN, volume_handle="pvc-uid")
    return replace(volume, spec=replace(volume.spec, csi=csi))


def failing(call: Any, error: str, times: int = 1) -> dict[str, Any]:
    plugin = ScriptedProvisioner(PLUGIN)
    plugin.fail(call, error, times)
    return {"plugins": [plugin]}


class Creates:
    """A client whose first creations fail with these errors."""

    def __init__(self, store: ObjectStore, *errors: Exception) -> None:
        self._store = store
        self._errors = list(errors)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, obj: PersistentVolume) -> PersistentVolume:
        if self._errors:
            raise self._errors.pop(0)
        return self._store.create(obj)


def creates(*errors: Exception) -> Callable[[ObjectStore], Creates]:
    return lambda store: Creates(store, *errors)


REFUSED = [ApiError("Mock creation error")] * 5
GAVE_UP = (
    "Warning ProvisioningFailed Error creating provisioned PV object for claim default/c: "
    "Mock creation error. Deleting the volume."
)
LEFT = "Warning ProvisioningCleanupFailed Error cleaning provisioned volume for claim default/c: "

CASES = [
    Case("11-1", (), [gold()], [made()], [gold(MADE)], (SUCCEEDED,)),
    Case(
        "11-2 no plugin",
        (),
        [gold()],
        events=(f"Warning ProvisioningFailed no volume plugin matched name: {PLUGIN}",),
        world={"plugins": []},
    ),
    Case(
        "11-3 no provisioner",
        (),
        [gold()],
        then_claims=[gold(MADE)],
        events=("Warning ProvisioningFailed Failed to create provisioner: Mock provisioner error",),
        world=failing("new_provisioner", "Mock provisioner error"),
    ),
    Case(
        "11-4 the plugin fails",
        (),
        [gold()],
        then_claims=[gold(MADE)],
        events=(
            'Warning ProvisioningFailed Failed to provision volume with StorageClass "gold": '
            "Moc provision error",
        ),
        world=failing("provision", "Moc provision error"),
    ),
    Case(
        "the plugin fails for a node",
        (),
        [gold(NODE1, class_name="wait")],
        then_claims=[gold(MADE, class_name="wait")],
        events=('Warning ProvisioningFailed Failed to provision volume with StorageClass "wait": no',),
        others=[NODE],
        world=failing("provision", "no"),
    ),
    Case(
        "no such node",
        (),
        [gold(NODE1, class_name="wait")],
        then_claims=[gold(NODE1, MADE, class_name="wait")],
        events=('Warning ProvisioningFailed Failed to get target node: node "node1" not found',),
    ),
    Case(
        "11-6 a volume that matches",
        [free("v", class_name="gold")],
        [gold()],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "gold", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", "gold", CHOSEN)],
        None,
    ),
    Case(
        "11-13 another class",
        (),
        [gold(class_name="silver")],
        [made("silver")],
        [gold(MADE, class_name="silver")],
    ),
    Case(
        "11-14 no such class",
        (),
        [gold(class_name="none")],
        events=('Warning ProvisioningFailed storageclass.storage.k8s.io "none" not found',),
    ),
    *(
        Case(
            f"{name} class {given!r}",
            (),
            [pvc("c", "uid", "1Gi", class_name=given)],
            events=("Normal FailedBinding",),
        )
        for name, given in (("11-15", ""), ("11-16", None))
    ),
    Case(
        "11-17 outside",
        (),
        [gold(class_name="external")],
        then_claims=[gold(made_by(EXTERNAL), class_name="external")],
        events=(
            "Normal ExternalProvisioning waiting for a volume to be created, either by external "
            f'provisioner "{EXTERNAL}" or manually created by system administrator',
        ),
    ),
    Case(
        "11-18 unknown",
        (),
        [gold(class_name="unknown")],
        events=("Warning ProvisioningFailed no volume plugin matched name: kubernetes.io/unknown",),
    ),
    Case(
        "11-20 mount options",
        (),
        [gold(class_name="mount")],
        then_claims=[gold(MADE, class_name="mount")],
        events=(
            "Warning ProvisioningFailed Mount options are not supported by the provisioner but "
            'StorageClass "mount" has mount options [foo bar]',
        ),
        world={"plugins": [ScriptedProvisioner(PLUGIN, mount_options=False)]},
    ),
    Case(
        "11-21 migrated",
        (),
        [gold()],
        then_claims=[gold(made_by("csi.io"), {"pv.kubernetes.io/migrated-to": "csi.io"})],
        events=("Normal ExternalProvisioning",),
        world={"migrated": {PLUGIN: "csi.io"}},
    ),
    Case(
        "11-22 outside, and a volume that matches",
        [free("v", class_name="external")],
        [gold(class_name="external")],
        [pv("v", "1Gi", "uid", "c", "Bound", "Retain", "external", BBC)],
        [pvc("c", "uid", "1Gi", "v", "Bound", "external", CHOSEN)],
        None,
    ),
    Case(
        "11-23 node selected, volumes that are free do not count",
        [free("v", class_name="wait")],
        [gold(NODE1, class_name="wait")],
        [free("v", class_name="wait"), made("wait")],
        [gold(NODE1, MADE, class_name="wait")],
        (SUCCEEDED,),
        others=[NODE],
    ),
    Case(
        "11-24 node selected, outside",
        [free("v", class_name="external-wait")],
        [gold(NODE1, class_name="external-wait")],
        None,
        [gold(NODE1, made_by(EXTERNAL), class_name="external-wait")],
        ("Normal ExternalProvisioning",),
    ),
    Case("disabled", (), [gold()], events=None, world={"provisioning": False}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_volumes_are_provisioned_as_in_upstreams_cases(case: Case) -> None:
    check_sync_claim(case)


def later(world: World, seconds: float) -> None:
    """Let time pass to each operation that waits."""
    end = world.clock.now + seconds
    operations = world.controller._volume_operations.operations
    while (due := operations.next_due()) is not None and due <= end:
        world.clock.now = due
        operations.run_due()


CREATIONS = [
    ("11-8 one creation fails", REFUSED[:1], ("", 0), [made()], (SUCCEEDED,)),
    ("11-9 every creation fails", REFUSED, ("", 0), [], (GAVE_UP,)),
    (
        "11-11 every deletion fails",
        REFUSED,
        ("Mock deletion error", 5),
        [],
        (GAVE_UP, f"{LEFT}Mock deletion"),
    ),
    ("11-12 one deletion fails", REFUSED, ("Mock deletion error", 1), [], (GAVE_UP,)),
    ("11-19 a lost answer", [REFUSED[0], AlreadyExistsError("there")], ("", 0), [], (SUCCEEDED,)),
]


@pytest.mark.parametrize(
    ("name", "errors", "deletions", "volumes", "events"), CREATIONS, ids=lambda one: str(one)[:5]
)
def test_a_volume_that_cannot_be_written_is_deleted_and_tried_again(
    name: str, errors: list[Exception], deletions: tuple[str, int], volumes: Any, events: Any
) -> None:
    case = Case(name, (), [gold()], volumes, [gold(MADE)], events, world={"client": creates(*errors)})
    world = make_world(case)
    world.plugin.fail("delete", *deletions)
    controller = known(world)
    controller.sync_claim(controller._writer.claims.get("default/c"))
    assert world.events() == []
    assert world.controller.next_due() is not None
    later(world, 80.0)
    check_result(world, case)
    assert set(world.plugin.volumes) == ({"pvc-uid"} if SUCCEEDED in events or deletions[1] == 5 else set())


def test_no_plugin_deletes_what_could_not_be_created() -> None:
    """11-10"""

    class Makes:
        """Cannot delete."""

        def __init__(self) -> None:
            self.made = ScriptedProvisioner(PLUGIN)
            self.name, self.init, self.can_support = PLUGIN, self.made.init, self.made.can_support
            self.supports_mount_option = self.made.supports_mount_option
            self.new_provisioner = self.made.new_provisioner

    world = World(gold(), plugins=[Makes()], client=creates(*REFUSED))
    controller = known(world)
    controller.sync_claim(controller._writer.claims.get("default/c"))
    later(world, 80.0)
    assert world.events() == [GAVE_UP, f"{LEFT}no deletable volume plugin matched. Please delete manually."]


def test_a_volume_that_was_made_meanwhile() -> None:
    """11-7"""
    world = World(gold())
    controller = known(world)
    world.before_operations(lambda: world.store.create(made()))
    controller.sync_claim(controller._writer.claims.get("default/c"))
    assert (world.volumes(), world.claims(), world.events()) == ([made()], [gold(MADE)], [])
    assert world.plugin.calls == []


def test_what_the_plugin_is_told() -> None:
    """Upstream's names of the tags, which mark the real volume in a cloud."""
    told = []

    class Listens(ScriptedProvisioner):
        def new_provisioner(self, options: VolumeOptions) -> Any:
            told.append(options)
            return super().new_provisioner(options)

    World(gold(), plugins=[Listens(PLUGIN)]).controller.settle()
    (options,) = told
    assert (options.pv_name, options.pvc.key, options.cluster_name) == ("pvc-uid", "default/c", "cluster")
    assert options.persistent_volume_reclaim_policy == "Delete"
    assert options.cloud_tags == {
        "kubernetes.io/created-for/pvc/namespace": "default",
        "kubernetes.io/created-for/pvc/name": "c",
        "kubernetes.io/created-for/pv/name": "pvc-uid",
    }


# ---- until nothing happens any more ----


def test_provision_and_bind() -> None:
    """12-1"""
    world = World(gold())
    world.controller.settle()
    assert world.volumes() == [made()]
    assert world.claims() == [pvc("c", "uid", "1Gi", "pvc-uid", "Bound", "gold", MADE | CHOSEN)]


@pytest.mark.parametrize(
    ("reference", "marks"),
    [(None, BBC), (("", "c"), {})],
    ids=["12-2 appears free", "12-4 appears bound"],
)
def test_a_volume_made_outside_is_bound(reference: tuple[str, str] | None, marks: dict[str, str]) -> None:
    world = World(gold(class_name="external"))
    world.controller.settle()
    world.store.create(pv("v", "1Gi", *(reference or ("", "")), "Available", "Delete", "external"))
    world.controller.settle()
    world.clock.now += 15.0
    world.controller.settle()
    assert world.volumes() == [pv("v", "1Gi", "uid", "c", "Bound", "Delete", "external", marks)]
    (claim,) = world.claims()
    assert (claim.spec.volume_name, claim.status.phase) == ("v", "Bound")


def test_a_volume_made_outside_that_never_comes() -> None:
    """12-3"""
    world = World(gold(class_name="external"))
    for _ in range(3):
        world.controller.settle()
        world.clock.now += 15.0
    assert world.claims() == [gold(made_by(EXTERNAL), class_name="external")]


def test_a_failed_operation_is_left_alone_for_a_while() -> None:
    """The pause doubles; nothing but the next synchronization tries again."""
    world = World(gold(), sync_period=0.4)
    world.plugin.fail("provision", times=3)
    world.controller.settle()
    attempts = []
    for _ in range(12):
        due = world.controller.next_due()
        assert due is not None
        world.clock.now = due
        world.controller.settle()
        attempts.append(sum(call == "provision" for call, _ in world.plugin.calls))
    assert attempts[0] == 1
    assert attempts[-1] == 4
    assert world.volumes() == [made()]
