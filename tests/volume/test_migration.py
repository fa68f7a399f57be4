"""Volumes of in-tree plugins that CSI drivers have replaced (csi-translation-lib)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.doors.engine import (
    MIGRATED,
    driver_and_handle,
    in_tree_plugin,
    inline_driver_and_handle,
    migrated_driver,
    migrated_plugins,
    required_affinity,
)
from tests.volume.make import uses
from tests.words import MIGRATED_PLUGINS

from moorage.engine.volume import VolumeError
from moorage.kube import (
    CSINode,
    DiskVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
EBS = "topology.ebs.csi.aws.com/zone"
SOURCES: dict[str, Any] = {
    "aws_elastic_block_store": DiskVolumeSource(volume_id="aws://a/vol-1"),
    "gce_persistent_disk": DiskVolumeSource(pd_name="d"),
    "azure_disk": DiskVolumeSource(disk_uri="/d"),
    "cinder": DiskVolumeSource(volume_id="d"),
    "portworx_volume": DiskVolumeSource(volume_id="d"),
}
Rules = list[tuple[str, str]]
"""The key and the values, without spaces, of requirements."""


def volume(source: str, *terms: Rules, **labels: str) -> PersistentVolume:
    affinity = VolumeNodeAffinity(required=selector(*terms)) if terms else None
    spec = PersistentVolumeSpec(node_affinity=affinity, **{source: SOURCES[source]})
    names = {"zone": ZONE, "beta_zone": BETA_ZONE, "region": REGION}
    meta = ObjectMeta(name="v", labels={names[name]: value for name, value in labels.items()})
    return PersistentVolume(metadata=meta, spec=spec)


def selector(*terms: Rules) -> NodeSelector:
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=key, operator="In", values=tuple(values.split()))
                    for key, values in term
                )
            )
            for term in terms
        )
    )


def rules(one: PersistentVolume) -> list[Rules] | None:
    """The required affinity of a volume where its plugin is replaced."""
    plugin = in_tree_plugin(one)
    assert plugin is not None
    found = required_affinity(one, (plugin.name,))
    if found is None:
        return None
    return [
        [(rule.key, " ".join(rule.values)) for rule in term.match_expressions]
        for term in found.node_selector_terms
    ]


@pytest.mark.parametrize(
    ("terms", "labels", "expected"),
    [
        ([[(ZONE, "a b")]], {}, [[(EBS, "a b")]]),
        ([[(BETA_ZONE, "a")]], {}, [[(EBS, "a")]]),
        ([[(BETA_ZONE, "a"), (BETA_REGION, "r")]], {}, [[(EBS, "a"), (REGION, "r")]]),
        ([[(ZONE, "a"), (REGION, "r")], [("x", "y")]], {}, [[(EBS, "a"), (REGION, "r")], [("x", "y")]]),
        ([[(ZONE, "a"), (BETA_ZONE, "b")]], {}, [[(EBS, "a"), (BETA_ZONE, "b")]]),
        ([[(ZONE, "a")]], {"zone": "b"}, [[(EBS, "a")]]),
        ([], {"zone": "b__a__a__ "}, [[(EBS, "a b")]]),
        ([], {"beta_zone": "a"}, [[(EBS, "a")]]),
        ([[("x", "y")], [("x", "z")]], {"zone": "a"}, [[("x", "y"), (EBS, "a")], [("x", "z"), (EBS, "a")]]),
        ([[(ZONE, "")]], {"zone": "a"}, [[(ZONE, ""), (EBS, "a")]]),
        ([[(BETA_REGION, "r")]], {}, [[(BETA_REGION, "r")]]),
        ([], {"zone": "__"}, None),
        ([], {"region": "r"}, None),
        ([], {}, None),
    ],
)
def test_zones_become_those_of_the_driver(
    terms: list[Rules], labels: dict[str, str], expected: list[Rules] | None
) -> None:
    assert rules(volume("aws_elastic_block_store", *terms, **labels)) == expected


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("gce_persistent_disk", "topology.gke.io/zone"),
        ("cinder", "topology.cinder.csi.openstack.org/zone"),
        ("azure_disk", ZONE),
        ("portworx_volume", ZONE),
    ],
)
def test_each_driver_has_its_own_label_or_none(source: str, key: str) -> None:
    assert rules(volume(source, [(ZONE, "a-b-c")])) == [[(key, "a-b-c")]]


@pytest.mark.parametrize("source", SOURCES)
def test_where_the_plugin_is_not_replaced_nothing_changes(source: str) -> None:
    one = volume(source, [(ZONE, "a")], zone="b")
    for plugins in ((), ("other",)):
        assert required_affinity(one, plugins) == selector([(ZONE, "a")])


def test_the_plugins_of_a_node_are_those_that_its_annotation_names() -> None:
    meta = ObjectMeta(name="n", annotations={MIGRATED_PLUGINS: "kubernetes.io/aws-ebs,kubernetes.io/cinder"})
    assert "kubernetes.io/cinder" in migrated_plugins(CSINode(metadata=meta))
    for node in (None, CSINode(metadata=ObjectMeta(name="n"))):
        assert not any(plugin.name in migrated_plugins(node) for plugin in MIGRATED.values())


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (
            {"aws_elastic_block_store": DiskVolumeSource(volume_id="aws://a/disk")},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://a/disk)",
        ),
        (
            {"azure_disk": DiskVolumeSource(disk_uri="/d", kind="Shared")},
            "kind(Shared) is not supported in csi migration",
        ),
    ],
)
def test_volumes_that_cannot_be_translated_are_an_error_and_do_not_count(one: Any, text: str) -> None:
    made = replace(volume("cinder"), spec=PersistentVolumeSpec(**one))
    plugin = in_tree_plugin(made)
    assert plugin is not None
    with pytest.raises(VolumeError) as failed:
        required_affinity(made, (plugin.name,))
    assert str(failed.value) == f"could not translate pv: {text}"
    assert driver_and_handle(made) == ("", "")
    inline = replace(uses(claim="c"), name="data", persistent_volume_claim=None, **one)
    with pytest.raises(VolumeError) as failed:
        inline_driver_and_handle(inline)
    assert str(failed.value) == f"converting volume(data) from inline to csi: {text}"


@pytest.mark.parametrize(
    ("zones", "text"),
    [
        ("__", "zone in unexpected format, expected: {locale}-{region}-{zone}, got: "),
        ("us-a__us-b-1", "zone in unexpected format, expected: {locale}-{region}-{zone}, got: us-a"),
        ("us-b-1__us-a-1", "multiple or no regions gotten from zones, got: map[us-a:{} us-b:{}]"),
    ],
)
def test_zones_of_no_region_make_no_handle(zones: str, text: str) -> None:
    made = volume("gce_persistent_disk", zone=zones)
    assert driver_and_handle(made) == ("", "")
    with pytest.raises(VolumeError) as failed:
        required_affinity(made, ("kubernetes.io/gce-pd",))
    assert str(failed.value) == f"could not translate pv: failed to get region from zones: {text}"


@pytest.mark.parametrize(
    ("labels", "where"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({"zone": "us-a-1"}, "zones/us-a-1"),
        ({"zone": "us-a-1", "beta_zone": "us-a-2"}, "zones/us-a-2"),
        ({"zone": "us-a-1__us-a-2"}, "regions/us-a"),
    ],
)
def test_the_handle_of_a_disk_names_its_zone_or_region(labels: dict[str, str], where: str) -> None:
    handle = f"projects/UNSPECIFIED/{where}/disks/d"
    assert driver_and_handle(volume("gce_persistent_disk", **labels)) == ("pd.csi.storage.gke.io", handle)


@pytest.mark.parametrize(
    ("field", "driver", "counts"),
    [
        ("portworx_volume", "pxd.portworx.com", True),
        ("azure_file", "file.csi.azure.com", False),
        ("vsphere_volume", "csi.vsphere.vmware.com", False),
    ],
)
def test_inline_volumes_of_replaced_plugins(field: str, driver: str, counts: bool) -> None:
    inline = replace(
        uses(claim="c"), persistent_volume_claim=None, **{field: DiskVolumeSource(volume_id="d")}
    )
    assert migrated_driver(inline) == driver
    assert inline_driver_and_handle(inline) == ((driver, "d") if counts else ("", ""))
