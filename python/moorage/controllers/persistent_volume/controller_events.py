"""Reasons of the controller's events (controller/volume/events)."""

from __future__ import annotations

NORMAL = "Normal"
WARNING = "Warning"

FAILED_BINDING = "FailedBinding"
VOLUME_MISMATCH = "VolumeMismatch"
VOLUME_FAILED_RECYCLE = "VolumeFailedRecycle"
VOLUME_RECYCLED = "VolumeRecycled"
RECYCLER_POD = "RecyclerPod"
VOLUME_DELETE = "VolumeDelete"
VOLUME_FAILED_DELETE = "VolumeFailedDelete"
EXTERNAL_PROVISIONING = "ExternalProvisioning"
PROVISIONING_FAILED = "ProvisioningFailed"
PROVISIONING_CLEANUP_FAILED = "ProvisioningCleanupFailed"
PROVISIONING_SUCCEEDED = "ProvisioningSucceeded"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
WAIT_FOR_POD_SCHEDULED = "WaitForPodScheduled"
CLAIM_LOST = "ClaimLost"
CLAIM_MISBOUND = "ClaimMisbound"
VOLUME_UNKNOWN_RECLAIM_POLICY = "VolumeUnknownReclaimPolicy"
