"""Queueing hints of the volume plugins."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.engine import index_of
from tests.queue.ask import ask, node, pod, thing

from moorage import Scheduler
from moorage.kube import Pod


def volumes(
    *given: Any, name: str = "p", namespace: str = "default", on: str = "", status: Any = None
) -> Pod:
    listed = [{"name": f"v{number}"} | one for number, one in enumerate(given)]
    return pod(name, namespace, nodeName=on, volumes=listed, status=status)


def claiming(name: str) -> Any:
    return {"persistentVolumeClaim": {"claimName": name}}


def claim(name: str = "c", namespace: str = "default", **fields: Any) -> Any:
    return thing("PersistentVolumeClaim", name, namespace, **fields)


def csi_node(*drivers: tuple[str, int | None], migrated: str = "") -> Any:
    listed = [{"name": name, "nodeID": "n"} for name, _ in drivers]
    for entry, (_, count) in zip(listed, drivers, strict=True):
        if count is not None:
            entry["allocatable"] = {"count": count}  # type: ignore[assignment]
    meta = {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": migrated}} if migrated else {}
    return thing("CSINode", "n", metadata=meta, spec={"drivers": listed})


def storage_class(mode: str | None = None, zones: Any = ()) -> Any:
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}] if zones else []
    return thing("StorageClass", "s", volumeBindingMode=mode, allowedTopologies=topologies)


def volume(**labels: str) -> Any:
    return thing("PersistentVolume", "v", metadata={"labels": labels})


def capacity(size: Any = None, most: Any = None) -> Any:
    fields = {"capacity": size, "maximumVolumeSize": most}
    return thing("CSIStorageCapacity", "c", "default", **{k: v for k, v in fields.items() if v is not None})


def driver(tells: bool | None = None) -> Any:
    return thing("CSIDriver", "d", spec={} if tells is None else {"storageCapacity": tells})


def attachment(attacher: str) -> Any:
    return thing("VolumeAttachment", "a", spec={"attacher": attacher, "nodeName": "n"})


ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
EPHEMERAL = {"ephemeral": {"volumeClaimTemplate": {}}}
NOMINATED = {"nominatedNodeName": "n"}
GCE, GCE_READ = ({"gcePersistentDisk": {"pdName": "d", "readOnly": read}} for read in (False, True))
AWS = {"awsElasticBlockStore": {"volumeID": "d"}}
ISCSI, ISCSI_READ = ({"iscsi": {"iqn": "d", "readOnly": read}} for read in (False, True))
RBD = {"rbd": {"monitors": ["a", "b"], "image": "i", "pool": "p"}}
RBD_TOO = {"rbd": {"monitors": ["b", "c"], "image": "i", "pool": "p"}}
RBD_READ = {"rbd": {"monitors": ["b", "c"], "image": "i", "pool": "p", "readOnly": True}}
RBD_OTHER = {"rbd": {"monitors": ["c"], "image": "i", "pool": "p"}}
NONE = volumes()
NAMES = volumes(claiming("c"))
OWNS = volumes(EPHEMERAL)
INLINE = volumes({"csi": {"driver": "d"}})

CASES: list[tuple[str, Pod, Any, Any, bool | None]] = [
    ("VolumeRestrictions", volumes(GCE), volumes(GCE, name="q"), None, True),
    ("VolumeRestrictions", volumes(GCE_READ), volumes(GCE_READ, name="q"), None, False),
    ("VolumeRestrictions", volumes(GCE_READ), volumes(GCE, name="q"), None, True),
    ("VolumeRestrictions", volumes(AWS), volumes(AWS, name="q"), None, True),
    ("VolumeRestrictions", volumes(AWS), volumes(GCE, name="q"), None, False),
    ("VolumeRestrictions", volumes(AWS), volumes(AWS, name="q", namespace="other"), None, False),
    ("VolumeRestrictions", volumes(ISCSI), volumes(ISCSI_READ, name="q"), None, True),
    ("VolumeRestrictions", volumes(ISCSI_READ), volumes(ISCSI_READ, name="q"), None, False),
    ("VolumeRestrictions", volumes(RBD), volumes(RBD_TOO, name="q"), None, True),
    ("VolumeRestrictions", volumes(RBD), volumes(RBD_READ, name="q"), None, True),
    ("VolumeRestrictions", volumes(RBD_READ), volumes(RBD_READ, name="q"), None, False),
    ("VolumeRestrictions", volumes(RBD), volumes(RBD_OTHER, name="q"), None, False),
    ("VolumeRestrictions", NAMES, volumes(claiming("c"), name="q"), None, True),
    ("VolumeRestrictions", NAMES, volumes(claiming("d"), name="q"), None, False),
    ("VolumeRestrictions", NONE, None, node(), True),
    ("VolumeRestrictions", NAMES, None, claim(), True),
    ("VolumeRestrictions", NAMES, None, claim("d"), False),
    ("VolumeRestrictions", NAMES, None, claim(namespace="other"), False),
    ("VolumeRestrictions", OWNS, None, claim("p-v0"), False),
    ("VolumeRestrictions", NAMES, claim(), claim(), None),
    ("NodeVolumeLimits", NONE, None, csi_node(), True),
    ("NodeVolumeLimits", NONE, csi_node(("d", 1)), csi_node(("d", 2)), True),
    ("NodeVolumeLimits", NONE, csi_node(("d", 2)), csi_node(("d", 1)), False),
    ("NodeVolumeLimits", NONE, csi_node(), csi_node(("d", 1)), True),
    ("NodeVolumeLimits", NONE, csi_node(("d", 1)), csi_node(("d", None)), False),
    ("NodeVolumeLimits", NONE, volumes(claiming("c"), name="q", on="n"), None, True),
    ("NodeVolumeLimits", NONE, volumes(EPHEMERAL, name="q", on="n"), None, True),
    ("NodeVolumeLimits", NONE, volumes(AWS, name="q", status=NOMINATED), None, True),
    ("NodeVolumeLimits", NONE, volumes(claiming("c"), name="q"), None, False),
    ("NodeVolumeLimits", NONE, volumes(ISCSI, name="q", on="n"), None, False),
    ("NodeVolumeLimits", NAMES, None, claim(), True),
    ("NodeVolumeLimits", OWNS, None, claim("p-v0"), True),
    ("NodeVolumeLimits", NAMES, None, claim("d"), False),
    ("NodeVolumeLimits", NAMES, attachment("x"), None, True),
    ("NodeVolumeLimits", volumes(AWS), attachment("ebs.csi.aws.com"), None, True),
    ("NodeVolumeLimits", volumes(GCE), attachment("ebs.csi.aws.com"), None, False),
    ("NodeVolumeLimits", NONE, attachment("x"), None, False),
    ("NodeVolumeLimits", NONE, None, node(), None),
    ("VolumeBinding", NONE, None, storage_class(), True),
    ("VolumeBinding", NONE, storage_class(), storage_class(zones=["a"]), True),
    ("VolumeBinding", NONE, storage_class(), storage_class("Immediate"), False),
    ("VolumeBinding", NAMES, None, claim(), True),
    ("VolumeBinding", NAMES, claim(), claim(), True),
    ("VolumeBinding", OWNS, claim("p-v0"), claim("p-v0"), True),
    ("VolumeBinding", NAMES, claim("d"), claim("d"), False),
    ("VolumeBinding", NONE, None, volume(), True),
    ("VolumeBinding", NONE, volume(), volume(), True),
    ("VolumeBinding", NONE, None, node(), True),
    ("VolumeBinding", NONE, node(labels={"a": "b"}), node(), True),
    ("VolumeBinding", NONE, None, csi_node(), True),
    ("VolumeBinding", NONE, csi_node(), csi_node(migrated="x"), True),
    ("VolumeBinding", NONE, csi_node(), csi_node(("d", 1)), False),
    ("VolumeBinding", INLINE, driver(True), driver(False), True),
    ("VolumeBinding", INLINE, driver(True), driver(), True),
    ("VolumeBinding", INLINE, driver(False), driver(True), False),
    ("VolumeBinding", NONE, driver(True), driver(False), False),
    ("VolumeBinding", INLINE, None, driver(), None),
    ("VolumeBinding", NONE, None, capacity(), True),
    ("VolumeBinding", NONE, capacity(), capacity("1Gi"), True),
    ("VolumeBinding", NONE, capacity("1Gi"), capacity("2Gi"), True),
    ("VolumeBinding", NONE, capacity("2Gi"), capacity("1Gi"), False),
    ("VolumeBinding", NONE, capacity("1Gi"), capacity("2Gi", "1Gi"), False),
    ("VolumeBinding", NONE, capacity("1Gi"), capacity(), False),
    ("VolumeZone", NONE, None, storage_class("WaitForFirstConsumer"), True),
    ("VolumeZone", NONE, None, storage_class("Immediate"), False),
    ("VolumeZone", NONE, storage_class(), storage_class(zones=["a"]), None),
    ("VolumeZone", NONE, None, node(), True),
    ("VolumeZone", NONE, node(labels={"a": "b"}), node(), True),
    ("VolumeZone", NAMES, None, claim(), True),
    ("VolumeZone", NAMES, claim(), claim(), True),
    ("VolumeZone", OWNS, None, claim("p-v0"), False),
    ("VolumeZone", NONE, None, volume(), True),
    ("VolumeZone", NONE, volume(**{ZONE: "a"}), volume(**{ZONE: "b"}), True),
    ("VolumeZone", NONE, volume(**{BETA: "a__b"}), volume(**{BETA: "b__a"}), False),
    ("VolumeZone", NONE, volume(), volume(**{ZONE: "a____b"}), False),
    ("VolumeZone", NONE, volume(), volume(other="a"), False),
]


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.mark.parametrize(("plugin", "rejected", "old", "new", "worth"), CASES)
def test_an_event_is_worth_a_try_if_it_may_help(
    scheduler: Scheduler, plugin: str, rejected: Pod, old: Any, new: Any, worth: bool | None
) -> None:
    assert ask(scheduler, plugin, rejected, old, new) is worth


RESTRICTED = [
    (rejected, old, new, worth)
    for name, rejected, old, new, worth in CASES
    if name == "VolumeRestrictions" and worth is not None and (new or old).kind != "Node"
]


@pytest.mark.parametrize(("rejected", "old", "new", "worth"), RESTRICTED)
def test_an_event_that_helps_has_a_key_of_the_pod(
    scheduler: Scheduler, rejected: Pod, old: Any, new: Any, worth: bool
) -> None:
    registered = scheduler.queue.hints.by_profile["default-scheduler"]["VolumeRestrictions"]
    (hint,) = [one.hint for one in registered if one.event.resource == (new or old).kind]
    assert hint is not None
    index = index_of(hint)
    assert index is not None
    keys, event_keys = index.keys(rejected), index.event_keys(old, new)
    assert keys is not None
    assert event_keys is not None
    assert keys.intersection(event_keys) or not worth
