"""Bad volumes, claims and classes: what they say, and the one line that they are refused with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.objects.refusal import refusal

KINDS = {
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "Pod": "v1",
    "StatefulSet": "apps/v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "CSIStorageCapacity": "storage.k8s.io/v1",
}
MODES = "must be one of ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod"
BAD_TERM = "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]}"
POD = "containers: [{name: c}], "
TEMPLATE = "template: {spec: {containers: [{name: c}]}}"

BAD = [
    (
        "PersistentVolume",
        "spec: {capacity: {storage: 1Gx}}",
        'spec.capacity[storage]: "1Gx" is not a quantity: ',
    ),
    (
        "PersistentVolume",
        "spec: {capacity: {storage: -1}}",
        'spec.capacity[storage]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    ("PersistentVolume", "spec: {accessModes: [RWO]}", f'spec.accessModes[0]: {MODES}, not "RWO"'),
    ("PersistentVolume", "spec: {volumeMode: Tape}", "spec.volumeMode: must be one of Filesystem, Block"),
    (
        "PersistentVolume",
        "spec: {persistentVolumeReclaimPolicy: Keep}",
        "spec.persistentVolumeReclaimPolicy: must be one of Retain, Delete, Recycle",
    ),
    ("PersistentVolume", "status: {phase: Lost}", "status.phase: must be one of Pending, Available, Bound,"),
    (
        "PersistentVolume",
        f"spec: {{nodeAffinity: {{required: {BAD_TERM}}}}}",
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]: values: ",
    ),
    (
        "PersistentVolumeClaim",
        "spec: {resources: {requests: {storage: x}}}",
        'spec.resources.requests[storage]: "x" is not a quantity: ',
    ),
    ("PersistentVolumeClaim", 'spec: {accessModes: [""]}', f"spec.accessModes[0]: {MODES}"),
    (
        "PersistentVolumeClaim",
        "spec: {accessModes: [ReadWriteOncePod, ReadWriteOnce]}",
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
    ),
    ("PersistentVolumeClaim", "spec: {volumeMode: b}", "spec.volumeMode: must be one of Filesystem, Block"),
    (
        "PersistentVolumeClaim",
        "spec: {selector: {matchExpressions: [{key: a, operator: Gt}]}}",
        'spec.selector.matchExpressions[0]: "Gt" is not a valid label selector operator',
    ),
    ("PersistentVolumeClaim", "status: {phase: Free}", "status.phase: must be one of Pending, Bound, Lost"),
    (
        "Pod",
        f"spec: {{{POD}volumes: [{{name: v, persistentVolumeClaim: {{}}}}]}}",
        "spec.volumes[0].persistentVolumeClaim.claimName: required",
    ),
    (
        "Pod",
        f"spec: {{{POD}volumes: [{{ephemeral: {{volumeClaimTemplate: {{spec: {{volumeMode: b}}}}}}}}]}}",
        "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode: must be one of",
    ),
    (
        "StatefulSet",
        f"spec: {{{TEMPLATE}, volumeClaimTemplates: [{{spec: {{accessModes: [x]}}}}]}}",
        "spec.volumeClaimTemplates[0].spec.accessModes[0]: must be one of",
    ),
    ("StorageClass", "parameters: {}", "provisioner: required"),
    (
        "StorageClass",
        "provisioner: p, volumeBindingMode: Late",
        'volumeBindingMode: must be one of Immediate, WaitForFirstConsumer, not "Late"',
    ),
    (
        "StorageClass",
        "provisioner: p, reclaimPolicy: x",
        "reclaimPolicy: must be one of Retain, Delete, Recycle",
    ),
    ("CSINode", "spec: {drivers: [{nodeID: m}]}", "spec.drivers[0].name: required"),
    (
        "CSINode",
        "spec: {drivers: [{name: d, allocatable: {count: -1}}]}",
        "spec.drivers[0].allocatable.count: Invalid value: -1",
    ),
    ("CSIStorageCapacity", "capacity: 1Gi", "storageClassName: required"),
    ("CSIStorageCapacity", "storageClassName: c, capacity: x", 'capacity: "x" is not a quantity: '),
    (
        "CSIStorageCapacity",
        "storageClassName: c, maximumVolumeSize: -1Gi",
        'maximumVolumeSize: Invalid value: "-1Gi": must be greater than or equal to 0',
    ),
]


@pytest.mark.parametrize(("kind", "fields", "error"), BAD)
def test_bad_storage_objects_are_refused_with_their_field(
    kind: str, fields: str, error: str, tmp_path: Path
) -> None:
    text = f"{{apiVersion: {KINDS[kind]}, kind: {kind}, metadata: {{name: x}}, {fields}}}"
    (tmp_path / "f.yaml").write_text(text)
    said = refusal(tmp_path / "f.yaml")
    assert said.partition(": ")[2].partition(": ")[2].startswith(error), said
    assert said.startswith(f"f.yaml: {kind} ")
