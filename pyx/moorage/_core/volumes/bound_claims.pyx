"""What the bound claims of pods need of nodes, by descriptions that many pods share.

Each pod of a stateful workload has claims and volumes of its own, which differ in little but their names. A
description has what the plugins about volumes read of the claims of a pod, without the names.
"""

from moorage._core.base cimport METADATA, NAMESPACE, SPEC, VOLUMES, Field
from moorage._core.base.indexed_objects cimport Reader

cdef Field CLAIMED = Field("persistent_volume_claim"), CLAIM_NAME = Field("claim_name")
cdef Field RESOURCE_CLAIMS = Field("resource_claims"), GROUP = Field("scheduling_group")
cdef Field CLAIM_META = Field("metadata"), CLAIM_SPEC = Field("spec"), CLAIM_STATUS = Field("status")
cdef Field ANNOTATIONS = Field("annotations"), CLAIM_DELETION = Field("deletion_timestamp")
cdef Field ACCESS_MODES = Field("access_modes"), VOLUME_NAME = Field("volume_name"), PHASE = Field("phase")
cdef Field VOLUME_META = Field("metadata"), VOLUME_SPEC = Field("spec"), LABELS = Field("labels")
cdef Field AFFINITY = Field("node_affinity"), REQUIRED = Field("required"), CSI = Field("csi")
# Volumes that plugins read, other than by claims of the API.
cdef tuple OTHERS = tuple([
    Field(name)
    for name in (
        "ephemeral", "gce_persistent_disk", "aws_elastic_block_store", "azure_disk", "cinder",
        "portworx_volume", "iscsi", "rbd", "csi",
    )
])

# Sources of volumes whose plugins CSI drivers have replaced.
cdef tuple IN_TREE = tuple([
    Field(name)
    for name in (
        "aws_elastic_block_store", "gce_persistent_disk", "azure_disk", "cinder", "portworx_volume",
    )
])

cdef class BoundClaims:
    """Describes the bound claims of the pods of a batch, and counts the volumes of pods that need what is
    known.

    Parameters
    ----------
    readers : tuple of Reader
        Of the claims and volumes of the informers, and of those of the assume caches. Pods whose claims or
        volumes differ between the two have no description.
    names : tuple of (str, str, tuple of str)
        The annotation of a claim whose binding is complete, the access mode of a claim that one pod at a time
        can use, and the labels of volumes that plugins read.
    in_use : VolumesInUse
    batch : ClaimsOfBatch
        Receives what the pods use.
    counts : bool
        Whether volumes count against limits, or need drivers. Then `in_use` is up to date.
    """

    cdef Reader claims, volumes, believed_claims, believed_volumes
    cdef str complete, for_one_pod
    cdef tuple labels
    cdef object in_use, resolve, share
    cdef dict users, room
    cdef set exclusive
    cdef bint counts, is_current
    # Of the pod that was described last: its claims, those for one pod, and the volumes that may count.
    cdef list keys, for_one, attachable

    def __cinit__(self, tuple readers not None, tuple names not None, in_use not None, batch not None,
                  bint counts):
        self.claims, self.volumes, self.believed_claims, self.believed_volumes = readers
        self.complete, self.for_one_pod, self.labels = names
        self.in_use, self.counts = in_use, counts
        self.users, self.exclusive = batch.volume_users, batch.exclusive
        attached = in_use.attached
        self.resolve, self.room, self.share = attached.resolve, attached.room, attached.share
        self.keys, self.for_one, self.attachable = [], [], []

    def describe(self, pod):
        """Return what the plugins about volumes read of the claims of a pod.

        Parameters
        ----------
        pod : Pod

        Returns
        -------
        tuple of hashable, or None
            None for a pod with other volumes than bound claims, with a claim or a volume twice, with resource
            claims, or of a group.
        """
        cdef object spec = SPEC.of(pod), volume, source
        cdef list found = []
        if RESOURCE_CLAIMS.of(spec) or GROUP.of(spec) is not None:
            return None
        self.keys, self.for_one, self.attachable = [], [], []
        for volume in <tuple>VOLUMES.of(spec):
            source = CLAIMED.of(volume)
            if source is None:
                for other in OTHERS:
                    if (<Field>other).of(volume) is not None:
                        return None
                continue
            key = f"{NAMESPACE.of(METADATA.of(pod))}/{CLAIM_NAME.of(source)}"
            described = None if key in self.keys else self._describe(key)
            if described is None:
                return None
            self.keys.append(key)
            found.append(described)
        return tuple(found)

    def take(self, int at):
        """Note what the pod that was described last uses, if the core can place it.

        Parameters
        ----------
        at : int
            The index of the pod in the batch.

        Returns
        -------
        list of (int, int, int), or None
            See `VolumeCounts.share`. None where others exclude it, or are many; then nothing was noted.
        """
        if self.exclusive:
            for key in self.keys:
                if key in self.exclusive:
                    return None
        if self.for_one:
            if not self.is_current:
                self.in_use.refresh()
                self.is_current = True
            for key in self.for_one:
                if key in self.in_use.claims:
                    return None
        shared = self.share(self.attachable, at, self.users, self.exclusive) if self.attachable else []
        if shared is not None and self.for_one:
            self.exclusive.update(self.for_one)
        return shared

    cdef tuple _describe(self, str key):
        """The description of a claim; None if it is not bound, or the pod has its volume already."""
        cdef object claim = self.claims.read(key), volume, affinity, counted, required = None, driver = None
        if claim is None or not _is_bound(claim, self.complete) \
                or self.believed_claims.read(key) is not claim:
            return None
        name = VOLUME_NAME.of(CLAIM_SPEC.of(claim))
        volume = self.volumes.read(name)
        if volume is None or self.believed_volumes.read(name) is not volume:
            return None
        spec = VOLUME_SPEC.of(volume)
        affinity = AFFINITY.of(spec)
        if affinity is not None:
            required = REQUIRED.of(affinity)
        if self.counts:
            counted = self.resolve(key)
            if counted is not None:
                driver = counted[0]
                if driver in self.room:
                    if counted in self.attachable:
                        return None
                    self.attachable.append(counted)
        cdef bint is_for_one = self.for_one_pod in ACCESS_MODES.of(CLAIM_SPEC.of(claim))
        if is_for_one:
            self.for_one.append(key)
        return required, self._labels_of(volume), driver, _source_of(spec), is_for_one

    cdef tuple _labels_of(self, volume):
        """The values of the labels of a volume that plugins read."""
        cdef dict labels = LABELS.of(VOLUME_META.of(volume))
        return tuple([labels.get(label) for label in self.labels]) if labels else ()


cdef object _source_of(object spec):
    """Whether a volume is one of a CSI driver; else the in-tree plugin that a driver may have replaced."""
    if CSI.of(spec) is not None:
        return True
    for field in IN_TREE:
        if (<Field>field).of(spec) is not None:
            return field
    return False


cdef bint _is_bound(claim, str complete) except -1:
    """Whether a claim is fully bound, has its volume, and stays."""
    meta = CLAIM_META.of(claim)
    if not VOLUME_NAME.of(CLAIM_SPEC.of(claim)) or complete not in ANNOTATIONS.of(meta):
        return False
    return CLAIM_DELETION.of(meta) is None and PHASE.of(CLAIM_STATUS.of(claim)) != "Lost"
